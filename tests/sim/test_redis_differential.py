"""Random commands, both arms: the simulated node answers as the server at hand.

Times are compared within what the real server's clock says has passed; keys live for thousands of seconds
and the clock is stepped by hundreds, so that no slowness of the machine decides whether a key has expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lab.redis_model.reply import pack
from tests.sim.record import fresh
from tests.sim.redis_arms import RealArm, Shown, SimArm, Wire, ask, real_arm

KEYS = ("a", "b", "c")
JUMPS_MS = (370_000, 1_110_000, -370_000, -740_000)
"""Sums of these stay minutes away from whole thousands of seconds, which keys live for."""
EXAMPLES = 200

key = st.sampled_from((*KEYS, "a", "a"))
value = st.sampled_from(("", "0", "1", "7", "-3", "x", "tok", "9223372036854775807"))
member = st.sampled_from(("m", "n", "1"))
lifetime_ms = st.sampled_from(("1000000", "5000000", "-1", "0", "x"))
lifetime_s = st.sampled_from(("1000", "5000", "-1", "0"))
small = st.sampled_from(("-2", "-1", "0", "1", "2"))

UNLOCK = "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end"
EXTEND = (
    "if redis.call('get',KEYS[1])~=ARGV[1] then return 0 end "
    "if redis.call('pttl',KEYS[1])<=tonumber(ARGV[2]) then redis.call('pexpire',KEYS[1],ARGV[2]) end "
    "return 1"
)
PENDING = "local r = redis.call('xpending',KEYS[1],'g') return #r"
MIXED = (
    "local t = redis.call('type',KEYS[1]).ok "
    "if t == 'list' then return redis.call('lrange',KEYS[1],0,-1) end "
    "if t == 'string' then return {redis.call('get',KEYS[1]), redis.call('strlen',KEYS[1])} end "
    "return redis.call('rpush',KEYS[2],t)"
)
CATCH = "local r = redis.pcall('incr',KEYS[1]) if type(r) == 'table' then return 'failed' end return r"


def line(*parts: str | st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.tuples(*(st.just(part) if isinstance(part, str) else part for part in parts))


SET_OPTIONS = st.sampled_from(
    ((), ("NX",), ("XX",), ("GET",), ("KEEPTTL",), ("NX", "XX"), ("XX", "GET"), ("KEEPTTL", "PX", "1"))
)


@st.composite
def sets(draw: st.DrawFn) -> tuple[str, ...]:
    lives = draw(st.one_of(st.just(()), line("PX", lifetime_ms), line("EX", lifetime_s)))
    return ("SET", draw(key), draw(value), *draw(SET_OPTIONS), *lives)


STRINGS = (
    sets(),
    sets(),
    line("GET", key),
    line("DEL", key, key),
    line("SETNX", key, value),
    line("GETSET", key, value),
    line("GETDEL", key),
    line("PEXPIRE", key, lifetime_ms),
    line("EXPIRE", key, lifetime_s),
    line("PERSIST", key),
    line("INCR", key),
    line("DECRBY", key, value),
    line("APPEND", key, value),
    line("TYPE", key),
    line("EXISTS", key, key),
    line("RENAME", key, key),
    line("MGET", *KEYS),
    line("RPUSH", key, value, value),
    line("LPUSH", key, value),
    line("LPOP", key),
    line("LPOP", key, small),
    line("LRANGE", key, small, small),
    line("LTRIM", key, small, small),
    line("HSET", key, member, value),
    line("HINCRBY", key, member, value),
    line("HDEL", key, member, member),
    line("HGET", key, member),
    line("MULTI"),
    line("EXEC"),
    line("DISCARD"),
    line("WATCH", key),
    line("EVAL", st.just(UNLOCK), "1", key, value),
    line("EVAL", st.just(EXTEND), "1", key, value, lifetime_ms),
    line("EVAL", st.just(MIXED), "2", key, key),
    line("EVAL", st.just(CATCH), "1", key),
    line("@2", "SET", key, value),
    line("@2", "DEL", key),
    line("@jump", st.sampled_from([str(jump) for jump in JUMPS_MS])),
    line("@jump", st.sampled_from([str(jump) for jump in JUMPS_MS])),
)


entry = st.sampled_from(("1-1", "1-2", "2-0", "2", "3-*", "5-5", "0-0", "x"))
bound = st.sampled_from(("-", "+", "1-1", "(1-1", "2", "(5-5", "0"))
group = st.sampled_from(("g", "h"))
consumer = st.sampled_from(("alice", "bob"))
trim = st.sampled_from(((), ("MAXLEN", "1"), ("MAXLEN", "=", "2"), ("MINID", "2"), ("MAXLEN", "~", "1")))
idle = st.sampled_from(("0", "300000", "1000000"))
limit = st.sampled_from(((), ("COUNT", "1"), ("COUNT", "0"), ("COUNT", "5")))


def spread(*parts: Any) -> st.SearchStrategy[tuple[str, ...]]:
    """A line of which some parts are several words, or none."""
    drawn = (st.just((part,)) if isinstance(part, str) else part for part in parts)
    return st.tuples(*drawn).map(
        lambda words: tuple(w for part in words for w in ((part,) if isinstance(part, str) else part))
    )


read = st.sampled_from((">", "0", "1-1", "$", "2"))
STREAMS = (
    spread("XADD", key, trim, entry, member, value),
    spread("XADD", key, trim, entry, member, value),
    spread("XADD", key, trim, entry, member, value, member, value),
    spread("XADD", key, "NOMKSTREAM", entry, member, value),
    spread("XADD", key, "MAXLEN", "1", "MINID", "1", entry, member, value),
    spread("XADD", key, entry, member),
    spread("XLEN", key),
    spread("XDEL", key, entry, entry),
    spread("XTRIM", key, trim),
    spread("XTRIM", key, "MAXLEN", small),
    spread("XRANGE", key, bound, bound, limit),
    spread("XREVRANGE", key, bound, bound, limit),
    spread("XREAD", limit, "STREAMS", key, key, read, read),
    spread("XGROUP", "CREATE", key, group, read),
    spread("XGROUP", "CREATE", key, group, st.sampled_from(("$", "0", "1-1")), "MKSTREAM"),
    spread("XGROUP", "SETID", key, group, read),
    spread("XGROUP", "DESTROY", key, group),
    spread("XGROUP", "CREATECONSUMER", key, group, consumer),
    spread("XGROUP", "DELCONSUMER", key, group, consumer),
    spread("XREADGROUP", "GROUP", group, consumer, limit, "STREAMS", key, read),
    spread("XREADGROUP", "GROUP", group, consumer, limit, "STREAMS", key, st.just(">")),
    spread("XREADGROUP", "GROUP", group, consumer, "NOACK", "STREAMS", key, st.just(">")),
    spread("XACK", key, group, entry),
    spread("XPENDING", key, group),
    spread("XPENDING", key, group, bound, bound, "5"),
    spread("XPENDING", key, group, "IDLE", idle, "-", "+", small, consumer),
    spread("XCLAIM", key, group, consumer, idle, entry, entry),
    spread("XCLAIM", key, group, consumer, idle, entry, st.sampled_from(("FORCE", "JUSTID", "LASTID"))),
    spread("XCLAIM", key, group, consumer, "0", entry, "RETRYCOUNT", small, "IDLE", idle),
    spread("XAUTOCLAIM", key, group, consumer, idle, bound, limit),
    spread("XAUTOCLAIM", key, group, consumer, idle, bound, "JUSTID"),
    spread("XINFO", "GROUPS", key),
    spread("XINFO", "CONSUMERS", key, group),
    spread("XINFO", "STREAM", key),
    spread("XSETID", key, entry),
    spread("@3", "XREAD", limit, "BLOCK", "0", "STREAMS", key, key, st.just("$"), st.just("$")),
    spread("@3", "XREADGROUP", "GROUP", group, consumer, "BLOCK", "0", "STREAMS", key, st.just(">")),
    spread("@3", "XREADGROUP", "GROUP", group, consumer, "BLOCK", "0", "STREAMS", key, st.just(">")),
    spread("EVAL", st.just(PENDING), "1", key),
    spread("COPY", key, key),
    spread("RENAME", key, key),
    spread("DEL", key),
    spread("SET", key, value),
    spread("TYPE", key),
    spread("MULTI"),
    spread("EXEC"),
    spread("@2", "XADD", key, entry, member, value),
    spread("@jump", st.just("370000")),
)

offset = st.sampled_from(("0", "1", "7", "8", "12", "-1", "4294967296", "x"))
bit_field = st.sampled_from(("u1", "u4", "i8", "u8", "i64", "u64", "x"))
nth = st.sampled_from(("0", "3", "#1", "#2", "-1"))
BITMAPS = (
    spread("SETBIT", key, offset, st.sampled_from(("0", "1", "2"))),
    spread("SETBIT", key, offset, "1"),
    spread("GETBIT", key, offset),
    spread("BITCOUNT", key),
    spread("BITCOUNT", key, small, small),
    spread("BITCOUNT", key, small, small, st.sampled_from(("BIT", "BYTE", "x"))),
    spread("BITPOS", key, st.sampled_from(("0", "1", "2"))),
    spread("BITPOS", key, "0", small),
    spread("BITPOS", key, st.sampled_from(("0", "1")), small, small),
    spread("BITPOS", key, "0", small, small, "BIT"),
    spread("BITOP", st.sampled_from(("AND", "OR", "XOR", "NOT", "x")), key, key, key),
    spread("BITOP", "NOT", key, key),
    spread("BITFIELD", key, "GET", bit_field, nth),
    spread("BITFIELD", key, "SET", bit_field, nth, value),
    spread("BITFIELD", key, "INCRBY", "u4", nth, value, "OVERFLOW", "FAIL", "INCRBY", bit_field, nth, value),
    spread("BITFIELD", key, "OVERFLOW", "SAT", "INCRBY", bit_field, nth, value, "GET", bit_field, nth),
    spread("BITFIELD_RO", key, "GET", bit_field, nth),
    spread("GETRANGE", key, small, small),
    spread("SETRANGE", key, small, value),
    spread("GET", key),
    spread("SET", key, value),
    spread("RPUSH", key, value),
    spread("DEL", key),
    spread("MULTI"),
    spread("EXEC"),
)

score = st.sampled_from(("0", "0", "1", "2.5", "-1", "inf", "x"))
lexical = st.sampled_from(("-", "+", "[m", "(m", "[n", "x"))
rank_words = st.sampled_from(
    ((), ("REV",), ("LIMIT", "0", "1"), ("BYSCORE",), ("BYSCORE", "LIMIT", "1", "1"))
)
end = st.sampled_from(("MIN", "MAX", "LEFT"))
weights = st.sampled_from(((), ("WEIGHTS", "2", "0.5"), ("AGGREGATE", "MAX"), ("WEIGHTS", "2")))
SORTED_SETS = (
    spread("ZADD", key, score, member),
    spread("ZADD", key, "0", member, "0", member),
    spread("ZADD", key, "1", member, "2.5", member),
    spread("ZREM", key, member),
    spread("ZRANGE", key, small, small, rank_words, "WITHSCORES"),
    spread("ZADD", "l", "0", member, "0", member),
    spread("ZRANGE", "l", lexical, lexical, "BYLEX", st.sampled_from(((), ("REV",), ("LIMIT", "0", "1")))),
    spread("ZRANGE", "l", "-", "+", "BYLEX", "WITHSCORES"),
    spread("ZRANGESTORE", "d", key, small, small, rank_words),
    spread("ZRANGESTORE", "d", key, "0", "-1", "WITHSCORES"),
    spread("ZRANGEBYLEX", "l", lexical, lexical),
    spread("ZREVRANGEBYLEX", "l", lexical, lexical, "LIMIT", "0", small),
    spread("ZLEXCOUNT", "l", lexical, lexical),
    spread("ZREMRANGEBYLEX", "l", lexical, lexical),
    spread("ZPOPMIN", key),
    spread("ZMPOP", small, key, key, end),
    spread("ZMPOP", "2", key, key, end, limit),
    spread("@3", "BZPOPMIN", key, key, "0"),
    spread("@3", "BZPOPMAX", key, "0"),
    spread("@3", "BZMPOP", "0", "2", key, key, end, limit),
    spread("ZSCAN", key, "0"),
    spread("ZSCAN", key, "0", "MATCH", st.sampled_from(("m*", "x"))),
    spread("ZUNION", "2", key, key, weights, "WITHSCORES"),
    spread("ZINTER", "2", key, key, weights),
    spread("ZDIFF", "2", key, key, st.sampled_from(((), ("WITHSCORES",), ("WEIGHTS", "1", "1")))),
    spread("ZDIFFSTORE", "d", "2", key, key),
    spread("ZUNIONSTORE", "d", "2", key, key, weights),
    spread("ZINTERCARD", small, key, key),
    spread("ZINTERCARD", "2", key, key, "LIMIT", small),
    spread("ZRANDMEMBER", key, "0"),
    spread("SADD", key, member, member),
    spread("SET", key, value),
    spread("RENAME", key, key),
    spread("DEL", key),
    spread("ZRANGE", "d", "0", "-1", "WITHSCORES"),
    spread("@resp3"),
    spread("@2", "ZADD", key, score, member),
    spread("@2", "DEL", key),
)

side = st.sampled_from(("LEFT", "RIGHT", "x"))
LISTS = (
    spread("RPUSH", key, value, value),
    spread("LPUSH", key, value),
    spread("LRANGE", key, "0", "-1"),
    spread("LMPOP", small, key, key, side),
    spread("LMPOP", "2", key, key, side, limit),
    spread("LMOVE", key, key, side, side),
    spread("BLMOVE", key, key, "LEFT", "RIGHT", st.sampled_from(("-1", "x"))),
    spread("@3", "BLMOVE", key, key, side, side, "0"),
    spread("@3", "BRPOPLPUSH", key, key, "0"),
    spread("@3", "BLMPOP", "0", "2", key, key, side, limit),
    spread("@3", "BLPOP", key, key, "0"),
    spread("LPOS", key, value),
    spread("LPOS", key, value, "RANK", small),
    spread("LPOS", key, value, "RANK", small, "COUNT", small, "MAXLEN", small),
    spread("LINSERT", key, st.sampled_from(("BEFORE", "AFTER")), value, value),
    spread("LREM", key, small, value),
    spread("SET", key, value),
    spread("RENAME", key, key),
    spread("COPY", key, key, st.sampled_from(((), ("REPLACE",), ("DB", "0"), ("x",)))),
    spread("PEXPIRE", key, lifetime_ms),
    spread("DEL", key),
    spread("MULTI"),
    spread("EXEC"),
    spread("@2", "RPUSH", key, value, value),
    spread("@2", "DEL", key),
    spread("@jump", st.just("1110000")),
)

HASHES_AND_SETS = (
    spread("HSET", key, member, value, member, value),
    spread("HINCRBYFLOAT", key, member, st.sampled_from(("0.5", "-1.25", "3", "x", "1e3"))),
    spread("@sorted", "HSCAN", key, "0"),
    spread("@sorted", "HSCAN", key, st.sampled_from(("0", "x")), "MATCH", "m*", "COUNT", small),
    spread("@sorted", "HSCAN", key, "0", "NOVALUES"),
    spread("HRANDFIELD", key, "0"),
    spread("HRANDFIELD", key, "9", "x"),
    spread("HEXPIRE", key, "5000", "FIELDS", "1", member),
    spread("HPTTL", key, "FIELDS", "1", "none"),
    spread("HGETEX", key, "FIELDS", "1", member),
    spread("HGETEX", key, st.sampled_from(("PERSIST", "EX", "PX")), "FIELDS", "1", member),
    spread("HGETEX", key, st.sampled_from(("EX", "PX")), lifetime_s, "FIELDS", small, member, member),
    spread("HGETDEL", key, "FIELDS", "1", member),
    spread("SADD", key, member, member),
    spread("SSCAN", key, "0"),
    spread("SSCAN", key, "0", "COUNT", small),
    spread("SRANDMEMBER", key, "0"),
    spread("@sorted", "SINTER", key, key),
    spread("@sorted", "SUNION", key, key),
    spread("@sorted", "SDIFF", key, key),
    spread(st.sampled_from(("SINTERSTORE", "SUNIONSTORE", "SDIFFSTORE")), key, key, key),
    spread("SINTERCARD", small, key, key),
    spread("SINTERCARD", "2", key, key, "LIMIT", small),
    spread("@sorted", "SMEMBERS", key),
    spread("COPY", key, key, "REPLACE"),
    spread("SET", key, value),
    spread("OBJECT", "FREQ", key),
    spread("CLIENT", st.sampled_from(("NO-TOUCH", "NO-EVICT")), st.sampled_from(("on", "off", "x"))),
    spread("CLIENT", "UNBLOCK", "999999"),
    spread("DEL", key),
    spread("@resp3"),
    spread("@jump", st.just("370000")),
)
FAMILIES = {
    "strings": STRINGS,
    "streams": STREAMS,
    "bitmaps": BITMAPS,
    "sorted sets": SORTED_SETS,
    "lists": LISTS,
    "hashes and sets": HASHES_AND_SETS,
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealArm]:
    with real_arm(tmp_path_factory.mktemp("differential") / "real") as arm:
        yield arm


def _in_order(reply: Shown) -> Shown:
    """A reply whose parts come in no order, in one."""
    if isinstance(reply, dict):
        return {kind: _in_order(items) for kind, items in reply.items()}
    return sorted((_in_order(each) for each in reply), key=str) if isinstance(reply, list) else reply


def _without_times(words: tuple[str, ...], reply: Shown) -> Shown:
    """Leave out how long ago something was."""
    if words[0] == "XPENDING" and len(words) > 3 and isinstance(reply, list):
        return [[*each[:2], *each[3:]] if isinstance(each, list) else each for each in reply]
    if words[:2] == ("XINFO", "CONSUMERS") and isinstance(reply, list):
        return [each[:5] for each in reply]
    return reply


def until_it_is_seen(wire: Wire, number: str, command: str) -> None:
    """Wait until a server has taken up what was sent on another connection."""
    for _ in range(2000):
        for shown in str(ask(wire, "CLIENT", "LIST")).splitlines():
            fields = dict(part.split("=", 1) for part in shown.lstrip("$").split(" ") if "=" in part)
            if fields.get("id") == number and fields.get("cmd", command.lower()).startswith(command.lower()):
                return
    raise AssertionError(f"{command} was not taken up")


class Side:
    """One arm, and what it says to a list of lines."""

    def __init__(self, arm: Any) -> None:
        self._arm = arm
        self._first: Wire = arm.connect()
        self._second: Wire = arm.connect()
        self._third: Wire = arm.connect()
        self._number = ask(self._third, "CLIENT", "ID")[1:]
        self._waits = False
        self.jumped_ms = 0
        self._begun_ms = self._now_ms()

    def say(self, words: tuple[str, ...]) -> Shown:
        if words[0] == "@jump":
            self._arm.jump(int(words[1]))
            self.jumped_ms += int(words[1])
            # Looked at, what is over is gone, and does not come back when the clock is set back.
            return ask(self._second, "EXISTS", *KEYS)
        if words[0] == "@2":
            return ask(self._second, *words[1:])
        if words[0] == "@3":
            came = self.end_waiting()
            self._waits = True
            self._third.write(pack([word.encode() for word in words[1:]]))
            # Until it is known that it waits, or that it was answered.
            until_it_is_seen(self._second, self._number, words[1])
            return came
        if words[0] == "@resp3":
            ask(self._first, "HELLO", "3")
            return None
        if words[0] == "@sorted":
            return _in_order(ask(self._first, *words[1:]))
        return _without_times(words, ask(self._first, *words))

    def end_waiting(self) -> Shown:
        """What the third connection was told, if it asked for something; it waits no more."""
        if not self._waits:
            return None
        ask(self._second, "CLIENT", "UNBLOCK", self._number)
        self._waits = False
        return self._third.read()

    def passed_ms(self) -> int:
        """How much time has passed since it began, by its own clock, without the steps."""
        return self._now_ms() - self._begun_ms - self.jumped_ms

    def lives_ms(self) -> list[int]:
        return [int(ask(self._second, "PTTL", each)[1:]) for each in KEYS]

    def _now_ms(self) -> int:
        seconds, micros = ask(self._second, "TIME")
        return int(seconds[1:]) * 1000 + int(micros[1:]) // 1000


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(
    max_examples=EXAMPLES,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
    ],
)
def test_the_simulated_node_answers_as_the_server_at_hand(
    real: RealArm, family: str, data: st.DataObject
) -> None:
    lines = data.draw(st.lists(st.one_of(*FAMILIES[family]), min_size=15, max_size=40))
    simulated, reference = Side(SimArm(server=real.server)), Side(fresh(real))
    for number, words in enumerate(lines):
        ours, theirs = simulated.say(words), reference.say(words)
        assert ours == theirs, (lines[: number + 1], ours, theirs)
        ours_ms, theirs_ms = simulated.lives_ms(), reference.lives_ms()
        slack_ms = reference.passed_ms() + 1
        for mine, other in zip(ours_ms, theirs_ms, strict=True):
            same = mine == other if min(mine, other) < 0 else abs(mine - other) <= slack_ms
            assert same, (lines[: number + 1], ours_ms, theirs_ms, slack_ms)
    assert simulated.end_waiting() == reference.end_waiting(), lines
