"""One contract, two arms: a master and its replica, and what becomes of the replica's keys in a failover."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from lab import tools
from lab.servers import DEFAULT, Server
from tests.sim.redis_arms import RealArm, SimArm, Wire, ask, fields, until

BEFORE_7: Final = Server("redis", "6.2.14")
"""The newest that sends durations to its replicas."""


@pytest.fixture(params=["simulated", "real"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """A master that has a key, and a replica that has caught up."""
    yield from pair_of(request.param, DEFAULT, "redis-server", tmp_path)


@pytest.fixture(params=[DEFAULT, BEFORE_7], ids=str)
def server(request: pytest.FixtureRequest) -> Server:
    """A version that sends points in time to its replicas, and one that sends durations."""
    return cast(Server, request.param)


@pytest.fixture(params=["simulated", "real"])
def pair_of_server(
    request: pytest.FixtureRequest, server: Server, tmp_path: Path
) -> Iterator[tuple[Any, Any]]:
    """The same of either server."""
    if request.param == "real" and isinstance(tools.find(str(server)), tools.Missing):
        pytest.skip(f"SKIPPED: {server} is not here: lab setup --server {server}")
    yield from pair_of(request.param, server, str(server), tmp_path)


def pair_of(kind: str, server: Server, real: str, directory: Path) -> Iterator[tuple[Any, Any]]:
    """A master and a replica, simulated or real, gone afterwards."""
    made: list[Any] = []
    for name in ("master", "replica"):
        made.append(
            SimArm(seed=len(made), server=server)
            if kind == "simulated"
            else RealArm(directory / name, server=real)
        )
    master, replica = made
    ask(master.connect(), "SET", "old", "1", "PX", "1000000")
    ask(replica.connect(), "SET", "own", "1")
    replica.follow(master)
    yield master, replica
    for arm in made:
        if isinstance(arm, RealArm):
            arm.kill()


def info(wire: Wire) -> dict[str, str]:
    return fields(ask(wire, "INFO", "replication"))


def caught_up(master: Wire, replica: Wire) -> bool:
    return info(master)["master_repl_offset"] == info(replica)["slave_repl_offset"]


def test_a_replica_has_what_its_master_has_and_nothing_else(pair: Any) -> None:
    master, replica = (arm.connect() for arm in pair)
    assert ask(replica, "MGET", "old", "own") == ["$1", None]
    assert ask(replica, "PTTL", "old") != ":-1"
    for words in (("SET", "a", "1"), ("EVAL", "redis.call('incr','a') return redis.call('incr','a')", "0")):
        ask(master, *words)
    ask(master, "SET", "b", "1", "NX", "PX", "5000000")
    until(lambda: caught_up(master, replica), "the replica has it")
    assert ask(replica, "MGET", "a", "b") == ["$3", "$1"]


def test_a_replica_takes_no_writes(pair: Any) -> None:
    _, replica = (arm.connect() for arm in pair)
    refused = "-READONLY You can't write against a read only replica."
    assert ask(replica, "SET", "a", "1") == refused
    assert ask(replica, "GET", "a") is None
    assert ask(replica, "EVAL", "return redis.call('get','old')", "0") == "$1"
    assert str(ask(replica, "EVAL", "redis.call('set','a','1') return 1", "0")).startswith("-")
    assert ask(replica, "GET", "a") is None
    assert ask(replica, "MULTI") == "+OK"
    assert ask(replica, "SET", "a", "1") == refused
    assert str(ask(replica, "EXEC")).startswith(
        "-EXECABORT Transaction discarded because of previous errors."
    )


def test_both_say_what_they_are(pair: Any) -> None:
    master, replica = (arm.connect() for arm in pair)
    until(lambda: caught_up(master, replica), "the replica has it")
    until(lambda: ask(master, "ROLE")[2], "the master counts on the replica")
    role, _, feeds = ask(master, "ROLE")
    assert (role, len(feeds), feeds[0][0]) == ("$master", 1, "$127.0.0.1")
    role, host, _, state, _ = ask(replica, "ROLE")
    assert (role, host, state) == ("$slave", "$127.0.0.1", "$connected")
    reported = info(replica)
    assert (reported["role"], reported["master_link_status"], reported["slave_read_only"]) == (
        "slave",
        "up",
        "1",
    )
    assert info(master)["connected_slaves"] == "1"
    assert ask(replica, "HELLO")[11] == "$replica"


def test_waiting_for_a_replica(pair: Any) -> None:
    master, replica = (arm.connect() for arm in pair)
    ask(master, "SET", "a", "1")
    assert ask(master, "WAIT", "1", "0") == ":1"
    assert ask(replica, "GET", "a") == "$1"
    assert ask(master, "WAIT", "2", "10") == ":1"
    assert str(ask(replica, "WAIT", "0", "0")).startswith("-ERR WAIT cannot be used with replica instances.")


def test_the_offset_counts_the_bytes_of_what_is_sent(pair: Any) -> None:
    """A master also sends PING once in ten seconds, which a slow machine may see here: it is left out."""
    master, _ = (arm.connect() for arm in pair)
    ask(master, "SET", "warm", "1")

    def offset() -> int:
        return int(info(master)["master_repl_offset"])

    def grown(*words: str) -> int:
        before = offset()
        ask(master, *words)
        return (offset() - before) % len("*1\r\n$4\r\nPING\r\n")

    assert grown("SET", "a", "1") == len("*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n") % 14
    assert grown("GET", "a") == 0
    assert grown("DEL", "none") == 0
    assert grown("PUBLISH", "c", "hi") == len("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$2\r\nhi\r\n") % 14


def test_a_replica_expires_nothing_by_itself(pair: Any) -> None:
    master_arm, replica_arm = pair
    master, replica = master_arm.connect(), replica_arm.connect()
    replica_arm.jump(5_000_000)
    assert ask(replica, "GET", "old") is None
    assert ask(replica, "DBSIZE") == ":1"
    assert ask(replica, "EXISTS", "old") == ":0"
    replica_arm.jump(-5_000_000)
    assert ask(replica, "GET", "old") == "$1"
    master_arm.jump(5_000_000)
    assert ask(master, "GET", "old") is None
    until(lambda: ask(replica, "DBSIZE") == ":0", "the master's DEL arrives")


SETS_A_TIME: Final = (
    ("SET", "k", "v", "PX", "1000000"),
    ("SET", "k", "v", "EX", "1000"),
    ("SETEX", "k", "1000", "v"),
    ("PSETEX", "k", "1000000", "v"),
    ("EXPIRE", "old", "1000"),
    ("PEXPIRE", "old", "1000000"),
    ("GETEX", "old", "EX", "1000"),
    ("EVAL", "return redis.call('set','k','v','PX',1000000)", "0"),
)


@pytest.mark.parametrize("words", SETS_A_TIME, ids=lambda words: words[0])
def test_a_duration_is_counted_by_the_replica_before_7(
    words: tuple[str, ...], server: Server, pair_of_server: Any
) -> None:
    master_arm, replica_arm = pair_of_server
    key = "k" if "k" in words or words[0] == "EVAL" else "old"
    replica_arm.jump(1_100_000)
    master, replica = master_arm.connect(), replica_arm.connect()
    ask(master, *words)
    until(lambda: caught_up(master, replica), "the replica has it")
    left_ms = int(ask(replica, "PTTL", key)[1:])
    if server == BEFORE_7:
        assert 900_000 < left_ms <= 1_000_000
    else:
        assert left_ms == -2, "over, by the replica's clock"
    replica_arm.jump(-1_100_000)


def test_a_point_in_time_is_one_everywhere(pair_of_server: Any) -> None:
    master_arm, replica_arm = pair_of_server
    replica_arm.jump(1_100_000)
    master, replica = master_arm.connect(), replica_arm.connect()
    seconds = int(ask(master, "TIME")[0][1:])
    ask(master, "SET", "k", "v", "PXAT", str((seconds + 1000) * 1000))
    ask(master, "SET", "other", "v")
    ask(master, "EXPIREAT", "other", str(seconds + 1000))
    until(lambda: caught_up(master, replica), "the replica has it")
    assert ask(replica, "MGET", "k", "other") == [None, None]
    replica_arm.jump(-1_100_000)
    assert ask(replica, "MGET", "k", "other") == ["$v", "$v"]


def test_a_replica_that_is_promoted_goes_on_with_what_it_has(pair: Any) -> None:
    master, replica = (arm.connect() for arm in pair)
    before = info(replica)
    assert ask(replica, "REPLICAOF", "NO", "ONE") == "+OK"
    after = info(replica)
    assert (after["role"], after["master_replid2"]) == ("master", before["master_replid"])
    assert after["master_replid"] != before["master_replid"]
    assert int(after["master_repl_offset"]) >= int(before["slave_repl_offset"])
    assert ask(replica, "SET", "new", "1", "NX") == "+OK"
    ask(master, "SET", "late", "1")
    assert ask(replica, "MGET", "old", "late") == ["$1", None]
    pair[1].jump(5_000_000)
    assert ask(replica, "GET", "old") is None
    assert ask(replica, "DBSIZE") == ":1"


def test_messages_go_to_replicas(pair: Any) -> None:
    master, replica = (arm.connect() for arm in pair)
    assert ask(replica, "SUBSCRIBE", "c") == ["$subscribe", "$c", ":1"]
    ask(master, "PUBLISH", "c", "hi")
    assert replica.read() == ["$message", "$c", "$hi"]


def test_replicaof_again(pair: Any) -> None:
    master, replica = (arm.connect() for arm in pair)
    _, host, port, _, _ = ask(replica, "ROLE")
    again = ask(replica, "REPLICAOF", host[1:], str(port).lstrip("$:"))
    assert again == "+OK Already connected to specified master"
    assert ask(master, "REPLICAOF", "NO", "ONE") == "+OK"
    assert str(ask(replica, "REPLICAOF", "127.0.0.1", "x")).startswith("-ERR ")
