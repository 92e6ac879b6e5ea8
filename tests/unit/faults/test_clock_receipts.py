"""Receipts of wrong clocks on a machine that stands still at the worst moments: proven, or not claimed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.faults import clock, drift, strobe
from lab.faults.base import Receipt
from lab.faults.correct import correct_clock
from lab.faults.drift import Timed, rate_between
from lab.scenario.registry import steps
from lab.substrates.base import ClockReading, Cluster

MS = 1_000_000


class SlowClock:
    """A machine with a wrong clock, in a time of the test's own; each wait takes as long as it is told to.

    Args:
        waits_ns: how long the lab stands still at each of the four moments of a reading, again and again:
            before it begins, before and after the clock is looked at, and after the reading was made up.
        works: whether a change of the clock has any effect.
        late_ns: for how long the machine shows the old clock after a change.
    """

    def __init__(self, waits_ns: Iterator[int], *, works: bool = True, late_ns: int = 0) -> None:
        self.waits_ns = waits_ns
        self.works = works
        self.late_ns = late_ns
        self.now_ns = 0
        self.readings = 0
        self._offset_ns = 0.0
        self._ppm = 0.0
        self._strobe: tuple[int, int] | None = None
        self._since_ns = 0
        self._old_ns = 0

    def _shown_ns(self) -> int:
        return self._old_ns if self.now_ns < self._since_ns + self.late_ns else self._shift_ns()

    def _shift_ns(self) -> int:
        passed_ns = self.now_ns - self._since_ns
        away = 0 if self._strobe is None else self._strobe[0] * (1 - passed_ns // self._strobe[1] % 2)
        return round(self._offset_ns + passed_ns * self._ppm / 1e6 + away)

    def _wait(self) -> int:
        self.now_ns += next(self.waits_ns)
        return self.now_ns

    async def read_clock(self) -> ClockReading:
        self.readings += 1
        self._wait()
        before_ns = self.now_ns
        self._wait()
        shown_ns = self.now_ns + self._shown_ns()
        after_ns = self._wait()
        self._wait()
        return ClockReading(shown_ns - (before_ns + after_ns) // 2, (after_ns - before_ns) // 2 + 1_000)

    def _set(self, offset_ns: float, ppm: float = 0, strobe: tuple[int, int] | None = None) -> None:
        if self.works:
            self._old_ns = self._shown_ns()
            self._offset_ns, self._ppm, self._strobe, self._since_ns = offset_ns, ppm, strobe, self.now_ns

    async def drift_clock(self, ppm: int) -> None:
        self._set(0, ppm)

    async def jump_clock(self, by_ns: int) -> None:
        self._set(self._shift_ns() + by_ns, self._ppm)

    async def strobe_clock(self, by_ns: int, every_ns: int) -> None:
        self._set(0, strobe=(by_ns, every_ns))

    async def correct_clock(self) -> None:
        self._set(0)


def quick() -> Iterator[int]:
    while True:
        yield 50_000


def stalls(seed: int, most_ns: int) -> Iterator[int]:
    """Most waits are short, every fifth is a stall of up to so long."""
    random = Random(seed)
    while True:
        yield random.randrange(most_ns) if random.random() < 0.2 else random.randrange(20_000, 200_000)


def inject(who: SlowClock, monkeypatch: pytest.MonkeyPatch, **body: Any) -> Receipt:
    """The receipt of a fault on the clock of node A."""

    async def sleep(seconds: float) -> None:
        who.now_ns += round(seconds * 1e9)

    loop = SimpleNamespace(time=lambda: who.now_ns / 1e9)
    monkeypatch.setattr(drift, "time", SimpleNamespace(monotonic_ns=lambda: who.now_ns))
    for module in (clock, drift, strobe):
        monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep, get_running_loop=lambda: loop))
    ((key, value),) = body.items()
    fault: Any = steps()[key].model_validate({key: {"node": "A", **value}})
    cluster = cast(Cluster, SimpleNamespace(nodes={"A": who}, clients={}))
    receipt: Receipt = asyncio.run(fault.inject(cluster))
    return receipt


@pytest.mark.parametrize("ppm", [-1_000_000, -20_000, 100, 50_000, 1_000_000])
@pytest.mark.parametrize("seed", range(8))
def test_a_drift_is_proven_however_often_the_lab_stalls(
    ppm: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt = inject(SlowClock(stalls(seed, 300 * MS)), monkeypatch, drift={"ppm": ppm})
    assert receipt.confirmed, receipt.evidence
    assert receipt.evidence["rate_least_ppm"] <= ppm <= receipt.evidence["rate_most_ppm"]


@pytest.mark.parametrize("ppm", [-1_000_000, 100, 50_000])
@pytest.mark.parametrize("seed", range(8))
def test_a_clock_that_does_not_drift_never_gets_a_receipt(
    ppm: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = SlowClock(stalls(seed, 300 * MS), works=False)
    receipt = inject(who, monkeypatch, drift={"ppm": ppm})
    assert not receipt.confirmed, receipt.evidence


def test_a_drift_that_can_never_be_certain_is_watched_long_and_not_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    who = SlowClock(iter(lambda: 4_000 * MS, None))
    receipt = inject(who, monkeypatch, drift={"ppm": 100})
    assert not receipt.confirmed
    assert who.now_ns > drift.DRIFT_PATIENCE_NS


def test_a_quick_drift_is_told_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    who = SlowClock(quick())
    assert inject(who, monkeypatch, drift={"ppm": 20_000}).confirmed
    assert who.now_ns < 1_000 * MS


@pytest.mark.parametrize("seed", range(20))
def test_the_true_rate_is_always_within_the_bounds(seed: int) -> None:
    random = Random(seed)
    who = SlowClock(stalls(seed, 500 * MS))
    ppm = random.choice([-1_000_000, -100, 0, 3_000, 1_000_000])

    async def timed() -> Timed:
        from_ns = who._wait()
        shown = await who.read_clock()
        return Timed(shown, from_ns, who._wait())

    async def both() -> tuple[Timed, Timed]:
        await who.drift_clock(ppm)
        first = await timed()
        who.now_ns += random.randrange(3_000 * MS)
        return first, await timed()

    low, high = rate_between(*asyncio.run(both()))
    assert low - 1e-6 <= ppm <= high + 1e-6


def test_readings_that_may_be_of_the_same_moment_tell_no_rate() -> None:
    shown = ClockReading(0, 1_000)
    assert rate_between(Timed(shown, 0, 10), Timed(shown, 10, 20)) == (-float("inf"), float("inf"))


def one_slow_then_quick() -> Iterator[int]:
    """Three seconds go by after the clock was looked at for the first time."""
    yield from (0, 0, 3_000 * MS, 0)
    yield from quick()


@pytest.mark.parametrize("works", [True, False])
@pytest.mark.parametrize(
    "body",
    [{"jump": {"by": "+1s"}}, {"strobe": {"by": "+500ms", "every": "50ms"}}],
    ids=["jump", "strobe"],
)
def test_a_step_is_told_from_a_stall(
    body: dict[str, Any], works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = SlowClock(one_slow_then_quick(), works=works)
    receipt = inject(who, monkeypatch, **body)
    assert receipt.confirmed is works, receipt.evidence


@pytest.mark.parametrize("late_ns", [0, MS])
def test_a_step_that_the_machine_shows_late_has_its_receipt(
    late_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valkey since 9.1 reads the wall clock once a millisecond."""
    who = SlowClock(quick(), late_ns=late_ns)
    receipt = inject(who, monkeypatch, jump={"by": "+1s"})
    assert receipt.confirmed, receipt.evidence
    assert receipt.evidence["moved_ms"] == 1_000
    assert asyncio.run(
        correct_clock("A", cast(Cluster, SimpleNamespace(nodes={"A": who}, clients={})))
    ).confirmed


