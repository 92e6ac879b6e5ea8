"""What becomes of a violation: a defect, a limit of the kind, or nothing that is certain."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from contextlib import closing

import pytest
from msgspec.structs import replace

from lab.errors import LabError
from lab.examine.answer.words import defect_words
from lab.examine.defects import NO_CAUSE, SURE, VARIANTS
from lab.examine.examination import STEADY, Candidate, Examination, Progress, Tried, tried
from lab.examine.kinds import JUMPS, PAUSED, Kind
from lab.examine.ledger.book import Breach
from lab.examine.ledger.finders import all_violations, seen
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.naming import Cause, causes_of
from lab.examine.programs import PROGRAMS, Program, Setting
from lab.examine.result import Part, Undecided
from lab.examine.schedules.situations import shared
from lab.examine.violations.judge import Violation
from lab.faults.cut import Cut
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.scenario.triggers import at_start, on
from lab.search.faults import timed_fault
from lab.search.loop import SLOWEST, Budget, OutOfTime
from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial
from lab.search.workers import Job, Workers

pytestmark = pytest.mark.usefixtures("_patched")

S_NS = 10**9
OPTIONS: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
PART = Part("a part", "of a test")
LATE = next(each for each in PROGRAMS if each.name == "late")
CONTEND = next(each for each in PROGRAMS if each.name == "contend")


def named(kind: str) -> list[Cause]:
    """One cause of this name."""
    return [Cause(kind, "seen", Breach("claims", "acquire", "claims"))]


WHOLE = next(each for each in PROGRAMS if each.name == "whole lease")


@pytest.mark.parametrize(
    ("lock", "program", "named"),
    [
        ("mutant:short-keys", "late", {"overlap", "unfenced-write", "lost-update", "false-validity"}),
        ("mutant:seconds-for-milliseconds", "kept", {"leak", "unavailable"}),
    ],
)
def test_short_keys_let_others_in_and_long_keys_keep_them_out(
    lock: str, program: str, named: set[str]
) -> None:
    trial = Setting(lock, OPTIONS, 3).trial(next(each for each in PROGRAMS if each.name == program))
    with trials():
        causes = {name: [each.kind for each in causes_of(trial, name)] for name in seen(keep(trial))}
    assert causes == {finding: ["wrong-expiry"] for finding in named}


def crossing_jump(lock: str) -> Trial:
    """Each client reaches another majority, and the clock of the node in both of them jumps."""
    faults = (
        timed_fault(Cut, at_start(), "alice", ("D", "E")),
        timed_fault(Cut, at_start(), "bob", ("A", "B")),
        timed_fault(Jump, on("alice", "granted"), nodes=("C",), by_ns=6 * S_NS),
    )
    return Setting(lock, OPTIONS).trial(CONTEND, faults, demand=False)


def waiting_for_a_paused_client(lock: str) -> Trial:
    """Bob stops before he asks once more; what he sends late keeps Alice from the lock for a lease."""
    pause = timed_fault(Pause, on("bob", "sends", 3), client="bob", lasts_ns=5_500_000_000)
    return Setting(lock, OPTIONS).trial(CONTEND, (pause,))


def examination(kind: Kind, **more: object) -> Examination:
    return Examination(kind, dict(OPTIONS), Budget(3600), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("trial", "assumption"), [(crossing_jump, JUMPS), (waiting_for_a_paused_client, PAUSED)]
)
def test_what_the_reference_has_as_well_is_a_limit(trial: Callable[[str], Trial], assumption: str) -> None:
    one = examination(Kind(True))
    with trials():
        one.try_all(PART, [trial("redlock")])
    assert one.defects == []
    assert {limit.assumption for limit in one.limits.values()} == {assumption}


def test_a_defect_of_the_same_schedule_is_no_limit() -> None:
    one = examination(Kind(True))
    with trials():
        one.try_all(PART, [Setting("mutant:bare-del", OPTIONS).trial(LATE)])
    (defect,) = one.defects
    assert (defect.cause, defect.reproduced, defect.reference_lost) == ("deletes-others-key", 20, 0)
    assert one.limits == {}


def test_two_findings_that_one_event_completes_have_one_cause() -> None:
    """Alice's last write is the one that the store should have refused, and the one that loses Bob's."""
    long = Round(0, 10_500_000_000)
    trial = Trial(
        "mutant:store-fence-off-by-one",
        {"alice": (*(long,) * 7, Round(0, 3 * S_NS)), "bob": (Round(90 * S_NS, 3 * S_NS),)},
        (timed_fault(Pause, on("alice", "write invoke"), "alice", lasts_ns=20 * S_NS),),
        nodes=3,
        options=OPTIONS,
        store_fences=True,
        horizon_ns=150 * S_NS,
    )
    one = examination(Kind(True))
    with trials():
        seen = tried(trial).violations
        assert set(seen) == {"fence-breach", "lost-update"}
        causes = [one._causes(trial, violation)[0] for violation in seen.values()]
    assert [[cause.kind for cause in each] for each in causes] == [["store-accepts-stale"]] * 2


def test_without_a_known_cause_each_finding_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.examine.examination.causes_of", lambda *_: [])
    one = examination(Kind(True))
    setting = Setting("mutant:bare-del", OPTIONS)
    with trials():
        for program in (LATE, CONTEND):
            for seed in range(3):
                one.try_all(PART, [setting.trial(program, seed=seed)])
    findings = [finding for defect in one.defects for finding in defect.findings]
    assert {defect.cause for defect in one.defects} == {"unknown"}
    assert "overlap" in findings
    assert len(findings) > len(one.defects)
    assert len(findings) == len(set(findings))


def test_parts_in_turn_begin_all_before_the_budget_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []

    def noting(self: Examination, part: Part, job: Job[Tried]) -> None:
        tried.append((part.name, job.argument.seed))
        if len(tried) == 6:
            raise OutOfTime

    monkeypatch.setattr(Examination, "_try", noting)
    seeds = [Setting("redlock", OPTIONS).trial(CONTEND, seed=seed) for seed in range(4)]
    parts = [(Part(name, "of a test"), seeds[:count]) for name, count in (("a", 1), ("b", 4), ("c", 2))]
    one = examination(Kind(True))
    with pytest.raises(OutOfTime):
        one.try_in_turn(parts)
    assert tried == [("a", 0), ("b", 0), ("c", 0), ("b", 1), ("c", 1), ("b", 2)]
    assert [part.name for part in one.parts] == ["a", "b", "c"]


def test_beyond_an_assumption_the_reference_decides_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it survived the schedule itself, and only fails in the smallest one."""
    monkeypatch.setattr(Examination, "_reference_survives", lambda *_: True)
    monkeypatch.setattr("lab.examine.examination.causes_of", lambda *_: named("too-few-votes"))
    one = examination(Kind(True))
    with trials():
        one.try_all(PART, [crossing_jump("redlock")])
    assert one.defects == []
    assert "overlap" in {finding for finding, _ in one.limits}


