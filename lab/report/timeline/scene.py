"""Drawing across lanes: messages, the store, fault marks, violation bands, breaks and the axis."""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.timeline import style
from lab.report.timeline.labels import announcement_words, link_words, reply_words, write_words
from lab.report.timeline.metrics import side_by_side, text_width
from lab.report.timeline.model import Announcement, Band, StoreWrite
from lab.report.timeline.pen import Look
from lab.report.timeline.sheet import (
    BAR_PT,
    BAR_TOP_PT,
    FAULT_ROW_PT,
    MANY_MESSAGES,
    ROW_PT,
    USE_PT,
    USE_TOP_PT,
    Sheet,
)
from lab.report.timeline.words import duration

_BOX_PT = 13.0
_WORDS_PT = 13.0
_BOUNDS_PT = 6.0
_MANY_WRITES = 24


def draw_messages(sheet: Sheet) -> None:
    """Arrows from clients up to the nodes that set their key, and crossed ones to nodes behind a cut link."""
    if sum(len(node.lives) for node in sheet.timeline.nodes) > MANY_MESSAGES:
        return
    for client in sheet.timeline.clients:
        start_y = sheet.client_y[client.name] + BAR_TOP_PT + 1.5
        tone = sheet.tone(client.name)
        for node in sheet.timeline.nodes:
            y = sheet.node_y[node.name]
            for life in node.lives:
                if life.owner == client.name and life.asked_ns is not None:
                    start = (sheet.axis.x(life.asked_ns) + 1.5, start_y)
                    end = (sheet.axis.x(life.span.start_ns) + 1.5, y + sheet.node_pt - 3)
                    sheet.pen.arrow(start, end, Look(edge=tone.text, line_pt=0.7, z=1.6), 4.5)
        for at_ns in sorted({missed.at_ns for missed in client.cut_tries}):
            nodes = [missed.node for missed in client.cut_tries if missed.at_ns == at_ns]
            _draw_cut_tries(sheet, sheet.axis.x(at_ns) + 7.5, start_y, nodes, tone.text)
        _draw_replies(sheet, client.name)


def _draw_replies(sheet: Sheet, client: str) -> None:
    """Replies that were held back: dashed from each node to the client, which reads them at the end."""
    found = [
        (node, reply) for node in sheet.timeline.nodes for reply in node.replies if reply.client == client
    ]
    if not found:
        return
    top, color = sheet.client_y[client], sheet.tone(client).text
    for node, reply in found:
        start = (sheet.axis.x(reply.sent_ns) + 6, sheet.node_y[node.name] + sheet.node_pt - 3)
        end = (sheet.axis.x(reply.end_ns), top + BAR_TOP_PT + 1.5)
        sheet.pen.line((start, end), Look(edge=color, line_pt=1.0, dash=(3, 2), z=4.6))
        near = (end[0] - (end[0] - start[0]) * 0.02, end[1] - (end[1] - start[1]) * 0.02)
        sheet.pen.arrow(near, end, Look(edge=color, line_pt=1.0, z=4.7), 5.0)
    words = reply_words([reply for _, reply in found])
    middle = sum(sheet.axis.x(at) for at in (found[0][1].sent_ns, found[0][1].end_ns)) / 2
    sheet.label(middle, top - 6, words, color=color, bold=True, reach=200)


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
    """The resource: accepted writes in version order, rejected ones, violating ones in red."""
    writes = sheet.timeline.writes
    if not writes and not sheet.timeline.announcements:
        return
    pen, line_y = sheet.pen, sheet.store_y + 14
    pen.text(sheet.left - 6, line_y, "store", style.LANE_PT, style.INK, bold=True, align="right")
    pen.line(((sheet.left, line_y), (sheet.right, line_y)), Look(edge=style.QUIET, line_pt=1.4, z=1.0))
    many = len(writes) + len(sheet.timeline.announcements) > _MANY_WRITES
    boxes = _boxes(sheet, many)
    _draw_store_links(sheet, line_y)
    for write in writes:
        if write.between is not None:
            _draw_bounds(sheet, write, line_y)
    for write in sorted(writes, key=lambda write: not write.guilty):
        x = sheet.axis.x(write.at_ns)
        _draw_request(sheet, write, boxes.get(id(write), x), line_y, many)
        if write.accepted:
            _draw_accepted(sheet, write, x, boxes.get(id(write)), line_y)
        else:
            middle = boxes.get(id(write), x)
            pen.cross(middle, line_y, 4, Look(edge=style.PAPER, line_pt=4.0, z=4.9))
            pen.cross(middle, line_y, 4, Look(edge=style.INK, line_pt=1.8, z=5.0))
            tone = sheet.tone(write.client).text
            _below(sheet, middle, line_y, (f"{write.client}: {write_words(write)}",), tone, bold=True)
    for announced in sheet.timeline.announcements:
        _draw_announcement(sheet, announced, boxes.get(id(announced)), line_y, many)


