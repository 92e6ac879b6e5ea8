"""The simulated node as a thing of its own: its direct wire, its bytes, its life, its scripts' prison."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest

from lab.redis_model import Durable, ErrorReply, RedisModel, Status
from lab.redis_model.keyspace import snapshot
from lab.redis_model.monitor import monitor_line
from lab.redis_model.reply import pack
from lab.redis_model.scripts import MILLION_STEPS_MAX
from tests.sim.redis_arms import Replies, SimArm, ask


def test_the_direct_wire_answers_in_python() -> None:
    model = SimArm().model
    assert model.call("SET", "a", b"1", "NX", "PX", 5000) == b"OK"
    assert isinstance(model.call("SET", "a", 2), Status)
    assert model.call(b"get", b"a") == b"2"
    assert model.call("GET", "none") is None
    assert model.call("LPOP", "none", 2) is None
    assert model.call("BLPOP", "none", 0) is None
    assert model.call("FOO") == ErrorReply("ERR unknown command 'FOO', with args beginning with: ")
    assert "PFADD is not simulated" in str(model.call("PFADD", "s", "a"))
    assert model.call("HSET", "h", "f", "v") == 1
    assert model.call("HGETALL", "h") == [b"f", b"v"]
    assert isinstance(model.call("MONITOR"), ErrorReply)
    assert isinstance(model.call("SUBSCRIBE", "c"), ErrorReply)


def test_a_direct_session_has_its_own_transaction() -> None:
    model = SimArm().model
    session = model.connect(lambda data: None)
    assert session.call("MULTI") == b"OK"
    assert session.call("SET", "a", 1) == b"QUEUED"
    assert model.call("GET", "a") is None
    assert session.call("EXEC") == [b"OK"]
    assert model.call("GET", "a") == b"1"


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_requests_may_come_in_pieces(size: int) -> None:
    replies = Replies()
    pushes: list[bytes] = []
    session = SimArm().model.connect(pushes.append)
    words = ([b"SET", b"a", b"\r\n*1"], [b"PING"], [b"GET", b"a"], [b"PING"])
    data = b"".join(pack(list(each)) for each in words).replace(b"*1\r\n$4\r\nPING", b"PING", 1)
    for at in range(0, len(data), size):
        session.feed(data[at : at + size])
    replies.data = b"".join(pushes)
    assert [replies.next()[1] for _ in range(4)] == ["+OK", "+PONG", "$\r\n*1", "+PONG"]


def test_one_feed_is_answered_at_once() -> None:
    pushes: list[bytes] = []
    SimArm().model.connect(pushes.append).feed(b"PING\r\nPING\r\nECHO x\r\n")
    assert pushes == [b"+PONG\r\n+PONG\r\n$1\r\nx\r\n"]


def test_the_server_ends_a_connection_after_the_last_answer() -> None:
    events: list[str] = []
    model = SimArm().model
    session = model.connect(lambda data: events.append(data.decode()), closed=lambda: events.append("closed"))
    session.feed(b"QUIT\r\nPING\r\n")
    session.feed(b"PING\r\n")
    session.close()
    assert events == ["+OK\r\n", "closed"]
    assert model.call("INFO", "clients") == b"# Clients\r\nconnected_clients:0\r\nblocked_clients:0\r\n"


def test_shutdown_syncs_and_ends_all_connections() -> None:
    arm = SimArm("aof-everysec")
    ended: list[str] = []
    arm.model.on_shutdown = lambda: ended.append("server")
    session = arm.model.connect(lambda data: None, closed=lambda: ended.append("connection"))
    arm.model.connect(lambda data: None)
    session.feed(b"SET a 1\r\nSHUTDOWN\r\n")
    assert ended == ["connection", "server"]
    assert arm.model.stopped
    assert arm.model.durable(True) == arm.model.durable(False)
    arm.restart(power_cut=True)
    assert arm.model.call("GET", "a") == b"1"


def test_a_killed_node_says_nothing_any_more() -> None:
    arm = SimArm()
    heard: list[Any] = []
    session = arm.model.connect(heard.append, closed=lambda: heard.append("closed"))
    arm.model.call("SET", "a", 1, "PX", 10)
    arm.model.drop()
    session.feed(b"PING\r\n")
    session.close()
    arm.model.tick()
    assert (heard, arm.model.next_timer_ns()) == ([], None)


def test_collections_are_in_the_file_and_in_snapshots() -> None:
    arm = SimArm("aof-always")
    for words in (
        "ZADD z 1.5 a 2 b 3 c",
        "ZINCRBY z 0.1 a",
        "ZPOPMAX z",
        "ZINTERSTORE y 2 z z WEIGHTS 1 0",
        "SADD s a b c",
        "SPOP s",
        "SPOP s 1",
        "RPUSH l a b c a",
        "LREM l 0 a",
        "LMOVE l m LEFT RIGHT",
        "HSETEX h PX 100000 FIELDS 1 a 1",
    ):
        assert not isinstance(arm.model.call(*words.split()), ErrorReply)
    before = dict(arm.model.keys.data)
    copy = SimArm().model
    for command in snapshot(arm.model.keys):
        copy.call(*command)
    arm.restart(power_cut=True)
    assert arm.model.keys.data == before == copy.keys.data
    assert len(before[b"s"]) == 1


def test_a_new_life_has_another_run_id_and_the_scripts_are_gone() -> None:
    arm = SimArm("aof-always")
    before = arm.model.run_id
    digest = arm.model.call("SCRIPT", "LOAD", "return 1")
    assert arm.model.call("EVALSHA", digest, 0) == 1  # type: ignore[arg-type]
    arm.restart(power_cut=False)
    assert arm.model.run_id != before
    assert str(arm.model.call("EVALSHA", digest, 0)).startswith("NOSCRIPT")  # type: ignore[arg-type]


def test_a_transaction_that_was_cut_off_is_not_loaded() -> None:
    arm = SimArm("aof-always")
    arm.model.call("SET", "a", 1)
    session = arm.model.connect(lambda data: None)
    session.feed(b"MULTI\r\nSET a 2\r\nSET b 2\r\nEXEC\r\n")
    whole = arm.model.durable(False).aof
    assert whole is not None
    for cut, expected in ((1, [b"1", None]), (0, [b"2", b"2"])):
        kept = Durable(whole[: len(whole) - cut])
        again = RedisModel("A", durable=kept, **arm.surroundings())
        assert again.call("MGET", "a", "b") == expected


def test_whoever_watches_without_a_wire_sees_what_a_monitor_sees() -> None:
    arm = SimArm()
    seen: list[tuple[list[bytes], str]] = []
    arm.model.on_command = lambda args, peer: seen.append((list(args), peer))
    ask(arm.connect(), "EVAL", "return redis.call('get', KEYS[1])", "1", "k")
    assert [(args[0], peer) for args, peer in seen] == [(b"EVAL", "127.0.0.1:50001"), (b"get", "lua")]


def test_a_monitor_line_has_six_digits_of_a_second_and_escapes() -> None:
    line = monitor_line(1_700_000_000_000_042, "127.0.0.1:50001", [b"SET", b'a"\\', b"\n\r\t\a\b\x00\xff~ "])
    expected = r'+1700000000.000042 [0 127.0.0.1:50001] "SET" "a\"\\" "\n\r\t\a\b\x00\xff~ "'
    assert line == expected.encode() + b"\r\n"


def test_who_waited_longest_is_served_first() -> None:
    arm = SimArm()
    wires = [arm.connect() for _ in range(3)]
    for wire in wires:
        wire.write(b"BLPOP l m 0\r\n")
    arm.model.call("RPUSH", "l", "1", "2")
    assert [wire.read() for wire in wires[:2]] == [["$l", "$1"], ["$l", "$2"]]
    arm.model.call("RPUSH", "m", "3")
    assert wires[2].read() == ["$m", "$3"]
    assert arm.model.call("EXISTS", "l", "m") == 0


def test_what_a_waiting_client_takes_is_in_the_file() -> None:
    arm = SimArm("aof-always")
    wire = arm.connect()
    wire.write(b"BLPOP l 0\r\n")
    arm.model.call("RPUSH", "l", "1", "2")
    assert wire.read() == ["$l", "$1"]
    arm.restart(power_cut=True)
    assert arm.model.call("LRANGE", "l", 0, -1) == [b"2"]


ESCAPES = [
    "return python",
    "return io",
    "return os.execute('true')",
    "return require",
    "return debug",
    "return dofile",
    "return package",
    "return getfenv",
    "return redis.call.__class__",
    "return redis.call.__self__",
    "return getmetatable('').__index.dump",
    "string.rep = nil",
    "rawset(string, 'rep', 1)",
    "getmetatable(_G).__index = nil",
    "return loadstring('return os')().clock()",
    "while true do end",
    "return string.rep('x', 10, 20, {}) .. nil",
]


@pytest.mark.parametrize("body", ESCAPES)
def test_scripts_reach_nothing_outside(body: str) -> None:
    assert isinstance(SimArm().model.call("EVAL", body, 0), ErrorReply)


def test_a_script_returns_what_is_in_its_table_itself() -> None:
    for body in ("return redis", "return setmetatable({}, {__index = function(t, k) return k end})"):
        assert SimArm().model.call("EVAL", body, 0) == []


def test_every_script_may_do_as_many_steps_as_any_other() -> None:
    model = SimArm().model
    for _ in range(MILLION_STEPS_MAX + 5):
        assert model.call("EVAL", "for i = 1, 1100000 do end return 1", 0) == 1


def test_scripts_leave_nothing_behind() -> None:
    first, second = SimArm().model, SimArm().model
    first.call("EVAL", "redis.call('set', 'a', ARGV[1]) KEYS[1] = 'x'", 0, "v")
    assert second.call("EVAL", "return {#KEYS, #ARGV, redis.call('exists', 'a')}", 0) == [0, 0, 0]


def test_random_numbers_of_scripts_come_from_the_node() -> None:
    body = "return {tostring(math.random()), math.random(100), math.random(5, 6)}"
    drawn = [SimArm().model.call("EVAL", body, 0) for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_a_bug_in_a_command_is_not_taken_for_an_error_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimArm().model
    monkeypatch.setattr(model.keys, "get", lambda key: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        model.call("EVAL", "return pcall(redis.call, 'exists', 'a')", 0)


PROGRAM = """
import random
from lab.redis_model import RedisModel
now = [1_700_000_000_000_000_000]
model = RedisModel("A", wall_ns=lambda: now[0], monotonic_ns=lambda: now[0], persistence="aof-everysec",
                   random=random.Random(3))
for n in range(300):
    now[0] += 7_000_000
    model.call("HSET", "s", f"m{n * 37 % 50}", n)
    model.call("EVAL", "redis.call('hset', KEYS[1], ARGV[1], tostring({})) return 1", 1, "h", f"f{n % 9}")
    model.call("SET", f"k{n % 7}", n, "PX", 40)
    if (due := model.next_timer_ns()) is not None and due <= now[0]:
        model.tick()
print(model.run_id, model.call("HKEYS", "s"), model.call("HGETALL", "h"), model.call("KEYS", "*"))
print(model.durable(False))
"""


def test_two_processes_with_other_hash_seeds_do_the_same() -> None:
    reported = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(reported) == 1


def test_the_random_source_is_the_only_one() -> None:
    arm = SimArm()
    state = random.getstate()
    arm.model.call("EVAL", "return tostring(math.random())", 0)
    assert random.getstate() == state
