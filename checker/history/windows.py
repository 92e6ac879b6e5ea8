"""The windows of a grant: what its client believed, what the lock guaranteed, what was possible.

With acquire called at `ca` and returned at `ra`, release called at `cr` and returned at `rr`, drift bound ρ,
margin δ and stamp uncertainty ε (all windows are open intervals, so touching is no overlap). Two clocks err
by up to ρ each, the node's, which counts the TTL, and the recorder's, which stamps: by the recorder's clock
a lease lasts from `TTL⁻ = TTL·(1−ρ)/(1+ρ)` to `TTL⁺ = TTL·(1+ρ)/(1−ρ)`.

* Belief `B`: from `ra` until the client knows better: its release call, the deadline that it was told (the
  TTL that it asked for if it was told none), the return of a failed extension, an answer of `held` that it is
  not, its own crash. What it answers later counts for more: one that says that it is held carries belief on
  to that answer, and for as long as the answer claims, whatever deadline or failed extension lay before.
* Guaranteed `G`: `(ra + ε, min(cr, ca + TTL⁻ − δ, ra + claim⁻) − ε)`. No node that keeps keys for their
  TTL can have let go inside. Where a lock says what it claims, it promises no more, whatever was asked for:
  it may refuse to prolong a lease, and say until when that one lasts. An extension that succeeded moves the
  deadline to `min(ca_e + TTL_e⁻ − δ, ra_e + claim_e⁻)` if it was called before the previous deadline;
  otherwise it opens a new segment at `ra_e`. One that failed and ended its client's belief ends G at its
  call, if it returned in the lease: a lock may give back what it could not extend, and says so, where it may
  not let its client believe in it. A session (a lock without TTL) ends by itself when its client dies, so
  there G ends at the latest when the nemesis set out to kill the client.
* Possible `P`: `(ca − ε, min(rr, ra + TTL⁺) + ε)`; an extension of unknown outcome lengthens it.

B and G come in segments, P in one piece.

An extension may set the time that is left to its TTL, whether that is more or less than before: that is how
most libraries extend. A command that a node has not executed yet may be executed later, even after the
operation returned, since a majority is enough for that. So an extension counts with the shortest TTL that
any extension of its grant asked for up to its call, and one of unknown outcome may move the deadline back to
where its own TTL ends, never on. Neither changes anything before its call.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from checker.history.arrays import group_starts, longer, plus, running_max, shorter
from checker.history.events import Params
from checker.history.grants import Grants
from checker.history.masks import positions, some
from checker.history.operations import I64, MISSING, NEVER, Bools, Index, Status


@dataclass(frozen=True, slots=True)
class Segments:
    """Open intervals `(start_ns, end_ns)`, none empty, each of one grant (a row of `Grants`)."""

    grant: Index
    start_ns: I64
    end_ns: I64

    def __len__(self) -> int:
        return int(self.grant.size)


def guaranteed(grants: Grants, params: Params, deaths_ns: I64, open_ends_ns: I64) -> Segments:
    """The segments of G of every certain grant.

    `deaths_ns`, shape (number of grants,), is when the client of each may have died at the earliest, `NEVER`
    if it lived on: there a lock without TTL may end. `open_ends_ns` is from when on each may be gone
    otherwise (`checker.history.renaming.open_ends`), or was given up.
    """
    extensions = grants.extensions
    ttl = grants.ttl_ns
    deadline = plus(grants.called_ns, shorter(ttl, params.rho) - np.where(ttl < NEVER, params.delta_ns, 0))
    deadline = np.minimum(deadline, promised(grants.acquired_ns, grants.claimed_ns, params.rho))
    cautious, counts = _cautious(grants)
    moved = shorter(cautious, params.rho) - np.where(cautious < NEVER, params.delta_ns, 0)
    claimed = promised(extensions.return_ns, extensions.claimed_ns, params.rho)
    segments = _segments(
        grants.held,
        grants.acquired_ns,
        deadline,
        extensions.grant[counts],
        in_time_ns=extensions.call_ns[counts],
        reopen_ns=extensions.return_ns[counts],
        deadline_ns=np.minimum(plus(extensions.call_ns, moved), claimed)[counts],
        succeeded=extensions.status[counts] == Status.OK,
    )
    epsilon = params.epsilon_ns
    given_up = np.minimum(grants.release_call_ns, open_ends_ns)[segments.grant]
    of_session = np.minimum(given_up, deaths_ns[segments.grant])
    end = np.minimum(segments.end_ns, np.where(segments.end_ns >= NEVER, of_session, given_up))
    return _proper(segments.grant, segments.start_ns + epsilon, end - epsilon)


def promised(returned_ns: I64, claimed_ns: I64, rho: float) -> I64:
    """Until when calls that returned then promise a lease by their claims; `NEVER` without a claim."""
    ends_ns = plus(returned_ns, shorter(np.maximum(claimed_ns, 0), rho))
    return np.where(claimed_ns == MISSING, NEVER, ends_ns)


@dataclass(frozen=True, slots=True)
class Answers:
    """What `held` answered, shape (n,): about which grant (a row of `Grants`), yes or no, until when.

    `until_ns` is the return of the answer or, if it claimed some time, the end of that; a client whose
    extension failed and which says whether it still believes gives such an answer as well (`extends`).
    """

    grant: Index
    extends: Bools
    yes: Bools
    called_ns: I64
    returned_ns: I64
    until_ns: I64


def believed(grants: Grants, params: Params, ends_ns: I64, said: Answers) -> Segments:
    """The segments of B of every grant whose client was told of it.

    `ends_ns`, shape (number of grants,), is when the client died, `NEVER` if it lived on. The bounds are
    narrowed by ε on either side.
    """
    extensions = grants.extensions
    done, failed = extensions.status == Status.OK, extensions.status == Status.FAIL
    until_ns = plus(
        grants.acquired_ns, np.where(grants.claimed_ns == MISSING, grants.ttl_ns, grants.claimed_ns)
    )
    claim = np.where(extensions.claimed_ns == MISSING, extensions.ttl_ns, extensions.claimed_ns)
    segments = _segments(
        grants.returned,
        grants.acquired_ns,
        until_ns,
        extensions.grant[done],
        in_time_ns=extensions.return_ns[done],
        reopen_ns=extensions.return_ns[done],
        deadline_ns=plus(extensions.return_ns[done], claim[done]),
        succeeded=done[done],
    )
    knows = np.minimum(grants.release_call_ns, ends_ns)
    last_yes = np.full(len(grants), MISSING, np.int64)
    in_time = said.yes & (said.returned_ns <= knows[said.grant])
    np.maximum.at(last_yes, said.grant[in_time], said.returned_ns[in_time])
    gone, no = extensions.grant[failed], said.grant[~said.yes]
    for grant, at_ns in ((gone, extensions.return_ns[failed]), (no, said.returned_ns[~said.yes])):
        final = at_ns > last_yes[grant]
        np.minimum.at(knows, grant[final], at_ns[final])
    until = np.full(len(grants), MISSING, np.int64)
    np.maximum.at(until, said.grant[in_time], said.until_ns[in_time])
    segments = _carried_on(segments, grants.acquired_ns, np.minimum(until, knows))
    end = np.minimum(segments.end_ns, knows[segments.grant])
    return _proper(segments.grant, segments.start_ns + params.epsilon_ns, end - params.epsilon_ns)


def _carried_on(segments: Segments, start_ns: I64, until_ns: I64) -> Segments:
    """The segments, those of a grant up to `until_ns` made one where belief was said to last so long."""
    early = segments.end_ns < until_ns[segments.grant]
    if not some(early):
        return segments
    start, end = segments.start_ns.copy(), segments.end_ns.copy()
    carried = np.unique(segments.grant[early])
    theirs = np.isin(segments.grant, carried) & (start <= until_ns[segments.grant])
    last = np.full(until_ns.size, MISSING, np.int64)
    np.maximum.at(last, segments.grant[theirs], end[theirs])
    kept = ~theirs
    return Segments(
        np.concatenate([segments.grant[kept], carried]),
        np.concatenate([start[kept], start_ns[carried]]),
        np.concatenate([end[kept], np.maximum(last, until_ns)[carried]]),
    )


def expiry(grants: Grants, params: Params) -> I64:
    """When the last lease of a grant was over at the latest: `max(ra + TTL⁺)`; `NEVER` if unknown."""
    extensions = grants.extensions
    end = plus(grants.acquired_ns, longer(grants.ttl_ns, params.rho))
    may = extensions.status != Status.FAIL
    late = plus(extensions.return_ns[may], longer(extensions.ttl_ns[may], params.rho))
    np.maximum.at(end, extensions.grant[may], late)
    return end


def possible(grants: Grants, params: Params) -> Segments:
    """P of every grant, also of those that nobody confirmed; `NEVER` where it does not end."""
    end = np.minimum(grants.release_return_ns, expiry(grants, params))
    end = np.where(end >= NEVER, NEVER, end + params.epsilon_ns)
    return Segments(np.arange(len(grants)), grants.called_ns - params.epsilon_ns, end)


def _cautious(grants: Grants) -> tuple[I64, Bools]:
    """The TTL with which each extension counts for G, and which of them count, shape (extensions,) each.

    A node may execute an earlier extension last, so each counts for no more than the shortest that was called
    up to it. Those that failed had no effect. One of unknown outcome can only end a lease earlier, and that
    only where TTLs differ.
    """
    extensions = grants.extensions
    certain = extensions.status == Status.OK
    if not len(extensions):
        return extensions.ttl_ns, certain
    may = positions(extensions.status != Status.FAIL)
    grant, asked = extensions.grant[may], extensions.ttl_ns[may]
    differs = np.zeros(len(grants), bool)
    differs[grant[asked != grants.ttl_ns[grant]]] = True
    if not some(differs):
        return extensions.ttl_ns, certain
    ttl = extensions.ttl_ns.copy()
    ttl[may] = -running_max(-asked, grant)
    unsure = (extensions.status == Status.INFO) & differs[extensions.grant]
    return ttl, certain | unsure


def _segments(
    certain: Bools,
    start_ns: I64,
    first_deadline_ns: I64,
    extended: Index,
    *,
    in_time_ns: I64,
    reopen_ns: I64,
    deadline_ns: I64,
    succeeded: Bools,
) -> Segments:
    """Walk through the extensions of all grants at once, the k-th of each in round k.

    An extension with `in_time_ns` before the running deadline moves it to `deadline_ns`, a later one closes
    the segment and opens the next at `reopen_ns`. One that is not known to have `succeeded` may only move the
    running deadline back. Extensions are ordered by grant, then call.
    """
    last = positions(certain)
    if not extended.size:
        return Segments(last, start_ns[last], first_deadline_ns[last])
    start, end = start_ns.copy(), first_deadline_ns.copy()
    closed: list[tuple[Index, I64, I64]] = []
    starts = group_starts(extended)
    counts = np.diff(np.append(starts, extended.size))
    alive, turn = starts, 0
    while alive.size:
        at = alive + turn
        grant = extended[at]
        passed = in_time_ns[at] >= end[grant]
        late = passed & succeeded[at]
        earlier = np.where(passed, end[grant], np.minimum(deadline_ns[at], end[grant]))
        moved = np.where(succeeded[at], deadline_ns[at], earlier)
        over = grant[late]
        closed.append((over, start[over], end[over]))
        start[over] = reopen_ns[at][late]
        end[grant] = moved
        turn += 1
        more = counts > turn
        alive, counts = alive[more], counts[more]
    grant = np.concatenate([last, *(g[certain[g]] for g, _, _ in closed)])
    begin = np.concatenate([start[last], *(s[certain[g]] for g, s, _ in closed)])
    stop = np.concatenate([end[last], *(e[certain[g]] for g, _, e in closed)])
    return Segments(grant, begin, stop)


def _proper(grant: Index, start_ns: I64, end_ns: I64) -> Segments:
    kept = start_ns < end_ns
    return Segments(grant[kept], start_ns[kept], end_ns[kept])
