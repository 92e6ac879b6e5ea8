"""``resume``: a paused client or node runs again. Its receipt: no process is stopped, a node answers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from lab.faults.base import AROUND_TIMEOUT_S, Receipt, Target, machine, ms, server_named
from lab.faults.machine import MachineStep
from lab.faults.nemesis import End, Nemesis
from lab.faults.pause import state_words
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import problem
from lab.substrates.base import Cluster


class Resume(MachineStep, End):
    """Let a paused client or node run again."""

    KEY = "resume"
    FITS_SENTINELS = True
    EXAMPLE = "{client: alice}"
    SAYS = "lets {} go on"
    TURN = 2

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse a machine that is not paused, or was killed."""
        if self.name in state.dead:
            yield from super().impossible(state)
            return
        if self.name not in state.paused:
            word = "client" if self.node is None else "node"
            yield (word,), problem(f"{self.name} is not paused", "a pause before it")
        state.paused.discard(self.name)

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Resume it, whether the lab paused it or not."""
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
        """Resume all, one after the other."""
        for fault in nemesis.lasting(cls.KEY):
            (name,) = fault.target.ends
            await (cls(client=name) if name in nemesis.cluster.clients else cls(node=name)).end(nemesis)


async def resume(name: str, cluster: Cluster) -> Receipt:
    """Resume it; confirmed when none of its processes is stopped any more, and a node answers."""
    stopped = machine(name, cluster)
    before = stopped.states()
    await stopped.resume()
    after = stopped.states()
    goes_on = bool(after) and not any(state == "T" for state in after.values())
    evidence: dict[str, Any] = {"states_before": state_words(before), "states_after": state_words(after)}
    if name not in cluster.clients:
        probe = await server_named(name, cluster).probe(AROUND_TIMEOUT_S)
        evidence["probe_ms"] = ms(probe.round_trip_ns) if probe.reached else None
        goes_on = goes_on and probe.reached
    return Receipt(goes_on, evidence)
