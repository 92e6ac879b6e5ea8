"""Helpers for tables, in a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH_FOR_FILES = 160
"""The width of a table, in characters, without a terminal."""


def grid(head: Iterable[str], *, right: Iterable[str] = ()) -> Table:
    """A table for a terminal without lines yet; the columns ``right`` hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in head:
        table.add_column(name, overflow="fold", justify="right" if name in right else "left")
    return table


def markdown_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    """A table as Markdown."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return "\n".join([line(head), line(["---"] * len(head)), *map(line, body)]) + "\n"


def plain(text: str) -> str:
    """Text with Markdown's characters escaped, on one line."""
    return "".join(f"\\{char}" if char in "\\`*_[]<>|" else char for char in " ".join(text.split()))


def print_table(console: Console, table: Table) -> None:
    """Print a table in the width of the terminal, or of a file."""
    wide = (
        console
        if console.is_terminal
        else Console(file=console.file, emoji=False, highlight=False, width=WIDTH_FOR_FILES)
    )
    wide.print(table)
