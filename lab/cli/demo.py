"""``lab demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lab.cli.options import On, Out, Seed

app = typer.Typer()


@app.command()
def demo(
    scenario: Annotated[
        str, typer.Argument(help="A scenario's name (lab list), or a YAML file.")
    ] = "partition-clockjump",
    auto: Annotated[
        bool, typer.Option("--auto", help="Continue without waiting for Enter, as for a recording.")
    ] = False,
    seed: Seed = None,
    on: On = "auto",
    out: Out = Path("reports"),
) -> int:
    """Run a scenario and show it part by part, beside what the article says, in our words."""
    from rich.console import Console

    from lab.api.demo import RunRequest, show_run

    screen, talk = (Console(stderr=talk, emoji=False, highlight=False) for talk in (False, True))
    result = show_run(RunRequest(scenario, seed=seed, substrate=on, out=out), screen, talk, auto=auto)
    if not result.as_expected:
        talk.print(f"repeat: {result.repeat}", markup=False, soft_wrap=True)
    return result.exit_code
