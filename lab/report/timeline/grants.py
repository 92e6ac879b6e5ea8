"""The grants that are drawn, with the checker's windows, and the owners of the tokens on the nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from checker.history.evidence import Evidence
from checker.history.operations import MISSING, NEVER, NONE, F, Status
from checker.history.windows import Segments
from lab.report.timeline.excerpt import Excerpt
from lab.report.timeline.model import Grant, Span
from lab.report.timeline.nodes import TokenOwner
from lab.report.timeline.words import clean


def grants_shown(evidence: Evidence, key: str | None, excerpt: Excerpt) -> list[tuple[str, Grant]]:
    """Pairs of a client and a grant of the key shown, whose windows reach into what is drawn."""
    ops, grants = evidence.ops, evidence.grants
    belief = _spans(evidence, evidence.believed, excerpt)
    sure = _spans(evidence, evidence.guaranteed, excerpt)
    found: list[tuple[str, Grant]] = []
    for position, span in _brief(evidence, excerpt):
        belief.setdefault(position, (span,))
    for position in sorted({*belief, *sure}):
        row = int(grants.row[position])
        if key is None or ops.name("key", row) == key:
            grant = _grant(evidence, position, belief.get(position, ()), sure.get(position, ()))
            found.append((evidence.client(row), grant))
    return found


def _brief(evidence: Evidence, excerpt: Excerpt) -> Iterator[tuple[int, Span]]:
    """Grants released so soon that stamps are too uncertain for a window of the checker."""
    grants, start_ns = evidence.grants, evidence.history.zero_ns
    released = grants.held & (grants.release_call_ns < NEVER)
    released &= grants.release_call_ns - grants.acquired_ns <= 2 * evidence.params.epsilon_ns
    for position in np.flatnonzero(released).tolist():
        span = Span(
            int(grants.acquired_ns[position]) - start_ns, int(grants.release_call_ns[position]) - start_ns
        )
        if excerpt.shows(span.start_ns, span.end_ns):
            yield position, span


def _spans(evidence: Evidence, segments: Segments, excerpt: Excerpt) -> dict[int, tuple[Span, ...]]:
    """The segments that reach into what is drawn, by grant, as spans since the start."""
    start_ns, end_ns = (column - evidence.history.zero_ns for column in (segments.start_ns, segments.end_ns))
    kept = np.full(len(segments), not excerpt.shown)
    for span in excerpt.shown:
        last = span.start_ns if span.end_ns is None else span.end_ns
        kept |= (start_ns <= last) & (end_ns >= span.start_ns)
    found: dict[int, tuple[Span, ...]] = {}
    columns = (segments.grant[kept].tolist(), start_ns[kept].tolist(), end_ns[kept].tolist())
    for grant, start, end in zip(*columns, strict=True):
        found[grant] = (*found.get(grant, ()), Span(start, None if end >= NEVER // 2 else end))
    return found


def _grant(evidence: Evidence, position: int, belief: tuple[Span, ...], sure: tuple[Span, ...]) -> Grant:
    ops, grants = evidence.ops, evidence.grants
    row, fence = int(grants.row[position]), int(grants.fence[position])
    ends = {span.end_ns for span in belief}
    return Grant(
        grant_id=ops.name("grant", row) or f"row {row}",
        belief=belief,
        guaranteed=sure,
        claimed_ns=tuple(claim for claim in _claims(evidence, position) if claim in ends),
        fence=None if fence == MISSING else fence,
    )


def _claims(evidence: Evidence, position: int) -> list[int]:
    """The deadlines that the lock reported to the client, less the uncertainty of stamps as in the belief.

    Only those are drawn at which the belief ended: not those after a release.
    """
    grants, extensions = evidence.grants, evidence.grants.extensions
    reported = [(int(grants.acquired_ns[position]), int(grants.claimed_ns[position]))]
    for at in np.flatnonzero((extensions.grant == position) & (extensions.status == Status.OK)).tolist():
        reported.append((int(extensions.return_ns[at]), int(extensions.claimed_ns[at])))
    off = evidence.history.zero_ns + evidence.params.epsilon_ns
    return [at + claim - off for at, claim in reported if claim != MISSING]


def token_owners(evidence: Evidence, tokens: Iterable[str]) -> dict[str, list[TokenOwner]]:
    """The clients that requested the lock with each of these tokens, from their acquires."""
    ops, grants, start_ns = evidence.ops, evidence.grants, evidence.history.zero_ns
    wanted = set(tokens)
    codes = [code for code, name in enumerate(ops.names.token) if name in wanted]
    rows = np.flatnonzero((ops.f == F.ACQUIRE) & (ops.token != NONE) & np.isin(ops.token, codes))
    owners: dict[str, list[TokenOwner]] = {}
    for row in rows.tolist():
        released: int | None = None
        position = int(grants.of(ops.grant[row : row + 1])[0])
        if ops.status[row] != Status.OK:
            released = int(ops.call_ns[row]) - start_ns
        elif position >= 0 and grants.release_call_ns[position] < NEVER:
            released = int(grants.release_call_ns[position]) - start_ns
        owner = TokenOwner(clean(evidence.client(row), 40), int(ops.call_ns[row]) - start_ns, released)
        owners.setdefault(str(ops.name("token", row)), []).append(owner)
    for each in owners.values():
        each.sort(key=lambda owner: owner.asked_ns)
    return owners
