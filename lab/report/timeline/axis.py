"""A time axis that leaves out long stretches without events.

A run may have half a second of events and leases of ten seconds: on one linear axis either the events or the
leases are invisible. The axis therefore consists of panels, each linear in itself, with a marked break where
time is left out.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.report.timeline.words import MS_NS, S_NS, grouped

MAX_BREAKS = 5
DOMINANT_SHARE = 0.62
WORTH_SHARE = 0.25
BREAK_PT = 15.0
PANEL_MIN_PT = 58.0
TICK_GAP_PT = 48.0


@dataclass(frozen=True, slots=True)
class Panel:
    """A linear piece of the axis: ``start_ns``…``end_ns`` is drawn at ``x0``…``x1`` (points)."""

    start_ns: float
    end_ns: float
    x0: float
    x1: float

    def x(self, time_ns: float) -> float:
        """Position of a time inside (or beyond) this panel, in points."""
        return self.x0 + (time_ns - self.start_ns) / (self.end_ns - self.start_ns) * (self.x1 - self.x0)


@dataclass(frozen=True, slots=True)
class Break:
    """A marked gap of the axis at ``x0``…``x1`` (points) that leaves out ``skipped_ns``."""

    x0: float
    x1: float
    skipped_ns: float


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Panels from left to right."""

    panels: tuple[Panel, ...]

    @property
    def x0(self) -> float:
        """Left edge in points."""
        return self.panels[0].x0

    @property
    def x1(self) -> float:
        """Right edge in points."""
        return self.panels[-1].x1

    def x(self, time_ns: float) -> float:
        """Position of a time in points; times left out are placed inside their break, others at the edges."""
        last: Panel | None = None
        for panel in self.panels:
            if time_ns < panel.start_ns:
                if last is None:
                    return panel.x0
                share = (time_ns - last.end_ns) / (panel.start_ns - last.end_ns)
                return last.x1 + share * (panel.x0 - last.x1)
            if time_ns <= panel.end_ns:
                return panel.x(time_ns)
            last = panel
        return self.x1

    def bounds(self, x: float) -> tuple[float, float]:
        """Left and right edge of the panel at ``x`` points (of the nearest one inside a break)."""
        panel = min(self.panels, key=lambda p: max(p.x0 - x, x - p.x1))
        return panel.x0, panel.x1

    def breaks(self) -> list[Break]:
        """The marked gaps between panels."""
        pairs = pairwise(self.panels)
        return [Break(a.x1, b.x0, b.start_ns - a.end_ns) for a, b in pairs]

    def ticks(self) -> list[tuple[float, str]]:
        """Tick positions (points) and their labels, all in the unit that ``unit`` names."""
        marks: list[float] = []
        for panel in self.panels:
            marks += _panel_ticks(panel)
        in_s = self.unit() == "s"
        return [(self.x(mark), _tick_label(mark, in_s)) for mark in marks]

    def unit(self) -> str:
        """The unit of the ticks: "s" if the axis reaches beyond 100 s, else "ms"."""
        return "s" if self.panels[-1].end_ns >= 100 * S_NS else "ms"


def _tick_label(time_ns: float, in_s: bool) -> str:
    """A tick's number without its unit."""
    value = time_ns / (S_NS if in_s else MS_NS)
    if abs(value - round(value)) < 1e-6:
        return grouped(round(value))
    return f"{value:.3f}".rstrip("0")


