"""From events to operations: each invocation meets the completion of the same process and kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import numpy as np

from checker.errors import HistoryError
from checker.history.events import RESERVED, STALL, Event
from checker.history.identity import identified
from checker.history.masks import every, positions, some
from checker.history.operations import (
    COLUMNS,
    F_NAMES,
    I8,
    I32,
    I64,
    MISSING,
    NEVER,
    NONE,
    NUMBER_COLUMNS,
    F,
    Names,
    Operations,
    Status,
)

INVOKE: Final = 3
_THREADS_FROM_ROWS: Final = 200_000
TYPES: Final = {"ok": int(Status.OK), "fail": int(Status.FAIL), "info": int(Status.INFO), "invoke": INVOKE}
EVENT_CODES: Final = ("process", "key", "grant", "token", "value", "error")
_KIND: Final = {name: int(kind) for name, kind in F_NAMES.items()}
_ROWS_MAX: Final = 2**40
_NO_CODES: Final[I32] = np.broadcast_to(np.int32(NONE), (_ROWS_MAX,))
_NO_NUMBERS: Final[I64] = np.broadcast_to(np.int64(MISSING), (_ROWS_MAX,))
_ALL_NEVER: Final[I64] = np.broadcast_to(np.int64(NEVER), (_ROWS_MAX,))
"""Columns of one number, which take no memory: a slice costs a fraction of making one."""


@dataclass(slots=True)
class EventColumns:
    """Client events as columns in order of `index`, before pairing.

    `codes` and `names` share the keys of `EVENT_CODES`; `numbers` those of `NUMBER_COLUMNS`; `clients` maps
    a process code to its client. `kind` is `F`, `type` a `Status` or `INVOKE`.
    """

    index: I64
    time_ns: I64
    type: I8
    kind: I8
    codes: dict[str, Any]
    names: dict[str, Sequence[Any]]
    numbers: dict[str, I64]
    clients: Sequence[str]

    def __len__(self) -> int:
        return int(self.index.size)


class Interner(dict[Any, int]):
    """Codes for values in order of first sight; None is `NONE`."""

    def __init__(self) -> None:
        super().__init__({None: NONE})

    def __missing__(self, value: Any) -> int:
        code = len(self) - 1
        self[value] = code
        return code

    def names(self) -> list[Any]:
        """The values, by code."""
        return list(self)[1:]


def is_client_event(event: Event) -> bool:
    """Whether the event belongs to an operation of a client (not to nemesis, lab, node, nor a stall)."""
    return event.process not in RESERVED and event.f != STALL


def all_from_clients(events: Sequence[Event]) -> bool:
    """Whether `is_client_event` holds for every event; much faster than asking one by one."""
    if STALL in set(map(attrgetter("f"), events)):
        return False
    return RESERVED.isdisjoint(map(attrgetter("process"), events))


def client_of(process: str, named: str | None = None) -> str:
    """The stable name of the client that a process belongs to: "alice/2" goes on for "alice"."""
    return named if named is not None else process.partition("/")[0]


_SCALARS: Final = frozenset((type(None), str, int))
_FIELDS: Final = (
    *("grant_id" if name == "grant" else name for name in EVENT_CODES),
    *NUMBER_COLUMNS,
    "time_ns",
    "type",
    "f",
)
_ROW: Final = attrgetter(*_FIELDS)


class Tables:
    """The codes given so far, shared by the columns of consecutive events."""

    def __init__(self) -> None:
        self.interners = {name: Interner() for name in EVENT_CODES}
        self.clients: list[str] = []

    def names(self) -> dict[str, Sequence[Any]]:
        """The values behind the codes, by column."""
        return {name: interner.names() for name, interner in self.interners.items()}


def columns_of(events: Sequence[Event], indices: Sequence[int], tables: Tables | None = None) -> EventColumns:
    """Client events (those of `is_client_event`) and their positions in the history as columns.

    With `tables` the codes go on from there, and the caller fills in `names` and `clients` at the end.

    Raises:
        HistoryError: an unknown `f`, a value that is no scalar, a number that does not fit into 64 bits.
    """
    n = len(events)
    own = tables or Tables()
    fields = dict(
        zip(_FIELDS, zip(*map(_ROW, events), strict=True) if n else [()] * len(_FIELDS), strict=True)
    )
    if not _SCALARS.issuperset(map(type, fields["value"])):
        fields["value"] = tuple(map(_value, fields["value"], events, indices))
    codes = {
        name: _codes(own.interners[name], fields["grant_id" if name == "grant" else name])
        for name in EVENT_CODES
    }
    known, used = len(own.clients), len(own.interners["process"]) - 1
    if used > known:
        first = np.empty(used, np.int64)  # of those that are new; the last one written stays
        first[codes["process"][::-1]] = np.arange(n)[::-1]
        own.clients += [client_of(events[at].process, events[at].client) for at in first[known:].tolist()]
    return EventColumns(
        index=np.asarray(indices, np.int64),
        time_ns=_integers("time_ns", fields["time_ns"], indices),
        type=np.fromiter(map(TYPES.__getitem__, fields["type"]), np.int8, n),
        kind=_kinds(fields["f"], indices),
        codes=codes,
        names={} if tables else own.names(),
        numbers={name: _integers(name, fields[name], indices) for name in NUMBER_COLUMNS},
        clients=own.clients,
    )


def _codes(interner: Interner, values: Sequence[Any]) -> I32:
    if values.count(None) == len(values):
        return _NO_CODES[: len(values)]
    return np.fromiter(map(interner.__getitem__, values), np.int32, len(values))


def _kinds(kinds: Sequence[str], indices: Sequence[int]) -> I8:
    try:
        return np.fromiter(map(_KIND.__getitem__, kinds), np.int8, len(kinds))
    except KeyError:
        at = next(i for i, f in enumerate(kinds) if f not in _KIND)
        raise unknown_kind(kinds[at], indices[at]) from None


def _value(value: Any, event: Event, index: int) -> Any:
    if isinstance(value, list) and event.f == "cas" and not any(isinstance(v, list | dict) for v in value):
        return tuple(value)
    if value is None or (isinstance(value, str | int) and not isinstance(value, bool)):
        return value
    raise HistoryError(f"saw {value!r}, expected a string or an integer (event {index})", field="value")


def _integers(name: str, values: Sequence[Any], indices: Sequence[int]) -> I64:
    absent = values.count(None)
    if absent == len(values):
        return _NO_NUMBERS[: len(values)]
    if absent:
        values = [MISSING if number is None else number for number in values]
    try:
        return np.array(values, dtype=np.int64).reshape(len(values))
    except OverflowError:
        at = next(i for i, v in enumerate(values) if not -(2**63) <= v < 2**63)
        raise HistoryError(
            f"saw {values[at]}, expected an integer of 64 bits (event {indices[at]})", field=name
        ) from None


def unknown_kind(seen: str, index: int) -> HistoryError:
    """The error for a client event whose `f` is no operation."""
    from difflib import get_close_matches

    near = get_close_matches(seen, [*F_NAMES, STALL], n=1)
    return HistoryError(
        f"saw {seen!r}, expected one of {', '.join(F_NAMES)} or {STALL} (event {index})",
        field="f",
        hint=f"did you mean '{near[0]}'?" if near else None,
    )


def pair(columns: EventColumns) -> Operations:
    """Join invocations and completions, O(n log n); it takes the numbers out of the columns to free memory.

    Raises:
        HistoryError: a completion without an invocation, of another `f`, before it in time, or of another
            key or grant; a process that invokes twice at once; what
            `checker.history.identity.identified` refuses.
    """
    process = columns.codes["process"]
    few = len(columns.names["process"]) < 2**16
    order = np.argsort(process.astype(np.uint16) if few else process, kind="stable")  # 16 bits: radix sort
    process = process[order]
    is_call = columns.type[order] == INVOKE
    same_as_next = np.zeros(order.size, bool)
    same_as_next[:-1] = process[1:] == process[:-1]
    followed = np.zeros(order.size, bool)
    followed[:-1] = is_call[:-1] & ~is_call[1:]
    followed &= same_as_next
    _require_alternation(columns, order, is_call, same_as_next, followed)
    returns = np.full(order.size, NONE, np.int64)
    returns[order[followed]] = order[positions(followed) + 1]
    calls = positions(columns.type == INVOKE)
    return identified(_table(columns, calls, returns[calls]))


def _require_alternation(
    columns: EventColumns, order: I64, is_call: Any, same_as_next: Any, followed: Any
) -> None:
    alone = ~is_call
    alone[1:] &= ~followed[:-1]
    twice = np.zeros(is_call.size, bool)
    twice[1:] = is_call[1:] & is_call[:-1] & same_as_next[:-1]
    for wrong, problem in (
        (alone, "this process completes what it never invoked"),
        (twice, "this process invokes again before its completion"),
    ):
        if some(wrong):
            at = int(order[wrong].min())
            raise _pairing_error(columns, at, problem)


def _pairing_error(columns: EventColumns, at: int, problem: str, field: str = "process") -> HistoryError:
    process = columns.names["process"][columns.codes["process"][at]]
    kind = F(int(columns.kind[at])).name.lower()
    return HistoryError(
        f"{problem}: {process} {kind} (event {columns.index[at]}), expected invoke, then ok, fail or info",
        field=field,
        hint="one operation at a time per process; after an info the client goes on under a new process name",
    )


def _table(columns: EventColumns, calls: I64, returns: I64) -> Operations:
    completed = returns != NONE
    safe = returns if every(completed) else np.where(completed, returns, calls)
    status = np.where(completed, columns.type.take(safe), np.int8(Status.INFO)).astype(np.int8)
    stamp = np.where(completed, columns.time_ns.take(safe), NEVER)
    certain = status != Status.INFO
    call_ns, kind = columns.time_ns.take(calls), columns.kind.take(calls)
    _require(columns, calls, kind == columns.kind.take(safe), "the completion is of another f", "f")
    _require(columns, calls, stamp >= call_ns, "the completion is earlier", "time_ns")
    table: dict[str, Any] = {
        "f": kind,
        "status": status,
        "call_ns": call_ns,
        "return_ns": stamp if every(certain) else np.where(certain, stamp, NEVER),
        "info_ns": _ALL_NEVER[: calls.size] if every(certain) else np.where(certain, NEVER, stamp),
        "call_index": columns.index.take(calls),
        "return_index": np.where(completed, columns.index.take(safe), NONE),
    }

    def merged(name: str) -> Any:
        """What the completion says, else what the invocation says."""
        of_codes = name in columns.codes
        column = columns.codes[name] if of_codes else columns.numbers.pop(name)
        absent = NONE if of_codes else MISSING
        if _constant(column):
            return column[: calls.size]
        last = column.take(safe)
        unsaid = last == absent
        if name in ("key", "grant"):
            first = column.take(calls)
            agree = (first == last) | (first == NONE) | unsaid
            _require(columns, calls, agree, f"the completion names another {name}", name)
        if some(unsaid):
            np.copyto(last, column.take(calls), where=unsaid)
        return last

    names = (*columns.codes, *columns.numbers)
    table |= zip(names, _each(merged, names, calls.size), strict=True)
    client_names, client_codes = _intern(columns.clients)
    table["client"] = client_codes.take(table["process"])
    codes = Names(**columns.names, client=client_names)
    return Operations(**{name: table[name] for name in COLUMNS}, names=codes)


def _each(work: Callable[[str], Any], names: Sequence[str], rows: int) -> list[Any]:
    """What `work` makes of each column; of many rows by two threads, since numpy lets them run together.

    Raises:
        HistoryError: the first error, in the order of the columns.
    """
    if rows < _THREADS_FROM_ROWS:
        return list(map(work, names))
    with ThreadPoolExecutor(2) as threads:
        return list(threads.map(work, names))


def _constant(column: Any) -> bool:
    """Whether a column is one number repeated, which takes no memory."""
    return bool(column.size and column.strides == (0,))


def _intern(strings: Sequence[str]) -> tuple[list[str], Any]:
    interner = Interner()
    codes = np.fromiter(map(interner.__getitem__, strings), np.int32, len(strings))
    return interner.names(), codes


def _require(columns: EventColumns, calls: I64, holds: Any, problem: str, field: str) -> None:
    if not every(holds):
        raise _pairing_error(columns, int(calls[positions(~holds)[0]]), problem, field)
