"""``lab check``."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import Json

app = typer.Typer()


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def check(
    options: typer.Context,
    target: Annotated[Path, typer.Argument(help="A run's directory, or any history file (- with --follow).")],
    as_json: Json = False,
) -> int:
    """Check a stored run, or any history.

    Options of the checker: --follow, --explain, --model, --depth, --initial, --max-size, --save.
    """
    from lab.api import runs
    from lab.report.consoles import consoles
    from lab.report.terminal import print_ending, print_result

    if options.args or runs.is_no_run(target):
        return _of_a_file(target, options.args, as_json=as_json)
    data, talk = consoles()
    result, files, seconds = runs.check(target)
    if as_json:
        sys.stdout.buffer.write((result.directory / "verdict.json").read_bytes())
    else:
        print_result(data, result, result.directory.name)
        print_ending(data, result, files, seconds, runs.process_age_s())
    if not result.as_expected:
        talk.print(f"repeat: lab check {shlex.quote(str(target))}", markup=False, soft_wrap=True)
    return result.exit_code


def _of_a_file(target: Path, options: list[str], *, as_json: bool) -> int:
    """Check a file that is no run's, or with options of the checker."""
    from checker.__main__ import main as check_file

    file = target / "history.jsonl" if options and target.is_dir() else target
    try:
        return check_file([*(["--json"] if as_json else []), *options, "--", str(file)])
    except SystemExit as error:  # wrong usage, which is printed already
        return int(error.code or 0)