def test_a_lock_that_asks_too_few_nodes_fails_where_the_reference_survives() -> None:
    jump = timed_fault(Jump, on("alice", "granted"), nodes=("A",), by_ns=6 * S_NS)
    trial = Setting("mutant:stops-at-majority", OPTIONS).trial(CONTEND, (jump,))
    one = examination(Kind(True, sequential=True))
    with trials():
        one.try_all(PART, [trial])
    assert [defect.cause for defect in one.defects] == ["too-few-nodes-asked"]


def test_a_defect_is_shown_by_the_trial_that_needs_no_luck() -> None:
    one = examination(Kind(True))
    names = tuple("ABCDE")
    apart = tuple(
        timed_fault(Cut, at_start(), client, lost)
        for client, lost in (("alice", names[2:]), ("bob", names[:2]))
    )
    at_once = next(each for each in PROGRAMS if each.name == "at once")
    setting = Setting("mutant:quorum-off-by-one", OPTIONS)
    with trials():
        for seed in range(40):
            one.try_all(PART, [setting.trial(at_once, seed=seed)])
            if one.defects:
                break
        (racy,) = one.defects
        one.try_all(Part("another", ""), [setting.trial(CONTEND, apart, demand=False)])
    (steady,) = one.defects
    assert (racy.cause, steady.cause) == ("too-few-votes", "too-few-votes")
    assert racy.reproduced < steady.reproduced == 20
    assert set(racy.findings) <= set(steady.findings)


def test_what_has_no_known_cause_beyond_an_assumption_is_not_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Examination, "_reference_survives", lambda *_: True)
    monkeypatch.setattr("lab.examine.examination.causes_of", lambda *_: [])
    one = examination(Kind(True))
    with trials():
        one.try_all(PART, [crossing_jump("redlock")])
    assert (one.defects, one.limits) == ([], {})
    expected = Undecided("overlap", NO_CAUSE, 1, crossing_jump("redlock"))
    assert one.undecided["overlap", NO_CAUSE] == expected


