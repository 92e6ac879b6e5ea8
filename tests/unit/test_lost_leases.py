"""Extensions that did not work out: fail only if the nodes' answers rule an effect out, else info."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from lab.client.log import Recording
from lab.client.worker import Worker
from lab.client_protocol import Command, Outcome, Verb
from lab.drivers.messages import Failed, Hello
from lab.locks.base import Indeterminate, Lease, LeaseLost, NotAcquired, Surroundings
from lab.locks.driver import DriverLease, driver_class
from lab.locks.heartbeat import STALL_NS
from lab.locks.lease_options import LeaseOptions
from lab.locks.redlock import Redlock, RedlockOptions, Vote
from lab.store import StoreClient
from lab.substrates.sim.simulate import simulate

pytestmark = pytest.mark.usefixtures("_patched")

LEASE = Lease("resource", "token", 1_000, 5_000)


def redlock(nodes: int, quorum: int = 0) -> Redlock:
    return Redlock([f"127.0.0.1:{7000 + n}" for n in range(nodes)], RedlockOptions(quorum=quorum))


@pytest.mark.parametrize(
    ("votes", "quorum", "no_effect"),
    [
        ("nnnnn", 0, True),
        ("nnnss", 0, True),
        ("nnnyy", 0, True),
        ("nnyss", 0, False),
        ("sssss", 0, False),
        ("yynns", 0, False),
        ("nns", 0, True),
        ("nss", 0, False),
        ("nnyy", 0, False),  # two of four keep others from the three that they need
        ("nnny", 0, True),
        ("nnnss", 2, False),  # two of five are enough
        ("nnnns", 2, True),
    ],
)
def test_redlocks_extension_has_no_effect_if_enough_nodes_said_no(
    votes: str, quorum: int, no_effect: bool
) -> None:
    words: dict[str, Vote] = {"n": "no", "y": "yes", "s": "silent"}
    lock = redlock(len(votes), quorum)
    error = lock._not_extended(LEASE, {str(i): words[vote] for i, vote in enumerate(votes)})
    assert error.no_effect is no_effect


def test_what_was_never_asked_has_no_effect_and_what_was_answered_late_may_have() -> None:
    options = LeaseOptions(max_extensions=0, drift_factor=0, drift_constant_ns=0)
    for now_ns in (4_999, 5_000):
        with pytest.raises(LeaseLost) as never_asked:
            options.check_extendable(LEASE, now_ns)
        assert never_asked.value.no_effect
    with pytest.raises(LeaseLost, match="came after its time") as late:
        options.extended(LEASE, 9_000, 4_000, 5_000)
    assert not late.value.no_effect
    assert not LeaseLost("by a lock that does not say").no_effect


class Loses:
    """A lock whose extension fails."""

    def __init__(self, no_effect: bool) -> None:
        self.no_effect = no_effect

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        return LEASE

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        raise LeaseLost("lost", no_effect=self.no_effect)

    def believes(self, lease: Lease) -> bool:
        return False


@pytest.mark.parametrize(
    ("no_effect", "type_", "outcome", "process"),
    [(True, "fail", Outcome.FAIL, "alice"), (False, "info", Outcome.INFO, "alice/2")],
)
def test_a_client_records_which_of_the_two_it_was(
    no_effect: bool, type_: str, outcome: Outcome, process: str
) -> None:
    events: list[dict[str, Any]] = []
    recording = Recording("alice", events.append)
    lock, store = cast("Any", Loses(no_effect)), cast("StoreClient", None)
    worker = Worker(recording, lock, store, key="resource", ttl_ns=1_000, check_before_write=False)

    async def scenario() -> list[Outcome]:
        verbs: tuple[Verb, ...] = ("acquire", "extend", "release")
        return [(await worker.run(Command(id, verb))).outcome for id, verb in enumerate(verbs, start=1)]

    assert asyncio.run(scenario()) == [Outcome.OK, outcome, Outcome.SKIPPED]
    assert [(event["f"], event["type"]) for event in events[2:]] == [("extend", "invoke"), ("extend", type_)]
    assert recording.process == process


@pytest.mark.parametrize(("silent", "no_effect"), [(False, True), (True, False)])
def test_a_drivers_clean_no_has_no_effect_unless_nodes_only_kept_silent(
    silent: bool, no_effect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = driver_class("a-driver")([], {}, cast("Any", _Surroundings()), "alice")
    lock._hello = Hello("library", "1", ("extend",))

    async def answered(*_: object) -> Failed:
        return Failed("refused", "LockError", "no", silent=silent)

    monkeypatch.setattr(lock._driver, "extend", answered)
    lease = DriverLease("resource", "", 1_000_000, 5_000, handle="h1")
    with pytest.raises(LeaseLost) as lost:
        asyncio.run(lock.extend(lease, 1_000_000))
    assert lost.value.no_effect is no_effect


@pytest.mark.parametrize(("silent", "raised"), [(False, LeaseLost), (True, Indeterminate)])
def test_a_drivers_release_that_nodes_only_kept_silent_to_is_of_unknown_outcome(
    silent: bool, raised: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = driver_class("a-driver")([], {}, cast("Any", _Surroundings()), "alice")

    async def answered(*_: object) -> Failed:
        return Failed("refused", "LockError", "no", silent=silent)

    monkeypatch.setattr(lock._driver, "release", answered)
    with pytest.raises(raised):
        asyncio.run(lock.release(DriverLease("resource", "", 1_000_000, 5_000, handle="h1")))


@pytest.mark.parametrize(("stalled", "watches"), [(None, 0), (lambda *_: None, 1)])
def test_a_driver_is_watched_for_stalls_only_where_somebody_records_them(
    stalled: Callable[[int, int], None] | None, watches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a search nobody does, and each look costs as much as an operation."""
    lock = driver_class("a-driver")([], {}, Surroundings(stalled=stalled), "alice")
    lock._hello = Hello("library", "1", ("single-attempt", "clock"))
    looks: list[object] = []

    async def look(*_: object) -> None:
        looks.append(_)

    async def refused(*_: object, **_more: object) -> Failed:
        await asyncio.sleep(0)
        return Failed("refused", "LockError", "no")

    async def acquire() -> None:
        with pytest.raises(NotAcquired):
            await lock.acquire("resource", 1_000_000)

    monkeypatch.setattr(lock, "_watch_for_stalls", look)
    monkeypatch.setattr(lock._driver, "acquire", refused)
    simulate(acquire, 1)
    assert looks == [], "a simulated host says by itself when it stands still"
    asyncio.run(acquire())
    assert len(looks) == watches


