"""A verdict in a few words, for tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from lab.report.meanings import PROMISES
from lab.scenario.model import Expect

SHORT = {str(name): one.short for name, one in PROMISES.items()}
"""The names of properties in tables."""


def verdict_words(outcomes: Mapping[str, str], findings: Iterable[str] = ()) -> str:
    """The violated properties and the findings; or that nothing was violated."""
    violated = [SHORT.get(name, name) for name, outcome in outcomes.items() if outcome == "violated"]
    unknown = [SHORT.get(name, name) for name, outcome in outcomes.items() if outcome == "unknown"]
    if violated:
        names = ", ".join(dict.fromkeys(findings))
        return f"{', '.join(violated)} violated" + (f" ({names})" if names else "")
    if len(unknown) == len(outcomes):
        return "unknown"
    fence = {"absent": ", no fence", "ok": ", fenced"}.get(outcomes.get("fencing", ""), "")
    return f"clean{fence}" + (f"; unknown: {', '.join(unknown)}" if unknown else "")


def expected_words(expect: Expect) -> str:
    """What a scenario expects, in the same words."""
    outcomes = {str(name): str(outcome) for name, outcome in expect.outcomes.items()}
    words = verdict_words(outcomes, expect.findings or ())
    for versions, differing in (expect.server or {}).items():
        on_these = expect.with_differing(differing)
        words += f"; on {versions}: {expected_words(on_these)}"
    return words
