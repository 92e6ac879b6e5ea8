"""``delay``, ``bandwidth`` and ``reset``: links that are slow or narrow, and connections that break.

The receipt of the first two is the time that a probe takes through the link, before and after; that of a
reset is the fate of a connection that was open before, and the answer on one that is made afterwards. There
is none where the server is down: nothing was open that could be reset.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from lab.durations import format_duration
from lab.faults.base import (
    AROUND_TIMEOUT_S,
    Ending,
    Receipt,
    Target,
    Tolerance,
    answers,
    ms,
    server_behind,
    together,
)
from lab.faults.links import far_ends, links_of, near_end
from lab.scenario.step_link import Bandwidth, Delay, Reset
from lab.substrates.base import Capability, Cluster, Link, Probe

DELAY_SHARE: Final = 0.9
"""Which share of a delay must be measured: timers and Toxiproxy's milliseconds are not exact."""
NARROW_SHARE: Final = 0.5
"""Which share of the time that a rate implies must be measured: the first packets may pass in a burst."""
NARROW_PROBE_S: Final = 0.3
"""How long a probe through a narrow link is to take, in each direction."""
PAYLOAD_MAX_BYTES: Final = 1_000_000
PROBES: Final = 3
CHANCE_NS: Final = 250_000_000
"""How late an undisturbed probe can be on a busy machine."""
QUICK_PATIENCE_S: Final = 2.0
RESET_TIMEOUT_S: Final = 2.0


class DelayFault:
    """Packets that take longer."""

    f: ClassVar[str] = "delay"
    ended_by: ClassVar[Ending] = "heal"

    def needs(self, step: Delay) -> Capability:
        """Links that can be slowed down."""
        return Capability.SLOW_LINKS

    def target(self, step: Delay, cluster: Cluster) -> Target:
        """The links, and by how much."""
        jitter = f" ± {format_duration(step.jitter_ns)}" if step.jitter_ns else ""
        what = "" if step.direction == "both" else f" {step.direction}"
        near, ends = near_end(step), far_ends(step, cluster)
        words = f"{near} ⇄ {','.join(ends)}{what} +{format_duration(step.by_ns)}{jitter}"
        return Target(words, ends, near)

    def breaks(self, step: Delay, tolerance: Tolerance) -> str | None:
        """Break the bound on network delay, if it is not small against a lease."""
        late = step.by_ns + step.jitter_ns >= tolerance.network_delay_ns
        return "bounded network delay" if late else None

    async def inject(self, step: Delay, cluster: Cluster) -> Receipt:
        """Slow every link down; the round trip must be what was asked for now, and not before."""
        links = links_of(step, cluster)
        ways = 2 if step.direction == "both" else 1
        least_ns = int(ways * (step.by_ns - step.jitter_ns) * DELAY_SHARE)
        most_s = ways * (step.by_ns + step.jitter_ns) / 1e9 + AROUND_TIMEOUT_S
        before = [await _quick(link, least_ns) for link in links]
        await asyncio.gather(*(link.delay(step.by_ns, step.jitter_ns, step.direction) for link in links))
        after = await asyncio.gather(*(_quickest(link, least_ns, most_s) for link in links))
        most_ns = ways * (step.by_ns + step.jitter_ns)
        return await _changed(links, before, after, (least_ns, most_ns), cluster)


