"""A recorded history: the operations of the clients as columns, and what everybody else reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from itertools import compress
from operator import attrgetter
from typing import Any, Final, get_args

import msgspec

from checker.errors import HistoryError
from checker.history.completeness import Completeness
from checker.history.events import (
    CLOCK,
    GAP,
    LAB,
    NEMESIS,
    NODE,
    STALL,
    Event,
    EventType,
    Model,
    Params,
    Recorder,
)
from checker.history.masks import positions, some
from checker.history.operations import MISSING, NEVER, NONE, F, Names, Operations, Status
from checker.history.pairing import TYPES, client_of, columns_of, is_client_event, pair

__all__ = [
    "NEVER",
    "NONE",
    "Event",
    "F",
    "Fault",
    "Gap",
    "History",
    "LabRecord",
    "Names",
    "Operations",
    "Params",
    "Stall",
    "Status",
]

_APART: Final = (STALL, CLOCK, GAP)
PHASE: Final = "phase"
STEPS: Final = "steps"
"""The phase that the lab records once the cluster is up."""
_STEPS_BEGIN: Final = (
    (PHASE, STEPS),
    (PHASE, "story"),
)  # "story" in histories recorded before it was renamed
LONGEST_NS: Final = 10**17
"""The longest duration that a parameter may be, three years: sums with stamps fit into 64 bits."""
_STAMP_MAX: Final = 2**61
_DURATION_MAX: Final = 2**59
_DURATIONS: Final = ("ttl_ns", "claimed_ns", "duration_ns", "ttl_left_ns")
_STAMP: Final = (-_STAMP_MAX, _STAMP_MAX)
_DURATION: Final = (-_DURATION_MAX, _DURATION_MAX)
_RANGES: Final = {
    "call_ns": (*_STAMP, MISSING),
    "return_ns": (*_STAMP, NEVER),
    "info_ns": (*_STAMP, NEVER),
    "ttl_ns": (*_DURATION, MISSING),
    "claimed_ns": (*_DURATION, MISSING),
    "attempt_ns": (*_STAMP, MISSING),
    "deadline_ns": (*_STAMP, MISSING),
    "version_read": (*_STAMP, MISSING),
    "version_written": (*_STAMP, MISSING),
}
"""What a column may hold: from, to, and the number that means that it is absent."""
_COUNTS: Final = ("nodes", "quorum", "depth")
_NUMBERS: Final = {
    kind: tuple(f.name for f in msgspec.structs.fields(kind) if f.type in (int, int | None))
    for kind in (Event, Params)
}
_NUMBERS_OF: Final = attrgetter(*_NUMBERS[Event])
_MOST: Final = tuple(_DURATION_MAX if name in _DURATIONS else _STAMP_MAX for name in _NUMBERS[Event])
_WHO: Final = ("process", "client")
_NOT_NEGATIVE: Final = ("epsilon_ns", "delta_ns", "grace_ns", "stall_ns", "unavailable_ns")


@dataclass(frozen=True, slots=True)
class Fault:
    """One injection by the nemesis, from its invoke to the end of its healing.

    `until_ns` is when the healing was confirmed, `NEVER` if it never was; `receipt` is None without proof
    that the injection took effect.
    """

    f: str
    fault_id: str
    target: str
    targets: tuple[str, ...]
    breaks: str | None
    index: int
    start_ns: int
    receipt_ns: int = NEVER
    receipt: dict[str, Any] | None = None
    confirmed: bool = False
    heals: str | None = None
    until_ns: int = NEVER


@dataclass(frozen=True, slots=True)
class Stall:
    """A heartbeat gap of a client (or of the "lab"): it stood still from `start_ns` to `end_ns`."""

    client: str
    start_ns: int
    end_ns: int
    index: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Events are missing from `start_ns` to `end_ns`, `NEVER` if to the end.

    `clients` may have released grants meanwhile; None: any client. `lost` is how many events are missing, 0
    where recording ended in good order or a clock stood still, None where that is not known.
    """

    start_ns: int
    end_ns: int
    clients: tuple[str, ...] | None
    lost: int | None
    index: int


@dataclass(frozen=True, slots=True)
class LabRecord:
    """What the lab itself saw or did: a final read, the store's log, an anchor, a phase, an abort."""

    f: str
    type: str
    index: int
    time_ns: int
    key: str | None
    value: Any
    version_read: int | None
    error: str | None
    entries: tuple[tuple[int, Any, str | None, int | None], ...] = ()


