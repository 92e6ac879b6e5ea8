"""Tracks on real servers: what a search finds in simulation is the same file here."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from lab.run import run
from lab.run.events import Listener
from lab.run.request import RunRequest
from lab.scenario.model import Scenario
from lab.search.as_scenario import scenarios_of, text_of
from lab.search.runner import trials
from lab.search.trial import Round, Trial
from tests.sim.shown_trials import CASES
from tests.sim.test_as_scenario import CANCELLED, TWICE

S_NS: Final = 10**9
MIXED: Final = Trial(
    "tests.locks_to_test.on_several:RemembersTheFirstTtl",
    {"alice": (Round(0, 0, ttl_ns=4 * S_NS), Round(0, 0, ttl_ns=S_NS))},
    options={"node_timeout": "250ms", "retry_count": 1},
    ttl_ns=4 * S_NS,
)


AS_SENT: Final = ("a client stands still as it sends", "paused when its requests are on their way")
"""What only a simulation hears: a client is about to send."""


def told(trial: Trial, finding: str, directory: Path) -> Path:
    with trials():
        scenario: Scenario = scenarios_of(trial, finding, command="lab test")[0]
    path = directory / f"{finding}.yaml"
    path.write_text(text_of(scenario), encoding="utf-8")
    return path


@pytest.mark.full
@pytest.mark.parametrize(
    ("trial", "finding"),
    [
        (CANCELLED, "unavailable"),
        (TWICE, "overlap"),
        (MIXED, "false-validity"),
        *((trial, finding) for finding, trial in map(CASES.__getitem__, AS_SENT)),
    ],
    ids=["a cancelled acquire", "a second release", "leases of different lengths", *AS_SENT],
)
def test_what_was_found_in_simulation_happens_on_real_servers(
    trial: Trial, finding: str, tmp_path: Path
) -> None:
    file = told(trial, finding, tmp_path)
    result = run(RunRequest(str(file), (), seed=1, substrate="local", out=tmp_path), Listener())
    assert result.as_expected, result.comparison


HEAD: Final[dict[str, Any]] = {
    "title": "t",
    "source": "s",
    "why": "w",
    "lock": {"name": "redlock", "ttl": "2s", "options": {"retry_count": 1}},
    "clients": ["alice", "bob"],
    "expect": {"mutual_exclusion": "ok"},
}


@pytest.mark.parametrize("on", ["local", "virtual"])
def test_tracks_are_played_with_real_processes(on: str, tmp_path: Path) -> None:
    tracks: dict[str, list[Any]] = {
        "alice": [{"acquire": {"ttl": "3s"}}, "extend", {"release": {"at": {"bob": "refused"}}}],
        "alice/2": [{"acquire": {"key": "other", "at": {"alice": "granted"}}}],
        "bob": [{"acquire": {"at": {"alice": "extend ok"}}}, {"acquire": {"at": {"alice": "released"}}}],
        "faults": [
            {
                "cut": {
                    "client": "alice",
                    "nodes": ["D", "E"],
                    "at": {"alice": "granted"},
                    "until": {"bob": "refused"},
                }
            }
        ],
    }
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump({**HEAD, "tracks": tracks}, sort_keys=False))
    result = run(RunRequest(str(file), (), seed=1, substrate=on, out=tmp_path), Listener())
    assert result.as_expected, result.comparison
    history = (result.directory / "history.jsonl").read_text()
    assert '"alice+2"' in history
    assert history.index('"f":"cut"') < history.index('"f":"extend"') < history.index('"f":"release"')