def test_of_several_schedules_that_are_not_decided_the_shortest_is_kept() -> None:
    one = examination(Kind(True))
    longer, shorter = crossing_jump("redlock"), Setting("redlock", OPTIONS).trial(CONTEND)
    for trial in (longer, shorter, longer):
        one.leave_open("leak", NO_CAUSE, trial)
    assert [*one.undecided.values()] == [Undecided("leak", NO_CAUSE, 3, shorter)]


@pytest.mark.full
def test_an_acquire_that_waits_for_a_silent_node_is_too_slow() -> None:
    silent = timed_fault(Cut, on("alice", "acquire invoke"), "alice", ("A",))
    one = examination(Kind(True))
    with trials():
        one.try_all(PART, [Setting("mutant:waits-for-all", OPTIONS).trial(CONTEND, (silent,))])
    assert [defect.cause for defect in one.defects] == ["waits-too-long"]


@pytest.mark.full
def test_an_acquire_that_waits_for_a_held_lock_is_not_too_slow() -> None:
    one = examination(Kind(False))
    waiting = Setting("tests.locks_to_test.unusual:Blocking", OPTIONS, 1).trial(WHOLE)
    with trials():
        one.try_all(PART, [waiting])
        seen = run_trial(waiting)
    assert [event["type"] for event in seen.events if event["f"] == "acquire"].count("fail") == 0
    assert (one.defects, one.undecided) == ([], {})


def without_causes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.examine.examination.causes_of", lambda *_: [])


def test_a_lock_that_is_not_served_is_a_defect_without_a_cause_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the assumptions, in nearly all variants, and never with the reference."""
    without_causes(monkeypatch)
    one = examination(Kind(True))
    with trials():
        one.try_all(PART, [Setting("mutant:seconds-for-milliseconds", OPTIONS).trial(kept())])
    (defect,) = one.defects
    assert (defect.cause, {*defect.findings}) == ("unknown", {"leak", "unavailable"})
    assert defect.reproduced >= SURE
    assert not defect.reference_lost
    there = [line for line in defect.evidence if "the key 'resource' lay on A, B and C" in line]
    assert there
    assert there[0].endswith("set at 0 ms by Alice's acquire (SET)")


def kept() -> Program:
    return next(each for each in PROGRAMS if each.name == "kept")


@pytest.mark.parametrize(
    ("shows", "reference", "reported", "most"),
    [
        (lambda number: True, lambda number: False, True, 20),
        (lambda number: number not in (3, 8), lambda number: False, True, 20),
        (lambda number: number not in (3, 8, 9), lambda number: False, False, 10),
        (lambda number: True, lambda number: number == 5, False, 6),
    ],
)
def test_without_a_cause_nearly_all_variants_must_show_it(
    shows: Callable[[int], bool],
    reference: Callable[[int], bool],
    reported: bool,
    most: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And no more of them are run when it is certain that they do not."""
    without_causes(monkeypatch)
    one = examination(Kind(True))
    run: list[bool] = []

    def shown(finding: str, look: Callable[[], Tried]) -> bool:
        run.append(len(run) % 2 == 0)
        number = (len(run) - 1) // 2
        return (shows if run[-1] else reference)(number)

    monkeypatch.setattr(one, "_shows", shown)
    with trials():
        why = one._why_not_sure(Setting("redlock", OPTIONS).trial(CONTEND), Violation("unavailable", ""))
    assert (not why) == reported, why
    assert len(run) == 2 * most


def test_the_directed_part_is_run_before_anything_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    """And each sort of finding is looked into once before any of them is a second time."""
    order: list[str] = []
    one = examination(Kind(True), on_progress=lambda _: order.append("run"))
    monkeypatch.setattr(one, "_find_causes", lambda found: order.append(found.violation.finding))
    setting = Setting("mutant:bare-del", OPTIONS)
    with trials():
        one.try_directed(Part("a", "test"), [setting.trial(LATE, seed=seed) for seed in range(3)])
    looked = order[3:]
    assert order[:3] == ["run"] * 3
    assert "run" not in looked
    sorts = list(dict.fromkeys(looked))
    assert len(sorts) > 1
    assert looked[: len(sorts)] == sorts
    assert len(looked) == 3 * len(sorts)
    assert (one.directed.tried, one.directed.of, one.directed.finished) == (3, 3, True)


