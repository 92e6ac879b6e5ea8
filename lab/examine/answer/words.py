"""The result of an examination in sentences, as the terminal and the page show it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from checker.words import listed
from lab.examine.answer.narrative import schedule_words
from lab.examine.kinds import FALSE_VALIDITY, LATE, SEMAPHORE, SENTENCES, UNFENCED, reference_in
from lab.examine.ledger.breaches import RULES
from lab.examine.ledger.finders import OTHERS_KEY
from lab.examine.ledger.naming import CATALOGUE, CauseKind
from lab.examine.result import USED_AS, Defect, Directed, Examined, Lines, OnReal, Part
from lab.examine.schedules.anchored import ANCHORED
from lab.examine.schedules.plan import BEYOND, DRAWN, NAMES, PAIRS, SINGLES
from lab.examine.schedules.situations import SITUATIONS
from lab.examine.violations.judge import ERROR, HANG, RELEASE, RENEWAL
from lab.report.meanings import FINDINGS

ORDER: Final = (SITUATIONS, NAMES, BEYOND, ANCHORED, SINGLES, DRAWN, PAIRS)
"""The parts in the order in which they are begun."""
OWN: Final = {
    ERROR: "an exception that no lock may raise",
    HANG: "an operation that never came to an end",
    OTHERS_KEY: "a call that deletes, overwrites, prolongs or shortens the key of another client's lease",
    RELEASE: "a release that leaves its key on a node that no fault hit, until it expires",
    RENEWAL: "a lease of a lock that renews its leases, which ends though its holder lives and nodes answer",
}
"""What is looked for beside the checker's findings."""
OVER_CAPACITY: Final = "over-capacity"
SOUGHT: Final = (
    *("overlap", OVER_CAPACITY, "continuity-loss", "false-validity", "leak", "unavailable"),
    *("lost-update", "cycle", "unfenced-write", "stale-write", "fence-order", "fence-breach"),
    *OWN,
)
"""The findings that are looked for in each schedule."""
REFUSED: Final = ("unavailable", "leak")
"""Findings about a lock that is refused for too long."""
OF_ONE_HOLDER: Final = ("overlap", "continuity-loss", *UNFENCED)
"""Findings that are none where several clients may hold the lock."""
OF_FENCES: Final = ("fence-order", "fence-breach")
FENCED: Final = ("redlock-fenced",)
NEVER_MAX: Final = 8
"""How many places in the lock's code are named that were never executed; the data have all."""
SIMULATED: Final = (
    "Everything was simulated: a finding is a claim about the model of Redis until a real one confirms it"
)


@dataclass(frozen=True, slots=True)
class DefectWords:
    """One defect in sentences; ``replay`` is the command that shows it again, ``real`` the same on Redis."""

    title: str
    key: str
    seen: str
    rule: str
    code: tuple[str, ...]
    leads_to: str
    evidence: tuple[str, ...]
    assumptions: str
    also: str
    also_seen: tuple[str, ...]
    reproduced: str
    reference: str
    right: str
    source: str
    schedule: tuple[str, ...]
    happened: tuple[str, ...]
    found: str
    kept: str
    replay: str
    confirmed: str
    real: str


def headline(examined: Examined) -> str:
    """The answer in one sentence."""
    broken_off = "interrupted: " if examined.interrupted else ""
    schedules = counted(examined.schedules, "schedule")
    if examined.defects:
        found = counted(len(examined.bugs), "defect")
        never = "" if examined.grants else "; no client was ever granted the lock"
        return f"{broken_off}{found} in {examined.lock}, compared with {examined.reference}{never}"
    if not examined.schedules:
        return f"{broken_off}{examined.lock} was not examined: no schedule was tried"
    if not examined.interrupted and examined.why_unknown:
        return f"not known whether {examined.lock} has a defect: {examined.why_unknown}"
    open_ = len({each.finding for each in examined.undecided})
    not_decided = f"; {counted(open_, 'finding')} not decided, see below" if open_ else ""
    return f"{broken_off}no defect found in {examined.lock} in {schedules}{not_decided}"


def spent(examined: Examined) -> str:
    """What it took."""
    fewer = f"; {examined.why_fewer}" if examined.why_fewer else ""
    on = f" on {examined.servers}" if examined.servers else ""
    return (
        f"{counted(examined.schedules, 'schedule')}{on} in {examined.seconds:.0f} s "
        f"({examined.spent_s:.0f} s of a budget of {examined.budget_s:g} s), seed {examined.seed}, "
        f"{counted(examined.covered, 'pair')} of fault and lock state{fewer}"
    )


def used_as(examined: Examined) -> str:
    """How an ordinary lock was used; nothing of another one."""
    shape = examined.profile.get(USED_AS)
    return f"used as {shape}" if shape else ""


def not_finished(examined: Examined) -> list[str]:
    """What was not done that had to be, and why: how much of the directed part, and what failed."""
    return [*filter(None, [directed(examined)]), *examined.failed]


