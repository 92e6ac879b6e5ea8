"""A thin layer over matplotlib that draws in points from the upper left corner.

Shapes of one look are collected into one artist each, so that hundreds of marks are drawn fast. No pyplot, no
axes, no tight layout: no global state is changed and the caller chooses every position.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lab.report.timeline.metrics import text_width
from lab.report.timeline.style import FONT_FAMILY, INK, PAPER

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Look:
    """How a shape is drawn. ``dash`` is a matplotlib dash pattern in line widths; ``z`` orders the layers."""

    face: str | None = None
    edge: str | None = None
    line_pt: float = 0.7
    dash: tuple[float, ...] | None = None
    hatch: str | None = None
    z: float = 2.0


@dataclass(frozen=True, slots=True)
class _Words:
    x: float
    y: float
    text: str
    size_pt: float
    color: str
    bold: bool
    align: str
    z: float


class Pen:
    """Collects shapes and texts; ``render`` turns them into the bytes of a picture."""

    def __init__(self, width_pt: float) -> None:
        self.width_pt = width_pt
        self._shapes: dict[Look, list[Sequence[Point]]] = {}
        self._lines: dict[Look, list[Sequence[Point]]] = {}
        self._words: list[_Words] = []

    def polygon(self, points: Sequence[Point], look: Look) -> None:
        """A closed shape."""
        self._shapes.setdefault(look, []).append(points)

    def rect(self, x0: float, y0: float, x1: float, y1: float, look: Look) -> None:
        """A rectangle given by two corners."""
        self.polygon(((x0, y0), (x1, y0), (x1, y1), (x0, y1)), look)

    def line(self, points: Sequence[Point], look: Look) -> None:
        """An open line; its colour is the look's edge."""
        self._lines.setdefault(look, []).append(points)

    def circle(self, x: float, y: float, radius: float, look: Look) -> None:
        """A circle (24 corners)."""
        step = math.pi / 12
        corners = [(x + radius * math.cos(i * step), y + radius * math.sin(i * step)) for i in range(24)]
        self.polygon(corners, look)

    def arrow(self, start: Point, end: Point, look: Look, head_pt: float = 4.0) -> None:
        """A line with a filled head at its end."""
        length = math.hypot(end[0] - start[0], end[1] - start[1])
        if length < 0.1:
            return
        head = min(head_pt, length)
        ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
        neck = (end[0] - ux * head, end[1] - uy * head)
        wing = head * 0.38
        self.line((start, neck), look)
        tip = Look(face=look.edge, edge=look.edge, line_pt=0.3, z=look.z)
        self.polygon(
            (end, (neck[0] - uy * wing, neck[1] + ux * wing), (neck[0] + uy * wing, neck[1] - ux * wing)), tip
        )

    def cross(self, x: float, y: float, radius: float, look: Look) -> None:
        """An X."""
        self.line(((x - radius, y - radius), (x + radius, y + radius)), look)
        self.line(((x - radius, y + radius), (x + radius, y - radius)), look)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size_pt: float,
        color: str = INK,
        *,
        bold: bool = False,
        align: str = "left",
        z: float = 8.0,
        backed: bool = False,
    ) -> None:
        """One line of text whose vertical middle is at ``y``; ``backed`` puts paper under it."""
        if not text:
            return
        if backed:
            width = text_width(text, size_pt, bold)
            left = x - {"left": 0.0, "center": 0.5, "right": 1.0}[align] * width
            look = Look(face=PAPER, z=z - 0.1)
            self.rect(left - 1.5, y - size_pt * 0.62, left + width + 1.5, y + size_pt * 0.62, look)
        self._words.append(_Words(x, y, text, size_pt, color, bold, align, z))

    def render(self, height_pt: float, formats: Sequence[str], dpi: int, title: str) -> dict[str, bytes]:
        """Draw everything once per format.

        Args:
            height_pt: height of the picture.
            formats: "svg", "png", "pdf" (or another format of matplotlib).
            dpi: resolution of pixel formats.
            title: goes into the metadata of SVG and PDF.

        Returns:
            the files' contents. The same calls give the same bytes.
        """
        import matplotlib

        settings: Any = {
            "svg.fonttype": "none",
            "svg.hashsalt": "lock-lab timeline",
            "font.sans-serif": [FONT_FAMILY],
            "hatch.linewidth": 0.6,
            "text.usetex": False,
            "path.simplify": False,
        }
        pictures: dict[str, bytes] = {}
        with matplotlib.rc_context(settings), warnings.catch_warnings():
            # A character that the font lacks is drawn as a box.
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure = self._figure(height_pt)
            for kind in formats:
                buffer = io.BytesIO()
                meta: dict[str, Any] = {}
                if kind == "svg":
                    meta = {"Date": None, "Creator": None, "Title": title}
                elif kind == "png":
                    meta = {"Software": None}
                elif kind == "pdf":
                    meta = {"CreationDate": None, "Creator": None, "Producer": None, "Title": title}
                options: dict[str, Any] = {"pil_kwargs": {"compress_level": 4}} if kind == "png" else {}
                figure.savefig(buffer, format=kind, dpi=dpi, metadata=meta, facecolor=PAPER, **options)
                pictures[kind] = buffer.getvalue()
        return pictures

    def _figure(self, height_pt: float) -> Any:
        """A matplotlib figure with one artist per look and one per text."""
        from matplotlib.collections import LineCollection, PolyCollection
        from matplotlib.figure import Figure
        from matplotlib.transforms import Affine2D

        figure = Figure(figsize=(self.width_pt / 72, height_pt / 72))
        to_paper = Affine2D().scale(1 / 72, -1 / 72).translate(0, height_pt / 72) + figure.dpi_scale_trans
        for look, shapes in self._shapes.items():
            shape = PolyCollection(
                list(shapes),
                closed=True,
                facecolors=look.face or "none",
                edgecolors=look.edge or "none",
                linewidths=look.line_pt if look.edge else 0,
                linestyles=[(0, look.dash)] if look.dash else "solid",
                hatch=look.hatch,
                zorder=look.z,
                transform=to_paper,
            )
            figure.add_artist(shape)
        for look, lines in self._lines.items():
            line = LineCollection(
                [list(points) for points in lines],
                colors=look.edge or INK,
                linewidths=look.line_pt,
                linestyles=[(0, look.dash)] if look.dash else "solid",
                zorder=look.z,
                transform=to_paper,
            )
            figure.add_artist(line)
        for words in self._words:
            figure.text(
                words.x,
                words.y,
                words.text,
                fontsize=words.size_pt,
                color=words.color,
                weight="bold" if words.bold else "normal",
                family="sans-serif",
                ha=words.align,
                va="center_baseline",
                zorder=words.z,
                parse_math=False,
                transform=to_paper,
            )
        return figure