def test_a_schedule_in_which_much_happens_is_looked_into_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though it is of the same sort, and has no more faults."""
    setting, order = Setting("mutant:bare-del", OPTIONS), list[int]()
    short, long = setting.trial(LATE), setting.trial(LATE, seed=1)
    long = replace(long, clients={name: rounds * 40 for name, rounds in long.clients.items()})
    one = examination(Kind(True))
    monkeypatch.setattr(one, "_find_causes", lambda found: order.append(found.trial.seed))
    with trials():
        one.try_directed(Part("a", "test"), [long, short])
    assert order[-1] == 1
    assert order.index(short.seed) < order.index(1)


def two_defects() -> list[Trial]:
    """The lock deletes what is another's, and its keys are too short: two schedules, two causes."""
    return [
        Setting(lock, OPTIONS).trial(program)
        for lock, program in (("mutant:short-keys", LATE), ("mutant:bare-del", LATE))
    ]


def test_the_causes_of_all_are_known_before_one_is_made_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    one = examination(Kind(True))
    order: list[tuple[str, list[str]]] = []
    find, reduce = one._find_causes, one._reduced

    def noting(what: str, do: Callable[..., object]) -> Callable[..., object]:
        def done(candidate: Candidate, *more: object) -> object:
            order.append((what, [each.cause for each in one.defects]))
            return do(candidate, *more)

        return done

    monkeypatch.setattr(one, "_find_causes", noting("causes", find))
    monkeypatch.setattr(one, "_reduced", noting("smaller", reduce))
    with trials():
        one.try_directed(Part("a", "test"), two_defects())
    whats = [what for what, _ in order]
    assert whats == sorted(whats), "causes first"
    assert whats.count("smaller") == 2
    both = {"wrong-expiry", "deletes-others-key"}
    assert [{*noted} for what, noted in order if what == "smaller"] == [both, both]
    assert {each.cause: each.smallest for each in one.defects} == dict.fromkeys(both, True)


def test_what_there_is_no_time_to_make_smaller_is_a_defect_as_it_was_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first one that is made smaller takes all that is left."""
    found, spent_s = two_defects(), 0.0
    one = Examination(Kind(True), dict(OPTIONS), Budget(100, lambda: spent_s, lambda: 0.0))
    reduced = one._reduced

    def reduces(candidate: Candidate, own: int | None) -> tuple[Trial, bool]:
        nonlocal spent_s
        smaller = reduced(candidate, own)
        spent_s = 100.0
        return smaller

    monkeypatch.setattr(one, "_reduced", reduces)
    with trials():
        one.try_directed(Part("a", "test"), found)
    assert sorted(each.smallest for each in one.defects) == [False, True]
    (as_found,) = (each for each in one.defects if not each.smallest)
    assert as_found.trial in found
    assert (as_found.reproduced, as_found.variants, as_found.reference_lost) == (STEADY, STEADY, 0)
    assert one.undecided == {}


def test_a_defect_whose_smallest_schedule_the_reference_fails_in_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it was found it is certain; what decides is the smallest schedule."""
    (found, _), reference = two_defects(), Setting("redlock", OPTIONS).trial(CONTEND)
    one = examination(Kind(True))
    confirm = one._confirm
    monkeypatch.setattr(one, "_reduced", lambda candidate, own: (reference, True))
    monkeypatch.setattr(
        one,
        "_confirm",
        lambda trial, *more: (20, 20, 3) if trial == reference else confirm(trial, *more),
    )
    with trials():
        one.try_directed(Part("a", "test"), [found])
    assert one.defects == []
    assert {why for _, why in one.undecided} == {"redlock has it as well in 3 of 20 variants"}


def test_a_smaller_schedule_that_fewer_variants_show_does_not_take_its_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = Setting("mutant:seconds-for-milliseconds", OPTIONS).trial(kept())
    smaller = replace(found, seed=7)
    one = examination(Kind(True))
    monkeypatch.setattr(one, "_smallest", lambda *_, **__: (smaller, True))
    shows = one._confirm
    monkeypatch.setattr(
        one, "_confirm", lambda trial, *more: (20, 4, 0) if trial == smaller else shows(trial, *more)
    )
    with trials():
        one.try_all(PART, [found])
    assert [defect.trial for defect in one.defects] == [found]
    assert one.undecided == {}


