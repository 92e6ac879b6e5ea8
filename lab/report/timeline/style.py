"""Colours, sizes and fonts of the picture.

Client colours come from Okabe and Ito's palette ("Color Universal Design", 2008), ordered so that neighbours
differ in lightness too, for greyscale printers. Red is used for violations alone, always with a shape or a
word: solid for the fault that a violation is put down to, outlined for the operations in which it shows.
"""

from __future__ import annotations

from dataclasses import dataclass

FONT_FAMILY = "DejaVu Sans"
WIDTH_PT = 396.0
PNG_DPI = 220

INK = "#1a1a1a"
QUIET = "#5c5c5c"
FAINT = "#9a9a9a"
RULE = "#d9d9d9"
PAPER = "#ffffff"
SHADE = "#f4f4f2"
VIOLATION = "#b3001b"
VIOLATION_TINT = "#f7c9cd"
FINE = "#1b6e45"
UNKNOWN = "#7a5c00"

TITLE_PT = 11.5
VERDICT_PT = 8.5
BAND_PT = 9.5
LANE_PT = 9.0
LABEL_PT = 7.5
SMALL_PT = 7.0


@dataclass(frozen=True, slots=True)
class Tone:
    """Colours of one client: ``solid`` for guaranteed windows, ``light`` for belief windows, ``text``."""

    solid: str
    light: str
    text: str
    on_solid: str


_TONES = (
    Tone("#0072b2", "#b9d9ee", "#00527f", PAPER),
    Tone("#e69f00", "#fbe3b0", "#8a5f00", INK),
    Tone("#007a5a", "#b5e0d3", "#00583f", PAPER),
    Tone("#cc79a7", "#f2d5e4", "#8d3f6b", INK),
    Tone("#3d3d8f", "#cfcfea", "#2d2d72", PAPER),
    Tone("#56b4e9", "#d3ecfa", "#1f6d99", INK),
    Tone("#7a5230", "#e2d0c0", "#5e3d22", PAPER),
    Tone("#c9b800", "#f4efb0", "#6b6200", INK),
    Tone("#4d4d4d", "#d5d5d5", "#333333", PAPER),
    Tone("#8fbf3f", "#e0efc6", "#4f6f1c", INK),
)
UNOWNED = Tone("#8c8c8c", "#dddddd", "#555555", PAPER)


def tone(position: int) -> Tone:
    """Colours of the client at this position (0-based); they repeat after ten."""
    return _TONES[position % len(_TONES)]
