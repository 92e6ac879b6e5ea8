"""A suite for one lock: which scenarios apply, what is expected of it, and why others are left out."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from lab.batch.for_lock import Kind, plan_for, settings_for
from lab.batch.item import Plan
from lab.batch.plan import Selection
from lab.errors import LabError
from lab.scenario.files import ordinary_names
from lab.scenario.load import load_scenario
from tests.lab_process import Lab, ended_here

FIVE = ("A", "B", "C", "D", "E")
REDLOCK = Kind("redlock", fences=False, nodes=FIVE)
SINGLE = Kind("single", fences=False, nodes=("A",))


def reasons(plan: Plan) -> dict[str, str]:
    """Why each scenario that is left out is."""
    return {name: one.reason for one in plan.skipped for name in one.lock.split(", ")}


def chosen(plan: Plan) -> list[str]:
    return [item.name for item in plan.items]


def test_each_scenario_is_taken_or_left_out_with_a_reason() -> None:
    plan = plan_for("redlock", REDLOCK, "sim")
    assert sorted([*chosen(plan), *reasons(plan)]) == sorted(ordinary_names())
    reported = reasons(plan)
    assert (
        reported["redlock-fenced"]
        == reported["delayed-write-fenced-control"]
        == "needs a lock that hands out fences"
    )
    assert "announces its token" in reported["redlock-cas"]
    assert "follows a failover" in reported["failover-race"]
    assert "at the point between-setnx-and-expire" in reported["crash-between-setnx-and-expire"]
    assert set(reported).isdisjoint(
        {"partition-clockjump", "late-release", "extension-limit", "chaos", "late-set"}
    )


def test_another_lock_is_not_held_to_the_words_of_a_refusal() -> None:
    loaded = load_scenario("memory-full-control")
    told = loaded.scenario.expect.model_dump(mode="json", exclude_none=True)["operations"]["bob acquires"]
    assert told == [{"refused": "another client holds it"}, "ok"]
    settings = settings_for(loaded, "tests.locks_to_test.styles:OneNode", SINGLE)
    expected = load_scenario("memory-full-control", settings).scenario.expect.operations
    assert expected is not None
    assert expected["bob acquires"] == ("refused", "ok")


def test_a_control_is_left_out_with_its_scenario() -> None:
    plan = plan_for("single", SINGLE, "sim")
    for name in ordinary_names():
        of = load_scenario(name).scenario.control_of
        if of in reasons(plan):
            assert reasons(plan)[name] == reasons(plan)[of]
    assert "node A… executed SET" in reasons(plan)["gc-pause-in-flight-control"]


def test_what_a_lock_cannot_do_is_said() -> None:
    bare = Kind("redlock", fences=False, extends=False, nodes=FIVE, at_once=False)
    reported = reasons(plan_for("redlock-hyperf", bare, "sim"))
    assert reported["extend-across-partition"] == "needs a lock that can extend a lease"
    assert reported["split-vote-control"] == "needs a lock that asks all nodes at once"
    elsewhere = Kind("single", fences=False, nodes=("E",))
    reported = reasons(plan_for("single", elsewhere, "sim"))
    assert reported["healthy"] == "is for a lock on node A, and this one asks node E"
    assert "late-release" not in reported


@pytest.mark.parametrize(
    ("lock", "kind", "scenario", "expected"),
    [
        ("redlock", REDLOCK, "partition-clockjump", {"mutual_exclusion": "violated"}),
        ("redlock-sequential", REDLOCK, "partition-clockjump", {"lease_honesty": "ok"}),
        ("redlock", REDLOCK, "late-release", {"mutual_exclusion": "ok", "deadlock_freedom": "ok"}),
        ("plain-del", SINGLE, "late-release", {"mutual_exclusion": "ok"}),
        ("plain-del", SINGLE, "partition-clockjump", {"mutual_exclusion": "ok"}),
    ],
)
def test_the_reference_decides_what_is_expected(
    lock: str, kind: Kind, scenario: str, expected: dict[str, str]
) -> None:
    (item,) = (one for one in plan_for(lock, kind, "sim").items if one.name == scenario)
    loaded = load_scenario(scenario, item.settings).scenario
    assert loaded.lock.name == lock
    outcomes = dict(loaded.expect.outcomes)
    assert {name: outcomes[name] for name in expected} == expected  # type: ignore[index]


def test_what_the_reference_does_not_keep_may_be_kept() -> None:
    (item,) = (
        one
        for one in plan_for("redlock-sequential", REDLOCK, "sim").items
        if one.name == "partition-clockjump"
    )
    expect = load_scenario("partition-clockjump", item.settings).scenario.expect
    assert (expect.mutual_exclusion, expect.findings) == (None, None)
    assert "mutual_exclusion" in expect.either


def operations(lock: str, scenario: str) -> Sequence[str]:
    (item,) = (one for one in plan_for(lock, REDLOCK, "sim").items if one.name == scenario)
    return list(load_scenario(scenario, item.settings).scenario.expect.operations or {})


@pytest.mark.full
def test_no_lock_but_the_reference_has_to_be_in_doubt() -> None:
    doubted = load_scenario("extend-across-partition").scenario.expect.operations or {}
    assert "unknown" in doubted["alice extends"]
    assert operations("redlock", "extend-across-partition") == list(doubted)
    # Faults strike: another lock may come into another situation, and only properties are expected of it.
    assert operations("redlock-sequential", "extend-across-partition") == []
    assert operations("redlock-sequential", "late-release-compared-control") != []


def test_options_that_a_lock_does_not_have_are_left_out() -> None:
    plan = plan_for("tests.unit.batch.locks:Strict", REDLOCK, "sim")
    (item,) = (one for one in plan.items if one.name == "extend-across-partition")
    assert item.settings[1] == "lock.options={node_timeout: 200ms}"
    assert reasons(plan)["extension-limit"] == "needs a lock with the option max_extensions"


@pytest.mark.full
def test_a_driver_gets_no_options_of_the_labs_locks() -> None:
    plan = plan_for("./some-driver", REDLOCK, "auto")
    (item,) = (one for one in plan.items if one.name == "partition-clockjump")
    assert item.settings[:2] == ("lock.name=./some-driver", "lock.options={}")
    assert Selection(for_lock="./some-driver", kind=REDLOCK).plan().items[0].on == "auto"
    assert Selection(for_lock="redlock", kind=REDLOCK).plan().items[0].on == "sim"
    with pytest.raises(LabError, match="smi"):
        Selection(for_lock="redlock", kind=REDLOCK, on="smi").plan()


@pytest.mark.full
def test_the_command_finds_a_bare_del(lab: Lab) -> None:
    run = lab("suite", "--for", "plain-del", "--only", "late-release*", "--json")
    assert run.code == 1, run.out + run.err
    cells = {cell["id"]: cell for cell in json.loads(run.out)["cells"]}
    assert cells["late-release/plain-del/sim"]["rows"][0]["exit_code"] == 1
    assert cells["late-release-control/plain-del/sim"]["rows"][0]["exit_code"] == 0
    assert "needs a lock that hands out fences" in run.err
    assert lab("suite", "--for", "single", "--only", "late-release*").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("healthy", "--for", "redlock"), "--for"),
        (("--library", "--for", "redlock"), "--for"),
        (("--matrix", "--for", "redlock"), "--for"),
        (("--selftest", "--for", "redlock"), "--selftest together"),
        (("--like", "single"), "--like single without a lock"),
    ],
)
def test_options_that_do_not_go_together(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, error = ended_here(monkeypatch, capsys, "suite", *words)
    assert code == 2
    assert said in error
