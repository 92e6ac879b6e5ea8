"""Whether a lock may be taken again by the client that holds it: then to do so is no violation.

Such a lock is tried with a holder that takes it again, without faults, and alone as long as its lease lasts:
what another client may get meanwhile the checker counts from each grant's own call, and only the first of
them made the lease.
"""

from __future__ import annotations

from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine.programs import ALICE, BOB, Setting
from lab.search.runner import run_trial
from lab.search.trial import Round, Trial


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
