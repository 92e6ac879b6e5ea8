"""The timeline as a flat list of marks on lanes, with texts, for page and terminal.

Drawing these marks needs no knowledge of locks; their meaning is decided in `lab.report.timeline.data`, as it
is for the picture on paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lab.report.timeline.axis import build_axis
from lab.report.timeline.labels import (
    announcement_words,
    attempt_words,
    down_words,
    jump_words,
    life_words,
    link_words,
    pause_words,
    reply_words,
    use_words,
    write_words,
)
from lab.report.timeline.model import (
    Announcement,
    Attempt,
    ClientLane,
    Fault,
    Grant,
    Jump,
    KeyLife,
    LinkFault,
    NodeLane,
    Pause,
    Reply,
    Span,
    StoreWrite,
    Timeline,
    Use,
)
from lab.report.timeline.words import circled, duration, short_duration, signed

STORE = "store"
_WIDTH = 1000.0
_OUTCOMES = {"ok": "ok", "fail": "refused", "info": "unknown whether it took effect"}
_ENDS = {
    "expired": "it expired",
    "deleted": "it was deleted by its client",
    "jump": "the node’s clock jumped beyond its end",
    "down": "the node went down",
    "gone": "it was found missing",
    "replaced": "another one took its place",
    "open": "it was there to the end",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """Something on a lane, from `t0` to `t1` (ns since the start; None: open); the page draws it by `kind`.

    `tip` are the lines of its explanation, `tone` the position of its client's colour (-1: no client),
    `findings` the names of its violations, `warnings` those of its warnings, `fault` the number of its fault,
    `cause` whether a violation is put down to that fault, `note` a text of its own below the mark.
    """

    lane: str
    kind: str
    t0: int
    t1: int | None
    tip: tuple[str, ...]
    label: str = ""
    tone: int = -1
    findings: tuple[str, ...] = ()
    fault: int = 0
    outcome: str = ""
    warnings: tuple[str, ...] = ()
    cause: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class Lane:
    """A horizontal strip: of a node, a client or the store."""

    id: str
    kind: str
    name: str
    tone: int = -1


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message from one lane to another; `lost` if it never arrived, `held` if it was kept on the way."""

    lane0: str
    t0: int
    lane1: str
    t1: int
    tone: int
    lost: bool = False
    guilty: bool = False
    held: bool = False


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that the page draws. `panels`: pieces of the axis as (t0, t1, u0, u1), u from 0 to 1."""

    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    arrows: tuple[Arrow, ...]
    panels: tuple[tuple[float, float, float, float], ...]
    last: int


def scene_of(timeline: Timeline) -> Scene:
    """The marks of a timeline; the panels of its axis are those of the picture on paper."""
    tones = {name: at for at, name in enumerate(sorted(client.name for client in timeline.clients))}
    lanes = [Lane(node_id(node.name), "node", f"node {node.name}") for node in timeline.nodes]
    lanes += [Lane(client.name, "client", client.name, tones[client.name]) for client in timeline.clients]
    if timeline.writes or timeline.announcements:
        lanes.append(Lane(STORE, "store", "store"))
    forced = [(gap.start_ns, gap.end_ns or gap.start_ns) for gap in timeline.gaps]
    axis = build_axis(timeline.moments, timeline.window_ends, 0.0, _WIDTH, forced)
    marks = [*_faults(timeline)]
    for node in timeline.nodes:
        marks += _node(node, timeline.faults, tones)
    for client in timeline.clients:
        replies = [one for node in timeline.nodes for one in node.replies if one.client == client.name]
        marks += _client(client, tones[client.name], replies)
    marks += [_link(STORE, link, tones) for link in timeline.store_links if timeline.writes]
    marks += [mark for write in timeline.writes for mark in _write(timeline, write, tones)]
    marks += [_announcement(announced, tones) for announced in timeline.announcements]
    marks += _findings(timeline)
    return Scene(
        tuple(lanes),
        tuple(replace(mark, cause=True) if timeline.is_cause(mark.fault) else mark for mark in marks),
        tuple(_arrows(timeline, tones)),
        tuple((p.start_ns, p.end_ns, p.x0 / _WIDTH, p.x1 / _WIDTH) for p in axis.panels),
        timeline.last_ns,
    )


def node_id(name: str) -> str:
    """A node's lane; a client may have the same name."""
    return f"node:{name}"


