"""Drawing the lanes: nodes above, clients in the middle, the store below, as in a sequence figure."""

from __future__ import annotations

from lab.report.timeline import style
from lab.report.timeline.labels import (
    attempt_words,
    down_words,
    jump_size,
    jump_words,
    life_words,
    link_words,
    pause_words,
    use_words,
)
from lab.report.timeline.metrics import fitted, text_width
from lab.report.timeline.model import (
    Attempt,
    ClientLane,
    Down,
    Jump,
    KeyLife,
    NodeLane,
    Pause,
    Promotion,
    Span,
    Use,
)
from lab.report.timeline.pen import Look
from lab.report.timeline.sheet import (
    BAR_PT,
    BAR_TOP_PT,
    CLIENT_PT,
    DENSE_OPS,
    SECOND_ROW_PT,
    USE_PT,
    USE_TOP_PT,
    Sheet,
)
from lab.report.timeline.words import circled


def draw_node(sheet: Sheet, node: NodeLane) -> None:
    """One node: the keys that it held, clock steps, outages, pauses, promotions, cut links."""
    y = sheet.node_y[node.name]
    bottom = y + sheet.node_pt
    middle = (y + bottom) / 2
    pen = sheet.pen
    pen.text(sheet.left - 6, middle, f"node {node.name}", style.SMALL_PT + 0.5, align="right")
    pen.line(((sheet.left, middle), (sheet.right, middle)), Look(edge=style.RULE, line_pt=0.8, z=1.0))
    for link in node.links:
        x0, x1 = sheet.xs(link.span, 3)
        hatch = "////" if link.lossy else "...."
        edge = sheet.ink(link.fault, "#c4c4c4")
        pen.rect(x0, y + 1, x1, bottom - 1, Look(face=style.SHADE, edge=edge, line_pt=0, hatch=hatch, z=1.1))
    for down in node.downs:
        _draw_down(sheet, down, y + 1, bottom - 1)
    for jump in node.jumps:
        _draw_jump(sheet, jump, node, y)
    for promotion in node.promotions:
        _draw_promotion(sheet, promotion, y)
    for pause in node.pauses:
        _draw_pause(sheet, pause, y + 1.5, bottom - 1.5, middle)
    for life in node.lives:
        _draw_life(sheet, life, y)
    for loss in node.losses:
        x = sheet.axis.x(loss.at_ns)
        pen.cross(x, middle, 4.2, Look(edge=style.PAPER, line_pt=4.0, z=5.2))
        pen.cross(x, middle, 4.2, Look(edge=style.VIOLATION, line_pt=2.0, z=5.3))
        half = text_width(loss.words, style.SMALL_PT, bold=True) / 2 + 7
        panel = sheet.axis.bounds(x)
        side = x + half if x + 2 * half <= panel[1] else x - half
        sheet.label(
            side, middle, loss.words, style.SMALL_PT, style.VIOLATION, bold=True, reach=2 * half, within=panel
        )
    for link in node.links:
        x0, x1 = sheet.xs(link.span, 3)
        words = link_words(link)
        color = sheet.ink(link.fault, style.QUIET)
        sheet.label(x0, middle, words, style.SMALL_PT, color, reach=x1 - x0, within=(x0, x1))


def _draw_down(sheet: Sheet, down: Down, top: float, bottom: float) -> None:
    """A stretch in which a node was down, and by what: inside, or beside it if it is short."""
    x0, x1 = sheet.xs(down.span, 3)
    face, color = sheet.ink(down.fault, "#6b6b6b"), sheet.ink(down.fault)
    sheet.pen.rect(x0, top, x1, bottom, Look(face=face, edge=style.PAPER, line_pt=0, hatch="xxxx", z=1.5))
    words, middle = down_words(down), (top + bottom) / 2
    half = text_width(words, style.SMALL_PT, bold=True) / 2 + 2
    wish = (x0 + x1) / 2 if 2 * half < x1 - x0 else x1 + half
    if sheet.label(wish, middle, words, style.SMALL_PT, color, bold=True) is None:
        sheet.label((x0 + x1) / 2, middle, down.words, style.SMALL_PT, color, bold=True, reach=90)


