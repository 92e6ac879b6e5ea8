"""``lab drivers``: list, install, check."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli.options import Json

app = typer.Typer(
    name="drivers",
    help="List or install the lock libraries that the lab has a driver for, or check a driver of your own.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

On = Annotated[str, typer.Option("--on", help="The substrate on which they run: local or docker.")]


@app.command("list")
def list_drivers(on: On = "local", as_json: Json = False) -> int:
    """List the libraries: version, licence, and whether each can be used now, or what is missing."""
    from rich.table import Table

    from lab.api.drivers import listed
    from lab.report.consoles import consoles
    from lab.report.tables import print_table

    data, _ = consoles()
    found = listed(on)
    if as_json:
        data.print_json(data=[one.to_dict() for one in found])
        return 0
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("driver", "library", "from", "licence", "what it is", "usable"):
        table.add_column(title)
    for name, row, why_not in found:
        library = f"{row.library} {row.version}".strip()
        table.add_row(name, library, row.registry, row.licence, row.what, why_not or "yes")
    print_table(data, table)
    return 0


@app.command()
def install(
    names: Annotated[list[str], typer.Argument(help="Which (lab drivers list), or all.")], on: On = "local"
) -> int:
    """Install libraries, each into an environment of its own in the user's cache, or an image of its own."""
    from lab.api import drivers
    from lab.errors import ExitCode, LabError
    from lab.report.consoles import consoles

    data, talk = consoles()
    code = ExitCode.EXPECTED
    wanted = drivers.chosen(names, on)
    for name in wanted:
        try:
            what = drivers.install(name, on, lambda line: talk.print(line, markup=False, style="dim"))
            data.print(f"{name}: {what}", markup=False)
        except LabError as error:
            if len(wanted) == 1:
                raise
            talk.print(error.render(), markup=False)
            code = ExitCode.UNKNOWN
    return code


@app.command()
def check(
    command: Annotated[str, typer.Argument(help="The driver: driver:NAME, ./my-driver, 'node driver.js'.")],
    options: Annotated[
        list[str] | None, typer.Option("--set", help="An option for it: retry_count=0. Repeatable.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check a driver against the protocol, on five real nodes: 0 it conforms, 1 it does not."""
    from lab.api import drivers
    from lab.report.consoles import consoles

    data, _ = consoles()
    report = drivers.check(
        command, options or [], lambda line: None if as_json else data.print(line, markup=False)
    )
    if as_json:
        data.print_json(data=report.to_dict())
    return int(report.exit_code)
