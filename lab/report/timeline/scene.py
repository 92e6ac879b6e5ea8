"""Drawing what connects the lanes: messages, the store, fault marks, violation bands, breaks and the axis."""

from __future__ import annotations

from lab.report.timeline import style
from lab.report.timeline.labels import link_words, write_words
from lab.report.timeline.metrics import text_width
from lab.report.timeline.model import Band, StoreWrite
from lab.report.timeline.pen import Look
from lab.report.timeline.sheet import (
    BAR_PT,
    BAR_TOP_PT,
    FAULT_ROW_PT,
    MANY_MESSAGES,
    USE_PT,
    USE_TOP_PT,
    Sheet,
)
from lab.report.timeline.words import duration

_BOX_PT = 13.0
_MANY_WRITES = 24


def draw_messages(sheet: Sheet) -> None:
    """Arrows from clients up to the nodes that took their key, and crossed ones where a link was cut."""
    if sum(len(node.lives) for node in sheet.story.nodes) > MANY_MESSAGES:
        return
    for client in sheet.story.clients:
        start_y = sheet.client_y[client.name] + BAR_TOP_PT + 1.5
        tone = sheet.tone(client.name)
        for node in sheet.story.nodes:
            y = sheet.node_y[node.name]
            for life in node.lives:
                if life.owner == client.name and life.asked_ns is not None:
                    start = (sheet.axis.x(life.asked_ns) + 1.5, start_y)
                    end = (sheet.axis.x(life.span.start_ns) + 1.5, y + sheet.node_pt - 3)
                    sheet.pen.arrow(start, end, Look(edge=tone.text, line_pt=0.7, z=1.6), 4.5)
        for at_ns in sorted({missed.at_ns for missed in client.cut_tries}):
            nodes = [missed.node for missed in client.cut_tries if missed.at_ns == at_ns]
            _draw_cut_tries(sheet, sheet.axis.x(at_ns) + 7.5, start_y, nodes, tone.text)


def _draw_cut_tries(sheet: Sheet, x: float, start_y: float, nodes: list[str], color: str) -> None:
    """A request that never arrived: a dashed line with a cross at each node out of reach."""
    ys = [sheet.node_y[node] + sheet.node_pt / 2 for node in nodes if node in sheet.node_y]
    if not ys:
        return
    sheet.pen.line(((x, start_y), (x, min(ys))), Look(edge=color, line_pt=0.8, dash=(2, 2), z=1.6))
    for y in ys:
        sheet.occupied.take(x - 4, y - 4, 8, 8)
        sheet.pen.cross(x, y, 3.0, Look(edge=style.PAPER, line_pt=3.0, z=5.0))
        sheet.pen.cross(x, y, 3.0, Look(edge=color, line_pt=1.4, z=5.1))


def draw_store(sheet: Sheet) -> None:
    """The resource: accepted writes in version order, rejected ones at its door, offending ones in red."""
    writes = sheet.story.writes
    if not writes:
        return
    pen, line_y = sheet.pen, sheet.store_y + 14
    pen.text(sheet.left - 6, line_y, "store", style.LANE_PT, style.INK, bold=True, align="right")
    pen.line(((sheet.left, line_y), (sheet.right, line_y)), Look(edge=style.QUIET, line_pt=1.4, z=1.0))
    _draw_store_links(sheet, line_y)
    many = len(writes) > _MANY_WRITES
    for write in sorted(writes, key=lambda write: not write.guilty):
        x = sheet.axis.x(write.at_ns)
        _draw_request(sheet, write, x, line_y, many)
        if write.accepted:
            _draw_accepted(sheet, write, x, line_y, many)
        else:
            pen.cross(x, line_y - 4, 4, Look(edge=style.INK, line_pt=1.8, z=5.0))
            sheet.label(x, line_y + 13, write_words(write), bold=True, reach=70)


def _draw_accepted(sheet: Sheet, write: StoreWrite, x: float, line_y: float, many: bool) -> None:
    """A box with the version where there is room for it, else a stroke."""
    words = write_words(write)
    width = max(_BOX_PT, text_width(words, style.LABEL_PT, bold=True) + 5)
    at: float | None = None
    if write.guilty or not many:
        left, right = sheet.axis.bounds(x)
        reach = 40.0 if write.guilty else 8.0
        at = sheet.occupied.place_in_row(x, width + 2, line_y - 6.5, 13, left, right, reach)
    if at is None:
        stroke = Look(edge=sheet.tone(write.client).solid, line_pt=1.4, z=3.0)
        sheet.pen.line(((x, line_y - 4.5), (x, line_y + 4.5)), stroke)
        return
    middle = at + 1 + width / 2
    _draw_version(sheet, write, words, middle, width / 2, line_y)
    if abs(middle - x) > 3:
        sheet.pen.line(((x, line_y - 9), (middle, line_y - 6)), Look(edge=style.QUIET, line_pt=0.6, z=2.8))


