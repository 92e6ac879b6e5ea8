"""A late success, which no history shows by itself, does harm once another client asks meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace

from lab.examine.answer.keep import keep
from lab.examine.answer.shown_by_another import shown_by_another
from lab.examine.ledger.finders import all_violations
from lab.examine.programs import ALICE, BOB, S_NS, TTL_NS, Setting
from lab.faults.hold import Hold
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.runner import run_trial, trials
from lab.search.suspicion import named
from lab.search.trial import Round, Trial
from tests.unit.examine.test_output import defect, examined
from tests.unit.examine.test_own_findings import LOCKS, late_replies

pytestmark = pytest.mark.usefixtures("_patched")


def late_extension(lock: str, extends: int, *, lasts_ns: int = TTL_NS * 13 // 10) -> Trial:
    """The answer to Alice's second extension comes late; the script is known to the node since the first."""
    held = timed_fault(
        Hold, on(ALICE, "extend invoke", 2), ALICE, ("A",), lasts_ns=lasts_ns, direction="replies"
    )
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, (extends + 1) * S_NS, extends),)}
    return Setting(f"{LOCKS}.{lock}", {}, 1).with_clients(clients, (held,), demand=False)


def late_at_the_end() -> Trial:
    """The answer is late when Alice, whose rounds are over, asks again until she is granted the lock."""
    trial = late_replies("quietly_broken:LateSuccess")
    return replace(trial, clients={ALICE: trial.clients[ALICE][:1]}, demand_ns=3 * TTL_NS)


LATE = [
    late_replies("quietly_broken:LateSuccess"),
    late_at_the_end(),
    late_extension("quietly_broken:LateExtension", 2),
    late_extension("quietly_broken:LateExtension", 4),
]


def harm(trial: Trial) -> set[str]:
    """The violations that its history shows."""
    return {each.name for each in named(run_trial(trial)) if each.severity == "violation"}


@pytest.mark.parametrize("trial", LATE)
def test_its_harm_shows_in_the_history(trial: Trial) -> None:
    with trials():
        assert harm(trial) == set()
        shown = shown_by_another(trial)
        assert shown is not None
        changed, finding = shown
        assert finding in harm(changed)
        assert set(changed.clients) == {ALICE, BOB}
        assert changed.faults == trial.faults
        assert "false-validity" in all_violations(run_trial(changed))


@pytest.mark.parametrize(
    "trial",
    [
        late_replies("plain:Plain"),
        late_extension("plain:Plain", 2),
        late_extension("quietly_broken:LateExtension", 2, lasts_ns=TTL_NS // 2),
    ],
)
def test_there_is_nothing_to_show_where_no_success_is_late(trial: Trial) -> None:
    with trials():
        assert shown_by_another(trial) is None


def test_it_is_kept_as_a_scenario_that_says_who_was_added(tmp_path: Path) -> None:
    one = defect(cause="late-deadline", findings=("false-validity",), trial=LATE[0])
    kept = keep(examined(one), tmp_path, command="lab test", pictures=False)
    (only,) = kept.examined.defects
    assert (only.trial, only.findings) == (LATE[0], ("false-validity",))
    assert only.replays.startswith("Replayed in simulation: reproduced with each of ")
    scenario = yaml.safe_load(Path(only.scenario or "").read_text())
    assert scenario["expect"]["findings"] == ["lost-update"]
    assert scenario["expect"]["resource"] == "violated"
    assert "Bob was added" in " ".join(scenario["why"].split())
