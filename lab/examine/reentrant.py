"""Whether a lock may be taken again by the client that holds it: then to do so is no violation.

Such a lock is tried with a holder that takes it again, without faults, and alone while it holds it twice:
what another client may get meanwhile the checker counts from each grant's own call, and only the first of
them made the lease. When the inner grant was given back, another client asks as long as the outer one lasts,
if the lock counts: where one release gives back all that a client has, nobody is kept out after that.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine.programs import ALICE, BOB, MS_NS, S_NS, Setting
from lab.scenario.steps import Acquire, Release
from lab.search.as_tracks import tracks_of
from lab.search.runner import run_trial
from lab.search.trial import Round, Track, Trial

LONG_TTL_NS: Final = 60 * S_NS
PART: Final = 0.02
"""What part of a lease Alice holds a grant, and what she waits before she takes the lock again."""
SOON: Final = (3 * PART + 0.0005,)
"""When Bob asks just after her release: with a long lease some 30 ms after it was called."""
AT_ONCE_NS: Final = 20 * MS_NS
"""By so much longer than Alice's may an acquire take that asked once."""
BOB_ASKS: Final = (0.2, 0.2, 0.2, 0.2, 0.1)
"""His pauses as long as her first lease counts."""


def takes_again(trial: Trial) -> bool:
    """Whether a client asks for the lock again before it gives back what it may have."""
    return any(map(_asks_again, tracks_of(trial).values()))


def _asks_again(track: Track) -> bool:
    asked = False
    for step in (timed.step for timed in track):
        if isinstance(step, Acquire) and step.key is None:
            if asked:
                return True
            asked = True
        elif isinstance(step, Release) and step.key is None:
            asked = False
    return False


def is_reentrant(setting: Setting) -> bool:
    """Whether the holder is granted the lock again while another client is refused it.

    Raises:
        SimulationError: the lock reached out of the simulation.
    """
    ttl_ns = setting.ttl_ns
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns // 10, ends="keep"), Round(ttl_ns // 5, ttl_ns // 10)),
        BOB: (Round(ttl_ns * 15 // 100, 0),),
    }
    try:
        events = run_trial(setting.with_clients(clients, demand=False)).events
    except UnknownOutcome:
        return False
    ended = [e for e in events if e["f"] == "acquire" and e["type"] in ("ok", "fail")]
    refused = any(e["client"] == BOB and e["type"] == "fail" for e in ended)
    granted = [e for e in ended if e["client"] == ALICE and e["type"] == "ok"]
    return refused and len(granted) == 2 and granted[1]["time_ns"] - granted[0]["time_ns"] < ttl_ns // 2


def counts(setting: Setting) -> bool:
    """Whether another client is not granted a reentrant lock at once after its holder gave back one of two.

    An acquire that asks again by itself may be granted it later.

    Raises:
        SimulationError: the lock reached out of the simulation.
    """
    try:
        events = run_trial(given_back_once(setting.with_ttl(LONG_TTL_NS), SOON)).events
    except UnknownOutcome:
        return False
    at_ns = {(e["client"], e["f"], e["type"]): e["time_ns"] for e in reversed(events)}
    released_ns, asked_ns = at_ns.get((ALICE, "release", "ok")), at_ns.get((BOB, "acquire", "invoke"))
    if released_ns is None or asked_ns is None or asked_ns < released_ns:
        return False
    usual_ns = at_ns[ALICE, "acquire", "ok"] - at_ns[ALICE, "acquire", "invoke"]
    granted_ns = at_ns.get((BOB, "acquire", "ok"))
    return granted_ns is None or granted_ns - asked_ns > usual_ns + AT_ONCE_NS


def given_back_once(setting: Setting, bob: tuple[float, ...] = BOB_ASKS) -> Trial:
    """Alice takes the lock twice and gives it back once; Bob asks while her first lease still counts.

    ``bob``: his pauses, in leases.
    """
    ttl_ns = setting.ttl_ns
    part_ns = int(PART * ttl_ns)
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, part_ns, ends="keep"), Round(part_ns, part_ns)),
        BOB: tuple(Round(int(pause * ttl_ns), part_ns) for pause in bob),
    }
    return replace(setting.with_clients(clients, demand=False), reentrant=True)


def taken_again(setting: Setting, *, late: bool = False, by_then_bobs: bool = False) -> Trial:
    """Alice takes the lock again in the middle of her lease, and gives back what she took last.

    With ``late`` her lease was over by then: what she is granted must be a lease that begins anew. With
    ``by_then_bobs``, too, and Bob holds the lock.
    """
    ttl_ns = setting.ttl_ns
    pause_ns = ttl_ns if late or by_then_bobs else ttl_ns // 10
    rounds = (Round(0, ttl_ns // 2, ends="keep"), Round(pause_ns, ttl_ns // 10))
    clients: dict[str, tuple[Round, ...]] = {ALICE: rounds}
    if by_then_bobs:
        clients[BOB] = (Round(ttl_ns * 105 // 100, ttl_ns * 6 // 10),)
    return replace(setting.with_clients(clients, demand=False), reentrant=True)
