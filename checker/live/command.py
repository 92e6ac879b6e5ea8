"""`--follow`: say what is violated as it happens, and at the end what was judged and what was not."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast, get_args

import msgspec

from checker.decide import properties
from checker.errors import HistoryError
from checker.formats.foreign import AS_IT_IS, Reading, require_foreign
from checker.history.events import Event, Model, Params
from checker.live.confirm import JUDGED
from checker.live.judge import Judge
from checker.live.lines import STANDARD_INPUT, Reader, lines_of
from checker.live.several import Several, is_recording
from checker.verdict import Finding, Outcome, Property, worst
from checker.words import listed

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


def follow(
    names: Sequence[str],
    *,
    as_json: bool = False,
    model: str | None = None,
    only: Sequence[str] | None = None,
    reading: Reading = AS_IT_IS,
    clock_error_ns: int | None = None,
) -> int:
    """Judge files that grow, or standard input (`-`), until their footers; returns the exit code.

    Several files are recordings (`checker.history.recordings`). `model` overrides that of the header, `only`
    are the properties that are judged, `reading` says how a history without a header is read, and
    `clock_error_ns` bounds the error of the clocks of all hosts.

    0 nothing judged is violated and the record is whole, 1 violated, 2 bad input, 3 unknown, 130 interrupted.
    """
    title = "standard input" if names[0] == STANDARD_INPUT else names[0]
    if len(names) > 1:
        title = f"{title} and {len(names) - 1} more"
    reader = Reader(title, reading)

    def say(line: str) -> None:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    try:
        judged = None if only is None else properties(only)
        require_judged(model, judged)
        if len(names) > 1 or clock_error_ns is not None or is_recording(names[0]):
            require_foreign(reading)
            judge = _read_recordings(names, clock_error_ns, say, as_json, model, judged)
        else:
            judge = _read(reader, lines_of(names[0]), say, as_json, model, judged)
            _look_at_end(judge, reader)
    except HistoryError as error:
        of_options = error.field in ("model", "only")
        sys.stderr.write(f"error: {error if of_options else error.at(file=title)}\n")
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: what was written later was not judged\n")
        return EXIT_INTERRUPTED
    ending = ending_of(judge)
    if as_json:
        say(json.dumps(_as_json(ending), ensure_ascii=False))
    else:
        _print_ending(title, judge, ending, say, foreign=reader.foreign)
    return EXIT[ending.outcome]


def require_judged(model: str | None, only: Sequence[Property] | None) -> None:
    """See to it that what is asked for can be judged live.

    Raises:
        HistoryError: no such model, one of one's own, or a property that only the whole record shows.
    """
    hint = "check the whole file when it is written, without --follow"
    if model is not None and model not in get_args(Model):
        own = "a model of one's own is not judged live" if ":" in model else f"saw {model!r}"
        raise HistoryError(f"{own}, expected one of {', '.join(get_args(Model))}", field="model", hint=hint)
    judged = Judge(Params(model=cast("Model | None", model))).judged
    if not judged:
        raise HistoryError(f"nothing of a {model} is judged live", field="model", hint=hint)
    left = [name for name in only or () if name not in judged]
    if left:
        raise HistoryError(
            f"{', '.join(left)} is not judged live, only {', '.join(judged)}", field="only", hint=hint
        )


def _read(
    reader: Reader,
    lines: Iterable[bytes | None],
    say: Say,
    as_json: bool,
    model: str | None,
    only: Sequence[Property] | None,
) -> Judge:
    """Judge line after line until the footer, or the end of standard input."""
    judge: Judge | None = None
    for line in lines:
        if line is None:
            if judge is not None:
                for finding in judge.so_far():
                    say(_as_line(finding, judge, as_json, "so far"))
            continue
        event = reader.read(line)
        if judge is None:
            assert reader.params is not None
            judge = _judge_of(reader.params, model, only)
        if reader.footer is not None:
            break
        if event is None:
            continue
        try:
            _feed(judge, event, say, as_json)
        except HistoryError as error:
            raise reader.at(error) from None
    if judge is None:
        raise HistoryError("saw nothing, expected a header", line=1)
    for finding in judge.end():
        say(_as_line(finding, judge, as_json))
    return judge


def _judge_of(params: Params, model: str | None, only: Sequence[Property] | None) -> Judge:
    judge = Judge(msgspec.structs.replace(params, model=model or params.model))
    judge.judged = tuple(name for name in judge.judged if only is None or name in only)
    return judge


def _read_recordings(
    names: Sequence[str],
    clock_error_ns: int | None,
    say: Say,
    as_json: bool,
    model: str | None,
    only: Sequence[Property] | None,
) -> Judge:
    """Judge recordings in the order of their stamps until all have ended."""
    files = Several(names, clock_error_ns)
    judge: Judge | None = None
    for event in files.events():
        if judge is None:
            judge = _judge_of(files.together.params, model, only)
            if files.together.several_clocks:
                judge.doubts.add(
                    "what depends on how much the clocks of the hosts err is left to the offline check"
                )
        epsilon_ns = files.together.epsilon_ns
        if epsilon_ns != judge.params.epsilon_ns:
            judge.params = msgspec.structs.replace(judge.params, epsilon_ns=epsilon_ns)
        _feed(judge, event, say, as_json)
    assert judge is not None  # a recording begins with a comparison of clocks
    for finding in judge.end():
        say(_as_line(finding, judge, as_json))
    return judge


def _look_at_end(judge: Judge, reader: Reader) -> None:
    """Doubts about the record as a whole, now that it has ended; a recording has its own events for that."""
    if reader.foreign:
        pass  # it has no footer, and `_print_ending` says that it may not be complete
    elif reader.footer is None:
        judge.doubts.add("the history is truncated: it has a header but no footer")
    elif reader.footer.events != judge.events:
        judge.doubts.add(f"the footer counts {reader.footer.events} events, there were {judge.events}")


def _feed(judge: Judge, event: Event, say: Say, as_json: bool) -> None:
    """Say what an event completes, takes back, or ends."""
    in_order = not judge.doubts.out_of_order
    for finding in judge.feed(event):
        say(_as_line(finding, judge, as_json))
    for finding in judge.withdrawn:
        say(_as_line(finding, judge, as_json, "withdrawn"))
    judge.withdrawn.clear()
    if in_order and judge.doubts.out_of_order:
        _say_disorder(judge, say, as_json)


def _say_disorder(judge: Judge, say: Say, as_json: bool) -> None:
    """Say at once that nothing more is judged."""
    why = next(judge.doubts.reasons())
    if as_json:
        say(json.dumps({"event": judge.events - 1, "not_judged": why}, ensure_ascii=False))
    else:
        say(f"event {judge.events - 1}: {why}; check the whole file when it is written, without --follow")


def ending_of(judge: Judge) -> Ending:
    """The outcome of each property that was judged, and what stands against an ok."""
    reasons = list(judge.doubts.reasons())
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
    if not met and judge.recorded and judge.granted:
        return Outcome.ABSENT
    return Outcome.OK if met else Outcome.UNKNOWN


def _as_line(finding: Finding, judge: Judge, as_json: bool, state: str = "") -> str:
    """A finding on one line; `state` is "so far" before it is certain, "withdrawn" if it proved not to be."""
    if as_json:
        said: dict[str, Any] = {"event": judge.events - 1, "finding": finding.to_dict()}
        return json.dumps(said | ({"state": state} if state else {}), ensure_ascii=False)
    events = ", ".join(map(str, finding.witnesses))
    if state:
        certain = "certain once a later stamp is read" if state == "so far" else "it ended at that instant"
        what = f"{finding.name} of {listed(finding.clients)} on {finding.key!r}, events {events}"
        return f"event {judge.events - 1}: {state}: {finding.severity} {what}: {certain}"
    broken = f"\n    {finding.broken_assumption}" if finding.broken_assumption else ""
    return (
        f"event {judge.events - 1}: {finding.severity} {finding.name}, events {events}: {finding.why}{broken}"
    )


def _print_ending(title: str, judge: Judge, ending: Ending, say: Say, *, foreign: bool) -> None:
    say(f"{title}: {ending.outcome} (judged live, {judge.events} events)")
    if foreign:
        say("  note: whether the record is complete is not known: every `ok` holds if it is")
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
