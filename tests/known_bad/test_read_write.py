"""Read-write locks: correct ones are not accused, broken ones are found with their cause."""

from __future__ import annotations

import pytest

from lab.drivers.shapes import Settings, shape_of
from lab.errors import LabError
from lab.examine.answer.narrative import schedule_words
from lab.examine.programs import ALICE, BOB, PROGRAMS, Setting
from lab.examine.schedules.roles import READER, in_roles
from lab.locks import capacity_of
from lab.search.as_scenario import scenarios_of, text_of
from lab.search.runner import Outcome, run_trial
from lab.search.trial import Trial
from tests.known_bad.examined import examined, one_always

LOCKS = "tests.locks_to_test.read_write:"
SHAPES = "tests.locks_to_test.ordinary.sharing:"
patched = pytest.mark.usefixtures("_patched")


@patched
@pytest.mark.parametrize(
    ("lock", "schedules"), one_always(["TwoKeys", "WriterFirst", "InAHash", "InSlots"], 60, 400)
)
def test_a_correct_read_write_lock_is_not_accused(lock: str, schedules: int) -> None:
    found = examined(LOCKS + lock, schedules, to_the_end=True)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    seen = {one.finding for one in found.undecided} | {one.finding for one in found.limits}
    assert "overlap" not in seen
    assert found.schedules >= schedules
    assert found.kind == "a read-write lock on one node"
    assert found.profile["readers"] == "Two readers held the lock at once."


@patched
@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "finding", "cause"),
    [
        ("ReaderDoesNotLook", "over-capacity", "lets-in-another"),
        ("WriterDoesNotLook", "over-capacity", "lets-in-another"),
        ("InTwoSteps", "over-capacity", "lets-in-another"),
        ("FirstReadersEnd", "over-capacity", "wrong-expiry"),
        ("LastReadersEnd", "over-capacity", "wrong-expiry"),
        ("LooksThenSets", "over-capacity", "lets-in-another"),
        ("ReaderTakesAll", "over-capacity", "deletes-others-key"),
        ("WriterTakesWhatIsThere", "over-capacity", "deletes-others-key"),
        ("KeepsDeadReaders", "leak", "no-expiry"),
        ("ReaderComesBack", "over-capacity", "recreates-key"),
    ],
)
def test_a_broken_read_write_lock_is_found_with_its_cause(lock: str, finding: str, cause: str) -> None:
    found = examined(LOCKS + lock, 2_000, first=True)
    assert [(defect.findings[0], defect.cause) for defect in found.defects] == [(finding, cause)]
    assert found.defects[0].reference_lost == 0


@patched
@pytest.mark.full
@pytest.mark.parametrize("lock", ["Pairs", "Two", "Managers", "shared", "acquire_write"])
def test_of_a_correct_ordinary_one_nothing_is_found_but_what_its_client_does(lock: str) -> None:
    found = examined(SHAPES + lock, 150, to_the_end=True, options=(("retries", 0),))
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.profile["readers"] == "Two readers held the lock at once."


@patched
@pytest.mark.full
def test_a_broken_ordinary_one_is_found() -> None:
    lets_in = ("lets-in-another",)  # its readers also cut each other's leases short
    found = examined(SHAPES + "BareReaders", 400, first=True, causes=lets_in, options=(("retries", 0),))
    assert [(each.findings[0], each.cause) for each in found.defects] == [
        ("over-capacity", "lets-in-another")
    ]


def _trial(lock: str, *, demand: bool = False) -> Trial:
    return Setting(lock, {}, 1, capacity=capacity_of(lock)).trial(PROGRAMS[0], demand=demand)


def _asked(outcome: Outcome) -> set[tuple[str, str]]:
    return {
        (event["client"], event["value"])
        for event in outcome.events
        if (event["f"], event["type"]) == ("acquire", "invoke")
    }


