"""Correct locks in the styles that people write are accused by nothing: not by lab test, not by a suite."""

from __future__ import annotations

import sys

import pytest

from lab.batch.for_lock import Kind, missing, plan_for
from lab.batch.item import Plan
from lab.batch.scenario_task import ScenarioTask
from lab.errors import ExitCode
from lab.examine.kinds import Kind as LockKind
from lab.examine.profile import about_nodes
from lab.examine.profile.probes import NotShown, Probes, Profile
from lab.examine.programs import Setting
from lab.examine.schedules.names_of_keys import other_names
from lab.run import many_runs
from lab.scenario.files import ordinary_names
from lab.scenario.load import load_scenario
from lab.scenario.model import Scenario
from lab.search.kind import kind_of
from lab.search.runner import run_trial
from tests.known_bad.examined import examined

PLACE = "tests.locks_to_test.styles:"
DRIVER = f"{sys.executable} -m tests.locks_to_test.styles_driver"
CLASSES = [
    f"{PLACE}{name}"
    for name in (
        *("OneNode", "Blocking", "Insisting", "Lazy", "Sharded", "WithKeyRules"),
        *("Cancelled", "WithoutExtension"),
    )
]
WATCHDOG = "tests.locks_to_test.watchdog:Watchdog"
NEW_COMMANDS = f"{PLACE}ByDigest"
NOTHING = frozenset[str]()
EVERY = slice(None)
WAITS = "needs a lock that refuses a held lock within 1s, and this one waits for it"


def reasons(plan: Plan) -> dict[str, str]:
    return {name: one.reason for one in plan.skipped for name in one.lock.split(", ")}


@pytest.mark.full
@pytest.mark.parametrize("lock", [*CLASSES, WATCHDOG, NEW_COMMANDS])
def test_lab_test_accuses_no_correct_lock(lock: str) -> None:
    found = examined(lock, 500, server="redis@8.6" if lock == NEW_COMMANDS else "")
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.schedules >= 500
    assert found.directed.finished, "else it is no all-clear"


@pytest.mark.full
def test_a_driver_without_claims_and_with_key_rules_is_not_accused() -> None:
    found = examined(DRIVER, 250)
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    assert found.directed.finished, "else it is no all-clear"
    assert "'order:resource'" in found.profile["acquire"]
    assert "no margin" not in str(found.profile)


def accused(
    lock: str, kind: Kind, names: frozenset[str] = NOTHING, part: slice = EVERY
) -> dict[str, tuple[str, ...]]:
    """The scenarios, all or some, in which a suite for this lock has it fail."""
    items = plan_for(lock, kind, "sim").items[part]
    assert items
    failed = {}
    with many_runs():  # one session: to begin one goes through all that the process holds
        for item in items:
            if names and item.name not in names:
                continue
            task = ScenarioTask.of(load_scenario(item.scenario, item.settings), item.scenario)
            with task.session():
                row = task(1)
            if row.exit_code == ExitCode.UNEXPECTED:
                failed[item.name] = row.reasons
    return failed


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("lock", "first"),
    [
        pytest.param(lock, (at + half) % 2, marks=pytest.mark.slow if half else ())
        for at, lock in enumerate([*CLASSES, WATCHDOG])
        for half in (0, 1)
    ],
)
def test_no_suite_accuses_a_correct_lock(lock: str, first: int) -> None:
    """Every second scenario, by turns; the others with ``--slow``."""
    assert accused(lock, kind_of(lock), part=slice(first, None, 2)) == {}


@pytest.mark.full
def test_a_lock_that_waits_is_not_held_to_scenarios_for_one_that_refuses() -> None:
    lock = f"{PLACE}Blocking"
    kind = kind_of(lock)
    assert set(kind.refuses.values()) == {None}
    told = reasons(plan_for(lock, kind, "sim"))
    assert told["late-release-compared"] == told["late-release-compared-control"] == WAITS
    # Without that, its own steps let Carol wait for Bob's lease, and Bob is told to write after its end.
    blind = Kind(kind.reference, kind.fences, kind.extends, kind.nodes, kind.at_once)
    only = frozenset({"late-release-compared"})
    assert list(accused(lock, blind, only)) == ["late-release-compared"]
    assert accused(lock, kind, frozenset({"healthy", "client-crash"})) == {}


