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

from tests.sim.record import fresh
from tests.sim.redis_arms import RealArm, Shown, SimArm, Wire, ask, real_arm

KEYS = ("a", "b", "c")
JUMPS_MS = (370_000, 1_110_000, -370_000, -740_000)
"""Sums of these stay minutes away from whole thousands of seconds, which keys live for."""
EXAMPLES = 120

key = st.sampled_from(KEYS)
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


COMMANDS = st.one_of(
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


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealArm]:
    with real_arm(tmp_path_factory.mktemp("differential") / "real") as arm:
        yield arm


class Side:
    """One arm, and what it says to a list of lines."""

    def __init__(self, arm: Any) -> None:
        self._arm = arm
        self._first: Wire = arm.connect()
        self._second: Wire = arm.connect()
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
        return ask(self._first, *words)

    def passed_ms(self) -> int:
        """How much time has passed since it began, by its own clock, without the steps."""
        return self._now_ms() - self._begun_ms - self.jumped_ms

    def lives_ms(self) -> list[int]:
        return [int(ask(self._second, "PTTL", each)[1:]) for each in KEYS]

    def _now_ms(self) -> int:
        seconds, micros = ask(self._second, "TIME")
        return int(seconds[1:]) * 1000 + int(micros[1:]) // 1000


@given(st.lists(COMMANDS, min_size=5, max_size=30))
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
    real: RealArm, lines: list[tuple[str, ...]]
) -> None:
    simulated, reference = Side(SimArm(server=real.server)), Side(fresh(real))
    for number, words in enumerate(lines):
        ours, theirs = simulated.say(words), reference.say(words)
        assert ours == theirs, lines[: number + 1]
        ours_ms, theirs_ms = simulated.lives_ms(), reference.lives_ms()
        slack_ms = reference.passed_ms() + 1
        for mine, other in zip(ours_ms, theirs_ms, strict=True):
            same = mine == other if min(mine, other) < 0 else abs(mine - other) <= slack_ms
            assert same, (lines[: number + 1], ours_ms, theirs_ms, slack_ms)
