"""A lock of one's own: what ``BaseLock`` gives, which options it takes, and how it is told what is wrong."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.addresses import Address
from lab.drivers.messages import DriverBroken, Hello, read_line
from lab.errors import LabError, LockFailed
from lab.locks import check_options, key_pattern, lock_class, margin_ns, refused_options
from lab.locks.base import Indeterminate, LeaseLost, NotAcquired, Surroundings
from lab.locks.failure import awaitable, failing_in
from lab.run import run
from lab.run.request import RunRequest

pytestmark = pytest.mark.usefixtures("_patched")

S = 10**9
MODULE = """
from lab.locks.base import BaseLock, Indeterminate, Lease, NotAcquired

class Least(BaseLock):
    async def acquire(self, key, ttl_ns):
        return self.lease(key, self.new_token(), ttl_ns, self.clock_ns())
    async def release(self, lease):
        pass

class WithOptions(Least):
    OPTIONS = {"retries": 3}
    key = "order:{}"
    async def extend(self, lease, ttl_ns):
        return lease

class Checks(Least):
    @classmethod
    def margin_ns(cls, ttl_ns, options):
        return 0  # it looks at no option; `build` does

class Blocks:
    def acquire(self, key): return True
    def release(self, key): return True

class AsyncPart:
    async def acquire(self, key): return True

class Raises(Least):
    asked = 0
    async def acquire(self, key, ttl_ns):
        type(self).asked += 1
        if not key.startswith("warm-up"):
            raise KeyError("boom")
        return await super().acquire(key, ttl_ns)

class RaisesAtOnce(Least):
    async def acquire(self, key, ttl_ns):
        return self.nothing

class CannotBeMade(Least):
    def __init__(self, *arguments):
        raise RuntimeError("no configuration")

class BadPattern(Least):
    key = "order"

