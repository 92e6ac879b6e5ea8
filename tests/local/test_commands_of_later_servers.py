"""A lock that uses what the real servers at hand lack: no verdict, and the version that it needs."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from checker.history.events import Event
from checker.history.history import History
from lab.analysis.lacking import lacking
from lab.redis_model.known import command_use
from lab.servers import Server, server_in
from lab.tools import require
from tests.lab_process import Lab

LOCKS = "tests.locks_to_test.by_condition:"


@pytest.mark.full
def test_a_run_on_real_servers_names_the_version_that_a_lock_needs(lab: Lab) -> None:
    use = command_use("delex")
    here = server_of_this_machine()
    assert use is not None
    if use.is_in(here):
        pytest.skip(f"{here.words} has DELEX")
    run = lab("run", "healthy", "--on", "local", "--lock", f"{LOCKS}ByCondition")
    assert run.code == 3
    assert f"the lock uses DELEX, which needs Redis 8.4; the nodes are {here.words}" in run.out


def server_of_this_machine() -> Server:
    banner = subprocess.run(
        [require("redis-server"), "--version"], capture_output=True, text=True, check=True
    )
    found = server_in(banner.stdout)
    assert found is not None
    return found


def test_the_table_decides_and_not_the_words_of_an_error() -> None:
    history = history_with("resource: ERR unknown command `DELEX`, with args beginning with: ")
    old, new = Server("redis", "6.2.14"), Server("redis", "8.4.0")
    assert [*lacking(history, old)] == [
        "the lock uses DELEX, which needs Redis 8.4; the nodes are Redis 6.2.14"
    ]
    assert [*lacking(history, new)] == []
    fork = Server("redict", "7.3.6")
    assert [*lacking(history, fork)] == [
        "the lock uses DELEX, which needs Redis 8.4; the nodes are Redict 7.3.6"
    ]
    assert [*lacking(history, Server("dragonfly", "df-v1.27.1"))] == [], "nothing is known of that one"
    assert [*lacking(history_with("ERR unknown command `FOO`"), old)] == []
    assert [*lacking(history, None)] == []


def test_an_option_shows_in_what_was_observed_of_the_key() -> None:
    history = history_with("ERR syntax error", "SET resource token IFEQ token PX 1000")
    said = [*lacking(history, Server("redis", "6.2.14"))]
    assert said == [
        "the lock uses SET … IFEQ, which needs Redis 8.4 or Valkey 8.1; the nodes are Redis 6.2.14"
    ]
    assert [*lacking(history, Server("valkey", "8.1.1"))] == []
    assert [*lacking(history_with("", "SET k v NX PX 1000"), Server("redict", "7.3.6"))] == []
    assert [*lacking(history_with("", "SET IFEQ IFEQ PX 1000"), Server("redis", "6.2.14"))] == []


def history_with(error: str, *commands: str) -> History:
    """A history with this error, and these commands observed on a node."""
    alice: Any = {"process": "alice", "client": "alice", "key": "resource"}
    events = [
        Event(time_ns=1, type="invoke", f="acquire", grant_id="alice-1", ttl_ns=10**9, **alice),
        Event(time_ns=2, type="info", f="acquire", grant_id="alice-1", ttl_ns=10**9, error=error, **alice),
        Event(
            time_ns=3,
            process="node",
            type="info",
            f="key-observed",
            node="A",
            key="resource",
            value={"commands": [{"command": command} for command in commands]},
        ),
    ]
    return History.from_events(events)
