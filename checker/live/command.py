"""`--follow`: say what is violated as it happens, and at the end what was judged and what was not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from checker.errors import HistoryError
from checker.live.confirm import JUDGED
from checker.live.judge import Judge
from checker.live.lines import STANDARD_INPUT, Reader, lines_of
from checker.verdict import Finding, Outcome, Property, worst

EXIT: Final = {Outcome.OK: 0, Outcome.ABSENT: 0, Outcome.VIOLATED: 1, Outcome.UNKNOWN: 3}
EXIT_BAD_INPUT: Final = 2
EXIT_INTERRUPTED: Final = 130
NOT_JUDGED: Final = ("deadlock_freedom", "fault_tolerance", "linearizability", "cycles")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ending:
    """What is known when the history ends: outcomes of what was judged, and why they prove less."""

    outcomes: dict[Property, Outcome]
    not_judged: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """The worst of them; unknown if nothing was judged."""
        return worst(self.outcomes.values())


def follow(name: str, *, as_json: bool = False) -> int:
    """Judge a file that grows, or standard input (`-`), until its footer; returns the exit code.

    0 nothing judged is violated and the record is whole, 1 violated, 2 bad input, 3 unknown, 130 interrupted.
    """
    title = "standard input" if name == STANDARD_INPUT else name
    reader = Reader(title)

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        judge = _read(reader, lines_of(name), say, as_json)
    except HistoryError as error:
        sys.stderr.write(f"error: {error.at(file=title)}\n")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what was written later was not judged\n")
        return EXIT_INTERRUPTED
    ending = ending_of(judge, reader)
    if as_json:
        say(json.dumps(_as_json(ending), ensure_ascii=False))
    else:
        _print_ending(title, judge, ending, say)
    return EXIT[ending.outcome]


def _read(reader: Reader, lines: Iterable[bytes], say: Say, as_json: bool) -> Judge:
    """Judge line after line until the footer, or the end of standard input."""
    judge: Judge | None = None
    for line in lines:
        event = reader.read(line)
        if judge is None:
            assert reader.params is not None
            judge = Judge(reader.params)
        if reader.footer is not None:
            break
        if event is not None:
            try:
                found = judge.feed(event)
            except HistoryError as error:
                raise reader.at(error) from None
            for finding in found:
                say(_as_line(finding, judge, as_json))
    if judge is None:
        raise HistoryError("saw nothing, expected a header", line=1)
    for finding in judge.end():
        say(_as_line(finding, judge, as_json))
    return judge


def ending_of(judge: Judge, reader: Reader) -> Ending:
    """The outcome of each property that was judged, and what stands against an ok."""
    reasons = list(judge.doubts.reasons())
    if reader.footer is None:
        reasons.append("the history is truncated: it has a header but no footer")
    elif reader.footer.events != judge.events:
        reasons.append(f"the footer counts {reader.footer.events} events, there were {judge.events}")
    if not judge.granted:
        reasons.append("nothing was ever granted, so nothing was proved")
    reasons += [f"left to the offline check: {what}" for what in judge.doubts.left_out()]
    violated = {finding.property for finding in judge.found}
    outcomes = {p: Outcome.VIOLATED if p in violated else _otherwise(judge, p) for p in judge.judged}
    if reasons:
        outcomes = {p: o if o is Outcome.VIOLATED else Outcome.UNKNOWN for p, o in outcomes.items()}
    others = tuple(str(p) for p in JUDGED if p not in judge.judged)
    return Ending(outcomes, (*others, *NOT_JUDGED), tuple(reasons))


def _otherwise(judge: Judge, property: Property) -> Outcome:
    """The outcome of a property that was not violated: unknown if nothing could have violated it."""
    if property is Property.FENCING and not judge.fences:
        return Outcome.UNKNOWN if judge.params.lock_fences else Outcome.ABSENT
    met = {Property.RESOURCE: judge.writes, Property.LEASE_HONESTY: judge.leases}.get(property, judge.granted)
    return Outcome.OK if met else Outcome.UNKNOWN


def _as_line(finding: Finding, judge: Judge, as_json: bool) -> str:
    if as_json:
        return json.dumps({"event": judge.events - 1, "finding": finding.to_dict()}, ensure_ascii=False)
    events = ", ".join(map(str, finding.witnesses))
    broken = f"\n    {finding.broken_assumption}" if finding.broken_assumption else ""
    return (
        f"event {judge.events - 1}: {finding.severity} {finding.name}, events {events}: {finding.why}{broken}"
    )


def _print_ending(title: str, judge: Judge, ending: Ending, say: Say) -> None:
    say(f"{title}: {ending.outcome} (judged live, {judge.events} events)")
    for reason in ending.reasons:
        say(f"  unknown because: {reason}")
    for property, outcome in ending.outcomes.items():
        names = ", ".join(dict.fromkeys(f.name for f in judge.found if f.property is property))
        none = "none of " + ", ".join(sorted(JUDGED[property]))
        say(f"  {property:<17} {outcome:<9} {names or none}")
    say(f"  not judged: {', '.join(ending.not_judged)}")
    say("  the offline check judges these too: the same command without --follow")


def _as_json(ending: Ending) -> dict[str, Any]:
    return {
        "outcome": str(ending.outcome),
        "properties": {str(p): str(o) for p, o in ending.outcomes.items()},
        "not_judged": list(ending.not_judged),
        "unknown_reasons": list(ending.reasons),
    }
