"""Lanes in characters: the marks of the timeline up to some time, in any width, with colours or without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich.text import Text

from lab.report.timeline import style
from lab.report.timeline.axis import Panel, TimeAxis
from lab.report.timeline.marks import Lane, Mark, Scene
from lab.report.timeline.words import duration

_PT = 8.0
"""Points per character: the axis spaces its ticks by points."""
_KEYS = "━═╍┅"


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of a picture; colour alone carries no information."""

    rule: str = "─"
    keys: str = _KEYS
    sure: str = "█"
    belief: str = "░"
    pause: str = "▒"
    cut: str = "╱"
    down: str = "×"
    jump: str = "↯"
    broken: str = "▲"
    wrong: str = "✗"
    gap: str = "┊"
    store: str = "─"


ASCII = Glyphs("-", "=~+*", "#", ":", "%", "/", "x", "!", "^", "x", ":", "-")
"""For terminals without Unicode."""


@dataclass(slots=True)
class Row:
    """One line of characters with a style each."""

    name: str
    name_style: str
    cells: list[str]
    styles: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, width: int, fill: str = " ", name_style: str = "") -> Row:
        """A row full of one character."""
        return cls(name, name_style, [fill] * width, ["dim" if fill != " " else ""] * width)

    def fill(self, x0: int, x1: int, char: str, look: str = "") -> None:
        """Write a character from one column up to another; at least one of them."""
        for x in range(max(0, x0), min(len(self.cells), max(x1, x0 + 1))):
            self.cells[x], self.styles[x] = char, look

    def write(self, x: int, words: str, look: str = "", *, over: str = " ") -> bool:
        """Write words from a column on, moved left if need be, if nothing but `over` is there."""
        x = min(x, len(self.cells) - len(words))
        if x < 0 or any(cell not in over for cell in self.cells[max(0, x - 1) : x + len(words) + 1]):
            return False
        for at, char in enumerate(words):
            self.cells[x + at], self.styles[x + at] = char, look
        return True

    def text(self, gutter: int) -> Text:
        """The row with its name before it."""
        line = Text(no_wrap=True)
        line.append(f"{self.name:>{gutter - 1}.{gutter - 1}} ", self.name_style)
        for char, look in zip(self.cells, self.styles, strict=True):
            line.append(char, look)
        line.rstrip()
        return line


