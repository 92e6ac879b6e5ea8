"""Recordings of several processes, on the hosts of an application, put on one time.

Processes of one host share its monotonic clock (`Recorder.clock`), so that their stamps compare as they are.
Those of another host do by its wall clock: a recording says again and again by how much that is ahead of its
stamps. Of each clock the first such comparison moves all stamps, so that durations on one host stay as they
were measured. ε, by which a stamp may differ from true time, is for each clock the sum of

* the bound on the error of its wall clock, which the recorder states or the caller;
* how far any comparison is from the first (the wall clock was set), and how long it took;
* ρ times the longest time from a comparison to the next, or to an event after it.

The history has the largest ε of its clocks; none with one clock alone.

Where a wall clock was set ahead between two comparisons, time may have passed that the monotonic clock did
not count, as when a virtual machine is suspended. Leases that began before may have ended by then, although
the stamps do not show it. So there is a gap in which nothing was lost, from the one comparison to the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

from msgspec import structs

from checker.errors import HistoryError
from checker.history.events import CLOCK, GAP, LAB, Event, Params, Recorder
from checker.history.history import LONGEST_NS
from checker.history.operations import NEVER
from checker.history.pairing import client_of, is_client_event


@dataclass(slots=True, eq=False)
class Clock:
    """A monotonic clock; `ahead_ns` is by how much the wall clock was ahead of it at first."""

    name: str
    bound_ns: int | None
    ahead_ns: int | None = None
    off_ns: int = 0
    drift_ns: int = 0

    def error_ns(self, rho: float) -> int:
        """By how much a stamp may differ from true time."""
        if self.bound_ns is None:
            return LONGEST_NS
        return min(self.bound_ns + self.off_ns + ceil(rho * self.drift_ns), LONGEST_NS)


@dataclass(slots=True, eq=False)
class Recording:
    """The file of one process: `title` names it in errors, `clients` are its own and its parents'."""

    title: str
    recorder: Recorder
    clock: Clock
    clients: tuple[str, ...] = ()
    last_ns: int | None = None
    compared_ns: int = NEVER
    ahead_ns: int = 0
    took_ns: int = 0
    events: int = 0

    def wrong(self, problem: str, field: str, hint: str) -> HistoryError:
        """The error of the event that was read last."""
        where = f"{problem} (event {self.events - 1})"
        return HistoryError(where, file=self.title, field=field, hint=hint)


