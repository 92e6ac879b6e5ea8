"""The output of ``lab test``: its progress and its result."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import Progress as Shown
from rich.progress import SpinnerColumn, TextColumn
from rich.text import Text

from checker.formats.whole import write_whole
from lab.api.examinations import (
    RESULT,
    Asked,
    directory_for,
    examine,
    finish,
    junit,
    replay,
    words,
)
from lab.cli.search_output import signals_interrupt
from lab.errors import ExitCode, cannot_write
from lab.report.consoles import consoles
from lab.report.terminal import relative
from lab.report.timeline.words import clean

if TYPE_CHECKING:
    from lab.examine.answer.replay import Replayed
    from lab.examine.examination import Progress
    from lab.examine.result import Examined, Kept

WIDTH_MAX: Final = 100
LABEL: Final = 13
"""How wide the first column is."""


def examine_command(
    asked: Asked, out: Path | None, junit_file: Path | None, *, command: str, as_json: bool
) -> int:
    """0: no defect was found, and the directed part is through; 1: there are some; 3: it is not known; 130.

    Raises:
        LabError: an impossible argument, an unknown lock, or files that cannot be written.
    """
    data, talk = consoles()
    directory = out or directory_for(asked.lock, asked.seed)
    with signals_interrupt(), progress(talk) as on_progress:
        examined = examine(asked, on_progress)
    if examined.defects and not examined.interrupted:
        real = ", and runs on real Redis" if asked.runs_on_real else ""
        left_s = max(0.0, examined.budget_s - examined.spent_s)
        talk.print(
            f"what is left of the budget, {left_s:.0f} s: each defect as a scenario, its replays{real}",
            style="dim",
        )
    with signals_interrupt():
        kept = finish(examined, asked, directory, command=command)
    if junit_file is not None:
        _write(junit_file, junit(kept.examined))
    if as_json:
        sys.stdout.buffer.write(kept.examined.to_json())
    else:
        print_examined(data, kept)
    if kept.examined.interrupted:
        talk.print("interrupted: what was found is kept", style="yellow")
        return ExitCode.INTERRUPTED
    return kept.examined.exit_code


def replay_command(path: Path, *, as_json: bool) -> int:
    """0: nothing is violated any more; 1: something is; 3: no run came to a verdict.

    Raises:
        LabError: no such file, or it is damaged.
    """
    data, _ = consoles()
    replayed = replay(path)
    if as_json:
        sys.stdout.buffer.write(replayed.to_json())
    else:
        print_replayed(data, replayed)
    return replayed.exit_code


@contextlib.contextmanager
def progress(console: Console) -> Iterator[Callable[[Progress], None]]:
    """Yield a callback that shows the progress of an examination, if there is a terminal.

    It begins with the first call, as it starts a thread: a process should be forked without any.
    """
    columns = (SpinnerColumn(), TextColumn("{task.description}"))
    shown = Shown(*columns, console=console, transient=True, disable=not console.is_terminal)
    task = shown.add_task("")

    def on_progress(at: Progress) -> None:
        shown.update(task, description=progress_line(at))
        shown.start()

    try:
        yield on_progress
    finally:
        shown.stop()


def progress_line(at: Progress) -> str:
    """The progress of an examination, on one line."""
    found = words.counted(at.defects, "defect")
    return f"{words.counted(at.schedules, 'schedule')}, {at.seconds:.0f} s, {found} · {at.stage}"


def print_examined(console: Console, kept: Kept) -> None:
    """Print the result: the defects, known limits of the kind, and what was tried.

    Where there are defects, what else there is to say of the lock is left to the page.
    """
    examined = kept.examined
    styles = {ExitCode.EXPECTED: "bold green", ExitCode.UNEXPECTED: "bold red"}
    answer = clean(words.headline(examined), 400)
    console.print(Text(answer, styles.get(examined.exit_code, "bold yellow")))
    printer = _Printer(console)
    printer.line(words.spent(examined))
    if used_as := words.used_as(examined):
        printer.line(used_as)
    for line in words.not_finished(examined):
        printer.line(clean(line, 600), hanging=2)
    if examined.defects:
        printer.title("DEFECTS")
    for number, defect in enumerate(examined.bugs, 1):
        follow = examined.consequences(number)
        _print_defect(printer, number, words.defect_words(defect, examined.reference, follow))
    _print_limits(printer, examined)
    printer.title("WHAT WAS TRIED")
    for name, tried, about in words.part_rows(examined):
        printer.row(f"{tried:>16}", f"{name} ({about})", width=18)
    if not examined.defects:
        _print_kind(printer, kept)
    if examined.undecided:
        printer.title("NOT DECIDED", "seen, and not certain to be a defect of this lock")
    for each in words.undecided(examined):
        printer.line(f"- {clean(each.seen, 300)}", hanging=2)
        if each.replay:
            printer.line(each.replay, 4, hanging=2)
    if not examined.defects:
        printer.listed("THE CODE OF THE LOCK", "", words.code_words(examined))
        printer.listed("WHAT WAS NOT FOUND", "in any of these schedules", words.not_found(examined))
    printer.listed("WHAT WAS NOT TRIED", "", words.not_tried(examined))
    console.print()
    console.print(f"page: {relative(kept.page)} ({RESULT} is beside it)", markup=False)
    if examined.defects:
        printer.line(
            "The page also has pictures, the kind of the lock, its limits, and the code never executed."
        )


def print_replayed(console: Console, replayed: Replayed) -> None:
    """Print what a stored trial or scenario shows, and in how many runs."""
    name = clean(replayed.lock, 120)
    if replayed.violated:
        answer, style = f"{name} fails in {replayed.violated} of {replayed.of} runs", "bold red"
    elif replayed.unknown:
        answer, style = f"{name}: no verdict in {replayed.unknown} of {replayed.of} runs", "bold yellow"
    else:
        answer, style = f"{name} fails in none of {replayed.of} runs", "bold green"
    console.print(Text(answer, style))
    printer = _Printer(console)
    for finding, times in replayed.shown.most_common():
        printer.row(finding, f"{times} of {replayed.of}: {words.meaning(finding)}", width=18)
    if replayed.violated and replayed.unknown:
        printer.row("no verdict", f"{replayed.unknown} of {replayed.of}", width=18)
    printer.row("why no verdict", replayed.why_unknown)
    printer.row("cause", *replayed.causes)
    printer.row("leads to", replayed.headline, *replayed.evidence)
    printer.row("schedule", *replayed.schedule)


def _print_limits(printer: _Printer, examined: Examined) -> None:
    """What the reference of the kind loses as well: in one line each, where there are defects."""
    limits = words.limit_words(examined)
    if limits:
        printer.title("KNOWN LIMITS", f"of the kind: {examined.reference} has them as well, no defects")
    for assumption, why, seen in limits:
        if examined.defects:
            findings = ", ".join(line.partition(":")[0] for line in seen)
            printer.line(f"- {assumption}: {findings}", hanging=2)
            continue
        printer.line(f"- {assumption}: {why}" if why else f"- {assumption}", hanging=2)
        for line in seen:
            printer.line(line, 4, hanging=2)


def _print_kind(printer: _Printer, kept: Kept) -> None:
    """The lock's kind; how it works in detail fills a page, and is on the page."""
    examined = kept.examined
    printer.title("WHAT IT IS")
    printer.row("kind", examined.kind)
    printer.row("promise", examined.promise)
    if examined.profile:
        printer.row("profile", f"{words.counted(len(examined.profile), 'answer')} on {relative(kept.page)}")