@dataclass(frozen=True)
class History:
    """Everything that a check may look at. Build it with `History.from_events` or `checker.formats.load`.

    `problems` are reasons why the record itself proves nothing (truncated, wrong count): they turn every
    `ok` into `unknown`. `complete` is what its file says of the record as a whole. `start_ns` is the time of
    the first event. `notes` is what was assumed to read the file of another tool. `recorder` is who recorded
    it, if that was one process in production.
    """

    ops: Operations
    params: Params = field(default_factory=Params)
    faults: tuple[Fault, ...] = ()
    stalls: tuple[Stall, ...] = ()
    lab: tuple[LabRecord, ...] = ()
    nodes: tuple[Event, ...] = ()
    gaps: tuple[Gap, ...] = ()
    problems: tuple[str, ...] = ()
    start_ns: int = 0
    end_ns: int = 0
    has_header: bool = True
    complete: Completeness = Completeness.WHOLE
    others: tuple[tuple[int, Event], ...] = ()
    source: Callable[[], Sequence[Event]] | None = None
    notes: tuple[str, ...] = ()
    recorder: Recorder | None = None

    def __post_init__(self) -> None:
        """Raises `HistoryError`: parameters with which nothing can be computed."""
        params = self.params
        if params.model is not None and params.model not in get_args(Model):
            near = get_close_matches(str(params.model), get_args(Model), n=1)
            raise HistoryError(
                f"saw {params.model!r}, expected one of {', '.join(get_args(Model))}",
                field="params.model",
                hint=f"did you mean {near[0]!r}?" if near else None,
            )
        if not 0 <= params.rho < 1:
            raise HistoryError(f"saw {params.rho}, expected a rate from 0 to 1", field="params.rho")
        for name in _NOT_NEGATIVE:
            if (getattr(params, name) or 0) < 0:
                raise HistoryError(
                    f"saw {getattr(params, name)}, expected a duration of 0 ns or more",
                    field=f"params.{name}",
                )
        for name in _NUMBERS[Params]:
            number, least = getattr(params, name), int(name in _COUNTS)
            if number is not None and not least <= number <= LONGEST_NS:
                raise HistoryError(
                    f"saw {number}, expected an integer from {least} to {LONGEST_NS}", field=f"params.{name}"
                )

    @classmethod
    def from_events(
        cls,
        events: Sequence[Event],
        params: Params | None = None,
        *,
        problems: Iterable[str] = (),
        has_header: bool = True,
        complete: Completeness = Completeness.WHOLE,
        notes: tuple[str, ...] = (),
    ) -> History:
        """Pair the events of a history that is in memory; positions count as indices.

        A process may be an integer, as Jepsen numbers them.

        Raises:
            HistoryError: events that contradict each other (see `checker.history.pairing.pair`), or a field
                of the wrong kind.
        """
        events = _with_names(events)
        own = list(map(is_client_event, events))
        clients, indices = list(compress(events, own)), list(compress(range(len(events)), own))
        others = [(index, event) for index, event in enumerate(events) if not own[index]]
        ops = pair(columns_of(clients, indices))
        require_range(ops, others)
        times = [e.time_ns for e in events] or [0]
        return cls(
            ops=ops,
            params=params or Params(),
            problems=tuple(problems),
            start_ns=times[0],
            end_ns=max(times),
            has_header=has_header,
            complete=complete,
            source=lambda: events,
            notes=notes,
            **_reported(others),
        )

    def with_others(self, others: Sequence[tuple[int, Event]]) -> History:
        """The same history with what nemesis, lab and nodes reported: pairs of position and event."""
        return replace(self, **_reported(others))

    @cached_property
    def zero_ns(self) -> int:
        """Time zero of all sentences, tables and pictures.

        When the cluster was up and the steps began, if the record says so; else the time of the first event.
        """
        return next((record.time_ns for record in self.lab if steps_begin(record)), self.start_ns)

    @cached_property
    def clocks(self) -> tuple[Event, ...]:
        """What compares the clocks of a recording with wall clocks; nothing where the lab's clock stamped."""
        return tuple(event for _, event in self.others if event.process == LAB and event.f == CLOCK)

    @cached_property
    def several_clocks(self) -> bool:
        """Whether stamps are of clocks that may err against each other."""
        return len({event.target for event in self.clocks}) > 1

    def events(self) -> Sequence[Event]:
        """The raw events, read again from the file where they are not in memory (empty if nowhere)."""
        return self.source() if self.source else ()

    def with_params(self, params: Params) -> History:
        """The same record under other assumptions."""
        return replace(self, params=params)


def steps_begin(event: Event | LabRecord) -> bool:
    """Whether an event of the lab says that the cluster is up, and that the steps begin."""
    return (event.f, event.value) in _STEPS_BEGIN


def _with_names(events: Sequence[Event]) -> Sequence[Event]:
    """The events with names for the integers that stand for processes and clients.

    Raises:
        HistoryError: a process, a client or a type of another kind.
    """
    strings = all(set(map(type, map(attrgetter(name), events))) <= {str, type(None)} for name in _WHO)
    if not strings:
        events = [
            msgspec.structs.replace(
                event,
                **{n: str(v) for n in _WHO if type(v := getattr(event, n)) is int},
            )
            for event in events
        ]
    known = {*TYPES}
    for index, event in enumerate(events):
        if event.type not in known:
            near = get_close_matches(str(event.type).lower(), known, n=1)
            raise HistoryError(
                f"saw {event.type!r}, expected one of {', '.join(get_args(EventType))} (event {index})",
                field="type",
                hint=f"did you mean {near[0]!r}?" if near else None,
            )
        wrong = next((name for name in _WHO if not isinstance(getattr(event, name), str | None)), None)
        if wrong is not None or event.process is None:
            wrong = wrong or "process"
            raise HistoryError(
                f"saw {getattr(event, wrong)!r}, expected a string or an integer (event {index})", field=wrong
            )
    return events


