"""One contract, two arms: what is written, what is synced, and what is still there after the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.redis_model.persistence import Persistence
from lab.servers import ServerSettings, save_points
from tests.sim.redis_arms import Arm, RealArm, SimArm, Wire, ask, fields, real_arm, until

WRITES = (
    ("SET", "a", "1"),
    ("SET", "b", "2", "NX", "PX", "1000000"),
    ("SET", "b", "3", "NX", "PX", "1000000"),
    ("PEXPIRE", "a", "2000000"),
    ("INCR", "n"),
    ("GETDEL", "n"),
    ("INCRBYFLOAT", "f", "0.5"),
    ("RPUSH", "l", "1", "2"),
    ("LPOP", "l"),
    ("HSET", "h", "f", "v"),
    ("EVAL", "redis.call('set',KEYS[1],'x','PX',3000000) redis.call('incr',KEYS[2]) return 1", "2", "e", "c"),
    ("EVAL", "return redis.call('get',KEYS[1])", "1", "e"),
    ("MULTI",),
    ("SET", "m", "1"),
    ("INCR", "m"),
    ("EXEC",),
    ("SETEX", "x", "5000", "v"),
    ("PERSIST", "x"),
    ("GETEX", "x", "PX", "4000000"),
    ("RENAME", "x", "y"),
    ("DEL", "c", "none"),
)
KEYS = ("a", "b", "n", "f", "l", "h", "e", "c", "m", "x", "y")


@pytest.fixture(params=["simulated", "real"])
def arms(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """Make servers of one kind: ``arms(persistence)``, or ``arms("rdb", "3600 1")`` with save points."""
    made: list[RealArm] = []

    def make(persistence: Persistence, save: str = "") -> Arm:
        settings = ServerSettings(save_points(save) if save else ())
        if request.param == "simulated":
            return SimArm(persistence, settings=settings)
        arm = RealArm(tmp_path / f"real{len(made)}", persistence, settings)
        made.append(arm)
        return arm

    yield make
    for arm in made:
        arm.kill()


def state(wire: Wire) -> dict[str, Any]:
    """All keys: how they look as a dump, and whether they expire."""
    looks = {
        "$": "GET",
        "list": "LRANGE",
        "hash": "HGETALL",
        "string": "GET",
    }
    shown: dict[str, Any] = {}
    for key in KEYS:
        kind = ask(wire, "TYPE", key)[1:]
        if kind != "none":
            more = ("0", "-1") if kind == "list" else ()
            shown[key] = [kind, ask(wire, looks[kind], key, *more), ask(wire, "PTTL", key) == ":-1"]
    return shown


def synced(arm: Arm) -> bool:
    disk = arm.disk()
    return disk.written > 0 and disk.synced == disk.written


def wait_until_synced(arm: Arm) -> None:
    """The node syncs by itself, given time."""
    if isinstance(arm, SimArm):
        arm.pass_ms(1_100)
    until(lambda: synced(arm), "all is synced")


@pytest.mark.parametrize("persistence", ["none", "aof-everysec", "aof-always"])
def test_a_kill_loses_nothing_that_was_written(arms: Any, persistence: Persistence) -> None:
    arm = arms(persistence)
    wire = arm.connect()
    for words in WRITES:
        ask(wire, *words)
    before = state(wire)
    assert len(before) == 8
    if isinstance(arm, RealArm):  # with everysec a write waits for an fsync that a slow disk has not ended
        until(lambda: arm.unwritten() == 0, "all is written")
    arm.restart(power_cut=False)
    assert state(arm.connect()) == ({} if persistence == "none" else before)


def test_always_has_synced_what_it_answered(arms: Any) -> None:
    arm = arms("aof-always")
    wire = arm.connect()
    for words in WRITES:
        ask(wire, *words)
        assert synced(arm)
    before = state(wire)
    arm.restart(power_cut=True)
    assert state(arm.connect()) == before


def test_everysec_syncs_after_a_while_and_keeps_that_in_a_power_cut(arms: Any) -> None:
    arm = arms("aof-everysec")
    ask(arm.connect(), "SET", "a", "1")
    wait_until_synced(arm)
    arm.restart(power_cut=True)
    assert ask(arm.connect(), "GET", "a") == "$1"


def test_after_a_step_back_everysec_does_not_sync_until_the_clock_has_caught_up(arms: Any) -> None:
    arm = arms("aof-everysec")
    wire = arm.connect()
    ask(wire, "SET", "a", "1")
    wait_until_synced(arm)
    arm.jump(-3_600_000)
    # The sync of the last write may be a second old: from here on the clock shows an earlier second.
    ask(wire, "SET", "b", "1")
    assert not synced(arm)
    assert b"\r\nb\r\n" in arm.disk().unsynced
    arm.jump(3_600_000 + 2_000)
    wait_until_synced(arm)
    arm.jump(-3_600_000)
    ask(wire, "SET", "a", "2")
    arm.restart(power_cut=True)
    assert ask(arm.connect(), "MGET", "a", "b") == ["$1", "$1"]


def test_nothing_expires_while_the_server_is_down_that_its_clock_does_not_end(arms: Any) -> None:
    arm = arms("aof-always")
    wire = arm.connect()
    ask(wire, "SET", "a", "1", "PX", "1000000")
    ask(wire, "SET", "b", "1", "PX", "9000000")
    arm.jump(5_000_000)
    arm.restart(power_cut=False)
    wire = arm.connect()
    assert ask(wire, "MGET", "a", "b") == [None, "$1"]
    arm.jump(-5_000_000)
    assert ask(wire, "GET", "a") is None


def test_what_expired_stays_gone_after_a_restart_with_the_clock_set_right(arms: Any) -> None:
    arm = arms("aof-always")
    wire = arm.connect()
    ask(wire, "SET", "a", "1", "PX", "1000000")
    arm.jump(5_000_000)
    assert ask(wire, "GET", "a") is None
    arm.jump(-5_000_000)
    arm.restart(power_cut=False)
    assert ask(arm.connect(), "GET", "a") is None


def test_without_a_look_the_server_removes_what_expired_by_itself(arms: Any) -> None:
    arm = arms("aof-always")
    wire = arm.connect()
    ask(wire, "SET", "a", "1", "PX", "1000000")
    arm.jump(5_000_000)
    if isinstance(arm, SimArm):
        arm.pass_ms(100)
    until(lambda: ask(wire, "DBSIZE") == ":0", "the key is removed")
    arm.jump(-5_000_000)
    arm.restart(power_cut=False)
    assert ask(arm.connect(), "GET", "a") is None


def changes(arm: Arm) -> int:
    """How many changes there were since the last snapshot."""
    return int(fields(ask(arm.connect(), "INFO", "persistence"))["rdb_changes_since_last_save"])


def wait_until_saved(arm: Arm) -> None:
    """The node writes a snapshot by itself, given time."""
    if isinstance(arm, SimArm):
        arm.pass_ms(2_500)
    until(lambda: changes(arm) == 0, "a snapshot is written")


def test_both_count_the_same_changes(tmp_path: Path) -> None:
    settings = ServerSettings(save_points("3600 1"))
    # Redis before 7.0 counts EXEC too.
    single = tuple(words for words in WRITES if words[0] not in ("MULTI", "EXEC"))
    more = (("DEL", "a", "b", "e"), ("GET", "f"), ("SET", "f", "1", "NX"), ("LPUSH", "l", "1"), ("FLUSHDB",))
    with real_arm(tmp_path / "real", "rdb", settings) as real:
        counted: list[list[Any]] = []
        arms: tuple[Arm, ...] = (SimArm("rdb", settings=settings), real)
        for arm in arms:
            wire = arm.connect()
            counted.append([])
            for words in (*single, *more):
                ask(wire, *words)
                counted[-1].append((words, changes(arm)))
    assert counted[0] == counted[1]


def test_a_kill_loses_what_came_after_the_last_snapshot(arms: Any) -> None:
    arm = arms("rdb", "1 2")
    wire = arm.connect()
    ask(wire, "SET", "a", "1", "PX", "9000000")
    if isinstance(arm, SimArm):
        arm.pass_ms(5_000)
    assert changes(arm) == 1  # one change is too few for the save point
    ask(wire, "SET", "b", "1")
    wait_until_saved(arm)
    ask(wire, "SET", "n", "1")
    for power_cut in (False, True):
        arm.restart(power_cut=power_cut)
        wire = arm.connect()
        assert ask(wire, "MGET", "a", "b", "n") == ["$1", "$1", None]
        assert (ask(wire, "PTTL", "a") != ":-1", changes(arm)) == (True, 0)


def test_a_clock_that_is_set_forward_brings_a_snapshot(arms: Any) -> None:
    arm = arms("rdb", "3600 1")
    wire = arm.connect()
    ask(wire, "SET", "a", "1")
    arm.jump(-3_600_000)
    if isinstance(arm, SimArm):
        arm.pass_ms(1_000)
    assert changes(arm) == 1
    arm.jump(2 * 3_600_000 + 2_000)
    wait_until_saved(arm)
    arm.restart(power_cut=False)
    assert ask(arm.connect(), "GET", "a") == "$1"


def test_a_shutdown_saves_a_snapshot_if_there_are_save_points_or_it_is_told_to(arms: Any) -> None:
    arm = arms("rdb", "3600 1")
    for value, words, kept in ((0, (), "$0"), (1, ("NOSAVE",), "$0"), (2, ("SAVE",), "$2")):
        ask(arm.connect(), "SET", "a", value)
        arm.shut_down(*words)
        assert ask(arm.connect(), "GET", "a") == kept
    without = arms("none")
    ask(without.connect(), "SET", "a", 0)
    without.shut_down()
    assert ask(without.connect(), "GET", "a") is None
    for value, words in ((1, ("SAVE",)), (2, ())):
        ask(without.connect(), "SET", "a", value)
        without.shut_down(*words)
        assert ask(without.connect(), "GET", "a") == "$1"


def test_keys_whose_time_is_over_are_dropped_when_a_snapshot_is_loaded(arms: Any) -> None:
    arm = arms("rdb", "3600 1")
    wire = arm.connect()
    ask(wire, "SET", "a", "1", "PX", "1000000")
    ask(wire, "SET", "b", "1", "PX", "9000000")
    arm.shut_down()
    arm.jump(5_000_000)
    arm.restart(power_cut=False)
    arm.jump(-5_000_000)  # an append-only file would have it again
    assert ask(arm.connect(), "MGET", "a", "b") == [None, "$1"]


def test_flushall_saves_the_empty_database(arms: Any) -> None:
    arm = arms("rdb", "3600 1")
    wire = arm.connect()
    ask(wire, "SET", "a", "1")
    arm.shut_down()
    ask(arm.connect(), "FLUSHALL")
    arm.restart(power_cut=False)
    assert ask(arm.connect(), "DBSIZE") == ":0"


def commands(data: bytes) -> list[list[str]]:
    """The commands of a file; times of expiry and random parts are left out."""
    parts = data.split(b"\r\n")[:-1]
    found: list[list[str]] = []
    at = 0
    while at < len(parts):
        count = int(parts[at][1:])
        words = [part.decode() for part in parts[at + 2 : at + 1 + 2 * count : 2]]
        found.append(["…" if word.isdigit() and len(word) == 13 else word for word in words])
        at += 1 + 2 * count
    return found


def test_both_write_the_same_file(tmp_path: Path) -> None:
    simulated = SimArm("aof-always")
    with real_arm(tmp_path / "real", "aof-always") as real:
        for arm in (simulated, real):
            wire = arm.connect()
            for words in WRITES:
                ask(wire, *words)
            arm.jump(10_000_000)
            ask(wire, "GET", "b")
            ask(wire, "EXISTS", "a", "e", "y")
        ours = simulated.model.durable(False).aof
        theirs = b"".join(path.read_bytes() for path in real.files.glob("appendonlydir/*.incr.aof"))
    assert ours is not None
    last = ["DEL", "c", "none"]
    for reported in (written := commands(ours)), (expected := commands(theirs)):
        # Whether these keys expire one by one or together, and which goes first, is chance.
        expired = sorted(reported[reported.index(last) + 1 :])
        assert [words for words in expired if words[0] == "DEL"] == [["DEL", key] for key in "abey"]
    assert written[: written.index(last)] == expected[: expected.index(last)]
