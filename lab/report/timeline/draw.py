"""Drawing the whole picture of a `Timeline`."""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.timeline import captions, lanes, scene, style
from lab.report.timeline.axis import build_axis
from lab.report.timeline.metrics import text_width
from lab.report.timeline.model import Timeline
from lab.report.timeline.pen import Pen
from lab.report.timeline.sheet import ROW_PT, Sheet, lay_out

_GUTTER_MOST_PT = 84.0


def picture(timeline: Timeline, formats: Sequence[str] = ("svg", "png")) -> dict[str, bytes]:
    """Draw a timeline.

    Args:
        timeline: the content.
        formats: file formats of matplotlib; "svg" keeps texts as text.

    Returns:
        file contents by format; the same timeline gives the same bytes.
    """
    pen = Pen(style.WIDTH_PT)
    top = captions.draw_header(pen, timeline)
    names = [client.name for client in timeline.clients]
    widths = [text_width(name, style.LANE_PT, bold=True) for name in names]
    widths += [text_width(f"node {node.name}", style.SMALL_PT + 0.5) for node in timeline.nodes]
    gutter = min(max([40.0, *widths]) + 12, _GUTTER_MOST_PT)
    forced = [(gap.start_ns, gap.end_ns or gap.start_ns) for gap in timeline.gaps]
    axis = build_axis(
        timeline.moments, timeline.window_ends, gutter, style.WIDTH_PT - captions.MARGIN_PT, forced
    )
    tones = {name: style.tone(position) for position, name in enumerate(sorted(names))}
    sheet = Sheet(timeline=timeline, pen=pen, axis=axis, tones=tones)
    bottom = lay_out(sheet, top)
    _draw_all(sheet, top, bottom)
    lanes_top = min([*sheet.node_y.values(), *sheet.client_y.values(), sheet.store_y])
    y = scene.draw_axis(sheet, lanes_top, bottom)
    height = captions.draw_footer(sheet, y)
    return pen.render(height, formats, style.PNG_DPI, timeline.title)


def _draw_all(sheet: Sheet, top: float, bottom: float) -> None:
    """All lanes, in the order in which labels get their places: findings first."""
    timeline = sheet.timeline
    scene.draw_bands(sheet)
    for gap in sheet.axis.breaks():
        # The last row names the findings of a write; it may cross a break, as panels are often narrow.
        sheet.occupied.take(gap.x0, top, gap.x1 - gap.x0, bottom - top - ROW_PT - 2)
    scene.draw_messages(sheet)
    scene.draw_store(sheet)
    scene.draw_flags(sheet)
    for node in timeline.nodes:
        lanes.draw_node(sheet, node)
    for client in timeline.clients:
        lanes.draw_client(sheet, client)
    for client in timeline.clients:
        lanes.draw_bar_words(sheet, client)
    scene.draw_faults(sheet)