def when(span: Span) -> str:
    """From when to when, and how long that was."""
    if span.end_ns is None:
        return f"from {duration(span.start_ns)} on"
    if span.end_ns == span.start_ns:
        return f"at {duration(span.start_ns)}"
    lasted = duration(span.end_ns - span.start_ns)
    return f"from {duration(span.start_ns)} to {duration(span.end_ns)} ({lasted})"


def _lines(*parts: str | None) -> tuple[str, ...]:
    return tuple(part for part in parts if part)


def fault_lines(fault: Fault) -> tuple[str, ...]:
    """A fault with its receipt, in lines."""
    return _lines(
        f"fault {fault.number}: {fault.name} {fault.target}",
        when(fault.span),
        f"receipt: {fault.receipt}" if fault.receipt else "NO RECEIPT: nothing proves that it took effect",
        f"it breaks the assumption of {fault.breaks}" if fault.breaks else None,
        f"cause of: {', '.join(fault.causes)}" if fault.causes else None,
    )


def _faults(timeline: Timeline) -> Iterator[Mark]:
    for fault in timeline.faults:
        words = f"{circled(fault.number)} {fault.name} {fault.target}"
        span = fault.span
        yield Mark("", "fault", span.start_ns, span.end_ns, fault_lines(fault), words, fault=fault.number)


def _node(node: NodeLane, faults: Sequence[Fault], tones: dict[str, int]) -> Iterator[Mark]:
    lane = node_id(node.name)
    for link in node.links:
        yield _link(lane, link, tones)
    for down in node.downs:
        by = None if down.fault is None else f"fault {down.fault}: {down.words}"
        tip, span = _lines(f"node {node.name} was down", when(down.span), by), down.span
        yield Mark(lane, "down", span.start_ns, span.end_ns, tip, down_words(down), fault=down.fault or 0)
    for pause in node.pauses:
        yield _pause(lane, f"node {node.name}", pause)
    for life in node.lives:
        yield from _life(lane, node.name, life, tones)
    for jump in node.jumps:
        yield _jump(lane, f"the clock of node {node.name}", jump, faults)
    for loss in node.losses:
        tip = (f"{loss.words} took the holder’s key away", f"at {duration(loss.at_ns)}")
        yield Mark(lane, "loss", loss.at_ns, loss.at_ns, tip, loss.words, cause=True)
    for promotion in node.promotions:
        tip = (f"node {node.name}: {promotion.words}", f"at {duration(promotion.at_ns)}")
        label = f"{circled(promotion.fault)} {promotion.words}"
        yield Mark(lane, "promotion", promotion.at_ns, promotion.at_ns, tip, label, fault=promotion.fault)


def _life(lane: str, node: str, life: KeyLife, tones: dict[str, int]) -> Iterator[Mark]:
    tone = tones.get(life.owner or "", -1)
    owner = f"{life.owner}’s key" if life.owner else "a key of an unknown client"
    early = None
    end = life.span.end_ns
    if life.promised_ns is not None and end is not None and life.promised_ns > end:
        missing = life.promised_ns - end
        early = f"it should have stayed until {duration(life.promised_ns)}: {duration(missing)} longer"
        words = f"node {node} no longer had {owner}"
        gone = (words, f"which it was to keep until {duration(life.promised_ns)}")
        yield Mark(lane, "ghost", end, life.promised_ns, gone, tone=tone)
    tip = _lines(
        f"node {node} had {owner}",
        when(life.span),
        f"its end: {_ENDS.get(life.ended_by, life.ended_by)}",
        early,
        f"token {life.token[:16]}…" if life.token and len(life.token) > 17 else None,
    )
    yield Mark(lane, "life", life.span.start_ns, end, tip, life_words(life), tone)


def _link(lane: str, link: LinkFault, tones: dict[str, int]) -> Mark:
    where = "the store" if lane == STORE else lane.replace(":", " ", 1)
    tip = (f"{link_words(link)}, to {where}", when(link.span))
    tone, span = tones.get(link.peer, -1), link.span
    return Mark(lane, "link", span.start_ns, span.end_ns, tip, link_words(link), tone, (), link.fault)