def directed(examined: Examined) -> str:
    """How much of the directed part was run, if not all, and how long all of it would take; else nothing."""
    part = examined.directed
    if part.finished:
        return ""
    if not part.tried:
        return "the directed part was not begun: a longer --budget is needed; idle cores make it faster"
    return (
        f"the directed part: {part.tried:,} of {part.of or 0:,} situations were tried; all of them take "
        f"about {part.seconds:.0f} s on this machine at its present speed, that is "
        f"--budget {_enough_s(part)}s or more"
    )


def _enough_s(part: Directed) -> int:
    """A budget in which the directed part ends, with some time to look into what it shows."""
    return max(10, math.ceil(part.budget_s * 1.5 / 10) * 10)


def defect_words(defect: Defect, reference: str, consequences: Sequence[Defect] = ()) -> DefectWords:
    """A defect in sentences, with its consequences."""
    kind = cause_of(defect)
    other = [f"{name} ({meaning(name)})" for name in defect.findings[1:]]
    path = defect.scenario or defect.trial_file
    lost, compared = defect.reference_lost, reference_in(reference, reentrant=defect.trial.reentrant)
    return DefectWords(
        kind.what,
        defect.cause,
        _sentence(defect.seen),
        _rule(defect),
        _code(defect),
        _sentence(defect.headline),
        defect.evidence,
        assumptions_of(defect),
        "; ".join(other),
        tuple(map(_consequence, consequences)),
        f"in {defect.reproduced} of {defect.variants} variants of its schedule (other latencies and pauses)",
        f"{compared} in the same {defect.variants} schedules: "
        + (f"fails in {lost}" if lost else "never fails"),
        kind.right,
        kind.source,
        schedule_words(defect.trial),
        defect.happened,
        f"{defect.part}, after {counted(defect.schedules, 'schedule')} "
        f"and {defect.seconds:.1f} s of processor time"
        + ("" if defect.smallest else "; a smaller schedule may show it: what may be spent on one was spent"),
        _kept(defect),
        replay_command(path),
        _confirmed(defect.real),
        "" if defect.scenario is None else f"lab run {shlex.quote(defect.scenario)} --on local",
    )


def assumptions_of(defect: Defect) -> str:
    """Whether the defect's schedule breaks an assumption of the lock's kind, and which."""
    broken = defect.broken_assumptions
    if not broken:
        return "within the assumptions of the lock's kind"
    return f"an assumption of the lock's kind is broken: {listed(broken)}"


def _rule(defect: Defect) -> str:
    """The rule that its cause breaks, and how that was shown."""
    if not defect.rule:
        return ""
    shown = "with that undone, the schedule does not show the finding"
    return f"{RULES[defect.rule]} ({shown if defect.by_intervention else 'it says what the finding says'})"


def _code(defect: Defect) -> tuple[str, ...]:
    """Where in the lock's code the cause is: the call itself, and those that led to it, the nearest first."""
    calls = [str(place) for place in reversed(defect.places)]
    return tuple(f"called from {call}" if at else call for at, call in enumerate(calls))


def _consequence(defect: Defect) -> str:
    """What a defect led to in another schedule, which is kept as well."""
    path = defect.scenario or defect.trial_file
    replay = f" ({replay_command(path)})" if path else ""
    return f"{cause_of(defect).what} {_sentence(defect.seen)}. {_sentence(defect.headline)}{replay}"


def _kept(defect: Defect) -> str:
    if defect.scenario is not None:
        return f"{defect.scenario}: a scenario. {defect.replays}"
    if defect.trial_file is not None:
        why = f"; {defect.replays}" if defect.replays else ""
        return f"{defect.trial_file}: the trial, no scenario{why}"
    return ""


def _confirmed(real: OnReal | None) -> str:
    """How often a defect was seen on real Redis, or why it was not."""
    if real is None:
        return ""
    why_not = f": {real.why_not}" if real.why_not else ""
    if not real.judged:
        return f"not confirmed on real Redis{why_not}"
    unknown = f", {real.unknown} without a verdict" if real.unknown else ""
    confirmed = "confirmed" if real.reproduced else "not confirmed"
    return f"{confirmed} on real Redis: {real.reproduced} of {counted(real.judged, 'run')}{unknown}" + (
        "".join(f" ({note})" for note in (real.why_not, real.differ) if note)
    )


def cause_of(defect: Defect) -> CauseKind:
    """What the catalogue says about its cause."""
    return CATALOGUE[defect.cause]


def meaning(finding: str) -> str:
    """A finding in a few words."""
    known = FINDINGS.get(finding)
    return known.short if known is not None else OWN.get(finding, finding)


def limit_words(examined: Examined) -> list[tuple[str, str, list[str]]]:
    """The known limits: the assumption that is broken, why it matters, and what was seen how often."""
    found: dict[tuple[str, str], list[str]] = {}
    for limit in sorted(examined.limits, key=lambda limit: (limit.assumption, limit.finding)):
        alone = " (not of the reference, which looks at a clock)" if limit.finding == FALSE_VALIDITY else ""
        seen = f"{limit.finding}{alone}: {meaning(limit.finding)}, in {counted(limit.times, 'schedule')}"
        found.setdefault((limit.assumption, _why(limit.assumption, limit.finding)), []).append(seen)
    return [(*key, seen) for key, seen in found.items()]


