"""A recorded history: the operations of the clients as columns, and what everybody else reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from checker.errors import HistoryError
from checker.events import LAB, NEMESIS, NODE, STALL, Event, Params
from checker.operations import NEVER, NONE, F, Names, Operations, Status
from checker.pairing import client_of, columns_of, is_client_event, pair

__all__ = [
    "NEVER",
    "NONE",
    "Event",
    "F",
    "Fault",
    "History",
    "LabRecord",
    "Names",
    "Operations",
    "Params",
    "Stall",
    "Status",
]

LAB_STALL: Final = LAB
_NO_FIT: Final = "saw {}, expected an integer of 64 bits"
_NUMBERS: Final = {
    kind: tuple(f.name for f in msgspec.structs.fields(kind) if f.type in (int, int | None))
    for kind in (Event, Params)
}
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
    receipt_index: int = NONE
    receipt_ns: int = NEVER
    receipt: dict[str, Any] | None = None
    confirmed: bool = False
    heals: str | None = None
    heal_index: int = NONE
    until_ns: int = NEVER


@dataclass(frozen=True, slots=True)
class Stall:
    """A heartbeat gap of a client (or of the "lab"): it stood still from `start_ns` to `end_ns`."""

    client: str
    start_ns: int
    end_ns: int
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
    `ok` into `unknown`. `start_ns` is the time of the first event; sentences count milliseconds from it.
    """

    ops: Operations
    params: Params = field(default_factory=Params)
    faults: tuple[Fault, ...] = ()
    stalls: tuple[Stall, ...] = ()
    lab: tuple[LabRecord, ...] = ()
    nodes: tuple[Event, ...] = ()
    problems: tuple[str, ...] = ()
    start_ns: int = 0
    end_ns: int = 0
    has_header: bool = True
    others: tuple[tuple[int, Event], ...] = ()
    source: Callable[[], Sequence[Event]] | None = None

    def __post_init__(self) -> None:
        """Raises `HistoryError`: parameters with which nothing can be computed."""
        params = self.params
        if not 0 <= params.rho < 1:
            raise HistoryError(f"saw {params.rho}, expected a rate from 0 to 1", field="params.rho")
        for name in _NOT_NEGATIVE:
            if (getattr(params, name) or 0) < 0:
                raise HistoryError(
                    f"saw {getattr(params, name)}, expected a duration of 0 ns or more",
                    field=f"params.{name}",
                )
        for name in _NUMBERS[Params]:
            if not _fits(getattr(params, name)):
                raise HistoryError(_NO_FIT.format(getattr(params, name)), field=f"params.{name}")

    @classmethod
    def from_events(
        cls,
        events: Sequence[Event],
        params: Params | None = None,
        *,
        problems: Iterable[str] = (),
        has_header: bool = True,
    ) -> History:
        """Pair the events of a history that is in memory; positions count as indices.

        Raises:
            HistoryError: events that contradict each other (see `checker.pairing.pair`).
        """
        clients = [(i, e) for i, e in enumerate(events) if is_client_event(e)]
        others = [(i, e) for i, e in enumerate(events) if not is_client_event(e)]
        ops = pair(columns_of([e for _, e in clients], [i for i, _ in clients]))
        require_64_bits(others)
        times = [e.time_ns for e in events] or [0]
        history = cls(
            ops=ops,
            params=params or Params(),
            problems=tuple(problems),
            start_ns=times[0],
            end_ns=max(times),
            has_header=has_header,
            source=lambda: events,
        )
        return history.with_others(others)

    def with_others(self, others: Sequence[tuple[int, Event]]) -> History:
        """The same history with what nemesis, lab and nodes reported: pairs of position and event."""
        return replace(
            self,
            faults=tuple(_faults(others)),
            stalls=tuple(_stalls(others)),
            lab=tuple(_lab_record(i, e) for i, e in others if e.process == LAB and e.f != STALL),
            nodes=tuple(e for _, e in others if e.process == NODE),
            others=tuple(others),
        )

    def events(self) -> Sequence[Event]:
        """The raw events, read again from the file where they are not in memory (empty if nowhere)."""
        return self.source() if self.source else ()

    def with_params(self, params: Params) -> History:
        """The same record under other assumptions."""
        return replace(self, params=params)

    def since_start_ms(self, time_ns: int) -> float:
        """A stamp as milliseconds since the first event, as every sentence and picture tells it."""
        return (time_ns - self.start_ns) / 1e6


def require_64_bits(others: Iterable[tuple[int, Event]]) -> None:
    """See to it that the numbers of these events can be computed with, as those of clients are.

    Raises:
        HistoryError: one that cannot, with its event.
    """
    for index, event in others:
        for name in _NUMBERS[Event]:
            if not _fits(getattr(event, name)):
                raise HistoryError(f"{_NO_FIT.format(getattr(event, name))} (event {index})", field=name)


def _fits(number: int | None) -> bool:
    return number is None or -(2**63) <= number < 2**63


def _stalls(others: Sequence[tuple[int, Event]]) -> Iterable[Stall]:
    for index, event in others:
        if event.f != STALL or event.process in (NEMESIS, NODE):
            continue
        duration = event.duration_ns or 0
        start = event.start_ns if event.start_ns is not None else event.time_ns - duration
        who = LAB_STALL if event.process == LAB else client_of(event.process, event.client)
        yield Stall(who, start, max(start + duration, start), index)


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
    found: list[Fault] = []
    open_at: dict[tuple[str, str, str | None], int] = {}
    for index, event in others:
        if event.process != NEMESIS:
            continue
        identity = (event.f, event.fault_id or event.f, event.heals)
        if event.type == "invoke":
            open_at[identity] = len(found)
            targets = tuple(event.targets or ())
            name = event.target or ", ".join(targets)
            found.append(
                Fault(
                    event.f, identity[1], name, targets, event.breaks, index, event.time_ns, heals=event.heals
                )
            )
        elif identity in open_at:
            at = open_at.pop(identity)
            found[at] = replace(
                found[at],
                receipt_index=index,
                receipt_ns=event.time_ns,
                receipt=event.receipt,
                confirmed=event.type == "ok",
            )
    return _healed(found)


def _healed(faults: list[Fault]) -> list[Fault]:
    healings = {f.heals: f for f in faults if f.heals is not None and f.confirmed}
    return [
        replace(fault, heal_index=healing.receipt_index, until_ns=healing.receipt_ns)
        if (healing := healings.get(fault.fault_id)) is not None and fault.heals is None
        else fault
        for fault in faults
    ]
