"""The sentence at the head of a page follows from what was violated, and from nothing else."""

from __future__ import annotations

import pytest

from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, Verdict
from lab.report.meanings import headline


def verdict(unknown: tuple[Property, ...] = (), **violated: str) -> Verdict:
    """Properties violated by a finding of this name; the others are ok or unknown."""
    properties = {}
    for name in Property:
        found = violated.get(str(name))
        findings = (Finding(found, name, Severity.VIOLATION, "why"),) if found else ()
        outcome = Outcome.UNKNOWN if name in unknown else Outcome.OK
        properties[name] = PropertyVerdict(name, Outcome.VIOLATED if found else outcome, "why", findings)
    return Verdict(properties, ())


@pytest.mark.parametrize(
    ("seen", "begins"),
    [
        (verdict(), "No violation was found."),
        (verdict((Property.RESOURCE,)), "No violation was found; not decided: resource."),
        (
            verdict(fencing="unfenced-write", resource="lost-update"),
            "The lock kept its promise; the resource was not protected: ",
        ),
        (verdict((Property.MUTUAL_EXCLUSION,), fencing="stale-write"), "The resource was not protected: "),
        (
            verdict(mutual_exclusion="overlap"),
            "Mutual exclusion was violated: two clients held the lock at once.",
        ),
        (
            verdict(mutual_exclusion="overlap", resource="lost-update"),
            "Mutual exclusion was violated, and the resource was not protected: ",
        ),
        (verdict(fencing="fence-order"), "Fencing was violated, and the resource was not protected: "),
        (
            verdict(deadlock_freedom="leak", fault_tolerance="unavailable"),
            "Deadlock freedom and fault tolerance were violated: ",
        ),
    ],
)
def test_the_headline_says_what_was_violated(seen: Verdict, begins: str) -> None:
    reported = headline(seen)
    assert reported.startswith(begins)
    if "mutual_exclusion" in {str(n) for n, p in seen.properties.items() if p.outcome is Outcome.VIOLATED}:
        assert "kept its promise" not in reported
