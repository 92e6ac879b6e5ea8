"""When this machine's clock counts as set, and when it does not."""

from __future__ import annotations

import asyncio

import pytest

from lab.run import machine_clock
from lab.run.machine_clock import MachineClock

S, MS = 10**9, 10**6


class Times:
    """Two clocks; each reading takes so long by both."""

    def __init__(self, each_ns: int = 0) -> None:
        self.real_ns, self.offset_ns, self.each_ns = 1000 * S, 50 * S, each_ns

    def monotonic_ns(self) -> int:
        self.real_ns += self.each_ns
        return self.real_ns

    def time_ns(self) -> int:
        return self.monotonic_ns() + self.offset_ns


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    made = Times()
    monkeypatch.setattr(machine_clock, "time", made)
    return made


@pytest.mark.parametrize(
    ("by_ns", "words"),
    [(3600 * S, "forward by 3600.000 s"), (-3600 * S, "back by 3600.000 s"), (2 * MS, "forward by 0.002 s")],
)
def test_a_step_is_reported(times: Times, by_ns: int, words: str) -> None:
    clock = MachineClock()
    assert clock.set_meanwhile() is None
    times.offset_ns += by_ns
    assert words in str(clock.set_meanwhile())


@pytest.mark.parametrize("by_ns", [0, 900_000, -900_000])
def test_what_is_no_step(times: Times, by_ns: int) -> None:
    clock = MachineClock()
    times.real_ns += 3600 * S
    times.offset_ns += by_ns
    assert clock.set_meanwhile() is None


def test_a_process_that_is_not_scheduled_between_two_readings_is_no_step(times: Times) -> None:
    clock = MachineClock()
    times.each_ns = S
    assert clock.set_meanwhile() is None
    times.offset_ns += S
    assert clock.set_meanwhile() is None, "as far as can be known"
    times.offset_ns += 2 * S
    assert clock.set_meanwhile() is not None


async def test_a_step_completes_the_future(times: Times, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_clock, "CHECK_EVERY_S", 0.001)
    failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    watch = asyncio.create_task(MachineClock().watch(failed))
    await asyncio.sleep(0)
    times.offset_ns -= 5 * S
    assert "back by 5.000 s" in await failed
    await watch
    await MachineClock().watch(failed)
