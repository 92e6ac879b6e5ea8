"""The command line: imports the module of a command, runs it, and returns its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Final

import typer

from lab.errors import ExitCode, LabError

COMMANDS: Final = (
    *("run", "test", "check", "report", "demo", "suite", "campaign", "search"),
    *("list", "doctor", "setup", "up", "down", "images", "drivers"),
)
"""All commands, in the order of `lab --help`. Each is defined by the module of its name, beside this one."""

HELP: Final = "Inject faults into a distributed lock, and check with a sound checker what it promises."
MOVED: Final = {
    "verdicts": "lab suite NAMES, or lab suite --library",
    "matrix": "lab suite --matrix",
    "selftest": "lab suite --selftest",
    "show": "lab list NAME",
    "schema": "lab list --schema",
    "plot": "lab report RUN --figure NAME",
    "driver": "lab drivers check",
    "docs": "python -m lab.report.docs",
}
"""Former commands, and what replaces them."""


@cache
def command(names: tuple[str, ...] = COMMANDS) -> Callable[..., int | None]:
    """The program with these commands; importing all of them takes a quarter of a second."""
    app = typer.Typer(
        name="lab",
        help=HELP,
        epilog="Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 unknown, 130 interrupted.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_several_commands)
    for name in names:
        app.add_typer(import_module(f"lab.cli.{name}").app)
    return typer.main.get_command(app)


def _several_commands() -> None:
    """With a callback, typer does not take a single command for the whole program."""


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code.

    Raises:
        LabError: anything the user can act on.
    """
    sys.path.insert(0, str(Path.cwd()))  # a user's lock may be there
    first = arguments[0] if arguments else ""
    if first in MOVED:
        raise LabError(f"lab {first} is now: {MOVED[first]}")
    names = (first,) if first in COMMANDS else COMMANDS
    try:
        code = command(names)(arguments, standalone_mode=False)
    except Exception as error:
        # Typer raises click's exceptions, and since 0.28 its own copies of them: both have this method.
        if (message := getattr(error, "format_message", None)) is not None:
            print(f"error: {message()}", file=sys.stderr)  # noqa: T201
            print("  hint: lab --help", file=sys.stderr)  # noqa: T201
            return 2
        from lab.api.child import Interrupted

        if not isinstance(error, Interrupted):
            raise
        print("interrupted: everything was stopped, what was recorded is kept", file=sys.stderr)  # noqa: T201
        return ExitCode.INTERRUPTED
    return int(code or 0)
