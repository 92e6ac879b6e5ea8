"""The command line: finds the module of a command, lets it parse, and returns its exit code."""

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
    *("run", "check", "report", "demo", "suite", "campaign", "search"),
    *("list", "doctor", "setup", "down", "images", "drivers"),
)
"""All commands, in the order of `lab --help`. Each is defined by the module of its name, beside this one."""

HELP: Final = (
    "Break a distributed lock on purpose, and learn from a sound checker whether it kept its promise."
)
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
"""Commands that were, and what they are now."""


@cache
def command(names: tuple[str, ...] = COMMANDS) -> Callable[..., int | None]:
    """The program with these commands; all of them are a quarter of a second of work."""
    app = typer.Typer(
        name="lab",
        help=HELP,
        epilog="Exit codes: 0 as expected, 1 not as expected, 2 bad input, 3 unknown, 130 interrupted.",
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_several)
    for name in names:
        import_module(f"lab.cli.{name}").register(app)
    return typer.main.get_command(app)


def _several() -> None:
    """Keeps typer from taking a single command for the whole program."""


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code.

    Raises:
        LabError: anything the user can act on.
    """
    sys.path.insert(0, str(Path.cwd()))  # a lock of the user's own may live here
    first = arguments[0] if arguments else ""
    if first in MOVED:
        raise LabError(f"lab {first} is now: {MOVED[first]}")
    names = (first,) if first in COMMANDS else COMMANDS
    try:
        code = command(names)(arguments, standalone_mode=False)
    except typer.TyperException as error:
        print(f"error: {error.format_message()}", file=sys.stderr)  # noqa: T201
        print("  hint: lab --help", file=sys.stderr)  # noqa: T201
        return 2
    except Exception as error:
        from lab.substrates.interruption import Interrupted

        if not isinstance(error, Interrupted):
            raise
        print("interrupted: everything was stopped, what was recorded is kept", file=sys.stderr)  # noqa: T201
        return ExitCode.INTERRUPTED
    return int(code or 0)
