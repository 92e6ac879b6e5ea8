"""The argument about Redlock, claim by claim: who makes it, which scenarios test it, and what they expect.

The claims and the conclusions stand in `claims.yaml` beside this file; which scenarios test a claim stands in
the scenarios (`claims:`).
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

import msgspec

from lab.scenario.files import consensus_names, names
from lab.scenario.library import load_shipped
from lab.scenario.model import Expect

Conclusion = Literal["held", "held if", "held in part", "refuted"]
"""The claim was confirmed; under a condition that is named; in one of its parts only; it was not."""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim, and what the lab concludes from its runs.

    `claim` is in the lab's words, `quoted` has the literal words of each source. `verdict` is the conclusion
    in a few words, `conclusion` what was observed; `open` is the part of the argument that no run can decide.
    `measured` holds results of benchmarks, `libraries` the names of scenarios about published libraries, and
    `elsewhere` says what else tests it.
    """

    number: int
    who: str
    claim: str
    verdict: Conclusion
    conclusion: str
    quoted: dict[str, tuple[str, ...]] = {}
    open: str | None = None
    measured: str | None = None
    libraries: tuple[str, ...] = ()
    elsewhere: str | None = None


class Tested(msgspec.Struct, frozen=True):
    """One scenario that tests a claim: the expected outcomes and findings, and its control."""

    scenario: str
    outcomes: dict[str, str]
    findings: tuple[str, ...]
    control: str | None


class ClaimRow(msgspec.Struct, frozen=True):
    """A claim with everything that tests it."""

    claim: Claim
    tested: tuple[Tested, ...]


def claims() -> tuple[Claim, ...]:
    """All claims, by number."""
    text = resources.files("lab.scenario").joinpath("claims.yaml").read_bytes()
    return msgspec.yaml.decode(text, type=tuple[Claim, ...])


def claim_rows() -> tuple[ClaimRow, ...]:
    """All claims with the scenarios that test them; a control stands beside its scenario.

    Raises:
        LabError: a scenario can't be loaded.
    """
    loaded, controls = load_shipped((*names(), *consensus_names()))
    return tuple(
        ClaimRow(
            claim,
            tuple(
                Tested(one.name, *_expected(one.scenario.expect), controls.get(one.name))
                for one in loaded
                if claim.number in one.scenario.claims and not one.scenario.control_of
            ),
        )
        for claim in claims()
    )


def _expected(expect: Expect) -> tuple[dict[str, str], tuple[str, ...]]:
    outcomes = {str(name): str(outcome) for name, outcome in expect.outcomes.items()}
    return outcomes, tuple(expect.findings or ())
