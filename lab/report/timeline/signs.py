"""The key below the picture: the signs that occur in it, their meanings, and how each is drawn."""

from __future__ import annotations

from collections.abc import Iterable

from lab.report.timeline import style
from lab.report.timeline.model import Timeline
from lab.report.timeline.pen import Look, Pen
from lab.report.timeline.sheet import USE_PT

SIGN_PT = 13.0
_GREY = style.UNOWNED
_INK = Look(face=style.INK, edge=style.INK, line_pt=1.1)
_HOLLOW = Look(face=style.PAPER, edge=style.INK, line_pt=1.1)
_BELIEF = Look(face=_GREY.light, edge=_GREY.solid, line_pt=0.8)

BOXES: dict[str, tuple[Look, float]] = {
    "believes it holds": (_BELIEF, 10.0),
    "guaranteed to hold": (_BELIEF, 10.0),
    "request": (_HOLLOW, 9.0),
    "release": (_INK, 9.0),
    "write (a read is hollow)": (_INK, USE_PT),
    "refused": (_HOLLOW, 9.0),
    "outcome unknown": (Look(face=style.PAPER, edge=style.INK, line_pt=1.1, dash=(2, 1.4)), 9.0),
    "paused": (Look(face=style.PAPER, edge="#4a4a4a", line_pt=0.6, hatch="\\\\\\\\"), 10.0),
    "link cut or held": (Look(face=style.SHADE, edge="#c4c4c4", line_pt=0, hatch="////"), 10.0),
    "key gone too early": (Look(edge=_GREY.text, line_pt=0.6, dash=(2, 2)), 7.0),
    "consequence": (Look(face=style.VIOLATION_TINT, edge=style.VIOLATION, line_pt=1.2), 9.0),
}


def signs_in(timeline: Timeline) -> list[str]:
    """The meanings of the signs in a timeline, in the order of the key."""
    grants = [grant for client in timeline.clients for grant in client.grants]
    attempts = [attempt for client in timeline.clients for attempt in client.attempts]
    uses = [use for client in timeline.clients for use in client.uses]
    outcomes = {attempt.outcome for attempt in attempts} | {use.outcome for use in uses}
    lives = [life for node in timeline.nodes for life in node.lives]
    signs: Iterable[tuple[str, bool]] = (
        ("believes it holds", any(grant.belief for grant in grants)),
        ("guaranteed to hold", any(grant.guaranteed for grant in grants)),
        ("end reported by the lock", any(grant.claimed_ns for grant in grants)),
        ("request", bool(attempts)),
        ("release", any(a.kind == "release" and a.outcome == "ok" for a in attempts)),
        ("write (a read is hollow)", any(use.kind == "write" for use in uses)),
        ("refused", "fail" in outcomes),
        ("outcome unknown", "info" in outcomes),
        ("paused", any(c.pauses for c in timeline.clients) or any(n.pauses for n in timeline.nodes)),
        ("link cut or held", any(node.links for node in timeline.nodes)),
        (
            "key gone too early",
            any(e.promised_ns and e.span.end_ns and e.promised_ns > e.span.end_ns for e in lives),
        ),
        ("cause", any(f.causes for f in timeline.faults) or any(n.losses for n in timeline.nodes)),
        ("consequence", any(use.guilty for use in uses) or any(a.guilty for a in attempts)),
        ("reply held back", any(node.replies for node in timeline.nodes)),
    )
    return [meaning for meaning, present in signs if present]


def draw_sign(pen: Pen, meaning: str, x: float, y: float) -> None:
    """Draw one sign of the key, ``SIGN_PT`` wide, whose left middle is at (x, y)."""
    if meaning in BOXES:
        look, height = BOXES[meaning]
        pen.rect(x, y - height / 2, x + SIGN_PT, y + height / 2, look)
    if meaning == "cause":
        pen.circle(x + SIGN_PT / 2, y, 4.4, Look(face=style.VIOLATION, edge=style.PAPER, line_pt=0.6, z=3.0))
    elif meaning == "reply held back":
        pen.line(((x, y), (x + SIGN_PT, y)), Look(edge=style.INK, line_pt=1.0, dash=(3, 2), z=3.0))
    elif meaning == "guaranteed to hold":
        pen.rect(x, y - 2.7, x + SIGN_PT, y + 2.7, Look(face=_GREY.solid, z=2.5))
    elif meaning == "refused":
        pen.cross(x + SIGN_PT / 2, y, 2.6, Look(edge=style.INK, line_pt=1.2, z=3.6))
    elif meaning == "end reported by the lock":
        middle = x + SIGN_PT / 2
        pen.line(((middle, y - 5), (middle, y + 5)), Look(edge=style.INK, line_pt=1.4, z=4.0))
