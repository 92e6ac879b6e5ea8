"""Docker tests run where an engine answers and the images can be had; else they say why they were skipped."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.errors import LabError
from lab.substrates import substrate
from lab.substrates.docker.cleanup import PID_LABEL, sweep_engine
from lab.substrates.docker.engine import connect, no_engine_reason
from lab.substrates.docker.images import build
from tests.lab_process import Lab


@pytest.fixture(scope="session")
def engine() -> Iterator[Any]:
    """The engine's API, with images that fit this version of the lab."""
    if reason := no_engine_reason():
        pytest.skip(reason)
    if substrate("docker").missing_reason() or substrate("docker").lacks("redis"):
        try:
            build(lambda line: None)
        except LabError as error:
            if "import lab.client" in error.render():  # packages may be out of reach; our own code may not
                raise
            pytest.skip(f"the images could not be built: {error.seen}")
    api = connect()
    yield api
    api.close()


def of_lab(api: Any, pid: int) -> tuple[list[Any], list[Any]]:
    """The containers and networks that the lab with this process id made."""
    mine = {"label": f"{PID_LABEL}={pid}"}
    return api.containers(all=True, filters=mine), api.networks(filters=mine)


@pytest.fixture
def docker_lab(engine: Any, tmp_path: Path) -> Iterator[Lab]:
    """Run the lab on docker; nothing that it started may outlive the test."""
    labs = Lab(tmp_path, engine=True)
    yield labs
    for process in labs.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
    left = [of_lab(engine, process.pid) for process in labs.started]
    sweep_engine()
    assert left == [([], [])] * len(left)


def can_make_namespaces() -> bool:
    """Whether a process may be started in a pid namespace of its own here."""
    try:
        made = subprocess.run(
            ["unshare", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
        )
    except OSError:
        return False
    return made.returncode == 0