class BandwidthFault:
    """Links through which little passes."""

    f: ClassVar[str] = "bandwidth"
    ended_by: ClassVar[Ending] = "heal"

    def needs(self, step: Bandwidth) -> Capability:
        """Links that can be narrowed."""
        return Capability.NARROW_LINKS

    def target(self, step: Bandwidth, cluster: Cluster) -> Target:
        """The links, and how narrow they are."""
        what = "" if step.direction == "both" else f" {step.direction}"
        near, ends = near_end(step), far_ends(step, cluster)
        return Target(f"{near} ⇄ {','.join(ends)}{what} {step.rate_kb_per_s} KB/s", ends, near)

    def breaks(self, step: Bandwidth, tolerance: Tolerance) -> str | None:
        """Break the bound on network delay, if a kilobyte takes too long."""
        kilobyte_ns = 1_000_000_000 // step.rate_kb_per_s
        return "bounded network delay" if kilobyte_ns >= tolerance.network_delay_ns else None

    async def inject(self, step: Bandwidth, cluster: Cluster) -> Receipt:
        """Narrow every link; a large probe must then take as long as the rate implies."""
        links = links_of(step, cluster)
        ways = 2 if step.direction == "both" else 1
        rate_bytes_per_s = step.rate_kb_per_s * 1000
        payload = min(int(rate_bytes_per_s * NARROW_PROBE_S), PAYLOAD_MAX_BYTES)
        takes_s = ways * payload / rate_bytes_per_s
        least_ns = int(takes_s * NARROW_SHARE * 1e9)
        before = [await _quick(link, least_ns, payload) for link in links]
        await asyncio.gather(*(link.narrow(step.rate_kb_per_s, step.direction) for link in links))
        most_s = 2 * takes_s + AROUND_TIMEOUT_S
        after = await asyncio.gather(*(_quickest(link, least_ns, most_s, payload) for link in links))
        return await _changed(links, before, after, (least_ns, int(takes_s * 1e9)), cluster)


async def _quick(link: Link, less_than_ns: int, payload_bytes: int = 5) -> Probe:
    """A probe that is quicker than that, or the quickest of those that were not.

    A busy machine is late now and then, so it is tried for a while; a link that is slow on purpose, always.
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


async def _quickest(link: Link, least_ns: int, timeout_s: float, payload_bytes: int = 5) -> Probe:
    """The quickest of a few probes, one after the other; of one, where chance can't be that slow."""
    count = PROBES if least_ns < CHANCE_NS else 1
    probes = [await link.probe(timeout_s, payload_bytes) for _ in range(count)]
    return min(probes, key=lambda probe: (not probe.reached, probe.round_trip_ns))


async def _changed(
    links: Sequence[Link],
    before: Sequence[Probe],
    after: Sequence[Probe],
    takes_ns: tuple[int, int],
    cluster: Cluster,
) -> Receipt:
    """Confirm that every probe took at least so long afterwards, and one less before.

    Or more, where a link was slower than it is to be now: then what a probe takes must have come nearer to
    the most that was asked for (the second of ``takes_ns``) than to what it took before.
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


class ResetFault:
    """Connections that break."""

    f: ClassVar[str] = "reset"
    ended_by: ClassVar[Ending] = "itself"

    def needs(self, step: Reset) -> Capability:
        """Links whose connections can be reset."""
        return Capability.RESET_LINKS

    def target(self, step: Reset, cluster: Cluster) -> Target:
        """The links."""
        near, ends = near_end(step), far_ends(step, cluster)
        return Target(f"{near} ↯ {','.join(ends)}", ends, near)

    def breaks(self, step: Reset, tolerance: Tolerance) -> str | None:
        """Break nothing: connections do break."""
        return None

    async def inject(self, step: Reset, cluster: Cluster) -> Receipt:
        """Reset every link, with a connection of ours open on each."""
        links = links_of(step, cluster)
        shown = await asyncio.gather(*(_reset_one(link, cluster) for link in links))
        return together(dict(zip((link.target for link in links), shown, strict=True)))


async def _reset_one(link: Link, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
    server = server_behind(link, cluster)
    answering = await answers(server)
    witness = await link.witness()
    await link.reset()
    fate = await witness.fate(RESET_TIMEOUT_S)
    again = await link.probe(AROUND_TIMEOUT_S) if answering else None
    evidence = {
        "server": "up" if server.alive else "down",
        "open_connection": fate,
        "new_connection_ms": ms(again.round_trip_ns) if again is not None and again.reached else None,
    }
    # A link whose server is down ends every connection by itself, so its end shows no reset. One that stands
    # still lets them live.
    whole = server.alive and (again is None or again.reached)
    return whole and fate in ("reset", "closed"), evidence
