"""Why a history proves less than it should, as far as its lines told so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from checker.history.events import GAP, LAB, NEMESIS, Event

LISTED_MAX: Final = 10


class Doubts:
    """Collects reasons; `out_of_order` is set when times went back, after which nothing is judged."""

    def __init__(self) -> None:
        self.out_of_order = False
        self._counts: Counter[str] = Counter()
        self._reasons: list[str] = []
        self._more = 0
        self._faults: dict[tuple[str, str, str | None], int] = {}

    def count(self, what: str) -> None:
        """Something that the live form leaves to the offline check has happened once more."""
        self._counts[what] += 1

    def disordered(self, at: int) -> None:
        """Times went back at this event."""
        if not self.out_of_order:
            self.out_of_order = True
            self.add(f"the time goes back at event {at}: from there on nothing was judged live")

    def add(self, reason: str) -> None:
        """One reason more; only the first few are kept."""
        if len(self._reasons) < LISTED_MAX:
            self._reasons.append(reason)
        else:
            self._more += 1

    def look(self, event: Event, at: int) -> None:
        """Take an event of the nemesis or the lab into account, as `checker.decide.unknown_reasons` does."""
        if event.process == LAB and event.f == "abort":
            own = f"{event.value or 'the harness'} failed: {event.error or 'no reason given'} (event {at})"
            self.add(event.error if event.value == "not simulated" and event.error else own)
        elif event.process == LAB and event.f == GAP and event.value != 0:
            who = event.targets[0] if event.targets else "the recorder"
            self.add(
                f"what {who} did is not recorded from event {at} on" + (" for a while" if event.value else "")
            )
        elif event.process == LAB and event.f == "anchor" and event.type == "fail":
            self.add(f"an anchor never came: {event.error or event.value or '?'} (event {at})")
        elif event.process == NEMESIS:
            identity = (event.f, event.fault_id or event.f, event.heals)
            if event.type == "invoke":
                if identity in self._faults:
                    self._missing(identity)
                self._faults[identity] = at
            elif identity in self._faults:
                if event.type != "ok":
                    self._missing(identity)
                del self._faults[identity]

    def _missing(self, identity: tuple[str, str, str | None]) -> None:
        self.add(f"no receipt for {identity[0]} (event {self._faults[identity]})")

    def reasons(self) -> Iterator[str]:
        """Why the record itself proves less than it should."""
        yield from self._reasons
        if self._more:
            yield f"{self._more} reasons more of this kind"
        yield from (f"no receipt for {f} (event {at})" for (f, _, _), at in self._faults.items())

    def left_out(self) -> list[str]:
        """What the offline check knows more about."""
        return [f"{count} {what}" for what, count in sorted(self._counts.items())]