@dataclass(slots=True)
class Recordings:
    """The recordings that are judged together. `clock_error_ns` is said of all hosts, whatever files say."""

    clock_error_ns: int | None = None
    params: Params = field(default_factory=Params)
    all: list[Recording] = field(default_factory=list)
    _clocks: dict[str, Clock] = field(default_factory=dict)
    _base_ns: int | None = None

    def add(self, title: str, recorder: Recorder | None, params: Params) -> Recording:
        """Take in a file by its header.

        Raises:
            HistoryError: it is no recording, the same as another, or judged by other assumptions.
        """
        if recorder is None:
            raise HistoryError(
                "saw no recorder in the header, expected recordings where several files are judged together",
                file=title,
                field="recorder",
                hint="docs/recording.md describes the format; check other histories one by one",
            )
        same = next((one for one in self.all if one.recorder.client == recorder.client), None)
        if same is not None:
            raise HistoryError(
                f"saw {recorder.client!r}, which is that of {same.title} as well",
                file=title,
                field="recorder.client",
                hint="name each file once, and each process differently",
            )
        if self.all and params != self.params:
            name = next(n for n in params.__struct_fields__ if getattr(params, n) != getattr(self.params, n))
            here, there = getattr(params, name), getattr(self.params, name)
            raise HistoryError(
                f"saw {here!r}, but {there!r} in {self.all[0].title}",
                file=title,
                field=f"params.{name}",
                hint="files that are judged together have the same params",
            )
        self.params = params
        bound = recorder.clock_error_ns if self.clock_error_ns is None else self.clock_error_ns
        if bound is not None and not 0 <= bound <= LONGEST_NS:
            raise HistoryError(
                f"saw {bound}, expected 0 to {LONGEST_NS} ns",
                file=title,
                field="recorder.clock_error_ns",
                hint="leave it out if no bound is known",
            )
        clock = self._clocks.setdefault(recorder.clock, Clock(recorder.clock, bound))
        if bound is not None:  # processes of one host may state different bounds: each of them holds
            clock.bound_ns = bound if clock.bound_ns is None else min(clock.bound_ns, bound)
        recording = Recording(title, recorder, clock)
        self.all.append(recording)
        return recording

    def begin(self) -> None:
        """All files are known: find out whose grants each may have inherited."""
        parents = {one.recorder.client: one.recorder.parent for one in self.all}
        for one in self.all:
            clients: list[str] = []
            client: str | None = one.recorder.client
            while client is not None and client not in clients:
                clients.append(client)
                client = parents.get(client)
            one.clients = tuple(clients)

    @property
    def several_clocks(self) -> bool:
        """Whether stamps are of clocks that may err against each other."""
        return len(self._clocks) > 1

    @property
    def epsilon_ns(self) -> int:
        """By how much any stamp may differ from true time, as far as was read."""
        if not self.several_clocks:
            return self.params.epsilon_ns
        return max(clock.error_ns(self.params.rho) for clock in self._clocks.values())

    def placed(self, of: Recording, event: Event) -> Event | None:
        """An event of a recording on the common time; None if it only compares clocks once more.

        In place of a comparison that shows that time is missing there is a gap, from the one before it on.

        Raises:
            HistoryError: stamps that go back, no comparison of clocks before the first event, or an operation
                that is not this client's, or on a grant that is not.
        """
        of.events += 1
        if of.last_ns is not None and event.time_ns < of.last_ns:
            hint = "write events in the order of their stamps, which are of one monotonic clock"
            raise of.wrong(f"saw {event.time_ns} after {of.last_ns}", "time_ns", hint)
        of.last_ns = event.time_ns
        first = of.compared_ns == NEVER
        if event.process == LAB and event.f == CLOCK:
            gap = self._compared(of, event)
            return gap if gap or not first else self._moved(of, event)
        if first:
            hint = f'the first event has process {LAB!r}, type "info" and f {CLOCK!r}: see docs/recording.md'
            raise of.wrong(f"saw {event.f!r}, expected {CLOCK!r}", "f", hint)
        of.clock.drift_ns = max(of.clock.drift_ns, event.time_ns - of.compared_ns)
        if is_client_event(event):
            _require_own(of, event)
        return self._moved(of, event)

    def compared_ns(self, of: Recording) -> int | None:
        """When the clocks of a recording were compared last, on the common time: up to then it is settled."""
        if of.compared_ns == NEVER:
            return None
        return of.compared_ns + self._ahead_ns(of) - (self._base_ns or 0)

    def end(self, of: Recording, *, in_order: bool) -> Iterator[Event]:
        """The gaps at the end of a file: what was held may have been released since.

        After the last comparison of clocks, time may be missing as well.
        """
        last = of.last_ns or 0
        if last > of.compared_ns:
            yield self._standstill(of, last)
        event = Event(time_ns=last, process=LAB, type="info", f=GAP, value=0 if in_order else None)
        yield self._moved(of, event)

    def _standstill(self, of: Recording, until_ns: int) -> Event:
        """A gap since the last comparison of clocks, in which nothing was lost."""
        since_ns = of.compared_ns
        event = Event(
            time_ns=since_ns,
            process=LAB,
            type="info",
            f=GAP,
            start_ns=since_ns,
            duration_ns=until_ns - since_ns,
            value=0,
        )
        return self._moved(of, event)

    def _compared(self, of: Recording, event: Event) -> Event | None:
        """Take a comparison of clocks into account; the gap that it shows, if it shows one."""
        clock = of.clock
        if type(event.value) is not int:
            hint = "by how many ns the wall clock is ahead of time_ns"
            raise of.wrong(f"saw {event.value!r}, expected an integer", "value", hint)
        if clock.ahead_ns is None:
            clock.ahead_ns = event.value
        took_ns = max(event.duration_ns or 0, 0)
        clock.off_ns = max(clock.off_ns, abs(event.value - clock.ahead_ns) + took_ns)
        gap = None
        if of.compared_ns != NEVER:
            since_ns = event.time_ns - of.compared_ns
            clock.drift_ns = max(clock.drift_ns, since_ns)
            if event.value - of.ahead_ns > ceil(self.params.rho * since_ns) + took_ns + of.took_ns:
                gap = self._standstill(of, event.time_ns)
        of.compared_ns, of.ahead_ns, of.took_ns = event.time_ns, event.value, took_ns
        return gap

    def _ahead_ns(self, of: Recording) -> int:
        return of.clock.ahead_ns or 0 if self.several_clocks else 0

    def _moved(self, of: Recording, event: Event) -> Event:
        ahead = self._ahead_ns(of)
        if self._base_ns is None:
            self._base_ns = event.time_ns + ahead
        by = ahead - self._base_ns
        fields = {
            name: number + by
            for name in ("time_ns", "start_ns", "attempt_ns", "deadline_ns")
            if (number := getattr(event, name)) is not None
        }
        if event.process == LAB and event.f == CLOCK:
            fields |= {"value": event.value - by, "target": of.clock.name}
        elif event.process == LAB and event.f == GAP:
            fields["targets"] = list(of.clients)
        return structs.replace(event, index=None, **fields)


def _require_own(of: Recording, event: Event) -> None:
    client = of.recorder.client
    if client_of(event.process, event.client) != client:
        hint = f"processes of this file are {client}/1, {client}/2, and so on"
        raise of.wrong(f"saw {event.process!r}, expected one of {client!r}", "process", hint)
    if event.grant_id is not None and event.grant_id.rpartition(".")[0] not in of.clients:
        hint = (
            f"grants that this file acquires are {client}.1, {client}.2, and so on; what is done under a "
            "grant is recorded by the process that acquired it, or that was forked from it"
        )
        raise of.wrong(f"saw {event.grant_id!r}, expected a grant of {client!r}", "grant_id", hint)