class NamesItsKeys(Least):
    key = "order:{}"
    async def acquire(self, key, ttl_ns):
        if not key.startswith("order:"):
            raise ValueError(key)
        if await self.ask("SET", key, "t", "NX", "PX", ttl_ns // 10**6) is None:
            raise NotAcquired("taken")
        return self.lease(key, "t", ttl_ns, self.clock_ns())
    async def release(self, lease):
        await self.ask("DEL", lease.key)

class AnswersLate(NamesItsKeys):
    key = "{}"
    late = 0
    async def acquire(self, key, ttl_ns):
        return self.lease(key, "t", ttl_ns, self.clock_ns())
    async def release(self, lease):
        if lease.key.startswith("warm-up-alice") and type(self).late:
            type(self).late -= 1
            raise Indeterminate("no answer yet")
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module of the locks."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "own_locks_of_a_test", raising=False)
    (tmp_path / "own_locks_of_a_test.py").write_text(MODULE)
    return "own_locks_of_a_test"


def refused(name: str, options: dict[str, Any] | None = None) -> str:
    with pytest.raises(LabError) as caught:
        check_options(name, S, options or {})
    return caught.value.render()


async def test_two_methods_are_a_lock(own: str) -> None:
    kind: Any = lock_class(f"{own}:Least")
    assert (kind.name, kind.hands_out_fences, kind.extends, kind.key) == ("Least", False, False, "{}")
    lock = kind.build([Address("A", "127.0.0.1", 1)], {}, Surroundings(clock_ns=lambda: 5), "alice")
    lease = await lock.acquire("k", 10 * S)
    assert lease.deadline_ns == 5 + 10 * S - margin_ns(f"{own}:Least", 10 * S, {})
    assert lock.believes(lease)
    with pytest.raises(LeaseLost) as caught:
        await lock.extend(lease, S)
    assert caught.value.no_effect


async def test_a_lease_whose_reply_came_late_is_none(own: str) -> None:
    kind: Any = lock_class(f"{own}:Least")
    lock = kind.build([], {}, Surroundings(clock_ns=lambda: S), "alice")
    with pytest.raises(Indeterminate, match="when the lease was over"):
        lock.lease("k", "t", S, 0)


def test_options_are_those_that_the_client_takes(own: str) -> None:
    check_options(f"{own}:WithOptions", S, {"retries": 5})
    assert "did you mean 'retries'" in refused(f"{own}:WithOptions", {"retrys": 5})
    assert "lock.options.node_timeout" in refused(f"{own}:Checks", {"node_timeout": "50ms"})
    options: dict[str, str | int | float | bool] = {"node_timeout": "50ms", "retries": 1}
    assert refused_options(f"{own}:WithOptions", S, options) == ("node_timeout",)
    assert refused_options(f"{own}:Checks", S, options) == ("node_timeout", "retries")
    assert refused_options("redlock", S, options) == ("retries",)
    assert refused_options("node driver.js", S, options) == ("node_timeout", "retries")
    check_options(f"{own}:CannotBeMade", S, {})  # its client shows what it raises


def test_an_ordinary_class_of_which_too_little_is_known(own: str) -> None:
    reported = refused(f"{own}:Blocks")
    assert "how long it keeps its key, as it takes no TTL; how it comes to its client" in reported
    assert "BaseLock" in refused(f"{own}:AsyncPart")


def test_an_answer_that_cannot_be_awaited() -> None:
    with pytest.raises(TypeError, match="acquire returned True and cannot be awaited"):
        awaitable("acquire", True)  # type: ignore[arg-type]


def test_the_pattern_of_keys(own: str) -> None:
    assert key_pattern(lock_class("redlock")) == "{}"
    assert key_pattern(lock_class(f"{own}:WithOptions")) == "order:{}"
    with pytest.raises(LabError, match="'order' as the pattern of keys"):
        key_pattern(lock_class(f"{own}:BadPattern"))


def test_a_driver_says_the_pattern_of_its_keys() -> None:
    line = b'{"id":1,"ok":true,"lib":"x","version":"1","caps":[],"key":"order:{}"}\n'
    answer = read_line("x", line, {1: "hello"})
    assert isinstance(getattr(answer, "what", None), Hello)
    assert answer.what.key == "order:{}"  # type: ignore[union-attr]
    with pytest.raises(DriverBroken, match="`key` without"):
        read_line("x", line.replace(b"order:{}", b"order"), {1: "hello"})


def test_an_exception_of_the_lock_is_told_with_its_line(own: str) -> None:
    kind: Any = lock_class(f"{own}:RaisesAtOnce")
    lock = kind.build([], {}, Surroundings(), "alice")
    with pytest.raises(LockFailed) as caught, failing_in("acquire", "alice", kind):
        asyncio.run(lock.acquire("k", S))
    line = MODULE.splitlines().index("        return self.nothing") + 1
    assert caught.value.seen.startswith("alice's acquire raised AttributeError: ")
    assert f"(own_locks_of_a_test.py:{line} in acquire)" in caught.value.seen
    with pytest.raises(NotAcquired), failing_in("acquire", "alice", kind):
        raise NotAcquired("taken")


@pytest.mark.parametrize("on", ["sim", pytest.param("local", marks=pytest.mark.full)])
@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("Raises", "the lock failed: alice's acquire raised KeyError: 'boom' (own_locks_of_a_test.py:"),
        ("RaisesAtOnce", "'s acquire raised AttributeError: 'RaisesAtOnce' object has no attribute"),
        ("CannotBeMade", "'s build raised RuntimeError: no configuration (own_locks_of_a_test.py:"),
    ],
)
def test_a_run_shows_what_the_lock_raised(
    own: str, on: str, name: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = run(RunRequest("healthy", lock=f"{own}:{name}", seed=1, substrate=on, out=tmp_path / "out"))
    assert result.exit_code == 3
    unknown = " · ".join(result.comparison.unknown)
    assert seen in unknown
    assert "the harness failed" not in unknown
    assert "died" not in unknown


def requests(own: str, name: str, tmp_path: Path, *overrides: str) -> RunRequest:
    return RunRequest("healthy", overrides, f"{own}:{name}", 1, "sim", tmp_path / "out")


def test_options_of_the_scenarios_own_lock_are_left_out(own: str, tmp_path: Path) -> None:
    request = RunRequest("partition-clockjump-control", lock=f"{own}:NamesItsKeys", substrate="sim")
    plan = request.plan()
    assert plan.dropped == ("node_timeout",)
    assert dict(plan.loaded.scenario.lock.options) == {}
    assert "lock.options={}" in plan.repeat
    driver = RunRequest("partition-clockjump-control", lock="./some driver", substrate="local")
    assert driver._overrides() == (("lock.name=./some driver", "lock.options={}"), ("node_timeout",))
    other = RunRequest("redis-py-lost-reply", lock="./some driver", substrate="local")
    assert other._overrides() == (("lock.name=./some driver",), ())  # written for a driver: only it can tell
    kept = RunRequest("partition-clockjump-control", lock="redlock-sequential", substrate="sim").plan()
    assert kept.dropped == ()
    assert dict(kept.loaded.scenario.lock.options) == {"node_timeout": "250ms"}
    given = RunRequest(
        "partition-clockjump-control", ("lock.options.node_timeout=9ms",), f"{own}:NamesItsKeys", 1, "sim"
    )
    assert given.plan().dropped == ()
    with pytest.raises(LabError, match="unknown option"):  # it was asked for, and is no option of this lock
        run(RunRequest(given.scenario, given.overrides, given.lock, 1, "sim", tmp_path))


def test_keys_have_the_form_that_the_lock_takes(own: str, tmp_path: Path) -> None:
    result = run(requests(own, "NamesItsKeys", tmp_path))
    assert result.exit_code == 0, result.explain()
    text = (result.directory / "history.jsonl").read_text()
    assert '"key":"order:resource"' in text
    assert '"key":"resource"' not in text
    other = run(requests(own, "NamesItsKeys", tmp_path, "lock.key=order:a-{}"))
    assert '"key":"order:a-resource"' in (other.directory / "history.jsonl").read_text()


def test_each_client_warms_its_lock_up_unrecorded(own: str, tmp_path: Path) -> None:
    kind: Any = lock_class(f"{own}:Raises")
    run(requests(own, "Raises", tmp_path))
    warmed = kind.asked
    assert warmed == 3  # two clients, and Alice's first step, which ends the run
    kind.asked = 0
    run(requests(own, "Raises", tmp_path, "warm_up=false"))
    assert kind.asked == 1
    result = run(requests(own, "NamesItsKeys", tmp_path))
    assert "warm-up" not in (result.directory / "history.jsonl").read_text()


@pytest.mark.parametrize(("late", "code"), [(2, 0), (3, 3)])
def test_a_warm_up_asks_again_for_a_release_of_unknown_outcome(
    own: str, tmp_path: Path, late: int, code: int
) -> None:
    kind: Any = lock_class(f"{own}:AnswersLate")
    kind.late = late
    result = run(requests(own, "AnswersLate", tmp_path))
    assert kind.late == 0
    assert result.exit_code == code, result.explain()
    assert ("no answer yet" in result.explain()) == bool(code)
