"""Widths of texts, line breaking, and a map of the places already taken by labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from lab.report.timeline.style import FONT_FAMILY
from lab.report.timeline.words import pieces

if TYPE_CHECKING:
    from matplotlib.ft2font import FT2Font

_EM_PT = 100.0


@lru_cache(maxsize=2)
def _font(bold: bool) -> FT2Font:
    """The font that ships with matplotlib, at a size where rounding does not matter."""
    from matplotlib.font_manager import FontProperties, findfont
    from matplotlib.ft2font import FT2Font

    path = findfont(FontProperties(family=FONT_FAMILY, weight="bold" if bold else "normal"))
    font = FT2Font(path)
    font.set_size(_EM_PT, 72)
    return font


@lru_cache(maxsize=512)
def _advance(char: str, bold: bool) -> float:
    """Advance width of one character in em."""
    font = _font(bold)
    if not font.get_char_index(ord(char)):
        return 1.0
    return float(font.load_char(ord(char)).linearHoriAdvance) / 65536 / _EM_PT


def text_width(text: str, size_pt: float, bold: bool = False) -> float:
    """Width of one line of text in points, kerning left out (so never too small)."""
    return sum(_advance(char, bold) for char in text) * size_pt


def fitted(text: str, size_pt: float, room_pt: float, bold: bool = False) -> str:
    """The text, shortened with an ellipsis until it is at most ``room_pt`` wide; "" when nothing fits."""
    if text_width(text, size_pt, bold) <= room_pt:
        return text
    for length in range(len(text) - 1, 0, -1):
        short = text[:length].rstrip() + "…"
        if text_width(short, size_pt, bold) <= room_pt:
            return short
    return ""


def wrapped(text: str, size_pt: float, room_pt: float, bold: bool = False, most: int = 99) -> list[str]:
    """Break a text into at most ``most`` lines of at most ``room_pt`` points; a longer one ends in "…"."""
    lines: list[str] = []
    for piece in pieces(text):
        trial = f"{lines[-1]} {piece}" if lines else piece
        if lines and text_width(trial, size_pt, bold) <= room_pt:
            lines[-1] = trial
        else:
            while text_width(piece, size_pt, bold) > room_pt and len(piece) > 1:
                cut = len(piece) - 1
                while cut > 1 and text_width(piece[:cut], size_pt, bold) > room_pt:
                    cut -= 1
                lines.append(piece[:cut])
                piece = piece[cut:]
            lines.append(piece)
    if len(lines) > most:
        lines = [*lines[: most - 1], fitted(lines[most - 1] + "…", size_pt, room_pt, bold)]
        if not lines[-1].endswith("…"):
            lines[-1] += "…"
    return lines


def side_by_side(wishes: Sequence[tuple[float, float]], left: float, right: float) -> list[float]:
    """Place boxes in a row so that none covers another and each is as near as can be to its wish.

    Args:
        wishes: wished middle and width of each box, from left to right.
        left: where the row begins.
        right: where it ends; boxes that do not fit all together reach beyond it.

    Returns:
        the middles, in the same order (blocks of touching boxes stand at the mean of their wishes).
    """
    blocks: list[tuple[list[float], float]] = []  # the left edges wished for, and the width in all
    for middle, width in wishes:
        block = ([middle - width / 2], width)
        while blocks and _edge(blocks[-1], left, right) + blocks[-1][1] > _edge(block, left, right):
            edges, before = blocks.pop()
            block = ([*edges, *(edge - before for edge in block[0])], before + block[1])
        blocks.append(block)
    middles: list[float] = []
    for block in blocks:
        at = _edge(block, left, right)
        for _ in block[0]:
            width = wishes[len(middles)][1]
            middles.append(at + width / 2)
            at += width
    return middles


def _edge(block: tuple[list[float], float], left: float, right: float) -> float:
    """Where a block of boxes begins."""
    edges, width = block
    return max(min(sum(edges) / len(edges), right - width), left)


class Occupied:
    """Rectangles already taken, so that no label is drawn over another."""

    def __init__(self) -> None:
        self._boxes: list[tuple[float, float, float, float]] = []

    def free(self, x: float, y: float, width: float, height: float) -> bool:
        """Whether nothing taken touches the rectangle whose upper left corner is (x, y)."""
        return all(
            x >= right or x + width <= left or y >= bottom or y + height <= top
            for left, top, right, bottom in self._boxes
        )

    def take(self, x: float, y: float, width: float, height: float) -> None:
        """Mark a rectangle as taken."""
        self._boxes.append((x, y, x + width, y + height))

    def place_in_row(
        self, x: float, width: float, y: float, height: float, left: float, right: float, reach: float
    ) -> float | None:
        """Find and take a free place in a row, as near as possible to being centred on ``x``.

        Returns:
            the left edge of the place, or None when nothing within ``reach`` points of the wish is free.
        """
        wish = min(max(x - width / 2, left), right - width)
        if wish < left:
            return None
        step = 3.0
        for count in range(int(reach / step) + 1):
            for sign in (1, -1) if count else (1,):
                at = wish + sign * count * step
                if left <= at <= right - width and self.free(at, y, width, height):
                    self.take(at, y, width, height)
                    return at
        return None
