"""The files to which a batch can be written."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from checker.formats.whole import write_whole
from lab.batch.junit import junit
from lab.batch.kept import keep, keepable
from lab.batch.result import Result
from lab.batch.servers_plan import keep_servers
from lab.batch.tables import markdown, to_csv
from lab.errors import cannot_write
from lab.paths import writable_file

SUMMARY_VARIABLE: Final = "GITHUB_STEP_SUMMARY"
"""Names the file to which the Markdown summary is appended, where GitHub runs the batch."""


@dataclass(frozen=True)
class Reports:
    """The files to write: JUnit XML, Markdown, CSV, a page, and a directory for the repository."""

    junit: Path | None = None
    markdown: Path | None = None
    csv: Path | None = None
    html: Path | None = None
    keep: Path | None = None

    def check(self) -> None:
        """Check that they can be written, before anything is run. Raises ``LabError``."""
        for file in (self.junit, self.markdown, self.csv, self.html):
            writable_file(file)
        keepable(self.keep)

    def write(self, result: Result, as_markdown: Callable[[], str] | None = None) -> None:
        """Write them; ``as_markdown`` replaces the usual tables.

        Raises:
            LabError: one cannot be written.
        """
        try:
            self._write(result, as_markdown)
        except OSError as error:
            raise cannot_write("a report", error, hint="choose another file") from error

    def _write(self, result: Result, as_markdown: Callable[[], str] | None) -> None:
        text = as_markdown or (lambda: markdown(result))
        if self.junit is not None:
            write_whole(self.junit, junit(result))
        if self.markdown is not None:
            write_whole(self.markdown, text())
        if self.csv is not None:
            write_whole(self.csv, to_csv(result))
        if self.html is not None:
            from lab.batch.page import reports_from, to_html  # the template engine

            page = to_html(result, reports_from(self.html.resolve().parent), "the reports of its runs")
            write_whole(self.html, page)
        if self.keep is not None and result.plan.servers:
            keep_servers(result, self.keep)
        elif self.keep is not None:
            keep(result, self.keep)
        summary = os.environ.get(SUMMARY_VARIABLE)
        if summary:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(text() + "\n")
