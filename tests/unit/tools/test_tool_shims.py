"""Building the shims: with the compiler at hand, once for all, never twice at the same time."""

from __future__ import annotations

import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import tools
from lab.errors import LabError
from lab.tools import Found, Missing, wheels
from lab.tools.model import SourceFailed
from lab.tools.shims import Compiler, compiler

MakeProgram = Callable[[str, str], Path]

CC = shutil.which("cc")
PROVIDE = "import sys; from lab import tools; print(tools.provide(sys.argv[1], lambda line: None).path)"

pytestmark = pytest.mark.skipif(platform.system() != "Linux", reason="LD_PRELOAD shims are for Linux")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler")


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Path:
        raise SourceFailed("No matching distribution")

    monkeypatch.setattr(wheels, "download", refuse)


@pytest.fixture
def counting_cc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """$CC is the real compiler, and every compilation leaves a line in the returned file."""
    log = tmp_path / "compilations"
    log.touch()
    wrapper = tmp_path / "counting-cc"
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo "$@" >> {log};; esac\nexec {CC} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", f"{wrapper} -g0")
    return log


@needs_cc
def test_all_are_built_at_once_and_found_again(counting_cc: Path) -> None:
    found = tools.provide("sync-shim", lambda _: None)
    assert found.origin == "cc"
    assert found.path.name == "sync.so"
    for name in ("clock-shim", "names-shim", "vtime-shim", "conductor"):
        other = tools.find(name)
        assert isinstance(other, Found)
        assert other.origin == "cache"
    commands = counting_cc.read_text().splitlines()
    assert len(commands) == 5
    assert all(" -Wall -Wextra -Werror " in command and "-g0" in command for command in commands)


@needs_cc
@pytest.mark.full
def test_two_labs_at_once_build_once(counting_cc: Path) -> None:
    names = ["clock-shim", "sync-shim", "clock-shim", "sync-shim"]
    labs = [
        subprocess.Popen([sys.executable, "-c", PROVIDE, name], stdout=subprocess.PIPE, text=True)
        for name in names
    ]
    paths = [lab.communicate(timeout=100)[0].strip() for lab in labs]
    assert [lab.returncode for lab in labs] == [0, 0, 0, 0]
    assert paths[:2] == paths[2:]
    assert all(Path(path).is_file() for path in paths)
    assert len(counting_cc.read_text().splitlines()) == 5


@pytest.mark.full
@needs_cc
def test_a_changed_source_is_built_anew(
    counting_cc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.tools import shims

    sources = tmp_path / "sources"
    shutil.copytree(shims._SOURCES, sources)
    monkeypatch.setattr(shims, "_SOURCES", sources)
    first = tools.provide("clock-shim", lambda _: None)
    with (sources / "clock.c").open("a") as source:
        source.write("/* changed */\n")
    assert isinstance(tools.find("clock-shim"), Missing)
    assert tools.provide("clock-shim", lambda _: None).path != first.path


@needs_cc
def test_a_source_with_a_warning_is_not_built(
    no_wheel: None, counting_cc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lab.tools import shims

    (tmp_path / "clock.c").write_text("static int unused;\n")
    monkeypatch.setattr(shims, "_SOURCES", tmp_path)
    with pytest.raises(LabError, match="unused") as caught:
        tools.provide("clock-shim", lambda _: None)
    assert "- ziglang wheel: No matching distribution" in caught.value.seen
    assert "C compiler" in (caught.value.hint or "")


def test_no_compiler_at_all(no_wheel: None, on_path: MakeProgram) -> None:
    assert isinstance(compiler(), Missing)
    with pytest.raises(LabError) as caught:
        tools.provide("clock-shim", lambda _: None)
    assert "- cc: no C compiler: there is no cc, gcc or clang on PATH" in caught.value.seen


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ("cc (Debian 12.2.0-14+deb12u1) 12.2.0", "gcc 12.2.0"),
        ("Debian clang version 14.0.6", "gcc 14.0.6"),
        ("gcc (GCC) 13.2.1 20230801 (Red Hat 13.2.1-3)", "gcc 13.2.1"),
        ("home-made", "home-made"),
    ],
)
def test_the_compiler_and_its_version(on_path: MakeProgram, banner: str, version: str) -> None:
    on_path("gcc", f"echo '{banner}'")
    at_hand = compiler()
    assert isinstance(at_hand, Compiler)
    assert at_hand.command == ("gcc",)
    assert at_hand.version == version


def test_cc_of_the_environment_comes_first(on_path: MakeProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path("cc", "echo cc 1.0")
    on_path("mine", "echo mine 2.0")
    monkeypatch.setenv("CC", "mine --flag")
    at_hand = compiler()
    assert isinstance(at_hand, Compiler)
    assert at_hand.command == ("mine", "--flag")
    monkeypatch.setenv("CC", "gone")
    missing = compiler()
    assert isinstance(missing, Missing)
    assert "$CC (gone)" in missing.reason


def test_a_cache_that_ld_preload_cannot_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "my cache"))
    with pytest.raises(LabError, match="has a space or a colon") as caught:
        tools.provide("clock-shim", lambda _: None)
    assert "LOCK_LAB_CACHE" in (caught.value.hint or "")


def test_not_on_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    with pytest.raises(LabError, match="Linux only, not Darwin"):
        tools.provide("clock-shim", lambda _: None)
