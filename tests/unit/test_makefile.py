"""Which Python the Makefile makes the environment with."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLOW = "sys.base_prefix, args['CONFIG_ARGS'] = '/opt/pyenv', '--with-lto'"
OPTIMISED = "sys.base_prefix, args['CONFIG_ARGS'] = '/opt/pyenv', '--enable-optimizations --with-lto'"
OF_THE_SYSTEM = "sys.base_prefix, args['CONFIG_ARGS'] = '/usr', ''"
WITHOUT_ARGUMENTS = "sys.base_prefix, args['CONFIG_ARGS'] = '/opt/pyenv', None"
FIT = "sys.version_info, sys.modules['ensurepip'] = (3, 11, 0), sys"
TOO_OLD = "sys.version_info, sys.modules['ensurepip'] = (3, 10, 9), sys"
WITHOUT_PIP = "sys.version_info, sys.modules['ensurepip'] = (3, 11, 0), None"

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="SKIPPED: make is not installed")


def python(path: Path, so: str) -> Path:
    """A Python that is ``so``: it sets that up, and runs what it is given with ``-c``."""
    begins = f"import sys, sysconfig; args = sysconfig.get_config_vars(); {so}; exec(sys.argv[1])"
    path.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-ISc", begins])} "$2"\n')
    path.chmod(0o755)
    return path


def chosen(directory: Path, *words: str) -> str:
    """What ``make`` takes, with the Python in this directory as ``python3``, and these words."""
    of_make = ("MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "PYTHON", "SYSTEM")
    apart = {name: value for name, value in os.environ.items() if name not in of_make}
    return subprocess.run(
        ["make", "-s", "--eval", "show: ; @echo $(PYTHON)", *words, "show"],
        cwd=ROOT,
        env={**apart, "PATH": f"{directory}{os.pathsep}{os.environ['PATH']}"},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


@pytest.mark.parametrize(
    ("first", "system", "gives_way"),
    [
        pytest.param(SLOW, FIT, True, id="not optimised"),
        pytest.param(WITHOUT_ARGUMENTS, FIT, True, id="nothing known of it"),
        pytest.param(SLOW, TOO_OLD, False, id="the other too old"),
        pytest.param(SLOW, WITHOUT_PIP, False, id="the other without ensurepip"),
        pytest.param(OPTIMISED, FIT, False, id="optimised"),
        pytest.param(OF_THE_SYSTEM, FIT, False, id="of the system"),
    ],
)
def test_a_slow_python_gives_way_to_one_of_the_system_that_is_fit(
    first: str, system: str, gives_way: bool, tmp_path: Path
) -> None:
    python(tmp_path / "python3", first)
    other = python(tmp_path / "of-the-system", system)
    assert chosen(tmp_path, f"SYSTEM={other}") == (str(other) if gives_way else "python3")


def test_a_slow_python_stays_where_the_system_has_none(tmp_path: Path) -> None:
    python(tmp_path / "python3", SLOW)
    assert chosen(tmp_path, f"SYSTEM={tmp_path / 'gone'}") == "python3"


def test_the_python_that_is_asked_for_is_taken(tmp_path: Path) -> None:
    python(tmp_path / "python3", SLOW)
    other = python(tmp_path / "of-the-system", FIT)
    assert chosen(tmp_path, f"SYSTEM={other}", "PYTHON=python3.12") == "python3.12"
