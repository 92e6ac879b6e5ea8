"""One topology for runs and for compose; what no container may do; whose leftovers may be removed."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
import yaml
from requests.exceptions import ConnectionError as RequestsConnectionError

from lab.errors import LabError
from lab.paths import compose_dir
from lab.substrates.base import STORE
from lab.substrates.docker import compose, topology
from lab.substrates.docker.cleanup import (
    BOOT_LABEL,
    PID_LABEL,
    SPACE_LABEL,
    STARTED_LABEL,
    STATE_LABEL,
    is_dead,
    owner_labels,
    remove_run,
)
from lab.substrates.docker.container import Container, Watch, in_words, is_ours

if TYPE_CHECKING:
    from docker import APIClient

    from lab.substrates.docker.engine import Engine


def test_the_compose_files_are_what_the_topology_says() -> None:
    reported = "python -m lab.substrates.docker.compose writes it anew"
    assert (compose_dir() / "compose.yaml").read_text() == compose.compose_yaml(), reported
    assert (compose_dir() / compose.PROXIES).read_text() == compose.proxies_json(), reported


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(compose.compose_yaml())["services"]
    return found


def test_compose_and_runs_start_the_same(tmp_path: Path) -> None:
    by_hand = services()
    for name in (*compose.NODES, STORE):
        mounts = topology.NodeMounts(tmp_path, tmp_path, name, records_syncs=False)
        in_a_run = topology.node_spec(name, compose.NODES, "none", mounts)
        where = in_a_run.command.index(str(topology.DATA))
        assert in_a_run.command[1] == f"{topology.DATA}/{topology.MORE}"
        command = [*in_a_run.command[:1], *in_a_run.command[2:where], "/tmp", *in_a_run.command[where + 1 :]]
        assert by_hand[name]["command"] == command
        assert by_hand[name]["network_mode"] == f"service:{in_a_run.shares}"


def test_only_loopback_is_bound_and_nothing_is_privileged() -> None:
    for name, service in services().items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", []))
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"] is True
        assert not {"privileged", "cap_add", "devices", "pid"} & set(service)
        assert "docker.sock" not in str(service)
    assert topology.HARDENED["cap_drop"] == ["ALL"]


def test_every_link_has_a_proxy_and_a_port() -> None:
    published = {port.split(":")[1] for port in services()[topology.PROXY]["ports"]}
    listens = [proxy["listen"].split(":")[1] for proxy in compose.proxies()]
    assert len(set(listens)) == len(compose.CLIENTS) * (len(compose.NODES) + 1)
    assert set(listens) <= published
    behind = {proxy["upstream"] for proxy in compose.proxies() if proxy["name"].endswith("-A")}
    assert behind == {f"127.0.0.1:{topology.FIRST_NODE_PORT}"}


def test_a_node_sees_the_clocks_but_cannot_set_them(tmp_path: Path) -> None:
    mounts = topology.NodeMounts(tmp_path / "A", tmp_path / "clocks", "A", records_syncs=True)
    spec = topology.node_spec("A", ("A",), "aof-everysec", mounts)
    writable = {mount.source: mount.writable for mount in spec.mounts}
    assert writable == {tmp_path / "A": True, tmp_path / "clocks": False}
    assert spec.environment["LD_PRELOAD"] == f"{topology.SYNC_SHIM}:{topology.CLOCK_SHIM}"
    store = topology.node_spec(
        STORE, ("A",), "aof-always", topology.NodeMounts(tmp_path, tmp_path, None, records_syncs=False)
    )
    assert store.environment == {}
    assert "--appendonly no" in " ".join(store.command)


def test_a_client_sees_the_users_code_only_if_it_needs_it(tmp_path: Path) -> None:
    without = topology.client_spec("alice", tmp_path / "clocks", tmp_path / "events", None, "image")
    assert {str(mount.source) for mount in without.mounts} == {f"{tmp_path}/clocks", f"{tmp_path}/events"}
    reported = ("alice", tmp_path / "clocks", tmp_path / "events", tmp_path / "mine", "image")
    spec = topology.client_spec(*reported)
    assert spec.directory == str(topology.CODE)
    assert "-P" not in spec.command, "a module of the user's must be found"
    assert "-P" in topology.client_spec(*reported, imports_code=False).command
    assert not next(mount for mount in spec.mounts if mount.source == tmp_path / "mine").writable


def test_what_this_process_made_is_not_dead() -> None:
    assert not is_dead(owner_labels("x"))


@pytest.mark.parametrize(
    ("changed", "dead"),
    [
        ({STARTED_LABEL: "1"}, True),
        ({PID_LABEL: "4194305"}, True),
        ({BOOT_LABEL: "another"}, True),
        ({PID_LABEL: "4194305", SPACE_LABEL: "pid:[1]"}, False),
        ({PID_LABEL: "?"}, False),
        ({PID_LABEL: "4194305", STATE_LABEL: "/elsewhere"}, False),
    ],
    ids=[
        "its id was reused",
        "it ended",
        "the machine was booted",
        "another pid namespace",
        "damaged",
        "state elsewhere",
    ],
)
def test_whose_leftovers_are_removed(changed: dict[str, str], dead: bool) -> None:
    assert is_dead(owner_labels("x") | changed) is dead


@pytest.mark.parametrize("dies_at", ["containers", "networks"])
def test_an_engine_that_dies_meanwhile_is_told_in_its_own_words(dies_at: str) -> None:
    class Dying:
        def _ask(self, what: str) -> list[Any]:
            if what == dies_at:
                raise RequestsConnectionError("('Aborted.', ...)") from ConnectionRefusedError(111, "refused")
            return []

        def containers(self, **asked: object) -> list[Any]:
            return self._ask("containers")

        def networks(self, **asked: object) -> list[Any]:
            return self._ask("networks")

    with pytest.raises(LabError, match="did not remove run x: refused") as caught:
        remove_run(cast("APIClient", Dying()), "x")
    assert caught.value.hint == "lab down tries again"


def test_a_network_namespace_is_removed_after_those_who_share_it() -> None:
    parts = ["toxiproxy-alice", "toxiproxy", "A", "client-alice"]
    left = list(parts)

    class LikePodman:
        def containers(self, **asked: object) -> list[Any]:
            return [{"Id": part, "Labels": {topology.PART_LABEL: part}} for part in parts]

        def networks(self, **asked: object) -> list[Any]:
            return []

        def remove_container(self, part: str, **asked: object) -> None:
            if part.startswith(topology.PROXY) and not all(map(parts[:2].__contains__, left)):
                raise RequestsConnectionError("it has dependent containers")
            left.remove(part)

    assert remove_run(cast("APIClient", LikePodman()), "x") == 4
    assert left == []


class Body(Container):
    """A container that was started, of which nobody has to ask an engine."""

    def __init__(self, name: str) -> None:
        super().__init__(cast("Engine", None), topology.Spec(name, "", ()), name)
        self.begin_life()

    def begin_life(self) -> None:
        self._end = asyncio.get_running_loop().create_future()

    def tail(self, lines: int = 5) -> str:
        return ""


def death(name: str, at_ns: int, code: int = 137) -> dict[str, Any]:
    return {"Actor": {"ID": name, "Attributes": {"exitCode": str(code)}}, "timeNano": at_ns}


async def test_a_stream_of_deaths_that_ends_is_asked_for_again() -> None:
    is_up_again, is_over = threading.Event(), threading.Event()
    asked = itertools.count()

    def deaths(since_s: int) -> Iterator[dict[str, Any]]:
        if next(asked) == 0:
            yield death("A", 5)
            return
        is_up_again.wait(30)
        yield death("A", 5)
        yield death("B", 3)
        is_over.wait(30)

    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    watch = Watch(deaths, failed)
    a, b = Body("A"), Body("B")
    for body in (a, b):
        body.expected_end = True
        watch.add(body)
    assert await asyncio.wait_for(a.ended(), 10) == 137
    a.begin_life()
    is_up_again.set()
    assert await asyncio.wait_for(b.ended(), 10) == 137
    assert a.running, "what is told again is its first death"
    watch.close()
    is_over.set()
    assert not failed.done()


async def test_an_engine_that_ends_every_stream_fell_silent() -> None:
    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    Watch(lambda since_s: iter(()), failed)
    assert await asyncio.wait_for(failed, 10) == "the docker engine fell silent"


def test_a_process_of_this_machine_is_no_container() -> None:
    assert not is_ours(os.getpid())
    assert not is_ours(0x7FFFFFFF)


def test_how_containers_end_in_words() -> None:
    assert in_words(0) == "exit code 0"
    assert in_words(137) == "killed by SIGKILL"
    assert in_words(255) == "exit code 255"
