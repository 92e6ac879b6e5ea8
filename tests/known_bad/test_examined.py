"""``lab test`` finds each broken lock's defect by itself, with its cause, and accuses no correct lock."""

from __future__ import annotations

import pytest

from lab.examine.ledger.naming import CATALOGUE
from lab.locks.broken import CAUSES as CAUSE_KEYS
from lab.locks.broken import MUTANTS
from tests.known_bad.examined import examined

pytestmark = pytest.mark.usefixtures("_patched")

SCHEDULES_MAX = 12_000
"""After so many schedules a broken lock counts as not found."""
QUICK = ("bare-del", "release-asserts", "one-key-for-all")
"""Those that take three seconds or less: every run shows each broken lock caught by its scenario besides."""
SOON = (
    "quorum-of-reachable",
    "set-without-nx",
    "set-without-expiry",
    "short-keys",
    "token-from-seed",
    "believes-for-ever",
    "extension-adds-up",
    "no-release",
    "fence-constant",
    "store-reads-stale",
    "remembers-refusal",
    "release-expires-anybodys",
    "nodes-of-the-start",
    "token-per-client",
    "mutex-stays-locked",
    "extends-where-granted",
)
"""Those that take a few seconds, and are part of the full run."""
LATE = ("one-token-for-all-tries",)
"""Those that take thousands of schedules."""
EVERY = 10
"""Of so many others one is part of the full run; all of them are examined with ``--slow``."""
FIRST = ("redlock",)
"""Correct locks that are examined in every run of the tests."""
OF_OTHER_LOCKS = (
    "renewal-stops",
    "others-token",
    "returns-released",
    "mistakes-reply",
    "goes-on",
    "counts-twice",
    "deadline-moves",
    "belief-after-refusal",
    "invalid-command",
    "renews-unasked",
    "stays-with-old-master",
    "lets-in-another",
    "gives-back-twice",
    "ignores-time-out",
    "inner-exit-releases",
)
"""Causes that no broken lock of the lab has: the tests of named causes, of mistakable ones, of failovers,
of locks in collections, of semaphores and of scopes show them."""
OF_RULES = ("breaks-own-keys", "claims-too-much", "leaves-residue", "refuses-free-lock", "different-keys")
"""What a breach is called that nothing more special fits, of whatever lock."""
UNUSUAL = "tests.locks_to_test."
CORRECT = (
    "redlock",
    "redlock-sequential",
    "redlock-fenced",
    "redlock-cas",
    "single",
    f"{UNUSUAL}plain:Plain",
    f"{UNUSUAL}watchdog:Watchdog",
    f"{UNUSUAL}in_turn:InTurn",
    f"{UNUSUAL}new_tokens:NewTokens",
    *(
        f"{UNUSUAL}unusual:{name}"
        for name in (
            "SetIfEqual",
            "WholeSeconds",
            "Cautious",
            "Capped",
            "LooksFirst",
            "Blocking",
            "Reentrant",
            "Numbered",
            "Hashed",
            "SameTokenAgain",
            "FreshConnections",
            "BreaksOff",
            "ThreeExtensions",
            "InTransaction",
        )
    ),
)


def marks_of(at: int, name: str) -> tuple[pytest.MarkDecorator, ...]:
    """When a broken lock is examined: always, in the full run, or on demand."""
    if name in QUICK:
        return ()
    often = (at % EVERY == 0 or name in SOON) and name not in LATE
    return (pytest.mark.full if often else pytest.mark.slow,)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=marks_of(at, name)) for at, name in enumerate(MUTANTS)]
)
def test_a_broken_lock_is_found_with_its_cause(name: str) -> None:
    mutant = MUTANTS[name]
    found = examined(mutant.lock, SCHEDULES_MAX, first=True, causes=mutant.causes)
    assert found.defects, f"nothing was found in {found.schedules} schedules"
    defect = found.defects[0]
    assert found.exit_code == 1
    assert defect.cause in mutant.causes, defect.seen
    assert len(defect.faults) <= 3
    assert defect.reference_lost == 0