def _boxes(sheet: Sheet, many: bool) -> dict[int, float]:
    """The middles of the marks on the store's lane, in their order in time and side by side, by identity.

    Marks that would cover each other are moved apart; if there is no room for all, only violations are boxes,
    and the rest are strokes.
    """
    timeline = sheet.timeline
    marks: list[tuple[int, int, StoreWrite | Announcement]] = []
    marks += [(write.at_ns, write.version or 0, write) for write in timeline.writes]
    marks += [(one.at_ns, 0, one) for one in timeline.announcements]
    wanted = [one for _, _, one in sorted(marks, key=lambda mark: mark[:2])]
    if many:
        wanted = [one for one in wanted if isinstance(one, StoreWrite) and one.guilty]
    panels: dict[tuple[float, float], list[StoreWrite | Announcement]] = {}
    for one in wanted:
        panels.setdefault(sheet.axis.bounds(sheet.axis.x(one.at_ns)), []).append(one)
    found: dict[int, float] = {}
    for (left, right), ones in panels.items():
        if sum(map(_width, ones)) > right - left:
            ones = [one for one in ones if isinstance(one, StoreWrite) and one.guilty]
        middles = side_by_side([(sheet.axis.x(one.at_ns), _width(one)) for one in ones], left, right)
        for one, middle in zip(ones, middles, strict=True):
            found[id(one)] = middle
            sheet.occupied.take(middle - _width(one) / 2, sheet.store_y + 7.5, _width(one), 13)
    return found


def _width(one: StoreWrite | Announcement) -> float:
    if isinstance(one, Announcement) or not one.accepted:
        return 11.0
    return max(_BOX_PT, text_width(write_words(one), style.LABEL_PT, bold=True) + 5) + 2


def _draw_bounds(sheet: Sheet, write: StoreWrite, line_y: float) -> None:
    """The bounds of a write whose time was not recorded."""
    if write.between is None or write.between.end_ns is None:
        return
    x0, x1 = sheet.axis.x(write.between.start_ns), sheet.axis.x(write.between.end_ns)
    if x1 - x0 > _BOUNDS_PT:
        color = style.VIOLATION if write.guilty else sheet.tone(write.client).solid
        sheet.pen.rect(x0, line_y - 2, x1, line_y + 2, Look(face=color, z=1.2))


def _draw_announcement(
    sheet: Sheet, announced: Announcement, middle: float | None, line_y: float, many: bool
) -> None:
    """A diamond: from here on the store accepts only writes with this token."""
    x, tone = sheet.axis.x(announced.at_ns), sheet.tone(announced.client)
    if middle is None:
        middle = x
    shape = [(middle, line_y - 5), (middle + 5, line_y), (middle, line_y + 5), (middle - 5, line_y)]
    sheet.pen.polygon(shape, Look(face=tone.solid, edge=tone.text, line_pt=0.8, z=4.5))
    start_y = sheet.client_y.get(announced.client or "")
    if many or start_y is None:
        return
    start = (x, start_y + BAR_TOP_PT + BAR_PT)
    sheet.pen.arrow(start, (middle, line_y - 6), Look(edge=tone.text, line_pt=0.8, z=1.7), 5.0)
    _below(sheet, middle, line_y, (announcement_words(announced), f"{announced.client} announces"), tone.text)


def _draw_accepted(sheet: Sheet, write: StoreWrite, x: float, middle: float | None, line_y: float) -> None:
    """A box with the version where there is room for it, else a stroke."""
    if middle is None:
        stroke = Look(edge=sheet.tone(write.client).solid, line_pt=1.4, z=3.0)
        sheet.pen.line(((x, line_y - 4.5), (x, line_y + 4.5)), stroke)
        return
    _draw_version(sheet, write, write_words(write), middle, _width(write) / 2 - 1, line_y)
    if abs(middle - x) > 3:  # the stroke is at its time, the box stands beside it
        sheet.pen.line(
            ((x, line_y - 9), (x, line_y + 9)), Look(edge=sheet.tone(write.client).text, line_pt=0.8, z=2.8)
        )


def _below(
    sheet: Sheet, x: float, line_y: float, choices: Sequence[str], color: str, *, bold: bool = False
) -> None:
    """Text under a mark of the store's lane: the longest that fits, in the first row with room."""
    for reach in (4.0, 14.0, 60.0):
        for words in choices:
            for row in (0, 1):
                y = line_y + _WORDS_PT + row * ROW_PT
                anchor = (x - 5, x + 5, line_y + 6.5)
                at = sheet.label(
                    x, y, words, style.LABEL_PT, color, bold=bold, reach=reach, leader_from=anchor
                )
                if at is not None:
                    return
    page = (sheet.left, sheet.right)  # the last row may cross the breaks of the axis
    y = line_y + _WORDS_PT + 2 * ROW_PT
    sheet.label(x, y, choices[0], style.LABEL_PT, color, bold=bold, reach=90, within=page)


