"""``lab matrix``, between its arguments and its exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from rich.text import Text

from lab.batch.matrix.journal import Journal
from lab.batch.matrix.keep import keep, keepable
from lab.batch.matrix.model import Matrix, with_runs
from lab.batch.matrix.plan import DEFAULT, chosen, entries_of, plan
from lab.batch.suite.load import Entry, LoadedSuite
from lab.batch.suite.run import run_suite
from lab.batch.verdicts import OneRun, own_directory
from lab.errors import ExitCode, LabError
from lab.paths import writable_file
from lab.report.consoles import consoles
from lab.report.matrix import ended_line, matrix_csv, matrix_markdown, print_matrix
from lab.report.progress import ended_lines
from lab.substrates.execute import Interrupted, execute


@dataclass(frozen=True)
class Asked:
    """The arguments of ``lab matrix``, as they were given."""

    file: Path | None
    only: tuple[str, ...]
    on: str | None
    repeat: int
    jobs: int
    out: Path
    resume: Path | None
    csv: Path | None
    markdown: Path | None
    html: Path | None
    keep: Path | None


def matrix_command(asked: Asked, *, as_json: bool) -> int:
    """0: every cell is known, or cannot be; 1: a story with its own lock came out otherwise; 3; 130.

    Raises:
        LabError: the file or an argument is wrong (exit code 2), or a report cannot be written.
    """
    data, talk = consoles()
    for report in (asked.csv, asked.markdown, asked.html):
        writable_file(report)
    keepable(asked.keep)
    directory, journal, wanted = _begun(asked, lambda line: talk.print(line, style="yellow", markup=False))
    matrix = journal.matrix
    entries = list(entries_of(cell for cell in wanted.cells))
    runs = sum(entry.repeat for entry in entries)
    talk.print(f"{matrix.name}: {matrix.title}", style="bold", markup=False)
    talk.print(f"{len(matrix.cells)} cells, {runs} runs to go · {directory}", style="dim", markup=False)
    interrupted = False
    ended: list[tuple[Entry, OneRun]] = []
    try:
        with ended_lines(talk, runs) as tell:
            execute(_run(matrix, entries, directory, asked.jobs, journal, ended, tell))
    except Interrupted:
        interrupted = True
        talk.print("interrupted: what was running was stopped, what had ended is kept", style="yellow")
        talk.print(f"to go on: lab matrix --resume {directory}", markup=False)
    finally:
        journal.close()
    cells = with_runs(matrix.cells, ((entry.id, run) for entry, run in ended))
    matrix = msgspec.structs.replace(matrix, cells=cells)
    _report(asked, matrix)
    if as_json:
        sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(matrix.to_dict()), indent=2) + b"\n")
    else:
        print_matrix(data, matrix)
    return ExitCode.INTERRUPTED if interrupted else matrix.exit_code


def show_command() -> int:
    """``lab matrix --show``."""
    sys.stdout.write(DEFAULT.read_text(encoding="utf-8"))
    return ExitCode.EXPECTED


def _begun(asked: Asked, tell: Callable[[str], None]) -> tuple[Path, Journal, Matrix]:
    """Where the matrix is kept, its journal, and which of its cells are wanted, how often."""
    if asked.resume is None:
        matrix = plan(asked.file, asked.only, on=asked.on, repeat=asked.repeat, tell=tell)
        directory = own_directory(asked.out, "matrix")
        return directory, Journal.begin(directory, matrix), matrix
    if asked.file is not None or asked.on is not None:
        raise LabError(
            "--resume together with a file or --on",
            expected="either: what is run stands in the directory of the matrix",
            hint="--only and --repeat choose what is run of it",
        )
    directory = asked.resume.resolve()
    journal = Journal.resume(directory)
    try:
        for one in journal.matrix.skipped:
            tell(f"skipped when it was begun: {one.row}: {one.reason}")
        return directory, journal, chosen(journal.matrix, asked.only, asked.repeat)
    except BaseException:
        journal.close()
        raise


async def _run(
    matrix: Matrix,
    entries: list[Entry],
    directory: Path,
    jobs: int,
    journal: Journal,
    ended: list[tuple[Entry, OneRun]],
    tell: Callable[[Text], None],
) -> None:
    """Run what is to be run, and write down each run that ends before anything else is done with it."""

    def kept(entry: Entry, run: OneRun) -> None:
        journal.append(entry.id, run)
        tell(ended_line(entry, run))

    suite = LoadedSuite(matrix.name, matrix.title, tuple(entries))
    await run_suite(suite, entries, directory, jobs=jobs, ended=ended, on_end=kept, picture="never")


def _report(asked: Asked, matrix: Matrix) -> None:
    """Write the files that were asked for."""
    if asked.csv is not None:
        asked.csv.write_text(matrix_csv(matrix), encoding="utf-8", newline="")
    if asked.markdown is not None:
        asked.markdown.write_text(matrix_markdown(matrix), encoding="utf-8")
    if asked.html is not None:
        from lab.report.page.matrix import matrix_page, reports_from  # the template engine

        page = matrix_page(matrix, reports_from(asked.html.resolve().parent), "the reports of its runs")
        asked.html.write_text(page, encoding="utf-8")
    if asked.keep is not None:
        keep(matrix, asked.keep)
