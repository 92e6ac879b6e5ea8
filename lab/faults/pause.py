"""``pause`` and ``resume``: the whole process group of a client or a node is stopped and later goes on.

That is what a stop-the-world garbage collection looks like from outside: the kernel goes on receiving for
the process, and the process does not notice that time passed. The receipt is the state in /proc, ``T``, and
of a node also that it leaves a probe without an answer.
"""

from __future__ import annotations

from typing import Any, ClassVar

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    PROBE_TIMEOUT_S,
    Ending,
    Receipt,
    Target,
    Tolerance,
    machine,
    ms,
)
from lab.scenario.step_machine import Pause
from lab.substrates.base import Capability, Cluster


class PauseFault:
    """A client or a node that stands still."""

    f: ClassVar[str] = "pause"
    ended_by: ClassVar[Ending] = "resume"

    def needs(self, step: Pause) -> Capability:
        """Processes that can be stopped."""
        return Capability.PAUSE_CLIENTS if step.node is None else Capability.PAUSE_NODES

    def target(self, step: Pause, cluster: Cluster) -> Target:
        """The client or the node."""
        return Target(step.name if step.node is None else f"node {step.node}", (step.name,))

    def breaks(self, step: Pause, tolerance: Tolerance) -> str | None:
        """Break the bound on process pauses."""
        return "bounded process pauses"

    async def inject(self, step: Pause, cluster: Cluster) -> Receipt:
        """Stop it and look at the state of its processes."""
        stopped = machine(step.name, cluster)
        before = stopped.states()
        await stopped.pause()
        after = stopped.states()
        stands = bool(after) and all(state == "T" for state in after.values())
        evidence: dict[str, Any] = {"states_before": _words(before), "states_after": _words(after)}
        if step.node is not None:
            probe = await cluster.nodes[step.node].probe(PROBE_TIMEOUT_S)
            evidence["probe"] = "answered" if probe.reached else "no answer"
            stands = stands and not probe.reached
        return Receipt(stands, evidence)


async def resume(name: str, cluster: Cluster) -> Receipt:
    """Let it go on; confirmed when none of its processes is stopped any more, and a node answers."""
    stopped = machine(name, cluster)
    before = stopped.states()
    await stopped.resume()
    after = stopped.states()
    goes_on = bool(after) and not any(state == "T" for state in after.values())
    evidence: dict[str, Any] = {"states_before": _words(before), "states_after": _words(after)}
    if name in cluster.nodes:
        probe = await cluster.nodes[name].probe(AROUND_TIMEOUT_S)
        evidence["probe_ms"] = ms(probe.round_trip_ns) if probe.reached else None
        goes_on = goes_on and probe.reached
    return Receipt(goes_on, evidence)


def _words(states: dict[int, str]) -> str:
    return " ".join(states[pid] for pid in sorted(states))
