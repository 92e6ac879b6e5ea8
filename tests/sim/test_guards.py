"""What simulated code must not reach: real time, entropy, threads, processes, sockets. It fails, loudly."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as datetimes
import functools
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import timeit
import types
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from time import monotonic_ns as captured_monotonic_ns

import pytest
import redis.asyncio

from lab.substrates.sim.clock import MONOTONIC_START_NS, S_NS, WALL_START_NS
from lab.substrates.sim.errors import SimulationError
from lab.substrates.sim.patches import simulating
from lab.substrates.sim.simulate import simulate

SYSTEM = random.SystemRandom()
PARTIAL = functools.partial(time.time_ns)


class Holder:
    """Somebody who took the clocks at import, in all the ways there are."""

    attribute = time.time
    static = staticmethod(time.monotonic)
    __slots__ = ("slot",)

    def __init__(self) -> None:
        self.slot = time.perf_counter_ns

    def default(self, clock: Callable[[], int] = time.monotonic_ns) -> int:
        return clock()


HOLDER = Holder()


def closure(clock: Callable[[], int]) -> Callable[[], int]:
    return lambda: clock()


CLOSURE = closure(time.perf_counter_ns)

MONOTONIC: dict[str, Callable[[], float]] = {
    "module": lambda: time.monotonic_ns(),
    "from import": lambda: captured_monotonic_ns(),
    "default argument": HOLDER.default,
    "slot": lambda: HOLDER.slot(),
    "static method": lambda: Holder.static() * S_NS,
    "closure": CLOSURE,
    "timeit": lambda: timeit.default_timer() * S_NS,
    "perf_counter": lambda: time.perf_counter() * S_NS,
    "event loop": lambda: asyncio.get_running_loop().time() * S_NS,
}


def test_monotonic_time_is_the_hosts_however_it_was_captured() -> None:
    async def look() -> tuple[dict[str, float], dict[str, float]]:
        before = {way: read() for way, read in MONOTONIC.items()}
        await asyncio.sleep(1000)
        return before, {way: read() for way, read in MONOTONIC.items()}

    before, after = simulate(look, 1)
    assert before == dict.fromkeys(MONOTONIC, MONOTONIC_START_NS)
    assert after == dict.fromkeys(MONOTONIC, MONOTONIC_START_NS + 1000 * S_NS)


WALL: dict[str, Callable[[], float]] = {
    "function": time.time_ns,
    "partial": PARTIAL,
    "module": lambda: time.time() * S_NS,
    "attribute": lambda: Holder.attribute() * S_NS,
}


def test_wall_time_is_the_hosts_however_it_was_captured() -> None:
    async def look() -> dict[str, float]:
        return {way: read() - WALL_START_NS for way, read in WALL.items()}

    assert [way for way, passed in simulate(look, 1).items() if not 0 <= passed < S_NS] == []
    outside = {way: abs(time.time_ns() - read()) for way, read in WALL.items()}
    assert [way for way, off in outside.items() if off >= 3600 * S_NS] == [], "outside it is the real one"


def test_calendar_time_is_the_hosts_too() -> None:
    async def work() -> tuple[int, str, int]:
        return time.gmtime().tm_year, time.strftime("%Y"), time.gmtime(0).tm_year

    assert simulate(work, 1) == (2026, "2026", 1970)


class Moment(datetime):
    """Takes ``now`` from the class below."""


class Grown(Moment):
    """One more step away."""


@dataclasses.dataclass
class Stamped:
    at: datetime = dataclasses.field(default_factory=datetime.utcnow)


UTCNOW = datetime.utcnow
NOW_IN_UTC = functools.partial(datetime.now, tz=UTC)


def _by_default(now: Callable[[], datetime] = datetime.now) -> datetime:
    return now()


DATES: dict[str, Callable[[], datetime]] = {
    "by name": lambda: datetime.now(UTC),
    "local": lambda: datetime.now().astimezone(),
    "utcnow": lambda: datetime.utcnow().replace(tzinfo=UTC),
    "of the module": lambda: datetimes.datetime.now(UTC),
    "today": lambda: datetime.today().astimezone(),
    "the method itself": lambda: UTCNOW().replace(tzinfo=UTC),
    "partial": NOW_IN_UTC,
    "default argument": lambda: _by_default().astimezone(),
    "dataclass": lambda: Stamped().at.replace(tzinfo=UTC),
    "subclass": lambda: Moment.now(UTC),
    "subclass of a subclass": lambda: Grown.utcnow().replace(tzinfo=UTC),
}


@pytest.mark.filterwarnings("ignore:.*utcnow:DeprecationWarning")
def test_dates_are_the_hosts_however_they_were_captured() -> None:
    async def look() -> dict[str, tuple[datetime, datetime]]:
        before = {way: read() for way, read in DATES.items()}
        await asyncio.sleep(1000)
        return {way: (before[way], read()) for way, read in DATES.items()}

    for way, (before, after) in simulate(look, 1).items():
        assert after - before == datetimes.timedelta(seconds=1000), way
        assert 0 <= before.timestamp() - WALL_START_NS / S_NS < 1, way
        assert abs(DATES[way]().timestamp() - time.time()) < 3600, f"{way}: outside it is the real one again"


def test_simulated_dates_are_ordinary_ones() -> None:
    outside = datetime(2026, 1, 1, 1)

    class Born(datetime):
        pass

    async def work() -> tuple[object, ...]:
        class Here(datetimes.datetime):
            pass

        here = datetimes.datetime(2026, 1, 1)
        assert isinstance(outside, datetime)
        assert isinstance(outside, datetimes.datetime)
        assert issubclass(Born, datetimes.datetime)
        assert not isinstance(outside, Here)
        assert isinstance(Here.now(), Here)
        assert isinstance(Born.now(), Born)
        assert datetimes.date.today() == here.date()
        return here, datetime.strptime("2026", "%Y"), datetime.fromisoformat("2026-01-01"), datetime.now()

    real = datetime
    assert [type(each) for each in simulate(work, 1)] == [real] * 4
    assert datetimes.datetime is real
    assert "now" not in vars(Moment)


ENTROPY: dict[str, Callable[[], object]] = {
    "os.urandom": lambda: os.urandom(8),
    "secrets": lambda: secrets.token_hex(8),
    "SystemRandom": SYSTEM.random,
    "random": lambda: random.random(),
    "randint": lambda: random.randint(0, 10**9),
    "a fresh Random": lambda: random.Random().random(),
    "uuid4": lambda: str(uuid.uuid4()),
    "uuid1": lambda: str(uuid.uuid1()),
}


def test_entropy_comes_from_the_seed() -> None:
    async def draw() -> dict[str, list[object]]:
        return {source: [take() for _ in range(3)] for source, take in ENTROPY.items()}

    with simulating():
        first, again, other = simulate(draw, 1), simulate(draw, 1), simulate(draw, 2)
    for source, take in ENTROPY.items():
        assert first[source] == again[source] != other[source], source
        assert len({str(each) for each in first[source]}) == 3, source
        assert take() != take(), f"{source}: outside it is the real one again"


FORBIDDEN: dict[str, Callable[[], object]] = {
    "blocks in time.sleep": lambda: time.sleep(0),
    "starts a thread": lambda: threading.Thread(target=print).start(),
    "makes a real socket": lambda: socket.socket(),
    "resolves a name for real": lambda: socket.getaddrinfo("localhost", 80),
    "wants a thread": lambda: asyncio.get_running_loop().run_in_executor(None, print),
    "asks a real clock": lambda: time.process_time(),
    "starts a process": lambda: subprocess.Popen([sys.executable, "--version"]),
    "asks its event loop for add_reader": lambda: asyncio.get_running_loop().add_reader(0, print),
    "which is not in the simulation": lambda: asyncio.open_connection("localhost", 80),
}


@pytest.mark.parametrize("swallowed", [False, True], ids=["raised", "swallowed"])
def test_what_leads_out_of_the_simulation_fails_with_the_place(swallowed: bool) -> None:
    async def reach_out(out: Callable[[], object]) -> None:
        with contextlib.suppress(Exception) if swallowed else contextlib.nullcontext():
            done = out()
            if asyncio.iscoroutine(done):
                await done

    with simulating():
        for what, out in FORBIDDEN.items():
            with pytest.raises(SimulationError, match=what) as caught:
                simulate(functools.partial(reach_out, out), 1)
            assert caught.value.where is not None, what
            assert __file__ in caught.value.where, f"{what}: it says where"


def test_other_threads_stay_in_real_time() -> None:
    """A progress bar's thread, say, goes on while a simulation runs."""
    seen: list[int] = []
    go, gone = threading.Event(), threading.Event()

    def elsewhere() -> None:
        go.wait()
        seen.append(time.time_ns())
        gone.set()

    thread = threading.Thread(target=elsewhere, daemon=True)
    thread.start()

    async def work() -> None:
        go.set()
        gone.wait()

    simulate(work, 1)
    thread.join()
    assert abs(seen[0] - time.time_ns()) < 3600 * S_NS