def _why(assumption: str, finding: str) -> str:
    """Why a broken assumption leads to a finding."""
    if finding in REFUSED and assumption in LATE:
        return "the key of a client whose release is late is kept until it expires"
    return SENTENCES.get(assumption, "")


def explain(examined: Examined) -> str:
    """The answer in a few lines, for the message of a test that fails."""
    lines = [headline(examined), *not_finished(examined)]
    for number, defect in enumerate(examined.bugs, 1):
        words = defect_words(defect, examined.reference, examined.consequences(number))
        lines += [f"{number}. {words.title}", f"   {words.seen}", *(f"   {line}" for line in words.code)]
        lines += [f"   {words.leads_to}", *(f"   also seen as: {each}" for each in words.also_seen)]
        lines += [f"   right way: {words.right}"]
        lines += [f"   {words.confirmed}"] if words.confirmed else []
        lines += [f"   replay: {words.replay}"] if words.replay else []
    return "\n".join(lines)


def part_rows(examined: Examined) -> list[tuple[str, str, str]]:
    """What was tried: the part, how much of it, and what it is."""
    return [(part.name, tried_words(part), part.about) for part in examined.parts if part.tried]


def tried_words(part: Part) -> str:
    """How much of a part was tried."""
    if part.exhausted:
        return f"all {part.tried:,}"
    return f"{part.tried:,}" if part.of is None else f"{part.tried:,} of {part.of:,}"


def not_found(examined: Examined) -> list[str]:
    """What was looked for in each schedule and never seen: as a defect, as a limit, or undecided."""
    if not examined.schedules:
        return []
    seen = {name for defect in examined.defects for name in defect.findings}
    seen |= {limit.finding for limit in examined.limits} | {each.finding for each in examined.undecided}
    unsought = {*seen, *(() if examined.reference in FENCED else OF_FENCES)}
    unsought |= set(OF_ONE_HOLDER) if examined.reference == SEMAPHORE else {OVER_CAPACITY}
    return [f"{name}: {meaning(name)}" for name in SOUGHT if name not in unsought]


@dataclass(frozen=True, slots=True)
class UndecidedWords:
    """What is not decided in a sentence, a schedule that shows it, and the command that replays that."""

    seen: str
    schedule: tuple[str, ...]
    replay: str


def undecided(examined: Examined) -> list[UndecidedWords]:
    """What was seen and counts neither as a defect nor as a limit, and why."""
    return [
        UndecidedWords(
            f"{each.finding}: {meaning(each.finding)}, in {counted(each.times, 'schedule')}; {each.why}",
            schedule_words(each.trial),
            replay_command(each.trial_file),
        )
        for each in examined.undecided
    ]


def replay_command(path: str | None) -> str:
    """The command that runs a kept trial or scenario again; nothing without one."""
    return "" if path is None else f"lab test --replay {shlex.quote(path)}"


def code_words(examined: Examined) -> list[str]:
    """How much of the lock's code was executed, and what of it never was."""
    code = examined.executed
    if code.why_not:
        return [f"it is not known what was executed: {code.why_not}"]
    never = [f"never executed: {_place(each)} ({each.what})" for each in code.never]
    left = len(never) - NEVER_MAX
    return [
        f"{code.lines_executed:,} of {counted(code.lines, 'line')} executed",
        *never[:NEVER_MAX],
        *([f"and {counted(left, 'more place')} that no schedule executed"] if left > 0 else []),
    ]


def _place(lines: Lines) -> str:
    last = "" if lines.first == lines.last else f"-{lines.last}"
    return f"{lines.file}:{lines.first}{last}"


def not_tried(examined: Examined) -> list[str]:
    """What was not tried, or not to its end, and what could not be."""
    begun = {part.name.partition(":")[0] for part in examined.parts if part.tried}
    last = max((at for at, name in enumerate(ORDER) if name in begun), default=-1)
    left = [
        f"{part.name}: {part.of - part.tried:,} of {part.of:,} are left"
        for part in examined.parts
        if part.of is not None and part.tried and not part.exhausted
    ]
    left += [
        f"{part.name}: not all of them"
        for part in examined.parts
        if part.of is None and part.tried and part.name.startswith(PAIRS)
    ]
    never = [f"{name}: not begun" for name in ORDER[last + 1 :]]
    more = ["a longer --budget, or more --schedules, tries more of these"] if left or never else []
    return [*left, *never, *more, *examined.not_tried, SIMULATED]


def counted(number: int, what: str) -> str:
    """1 schedule, 12,431 schedules."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def _sentence(text: str) -> str:
    """With a capital, as it stands alone; names of locks and operations are left as they are."""
    return text[:1].upper() + text[1:]
