"""From the nemesis' events to the faults in the picture, with receipts as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checker.history.history import NEVER, History
from checker.history.history import Fault as Injection
from lab.report.timeline.model import Down, Fault, Jump, LinkFault, Pause, Promotion, Span
from lab.report.timeline.words import MS_NS, S_NS, clean, duration, short_duration
from lab.scenario.fault_step import Sign
from lab.scenario.registry import fault_steps

STORE = "store"
_UNIT_NS = {"ns": 1, "µs": 1000, "us": 1000, "ms": MS_NS, "s": S_NS, "m": 60 * S_NS, "min": 60 * S_NS}
_UNIT_NS["h"] = 3600 * S_NS
_LONGEST_RECEIPT = 170


@dataclass(slots=True)
class FaultMarks:
    """Faults sorted by what they hit. Keys are node names, client names, or "store"."""

    listed: list[Fault] = field(default_factory=list)
    links: dict[str, list[LinkFault]] = field(default_factory=dict)
    jumps: dict[str, list[Jump]] = field(default_factory=dict)
    pauses: dict[str, list[Pause]] = field(default_factory=dict)
    downs: dict[str, list[Down]] = field(default_factory=dict)
    promotions: dict[str, list[Promotion]] = field(default_factory=dict)
    crashed_ns: dict[str, int] = field(default_factory=dict)
    healing_ns: dict[int, int] = field(default_factory=dict)
    """By number of a fault, when its healing began; the fault's span ends when it was confirmed."""


def fault_marks(
    history: History, clients: Sequence[str], nodes: Sequence[str], causes: Mapping[int, tuple[str, ...]]
) -> FaultMarks:
    """Number the injections in order of time and sort them by what they hit; healings only end them.

    `causes` are the violations that are put down to a fault, by the position of its event.
    """
    marks = FaultMarks()
    numbers: dict[str, int] = {}
    healings = {one.heals: one.start_ns for one in history.faults if one.heals is not None}
    for injection in history.faults:
        if injection.heals is not None:
            continue
        span = _span(history, injection)
        continues = (injection.receipt or {}).get("continues")
        number = numbers.get(str(continues)) if continues is not None else None
        if number is None:
            number = len(marks.listed) + 1
            marks.listed.append(_entry(injection, number, span, causes.get(injection.index, ())))
        numbers[injection.fault_id] = number
        if injection.fault_id in healings:
            marks.healing_ns[number] = healings[injection.fault_id] - history.zero_ns
        _sort_in(marks, injection, number, span, clients, nodes)
    return marks


def _span(history: History, injection: Injection) -> Span:
    start = injection.start_ns - history.zero_ns
    end = None if injection.until_ns >= NEVER else injection.until_ns - history.zero_ns
    return Span(start, end)


def _entry(injection: Injection, number: int, span: Span, causes: tuple[str, ...]) -> Fault:
    """The entry of the list below the picture."""
    receipt = receipt_words(injection.receipt or {}) if injection.confirmed else None
    if injection.confirmed and not receipt:
        receipt = "confirmed"
    return Fault(
        number=number,
        name=clean(injection.f.replace("_", " "), 30),
        target=clean(injection.target or ", ".join(injection.targets), 80),
        span=span,
        receipt=receipt,
        breaks=clean(injection.breaks) if injection.breaks else None,
        causes=causes,
    )


