"""A search on a server that is named: its trials and the scenario that is kept are on that one."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.api.searches import begin
from lab.errors import LabError
from lab.scenario.load import load_scenario
from lab.search.command import Asked, save, search_of
from lab.search.space import Drawn
from lab.substrates import substrate


def test_what_is_found_on_a_server_is_kept_with_that_server(tmp_path: Path) -> None:
    asked = Asked(
        "mutant:set-without-nx",
        seed=1,
        schedules=2_000,
        out=tmp_path / "found.yaml",
        drawn=Drawn(server="valkey@8.1"),
    )
    found = search_of(asked).run().found
    assert found is not None
    assert found.server == "valkey@8.1"
    saved = save(asked, found)
    assert load_scenario(str(saved.path)).scenario.cluster.server == "valkey@8.1"


@pytest.mark.parametrize("server", ["redis@6.0", "valkey@99", "image:mine"])
def test_a_server_that_is_not_modelled_is_refused_before_the_search(server: str) -> None:
    with pytest.raises(LabError, match=r"nodes can't be simulated as"):
        begin(Asked("redlock", drawn=Drawn(server=server)))


@pytest.mark.parametrize("server", ["redis@7.1", "valkey@9.0"])
def test_a_server_that_cannot_be_had_for_the_replays_is_refused_before_the_search(server: str) -> None:
    if local_lacks() is not None:
        pytest.skip(f"local runs are not possible here: {local_lacks()}")
    with pytest.raises(LabError, match=f"no server '{server}'"):
        begin(Asked("redlock", drawn=Drawn(server=server), confirm="local"))


def local_lacks() -> str | None:
    """Why this machine has no local runs; None if it has."""
    return substrate("local").lacks("redis")
