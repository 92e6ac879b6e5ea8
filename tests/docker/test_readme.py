"""The README tells the truth about containers as well."""

from __future__ import annotations

import shlex

import pytest

from tests.lab_process import Lab
from tests.local.test_readme import blocks, commands, expected_code, needs_engine


@pytest.mark.timeout(300)
def test_every_command_of_the_readme_about_containers_works(docker_lab: Lab) -> None:
    docker_lab.draws = True
    listed = [arguments for arguments in commands("lab") if needs_engine(arguments)]
    assert len(listed) >= 2
    for arguments in listed:
        run = docker_lab(*arguments)
        assert run.code == expected_code(arguments), f"{arguments}\n{run.out}\n{run.err}"


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_commands_about_images_that_take_minutes_work(docker_lab: Lab) -> None:
    lines = [
        shlex.split(line, comments=True)[2:] for block in blocks("console") for line in block.splitlines()
    ]
    listed = [arguments for arguments in lines if needs_engine(arguments)]
    assert len(listed) == 4
    for arguments in listed:
        run = docker_lab(*arguments)
        assert run.code == 0, f"{arguments}\n{run.out}\n{run.err}"