def _print_defect(printer: _Printer, number: int, defect: words.DefectWords) -> None:
    if number > 1:
        printer.line("")
    printer.line(f"{number}. {defect.title}", 0, hanging=3, style="bold")
    for label, *texts in (
        ("seen", defect.seen),
        ("rule", defect.rule),
        ("code", *defect.code),
        ("leads to", defect.leads_to, *defect.evidence),
        ("assumptions", defect.assumptions),
        ("schedule", *defect.schedule),
        ("happened", *defect.happened),
        ("right way", defect.right, f"source: {defect.source}" if defect.source else ""),
        ("replay", defect.replay),
        ("reproduced", defect.reproduced),
        ("reference", defect.reference),
        ("also", defect.also),
        ("also seen as", *defect.also_seen),
        ("found in", defect.found),
        ("file", defect.kept),
        ("real Redis", defect.confirmed, defect.real),
    ):
        printer.row(label, *texts)


class _Printer:
    """Prints paragraphs, wrapped to the terminal's width and at most to ``WIDTH_MAX``."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._width = min(console.width, WIDTH_MAX)

    def title(self, title: str, more: str = "") -> None:
        """The title of a section."""
        self._console.print()
        self._console.print(Text.assemble((title, "bold"), f" {more}" if more else ""))

    def listed(self, title: str, more: str, lines: Iterable[str]) -> None:
        """A section with a list; nothing if the list is empty."""
        for at, line in enumerate(lines):
            if not at:
                self.title(title, more)
            self.line(f"- {clean(line, 600)}", hanging=2)

    def line(self, text: str, indent: int = 2, *, hanging: int = 0, style: str = "") -> None:
        """One paragraph."""
        for line in self._wrapped(text, " " * indent, " " * (indent + hanging)):
            self._console.print(Text(line, style))

    def row(self, label: str, *texts: str, width: int = LABEL) -> None:
        """A label and its texts, in paragraphs one below the other; nothing without a text."""
        first = f"   {label:<{width}}"
        for text in _cleaned(texts):
            for line in self._wrapped(text, first, " " * len(first)):
                self._console.print(Text(line))
            first = " " * len(first)

    def _wrapped(self, text: str, first: str, later: str) -> list[str]:
        return textwrap.wrap(
            text,
            self._width,
            initial_indent=first,
            subsequent_indent=later,
            break_long_words=False,
            break_on_hyphens=False,
        ) or [""]


def _cleaned(texts: Iterable[str]) -> list[str]:
    return [clean(text, 1200) for text in texts if text]


def _write(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content)
    except OSError as error:
        raise cannot_write("the report", error, hint="choose another file with --junit") from error
