"""``pause``: the whole process group of a client or a node is stopped.

This has the effects of a stop-the-world garbage collection: the kernel goes on receiving for the process, and
the process does not notice that time passed. The receipt is the state in /proc, ``T``, and for a node also
that a probe gets no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lab.faults.base import PROBE_TIMEOUT_S, Fault, Receipt, Target, machine, server_named
from lab.faults.machine import MachineStep
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.substrates.base import Capability, Cluster


class Pause(MachineStep, Fault):
    """Stop a process, as a long garbage collection does; its kernel goes on receiving."""

    KEY = "pause"
    FITS_SENTINELS = True
    EXAMPLE = "{client: alice}"
    BREAKS = "bounded process pauses"
    ENDED_BY = "resume"
    DRAWN = Drawing("machine", stops=True)
    SIGN = Sign("pause")

    @property
    def clause(self) -> str:
        """Who stands still."""
        return f"{self.name.capitalize()} is paused"

    @property
    def ended_clause(self) -> str:
        """It runs."""
        return f"{self.name.capitalize()} goes on"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse a machine that is paused, down or killed."""
        word = "client" if self.node is None else "node"
        if self.name in state.dead:
            yield from super().impossible(state)
            return
        if self.name in state.paused:
            yield (word,), problem(f"{self.name} is paused already", "one pause, then one resume")
        elif self.name in state.down:
            yield (word,), problem(f"node {self.name} is down, so it can't be paused", "a restart before it")
        state.paused.add(self.name)

    @property
    def needs(self) -> Capability:
        """Processes that can be stopped."""
        return Capability.PAUSE_CLIENTS if self.node is None else Capability.PAUSE_NODES

    def target(self, cluster: Cluster) -> Target:
        """The client or the node."""
        return Target(self.name if self.node is None else f"node {self.node}", (self.name,))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Stop it and read the state of its processes."""
        stopped = machine(self.name, cluster)
        before = stopped.states()
        await stopped.pause()
        after = stopped.states()
        stands = bool(after) and all(state == "T" for state in after.values())
        evidence: dict[str, Any] = {"states_before": state_words(before), "states_after": state_words(after)}
        if self.node is not None:
            probe = await server_named(self.node, cluster).probe(PROBE_TIMEOUT_S)
            evidence["probe"] = "answered" if probe.reached else "no answer"
            stands = stands and not probe.reached
        return Receipt(stands, evidence)


def state_words(states: dict[int, str]) -> str:
    """The state letters of all processes, in the order of their ids."""
    return " ".join(states[pid] for pid in sorted(states))