def _draw_store_links(sheet: Sheet, line_y: float) -> None:
    """Stretches in which a client's way to the store was cut or held."""
    for link in sheet.story.store_links:
        x0, x1 = sheet.xs(link.span, 3)
        hatch = "////" if link.kind == "cut" else "...."
        look = Look(face=style.SHADE, edge="#b4b4b4", line_pt=0, hatch=hatch, z=0.9)
        sheet.pen.rect(x0, line_y - 9, x1, line_y + 9, look)
        words = link_words(link)
        sheet.label(x0, line_y, words, style.SMALL_PT, style.QUIET, reach=x1 - x0, within=(x0, x1))


def _draw_request(sheet: Sheet, write: StoreWrite, x: float, line_y: float, many: bool) -> None:
    """The message of a write from its client to the store."""
    if many and not write.guilty and write.accepted:
        return
    start_y = sheet.client_y.get(write.client)
    if start_y is None:
        return
    color = style.VIOLATION if write.guilty else sheet.tone(write.client).text
    look = Look(edge=color, line_pt=1.3 if write.guilty else 0.8, z=3.2 if write.guilty else 1.7)
    start = (sheet.axis.x(write.asked_ns) + 1.5, start_y + USE_TOP_PT + USE_PT)
    sheet.pen.arrow(start, (x, line_y - 7), look, 5.0)


def _draw_version(sheet: Sheet, write: StoreWrite, words: str, x: float, half: float, y: float) -> None:
    """The box of one accepted version, and under it who wrote it and what was wrong with that."""
    tone = sheet.tone(write.client)
    guilty = bool(write.guilty)
    look = Look(
        face=style.VIOLATION if guilty else tone.light,
        edge=style.VIOLATION if guilty else tone.text,
        line_pt=1.2,
        z=4.0,
    )
    sheet.pen.rect(x - half, y - 6.5, x + half, y + 6.5, look)
    ink = style.PAPER if guilty else tone.text
    sheet.pen.text(x, y, words, style.LABEL_PT, ink, bold=True, align="center")
    who = write.client if write.fence is None else f"{write.client}, fence {write.fence}"
    color = style.VIOLATION if guilty else tone.text
    sheet.label(x, y + 13, who, style.LABEL_PT, color, bold=guilty, reach=14)
    if guilty:
        sheet.label(x, y + 23, "✗ " + ", ".join(write.guilty), style.LABEL_PT, color, bold=True, reach=170)


def draw_bands(sheet: Sheet) -> None:
    """Red bands where two clients' windows overlap, with the length in words."""
    for band in sheet.story.bands:
        known = [name for name in band.clients if name in sheet.client_y]
        if not known:
            continue
        y0 = min(sheet.client_y[name] for name in known)
        y1 = max(sheet.client_y[name] + sheet.client_pt[name] for name in known)
        x0, x1 = sheet.xs(band.span, 2)
        serious = band.name != "belief-overlap"
        face = style.VIOLATION_TINT if serious else "#ececec"
        edge = style.VIOLATION if serious else style.QUIET
        sheet.pen.rect(x0, y0, x1, y1, Look(face=face, z=0.8))
        for x in (x0, x1):
            sheet.pen.line(((x, y0), (x, y1)), Look(edge=edge, line_pt=1.1, dash=(3, 2), z=4.5))
        _band_words(sheet, band, x0, x1, edge)


def _band_words(sheet: Sheet, band: Band, x0: float, x1: float, color: str) -> None:
    """The band's words between the two lanes, with brackets pointing at its ends."""
    upper = min(band.clients, key=lambda name: sheet.client_y.get(name, 0.0))
    y = sheet.band_y[upper]
    middle = (x0 + x1) / 2
    words, size = band.words, style.BAND_PT
    width = text_width(words, size, bold=True)
    if width > sheet.right - sheet.left:
        size = style.LABEL_PT
        width = text_width(words, size, bold=True)
    page = (sheet.left, sheet.right)
    at = sheet.label(middle, y, words, size, color, bold=True, reach=150.0, z=8.5, within=page)
    if at is None:
        return
    look = Look(edge=color, line_pt=1.2, z=4.6)
    left, right = at - width / 2 - 3, at + width / 2 + 3
    if left - x0 > 6:
        sheet.pen.arrow((left, y), (x0, y), look, 4.5)
    if x1 - right > 6:
        sheet.pen.arrow((right, y), (x1, y), look, 4.5)


