"""``lab setup``."""

from __future__ import annotations

from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def setup(
    server: Annotated[
        list[str] | None,
        typer.Option(help="Provide this server only: redis@8.2, valkey@8.1. Repeatable."),
    ] = None,
) -> int:
    """Find or provide what local runs need: redis-server, toxiproxy-server and the preload shims."""
    from lab.api import doctor
    from lab.errors import ExitCode
    from lab.report.consoles import consoles

    data, talk = consoles()
    diagnosis = doctor.setup(lambda line: talk.print(line, markup=False, style="dim"), tuple(server or ()))
    doctor.render(diagnosis, data)
    return ExitCode.UNKNOWN if server and diagnosis.failures else diagnosis.exit_code
