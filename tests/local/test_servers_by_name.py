"""Servers that `lab setup --server` fetches: each runs and is named; what it cannot do is refused."""

from __future__ import annotations

import json

import pytest

from lab import tools
from lab.errors import ExitCode, LabError
from lab.servers import Server
from tests.lab_process import Lab

pytestmark = pytest.mark.full


SERVERS = ("redis@6.2", "redis@7.0", "valkey@9.1")
"""Besides the default, which all other tests run on: the oldest, one of Debian's, the newest of Valkey."""
DECISIVE = (
    "partition-clockjump",
    "power-cut-everysec",
    "failover-race",
    "restart-no-persistence",
    "replica-clock-ahead",
)


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
@pytest.mark.parametrize("server", SERVERS)
def test_what_decides_comes_out_on_it(server: str, on: str, lab: Lab) -> None:
    name = provided(server)
    without_controls = (word for scenario in DECISIVE for word in ("--only", scenario))
    run = lab("suite", *DECISIVE, *without_controls, "--on", on, "--server", name, "--json")
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    assert f"{on}: {words(name)}" in run.err
    told = json.loads(run.out)
    assert told["servers"] == [words(name)]
    assert [cell["scenario"] for cell in told["cells"] if cell["as_expected"]] == [*DECISIVE]


@pytest.mark.parametrize("on", ["local", "virtual"])
def test_a_run_and_its_page_name_it(on: str, lab: Lab) -> None:
    name = provided(SERVERS[0])
    run = lab("run", "healthy", "--on", on, "--server", name)
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    assert f"nodes of {words(name)}" in run.err.splitlines()[1]
    assert Server.parse(run.verdict["environment"]["server"]).words == words(name)
    assert words(name) in (run.directory / "index.html").read_text()


def test_by_its_path(lab: Lab) -> None:
    path = tools.require(provided("valkey@8.1"))
    run = lab("run", "healthy", "--on", "local", "--server", str(path))
    assert run.code == ExitCode.EXPECTED, run.out + run.err
    assert run.verdict["environment"]["server"] == "valkey@8.1.8"


@pytest.mark.parametrize(
    ("on", "server", "why"),
    [
        ("local", "redis@8.3", "did you mean redis@8.2?"),
        ("local", "image:redis", "image:redis is an image, for docker"),
        ("virtual", "image:redis", "image:redis is an image, for docker"),
        ("sim", "/usr/bin/redis-server", "sim has models of servers, of none by the name"),
        ("sim", "redis@6.0", "expected: redis@6.2 to 8.6 or valkey@8.0 to 9.1"),
        ("local", "redis8", '"redis8" is no server'),
    ],
)
def test_what_cannot_be_is_refused_by_name(on: str, server: str, why: str, lab: Lab) -> None:
    for command in ("run", "suite"):
        refused = lab(command, "healthy", "--on", on, "--server", server)
        assert refused.code == ExitCode.USAGE, refused.out + refused.err
        assert why in refused.err