@pytest.mark.full
@pytest.mark.parametrize("name", ["quorum-off-by-one", "believes-for-ever"])
def test_what_is_named_first_is_what_the_fewest_faults_show(name: str) -> None:
    """Whatever its consequences are under several faults."""
    found = examined(MUTANTS[name].lock, SCHEDULES_MAX, first=True)
    assert [defect.cause for defect in found.defects] == [*MUTANTS[name].causes]


@pytest.mark.parametrize(
    ("lock", "schedules"),
    [
        *((lock, 250) for lock in FIRST),
        *(pytest.param(lock, 400, marks=pytest.mark.full) for lock in CORRECT),
    ],
)
def test_a_correct_lock_is_not_accused(lock: str, schedules: int) -> None:
    found = examined(lock, schedules)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.exit_code == 0
    assert found.schedules >= schedules


@pytest.mark.full
def test_the_smallest_schedule_still_shows_the_cause() -> None:
    """A place in a queue stays, which no key of the lock tells of."""
    found = examined("tests.locks_to_test.quietly_broken:StaysInQueue", 400, first=True)
    assert [defect.cause for defect in found.defects] == ["leaves-keys"]


@pytest.mark.parametrize(
    ("lock", "cause", "finding"),
    [
        pytest.param(
            "quietly_broken:FenceDrawnFirst", "fence-not-increasing", "fence-order", marks=pytest.mark.full
        ),
        pytest.param(
            "quietly_broken:NotesBeforeItAsks",
            "extension-not-kept",
            "overlap",
            marks=pytest.mark.full,
        ),
        pytest.param("quietly_broken:FewTokens", "same-token", "overlap", marks=pytest.mark.full),
        pytest.param(
            "quietly_broken:FreshLeaseAgain", "late-deadline", "false-validity", marks=pytest.mark.full
        ),
        pytest.param(
            "quietly_broken:ConfirmedLater", "late-deadline", "false-validity", marks=pytest.mark.full
        ),
        pytest.param(
            "quietly_broken:LooksThenProlongs", "extends-others-key", "others-key", marks=pytest.mark.full
        ),
        pytest.param(
            "quietly_broken:InnerReleaseInSeconds", "wrong-expiry", "overlap", marks=pytest.mark.full
        ),
        pytest.param(
            "on_several:RemembersTheFirstTtl", "late-deadline", "false-validity", marks=pytest.mark.full
        ),
        pytest.param(
            "on_several:ClaimsTheLater", "late-extension-deadline", "false-validity", marks=pytest.mark.full
        ),
        pytest.param("on_several:OneAcquireAtATime", "hangs", "hang", marks=pytest.mark.full),
        pytest.param(
            "on_several:ReleaseStops", "leaves-keys", "release-without-effect", marks=pytest.mark.full
        ),
        pytest.param("on_several:LeavesOutAtOpen", "too-few-votes", "overlap", marks=pytest.mark.full),
        pytest.param(
            "on_several:AddsTheDifference", "wrong-expiry", "false-validity", marks=pytest.mark.full
        ),
        pytest.param("on_several:AddsToWhatIsLeft", "wrong-expiry", "unavailable", marks=pytest.mark.full),
        pytest.param("on_several:MarginOnTheKey", "no-drift-margin", "overlap", marks=pytest.mark.full),
        pytest.param("on_several:UndoIsCancelled", "leaves-keys", "unavailable", marks=pytest.mark.full),
        pytest.param("on_several:UndoesAtTheEnd", "leaves-keys", "unavailable", marks=pytest.mark.full),
    ],
)
def test_what_only_nodes_show_is_found_with_its_cause(lock: str, cause: str, finding: str) -> None:
    found = examined(f"tests.locks_to_test.{lock}", SCHEDULES_MAX, first=True)
    assert [(defect.cause, defect.findings[0]) for defect in found.defects] == [(cause, finding)]
    assert found.defects[0].reference_lost == 0


@pytest.mark.full
def test_the_same_seed_finds_the_same() -> None:
    one, other = (examined("mutant:extends-anybodys", 600, seed=3) for _ in range(2))
    assert one.defects
    assert [(d.cause, d.trial.key()) for d in one.defects] == [
        (d.cause, d.trial.key()) for d in other.defects
    ]


def test_broken_locks_name_causes_that_there_are() -> None:
    assert {*CAUSE_KEYS, *OF_OTHER_LOCKS, *OF_RULES, "unknown"} == set(CATALOGUE)
