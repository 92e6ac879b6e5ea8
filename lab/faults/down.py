"""``crash``, ``shutdown``, ``power_cut``, ``restart``: nodes that go down, and what they know afterwards.

A crash (SIGKILL) loses nothing that was written to a file, since the page cache outlives the process. A
power cut loses what was not synced. The receipt is that the process is gone and nobody answers, and of a
power cut what the files lost; of a restart, that somebody else answers: another run id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    Ending,
    Receipt,
    Target,
    Tolerance,
    answers,
    ms,
    node_names,
    together,
)
from lab.scenario.step_machine import Crash, PowerCut, Shutdown
from lab.substrates.base import Capability, Cluster, Node

NOT_DURABLE = "durable nodes"
POLL_S = 0.005

Shown = tuple[bool, dict[str, Any]]


class _DownFault:
    """What all faults share that take nodes down, each by itself, until they are started again."""

    ended_by: ClassVar[Ending] = "restart"

    def target(self, step: Crash | Shutdown | PowerCut, cluster: Cluster) -> Target:
        """The nodes."""
        names = node_names(step.nodes, cluster)
        return Target(f"node{'s' if len(names) > 1 else ''} {', '.join(names)}", names)

    async def inject(self, step: Crash | Shutdown | PowerCut, cluster: Cluster) -> Receipt:
        """Take each of them down, and look at what is left of it."""
        names = node_names(step.nodes, cluster)
        shown = await asyncio.gather(*(self._one(cluster.nodes[name]) for name in names))
        return together(dict(zip(names, shown, strict=True)))

    async def _one(self, node: Node) -> Shown:
        raise NotImplementedError


class CrashFault(_DownFault):
    """Nodes that are killed."""

    f: ClassVar[str] = "crash"

    def needs(self, step: Crash) -> Capability:
        """Nodes that can be stopped and started."""
        return Capability.STOP_NODES

    def breaks(self, step: Crash, tolerance: Tolerance) -> str | None:
        """Break durability only where nothing is kept: a crash loses no file."""
        return NOT_DURABLE if tolerance.persistence == "none" else None

    async def _one(self, node: Node) -> Shown:
        evidence = await _life_before(node)
        await node.kill()
        return await _is_gone(node, evidence)


class ShutdownFault(_DownFault):
    """Nodes that end in order: by themselves, with exit code 0, when they are asked to."""

    f: ClassVar[str] = "shutdown"

    def needs(self, step: Shutdown) -> Capability:
        """Nodes that can be stopped and started."""
        return Capability.STOP_NODES

    def breaks(self, step: Shutdown, tolerance: Tolerance) -> str | None:
        """Break durability only where nothing is kept."""
        return NOT_DURABLE if tolerance.persistence == "none" else None

    async def _one(self, node: Node) -> Shown:
        evidence = await _life_before(node)
        code = await node.shut_down()
        gone, evidence = await _is_gone(node, evidence | {"exit_code": code})
        return gone and code == 0, evidence


class PowerCutFault(_DownFault):
    """Nodes that lose their power, and with it what was not on disk: killed, and their files cut back."""

    f: ClassVar[str] = "power_cut"

    def needs(self, step: PowerCut) -> Capability:
        """Nodes whose power can be cut."""
        return Capability.POWER_CUTS

    def breaks(self, step: PowerCut, tolerance: Tolerance) -> str | None:
        """Break durability, unless every write is synced before it is acknowledged."""
        return None if tolerance.persistence == "aof-always" else NOT_DURABLE

    async def _one(self, node: Node) -> Shown:
        evidence = await _life_before(node)
        await node.kill()
        gone, evidence = await _is_gone(node, evidence)
        if not gone:
            return False, evidence
        before = await node.lose_unsynced()
        after = await node.disk()
        evidence |= {
            "written_bytes": before.written,
            "synced_bytes": before.synced,
            "dropped_bytes": before.written - after.written,
        }
        return after.written == before.synced, evidence


async def _life_before(node: Node) -> dict[str, Any]:
    if not await answers(node):
        return {"before": "no answer"}
    life = await node.life()
    await node.role()  # so that a replica which is promoted later can be compared with it
    return {"run_id": life.run_id, "process_id": life.process_id, "keys_before": life.keys}


async def _is_gone(node: Node, evidence: dict[str, Any]) -> Shown:
    probe = await node.probe(AROUND_TIMEOUT_S)
    evidence = evidence | {
        "process": "still there" if node.alive else "gone",
        "probe": "answered" if probe.reached else "refused",
    }
    return not node.alive and not probe.reached, evidence


DelayClock = Literal["wall", "monotonic"]


@dataclass(frozen=True, slots=True)
class Delay:
    """How long a node stays down, in nanoseconds, and by which clock of which machine.

    Args:
        by: the node on whose machine it is measured; if absent, that of the node that is down.
    """

    after_ns: int
    clock: DelayClock = "wall"
    by: str | None = None

    @property
    def whose(self) -> str:
        """Whose clock it is, as a part of the names of evidence: "own", or the node's name."""
        return self.by or "own"


AT_ONCE: Final = Delay(0)


async def restart(
    names: tuple[str, ...],
    delay: Delay,
    before: Mapping[str, Any],
    hurry: asyncio.Event,
    cluster: Cluster,
) -> Receipt:
    """Start nodes again, each after ``delay`` by the clock that it names, or when ``hurry`` is set.

    ``before`` is the evidence of the fault that took them down. Confirmed when each answers under another
    run id.
    """
    shown = await asyncio.gather(
        *(
            _one_returns(
                cluster.nodes[name], cluster.nodes[delay.by or name], delay, before.get(name) or {}, hurry
            )
            for name in names
        )
    )
    return together(dict(zip(names, shown, strict=True)))


async def _one_returns(
    node: Node, measuring: Node, delay: Delay, before: Mapping[str, Any], hurry: asyncio.Event
) -> Shown:
    evidence: dict[str, Any] = {}
    if delay.after_ns:
        wall, loop = measuring.stopwatch(), asyncio.get_running_loop()
        passed = measuring.stopwatch(monotonic=True) if delay.clock == "monotonic" else wall
        since = loop.time()
        while passed() < delay.after_ns and not hurry.is_set():
            await asyncio.sleep(POLL_S)
        evidence[f"down_by_{delay.whose}_clock_ms"] = ms(wall())
        if delay.clock == "monotonic":
            evidence[f"down_by_{delay.whose}_monotonic_clock_ms"] = ms(passed())
        evidence["down_ms"] = round((loop.time() - since) * 1000, 3)
        if hurry.is_set():
            evidence["delay"] = "cut short, since the story was over"
    await node.start()
    life = await node.life()
    clock = await node.read_clock()
    evidence |= {
        "run_id_changed": life.run_id != before.get("run_id"),
        "keys_before": before.get("keys_before"),
        "keys_after": life.keys,
        "clock_offset_ms": ms(clock.offset_ns),
    }
    return bool(evidence["run_id_changed"]), evidence