def test_a_jump_that_no_reading_could_tell_has_no_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    who = SlowClock(iter(lambda: 1_000 * MS, None))
    assert not inject(who, monkeypatch, jump={"by": "+1s"}).confirmed
    assert who.readings == 3 * clock.READINGS_MAX


def scattered(seed: int) -> Iterator[int]:
    """Each reading takes half a second, by chance before or after the clock was looked at."""
    random = Random(seed)
    while True:
        early_ns = random.choice((0, 500 * MS))
        yield from (0, early_ns, 500 * MS - early_ns, 0)


@pytest.mark.parametrize("seed", range(4))
def test_readings_that_stalls_scatter_are_no_strobe(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    who = SlowClock(scattered(seed), works=False)
    monkeypatch.setattr(strobe, "STROBE_PATIENCE_S", 1_000.0)
    receipt = inject(who, monkeypatch, strobe={"by": "+500ms", "every": "50ms"})
    assert not receipt.confirmed, receipt.evidence


@pytest.mark.parametrize("works", [True, False])
def test_a_correction_is_told_from_a_stall(works: bool) -> None:
    async def corrected() -> Receipt:
        who = SlowClock(one_slow_then_quick())
        await who.jump_clock(1_000 * MS)
        who.works = works
        return await correct_clock("A", cast(Cluster, SimpleNamespace(nodes={"A": who}, clients={})))

    assert asyncio.run(corrected()).confirmed is works
