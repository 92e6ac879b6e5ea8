"""The timeline picture of a run: the clients' windows, the keys on the nodes, the store, and the findings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from checker.formats.whole import write_whole

if TYPE_CHECKING:
    from checker.history.history import History
    from checker.verdict import Verdict

FORMATS: Final = ("svg", "png")

__all__ = ["draw_timeline", "preload"]


def preload() -> None:
    """Import everything that drawing needs, and find its fonts, which takes most of a second."""
    from lab.report.timeline import data  # noqa: F401 - imported for later, as is the next one
    from lab.report.timeline.draw import picture  # noqa: F401
    from lab.report.timeline.pen import Pen
    from lab.report.timeline.style import SMALL_PT

    pen = Pen(72.0)
    for bold in (False, True):
        pen.text(0.0, 12.0, "ready", SMALL_PT, bold=bold, backed=True)
    pen.render(24.0, FORMATS, 72, "")


def draw_timeline(
    history: History,
    verdict: Verdict,
    title: str,
    out_dir: Path,
    formats: Sequence[str] = FORMATS,
) -> list[Path]:
    """Draw a history and its verdict into ``out_dir/timeline.<format>``.

    Args:
        history: the record.
        verdict: the checker's verdict on it; its findings mark what went wrong.
        title: any text; it is printed unchanged.
        out_dir: the directory; it is made if it does not exist.
        formats: formats of matplotlib: "svg" (texts stay text, same input gives the same bytes), "png".

    Returns:
        the files written, in the order of ``formats``.

    Raises:
        OSError: the directory or a file cannot be written.
        ValueError: a format that matplotlib does not know.
    """
    # Lazy: matplotlib takes a third of a second to import.
    from lab.report.timeline.data import extract
    from lab.report.timeline.draw import picture

    pictures = picture(extract(history, verdict, title), formats)
    out_dir.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in formats:
        path = out_dir / f"timeline.{kind}"
        write_whole(path, pictures[kind])
        written.append(path)
    return written
