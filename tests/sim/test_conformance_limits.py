"""One contract, two arms: whom a server with limits refuses, and what it evicts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.redis_model.limits import NEED_MEMORY, Limits, NotSimulated
from lab.redis_model.registry import COMMANDS
from lab.servers import ServerSettings
from tests.sim.redis_arms import Arm, RealArm, SimArm, Wire, ask, fields, real_arm, until

Config = dict[str, str]
DELETE = "return redis.call('del', KEYS[1])"
MANY = "redis.call('del', KEYS[1]) redis.call('set', KEYS[1], 'x') return 1"
FILL = "return redis.call('set', KEYS[1], string.rep('x', 3000000))"
FILL_KEYS = 40


@contextlib.contextmanager
def both(directory: Path, config: Config) -> Iterator[tuple[Arm, Arm]]:
    """A simulated and a real server with these directives."""
    settings = ServerSettings(config=tuple(config.items()))
    with real_arm(directory, "none", settings) as real:
        yield SimArm(settings=settings, server=real.server), real


def seconds(wire: Wire) -> int:
    """What TIME says, in whole seconds."""
    return int(ask(wire, "TIME")[0][1:])


def fill(wire: Wire, *, ttl_ms: int | None = None) -> list[str]:
    """Write much more than there is room for; return the answers."""
    more = () if ttl_ms is None else ("PX", ttl_ms)
    return [ask(wire, "SET", f"fill{at}", "x" * 500_000, *more) for at in range(FILL_KEYS)]


def wait(arm: Arm, *command: str, answer: str) -> None:
    """Send a command until it has this answer."""
    wire = arm.connect()
    until(lambda: ask(wire, *command) == answer, f"{command} is answered with {answer}")


def test_without_a_good_replica_nothing_is_written(tmp_path: Path) -> None:
    told = []
    with both(tmp_path / "real", {"min-replicas-to-write": "1"}) as arms:
        for arm in arms:
            wire = arm.connect()
            told.append(
                [
                    ask(wire, "SET", "a", "1"),
                    ask(wire, "GET", "a"),
                    ask(wire, "DEL", "none"),
                    ask(wire, "MULTI"),
                    ask(wire, "SET", "a", "1"),
                    ask(wire, "EXEC"),
                    ask(wire, "PUBLISH", "c", "m"),
                ]
            )
            # How a script tells an error depends on the version.
            assert "NOREPLICAS Not enough good replicas to write." in ask(wire, "EVAL", DELETE, 1, "a")
    assert told[0] == told[1]
    assert told[0][:2] == ["-NOREPLICAS Not enough good replicas to write.", None]


def test_a_replica_that_reports_lets_its_master_write(tmp_path: Path) -> None:
    settings = ServerSettings(config=(("min-replicas-to-write", "1"), ("min-replicas-max-lag", "2")))
    with (
        real_arm(tmp_path / "master", "none", settings) as master,
        real_arm(tmp_path / "replica", "none") as replica,
    ):
        pairs: tuple[tuple[Arm, Arm], ...] = ((SimArm(settings=settings), SimArm()), (master, replica))
        for one, other in pairs:
            assert ask(one.connect(), "SET", "a", "1").startswith("-NOREPLICAS")
            other.follow(one)
            wait(one, "SET", "a", "1", answer="+OK")
            wait(other, "GET", "a", answer="$1")
            if isinstance(one, SimArm):
                one.pass_ms(4_000)  # the replica does not report meanwhile
            else:
                ask(other.connect(), "REPLICAOF", "NO", "ONE")
            wait(one, "SET", "a", "2", answer="-NOREPLICAS Not enough good replicas to write.")


def test_a_full_server_refuses_what_needs_memory(tmp_path: Path) -> None:
    told = []
    with both(tmp_path / "real", {"maxmemory": "8mb"}) as arms:
        for arm in arms:
            wire = arm.connect()
            ask(wire, "SET", "a", "1", "PX", "100000")
            # A server with 7 MB takes 3 MB more; whatever it frees of its buffers then is too little.
            assert [ask(wire, "SET", f"fill{at}", "x" * 1_000_000) for at in range(6)] == ["+OK"] * 6
            # A script, since a long command would count itself before it runs.
            assert ask(wire, "EVAL", FILL, 1, "fill6") == "+OK"
            told.append(
                [
                    ask(wire, "SET", "b", "1"),
                    ask(wire, "GET", "a"),
                    ask(wire, "PEXPIRE", "a", "200000"),
                    ask(wire, "EVAL", MANY, 1, "a"),  # what has written may write more
                    ask(wire, "EVAL", DELETE, 1, "a"),
                    ask(wire, "DEL", "none"),
                    ask(wire, "MULTI"),
                    ask(wire, "GET", "a"),
                    ask(wire, "EXEC"),
                ]
            )
            in_script = ask(wire, "EVAL", "return redis.call('set', KEYS[1], 'x')", 1, "c")
            assert "OOM command not allowed when used memory > 'maxmemory'." in in_script
            ask(wire, "DEL", *(f"fill{at}" for at in range(FILL_KEYS)))
            assert ask(wire, "SET", "b", "1") == "+OK"
    assert told[0] == told[1]


@pytest.mark.parametrize("policy", ["volatile-ttl", "volatile-lru", "volatile-random"])
def test_keys_with_a_ttl_are_evicted_and_no_others(tmp_path: Path, policy: str) -> None:
    with both(tmp_path / "real", {"maxmemory": "8mb", "maxmemory-policy": policy}) as arms:
        for arm in arms:
            wire = arm.connect()
            ask(wire, "SET", "held", "1", "PX", "10000")
            ask(wire, "SET", "kept", "1")
            filled = fill(wire)
            assert filled[0] == "+OK"
            assert filled[-1].startswith("-OOM")
            assert ask(wire, "MGET", "held", "kept") == [None, "$1"]
            assert fields(ask(wire, "INFO", "stats"))["evicted_keys"] == "1"


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-ttl"])
def test_a_key_goes_in_the_end_if_others_are_written(tmp_path: Path, policy: str) -> None:
    with both(tmp_path / "real", {"maxmemory": "8mb", "maxmemory-policy": policy}) as arms:
        for arm in arms:
            wire = arm.connect()
            ask(wire, "SET", "held", "1", "PX", "10000")
            tries = 0
            while ask(wire, "EXISTS", "held") == ":1" and tries < 20:
                tries += 1
                assert set(fill(wire, ttl_ms=3_600_000)) == {"+OK"}
            assert tries < 20


def test_a_key_that_is_used_stays_with_lru(tmp_path: Path) -> None:
    with both(tmp_path / "real", {"maxmemory": "8mb", "maxmemory-policy": "allkeys-lru"}) as arms:
        for arm in arms:
            wire = arm.connect()
            for name in "abcdefghijkl":
                ask(wire, "SET", name, "x" * 500_000)
            if isinstance(arm, SimArm):
                arm.pass_ms(3_000)
            else:
                began = seconds(wire)
                until(lambda: seconds(wire) > began + 2, "time passes")  # noqa: B023 - called at once
            for name in "abcdef":
                ask(wire, "GET", name)
            for at in range(4):
                ask(wire, "SET", f"more{at}", "x" * 500_000)
            used, unused = (int(ask(wire, "EXISTS", *names)[1:]) for names in ("abcdef", "ghijkl"))
            assert used > unused, "it compares some keys only, so one that is used may go"
            assert unused < 6


def test_what_needs_memory_is_what_servers_say_needs_it(tmp_path: Path) -> None:
    with real_arm(tmp_path / "real") as real:
        wire = real.connect()
        told = set()
        commands = set(COMMANDS.values()).union(*(each.children.values() for each in COMMANDS.values()))
        for name in {command.name for command in commands}:
            (about,) = ask(wire, "COMMAND", "INFO", name)
            if about not in (None, "*-1") and "+denyoom" in about[2]:
                told.add(name)
    assert told - {"subscribe", "psubscribe"} | {"msetex"} == NEED_MEMORY


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"lua-time-limit": "5000"}, "lua-time-limit 5000 is not simulated"),
        ({"maxmemory-policy": "allkeys-lfu"}, "maxmemory-policy allkeys-lfu is not simulated"),
        ({"maxmemory": "1mb"}, "maxmemory 1mb is not simulated"),
        ({"maxmemory": "much"}, "maxmemory much is no size such as 8mb"),
        ({"min-replicas-to-write": "one"}, "min-replicas-to-write one is no whole number"),
    ],
)
def test_what_is_not_simulated_is_refused_by_name(config: Config, said: str) -> None:
    with pytest.raises(NotSimulated, match=said):
        Limits.of(tuple(config.items()))


def test_appendfsync_no_syncs_nothing_until_the_end(tmp_path: Path) -> None:
    settings = ServerSettings(config=(("appendfsync", "no"),))
    with real_arm(tmp_path / "real", "aof-everysec", settings) as real:
        arms: tuple[Arm, ...] = (SimArm("aof-everysec", settings=settings), real)
        for arm in arms:
            ask(arm.connect(), "SET", "a", "1")
            if isinstance(arm, SimArm):
                arm.pass_ms(5_000)
            assert isinstance(arm, RealArm | SimArm)
            assert b"\r\na\r\n" in arm.disk().unsynced
            arm.restart(power_cut=True)
            assert ask(arm.connect(), "GET", "a") is None