def _sort_in(
    marks: FaultMarks,
    injection: Injection,
    number: int,
    span: Span,
    clients: Sequence[str],
    nodes: Sequence[str],
) -> None:
    """Add one fault to the lanes that it hits."""
    named = set(injection.targets)
    hit_clients = [name for name in clients if name in named]
    hit_nodes = [name for name in nodes if name in named]
    ends = hit_nodes + ([STORE] if STORE in named and STORE not in nodes else [])
    known = fault_steps().get(injection.f)
    if known is None and not hit_clients:
        return
    sign = known.SIGN if known is not None else Sign("link", clean(injection.f, 16))
    match sign.effect:
        case "clock":
            for name in hit_nodes or hit_clients:
                marks.jumps.setdefault(name, []).append(Jump(span.start_ns, moved_ns(injection), number))
        case "pause":
            for name in hit_clients or hit_nodes:
                marks.pauses.setdefault(name, []).append(Pause(span, "pause", number))
        case "down":
            for name in hit_clients:
                marks.crashed_ns.setdefault(name, span.start_ns)
            for name in hit_nodes:
                down = Down(span, clean(injection.f.replace("_", " "), 16), number)
                marks.downs.setdefault(name, []).append(down)
        case "promotion" | "key":
            for name in hit_nodes:
                marks.promotions.setdefault(name, []).append(Promotion(span.start_ns, number, sign.words))
        case "link":
            for end in ends:
                for peer in hit_clients or [name for name in nodes if name in named - {end}] or ["all"]:
                    link = LinkFault(
                        clean(peer, 24),
                        span,
                        sign.words,
                        sign.lossy,
                        number,
                        _holds_replies(injection, sign, end),
                    )
                    marks.links.setdefault(end, []).append(link)


def _holds_replies(injection: Injection, sign: Sign, end: str) -> bool:
    """Whether what came back on a link was kept: its receipt has a probe that arrived, and got no answer."""
    seen = (injection.receipt or {}).get(end)
    return not sign.lossy and isinstance(seen, Mapping) and seen.get("probe_arrived") is True


def moved_ns(injection: Injection) -> int | None:
    """How far a clock had moved when the receipt was taken; None: its receipt does not say so."""
    receipt = injection.receipt or {}
    return next((_as_ns(name, value) for name, value in receipt.items() if _stem(name) == "moved"), None)


def _stem(name: str) -> str:
    """A field's name without its unit."""
    stem, _, unit = name.rpartition("_")
    return stem if stem and unit in _UNIT_NS else name


def _as_ns(name: str, value: Any) -> int | None:
    """A number whose name ends in a unit, as nanoseconds."""
    unit = str(name).rsplit("_", 1)[-1]
    if isinstance(value, bool) or not isinstance(value, int | float) or unit not in _UNIT_NS:
        return None
    return round(value * _UNIT_NS[unit])


def receipt_words(receipt: Mapping[str, Any]) -> str:
    """A receipt on one line; equal evidence for several targets is printed once."""
    grouped: dict[str, list[str]] = {}
    for name, value in receipt.items():
        words = _value_words(str(name), value)
        if isinstance(value, Mapping):
            grouped.setdefault(words, []).append(clean(str(name).replace("_", " "), 40))
        elif words:
            grouped.setdefault("", []).append(f"{_label(str(name))} {words}".strip())
    parts = grouped.pop("", [])
    parts += [f"{', '.join(names)}: {words}" for words, names in grouped.items()]
    return clean("; ".join(parts), _LONGEST_RECEIPT)


def _label(name: str) -> str:
    """A field's name without its unit, for people."""
    return clean(_stem(name).replace("_", " "), 40)


def _value_words(name: str, value: Any) -> str:
    """One value of a receipt, with its unit if its name has one."""
    if isinstance(value, Mapping):
        # Round trips differ between links, so that equal evidence could not be grouped; they prove nothing.
        inner = [(str(key), item) for key, item in value.items() if not _is_detail(str(key), item)]
        return ", ".join(f"{_label(key)} {_value_words(key, item)}" for key, item in inner)
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    size = _as_ns(name, value)
    if size is not None:
        return short_duration(size) if abs(size) >= S_NS else duration(size)
    if isinstance(value, list | tuple):
        return clean(", ".join(map(str, value)), 60)
    return clean(value, 60)


def _is_detail(name: str, value: Any) -> bool:
    """Whether a nested value is a measured round trip."""
    return isinstance(value, float) and name.endswith("_ms") and ("probe" in name or "round_trip" in name)