class Lanes:
    """Draws a scene up to some time.

    Args:
        scene: the marks.
        width: how many characters a line may have.
        glyphs: the characters.
    """

    def __init__(self, scene: Scene, width: int, glyphs: Glyphs) -> None:
        self._scene, self._glyphs = scene, glyphs
        self.gutter = min(max(len(lane.name) for lane in scene.lanes) + 1, 14) if scene.lanes else 8
        self._columns = max(20, width - self.gutter)
        room = self._columns * _PT
        self._axis = TimeAxis(tuple(Panel(t0, t1, u0 * room, u1 * room) for t0, t1, u0, u1 in scene.panels))

    def at(self, now_ns: int) -> list[Text]:
        """The lines of all marks until ``now_ns`` (since the start)."""
        rows: list[Row] = []
        for lane in self._scene.lanes:
            marks = [m for m in self._scene.marks if m.lane == lane.id and m.t0 <= now_ns]
            if lane.kind == "node":
                rows.append(self._node(lane, marks, now_ns))
            elif lane.kind == "client":
                rows += self._bands(lane, now_ns)
                rows += self._client(lane, marks, now_ns)
            else:
                rows += self._store(lane, marks)
        return [*(row.text(self.gutter) for row in rows), *self._times()]

    def key(self) -> str:
        """The meaning of the characters."""
        glyphs = self._glyphs
        signs = (
            (glyphs.keys[0], "a key on its node"),
            (glyphs.cut, "cut off"),
            (glyphs.jump, "clock moved"),
            (glyphs.sure, "guaranteed window"),
            (glyphs.belief, "belief window"),
            (glyphs.pause, "paused"),
        )
        return "   ".join(f"{sign} {meaning}" for sign, meaning in signs)

    def _x(self, time_ns: float) -> int:
        return min(self._columns - 1, int(self._axis.x(time_ns) / _PT))

    def _span(self, mark: Mark, now_ns: int) -> tuple[int, int]:
        """The columns of a mark until ``now_ns``."""
        end = now_ns if mark.t1 is None else min(mark.t1, now_ns)
        return self._x(mark.t0), self._x(end)

    def _look(self, tone: int) -> str:
        return style.tone(tone).solid if tone >= 0 else ""

    def _row(self, name: str, look: str, now_ns: int | None = None) -> Row:
        """An empty row; its rule, if it has one, ends at ``now_ns``."""
        row = Row.of(name, self._columns, name_style=look)
        if now_ns is not None:
            row.fill(0, self._x(now_ns), self._glyphs.rule, "dim")
        return row

    def _torn(self, row: Row) -> Row:
        for gap in self._axis.breaks():
            row.fill(int((gap.x0 + gap.x1) / 2 / _PT), 0, self._glyphs.gap, "dim")
        return row

    def _node(self, lane: Lane, marks: Sequence[Mark], now_ns: int) -> Row:
        glyphs = self._glyphs
        row = self._row(lane.name, "", now_ns)
        fills = {"link": (glyphs.cut, "dim"), "down": (glyphs.down, "bold"), "pause": (glyphs.pause, "dim")}
        for mark in marks:
            if mark.kind in fills:
                row.fill(*self._span(mark, now_ns), *fills[mark.kind])
        for mark in (mark for mark in marks if mark.kind == "life"):
            x0, x1 = self._span(mark, now_ns)
            char = glyphs.keys[mark.tone % len(glyphs.keys)]
            row.fill(x0, x1, char, self._look(mark.tone))
            owner = mark.label.partition("’")[0]
            for words in (words for words in (mark.label, owner) if x1 - x0 > len(words) + 1):
                if row.write(x0 + 1, words, f"bold {self._look(mark.tone)}", over=char):
                    break
        for mark in (mark for mark in marks if mark.kind in ("jump", "promotion")):
            x = self._x(mark.t0)
            row.fill(x, x, glyphs.jump, "bold")
            words = mark.label.partition(" ")[2]
            row.write(x + 2, words, "bold", over=f" {glyphs.rule}{glyphs.cut}")
        return self._torn(row)

    def _client(self, lane: Lane, marks: Sequence[Mark], now_ns: int) -> list[Row]:
        glyphs, look = self._glyphs, self._look(lane.tone)
        bar, below = self._row(lane.name, f"bold {look}", now_ns), self._row("", "")
        for kind, char in (("belief", glyphs.belief), ("sure", glyphs.sure), ("pause", glyphs.pause)):
            for mark in (mark for mark in marks if mark.kind == kind):
                bar.fill(*self._span(mark, now_ns), char, "" if kind == "pause" else look)
                if kind == "pause":
                    bar.write(self._x(mark.t0) + 2, "paused", "bold", over=char)
        for mark in (mark for mark in marks if mark.kind in ("attempt", "release", "read", "write", "crash")):
            if mark.t1 is not None and mark.t1 > now_ns:
                continue
            bad = f"{glyphs.wrong} " if mark.findings else ""
            below.write(self._x(mark.t0), bad + mark.label.split(" (!")[0], "bold red" if bad else look)
        return [self._torn(bar), below]

    def _bands(self, lane: Lane, now_ns: int) -> list[Row]:
        """Where two clients hold the lock at once, above the lower one of the two."""
        found = []
        for mark in self._scene.marks:
            if mark.kind == "band" and mark.lane.split("\n")[-1] == lane.id and mark.t0 < now_ns:
                row = self._row("", "")
                x0, x1 = self._span(mark, now_ns)
                row.fill(x0, x1, self._glyphs.broken, "red")
                over = mark.t1 is not None and mark.t1 <= now_ns
                words = f" {mark.label if over else mark.label.split(' for ')[0]} "
                row.write(max(0, x0 + 1), words, "bold red", over=f" {self._glyphs.broken}")
                found.append(row)
        return found

    def _store(self, lane: Lane, marks: Sequence[Mark]) -> list[Row]:
        row = Row.of(lane.name, self._columns, self._glyphs.store, "bold")
        for mark in marks:
            if mark.kind in ("accepted", "rejected"):
                bad = mark.findings or mark.kind == "rejected"
                words = f"{self._glyphs.wrong} {mark.label}" if bad else mark.label
                look = "bold red" if mark.findings else f"bold {self._look(mark.tone)}"
                row.write(self._x(mark.t0), words, look, over=self._glyphs.store)
        return [self._torn(row)]

    def _times(self) -> list[Text]:
        row = Row.of(f"({self._axis.unit()})", self._columns, name_style="dim")
        for x, label in self._axis.ticks():
            row.write(max(0, int(x / _PT) - len(label) // 2), label, "dim")
        lines = [row.text(self.gutter)]
        skipped = " · ".join(
            f"{self._glyphs.gap} {duration(round(g.skipped_ns))} left out" for g in self._axis.breaks()
        )
        if skipped:
            lines.append(Text(" " * self.gutter + skipped, "dim", no_wrap=True))
        return lines
