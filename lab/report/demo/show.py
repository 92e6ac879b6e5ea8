"""Showing a finished run part by part: a text, the events, the lanes until then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from lab.report.demo.lanes import ASCII, Glyphs, Lanes
from lab.report.demo.parts import Part
from lab.report.demo.texts import Words
from lab.report.terminal import OUTCOMES, STATUS_STYLES
from lab.report.timeline.data import extract
from lab.report.timeline.marks import scene_of
from lab.report.timeline.words import duration
from lab.run.result import RunResult

FRAMES = 14
FRAME_S = 0.07
WIDTH_MAX = 110


class Show:
    """Prints one run.

    Args:
        console: where to; it may be a file.
        result: the run.
        wait: called at the end of every part.
    """

    def __init__(self, console: Console, result: RunResult, wait: Callable[[], None]) -> None:
        self._console, self._result, self._wait = console, result, wait
        self._width = min(console.width, WIDTH_MAX)
        title = result.loaded.scenario.title
        self._scene = scene_of(extract(result.history, result.verdict, title))
        unicode = (console.encoding or "").lower().startswith("utf")
        self._lanes = Lanes(self._scene, self._width, Glyphs() if unicode else ASCII)

    def play(self, parts: Sequence[Part], words: Words) -> None:
        """Show all parts, each with its text, and at last the whole run."""
        self._say(words.opening, words.after)
        self._console.print(Text(self._lanes.key(), "dim"), width=self._width)
        self._wait()
        shown_ns = 0
        texts = self._texts(parts, words)
        ends = [part.lines[0].at_ns or 0 for part in parts[1:]] + [parts[-1].end_ns]
        for number, (part, text, end_ns) in enumerate(zip(parts, texts, ends, strict=True), 1):
            self._console.print(Rule(f"{number}", style="dim", characters="-"), width=self._width)
            self._say(text, "")
            self._console.print(self._events(part))
            if part.text:
                self._draw(shown_ns, end_ns)
            shown_ns = end_ns
            self._wait()
        self._console.print(
            Rule("the rest, and the checker's verdict", style="dim", characters="-"), width=self._width
        )
        self._draw(shown_ns, self._scene.last)
        self._say(words.closing, "")

    @staticmethod
    def _texts(parts: Sequence[Part], words: Words) -> Iterator[str]:
        """The text of each part: that of the article, else that of its `say` step; none before the first."""
        named = [part for part in parts if part.text]
        own = dict(zip_longest((id(part) for part in named), words.parts[: len(named)], fillvalue=""))
        return (own.get(id(part)) or (part.text and f"{part.text}.") for part in parts)

    def _say(self, text: str, after: str) -> None:
        if not text:
            return
        self._console.print(Padding(Text(text, "italic"), (0, 2, 0, 2)), width=self._width)
        if after:
            words = Text(f"after {after}, in our words", "dim")
            self._console.print(Padding(words, (0, 2, 0, 2)), width=self._width)
        self._console.print()

    def _events(self, part: Part) -> RenderableType:
        """The events of a part, line by line."""
        lines = []
        for event in part.lines:
            if event.text == part.text or event.text.startswith("waits "):
                continue
            at = duration(event.at_ns or 0)
            text = Text.assemble(
                (f"{at:>10}  ", "dim"),
                (f"{event.actor:>8}  ", "bold"),
                (event.text, STATUS_STYLES[event.status]),
            )
            lines.append(text)
        return Padding(Group(*lines), (0, 0, 1, 0)) if lines else Text("")

    def conclude(self) -> None:
        """Print the outcome of each property, and why it was violated."""
        for name, seen in self._result.verdict.properties.items():
            word, look = OUTCOMES[seen.outcome]
            self._console.print(Text.assemble(f"  {str(name).replace('_', ' ')}: ", (word, look)))
            if seen.violations:
                self._console.print(Padding(Text(seen.why), (0, 2, 0, 6)), width=self._width)

    def _draw(self, since_ns: int, until_ns: int) -> None:
        """Draw the lanes; animated on a terminal."""
        if not self._console.is_terminal:
            self._console.print(self._picture(until_ns))
            return
        with Live(self._picture(since_ns), console=self._console, auto_refresh=False) as live:
            for frame in range(1, FRAMES + 1):
                time.sleep(FRAME_S)
                live.update(self._picture(since_ns + (until_ns - since_ns) * frame // FRAMES), refresh=True)

    def _picture(self, now_ns: int) -> Group:
        return Group(*self._lanes.at(now_ns), Text(""))