def _pause(lane: str, name: str, pause: Pause) -> Mark:
    injected = pause.kind == "pause"
    why = "paused by the nemesis" if injected else "not injected: the machine was busy"
    tip = (f"{name} {'was paused' if injected else 'stalled'}", when(pause.span), why)
    kind = "pause" if injected else "stall"
    return Mark(
        lane, kind, pause.span.start_ns, pause.span.end_ns, tip, pause_words(pause), fault=pause.fault or 0
    )


def _jump(lane: str, what: str, jump: Jump, faults: Sequence[Fault]) -> Mark:
    """A step of a clock; the mark lasts until the fault was healed, to show the clock's error on the lane."""
    if jump.by_ns is None:
        moved = "was moved"
    else:
        size = short_duration(abs(jump.by_ns))
        ahead = "ahead" if jump.by_ns > 0 else "behind"
        moved = f"was moved by {signed(jump.by_ns)}: from here on it is {size} {ahead}"
    until = next((fault.span.end_ns for fault in faults if fault.number == jump.fault), None)
    corrected = f"corrected at {duration(until)}" if until is not None else None
    tip = _lines(f"{what} {moved}", f"at {duration(jump.at_ns)}", corrected)
    return Mark(lane, "jump", jump.at_ns, until, tip, jump_words(jump), fault=jump.fault)


def _client(client: ClientLane, tone: int, replies: Sequence[Reply]) -> Iterator[Mark]:
    for grant in client.grants:
        yield from _grant(client.name, grant, tone)
    for pause in client.pauses:
        yield _pause(client.name, client.name, pause)
    for attempt in client.attempts:
        yield _attempt(client.name, attempt, tone)
    for use in client.uses:
        yield _use(client.name, use, tone)
    for jump in client.jumps:
        yield _jump(client.name, f"{client.name}’s clock", jump, ())
    if replies:
        start, end = min(reply.sent_ns for reply in replies), max(reply.end_ns for reply in replies)
        delivered = max(reply.delivered_ns for reply in replies)
        at = f"held back, delivered at {duration(delivered)}"
        held = (reply_words(replies), at, when(Span(start, end)))
        yield Mark(client.name, "reply", start, end, held, reply_words(replies), tone, fault=replies[0].fault)
    if client.crashed_ns is not None:
        tip = (f"{client.name} was killed", f"at {duration(client.crashed_ns)}")
        yield Mark(client.name, "crash", client.crashed_ns, client.crashed_ns, tip, "crashed")


def _grant(name: str, grant: Grant, tone: int) -> Iterator[Mark]:
    which = f"grant {grant.grant_id}" + (f", fence {grant.fence}" if grant.fence is not None else "")
    for span in grant.belief:
        tip = (f"{name} believed that it held the lock", when(span), which)
        yield Mark(name, "belief", span.start_ns, span.end_ns, tip, "believes", tone)
    for span in grant.guaranteed:
        tip = (f"{name} was guaranteed to hold the lock", when(span), which)
        yield Mark(name, "sure", span.start_ns, span.end_ns, tip, "holds the lock", tone)
    for claim in grant.claimed_ns:
        tip = (f"the end of {name}’s lease, as reported by the lock", f"at {duration(claim)}", which)
        yield Mark(name, "claim", claim, claim, tip, tone=tone)


def _attempt(name: str, attempt: Attempt, tone: int) -> Mark:
    tip = _lines(
        f"{name}: {attempt.kind}, {_OUTCOMES[attempt.outcome]}",
        when(attempt.span),
        f"grant {attempt.grant_id}" if attempt.grant_id else None,
        f"event {attempt.index} of the history",
        *(f"✗ {name}" for name in attempt.guilty),
    )
    kind = "release" if attempt.kind == "release" and attempt.outcome == "ok" else "attempt"
    words, span = attempt_words(attempt), attempt.span
    return Mark(
        name, kind, span.start_ns, span.end_ns, tip, words, tone, attempt.guilty, outcome=attempt.outcome
    )


