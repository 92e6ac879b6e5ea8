"""A server on PATH runs on every substrate, or is refused with its reason, and is never silently replaced."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import tools
from lab.errors import ExitCode
from lab.servers import DEFAULT
from tests.lab_process import Lab

Put = Callable[[str, str], Path]

STATIC = r"""
#include <stdio.h>
int main(void) { return puts("Redis server v=8.2.9 sha=00000000:0 malloc=libc bits=64 build=0") < 0; }
"""


@pytest.fixture
def put(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """`put(name, shell_lines)`: a program that stands before all others on the PATH of labs."""
    directory = tmp_path / "first-on-path"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")

    def script(name: str, lines: str) -> Path:
        program = directory / name
        program.write_text(f"#!/bin/sh\n{lines}\n")
        program.chmod(0o755)
        return program

    return script


@pytest.fixture
def static(put: Put, tmp_path: Path) -> Path:
    """The default version, on PATH and linked statically, as far as its banner."""
    program, source = put("redis-server", ""), tmp_path / "static.c"
    source.write_text(STATIC)
    if shutil.which("cc") is None or not _linked(source, program):
        pytest.skip("SKIPPED: nothing is linked statically here (no cc, or no static libc)")
    return program


def _linked(source: Path, program: Path) -> bool:
    command = ["cc", "-static", "-o", str(program), str(source)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize("on", ["local", "virtual"])
def test_a_server_on_path_runs(on: str, lab: Lab, put: Put) -> None:
    real = tools.require("redis-server")
    put("redis-server", f'exec {real} "$@"')
    run = lab("run", "healthy", "--on", on)
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    product, _, version = run.verdict["environment"]["server"].partition("@")
    assert f"nodes of {product.capitalize()} {version}, " in run.err


def test_one_that_is_too_old_is_not_silently_replaced(lab: Lab, put: Put) -> None:
    old = put("redis-server", "echo 'Redis server v=6.0.16 sha=00000000:0'")
    run = lab("run", "healthy", "--on", "local")
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    chosen = run.err.splitlines()[1]
    assert f"({old} is Redis 6.0.16, and Redis 6.2 or later, or Valkey is needed)" in chosen
    assert f"{old} is Redis 6.0.16" in lab("doctor").out.replace("\n", "")


def test_another_version_on_path_is_named_and_the_default_runs(lab: Lab, put: Put) -> None:
    other = put("redis-server", "echo 'Redis server v=7.4.9 sha=00000000:0'")
    run = lab("run", "healthy", "--on", "virtual")
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    assert run.verdict["environment"]["server"] == str(DEFAULT)
    passed_over = f"{other} is Redis 7.4.9, and the default is redis@8.2: --server {other} takes this one"
    assert f"of {DEFAULT.words} ({passed_over})" in run.err.splitlines()[1]


def test_a_static_one_is_refused_for_what_preload_libraries_do(lab: Lab, static: Path) -> None:
    why = f"{static} is linked statically: preload libraries have no effect"
    clock = lab("run", "partition-clockjump", "--on", "local")
    assert clock.code == ExitCode.USAGE
    assert f"{why}, so local cannot shift the clock of one node" in clock.err
    power = lab("run", "power-cut-everysec", "--on", "local")
    assert power.code == ExitCode.USAGE
    assert f"{why}, so local cannot cut the power of nodes" in power.err
    virtual = lab("run", "healthy", "--on", "virtual")
    assert virtual.code == ExitCode.USAGE
    assert f"{why}, so it does not run in virtual time" in virtual.err
    driver = lab("test", "cat -u", "--budget", "5s")
    assert driver.code == ExitCode.USAGE
    assert why in driver.err
    found = json.loads(lab("doctor", "--json").out)
    lacks = {one["name"]: one["lacks"] for one in (*found["substrates"], *found["faults"])}
    assert lacks["virtual"] == lacks["power_cut"] == ["shims in redis-server"]
    assert why in lab("doctor").out.replace("\n", "")


def test_one_that_reads_time_past_libc_is_refused_in_virtual_time(lab: Lab, put: Put) -> None:
    says = "echo '1:M * monotonic clock: X86 TSC @ 2299.82 ticks/us'"
    put("redis-server", f"case $1 in --version) echo 'Redis server v=8.2.9';; *) {says};; esac")
    run = lab("run", "healthy", "--on", "virtual")
    assert run.code == ExitCode.USAGE
    assert "Redis 8.2.9, reads time from the processor, past libc (X86 TSC @ 2299.82 ticks/us)" in run.err
    found = json.loads(lab("doctor", "--json").out)
    assert next(one["lacks"] for one in found["substrates"] if one["name"] == "virtual") == [
        "redis-server in virtual time"
    ]


def test_a_suite_names_the_servers_before_and_after(lab: Lab) -> None:
    run = lab("suite", "healthy", "--on", "sim", "--json")
    assert run.code == ExitCode.EXPECTED
    assert "sim: simulated Redis " in run.err
    assert json.loads(run.out)["servers"][0].startswith("simulated Redis ")
