"""The server of a run, named in its first line, result and page, and expectations that depend on it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from lab.errors import ExitCode
from lab.report.page.build import page
from lab.report.terminal import RunPrinter
from lab.run import run
from lab.run.directory import RunDirectory
from lab.run.request import RunRequest
from lab.run.result import RunResult
from lab.run.stored import read_run
from lab.scenario.load import load_text
from lab.scenario.model import Expect
from lab.servers import Server

pytestmark = pytest.mark.usefixtures("_patched")

DEPENDS = "replica-clock-ahead"


def judged(result: RunResult, server: str | None) -> RunResult:
    """The same history, as if another server had been recorded."""
    directory = RunDirectory.existing(result.directory)
    environment = {} if server is None else {"server": server}
    return RunResult.of(directory, result.loaded, environment=environment)


def test_first_line_result_verdict_and_page_name_the_simulated_server(tmp_path: Path) -> None:
    talk = Console(record=True, width=200)
    result = run(RunRequest("healthy", seed=1, substrate="sim", out=tmp_path), RunPrinter(talk))
    assert result.server is not None
    assert result.server.simulated
    words = result.server.words
    assert words.startswith("simulated Redis ")
    printed = talk.export_text().splitlines()
    assert f"5 nodes of {words}" in printed[1], "before anything is started"
    assert f"5 nodes of {words}, the store" in printed[2], "as the nodes report it"
    verdict = json.loads((result.directory / "verdict.json").read_text())
    assert verdict["environment"]["server"] == str(result.server)
    assert f"5 nodes of {words}, on sim</p>" in page(result, result.directory)
    assert words in result.explain()
    assert read_run(result.directory).server == result.server


def test_an_expectation_depends_on_the_server_that_ran(tmp_path: Path) -> None:
    """Since 7.0 expiry times are replicated as absolute times, so a replica that is ahead forgets a key."""
    result = run(RunRequest(DEPENDS, seed=1, substrate="sim", out=tmp_path))
    assert result.server is not None
    assert result.exit_code == ExitCode.EXPECTED
    assert result.outcomes["mutual_exclusion"] == "violated"
    assert judged(result, "redis@7.0.0").exit_code == ExitCode.EXPECTED
    assert judged(result, "valkey@8.1.1").exit_code == ExitCode.EXPECTED
    older = judged(result, "redis@6.2.14")
    assert older.exit_code == ExitCode.UNEXPECTED
    assert older.to_dict()["expected"]["mutual_exclusion"] == "ok"
    seen = {one.what: (one.expected, one.seen) for one in older.comparison.mismatches}
    assert seen["mutual_exclusion"] == ("ok", "violated")
    assert seen["bob acquires"] == ("refused", "ok")
    assert not any(what.startswith("finding") for what in seen), "an empty list asks for none"


def test_where_the_server_is_not_recorded_an_expectation_that_depends_on_it_is_unknown(
    tmp_path: Path,
) -> None:
    result = run(RunRequest(DEPENDS, seed=1, substrate="sim", out=tmp_path))
    without = judged(result, None)
    assert without.exit_code == ExitCode.UNKNOWN
    assert "which one it was" in without.comparison.unknown[-1]
    control = run(RunRequest(f"{DEPENDS}-control", seed=1, substrate="sim", out=tmp_path))
    assert judged(control, None).exit_code == ExitCode.EXPECTED


def test_what_differs_replaces_what_is_named_and_nothing_else() -> None:
    expect = Expect.model_validate(
        {
            "mutual_exclusion": "violated",
            "lease_honesty": "ok",
            "either": ["resource", "fencing"],
            "findings": ["overlap"],
            "operations": {"alice acquires": "ok", "bob acquires": "ok"},
            "server": {
                "redis < 7.0": {"resource": "ok", "operations": {"bob acquires": "refused"}},
                "redis < 8.0": {"findings": []},
            },
        }
    )
    older = expect.on(Server("redis", "6.2.14"))
    assert older.outcomes == {"mutual_exclusion": "violated", "lease_honesty": "ok", "resource": "ok"}
    assert older.either == ("fencing",)
    assert older.findings == ("overlap",), "the first range that fits counts"
    assert older.operations == {"alice acquires": "ok", "bob acquires": "refused"}
    assert expect.on(Server("redis", "7.0.15")).findings == ()
    newest = expect.on(Server("valkey", "9.0.0"))
    assert newest == expect.model_copy(update={"server": None})


def test_a_scenario_keeps_what_depends_on_the_server_when_it_is_written(tmp_path: Path) -> None:
    result = run(RunRequest(DEPENDS, ("lock.ttl=9s",), seed=1, substrate="sim", out=tmp_path))
    kept = load_text((result.directory / "scenario.yaml").read_text(), "kept").scenario
    for server in (Server("redis", "6.2.14"), Server("redis", "7.0.15")):
        assert kept.on(server).expect == result.loaded.scenario.on(server).expect
