"""``lab report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from lab.errors import LabError

app = typer.Typer()


@app.command()
def report(
    target: Annotated[Path, typer.Argument(help="A run's directory.")],
    figure: Annotated[
        Literal["timeline", "fencing", "graph", "availability", "latency"] | None,
        typer.Option(help="Draw this figure for paper, instead of the page."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The figure's file: .svg, .png or .pdf; FIGURE.svg in the run's directory if absent."
        ),
    ] = None,
) -> int:
    """Write a stored run's page, index.html, again, or draw one figure of it."""
    from lab.api import runs
    from lab.report.consoles import consoles

    if figure is None and out is not None:
        raise LabError("--out without --figure", expected="--figure NAME --out FILE")
    data, _ = consoles()
    path = runs.page(target) if figure is None else runs.figure(target, figure, out)
    data.print(str(path), markup=False)
    return 0
