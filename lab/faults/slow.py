"""The receipt of ``delay`` and ``bandwidth``: how long a probe takes, before and after."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from lab.faults.base import AROUND_TIMEOUT_S, Receipt, answers, ms, server_behind, together
from lab.substrates.base import Cluster, Link, Probe

PROBES: Final = 3
CHANCE_NS: Final = 250_000_000
"""How late an undisturbed probe can be on a busy machine."""
QUICK_PATIENCE_S: Final = 2.0


async def quick(link: Link, less_than_ns: int, payload_bytes: int = 5) -> Probe:
    """A probe quicker than ``less_than_ns``, or the quickest of those tried.

    On a busy machine single probes are late, so more are tried for a while; not if a fault slows the link.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + QUICK_PATIENCE_S
    quickest = await link.probe(AROUND_TIMEOUT_S, payload_bytes)
    while quickest.reached and quickest.round_trip_ns >= less_than_ns and loop.time() < give_up:
        if await link.troubles():
            give_up = loop.time()
        again = await link.probe(AROUND_TIMEOUT_S, payload_bytes)
        quickest = min(quickest, again, key=lambda probe: (not probe.reached, probe.round_trip_ns))
    return quickest


async def quickest(link: Link, least_ns: int, timeout_s: float, payload_bytes: int = 5) -> Probe:
    """The quickest of a few probes, one after the other; one suffices beyond ``CHANCE_NS``."""
    count = PROBES if least_ns < CHANCE_NS else 1
    probes = [await link.probe(timeout_s, payload_bytes) for _ in range(count)]
    return min(probes, key=lambda probe: (not probe.reached, probe.round_trip_ns))


async def round_trips_changed(
    links: Sequence[Link],
    before: Sequence[Probe],
    after: Sequence[Probe],
    takes_ns: tuple[int, int],
    cluster: Cluster,
) -> Receipt:
    """Confirmed if every probe took at least ``takes_ns[0]`` afterwards, and less before.

    If a link was slower before than it is to be now, a probe must afterwards take a time nearer to the most
    that was requested, ``takes_ns[1]``, than to what it took before.
    """
    least_ns, most_ns = takes_ns
    shown: dict[str, tuple[bool, dict[str, Any]]] = {}
    for link, was, now in zip(links, before, after, strict=True):
        if not now.reached and not await answers(server_behind(link, cluster)):
            troubles = await link.troubles()
            shown[link.target] = bool(troubles), {"probe_around_ms": None, "link": troubles}
            continue
        took_ns = was.round_trip_ns if was.reached else int(AROUND_TIMEOUT_S * 1e9)  # or longer
        became_slow = took_ns < least_ns
        became_quicker = most_ns < took_ns and 2 * now.round_trip_ns < most_ns + took_ns
        shown[link.target] = (
            (became_slow or became_quicker) and now.reached and now.round_trip_ns >= least_ns,
            {
                "round_trip_before_ms": ms(was.round_trip_ns) if was.reached else None,
                "round_trip_after_ms": ms(now.round_trip_ns) if now.reached else None,
                "at_least_ms": ms(least_ns),
            },
        )
    return together(shown)
