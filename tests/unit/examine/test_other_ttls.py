"""Clients that ask for leases of different lengths: who remembers the wrong one is found, and nobody else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.naming import causes_of
from lab.examine.programs import S_NS, Setting
from lab.examine.schedules.situations import other_ttls
from lab.locks.base import Lease
from lab.scenario.steps import Acquire
from lab.search.as_scenario import scenarios_of
from lab.search.command import OPTIONS
from lab.search.runner import run_trial
from lab.search.trial import Trial
from tests.locks_to_test.plain import Plain

pytestmark = pytest.mark.usefixtures("_patched", "_trials")

LOCKS = "tests.locks_to_test"


def causes_of_claims(trial: Trial) -> set[str]:
    """What led to a claim that is too long; nothing if none is."""
    violation = all_violations(run_trial(trial)).get("false-validity")
    if violation is None:
        return set()
    return {cause.kind for cause in causes_of(trial, violation.finding)}


class KeepsTheLonger(Plain):
    """An extension for less time than is left changes nothing: not the key, not what is claimed."""

    name = "keeps-the-longer"

    async def extend(self, lease: Lease, ttl_ns: int) -> Lease:
        extended = await super().extend(lease, ttl_ns)
        return replace(extended, deadline_ns=max(lease.deadline_ns, extended.deadline_ns))


@pytest.mark.parametrize(
    ("lock", "nodes", "expected"),
    [
        (f"{LOCKS}.on_several:RemembersTheFirstTtl", 5, [{"late-deadline"}, set(), set(), set(), set()]),
        (f"{LOCKS}.on_several:ClaimsTheLater", 5, [set(), set(), {"late-extension-deadline"}, set(), set()]),
        *((lock, 5, [set()] * 5) for lock in ("redlock", "redlock-fenced", "redlock-cas")),
        (f"{__name__}:KeepsTheLonger", 1, [set()] * 5),
    ],
)
def test_a_client_may_ask_for_leases_of_different_lengths(
    lock: str, nodes: int, expected: list[set[str]]
) -> None:
    for ttl_ns in (S_NS, 5 * S_NS):
        some = list(other_ttls(Setting(lock, OPTIONS, nodes, ttl_ns), extends=True))
        extended = [
            sum(event["f"] == "extend" and event["type"] == "ok" for event in run_trial(trial).events)
            for trial in some
        ]
        assert extended == [0, 0, 2, 2, 0]
        seen = [causes_of_claims(trial) for trial in some]
        assert [causes - {"extension-not-kept"} for causes in seen] == expected
        if not any(expected):
            assert [all_violations(run_trial(trial)) for trial in some] == [{}] * 5


def test_a_scenario_says_that_leases_have_different_lengths() -> None:
    trial = next(other_ttls(Setting(f"{LOCKS}.on_several:RemembersTheFirstTtl", OPTIONS), extends=False))
    scenario = scenarios_of(trial, "false-validity", command="lab test")[0]
    asked = [step.ttl_ns for step in scenario.every_step if isinstance(step, Acquire)]
    assert len(set(asked)) > 1


@pytest.mark.parametrize(("lock", "asked"), [("classes:RenewsWhatIsThere", 3), ("with_asyncio:InScripts", 5)])
def test_an_extension_that_takes_no_ttl_is_asked_for_none(lock: str, asked: int) -> None:
    """It extends for as long as the object was made for, which nobody can be told otherwise."""
    setting = Setting(f"{LOCKS}.ordinary.{lock}", {}, 1)
    trials = list(other_ttls(setting, extends=True))
    assert len(trials) == asked
    assert any(each.extend_ttl_ns for trial in trials for each in trial.clients["alice"]) == (asked == 5)