@patched
def test_a_schedule_is_played_in_all_roles_and_its_history_says_which() -> None:
    lock = LOCKS + "TwoKeys"
    trials = list(in_roles(capacity_of(lock), [_trial(lock, demand=True)]))
    writers, alice_reads, bob_reads, only_alice_reads = map(_asked, map(run_trial, trials))
    assert writers == {(ALICE, "write"), (BOB, "write")}
    assert {(ALICE, "read"), (BOB, "write"), (READER, "read")} <= alice_reads
    assert {(ALICE, "write"), (BOB, "read"), (READER, "read")} <= bob_reads
    assert READER not in {client for client, _ in only_alice_reads}
    assert (ALICE, "read") in only_alice_reads
    alone = next(each for each in in_roles(capacity_of(lock), [_trial(lock)]) if each.has_readers)
    assert not [each for each in run_trial(alone).events if (each["f"], each["client"]) == ("write", ALICE)]


@patched
def test_a_schedule_with_a_reader_is_told_and_written_as_one() -> None:
    lock = LOCKS + "WriterDoesNotLook"
    trial = list(in_roles(capacity_of(lock), [_trial(lock)]))[1]
    assert schedule_words(trial)[1].startswith("Alice acquires as a reader, holds it for 1.5s, releases")
    scenario = next(iter(scenarios_of(trial, "over-capacity", command="lab test")))
    assert "mode: read" in text_of(scenario)
    assert " gets the lock as a reader" in scenario.why


def test_a_lock_with_one_holder_has_no_other_roles() -> None:
    trial = _trial("single")
    assert list(in_roles(capacity_of("single"), [trial])) == [trial]


@patched
def test_a_read_write_lock_on_several_nodes_is_refused() -> None:
    with pytest.raises(LabError) as caught:
        examined(LOCKS + "OnSeveralNodes", 1)
    assert caught.value.seen == "a read-write lock that asks 5 nodes"


@patched
def test_a_read_write_lock_with_replicas_is_refused() -> None:
    with pytest.raises(LabError) as caught:
        examined(LOCKS + "TwoKeys", 1, replicas=2)
    assert caught.value.where == "--replicas"


@pytest.mark.parametrize(
    ("lock", "style", "names"),
    [
        ("Pairs", "object", ("acquire_write", "acquire_read")),
        ("Two", "object", ("write_lock", "read_lock")),
        ("Managers", "context manager", ("writer", "reader")),
    ],
)
def test_an_object_with_one_thing_for_readers_and_one_for_writers_is_recognised(
    lock: str, style: str, names: tuple[str, str]
) -> None:
    shape = shape_of(SHAPES + lock)
    assert shape is not None
    assert shape.read_write
    readers = shape.of("read")
    assert shape.style == readers.style == style
    used = [(each.through or each.acquire) for each in (shape.of("write"), readers)]
    assert tuple(use.name for use in used if use is not None) == names
    assert capacity_of(SHAPES + lock).read_write


@pytest.mark.parametrize(
    ("lock", "missing", "line"),
    [
        ("asked", "whether readers share it: asked has a parameter read", "readers = true"),
        (
            "take_exclusive",
            "what readers take: there is take_shared as well",
            'readers = "tests.locks_to_test.ordinary.sharing:take_shared"',
        ),
        (
            "take_shared",
            "what readers take: there is take_exclusive as well",
            "readers = false  # if they share nothing; else name "
            "tests.locks_to_test.ordinary.sharing:take_exclusive to the lab",
        ),
    ],
)
def test_what_is_not_certain_is_asked_with_the_line_to_add(lock: str, missing: str, line: str) -> None:
    with pytest.raises(LabError) as caught:
        shape_of(SHAPES + lock)
    assert missing in caught.value.seen
    assert caught.value.hint is not None
    assert line in caught.value.hint


def test_a_parameter_that_says_nothing_of_readers_is_an_option() -> None:
    shape = shape_of(SHAPES + "by_option", Settings(readers=False))
    assert shape is not None
    assert not shape.read_write
    assert shape.options == {"read": False}
