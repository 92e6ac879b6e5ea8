"""`cluster.config` on real servers: it gets there, and one that a server refuses is one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lab.errors import ExitCode, LabError
from lab.run import run
from lab.run.request import RunRequest


def scenario(tmp_path: Path, config: dict[str, object]) -> Path:
    path = tmp_path / "scenario.yaml"
    text = {
        "title": "t",
        "source": "s",
        "why": "w",
        "cluster": {"nodes": 1, "config": config},
        "lock": {"name": "single", "ttl": "10s", "options": {"retry_count": 1}},
        "clients": ["alice"],
        "steps": [{"do": "alice acquires"}],
        "expect": {"mutual_exclusion": "ok", "operations": {"alice acquires": {"refused": "NOREPLICAS"}}},
    }
    path.write_text(yaml.safe_dump(text, sort_keys=False))
    return path


@pytest.mark.parametrize("on", ["local", "virtual"])
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"no-such-thing": 7}, 'the directive no-such-thing "7"'),
        ({"maxmemory": "lots"}, 'the directive maxmemory "lots" (argument must be a memory value'),
    ],
)
def test_a_directive_that_a_server_refuses_is_bad_input(
    tmp_path: Path, on: str, config: dict[str, object], said: str
) -> None:
    with pytest.raises(LabError) as caught:
        run(RunRequest(scenario(tmp_path, config), substrate=on, seed=1, out=tmp_path / "reports"))
    assert said in caught.value.seen
    assert (caught.value.where, caught.value.exit_code) == ("cluster.config", ExitCode.USAGE)


@pytest.mark.parametrize("on", ["local", "virtual"])
def test_a_directive_gets_to_the_servers_and_is_why_an_operation_is_refused(tmp_path: Path, on: str) -> None:
    path = scenario(tmp_path, {"min-replicas-to-write": 1})
    result = run(RunRequest(path, substrate=on, seed=1, out=tmp_path / "reports"))
    assert result.comparison.mismatches == ()
    other = path.read_text().replace("NOREPLICAS", "OOM")
    path.write_text(other)
    result = run(RunRequest(path, substrate=on, seed=1, out=tmp_path / "reports"))
    (differs,) = result.comparison.mismatches
    assert (differs.what, differs.expected) == ("alice acquires", "refused: OOM")
    assert "NOREPLICAS Not enough good replicas to write." in differs.seen
