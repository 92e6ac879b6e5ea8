"""The command line that asks for the same as the arguments of an examination."""

from __future__ import annotations

import dataclasses
import shlex

import pytest
from typer.testing import CliRunner

from lab.cli import test as of_test
from lab.examine.command import OF_COMMAND_LINE, Asked


@pytest.mark.parametrize(
    "asked",
    [
        Asked("redlock"),
        Asked("mutant:bare-del", "5s", 3, schedules=200, strict=True),
        Asked("single", replicas=2, jobs=1, server="redis@7.2"),
        Asked("sentinel", replicas=2, sentinels=3),
        Asked("my_lock:MyLock", nodes=3, keys="my order:{}", repeat=0),
        Asked("redlock", options=(("node_timeout", "100ms"), ("retry_count", 2))),
    ],
)
def test_it_is_read_as_the_same_arguments(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Asked] = []

    def noted(again: Asked, *_: object, **__: object) -> int:
        read.append(again)
        return 0

    monkeypatch.setattr("lab.cli.examine_output.examine_command", noted)
    monkeypatch.setattr(
        "lab.api.examinations.parse_options",
        lambda _, settings: tuple(
            (name, int(value) if value.isdigit() else value)
            for name, value in (each.split("=") for each in settings)
        ),
    )
    words = shlex.split(asked.command)
    assert words[:2] == ["lab", "test"]
    assert CliRunner().invoke(of_test.app, words[2:]).exception is None
    assert read == [asked]


def test_no_argument_is_left_out() -> None:
    always = {"lock", "budget", "seed", "options"}
    assert {field.name for field in dataclasses.fields(Asked)} == always | OF_COMMAND_LINE.keys()
