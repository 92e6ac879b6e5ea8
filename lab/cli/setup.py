"""``lab setup``."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def setup() -> int:
    """Find or provide what local runs need: redis-server, toxiproxy-server and the preload shims."""
    from lab.api import doctor
    from lab.report.consoles import consoles

    data, talk = consoles()
    diagnosis = doctor.setup(lambda line: talk.print(line, markup=False, style="dim"))
    doctor.render(diagnosis, data)
    return diagnosis.exit_code
