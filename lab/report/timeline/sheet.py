"""The picture being drawn: the pen, the time axis and the place of every lane."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from lab.report.timeline import style
from lab.report.timeline.axis import TimeAxis
from lab.report.timeline.metrics import Occupied, fitted, text_width
from lab.report.timeline.model import ClientLane, Fault, Span, Timeline
from lab.report.timeline.pen import Look, Pen

NODE_PT = 16.0
CLIENT_PT = 47.0
SECOND_ROW_PT = 9.0
_CROWDED_PT = 46.0
CLIENT_GAP_PT = 5.0
BAND_GAP_PT = 15.0
GROUP_GAP_PT = 12.0
STORE_PT = 53.0
ROW_PT = 9.5
BAR_TOP_PT = 12.0
BAR_PT = 14.0
USE_TOP_PT = 28.0
USE_PT = 6.5
DENSE_OPS = 24
MANY_MESSAGES = 90
FAULT_ROW_PT = 11.5
_FAULT_ROWS = 4
_FAULTS_MARKED = 24


@dataclass(frozen=True, slots=True)
class FaultMark:
    """Where the number of a fault stands above the lanes; ``row`` 0 is nearest, ``words`` may be empty."""

    fault: Fault
    x: float
    row: int
    words: str


@dataclass(slots=True)
class Sheet:
    """The state that the drawing functions share. ``*_y`` are the tops of lanes in points."""

    timeline: Timeline
    pen: Pen
    axis: TimeAxis
    tones: dict[str, style.Tone]
    occupied: Occupied = field(default_factory=Occupied)
    node_y: dict[str, float] = field(default_factory=dict)
    client_y: dict[str, float] = field(default_factory=dict)
    client_pt: dict[str, float] = field(default_factory=dict)
    band_y: dict[str, float] = field(default_factory=dict)
    store_y: float = 0.0
    faults_y: float = 0.0
    marks: list[FaultMark] = field(default_factory=list)
    node_pt: float = NODE_PT

    @property
    def left(self) -> float:
        """Left edge of the time area in points."""
        return self.axis.x0

    @property
    def right(self) -> float:
        """Right edge of the time area in points."""
        return self.axis.x1

    def tone(self, client: str | None) -> style.Tone:
        """Colours of a client; grey if it is not known."""
        return self.tones.get(client or "", style.UNOWNED)

    def xs(self, span: Span, least_pt: float = 0.0) -> tuple[float, float]:
        """Both ends of a span in points, at least ``least_pt`` apart and inside the time area."""
        start, end = span.clipped(self.timeline.last_ns)
        x0, x1 = self.axis.x(start), self.axis.x(end)
        if span.end_ns is None:
            x1 = self.right
        if x1 - x0 < least_pt:
            x1 = x0 + least_pt
        if x1 > self.right:
            x0, x1 = min(x0, self.right - least_pt), self.right
        return x0, x1

    def label(
        self,
        x: float,
        y: float,
        text: str,
        size_pt: float = style.LABEL_PT,
        color: str = style.INK,
        *,
        bold: bool = False,
        reach: float = 30.0,
        backed: bool = True,
        z: float = 8.0,
        leader_from: tuple[float, float, float] | None = None,
        within: tuple[float, float] | None = None,
    ) -> float | None:
        """Write a label near ``x`` in the row whose middle is ``y`` if there is room.

        It stays inside ``within`` (by default the panel of ``x``), so that no break of the axis cuts it.
        A label that is moved away from its mark, ``leader_from`` (x0, x1, y), is joined to it by a line.

        Returns:
            the label's horizontal middle, or None when it was dropped.
        """
        width = text_width(text, size_pt, bold) + 3
        height = size_pt * 1.15
        left, right = within or self.axis.bounds(x)
        at = self.occupied.place_in_row(x, width, y - height / 2, height, left, right, reach)
        if at is None:
            return None
        self.pen.text(at + 1.5, y, text, size_pt, color, bold=bold, backed=backed, z=z)
        if leader_from is not None:
            x0, x1, from_y = leader_from
            if at > x1 + 4:
                self.pen.line(((x1, from_y), (at, y)), Look(edge=color, line_pt=0.6, z=z - 0.2))
            elif at + width < x0 - 4:
                self.pen.line(((x0, from_y), (at + width, y)), Look(edge=color, line_pt=0.6, z=z - 0.2))
        return at + width / 2

    def label_after(
        self,
        x: float,
        y: float,
        text: str,
        size_pt: float,
        color: str,
        reach: float = 40.0,
    ) -> float | None:
        """Write a bold label that starts right of ``x``, or ends left of it near the right edge."""
        width = text_width(text, size_pt, bold=True)
        middle = x + width / 2 if x + width <= self.right else x - width / 2 - 5
        return self.label(middle, y, text, size_pt, color, bold=True, reach=reach)

    def number(self, x: float, y: float, fault: Fault, z: float = 9.0, radius: float = 5.0) -> None:
        """The round mark of a fault, red if a violation is put down to it."""
        look = Look(face=self.ink(fault.number), edge=style.PAPER, line_pt=0.6, z=z)
        self.pen.circle(x, y, radius, look)
        size = 6.5 if fault.number < 10 else 5.2 if fault.number < 100 else 4.0
        self.pen.text(x, y, str(fault.number), size, style.PAPER, bold=True, align="center", z=z + 0.1)

    def ink(self, fault: int | None, otherwise: str = style.INK) -> str:
        """The colour of a fault's marks: red if a violation is put down to it."""
        return style.VIOLATION if self.timeline.is_cause(fault) else otherwise