def _use(name: str, use: Use, tone: int) -> Mark:
    verb = "read" if use.kind == "read" else "wrote"
    version = f" version {use.version}" if use.version is not None else ""
    tip = _lines(
        f"{name} {verb}{version}, {'rejected' if use.outcome == 'fail' else _OUTCOMES[use.outcome]}",
        when(use.span),
        f"with fence {use.fence}" if use.fence is not None else None,
        f"event {use.index} of the history",
        *(f"✗ {finding}" for finding in use.guilty),
        *(f"! {finding}" for finding in use.warned),
    )
    words, span = use_words(use), use.span
    return Mark(
        name,
        use.kind,
        span.start_ns,
        span.end_ns,
        tip,
        words,
        tone,
        use.guilty,
        outcome=use.outcome,
        warnings=use.warned,
    )


def _write(timeline: Timeline, write: StoreWrite, tones: dict[str, int]) -> Iterator[Mark]:
    done = f"accepted{f' as version {write.version}' if write.version is not None else ''}"
    if write.between is None:
        at = f"executed at {duration(write.at_ns)}"
    else:
        at = f"executed at some time {when(write.between)}: when exactly was not recorded"
    tip = _lines(
        f"the store: {write.client}’s write, {done if write.accepted else 'rejected'}",
        at,
        f"with fence {write.fence}" if write.fence is not None else None,
        f"its answer: {write.error}" if write.error else None,
        *(f"✗ {name}" for name in write.guilty),
    )
    kind = "accepted" if write.accepted else "rejected"
    tone = tones.get(write.client, -1)
    if write.between is not None:
        span = write.between
        yield Mark(STORE, "between", span.start_ns, span.end_ns, tip, tone=tone, findings=write.guilty)
    note = timeline.consequences(write.guilty) if write.guilty else ""
    yield Mark(STORE, kind, write.at_ns, write.at_ns, tip, write_words(write), tone, write.guilty, note=note)


def _announcement(announced: Announcement, tones: dict[str, int]) -> Mark:
    tip = (
        f"the store: {announcement_words(announced)}",
        f"at {duration(announced.at_ns)}",
        "from here on it accepts only writes with this token",
    )
    tone = tones.get(announced.client or "", -1)
    return Mark(
        STORE, "announced", announced.at_ns, announced.at_ns, tip, announcement_words(announced), tone
    )


def _findings(timeline: Timeline) -> Iterator[Mark]:
    """Bands where windows overlap (on the upper of the two lanes, down to the lower), and flags."""
    at = {client.name: position for position, client in enumerate(timeline.clients)}
    for band in timeline.bands:
        known = sorted((name for name in band.clients if name in at), key=lambda name: at[name])
        if known:
            span = band.span
            tip = (f"{band.clients[0]} and {band.clients[1]}: {band.words}", when(span))
            lanes = f"{known[0]}\n{known[-1]}"
            yield Mark(lanes, "band", span.start_ns, span.end_ns, tip, band.words, -1, (band.name,))
    for flag in timeline.flags:
        tip = (f"✗ {', '.join(flag.names)}", f"{flag.lane}, at {duration(flag.at_ns)}")
        words = timeline.consequences(flag.names)
        yield Mark(flag.lane, "flag", flag.at_ns, flag.at_ns, tip, words, -1, flag.names)


def _arrows(timeline: Timeline, tones: dict[str, int]) -> Iterator[Arrow]:
    for node in timeline.nodes:
        for life in node.lives:
            if life.owner in tones and life.asked_ns is not None:
                owner = str(life.owner)
                yield Arrow(owner, life.asked_ns, node_id(node.name), life.span.start_ns, tones[owner])
    for client in timeline.clients:
        for missed in client.cut_tries:
            to = node_id(missed.node)
            yield Arrow(client.name, missed.at_ns, to, missed.at_ns, tones[client.name], lost=True)
    for write in timeline.writes:
        if write.client in tones:
            tone, guilty = tones[write.client], bool(write.guilty)
            yield Arrow(write.client, write.asked_ns, STORE, write.at_ns, tone, guilty=guilty)
    for node in timeline.nodes:
        for reply in node.replies:
            if reply.client in tones:
                tone = tones[reply.client]
                yield Arrow(node_id(node.name), reply.sent_ns, reply.client, reply.end_ns, tone, held=True)
    for announced in timeline.announcements:
        if announced.client in tones:
            at_ns, tone = announced.at_ns, tones[announced.client]
            yield Arrow(announced.client, at_ns, STORE, at_ns, tone)
