"""Drivers in containers, with real libraries: what happens to a client there happens to its driver, too."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lab.drivers import PREFIX
from lab.drivers import docker_images as drivers
from lab.errors import LabError
from lab.scenario.files import library_names
from lab.substrates.docker import images
from tests.docker.conftest import of_lab
from tests.lab_process import Lab
from tests.local.test_drivers import NOT_BLOCKING, SCENARIO
from tests.shipped import summaries

pytestmark = pytest.mark.timeout(900)
TOY = Path(__file__).parents[1] / "local" / "toy_driver.py"
ALWAYS = ["redis-py-lost-reply"]
"""One library, whose image takes half a minute. The others run on demand."""


def lock_of(name: str) -> str:
    """The driver that a scenario about a library is about."""
    return summaries(libraries=True)[name].lock


@pytest.fixture
def library(engine: Any, request: pytest.FixtureRequest) -> str:
    """A scenario's name; its library is in an image, or the test is skipped with the reason."""
    name: str = request.param
    place = drivers.Containers()
    if place.why_not(lock_of(name)) is not None:
        try:
            drivers.install(lock_of(name), lambda line: None)
        except LabError as error:
            pytest.skip(f"{lock_of(name).removeprefix(PREFIX)} cannot be had: {error.seen}")
    return name


@pytest.mark.parametrize(
    "library", [f"{name}{end}" for name in ALWAYS for end in ("", "-control")], indirect=True
)
def test_a_scenario_about_a_library(docker_lab: Lab, library: str) -> None:
    run = docker_lab("run", library, "--on", "docker", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err
    assert run.verdict["environment"]["substrate"] == "docker"


@pytest.mark.slow
@pytest.mark.parametrize("library", library_names(), indirect=True)
def test_every_scenario_about_a_library(docker_lab: Lab, library: str) -> None:
    run = docker_lab("run", library, "--on", "docker", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err


@pytest.mark.parametrize("library", ["redis-py-lost-reply"], indirect=True)
def test_what_happens_to_a_client_happens_to_its_driver(
    docker_lab: Lab, library: str, tmp_path: Path
) -> None:
    (tmp_path / "both.yaml").write_text(SCENARIO)
    run = docker_lab(
        *("run", "both.yaml", "--on", "docker", "--lock", lock_of(library), "--set", NOT_BLOCKING),
        *("--picture", "unexpected"),
    )
    assert run.code == 0, run.out + run.err
    receipts = {
        event["f"]: event["receipt"]
        for event in run.events
        if event["process"] == "nemesis" and "receipt" in event
    }
    assert receipts["pause"]["states_after"] == "T T"
    assert receipts["client_crash"]["processes_before"] == 2
    assert -3_700_000 < float(receipts["jump"]["moved_ms"]) < -3_500_000


@pytest.mark.slow
@pytest.mark.parametrize("library", ["redsync-late-replies"], indirect=True)
def test_go_reads_its_clock_past_libc_so_its_jump_has_no_receipt(docker_lab: Lab, library: str) -> None:
    steps = "[{do: [alice works, bob works]}, {jump: {client: alice, by: -1h}}, {do: alice works}]"
    run = docker_lab("run", library, "--on", "docker", "--set", f"steps={steps}", "--picture", "unexpected")
    assert run.code == 3, run.out + run.err
    assert "jump" in run.out


def test_a_driver_of_ones_own_runs_from_the_directory_one_is_in(docker_lab: Lab) -> None:
    program = docker_lab.directory / "mine" / "my-driver"
    program.parent.mkdir()
    program.write_text("#!/usr/bin/env python3\n" + TOY.read_text())
    program.chmod(0o755)
    run = docker_lab(
        *("run", "healthy", "--on", "docker", "--lock", "./mine/my-driver good"),
        *("--set", "cluster.nodes=1", "--picture", "unexpected"),
    )
    assert run.code in (0, 1), run.out + run.err
    reported = [event for event in run.events if event["f"] == "acquire" and event["type"] == "ok"]
    assert reported, "a toy, but its client holds what it says that it holds"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("./no-such-driver", ["cannot be started: No such file", images.CLIENT_VARIABLE, "read-only"]),
        ("ruby driver.rb", ["cannot be started: No such file", images.CLIENT_VARIABLE]),
        ("python3 no-such-driver.py", ["ended by itself", "its log ends", "no-such-driver.py"]),
        ("../my-driver", ["'../my-driver' is not in the container of a client"]),
        ("driver:no-such", ["no driver called 'no-such'"]),
    ],
)
def test_what_cannot_start_in_a_container_is_told_before_the_run(
    docker_lab: Lab, engine: Any, command: str, words: list[str]
) -> None:
    process = docker_lab.start("run", "healthy", "--on", "docker", "--lock", command)
    run = docker_lab.ended(process)
    assert run.code == 2, run.out + run.err
    for word in words:
        assert word in run.err
    assert of_lab(engine, process.pid) == ([], [])


def test_an_image_of_ones_own_is_used_for_a_driver_that_needs_more(
    docker_lab: Lab, engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(
        f"FROM {images.CLIENT.name}\nRUN ln -s /usr/bin/python3 /usr/bin/snake\n"
    )
    command = ["docker", "build", "--quiet", "--tag", "lock-lab-test:mine", str(tmp_path)]
    try:
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no image can be built by hand: {error}")
    (docker_lab.directory / "toy.py").write_text(TOY.read_text())
    arguments = (
        "run",
        "healthy",
        "--on",
        "docker",
        "--lock",
        "snake toy.py good",
        "--set",
        "cluster.nodes=1",
    )
    try:
        assert docker_lab(*arguments).code == 2
        monkeypatch.setenv(images.CLIENT_VARIABLE, "lock-lab-test:mine")
        run = docker_lab(*arguments, "--picture", "unexpected")
    finally:
        engine.remove_image("lock-lab-test:mine")
    assert run.code in (0, 1), run.out + run.err