def test_a_clock_that_cannot_be_replaced_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    library = types.ModuleType("a_library")
    vars(library)["CLOCKS"] = (time.monotonic,)
    monkeypatch.setitem(sys.modules, "a_library", library)

    async def work() -> None:
        raise AssertionError("it must not come to this")

    with pytest.raises(SimulationError, match="captured at import") as caught:
        simulate(work, 1)
    assert "a_library" in str(caught.value.where)


def test_the_version_of_a_package_is_read_once_per_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def version(name: str) -> str:
        asked.append(name)
        return "1.0"

    monkeypatch.setattr(metadata, "version", version)
    with simulating():
        assert [metadata.version("redis") for _ in range(3)] == ["1.0"] * 3
    assert asked == ["redis"]
    assert metadata.version is version


def test_everything_is_as_it_was_afterwards() -> None:
    before = [
        time.monotonic,
        time.sleep,
        os.urandom,
        random.random,
        random.Random.seed,
        threading.Thread.start,
    ]

    async def fail() -> None:
        assert "__hash__" in vars(redis.asyncio.Redis), "an order of its own in sets, while it lasts"
        raise ValueError("of its own")

    with pytest.raises(ValueError, match="of its own"):
        simulate(fail, 1)
    after = [
        time.monotonic,
        time.sleep,
        os.urandom,
        random.random,
        random.Random.seed,
        threading.Thread.start,
    ]
    assert before == after
    assert HOLDER.slot is time.perf_counter_ns
    assert PARTIAL.func is time.time_ns
    assert "set" not in vars(asyncio.tasks)
    assert "__hash__" not in vars(redis.asyncio.Redis)