def _draw_jump(sheet: Sheet, jump: Jump, node: NodeLane, y: float) -> None:
    """A stroke of lightning with the size of the clock's step, where it covers no key."""
    x = sheet.axis.x(jump.at_ns)
    color = sheet.ink(jump.fault)
    _bolt(sheet, x, y, y + sheet.node_pt, color)
    sheet.occupied.take(x - 2, y, 4, sheet.node_pt)
    size = jump_size(jump)
    lives = [sheet.xs(life.span) for life in node.lives]
    right = min([x0 for x0, _ in lives if x0 > x] + [sheet.right])
    left = max([x1 for _, x1 in lives if x1 < x - 1] + [sheet.left])
    inside = any(x0 < x - 4 and x1 >= x - 1 for x0, x1 in lives)
    for words in (jump_words(jump), f"clock {size}", size):
        width = text_width(words, style.SMALL_PT, bold=True) + 3
        for start, end in ((x + 4, right), (left, x - 4)):
            if end - start < width or (start == left and inside):
                continue
            wish = start + width / 2 if start > x else end - width / 2
            middle = y + sheet.node_pt / 2
            if sheet.label(wish, middle, words, style.SMALL_PT, color, bold=True, reach=3) is not None:
                return
    if sheet.timeline.is_cause(jump.fault):  # never left out, be it over a key
        sheet.label(x, y + sheet.node_pt / 2, size, style.SMALL_PT, color, bold=True, reach=90)


def _draw_life(sheet: Sheet, life: KeyLife, y: float) -> None:
    """The stretch in which a key was on a node, and the rest of its TTL if it was gone earlier."""
    pen, tone = sheet.pen, sheet.tone(life.owner)
    x0, x1 = sheet.xs(life.span, 2)
    top, bottom = y + 3, y + sheet.node_pt - 3
    if life.promised_ns is not None and life.span.end_ns is not None and life.promised_ns > life.span.end_ns:
        ghost = Span(life.span.end_ns, life.promised_ns)
        g0, g1 = sheet.xs(ghost)
        pen.rect(g0, top + 1.5, g1, bottom - 1.5, Look(edge=tone.solid, line_pt=0.6, dash=(2, 2), z=1.8))
    pen.rect(x0, top, x1, bottom, Look(face=tone.solid, edge=tone.text, line_pt=0.5, z=2.2))
    words = fitted(life_words(life), style.SMALL_PT, x1 - x0 - 4)
    if words.endswith("key"):
        width = text_width(words, style.SMALL_PT)
        x = x0 + 3 + width / 2
        if sheet.occupied.free(x0 + 3, top, width, bottom - top):
            pen.text(x, (top + bottom) / 2, words, style.SMALL_PT, tone.on_solid, align="center")
            sheet.occupied.take(x0, top, width + 6, bottom - top)


def _draw_promotion(sheet: Sheet, promotion: Promotion, y: float) -> None:
    """A triangle that points up: from here on the replica is a master, or a key is gone."""
    x, middle = sheet.axis.x(promotion.at_ns), y + sheet.node_pt / 2
    sheet.pen.polygon(
        [(x - 4, middle + 4), (x, middle - 4.5), (x + 4, middle + 4)],
        Look(face=sheet.ink(promotion.fault), edge=style.PAPER, line_pt=0.5, z=5.0),
    )
    color = sheet.ink(promotion.fault)
    sheet.occupied.take(x - 4, y, 8, sheet.node_pt)
    words = f"{circled(promotion.fault)} {promotion.words}"
    wish = x + 7 + text_width(words, style.SMALL_PT, bold=True) / 2
    if sheet.label(wish, middle, words, style.SMALL_PT, color, bold=True, reach=3) is None:
        far, from_ = 2 * x - wish, (x, x, middle)
        sheet.label(far, middle, words, style.SMALL_PT, color, bold=True, reach=60, leader_from=from_)


def _bolt(sheet: Sheet, x: float, y: float, bottom: float, color: str) -> None:
    """A lightning stroke across a lane."""
    height = bottom - y
    shape = ((1.6, 0.0), (-2.6, 0.55), (-0.2, 0.55), (-1.6, 1.0), (2.6, 0.42), (0.3, 0.42))
    points = [(x + dx, y + dy * height) for dx, dy in shape]
    sheet.pen.polygon(points, Look(face=color, edge=style.PAPER, line_pt=0.5, z=5.0))


