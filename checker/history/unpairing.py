"""From operations back to events: what a history looked like before its invocations met their completions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

from checker.history.events import Event
from checker.history.operations import MISSING, NONE, NUMBER_COLUMNS, F, Operations, Status

_WORDS: Final[dict[int, Literal["ok", "fail", "info"]]] = {
    Status.OK: "ok",
    Status.FAIL: "fail",
    Status.INFO: "info",
}
_ASKED: Final[dict[int, tuple[str, ...]]] = {
    F.ACQUIRE: ("ttl_ns",),
    F.EXTEND: ("ttl_ns",),
    F.WRITE: ("value", "token", "fence", "version_read"),
    F.CAS: ("value",),
}


def events_of(ops: Operations, others: Iterable[tuple[int, Event]] = ()) -> list[Event]:
    """The events of operations and the others, in order of index; a plain loop, not for large histories.

    Process, key and grant stand on both events of an operation, what was asked for on its invocation, and
    everything else on its completion.
    """
    events = dict(others)
    for row in range(len(ops)):
        kind = int(ops.f[row])
        shared: dict[str, Any] = {
            "process": ops.name("process", row),
            "client": ops.name("client", row),
            "f": F(kind).name.lower(),
            "key": ops.name("key", row),
            "grant_id": ops.name("grant", row),
        }
        fields = {name: ops.name(name, row) for name in ("token", "value", "error")}
        for name in NUMBER_COLUMNS:
            number = int(getattr(ops, name)[row])
            fields[name] = None if number == MISSING else number
        fields["value"] = list(fields["value"]) if isinstance(fields["value"], tuple) else fields["value"]
        call, done = int(ops.call_index[row]), int(ops.return_index[row])
        asked = _ASKED.get(kind, ()) if done != NONE else tuple(fields)
        events[call] = Event(
            index=call,
            time_ns=int(ops.call_ns[row]),
            type="invoke",
            **shared,
            **{name: fields[name] for name in asked},
        )
        if done != NONE:
            events[done] = Event(
                index=done,
                time_ns=min(int(ops.return_ns[row]), int(ops.info_ns[row])),
                type=_WORDS[int(ops.status[row])],
                **shared,
                **{name: value for name, value in fields.items() if name not in asked},
            )
    return [events[index] for index in sorted(events)]