def test_another_cause_of_the_smallest_schedule_leaves_the_first_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was known by the cause that the defect had at first is then looked into itself."""
    found = two_defects()[0]
    plainer = replace(found, seed=7)
    one = examination(Kind(True))
    causes = lambda trial, _: (named("goes-on" if trial.seed == 7 else "wrong-expiry"), "")  # noqa: E731
    monkeypatch.setattr(one, "_causes", causes)
    smaller = iter([(plainer, True), (replace(found, seed=3), True)])
    monkeypatch.setattr(one, "_smallest", lambda *_, **__: next(smaller, (found, True)))
    with trials():
        one.try_directed(Part("a", "test"), [found, replace(found, seed=2)])
    assert sorted(each.cause for each in one.defects) == ["goes-on", "wrong-expiry"]


def test_a_directed_part_that_is_cut_short_says_how_long_it_takes() -> None:
    """Two seconds of processor time pass with each schedule, and three times as many of real time."""
    now_s = 0.0

    def processor_s() -> float:
        return now_s

    def on_progress(_: Progress) -> None:
        nonlocal now_s
        now_s += 2.0

    budget = Budget(20, processor_s, lambda: 3 * now_s)
    one = Examination(Kind(True), dict(OPTIONS), budget, on_progress=on_progress)
    now_s = 4.0
    found = [Setting("redlock", OPTIONS).trial(CONTEND, seed=seed) for seed in range(50)]
    with trials(), pytest.raises(OutOfTime):
        one.try_directed(Part("a", "test"), found)
    directed = one.directed
    assert 0 < directed.tried < 50
    assert not directed.finished
    assert (directed.of, directed.budget_s, directed.seconds) == (50, 4 + 2 * 50, 3 * (4 + 2 * 50))


def test_a_finding_that_cannot_be_looked_into_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    one = examination(Kind(True))
    find = one._find_causes

    def finds(candidate: Candidate) -> bool:
        if candidate.violation.finding == "overlap":
            raise LabError("a TTL of 1500 ms\nand more")
        return find(candidate)

    monkeypatch.setattr(one, "_find_causes", finds)
    with trials():
        one.try_directed(Part("a", "test"), [Setting("mutant:bare-del", OPTIONS).trial(LATE)])
    assert [each.cause for each in one.defects] == ["deletes-others-key"]
    assert one.failed == ["a schedule with 'overlap' could not be looked into: a TTL of 1500 ms"]
    assert ("overlap", "it could not be looked into: a TTL of 1500 ms") in one.undecided


def test_a_schedule_that_cannot_be_run_costs_no_other() -> None:
    one = examination(Kind(True))
    trial = Setting("mutant:bare-del", OPTIONS).trial(LATE)
    with trials():
        one.try_all(PART, [replace(trial, lock="no_such_module:Lock"), trial])
    assert [each.cause for each in one.defects] == ["deletes-others-key"]
    (failed,) = one.failed
    assert failed.startswith("a schedule of 'a part' could not be run: ")


def test_processor_time_counts_and_real_time_a_part_of_it() -> None:
    processor_s, real_s = 7.0, 100.0
    budget = Budget(60, lambda: processor_s, lambda: real_s)
    processor_s, real_s = 17.0, 120.0
    assert (budget.spent_s, budget.left_s) == (10.0, 50.0), "a busy machine: no less is tried"
    processor_s, real_s = 18.0, 100.0 + 12 * SLOWEST
    assert budget.spent_s == 12.0, "what waits without computing comes to an end, too"


@pytest.mark.parametrize(("bound_s", "most_s"), [(20.0, 20), (math.inf, 100)])
def test_what_counts_with_a_cause_only_is_made_smaller_for_less_time(
    bound_s: float, most_s: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second passes with each trial, and half of 200 s may be spent."""
    now_s = 0

    def violates(*_: object) -> bool:
        nonlocal now_s
        now_s += 1
        return False

    one = Examination(Kind(True), {}, Budget(200, lambda: now_s, lambda: 0.0))
    one._shrinks_for_s = bound_s
    monkeypatch.setattr(one, "_violates", violates)
    faults = tuple(timed_fault(Cut, on("alice", "sends", nth), "alice", ("A", "B")) for nth in range(1, 30))
    trial = Setting("redlock", OPTIONS).trial(CONTEND, faults)
    assert one._smallest(trial, Violation("unavailable", "of a test")) == (trial, False)
    assert now_s == most_s


