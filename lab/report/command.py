"""``lab report``, ``lab plot`` and ``lab docs``: what can be made of what is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from lab.analysis.comparison import read_run, write_report
from lab.errors import ExitCode, LabError
from lab.report.consoles import consoles

FORMATS: Final = ("svg", "png", "pdf")


def report_command(target: Path) -> int:
    """``lab report``: write the page once more, and say where.

    Raises:
        LabError: it is no run's directory, or its files are damaged.
    """
    run = read_run(target)
    for path in write_report(run.directory, run.loaded, run.history, run.judgement, run.kept):
        _say(path)
        return ExitCode.EXPECTED
    return ExitCode.UNKNOWN


def plot_command(target: Path, kind: str, out: Path | None) -> int:
    """``lab plot``: draw one figure into a file.

    Raises:
        LabError: it is no run's directory, its files are damaged, or the file cannot be written.
    """
    run = read_run(target)
    path = out or run.directory.path / f"{kind}.svg"
    suffix = path.suffix.lstrip(".").lower()
    if suffix not in FORMATS:
        raise LabError(
            f"no figure can be written as {path.suffix or 'a file without a suffix'}",
            where=str(path),
            expected="a name that ends in .svg, .png or .pdf",
            hint=f"lab plot RUN --kind {kind} --out {kind}.pdf",
        )
    from lab.report.figures.draw import figure  # matplotlib is heavy

    picture = figure(kind, run.history, run.judgement.verdict, run.loaded.scenario.title, suffix)
    try:
        path.write_bytes(picture)
    except OSError as error:
        raise LabError(
            f"the figure cannot be written: {error.strerror or error}",
            where=str(path),
            expected="a file in a directory that exists and can be written",
            hint="choose another with --out",
        ) from error
    _say(path)
    return ExitCode.EXPECTED


def docs_command(out: Path) -> int:
    """``lab docs``: write the pages, and the index of a gallery that stands below this directory.

    Raises:
        LabError: the pages cannot be written.
    """
    from lab.report.docs import GALLERY, write_docs

    try:
        written = write_docs(out, GALLERY if GALLERY.is_dir() else None)
    except OSError as error:
        raise LabError(
            f"the pages cannot be written: {error.strerror or error}",
            where=str(error.filename or out),
            expected="a directory that can be made and written",
            hint="choose another with --out",
        ) from error
    _say(f"{len(written)} pages below {out}")
    return ExitCode.EXPECTED


def _say(words: object) -> None:
    data, _ = consoles()
    data.print(str(words), markup=False)
