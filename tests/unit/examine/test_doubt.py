"""When a violation is not certain to be a defect of the lock, and the sentence that says why."""

from __future__ import annotations

import pytest

from lab.examine.defects import NO_CAUSE, OFTEN, RARE, SURE, VARIANTS, why_uncertain
from lab.examine.kinds import Kind
from lab.examine.ledger.book import Breach
from lab.examine.ledger.naming import Cause
from lab.examine.violations.judge import Violation
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.drift import Drift
from lab.faults.pause import Pause
from lab.search.faults import Kind as FaultKind

NAMED = (Cause("waits-too-long", "it waits", Breach("progress", "acquire", "is late")),)
NOT_RUN = f" (of {VARIANTS}, the others were not run)"


def doubt(
    finding: str,
    reproduced: int,
    *,
    named: bool = True,
    variants: int = VARIANTS,
    lost: int = 0,
    beyond: bool = False,
    faults: tuple[FaultKind, ...] = (),
) -> str:
    causes = NAMED if named else ()
    violation = Violation(finding, "of a test")
    shown = reproduced, variants
    return why_uncertain(Kind(True).reference, violation, causes, shown, lost, beyond=beyond, faults=faults)


def test_within_the_assumptions_one_overlap_is_enough_also_without_a_cause() -> None:
    assert doubt("overlap", 1, named=False) == ""
    assert doubt("overlap", 0, named=False) == "", "the schedule itself has shown it"


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("beyond", [True, False])
def test_what_the_reference_has_as_well_is_never_certain(named: bool, beyond: bool) -> None:
    says = f"{Kind(True).reference} has it as well in 1 of {VARIANTS} variants"
    assert doubt("overlap", VARIANTS, named=named, lost=1, beyond=beyond) == says


@pytest.mark.parametrize("finding", [*RARE, "overlap"])
def test_what_a_broken_assumption_may_come_to_needs_a_cause(finding: str) -> None:
    assert doubt(finding, VARIANTS, named=False, beyond=True) == NO_CAUSE
    assert doubt(finding, VARIANTS, beyond=True) == ""


@pytest.mark.parametrize("finding", RARE)
def test_what_bad_luck_may_come_to_needs_a_cause_or_nearly_all_variants(finding: str) -> None:
    assert doubt(finding, SURE, named=False) == ""
    too_few = f"only {SURE - 1} of {VARIANTS} variants show it, and {NO_CAUSE}"
    assert doubt(finding, SURE - 1, named=False) == too_few
    assert doubt(finding, VARIANTS, named=False, lost=1) != ""


@pytest.mark.parametrize("finding", RARE)
@pytest.mark.parametrize(("fault", "certain"), [(Cut, False), (Pause, False), (Crash, False), (Drift, True)])
def test_a_client_that_was_kept_from_the_nodes_is_no_proof_without_a_cause(
    finding: str, fault: FaultKind, certain: bool
) -> None:
    assert (doubt(finding, VARIANTS, named=False, faults=(fault,)) == "") is certain
    assert doubt(finding, VARIANTS, faults=(fault,)) == ""


@pytest.mark.parametrize(
    ("finding", "beyond", "least"),
    [("unavailable", False, OFTEN), ("leak", False, OFTEN), ("overlap", True, SURE), ("leak", True, SURE)],
)
def test_and_it_must_be_seen_in_enough_variants(finding: str, beyond: bool, least: int) -> None:
    assert doubt(finding, least, beyond=beyond) == ""
    too_few = f"only {least - 1} of {VARIANTS} variants show it"
    assert doubt(finding, least - 1, beyond=beyond) == too_few


def test_variants_that_the_budget_left_out_are_told() -> None:
    assert doubt("unavailable", 2, variants=3) == f"only 2 of 3 variants show it{NOT_RUN}"
