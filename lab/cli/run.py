"""``lab run``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from lab.cli.options import Json, On, Out, Seed, Server, Set, exclude

app = typer.Typer()


@app.command()
def run(
    scenario: Annotated[str, typer.Argument(help="A scenario's name (lab list), or a YAML file.")],
    settings: Set = None,
    lock: Annotated[
        str | None,
        typer.Option(help="The lock under test: a name, package.module:name, or a driver."),
    ] = None,
    seed: Seed = None,
    on: On = "auto",
    server: Server = None,
    endpoints: Annotated[
        str | None,
        typer.Option(help="Servers that exist, as nodes: rediss://USER@HOST:PORT,…; see docs/endpoints.md."),
    ] = None,
    proxy: Annotated[
        str | None, typer.Option(help="The API of a Toxiproxy that exists, for their links: HOST:PORT.")
    ] = None,
    owned: Annotated[
        bool, typer.Option("--i-own-these", help="Endpoints on other machines may be disturbed.")
    ] = False,
    out: Out = Path("reports"),
    picture: Annotated[
        Literal["always", "unexpected", "never"],
        typer.Option(help="Which runs are drawn; lab check draws any later."),
    ] = "always",
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep the servers up after the run, to reach them by hand; Ctrl-C ends that."
        ),
    ] = False,
    as_json: Json = False,
) -> int:
    """Run one scenario: one verdict, one report."""
    from lab.api import runs
    from lab.report.consoles import consoles
    from lab.report.terminal import RunPrinter, print_ending

    data, talk = consoles()
    by_setting = next((text for text in settings or () if text.startswith("cluster.server=")), None)
    exclude({"--server": server, f"--set {by_setting}": by_setting})
    nodes = (f"cluster.server={server}",) if server else ()
    existing = runs.existing(endpoints, proxy)
    request = runs.RunRequest(
        scenario, (*(settings or ()), *nodes, *existing), lock, seed, on, out, owned, keep
    )
    printer = RunPrinter(talk, None if as_json else data)
    result, files, seconds, code = runs.run(request, printer, picture=picture)
    if as_json:
        sys.stdout.buffer.write((result.directory / "verdict.json").read_bytes())
    else:
        print_ending(data, result, files, seconds, runs.process_age_s())
    if not result.as_expected:
        talk.print(f"repeat: {result.repeat}", markup=False, soft_wrap=True)
    return code
