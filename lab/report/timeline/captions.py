"""Drawing the texts around the lanes: title, verdict, key, faults with receipts, findings, notes."""

from __future__ import annotations

from lab.report.timeline import style
from lab.report.timeline.metrics import text_width, wrapped
from lab.report.timeline.model import Timeline
from lab.report.timeline.pen import Pen
from lab.report.timeline.sheet import Sheet
from lab.report.timeline.signs import draw_sign, signs_in
from lab.report.timeline.words import duration

MARGIN_PT = 8.0
_LINE_PT = 9.4
_OUTCOMES = {
    "violated": ("VIOLATED", style.VIOLATION, True),
    "unknown": ("UNKNOWN", style.UNKNOWN, True),
    "absent": ("absent", style.QUIET, False),
    "ok": ("ok", style.FINE, False),
}
_WORST_FIRST = ("violated", "unknown", "absent", "ok")
_SIGNS = {"violated": "✗", "unknown": "?", "absent": "–", "ok": "✓"}
_MOST_FINDINGS = 6
_MOST_FAULTS = 14


def draw_header(pen: Pen, timeline: Timeline) -> float:
    """Title and verdict; returns where the lanes may begin."""
    room = pen.width_pt - 2 * MARGIN_PT
    y = MARGIN_PT + 7
    for line in wrapped(timeline.title, style.TITLE_PT, room, bold=True, most=2):
        pen.text(MARGIN_PT, y, line, style.TITLE_PT, bold=True)
        y += 14
    y += 1
    y = _draw_verdict(pen, timeline, y, room)
    for reason in timeline.reasons[:2]:
        for line in wrapped(f"unknown because: {reason}", style.LABEL_PT, room, most=2):
            pen.text(MARGIN_PT, y, line, style.LABEL_PT, style.UNKNOWN)
            y += _LINE_PT
    return y + 3


def _draw_verdict(pen: Pen, timeline: Timeline, y: float, room: float) -> float:
    """One chunk per property, the worst first, wrapped at chunk ends."""
    x = MARGIN_PT
    parts = sorted(
        timeline.verdict, key=lambda part: _WORST_FIRST.index(part[1]) if part[1] in _WORST_FIRST else 0
    )
    for position, (name, outcome) in enumerate(parts):
        word, color, loud = _OUTCOMES.get(outcome, (outcome, style.UNKNOWN, True))
        size = style.VERDICT_PT if loud else style.LABEL_PT
        chunk = f"{_SIGNS.get(outcome, '?')} {name if position else name[:1].upper() + name[1:]}: {word}"
        width = text_width(chunk, size, loud)
        if x > MARGIN_PT and x + width > MARGIN_PT + room:
            x, y = MARGIN_PT, y + 12.5
        pen.text(x, y, chunk, size, color, bold=loud)
        x += width + 10
    return y + 13 if parts else y


def draw_footer(sheet: Sheet, y: float) -> float:
    """Key, faults, findings and notes below the axis; returns the height of the page."""
    y = _draw_key(sheet, y + 5)
    y = _draw_fault_list(sheet, y)
    y = _draw_findings(sheet, y)
    room = sheet.pen.width_pt - 2 * MARGIN_PT
    for note in sheet.timeline.notes:
        for line in wrapped(note, style.SMALL_PT, room, most=3):
            sheet.pen.text(MARGIN_PT, y, line, style.SMALL_PT, style.QUIET)
            y += _LINE_PT
    return y + MARGIN_PT - 4


def _draw_key(sheet: Sheet, y: float) -> float:
    """The signs that occur in this picture, explained."""
    room = sheet.pen.width_pt - MARGIN_PT
    x = MARGIN_PT
    for words in signs_in(sheet.timeline):
        width = 17 + text_width(words, style.SMALL_PT) + 9
        if x > MARGIN_PT and x + width - 9 > room:
            x, y = MARGIN_PT, y + 11
        draw_sign(sheet.pen, words, x, y)
        sheet.pen.text(x + 17, y, words, style.SMALL_PT, style.QUIET)
        x += width
    return y + 14 if x > MARGIN_PT else y


def _draw_fault_list(sheet: Sheet, y: float) -> float:
    """The numbered faults with their receipts."""
    pen = sheet.pen
    room = pen.width_pt - 2 * MARGIN_PT - 14
    faults = sheet.timeline.faults
    for fault in faults[:_MOST_FAULTS]:
        receipt = f"receipt: {fault.receipt}" if fault.receipt else "NO RECEIPT"
        text = f"{fault.name} {fault.target}, at {duration(fault.span.start_ns)} ({receipt})"
        sheet.number(MARGIN_PT + 5, y, fault, radius=4.4)
        for line in wrapped(text, style.SMALL_PT, room, most=2):
            color = style.UNKNOWN if not fault.receipt else style.VIOLATION if fault.causes else style.INK
            pen.text(MARGIN_PT + 14, y, line, style.SMALL_PT, color)
            y += _LINE_PT
        y += 1
    if len(faults) > _MOST_FAULTS:
        more = f"… and {len(faults) - _MOST_FAULTS} more faults, see the history"
        pen.text(MARGIN_PT + 14, y, more, style.SMALL_PT, style.QUIET)
        y += _LINE_PT
    return y + 3 if faults else y


def _draw_findings(sheet: Sheet, y: float) -> float:
    """The findings by name, each with its sentence; violations first."""
    pen = sheet.pen
    room = pen.width_pt - 2 * MARGIN_PT - 14
    findings = sheet.timeline.findings
    for finding in findings[:_MOST_FINDINGS]:
        bad = finding.severity == "violation"
        color = style.VIOLATION if bad else style.UNKNOWN if finding.severity == "warning" else style.QUIET
        pen.text(MARGIN_PT + 5, y, "✗" if bad else "!", 8.5, color, bold=True, align="center")
        pen.text(MARGIN_PT + 14, y, finding.name, style.LABEL_PT, color, bold=True)
        indent = text_width(finding.name, style.LABEL_PT, bold=True) + 6
        text = finding.why + (f" [{finding.broken_assumption}]" if finding.broken_assumption else "")
        first = wrapped(text, style.SMALL_PT, room - indent)[:1]
        rest = text[len(first[0]) :].strip() if first else ""
        for line in first:
            pen.text(MARGIN_PT + 14 + indent, y, line, style.SMALL_PT)
        y += _LINE_PT
        for line in wrapped(rest, style.SMALL_PT, room, most=3):
            pen.text(MARGIN_PT + 14, y, line, style.SMALL_PT)
            y += _LINE_PT
        y += 1
    if len(findings) > _MOST_FINDINGS:
        more = f"… and {len(findings) - _MOST_FINDINGS} more findings, see the verdict"
        pen.text(MARGIN_PT + 14, y, more, style.SMALL_PT, style.QUIET)
        y += _LINE_PT
    return y
