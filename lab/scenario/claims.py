"""The argument about Redlock, claim by claim: who makes it, which scenarios test it, and what comes out.

What the claims say, and what is concluded, stands in `claims.yaml` beside this file; which scenarios test one
is written in the scenarios themselves (`claims:`), and what comes out is what they expect.
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

import msgspec

from lab.scenario.files import consensus_names, names, shipped
from lab.scenario.load import load_scenario
from lab.scenario.model import Expect

Conclusion = Literal["held", "held if", "refuted"]
"""What came of a claim: it came out; it did under a condition that is named; it did not come out."""


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One claim, and what the lab concludes from its runs.

    `verdict` is the conclusion in two words, `conclusion` what was seen; `open` is the part of the argument
    that no run can decide. `measured` tells what benchmarks gave, `libraries` names stories about other
    people's libraries that belong to it, and `elsewhere` says what else tests it.
    """

    number: int
    who: str
    claim: str
    verdict: Conclusion
    conclusion: str
    open: str | None = None
    measured: str | None = None
    libraries: tuple[str, ...] = ()
    elsewhere: str | None = None


class Tested(msgspec.Struct, frozen=True):
    """One scenario that tests a claim: the outcomes and findings that it is to have, and its control."""

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
    """All claims with the stories that test them; controls stand beside their story.

    Raises:
        LabError: a scenario can't be loaded.
    """
    loaded = [load_scenario(shipped(name)) for name in (*names(), *consensus_names())]
    controls = {one.scenario.control_of: one.name for one in loaded if one.scenario.control_of}
    stories = [one for one in loaded if not one.scenario.control_of]
    return tuple(
        ClaimRow(
            claim,
            tuple(
                Tested(story.name, *_expected(story.scenario.expect), controls.get(story.name))
                for story in stories
                if claim.number in story.scenario.claims
            ),
        )
        for claim in claims()
    )


def _expected(expect: Expect) -> tuple[dict[str, str], tuple[str, ...]]:
    outcomes = {str(name): str(outcome) for name, outcome in expect.outcomes.items()}
    return outcomes, tuple(expect.findings or ())
