"""``lab doctor``."""

from __future__ import annotations

import typer

from lab.cli.options import Json

app = typer.Typer()


@app.command()
def doctor(as_json: Json = False) -> int:
    """Show what is installed, which faults and substrates that allows, and what provides the rest."""
    from lab.api.doctor import diagnose, render
    from lab.report.consoles import consoles

    data, _ = consoles()
    diagnosis = diagnose()
    if as_json:
        data.print_json(data=diagnosis.to_dict())
    else:
        render(diagnosis, data)
    return diagnosis.exit_code
