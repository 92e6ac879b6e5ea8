"""``lab down``."""

from __future__ import annotations

import typer

app = typer.Typer()


@app.command()
def down() -> int:
    """End what is kept up, and all that a killed lab left running: 0 if nothing is left, 3 if not known."""
    from lab.api.cleanup import clean_up
    from lab.report.consoles import consoles

    data, talk = consoles()
    cleanup = clean_up()
    for line in cleanup.lines or ("nothing was left running",):
        data.print(line, markup=False, soft_wrap=True)
    if cleanup.hint is not None:
        talk.print(f"  hint: {cleanup.hint}", markup=False, soft_wrap=True)
    return cleanup.exit_code
