"""A few words to write small histories in; all times in milliseconds."""

from __future__ import annotations

from typing import Any, Self

from checker import check
from checker.formats.jsonl import event_line, footer_line, header_line
from checker.history.events import Event, Params
from checker.history.history import History
from checker.verdict import Verdict

MS = 1_000_000
TTL = 1_000


class HistoryBuilder:
    """Collects events in any order; they are sorted by time, an invocation before its completion."""

    def __init__(self, **params: Any) -> None:
        chosen: dict[str, Any] = {"nodes": 5, "clients": ["alice", "bob"], **params}
        self.params = Params(**chosen)
        self._events: list[Event] = []

    def op(
        self,
        who: str,
        f: str,
        call: float,
        back: float | None,
        type: Any = "ok",
        *,
        asked: dict[str, Any] | None = None,
        **reported: Any,
    ) -> Self:
        """One operation from `call` to `back`; without `back` it never returned."""
        shared: dict[str, Any] = {
            name: reported.pop(name) for name in ("key", "grant_id") if name in reported
        }
        common: dict[str, Any] = {
            "process": who,
            "client": who.partition("/")[0],
            "f": f,
            "key": "k",
            **shared,
        }
        self._events.append(Event(time_ns=round(call * MS), type="invoke", **common, **(asked or {})))
        if back is not None:
            self._events.append(Event(time_ns=round(back * MS), type=type, **common, **reported))
        return self

    def acquire(
        self,
        who: str,
        grant: str,
        call: float,
        back: float | None,
        type: str = "ok",
        *,
        ttl: float | None = TTL,
        claimed: float | None = None,
        **reported: Any,
    ) -> Self:
        asked = {} if ttl is None else {"ttl_ns": round(ttl * MS)}
        if claimed is not None:
            reported["claimed_ns"] = round(claimed * MS)
        if type == "fail":
            reported.setdefault("refused_by", 3)
        return self.op(who, "acquire", call, back, type, asked=asked, grant_id=grant, **reported)

    def extend(
        self,
        who: str,
        grant: str,
        call: float,
        back: float | None,
        type: str = "ok",
        *,
        ttl: float | None = TTL,
        claimed: float | None = None,
        **reported: Any,
    ) -> Self:
        asked = {} if ttl is None else {"ttl_ns": round(ttl * MS)}
        if claimed is not None:
            reported["claimed_ns"] = round(claimed * MS)
        return self.op(who, "extend", call, back, type, asked=asked, grant_id=grant, **reported)

    def release(
        self, who: str, grant: str, call: float, back: float | None, type: str = "ok", **reported: Any
    ) -> Self:
        return self.op(who, "release", call, back, type, grant_id=grant, **reported)

    def read(
        self, who: str, grant: str | None, call: float, back: float, version: int, value: Any = None
    ) -> Self:
        return self.op(who, "read", call, back, grant_id=grant, version_read=version, value=value)

    def write(
        self,
        who: str,
        grant: str | None,
        call: float,
        back: float | None,
        based: int | None,
        version: int | None,
        type: str = "ok",
        *,
        value: str | None = None,
        fence: int | None = None,
        token: str | None = None,
        key: str = "k",
    ) -> Self:
        asked = {"value": value or f"{who}-{call}", "version_read": based, "fence": fence, "token": token}
        reported = {} if version is None else {"version_written": version}
        return self.op(who, "write", call, back, type, asked=asked, grant_id=grant, key=key, **reported)

    def fault(
        self,
        f: str,
        at: float,
        targets: list[str],
        *,
        until: float | None = None,
        breaks: str | None = None,
        receipt: bool = True,
        name: str | None = None,
    ) -> Self:
        """An injection confirmed half a millisecond later, and its healing, confirmed at `until`."""
        about = {"fault_id": name or f"{f}-{at:g}", "target": ",".join(targets), "targets": targets}
        self._nemesis("invoke", f, at, breaks=breaks, **about)
        if receipt:
            self._nemesis("ok", f, at + 0.5, breaks=breaks, receipt={"seen": True}, **about)
        if until is not None:
            heal = {**about, "fault_id": f"heal-{about['fault_id']}", "heals": about["fault_id"]}
            word = "resume" if f == "pause" else "heal"
            self._nemesis("invoke", word, until - 0.5, **heal)
            self._nemesis("ok", word, until, receipt={"seen": True}, **heal)
        return self

    def _nemesis(self, type: Any, f: str, at: float, **fields: Any) -> None:
        self._events.append(Event(time_ns=round(at * MS), process="nemesis", type=type, f=f, **fields))

    def stall(self, who: str, start: float, duration: float) -> Self:
        client: dict[str, Any] = {} if who == "lab" else {"client": who}
        self._events.append(
            Event(
                time_ns=round((start + duration) * MS),
                process=who,
                type="info",
                f="stall",
                start_ns=round(start * MS),
                duration_ns=round(duration * MS),
                **client,
            )
        )
        return self

    def lab(self, f: str, at: float, type: Any = "ok", **fields: Any) -> Self:
        self._events.append(Event(time_ns=round(at * MS), process="lab", type=type, f=f, **fields))
        return self

    def events(self) -> list[Event]:
        return sorted(self._events, key=lambda e: e.time_ns)

    def history(self) -> History:
        return History.from_events(self.events(), self.params)

    def verdict(self, model: str | None = None) -> Verdict:
        return check(self.history(), model=model)

    def text(self) -> bytes:
        lines = [event_line(event, i) for i, event in enumerate(self.events())]
        return header_line(self.params) + b"".join(lines) + footer_line(len(lines))


def outcomes(verdict: Verdict) -> dict[str, str]:
    return {str(name): str(p.outcome) for name, p in verdict.properties.items()}


def names(verdict: Verdict) -> set[str]:
    return {f.name for f in verdict.findings}
