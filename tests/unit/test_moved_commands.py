"""Commands that are options of others now say so; options that do not go together are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.cli.app import COMMANDS, MOVED, call
from lab.errors import LabError

OLD = ("verdicts", "matrix", "selftest", "show", "schema", "plot", "driver", "docs")


def test_there_are_few_commands_and_none_has_an_old_name() -> None:
    assert len(COMMANDS) <= 15
    assert set(COMMANDS) & set(OLD) == set()


@pytest.mark.parametrize("name", OLD)
def test_an_old_name_says_the_new_one(name: str) -> None:
    words = MOVED[name].split()
    assert words[:2] == ["python", "-m"] or (words[0] == "lab" and words[1] in COMMANDS)
    with pytest.raises(LabError) as caught:
        call([name, "--json"])
    assert caught.value.exit_code == 2
    assert caught.value.render() == f"error: lab {name} is now: {MOVED[name]}"


@pytest.mark.parametrize(
    ("words", "reported"),
    [
        (["healthy", "--library"], "a file or a scenario together with --library"),
        (["--claims", "--libraries"], "--claims together with --libraries"),
        (["--matrix", "--selftest"], "--selftest together with --matrix"),
        (["--library", "--matrix"], "--library together with --matrix"),
        (["--library", "--selftest"], "--selftest together with --library"),
        (["--resume", "x", "--library"], "--resume together with --library"),
        (["--resume", "x", "healthy"], "--resume together with a file or a scenario"),
        (["--resume", "x", "--shard", "1/2"], "--resume together with --shard"),
        (["--resume", "x", "--on", "sim"], "--resume together with --on"),
        (["--full"], "--full without --selftest"),
        (["--real", "0"], "--real without --selftest"),
        (["--selftest", "--repeat", "2"], "--selftest together with --repeat"),
        (["--selftest", "--keep", "x"], "--selftest together with --keep"),
        (["--selftest", "--only", "no-such-lock"], "no-such-lock"),
    ],
)
def test_options_that_do_not_go_together(
    words: list[str], reported: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabError) as caught:
        call(["suite", *words])
    assert caught.value.exit_code == 2
    assert reported in caught.value.render()
    assert list(tmp_path.iterdir()) == [], "nothing was begun"
