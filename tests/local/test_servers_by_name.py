"""Servers that `lab setup --server` fetches: each runs and is named; what it cannot do is refused."""

from __future__ import annotations

import pytest

from lab import tools
from lab.errors import ExitCode, LabError
from lab.servers import Server
from tests.lab_process import Lab

pytestmark = pytest.mark.full


@pytest.fixture(params=["redis@8.2", "valkey@8.1", "redis@7.0"])
def name(request: pytest.FixtureRequest) -> str:
    """The name of a server that is here now; fetched, if it was not."""
    return provided(request.param)


def provided(name: str) -> str:
    try:
        tools.provide(name, lambda line: None)
    except LabError as error:
        pytest.skip(f"SKIPPED: {name} cannot be fetched: {error.seen}")
    return name


def words(name: str) -> str:
    found = tools.find(name)
    assert isinstance(found, tools.Found)
    return found.version


@pytest.mark.parametrize("on", ["local", "virtual"])
@pytest.mark.parametrize("scenario", ["partition-clockjump", "power-cut-everysec"])
def test_faults_take_effect_on_it(scenario: str, on: str, name: str, lab: Lab) -> None:
    run = lab("run", scenario, "--on", on, "--server", name)
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    assert f"nodes of {words(name)}" in run.err.splitlines()[1]
    assert Server.parse(run.verdict["environment"]["server"]).words == words(name)
    assert words(name) in (run.directory / "index.html").read_text()


@pytest.mark.parametrize("on", ["local", "virtual"])
def test_a_suite_runs_on_it(on: str, name: str, lab: Lab) -> None:
    run = lab("suite", "healthy", "--repeat", "3", "--on", on, "--server", name)
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    assert f"{on}: {words(name)}" in run.err
    assert f"on {words(name)}" in run.out


def test_by_its_path(lab: Lab) -> None:
    path = tools.require(provided("valkey@8.1"))
    run = lab("run", "healthy", "--on", "local", "--server", str(path))
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    assert run.verdict["environment"]["server"] == "valkey@8.1.8"


def test_one_that_reads_time_past_libc_runs_on_local_and_is_refused_in_virtual_time(lab: Lab) -> None:
    name = provided("valkey@9.1")
    assert lab("run", "healthy", "--on", "local", "--server", name).code == ExitCode.EXPECTED
    refused = lab("run", "healthy", "--on", "virtual", "--server", name)
    if tools.monotonic_clock(tools.require(name)).startswith("POSIX"):
        pytest.skip("SKIPPED: this processor's counter is not used by valkey")
    assert refused.code == ExitCode.USAGE
    assert "reads time from the processor, past libc" in refused.err


@pytest.mark.parametrize(
    ("on", "server", "why"),
    [
        ("local", "redis@8.3", "did you mean redis@8.2?"),
        ("local", "image:redis", "image:redis is an image, for docker"),
        ("virtual", "image:redis", "image:redis is an image, for docker"),
        ("sim", "/usr/bin/redis-server", "sim has models of servers, of none by the name"),
        ("sim", "redis@6.2", "expected: redis@7.0 to 8.6 or valkey@8.0 to 9.1"),
        ("local", "redis8", '"redis8" is no server'),
    ],
)
def test_what_cannot_be_is_refused_by_name(on: str, server: str, why: str, lab: Lab) -> None:
    for command in ("run", "suite"):
        refused = lab(command, "healthy", "--on", on, "--server", server)
        assert refused.code == ExitCode.USAGE, refused.out + refused.err
        assert why in refused.err