def test_after_how_long_a_lock_refuses_is_measured() -> None:
    kind = kind_of(f"{PLACE}Insisting")
    assert set(kind.refuses.values()) != {None}
    told = reasons(plan_for(f"{PLACE}Insisting", kind, "sim"))
    assert told["late-release-compared"].startswith(
        "needs a lock that refuses a held lock within 1s, and this one does after 3"
    )
    assert "clock-jump-node" not in told  # there it may take five seconds


def test_a_majority_is_one_of_the_nodes_that_the_lock_asks() -> None:
    lock = f"{PLACE}Sharded"
    three = Kind("redlock", fences=False, nodes=("A", "B", "E"))
    told = reasons(plan_for(lock, three, "sim"))
    assert told["clock-jump-node-control"] == (
        "strikes A and B, a minority of five nodes, "
        "and the majority of those that this lock asks for this key (A, B, E)"
    )
    assert "clock-jump-node" not in told  # there a majority of either is struck
    other = Kind("redlock", fences=False, nodes=("B", "C", "D"))
    assert "clock-jump-node-control" not in reasons(plan_for(lock, other, "sim"))


def test_extensions_and_faults_are_seen_in_tracks() -> None:
    about = load_scenario("cancelled-acquire").scenario.model_dump(mode="json", exclude_none=True)
    crash = {"crash": {"nodes": ["A", "B"], "at": {"alice": "granted"}}}
    tracks = {"alice": ["acquire", "extend"], "faults": [crash]}
    scenario = Scenario.model_validate(about | {"clients": ["alice"], "tracks": tracks})
    told = [
        missing(scenario, "redlock", Kind("redlock", fences=False, extends=extends, nodes=nodes))
        for extends, nodes in ((True, None), (False, None), (True, ("A", "B", "E")))
    ]
    assert [one.partition(",")[0] for one in told] == [
        "",
        "needs a lock that can extend a lease",
        "strikes A and B",
    ]


@pytest.mark.full
@pytest.mark.parametrize("reference", ["single", "redlock", "redlock-fenced"])
def test_the_references_do_what_scenarios_presuppose(reference: str) -> None:
    kind = kind_of(reference)
    told = reasons(plan_for(reference, kind, "sim"))
    assert [reason for reason in told.values() if "refuses a held lock" in reason] == []
    wanting = [n for n in ordinary_names() if load_scenario(n).scenario.presupposes.refuses_within_ns]
    assert len(wanting) > 20
    assert set(kind.refuses) == set(wanting)


@pytest.mark.usefixtures("_patched")
def test_a_quorum_is_told_by_votes_and_not_by_time() -> None:
    """With a silent node the lease is over before all replies are in, whatever the votes are."""
    probes = Probes(Setting(f"{PLACE}WaitsForAll", {}))
    profile = Profile(LockKind(True))
    profile.nodes_used = ("A", "B", "C", "D", "E")
    with pytest.raises(NotShown, match="too long for a lease of 5000 ms whatever the votes are"):
        about_nodes.quorum(probes, profile)
    other = Probes(Setting(f"{PLACE}WaitsForAll", {}, ttl_ns=60 * 10**9))
    assert about_nodes.quorum(other, profile) == "An acquire needs 3 of 5 and 3 of 4 nodes: a majority."


@pytest.mark.usefixtures("_patched")
def test_a_name_that_is_not_taken_at_all_is_not_in_anybodys_way() -> None:
    """Names that the lock refuses by its own rules are left out; its pattern holds for the others."""
    ruled = {trial.other_key for trial in other_names(Setting(f"{PLACE}WithKeyRules", {}, 1))}
    free = {trial.other_key for trial in other_names(Setting(f"{PLACE}OneNode", {}, 1))}
    assert {"RESOURCE", "tenant/resource", "resource:1"} <= free - ruled
    assert not any(" " in name for name in free)
    outcome = run_trial(other_names(Setting(f"{PLACE}WithKeyRules", {}, 1))[0])
    assert {event["key"] for event in outcome.events if "key" in event} == {
        "order:resource",
        "order:resources",
    }
    assert outcome.failures == ()


@pytest.mark.full
@pytest.mark.usefixtures("_patched")
def test_nodes_that_stand_in_for_others_are_nodes_that_a_majority_is_of() -> None:
    found = examined(f"{PLACE}StandsIn", 600, to_the_end=True)
    cause = next(each for each in found.defects if each.findings[0] == "overlap")
    assert (cause.cause, cause.rule) == ("too-few-votes", "claims")
    assert "its key lay only on" in cause.seen