def draw_faults(sheet: Sheet) -> None:
    """The numbered fault marks above the lanes, each with a line down to its instant."""
    if not sheet.marks:
        return
    pen = sheet.pen
    pen.text(sheet.left - 6, sheet.faults_y, "faults", style.SMALL_PT + 0.5, align="right")
    for mark in sheet.marks:
        x = sheet.axis.x(mark.fault.span.start_ns)
        y = sheet.faults_y - mark.row * FAULT_ROW_PT
        path = ((mark.x, y + 5), (mark.x, sheet.faults_y + 5), (x, sheet.faults_y + 10))
        pen.line(path, Look(edge=style.FAINT, line_pt=0.7, z=1.0))
        sheet.number(mark.x, y, mark.fault.number)
        pen.text(mark.x + 7, y, mark.words, style.SMALL_PT)


def draw_flags(sheet: Sheet) -> None:
    """Findings that belong to one instant of one lane and are not written there yet."""
    for flag in sheet.story.flags:
        y = sheet.client_y.get(flag.lane)
        if y is None:
            continue
        x = sheet.axis.x(flag.at_ns)
        sheet.pen.polygon(
            ((x, y + BAR_TOP_PT - 1), (x - 3.2, y + 5), (x + 3.2, y + 5)), Look(face=style.VIOLATION, z=5.0)
        )
        words = "✗ " + ", ".join(flag.names)
        row = y + 5.5
        if sheet.label_after(x + 5, row, words, style.LABEL_PT, style.VIOLATION, bold=True, reach=90) is None:
            sheet.label(x, y + BAR_TOP_PT + BAR_PT + 13, words, color=style.VIOLATION, bold=True, reach=170)


def draw_axis(sheet: Sheet, top: float, bottom: float) -> float:
    """Ticks, their faint lines, and the breaks through all lanes; returns the bottom of the axis."""
    pen = sheet.pen
    for panel in sheet.axis.panels:
        pen.line(((panel.x0, bottom + 2), (panel.x1, bottom + 2)), Look(edge=style.INK, line_pt=0.8, z=3.0))
    for x, label in sheet.axis.ticks():
        pen.line(((x, top), (x, bottom + 2)), Look(edge="#e4e4e4", line_pt=0.5, z=0.7))
        pen.line(((x, bottom + 2), (x, bottom + 5)), Look(edge=style.INK, line_pt=0.8, z=3.0))
        sheet.label(x, bottom + 10.5, label, style.SMALL_PT + 0.3, reach=24, backed=False)
    for gap in sheet.axis.breaks():
        _draw_break(sheet, gap.x0, gap.x1, top, bottom + 5)
        words = f"{_rounded(gap.skipped_ns)} left out"
        middle, page = (gap.x0 + gap.x1) / 2, (sheet.left, sheet.right)
        sheet.label(middle, bottom + 20, words, 6.3, style.QUIET, reach=50, within=page)
    unit = f"time ({sheet.axis.unit()})"
    pen.text(sheet.left - 6, bottom + 10.5, unit, style.SMALL_PT, style.QUIET, align="right")
    return bottom + (27 if sheet.axis.breaks() else 20)


def _rounded(skipped_ns: float) -> str:
    """A skipped time; it needs two digits, not five."""
    seconds = skipped_ns / 1e9
    if seconds >= 1:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return duration(round(skipped_ns))


def _draw_break(sheet: Sheet, x0: float, x1: float, top: float, bottom: float) -> None:
    """A torn strip: whatever runs through it goes on, unseen, for the time left out."""
    step, depth = 5.0, 2.2
    count = max(2, int((bottom - top) / step))
    ys = [top + (bottom - top) * i / count for i in range(count + 1)]
    mid0, mid1 = x0 + 3.5, x1 - 3.5
    left = [(mid0 + (depth if i % 2 else -depth), y) for i, y in enumerate(ys)]
    right = [(mid1 + (depth if i % 2 else -depth), y) for i, y in enumerate(ys)]
    sheet.pen.polygon([*left, *reversed(right)], Look(face=style.PAPER, z=6.0))
    for edge in (left, right):
        sheet.pen.line(edge, Look(edge=style.FAINT, line_pt=0.7, z=6.1))
