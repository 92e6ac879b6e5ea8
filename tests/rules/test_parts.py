"""What `make test` must run whatever else is moved to the part that takes longer."""

from __future__ import annotations

import pytest

from lab.locks.broken import SHOWN_BY_SCENARIO
from lab.scenario.files import names

MAIN_JOB = "tests/local/test_run.py::test_partition_clockjump_is_violated_as_expected"
CAUGHT = "tests/known_bad/test_mutants.py::test_a_mutant_is_caught_by_the_finding_it_must_give[{}]"
SIMULATED = "tests/sim/test_scenarios.py::test_it_comes_out_as_its_file_says[{}]"
TAKES_LONG = ("fuzz", "notebooks", "browser", "docker")
"""Directories of which `make test` runs nothing."""


def test_what_takes_long_by_its_marker_or_its_directory_is_not_in_the_first_part(
    request: pytest.FixtureRequest,
) -> None:
    long = [
        item
        for item in request.session.items
        if item.get_closest_marker("slow") or item.nodeid.split("/")[1] in TAKES_LONG
    ]
    assert [item.nodeid for item in long if not item.get_closest_marker("full")] == []


def test_the_main_job_every_known_bad_lock_and_every_scenario_are_in_the_first_part(
    request: pytest.FixtureRequest,
) -> None:
    first = {item.nodeid for item in request.session.items if not item.get_closest_marker("full")}
    directories = {name.split("/")[1] for name in first}
    if request.config.option.keyword or not directories >= {"unit", "known_bad", "sim", "local"}:
        pytest.skip("not all directories were asked for")
    wanted = {MAIN_JOB, *map(CAUGHT.format, SHOWN_BY_SCENARIO), *map(SIMULATED.format, names())}
    assert wanted - first == set()