def test_a_driver_that_says_its_time_late_was_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the looks while an acquire waits, the second takes longer than a stall must last."""
    now_ns, reported, waits_ns = 0, list[tuple[int, int]](), iter((STALL_NS, STALL_NS + 1))

    async def clock(*_: object) -> None:
        nonlocal now_ns
        now_ns += next(waits_ns, 0)

    async def refused(*_: object, **_more: object) -> Failed:
        for _look in range(4):
            await sleep(0)
        return Failed("refused", "LockError", "no")

    sleep = asyncio.sleep
    around = Surroundings(clock_ns=lambda: now_ns, stalled=lambda *stall: reported.append(stall))
    lock = driver_class("a-driver")([], {}, around, "alice")
    lock._hello = Hello("library", "1", ("single-attempt", "clock"))
    monkeypatch.setattr(asyncio, "sleep", lambda _: sleep(0))
    monkeypatch.setattr(lock._driver, "clock", clock)
    monkeypatch.setattr(lock._driver, "acquire", refused)
    with pytest.raises(NotAcquired):
        asyncio.run(lock.acquire("resource", 1_000_000))
    assert reported == [(STALL_NS, STALL_NS + 1)]


class _Surroundings:
    sentinels = ()

    @staticmethod
    def clock_ns() -> int:
        return 0

    @staticmethod
    def stalled(start_ns: int, duration_ns: int) -> None:
        """Nobody asks."""
