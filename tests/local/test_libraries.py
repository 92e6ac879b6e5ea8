"""The scenarios about other people's libraries, on real nodes; each needs its library, installed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from lab.drivers import PREFIX
from lab.drivers.environment import why_not
from lab.drivers.registry import HERE
from lab.scenario.files import library_names
from lab.scenario.load import load_scenario
from tests.lab_process import Lab
from tests.shipped import summaries

pytestmark = pytest.mark.full

HOLDS = ("redsync-", "redislock-", "redisson-fenced-pause", "redisson-fenced-delayed-write")
"""Scenarios in which the library does what it promises: redsync is the strongest, a fence stops a write."""
UNDECIDED = ("spring-integration-renews-unlocked",)
"""Scenarios of which the checker cannot tell: how their operations end is what differs from the control."""
REDIS_PY = shlex.join([sys.executable, "-E", str(HERE / "python" / "redis_py_driver.py")])


def test_a_scenario_names_its_library_and_has_a_control() -> None:
    scenarios = summaries(libraries=True)
    assert list(scenarios) == sorted(library_names())
    for name, one in scenarios.items():
        assert one.lock.startswith(PREFIX), name
        assert name.startswith(one.lock.removeprefix(PREFIX).split("-")[0]), name
        if one.control_of is None:
            assert one.control == f"{name}-control", name
            assert ("violated" in one.expected.values()) is not name.startswith((*HOLDS, *UNDECIDED)), name
        else:
            assert "violated" not in one.expected.values(), name
            assert scenarios[one.control_of].lock == one.lock, name
    for name in UNDECIDED:
        scenario, control = (
            load_scenario(each).scenario.expect.operations for each in (name, f"{name}-control")
        )
        assert scenario
        assert control
        assert scenario != control, name


@pytest.mark.parametrize("name", ["redis-py-lost-reply", "redis-py-lost-reply-control"])
def test_a_defect_is_shown_and_its_control_is_clean(lab: Lab, name: str) -> None:
    ended = lab("run", name, "--lock", REDIS_PY, "--picture", "unexpected")
    assert ended.code == 0, ended.out + ended.err


def test_a_library_is_installed_on_demand(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "cache"))
    before = lab("run", "redis-py-lost-reply-control")
    assert before.code == 2
    assert "lab drivers install redis-py" in before.err
    installed = lab("drivers", "install", "redis-py")
    if installed.code and "could not be installed" in installed.err:
        pytest.skip(f"PyPI is out of reach: {installed.err}")
    assert installed.code == 0, installed.err
    listed = lab("drivers", "list", "--json")
    assert '"usable": true' in listed.out


@pytest.mark.slow
@pytest.mark.parametrize("name", library_names())
def test_every_scenario_comes_out_as_expected(lab: Lab, name: str) -> None:
    reason = why_not(summaries(libraries=True)[name].lock.removeprefix(PREFIX))
    if reason is not None:
        pytest.skip(reason)
    ended = lab("run", name, "--picture", "unexpected")
    assert ended.code == 0, ended.out + ended.err