def lay_out(sheet: Sheet, top: float) -> float:
    """Give every lane its place below ``top``; returns the bottom of the lanes in points."""
    timeline = sheet.timeline
    y = top
    if timeline.faults:
        sheet.marks = place_faults(sheet)
        rows = max(mark.row for mark in sheet.marks) + 1
        sheet.faults_y = y + 7 + FAULT_ROW_PT * (rows - 1)
        y = sheet.faults_y + 11
    sheet.node_pt = NODE_PT if len(timeline.nodes) <= 5 else 13.0
    for node in timeline.nodes:
        sheet.node_y[node.name] = y
        y += sheet.node_pt
    if timeline.nodes:
        y += GROUP_GAP_PT
    named = {name for band in timeline.bands for name in band.clients}
    for position, client in enumerate(timeline.clients):
        sheet.client_y[client.name] = y
        sheet.client_pt[client.name] = CLIENT_PT + (SECOND_ROW_PT if _crowded(sheet, client) else 0.0)
        y += sheet.client_pt[client.name]
        if position + 1 < len(timeline.clients):
            both = client.name in named and timeline.clients[position + 1].name in named
            sheet.band_y[client.name] = y + BAND_GAP_PT / 2
            y += BAND_GAP_PT if both else CLIENT_GAP_PT
        else:
            sheet.band_y[client.name] = y + BAND_GAP_PT / 2
            if any(band.clients[0] == band.clients[1] == client.name for band in timeline.bands):
                y += BAND_GAP_PT
    y += GROUP_GAP_PT
    sheet.store_y = y
    return y + STORE_PT if timeline.writes or timeline.announcements else y


def _crowded(sheet: Sheet, client: ClientLane) -> bool:
    """Whether the labels of a client's reads and writes need a second row."""
    if len(client.uses) + len(client.attempts) > DENSE_OPS:
        return False
    xs = sorted(sheet.axis.x(use.span.start_ns) for use in client.uses)
    return any(b - a < _CROWDED_PT for a, b in pairwise(xs))


def place_faults(sheet: Sheet) -> list[FaultMark]:
    """Spread the fault numbers so that none covers another, each with its text if that fits.

    From right to left, so that the line of a mark that is moved up never crosses a text below it.
    """
    faults = sheet.timeline.faults[:_FAULTS_MARKED]
    xs: list[float] = []
    for fault in faults:
        x = sheet.axis.x(fault.span.start_ns)
        xs.append(max(x, xs[-1] + 12.0) if xs else x)
    limit = sheet.right
    for position in range(len(xs) - 1, -1, -1):
        xs[position] = min(xs[position], limit)
        limit = xs[position] - 12.0
    free_until = [sheet.right + 6.0] * _FAULT_ROWS
    marks: list[FaultMark] = []
    for fault, x in zip(reversed(faults), reversed(xs), strict=True):
        words = fitted(f"{fault.name} {fault.target}", style.SMALL_PT, 190.0, bool(fault.causes))
        width = text_width(words, style.SMALL_PT, bool(fault.causes)) + 14
        row = next((r for r, until in enumerate(free_until) if x + width < until), None)
        if row is None:
            row = next((r for r, until in enumerate(free_until) if x + 12 <= until), 0)
            words = fitted(words, style.SMALL_PT, free_until[row] - x - 14)
            words = words if len(words) > 8 else ""
        free_until[row] = x - 6
        for lower in range(row):
            free_until[lower] = min(free_until[lower], x - 2)
        marks.append(FaultMark(fault, x, row, words))
    return list(reversed(marks))