def require_range(ops: Operations, others: Iterable[tuple[int, Event]]) -> None:
    """See to it that the numbers of these operations and events can be computed with.

    Raises:
        HistoryError: one that cannot, with its event.
    """
    for name, (least, most, spared) in _RANGES.items():
        column = getattr(ops, name)
        if column.strides == (0,):
            if column.size and column[0] == spared:
                continue
            column = column[:1]
        wrong = (column < least) | (column > most)
        if not some(wrong):
            continue
        wrong &= column != spared
        if name == "ttl_ns":
            wrong &= column < NEVER
        if some(wrong):
            row = int(positions(wrong)[0])
            done = name != "call_ns" and ops.return_index[row] != NONE
            index = int(ops.return_index[row] if done else ops.call_index[row])
            raise HistoryError(
                f"saw {column[row]}, expected a number from {least} to {most} (event {index})",
                field="time_ns" if name in ("call_ns", "return_ns", "info_ns") else name,
                hint="leave a duration out that has no end; count time from the start of the recording",
            )
    for index, event in others:
        require_numbers(index, event)


def require_numbers(index: int, event: Event) -> None:
    """See to it that the numbers of one event can be computed with; a TTL that has no end may be any.

    Raises:
        HistoryError: one that cannot, with its event.
    """
    for number, name, most in zip(_NUMBERS_OF(event), _NUMBERS[Event], _MOST, strict=True):
        if number is None or abs(number) <= most or (name == "ttl_ns" and NEVER <= number < 2**63):
            continue
        raise HistoryError(
            f"saw {number}, expected a number from {-most} to {most} (event {index})", field=name
        )


def _reported(others: Sequence[tuple[int, Event]]) -> dict[str, Any]:
    """What nemesis, lab and nodes reported, by the fields of `History`."""
    return {
        "faults": tuple(_faults(others)),
        "stalls": tuple(_stalls(others)),
        "lab": tuple(_lab_record(i, e) for i, e in others if e.process == LAB and e.f not in _APART),
        "gaps": tuple(_gap(i, e) for i, e in others if e.process == LAB and e.f == GAP),
        "nodes": tuple(e for _, e in others if e.process == NODE),
        "others": tuple(others),
    }


def _stalls(others: Sequence[tuple[int, Event]]) -> Iterable[Stall]:
    for index, event in others:
        if event.f != STALL or event.process in (NEMESIS, NODE):
            continue
        duration = event.duration_ns or 0
        start = event.start_ns if event.start_ns is not None else event.time_ns - duration
        who = LAB if event.process == LAB else client_of(event.process, event.client)
        yield Stall(who, start, max(start + duration, start), index)


def _gap(index: int, event: Event) -> Gap:
    start = event.time_ns if event.start_ns is None else event.start_ns
    return Gap(
        start,
        NEVER if event.duration_ns is None else start + max(event.duration_ns, 0),
        None if event.targets is None else tuple(event.targets),
        event.value if type(event.value) is int else None,
        index,
    )


def _lab_record(index: int, event: Event) -> LabRecord:
    return LabRecord(
        event.f,
        event.type,
        index,
        event.time_ns,
        event.key,
        event.value,
        event.version_read,
        event.error,
        tuple(tuple(entry) for entry in event.entries or ()),
    )


def _faults(others: Sequence[tuple[int, Event]]) -> list[Fault]:
    """Injections with their receipts; a healing closes the fault that it names.

    A nemesis event that stands alone (neither an invoke nor the completion of one, as other tools write)
    is a remark, no fault.
    """
    begun: list[tuple[int, Event, str]] = []
    completions: dict[int, Event] = {}
    open_at: dict[tuple[str, str, str | None], int] = {}
    for index, event in others:
        if event.process != NEMESIS:
            continue
        identity = (event.f, event.fault_id or event.f, event.heals)
        if event.type == "invoke":
            open_at[identity] = len(begun)
            begun.append((index, event, identity[1]))
        elif identity in open_at:
            completions[open_at.pop(identity)] = event
    healed_ns = {
        begun[at][1].heals: completion.time_ns
        for at, completion in sorted(completions.items())
        if completion.type == "ok"
    }
    return [
        _fault(index, event, name, completions.get(at), healed_ns)
        for at, (index, event, name) in enumerate(begun)
    ]


def _fault(
    index: int, event: Event, fault_id: str, completion: Event | None, healed_ns: dict[str | None, int]
) -> Fault:
    targets = tuple(event.targets or ())
    heals = event.heals
    return Fault(
        event.f,
        fault_id,
        event.target or ", ".join(targets),
        targets,
        event.breaks,
        index,
        event.time_ns,
        NEVER if completion is None else completion.time_ns,
        None if completion is None else completion.receipt,
        completion is not None and completion.type == "ok",
        heals,
        healed_ns.get(fault_id, NEVER) if heals is None else NEVER,
    )
