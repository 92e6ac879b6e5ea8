"""The scenarios that come with the lab, as tests need them: loaded once in a process, and not at import."""

from __future__ import annotations

from functools import cache

from lab.paths import scenario_dir
from lab.scenario import library
from lab.scenario.files import names
from lab.scenario.library import Summary

TEXTS = {name: (scenario_dir() / f"{name}.yaml").read_text(encoding="utf-8") for name in names()}
"""The files of the scenarios that need no library and no other service, by name."""
SCENARIOS = [name for name in TEXTS if not name.endswith("-control")]
"""The scenarios without their controls, by name: tests/unit/test_claims.py holds that against the files."""


@cache
def summaries(*, libraries: bool = False) -> dict[str, Summary]:
    """What `lab list` tells of each scenario, or of those about libraries, by name."""
    return {summary.name: summary for summary in library.summaries("libraries" if libraries else None)}