def draw_client(sheet: Sheet, client: ClientLane) -> None:
    """One client: its attempts, its belief and guaranteed windows, its use of the resource."""
    y = sheet.client_y[client.name]
    tone, pen = sheet.tone(client.name), sheet.pen
    middle = y + BAR_TOP_PT + BAR_PT / 2
    name = fitted(client.name, style.LANE_PT, sheet.left - 12, bold=True)
    pen.text(sheet.left - 6, middle, name, style.LANE_PT, tone.text, bold=True, align="right")
    pen.text(sheet.left - 6, middle + 10, "client", style.SMALL_PT, style.QUIET, align="right")
    pen.rect(sheet.left, y, sheet.right, y + sheet.client_pt[client.name], Look(face=style.SHADE, z=0.5))
    pen.line(((sheet.left, middle), (sheet.right, middle)), Look(edge=style.FAINT, line_pt=0.8, z=1.0))
    for grant in client.grants:
        for span in grant.belief:
            x0, x1 = sheet.xs(span, 2)
            look = Look(face=tone.light, edge=tone.solid, line_pt=0.8, z=2.0)
            pen.rect(x0, y + BAR_TOP_PT, x1, y + BAR_TOP_PT + BAR_PT, look)
        for span in grant.guaranteed:
            x0, x1 = sheet.xs(span, 1.5)
            pen.rect(
                x0, y + BAR_TOP_PT + 2.5, x1, y + BAR_TOP_PT + BAR_PT - 2.5, Look(face=tone.solid, z=2.5)
            )
        for claim in grant.claimed_ns:
            x = sheet.axis.x(claim)
            stroke = Look(edge=style.INK, line_pt=1.4, z=4.0)
            pen.line(((x, y + BAR_TOP_PT - 2), (x, y + BAR_TOP_PT + BAR_PT + 2)), stroke)
            sheet.occupied.take(x - 1.5, y + BAR_TOP_PT, 3, BAR_PT)
    for pause in client.pauses:
        _draw_pause(sheet, pause, y + BAR_TOP_PT - 1.5, y + BAR_TOP_PT + BAR_PT + 1.5, y + 5.5)
    dense = len(client.uses) + len(client.attempts) > DENSE_OPS
    for attempt in client.attempts:
        _draw_attempt(sheet, attempt, client, y, dense)
    for use in client.uses:
        _draw_use(sheet, use, client, y, dense)
    for jump in client.jumps:
        x = sheet.axis.x(jump.at_ns)
        color, from_ = sheet.ink(jump.fault), (x, x, y + BAR_TOP_PT)
        _bolt(sheet, x, y + BAR_TOP_PT, y + BAR_TOP_PT + BAR_PT, color)
        words = jump_words(jump)
        sheet.label(x, y + 5.5, words, style.SMALL_PT, color, bold=True, reach=60, leader_from=from_)
    if client.crashed_ns is not None:
        x = sheet.axis.x(client.crashed_ns)
        pen.cross(x, middle, 5, Look(edge=style.INK, line_pt=2.0, z=5.0))
        sheet.label_after(x + 8, middle, "crashed", style.LABEL_PT, style.INK)


def draw_bar_words(sheet: Sheet, client: ClientLane) -> None:
    """Write the meaning of the bars inside them if there is room (after all that must not be covered)."""
    y = sheet.client_y[client.name] + BAR_TOP_PT
    tone = sheet.tone(client.name)
    for grant in client.grants:
        for span in grant.guaranteed:
            x0, x1 = sheet.xs(span)
            _words_inside(sheet, x0, x1, y, ("holds the lock", "holds"), tone.on_solid)
        last = max((s.clipped(sheet.timeline.last_ns)[1] for s in grant.guaranteed), default=None)
        for span in grant.belief:
            start = span.start_ns if last is None else max(span.start_ns, last)
            x0, x1 = sheet.xs(Span(start, span.end_ns))
            still = ("still believes it holds", "still believes", "believes")
            choices = still if grant.guaranteed else ("believes it holds", "believes")
            _words_inside(sheet, x0, x1, y, choices, tone.text)


def _words_inside(sheet: Sheet, x0: float, x1: float, y: float, choices: tuple[str, ...], color: str) -> None:
    """Write the longest of some wordings that fits between x0 and x1 without touching anything."""
    for words in choices:
        width = text_width(words, style.LABEL_PT)
        x = x0 + 4
        while x + width + 3 <= x1:
            crosses_break = any(x < gap.x1 and x + width > gap.x0 for gap in sheet.axis.breaks())
            if not crosses_break and sheet.occupied.free(x, y, width, BAR_PT):
                sheet.pen.text(x, y + BAR_PT / 2, words, style.LABEL_PT, color)
                sheet.occupied.take(x, y, width, BAR_PT)
                return
            x += 6


