"""Executions of a lease lock as processes on several hosts record them: `lease_executions`, and their clocks.

Every host has a monotonic clock that runs at a rate of 1 ± ρ from wherever it began, and a wall clock that is
within a bound of true time and may be set back and forth within that. A host may be suspended, when the first
stands still and the second does not. A process stamps by the first and says
now and then by how much the second is ahead. Its record may lack events in its midst, and may break off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from msgspec import structs

from checker.history.events import CLOCK, GAP, LAB, Event, Params, Recorder
from checker.history.history import History
from tests.fuzz.lease_executions import RHO, Fault, World

MARK_NS = 200_000_000
"""How often clocks are compared, at the most, in true time."""


@dataclass
class Host:
    """The clocks of a host; `setting` is when its wall clock is set, and how far off it is then."""

    rate: float
    began_ns: float
    setting: list[tuple[float, float]]
    asleep: tuple[float, float] = (0.0, 0.0)
    """From when to when the monotonic clock stands still."""

    def monotonic_ns(self, true_ns: float) -> int:
        """What stamps are made of."""
        asleep_ns = min(max(true_ns - self.asleep[0], 0), self.asleep[1] - self.asleep[0])
        return int(self.began_ns + (true_ns - asleep_ns) * self.rate)

    def ahead_ns(self, true_ns: float) -> int:
        """By how much the wall clock is ahead of that."""
        off = max(s for s in self.setting if s[0] <= true_ns)[1]
        return int(true_ns + off) - self.monotonic_ns(true_ns)


@dataclass
class Process:
    """A process: its true events, in order; `parts` are those of its record."""

    client: str
    host: Host
    number: int
    events: list[tuple[float, Event]] = field(default_factory=list)

    def recorded(self, random: Random, bound_ns: int | None, end_ns: float, *, whole: bool) -> History:
        """What its file says, which it closes at `end_ns`, in true time.

        Where it is not `whole`, a gap may be in it, and its end may be missing.
        """
        events, first, last = self.events, 0, 0
        if not whole and random.random() < 0.5:
            first = random.randint(0, len(events))
            last = random.randint(first, len(events))
        ended = whole or random.random() < 0.5
        until = len(events) if ended else random.randint(0, len(events))
        compared_ns = events[0][0]
        lines = [self._compares(compared_ns)]
        life, known = 0, True
        for at, (true_ns, event) in enumerate(events[:until]):
            while true_ns - compared_ns > MARK_NS:
                compared_ns += random.uniform(0.2, 1) * MARK_NS
                lines.append(self._compares(compared_ns))
            lost = first <= at < last
            if lost and (at == last - 1 or at == until - 1):
                lines.append(self._lacks(events[first][0], true_ns, at + 1 - first))
            known = not lost if event.type == "invoke" else known
            if known and not lost:
                lines.append(structs.replace(event, process=f"{self.client}/{life}"))
            if known and (lost or event.type == "info"):
                life += 1  # this process is never heard of again
        if ended:
            while compared_ns < end_ns:
                compared_ns = min(end_ns, compared_ns + MARK_NS)
                lines.append(self._compares(compared_ns))
        params = Params(rho=RHO, model="lease", stall_ns=10**17)
        recorder = Recorder(
            client=self.client, clock=f"host {self.number}", clock_error_ns=bound_ns, parent=None
        )
        problems = () if ended else ("the history is truncated: it has a header but no footer",)
        lines.sort(key=lambda event: event.time_ns)
        read = History.from_events([], params, problems=problems)
        return replace(read, source=lambda: lines, recorder=recorder)

    def _compares(self, true_ns: float) -> Event:
        return Event(
            time_ns=self.host.monotonic_ns(true_ns),
            process=LAB,
            type="info",
            f=CLOCK,
            value=self.host.ahead_ns(true_ns),
        )

    def _lacks(self, first_ns: float, last_ns: float, count: int) -> Event:
        start = self.host.monotonic_ns(first_ns)
        return Event(
            time_ns=start,
            process=LAB,
            type="info",
            f=GAP,
            start_ns=start,
            duration_ns=self.host.monotonic_ns(last_ns) - start,
            value=count,
        )


class RecordedWorld(World):
    """Plays one execution whose clients record themselves."""

    def __init__(
        self, random: Random, key: str, hosts: list[Host], fault: Fault | None = None, *, mixed: bool
    ) -> None:
        super().__init__(random, key, fault, mixed=mixed, rho=RHO)
        self._hosts = hosts
        self.processes: dict[str, Process] = {}

    def record(self, client: str, type: Any, f: str, grant: str, **reported: Any) -> None:
        """Stamp an event by the clock of its host."""
        number = self.random.randrange(len(self._hosts))
        process = self.processes.setdefault(client, Process(client, self._hosts[number], number))
        event = Event(
            time_ns=process.host.monotonic_ns(self.now),
            process=client,
            type=type,
            f=f,
            key=self.key,
            grant_id=f"{client}.{grant.rpartition('-')[2]}",
            **reported,
        )
        process.events.append((self.now, event))


def hosts_of(random: Random, number: int, error_ns: int, *, set_at_all: bool = True) -> list[Host]:
    """Hosts whose wall clocks are off by `error_ns` at most, and mostly by just that."""

    def off() -> float:
        return random.choice([error_ns, -error_ns, random.uniform(-error_ns, error_ns)])

    def sleep() -> tuple[float, float]:
        since_ns = random.uniform(0, 5e9)
        return since_ns, since_ns + random.uniform(0, 3e9)

    return [
        Host(
            random.uniform(1 - RHO, 1 + RHO),
            random.uniform(0, 1e15),
            [
                (-1.0, off()),
                *((random.uniform(0, 5e9), off()) for _ in range(random.randint(0, 2) * set_at_all)),
            ],
            sleep() if set_at_all and random.random() < 0.3 else (0.0, 0.0),
        )
        for _ in range(number)
    ]


def recordings(
    random: Random,
    number: int,
    *,
    error_ns: int,
    bound_ns: int | None,
    fault: Fault | None = None,
    whole: bool = True,
    mixed: bool = False,
    hosts: int = 3,
    set_at_all: bool = True,
) -> Iterator[tuple[RecordedWorld, dict[str, History]]]:
    """So many executions, each with the recordings of its processes, which state `bound_ns`."""
    for at in range(number):
        clocks = hosts_of(random, hosts, error_ns, set_at_all=set_at_all)
        world = RecordedWorld(random, f"k{at}", clocks, fault, mixed=mixed)
        world.run()
        end_ns = world.now + 3e9
        yield (
            world,
            {p.client: p.recorded(random, bound_ns, end_ns, whole=whole) for p in world.processes.values()},
        )


def handed_over(
    random: Random, *, error_ns: int, bound_ns: int | None, whole: bool, hosts: int
) -> dict[str, History]:
    """A lock that goes from client to client without any pause, by a release or at the end of its lease.

    Of all executions of a correct lock those that errors of clocks make look worst.
    """
    clocks = hosts_of(random, hosts, error_ns)
    processes = [
        Process(f"c{at}", host, number)
        for at, (number, host) in enumerate(random.choices(list(enumerate(clocks)), k=4))
    ]
    now = 1e9

    def record(process: Process, type: Any, f: str, number: int, **reported: Any) -> None:
        event = Event(
            time_ns=process.host.monotonic_ns(now),
            process=process.client,
            type=type,
            f=f,
            key="k",
            grant_id=f"{process.client}.{number}",
            **reported,
        )
        process.events.append((now, event))

    for number in range(random.randint(2, 12)):
        process = random.choice(processes)
        ttl_ns = int(random.uniform(0.5, 4) * max(error_ns, 50_000_000))
        record(process, "invoke", "acquire", number, ttl_ns=ttl_ns)
        over_ns = now + ttl_ns / (1 + RHO)  # by the fastest clock that a node may have
        now += 1
        record(process, "ok", "acquire", number)
        if random.random() < 0.5:
            now = random.uniform(now, over_ns)
            record(process, "invoke", "release", number)
            now += 1
            record(process, "ok", "release", number)
        else:
            now = over_ns + 1
    return {p.client: p.recorded(random, bound_ns, now + 3e9, whole=whole) for p in processes if p.events}