def _panel_ticks(panel: Panel) -> list[float]:
    """One to several round times inside a panel, at least ``TICK_GAP_PT`` apart."""
    room = max(1, int((panel.x1 - panel.x0) // TICK_GAP_PT))
    span = panel.end_ns - panel.start_ns
    step = 1000.0
    while True:
        for factor in (1, 2, 5):
            first = math.ceil(max(panel.start_ns, 0) / (step * factor))
            last = math.floor(panel.end_ns / (step * factor))
            if last - first + 1 <= room:
                if last < first:
                    return [_round_inside(panel)]
                return [mark * step * factor for mark in range(first, last + 1)]
        step *= 10
        if step > 1000 * max(span, panel.end_ns, 1000.0):
            return []


def _round_inside(panel: Panel) -> float:
    """The roundest time inside a panel."""
    step = 10.0 ** math.ceil(math.log10(max(panel.end_ns, 1000.0)))
    while step >= 1:
        for divisor in (1, 2, 5):
            mark = math.ceil(max(panel.start_ns, 0) / (step / divisor)) * (step / divisor)
            if mark <= panel.end_ns:
                return mark
        step /= 10
    return panel.start_ns


def build_axis(
    moments: Sequence[int],
    ends: Sequence[int],
    x0: float,
    x1: float,
    forced: Sequence[tuple[int, int]] = (),
) -> TimeAxis:
    """Lay out the axis so that every moment is in a panel and long empty stretches are left out.

    Args:
        moments: times of events in ns (any order, duplicates count as density).
        ends: times in ns that must be visible but need no room, such as the ends of leases.
        x0: left edge in points.
        x1: right edge in points.
        forced: stretches in ns that are always left out (an excerpt of a long history).
    """
    times = sorted([*moments, *ends]) or [0]
    busy = Counter(moments)
    groups = _groups(times, busy, forced)
    kept_ns = sum(group[-1] - group[0] for group in groups)
    floor_ns = max(kept_ns * 0.04, MS_NS / 2 if kept_ns == 0 else 1000.0)
    room = (x1 - x0) - BREAK_PT * (len(groups) - 1)
    least = min(PANEL_MIN_PT, room / len(groups))
    shares = _shares(groups, busy)
    panels = []
    left = x0
    for position, (group, share) in enumerate(zip(groups, shares, strict=True)):
        width = least + (room - least * len(groups)) * share
        pad = max((group[-1] - group[0]) * 0.05, floor_ns if len(group) < 3 else floor_ns / 2)
        if position:
            pad = min(pad, (group[0] - groups[position - 1][-1]) / 3)
        tail = pad
        if position + 1 < len(groups):
            tail = min(pad, (groups[position + 1][0] - group[-1]) / 3)
        lead = pad if position else min(pad, (group[-1] - group[0] + pad) * 0.06)
        panels.append(Panel(group[0] - lead, group[-1] + max(tail, 1.0), left, left + width))
        left += width + BREAK_PT
    return TimeAxis(tuple(panels))


def _shares(groups: list[list[int]], moments: Counter[int]) -> list[float]:
    """The share of the free width of each group: half by its length in time, half by its number of events.

    A group with nothing but ends of leases gets the least width.
    """
    busy = [sum(moments[time_ns] for time_ns in set(group)) for group in groups]
    lengths = [group[-1] - group[0] if count else 0 for group, count in zip(groups, busy, strict=True)]
    length, count = sum(lengths) or 1, sum(busy) or 1
    raw = [0.5 * a / length + 0.5 * b / count for a, b in zip(lengths, busy, strict=True)]
    total = sum(raw)
    return [share / total for share in raw] if total else [1 / len(groups)] * len(groups)


def _groups(times: list[int], busy: Container[int], forced: Sequence[tuple[int, int]]) -> list[list[int]]:
    """Split sorted times at the gaps worth leaving out, the largest first.

    A gap is left out if it fills most of its panel and is a large part of the whole axis. A panel with only
    ends of leases is not split.
    """
    groups = [times]
    for start, _ in sorted(forced):
        groups[-1:] = [part for part in _split(groups[-1], start) if part]
    while len(groups) <= MAX_BREAKS:
        worth = [gap for group in groups if (gap := _worst_gap(group, busy)) is not None]
        if not worth:
            break
        length, start = max(worth)
        if length < WORTH_SHARE * sum(group[-1] - group[0] for group in groups):
            break
        groups = [part for group in groups for part in _split(group, start) if part]
    return groups


def _split(group: list[int], start: int) -> tuple[list[int], list[int]]:
    """A group's times up to ``start``, and those after it."""
    cut = bisect_right(group, start)
    return group[:cut], group[cut:]


def _worst_gap(group: list[int], busy: Container[int]) -> tuple[int, int] | None:
    """Length and start of the gap that dominates a group, if one does."""
    distinct = sorted(set(group))
    if len(distinct) < 3 or not any(time_ns in busy for time_ns in distinct):
        return None
    gap, start = max((b - a, a) for a, b in pairwise(distinct))
    return (gap, start) if gap > DOMINANT_SHARE * (distinct[-1] - distinct[0]) else None