def _draw_pause(sheet: Sheet, pause: Pause, top: float, bottom: float, label_y: float) -> None:
    """A hatched stretch between two heights; its text is inside, or at ``label_y`` if it is too short."""
    x0, x1 = sheet.xs(pause.span, 2)
    injected = pause.kind == "pause"
    face, hatch = ("#ffffff70", "\\\\\\\\") if injected else (None, "\\\\")
    edge, color = sheet.ink(pause.fault, "#4a4a4a"), sheet.ink(pause.fault)
    sheet.pen.rect(x0, top, x1, bottom, Look(face=face, edge=edge, line_pt=0.6, hatch=hatch, z=3.0))
    words = pause_words(pause)
    if text_width(words, style.LABEL_PT, injected) + 6 < x1 - x0:
        sheet.label((x0 + x1) / 2, (top + bottom) / 2, words, color=color, bold=injected, reach=(x1 - x0) / 2)
        sheet.occupied.take(x0, top + 1.5, x1 - x0, bottom - top - 3)
    else:
        sheet.label((x0 + x1) / 2, label_y, words, color=color, bold=injected, reach=60)


def _draw_attempt(sheet: Sheet, attempt: Attempt, client: ClientLane, y: float, dense: bool) -> None:
    """Acquire, extend or release, from call to return, on the client's bar."""
    pen, tone = sheet.pen, sheet.tone(client.name)
    top, bottom = y + BAR_TOP_PT + 1.5, y + BAR_TOP_PT + BAR_PT - 1.5
    x0, x1 = sheet.xs(attempt.span, 3.5)
    edge = style.VIOLATION if attempt.guilty else tone.text
    dash = (2, 1.4) if attempt.outcome == "info" else None
    pen.rect(x0, top, x1, bottom, Look(face=style.PAPER, edge=edge, line_pt=1.1, dash=dash, z=3.5))
    if attempt.outcome == "fail":
        end = x1 - min((x1 - x0) / 2, 6.0)
        pen.cross(end, (top + bottom) / 2, 2.6, Look(edge=edge, line_pt=1.2, z=3.6))
    if attempt.kind == "release" and attempt.outcome == "ok":
        pen.rect(x0, top, x1, bottom, Look(face=tone.text, edge=edge, line_pt=1.1, z=3.6))
    if dense and not attempt.guilty:
        return
    words = attempt_words(attempt)
    color = style.VIOLATION if attempt.guilty else tone.text
    half = text_width(words, style.LABEL_PT) / 2
    wish = x0 + half if attempt.kind == "acquire" else (x0 + x1) / 2
    if attempt.outcome == "fail" and x1 - half > wish:
        wish = x1 - half  # the refusal came at the end
    anchor = (x0, x1, top)
    reach = 170.0 if attempt.guilty else 26.0 if attempt.kind == "acquire" else 14.0
    sheet.label(wish, y + 5.5, words, color=color, bold=bool(attempt.guilty), reach=reach, leader_from=anchor)


def _draw_use(sheet: Sheet, use: Use, client: ClientLane, y: float, dense: bool) -> None:
    """A read or write of the resource, below the bar."""
    pen, tone = sheet.pen, sheet.tone(client.name)
    top, bottom = y + USE_TOP_PT, y + USE_TOP_PT + USE_PT
    x0, x1 = sheet.xs(use.span, 3.0)
    guilty = bool(use.guilty)
    edge = style.VIOLATION if guilty else tone.text
    solid = use.kind == "write" and use.outcome == "ok"
    face = style.PAPER if not solid else style.VIOLATION_TINT if guilty else edge
    dash = (2, 1.4) if use.outcome == "info" else None
    pen.rect(x0, top, x1, bottom, Look(face=face, edge=edge, line_pt=1.0, dash=dash, z=3.5))
    if use.outcome == "fail":
        pen.cross((x0 + x1) / 2, (top + bottom) / 2, 2.6, Look(edge=style.INK, line_pt=1.2, z=3.7))
    if dense and not guilty:
        return
    words = use_words(use)
    color = style.VIOLATION if guilty else style.UNKNOWN if use.warned else tone.text
    far = 60.0 if guilty else 30.0
    middle, tall = (x0 + x1) / 2, sheet.client_pt[client.name] > CLIENT_PT
    for row, reach in ((0, 9.0), (1, 15.0), (0, far), (1, far)) if tall else ((0, far),):
        label_y = bottom + 6 + row * SECOND_ROW_PT
        anchor = (x0, x1, bottom)
        if sheet.label(middle, label_y, words, color=color, bold=guilty, reach=reach, leader_from=anchor):
            return
