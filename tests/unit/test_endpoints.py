"""Endpoints without a server: URLs, passwords, what the guard lets through, what scenarios may say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab import addresses as endpoints
from lab.addresses import Endpoint, password_of, without_password
from lab.api.runs import RunRequest, existing
from lab.errors import LabError
from lab.scenario.load import load_scenario
from lab.substrates.endpoints.guard import Guard
from tests.lab_process import ROOT

PREFIX = "lock-lab:0123456789abcdef:"
TWO = 'cluster.endpoints=["rediss://lab@127.0.0.1:1","rediss://lab@127.0.0.1:2"]'


@pytest.fixture(autouse=True)
def _no_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_given", {})
    monkeypatch.delenv(endpoints.PASSWORD_VARIABLE, raising=False)
    monkeypatch.delenv(endpoints.FILE_VARIABLE, raising=False)


def test_a_url_says_where_and_who() -> None:
    assert Endpoint.parse("rediss://lab@db.example:6380/3") == Endpoint("db.example", 6380, "lab", 3)
    assert Endpoint.parse("redis://[::1]") == Endpoint("::1", 6379, "", 0, tls=False)
    assert Endpoint.parse("rediss://lab@[::1]:1").words == "[::1]:1/0 by TLS"
    for bad in ("http://db", "rediss://", "db:6379", "rediss://db/x", "rediss://db:x", "rediss://u:p@db"):
        with pytest.raises(ValueError, match="it"):
            Endpoint.parse(bad)


def test_a_password_is_taken_out_of_the_url_and_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert without_password("rediss://lab:a%40b@db:1/3") == "rediss://lab@db:1/3"
    assert password_of(Endpoint("db", 1)) == "a@b"
    assert password_of(Endpoint("db", 2)) is None
    (tmp_path / "secret").write_text("in a file\n")
    monkeypatch.setenv(endpoints.FILE_VARIABLE, str(tmp_path / "secret"))
    assert password_of(Endpoint("db", 2)) == "in a file"
    monkeypatch.setenv(endpoints.PASSWORD_VARIABLE, "from the environment")
    assert password_of(Endpoint("db", 2)) == "from the environment"
    assert endpoints.PASSWORD_VARIABLE not in os.environ
    assert password_of(Endpoint("db", 3)) == "from the environment"
    assert "a@b" not in repr(Endpoint.parse("rediss://lab@db:1"))


@pytest.mark.parametrize(
    "url", ["rediss://lab:secret@", "rediss://lab:sec#ret@db:1", "redis:lab:secret@db:x"]
)
def test_no_error_shows_a_password(url: str) -> None:
    with pytest.raises(LabError) as error:
        load_scenario("healthy", existing(url, None))
    assert "sec" not in error.value.render()


def test_a_scenario_has_no_password() -> None:
    with pytest.raises(LabError) as error:
        load_scenario("healthy", ('cluster.endpoints=["rediss://lab:secret@db:1"]',))
    assert "secret" not in error.value.render()
    assert "it has a password" in error.value.render()
    assert "LOCK_LAB_PASSWORD" in error.value.render()


def guard() -> tuple[Guard, list[str]]:
    """A guard, and the keys that it notes."""
    noted: list[str] = []
    return Guard(PREFIX, 3, noted.append), noted


@pytest.mark.parametrize(
    "request_",
    [
        f"SET {PREFIX}k v NX PX 10",
        f"eval script 2 {PREFIX}k {PREFIX}k:fence other",
        f"DEL {PREFIX}k {PREFIX}l",
        f"SUBSCRIBE {PREFIX}k",
        f"BLPOP {PREFIX}k 0",
        "EVAL script 0",
        "PING",
        "SELECT 3",
        "HELLO 3",
        "client setname lab",
        "SCRIPT LOAD text",
    ],
)
def test_what_is_let_through(request_: str) -> None:
    mine, noted = guard()
    words = [word.encode() for word in request_.split()]
    assert mine.refuses(words) is None
    assert noted == [key for key in dict.fromkeys(request_.split()) if key.startswith("lock-lab:")]


NEVER = (
    "FLUSHALL FLUSHDB KEYS SCAN CONFIG DEBUG REPLICAOF SLAVEOF SHUTDOWN MONITOR ACL AUTH RESET FUNCTION"
    " MODULE SAVE BGSAVE BGREWRITEAOF CLUSTER FAILOVER SWAPDB MIGRATE RESTORE RANDOMKEY DBSIZE SLOWLOG"
    " LATENCY SORT COPY RENAME"
)


@pytest.mark.parametrize(
    "request_",
    [
        *(f"{name} {PREFIX}k" for name in NEVER.split()),
        "SET k v",
        "SET lock-lab:other:k v",
        f"DEL {PREFIX}k other",
        f"EVAL script 2 {PREFIX}k other",
        "EVAL script x",
        "EVAL script",
        "PUBLISH channel text",
        "SUBSCRIBE channel",
        "PSUBSCRIBE *",
        "SELECT 0",
        "HELLO 3 AUTH lab secret",
        "CLIENT KILL ID 3",
        "CLIENT",
        "SCRIPT FLUSH",
        "BLPOP other 0",
    ],
)
def test_what_is_not_let_through(request_: str) -> None:
    mine, noted = guard()
    assert mine.refuses([word.encode() for word in request_.split()])
    assert noted == []


STEPS = {
    "crash": "{crash: {nodes: [A]}}",
    "shutdown": "{shutdown: {nodes: [A]}}",
    "power_cut": "{power_cut: {nodes: [A]}}",
    "pause": "{pause: {node: A}}",
    "jump": "{jump: {node: A, by: +5s}}",
    "evict": "{evict: {nodes: [A]}}",
    "stall_disk": "{stall_disk: {nodes: [A]}}",
    "answers": "{answers: {client: alice, nodes: [A], error: BUSY}}",
}


@pytest.mark.parametrize("fault", STEPS)
def test_what_is_done_to_servers_is_refused_by_name(fault: str) -> None:
    with pytest.raises(LabError) as error:
        RunRequest("healthy", (TWO, f"steps=[{{do: alice acquires}}, {STEPS[fault]}]"), seed=1).plan()
    assert error.value.seen.startswith("endpoints cannot ")
    assert error.value.seen.endswith(f": {fault}")
    assert error.value.hint is not None
    assert "local" in error.value.hint


def test_an_anchor_that_is_not_heard_is_refused_by_name() -> None:
    with pytest.raises(LabError) as error:
        RunRequest("delayed-replies", ("cluster.nodes=2", TWO), seed=1).plan()
    assert "MONITOR would show the commands of everybody else" in error.value.seen
    assert "until executed SET" in error.value.seen


def test_another_substrate_has_no_endpoints() -> None:
    for on, overrides in (("local", (TWO,)), ("endpoints", ())):
        with pytest.raises(LabError) as error:
            RunRequest("healthy", overrides, seed=1, substrate=on).plan()
        assert error.value.where == "--on"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("service", "etcd"),
        ("base_port", "7000"),
        ("server", "redis@7.0"),
        ("replicas", "{B: A}"),
        ("nodes", "3"),
    ],
)
def test_keys_of_started_servers_are_refused(key: str, value: str) -> None:
    with pytest.raises(LabError):
        load_scenario("healthy", (TWO, f"cluster.{key}={value}"))


def test_the_guide_has_the_users_line() -> None:
    from lab.substrates.endpoints.door import ACL_LINE

    assert ACL_LINE in (ROOT / "docs" / "endpoints.md").read_text()
