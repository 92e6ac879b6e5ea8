"""``lab up``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import On, Out, Server, Set

app = typer.Typer()


@app.command()
def up(
    scenario: Annotated[str, typer.Argument(help="A scenario's name (lab list), or a YAML file.")],
    settings: Set = None,
    on: On = "auto",
    server: Server = None,
    out: Out = Path("reports"),
) -> int:
    """Bring the servers of a scenario up, to reach them by hand, and keep them until Ctrl-C or lab down."""
    from lab.api import runs
    from lab.report.consoles import consoles
    from lab.report.terminal import RunPrinter

    _, talk = consoles()
    nodes = (f"cluster.server={server}",) if server else ()
    request = runs.RunRequest(scenario, (*(settings or ()), *nodes), substrate=on, out=out, keep=True)
    kept = runs.up(request, RunPrinter(talk))
    talk.print(f"down; the logs are in {kept / 'logs'}", markup=False, soft_wrap=True)
    return 0
