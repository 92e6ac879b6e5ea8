"""``lab check``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Json

app = typer.Typer()


@app.command(context_settings={"ignore_unknown_options": True})
def check(
    targets: Annotated[
        list[str],
        typer.Argument(
            help="A run's directory, any history file (- with --follow), or several of lab.record."
        ),
    ],
    as_json: Json = False,
) -> int:
    """Check a stored run, any history, or the recordings of an application.

    Options of the checker: --follow, --explain, --model, --depth, --initial, --max-size, --save,
    --clock-error-ms.
    """
    from lab.api import runs
    from lab.report.consoles import consoles
    from lab.report.terminal import print_ending, print_result

    target = Path(targets[0])
    if len(targets) > 1 or runs.is_no_run(target):
        return _of_files(targets, as_json=as_json)
    data, talk = consoles()
    result, files, seconds, code = runs.check(target)
    if as_json:
        sys.stdout.buffer.write((result.directory / "verdict.json").read_bytes())
    else:
        print_result(data, result, result.directory.name)
        print_ending(data, result, files, seconds, runs.process_age_s())
    if not result.as_expected:
        talk.print(f"repeat: lab check {shlex.quote(str(target))}", markup=False, soft_wrap=True)
    return code


def _of_files(arguments: list[str], *, as_json: bool) -> int:
    """Check files that are no run's, or with options of the checker, which stand among them."""
    from checker.__main__ import main as check_files

    try:
        return check_files([*(["--json"] if as_json else []), *map(_argument, arguments)])
    except SystemExit as error:  # wrong usage, which is printed already
        return int(error.code or 0)


def _argument(word: str) -> str:
    """A word as the checker takes it: of a run's directory the history, of `-file` one that is no option."""
    path = Path(word)
    try:
        if path.is_dir():
            return str(path / "history.jsonl")
        return f"./{word}" if len(word) > 1 and word.startswith("-") and path.exists() else word
    except OSError:  # a name that is too long: the checker says so
        return word