def tie(lock: str) -> Trial:
    """Of four nodes each client reaches two first."""
    return next(each for each in shared(Setting(lock, OPTIONS)) if each.nodes == 4)


def test_what_makes_a_finding_steady_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two clients that share the nodes do so again in each variant only if the network makes them."""
    trial = tie("redlock")

    def violates(_: object, changed: Trial, finding: str) -> bool:
        return bool(changed.faults) or changed.seed == trial.seed

    monkeypatch.setattr(Examination, "_violates", violates)
    violation = Violation("unavailable", "of a test")
    with trials():
        smallest, _ = examination(Kind(True))._reduced(Candidate(PART, trial, violation, frozenset(), []))
    assert smallest.faults


def test_a_new_defect_does_not_become_a_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is made smaller it may turn into one that is known: then it keeps what it is."""
    trial = tie("redlock")
    monkeypatch.setattr(Examination, "_violates", lambda *_: True)
    monkeypatch.setattr(
        Examination,
        "_causes",
        lambda _, changed, __: (named("needs-all-nodes" if changed.faults else "waits-too-long"), ""),
    )
    one = examination(Kind(True))
    known = lambda causes, *_: 0 if causes[0].kind == "waits-too-long" else None  # noqa: E731
    monkeypatch.setattr(one, "_known", known)
    violation = Violation("error", "of a test")
    with trials():
        new, known_one = (
            Candidate(PART, trial, violation, frozenset(), named(kind))
            for kind in ("needs-all-nodes", "waits-too-long")
        )
        assert one._reduced(new)[0].faults
        assert not one._reduced(known_one)[0].faults


@pytest.mark.parametrize(("budget", "whole"), [(30, False), (3000, True)])
def test_making_smaller_and_confirming_keep_to_the_budget(budget: int, whole: bool) -> None:
    """A second passes with each look at the clock, so with each trial."""
    now_s = -1

    def clock_s() -> float:
        nonlocal now_s
        now_s += 1
        return now_s

    one = Examination(Kind(True), dict(OPTIONS), Budget(budget, clock_s, lambda: 0.0))
    with trials():
        one.try_all(PART, [Setting("mutant:bare-del", OPTIONS).trial(LATE)])
    (defect,) = one.defects
    assert (defect.smallest, defect.variants == VARIANTS) == (whole, whole)
    assert 0 < defect.reproduced == defect.variants
    assert now_s <= budget + 4, "each finding looks at the clock once more"
    found = defect_words(defect, "redlock").found
    assert ("a smaller schedule may show it" in found) is not whole
    with trials(), pytest.raises(OutOfTime) if not whole else contextlib.nullcontext():
        one.try_all(PART, [Setting("redlock", OPTIONS).trial(LATE)])


def test_the_budget_ends_it() -> None:
    ticks = iter(range(100))
    one = Examination(Kind(True), dict(OPTIONS), Budget(3, lambda: float(next(ticks)), lambda: 0.0))
    trial = Setting("redlock", OPTIONS).trial(CONTEND)
    with trials(), pytest.raises(OutOfTime):
        one.try_all(PART, iter([replace(trial, seed=seed) for seed in range(10)]))
    assert one.progress.schedules == 2


@pytest.mark.parametrize(
    ("kind", "causes"),
    [
        (Kind(False, states_validity=False), []),
        (Kind(False), ["leaves-keys"]),
        (Kind(True, states_validity=False), ["leaves-keys"]),
    ],
)
def test_what_an_acquire_of_unknown_outcome_leaves_to_its_ttl(kind: Kind, causes: list[str]) -> None:
    """On one node, and of a lock that says nothing of its leases, that is what a TTL is for."""
    deaf = timed_fault(Cut, on("alice", "acquire invoke"), "alice", ("A",), direction="replies")
    clients: dict[str, tuple[Round, ...]] = {"alice": (), "bob": (Round(S_NS, S_NS),)}
    trial = Setting("tests.unit.examine.odd_locks:NeverUndoes", OPTIONS, 1).with_clients(clients, (deaf,))
    with trials(), closing(Workers(tried, 1)) as workers:
        one = Examination(kind, OPTIONS, Budget(60), workers=workers)
        (violation,) = all_violations(run_trial(trial)).values()
        assert [each.kind for each in one._causes(trial, violation)[0]] == causes