def _draw_store_links(sheet: Sheet, line_y: float) -> None:
    """Stretches in which a client's link to the store was cut or held."""
    for link in sheet.timeline.store_links:
        x0, x1 = sheet.xs(link.span, 3)
        hatch = "////" if link.lossy else "...."
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
    look = Look(edge=color, line_pt=0.9 if write.guilty else 0.8, z=3.2 if write.guilty else 1.7)
    start = (sheet.axis.x(write.asked_ns) + 1.5, start_y + USE_TOP_PT + USE_PT)
    sheet.pen.arrow(start, (x, line_y - 7), look, 5.0)


def _draw_version(sheet: Sheet, write: StoreWrite, words: str, x: float, half: float, y: float) -> None:
    """The box of one accepted version, and under it its client and its findings."""
    tone = sheet.tone(write.client)
    guilty = bool(write.guilty)
    look = Look(
        face=style.VIOLATION_TINT if guilty else tone.light,
        edge=style.VIOLATION if guilty else tone.text,
        line_pt=1.2,
        z=4.0,
    )
    sheet.pen.rect(x - half, y - 6.5, x + half, y + 6.5, look)
    ink = style.VIOLATION if guilty else tone.text
    sheet.pen.text(x, y, words, style.LABEL_PT, ink, bold=True, align="center")
    writer = write.client if write.fence is None else f"{write.client}, fence {write.fence}"
    color = style.VIOLATION if guilty else tone.text
    _below(sheet, x, y, (writer,), color, bold=guilty)
    if guilty:
        row = y + _WORDS_PT + 2 * ROW_PT
        words = sheet.timeline.consequences(write.guilty)
        page = (sheet.left, sheet.right)
        sheet.label(x, row, words, style.LABEL_PT, color, bold=True, reach=170, within=page)


def draw_bands(sheet: Sheet) -> None:
    """Red bands where two clients' windows overlap, with the length as text."""
    for band in sheet.timeline.bands:
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
    """The band's text between the two lanes, with arrows to its ends."""
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
    """The numbered fault marks above the lanes, each with a line down to its time."""
    if not sheet.marks:
        return
    pen = sheet.pen
    pen.text(sheet.left - 6, sheet.faults_y, "faults", style.SMALL_PT + 0.5, align="right")
    for mark in sheet.marks:
        x = sheet.axis.x(mark.fault.span.start_ns)
        y = sheet.faults_y - mark.row * FAULT_ROW_PT
        path = ((mark.x, y + 5), (mark.x, sheet.faults_y + 5), (x, sheet.faults_y + 10))
        pen.line(path, Look(edge=style.FAINT, line_pt=0.7, z=1.0))
        sheet.number(mark.x, y, mark.fault)
        ink, bold = sheet.ink(mark.fault.number), bool(mark.fault.causes)
        pen.text(mark.x + 7, y, mark.words, style.SMALL_PT, ink, bold=bold)


def draw_flags(sheet: Sheet) -> None:
    """Findings at one time of one lane."""
    for flag in sheet.timeline.flags:
        y = sheet.client_y.get(flag.lane)
        if y is None:
            continue
        x = sheet.axis.x(flag.at_ns)
        sheet.pen.polygon(
            ((x, y + BAR_TOP_PT - 1), (x - 3.2, y + 5), (x + 3.2, y + 5)), Look(face=style.VIOLATION, z=5.0)
        )
        words = sheet.timeline.consequences(flag.names)
        row = y + 5.5
        if sheet.label_after(x + 5, row, words, style.LABEL_PT, style.VIOLATION, reach=90) is None:
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
    """A skipped time, with two digits."""
    seconds = skipped_ns / 1e9
    if seconds >= 1:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return duration(round(skipped_ns))


def _draw_break(sheet: Sheet, x0: float, x1: float, top: float, bottom: float) -> None:
    """A torn strip: marks that reach into it last during the time left out."""
    step, depth = 5.0, 2.2
    count = max(2, int((bottom - top) / step))
    ys = [top + (bottom - top) * i / count for i in range(count + 1)]
    mid0, mid1 = x0 + 3.5, x1 - 3.5
    left = [(mid0 + (depth if i % 2 else -depth), y) for i, y in enumerate(ys)]
    right = [(mid1 + (depth if i % 2 else -depth), y) for i, y in enumerate(ys)]
    sheet.pen.polygon([*left, *reversed(right)], Look(face=style.PAPER, z=6.0))
    for edge in (left, right):
        sheet.pen.line(edge, Look(edge=style.FAINT, line_pt=0.7, z=6.1))
