"""Names of servers, what refuses Sentinels, and what a history says of connections that Sentinel ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab import tools
from lab.cli.app import call
from lab.errors import LabError, UnknownOutcome
from lab.locks import refuse_alone
from lab.shims import NAMES_VARIABLE, preload
from lab.substrates.base import Capability
from lab.substrates.refusals import lacking
from lab.substrates.sentinels import host_name, pairs, server_name
from lab.tools import Missing

RESOLVES = """
import socket, sys
for name in sys.argv[1:]:
    try:
        print(socket.getaddrinfo(name, 80, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
    except OSError:
        print("none")
"""


def resolved(path: Path, *names: str) -> list[str]:
    """What a process that preloads the shim makes of these names."""
    shim = tools.find("names-shim")
    if isinstance(shim, Missing):
        pytest.skip(f"{shim.reason}: run `{shim.hint}`")
    env = {**os.environ, "LD_PRELOAD": preload(shim.path), NAMES_VARIABLE: str(path)}
    done = subprocess.run(
        [sys.executable, "-Sc", RESOLVES, *names], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


def test_a_process_resolves_the_names_of_its_own_file(tmp_path: Path) -> None:
    alice, bob = tmp_path / "alice.names", tmp_path / "bob.names"
    alice.write_text("node-a 127.77.1.1\nnode-b 127.77.1.2\n")
    bob.write_text("node-a 127.77.2.1\n")
    assert resolved(alice, "node-a", "NODE-B", "node-c", "127.0.0.9") == [
        "127.77.1.1",
        "127.77.1.2",
        "none",
        "127.0.0.9",
    ]
    assert resolved(bob, "node-a", "node-b") == ["127.77.2.1", "none"]
    assert resolved(tmp_path / "nothing", "node-a", "127.0.0.9") == ["none", "127.0.0.9"]


def test_a_server_has_one_name_by_which_processes_know_it() -> None:
    for server, host in (("A", "node-a"), ("S1", "sentinel-1")):
        assert host_name(server) == host
        assert server_name(host) == server
    for host in ("127.0.0.1", "other-a", "node-"):
        with pytest.raises(UnknownOutcome, match="none of this cluster"):
            server_name(host)


def test_a_substrate_without_sentinels_says_why() -> None:
    said = lacking("endpoints", {Capability.SENTINELS})
    assert said == "endpoints cannot run Redis Sentinels (Sentinels that exist are not asked)"


def test_who_reaches_whom() -> None:
    reached = pairs(["alice"], ["A", "B"], ["S1"])
    assert reached == [
        *(("alice", "A"), ("alice", "B"), ("alice", "S1")),
        *(("A", "B"), ("B", "A"), ("S1", "A"), ("S1", "B")),
    ]


def test_a_lock_that_asks_sentinels_needs_some() -> None:
    refuse_alone("failover", "here")
    with pytest.raises(LabError, match="asks Sentinels for the master, and there are none"):
        refuse_alone("sentinel", "here")


def test_lab_test_says_how_such_a_lock_can_be_examined() -> None:
    with pytest.raises(LabError) as caught:
        call(["test", "sentinel", "--budget", "1s"])
    assert "lab test sentinel --replicas 2 --sentinels 3" in (caught.value.hint or "")


def test_sentinels_need_a_replica_and_a_lock_that_is_given_a_client() -> None:
    with pytest.raises(LabError, match="without a replica that they could promote") as caught:
        call(["test", "sentinel", "--sentinels", "3"])
    assert caught.value.hint == "lab test sentinel --replicas 2 --sentinels 3"
    several = "tests.locks_to_test.ordinary.with_asyncio:OnMost"
    with pytest.raises(LabError, match="is given clients, not a client"):
        call(["test", several, "--replicas", "2", "--sentinels", "3"])


@pytest.mark.parametrize(
    "command",
    [
        ["test", "sentinel", "--budget", "1s"],
        ["search", "--lock", "sentinel", "--budget", "1s"],
        ["campaign", "--lock", "sentinel", "--seeds", "0:1"],
        ["suite", "--for", "sentinel"],
    ],
    ids=lambda words: words[0],
)
def test_such_a_lock_is_refused_where_there_are_no_sentinels(command: list[str]) -> None:
    with pytest.raises(LabError, match="asks Sentinels for the master, and there are none"):
        call(command)
