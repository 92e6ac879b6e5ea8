"""``resume``: what was paused goes on.

The receipt is that none of its processes is stopped any more, and that a node answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.faults.base import AROUND_TIMEOUT_S, Receipt, Target, machine, ms
from lab.faults.machine import MachineStep
from lab.faults.nemesis import End, Nemesis
from lab.faults.pause import state_words
from lab.scenario.problems import problem
from lab.scenario.story import Found, StoryState
from lab.substrates.base import Cluster


class Resume(MachineStep, End):
    """Let what was paused go on."""

    KEY = "resume"
    EXAMPLE = "{client: alice}"
    SAYS = "lets {} go on"
    TURN = 2

    def impossible(self, told: StoryState) -> Iterator[Found]:
        """Refuse what is not paused, or was killed."""
        if self.name in told.dead:
            yield from super().impossible(told)
            return
        if self.name not in told.paused:
            word = "client" if self.node is None else "node"
            yield (word,), problem(f"{self.name} is not paused", "a pause before it")
        told.paused.discard(self.name)

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Let it go on, whether the lab paused it or not."""
        target = Target(self.name, (self.name,))
        paused = [fault for fault in nemesis.lasting(self.KEY) if fault.target.ends == target.ends]
        action = partial(resume, self.name, nemesis.cluster)
        if paused:
            receipt = await nemesis.close(paused[-1], self.KEY, target, action)
        else:
            _, receipt = await nemesis.record(self.KEY, target, None, action)
        return self.name, receipt.confirmed

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Let everything go on, one after the other."""
        for fault in nemesis.lasting(cls.KEY):
            (name,) = fault.target.ends
            await (cls(node=name) if name in nemesis.cluster.nodes else cls(client=name)).end(nemesis)


async def resume(name: str, cluster: Cluster) -> Receipt:
    """Let it go on; confirmed when none of its processes is stopped any more, and a node answers."""
    stopped = machine(name, cluster)
    before = stopped.states()
    await stopped.resume()
    after = stopped.states()
    goes_on = bool(after) and not any(state == "T" for state in after.values())
    evidence: dict[str, Any] = {"states_before": state_words(before), "states_after": state_words(after)}
    if name in cluster.nodes:
        probe = await cluster.nodes[name].probe(AROUND_TIMEOUT_S)
        evidence["probe_ms"] = ms(probe.round_trip_ns) if probe.reached else None
        goes_on = goes_on and probe.reached
    return Receipt(goes_on, evidence)
