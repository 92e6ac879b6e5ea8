"""The short texts beside a mark, the same on paper, on the page, and in figures."""

from __future__ import annotations

from collections.abc import Sequence

from lab.report.timeline.model import (
    Announcement,
    Attempt,
    Down,
    Jump,
    KeyLife,
    LinkFault,
    Pause,
    Reply,
    StoreWrite,
    Use,
)
from lab.report.timeline.words import circled, duration, signed

_REFUSED = {"acquire": "refused", "release": "not held"}


def link_words(link: LinkFault) -> str:
    """A broken link inside a lane: "① alice cut off"."""
    return f"{circled(link.fault)} {link.peer} {link.words}"


def attempt_words(attempt: Attempt) -> str:
    """An acquire, extend or release, with its violations."""
    words = attempt.kind
    if attempt.outcome == "fail":
        words = _REFUSED.get(attempt.kind, f"{attempt.kind} refused")
    elif attempt.outcome == "info":
        words += " ?"
    return words + (f": {', '.join(attempt.guilty)}" if attempt.guilty else "")


def use_words(use: Use) -> str:
    """A read or write of the resource, with its version and with a warning about it."""
    words = use.kind
    if use.version is not None and (use.kind == "read" or use.outcome == "ok"):
        words = f"{use.kind} v{use.version}"
    if use.outcome == "fail":
        words += " rejected"
    elif use.outcome == "info":
        words += " ?"
    return words + (f" (! {', '.join(use.warned)})" if use.warned and not use.guilty else "")


def jump_size(jump: Jump) -> str:
    """How far a clock was moved, if that is known."""
    return signed(jump.by_ns) if jump.by_ns is not None else "moved"


def jump_words(jump: Jump) -> str:
    """A step of a clock with the number of its fault."""
    return f"{circled(jump.fault)} clock {jump_size(jump)}"


def down_words(down: Down) -> str:
    """What took a node down, with the number of its fault."""
    return down.words if down.fault is None else f"{circled(down.fault)} {down.words}"


def reply_words(replies: Sequence[Reply]) -> str:
    """Replies to a client that were held back, and when it read them."""
    many = f"{len(replies)} replies" if len(replies) > 1 else "1 reply"
    read = [reply.read_ns for reply in replies if reply.read_ns is not None]
    return f"{many} in flight, " + (f"read at {duration(max(read))}" if read else "too late to be read")


def pause_words(pause: Pause) -> str:
    """A pause or a stall, with its fault and its length."""
    mark = f"{circled(pause.fault)} " if pause.fault is not None else ""
    words = f"{mark}{'paused' if pause.kind == 'pause' else 'stalled'}"
    if pause.span.end_ns is not None:
        words += f" {duration(pause.span.end_ns - pause.span.start_ns)}"
    return words


def life_words(life: KeyLife) -> str:
    """The owner of the key on a node."""
    return f"{life.owner or '?'}’s key"


def announcement_words(announced: Announcement) -> str:
    """A token that a client announced to the store."""
    return f"{announced.client or '?'} announces its token"


def write_words(write: StoreWrite) -> str:
    """A write at the store: its version, or that it was rejected."""
    if write.accepted:
        return f"v{write.version}" if write.version is not None else "?"
    return "rejected" if write.fence is None else f"rejected (fence {write.fence})"
