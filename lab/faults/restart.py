"""``restart``: nodes that are down are started again, at once or after a delay by a machine's clock.

The receipt is that the server's run id has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from lab.durations import format_duration
from lab.faults.base import Receipt, Target, all_faults, ms, node_names, server_named, together
from lab.faults.nemesis import End, Nemesis, Open
from lab.scenario.impossible import Found, StepState, are
from lab.scenario.problems import choice, problem
from lab.scenario.types import DurationNs, NodeName, Nodes
from lab.substrates.base import Cluster, Node

POLL_S: Final = 0.005


class Restart(End):
    """Start nodes that are down again, with what they kept; at once, or after a delay by their own clock.

    A delay by the wall clock ends early when that clock jumps forward; one by the monotonic clock does not.
    The machine stays up meanwhile: a monotonic clock would start from zero with its machine. With `by` the
    delay is measured on another machine, as by a supervisor that starts the nodes of several machines.
    """

    KEY = "restart"
    FITS_SENTINELS = True
    EXAMPLE = "{nodes: [C], after: 10s}"
    SAYS = "restarts {}"
    TURN = 1

    nodes: Nodes
    """The nodes that come back."""
    after_ns: DurationNs = Field(default=0, alias="after")
    """How long each stays down, by a clock of its own machine or of another; the next steps don't wait."""
    clock: Literal["wall", "monotonic"] = "wall"
    """Which of the machine's clocks measures the delay; only the wall clock can jump."""
    by: NodeName | None = None
    """The node on whose machine the delay is measured; without it, that of the restarted node."""

    @model_validator(mode="after")
    def _delayed_if_measured(self) -> Self:
        if self.by is not None and not self.after_ns:
            raise problem(
                f"{self.by} is to measure a delay, and there is none", f"{self.KEY}: {self.EXAMPLE}"
            )
        return self

    def pack(self, fields: dict[str, Any]) -> Any:
        """The clock is left out if it is the wall clock of the node, as in files without these fields."""
        usual = {"clock": "wall", "by": None}
        return {key: value for key, value in fields.items() if key not in usual or value != usual[key]}

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse it if no node is down."""
        names = state.shape.names(self.nodes)
        if not state.down & set(names):
            falls = choice(fault.KEY for fault in all_faults() if fault.ENDED_BY == self.KEY)
            yield ("nodes",), problem(f"{are(names)} not down", f"a {falls} before it")
        if stalled := [name for name in names if name in state.stalled & state.down]:
            seen = f"the disk of {', '.join(stalled)} stalls, and a server that starts waits for it"
            yield ("nodes",), problem(seen, "a free_disk before it")
        state.down -= set(names)

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Start nodes again, or start the task that does after the delay.

        A delayed start does not hold up the next steps; ``Nemesis.until_up`` waits for it.
        """
        names = node_names(self.nodes, nemesis.cluster)
        down = [fault for fault in nemesis.lasting(self.KEY) if fault.target.ends[0] in names]
        down.sort(key=lambda fault: names.index(fault.target.ends[0]))
        words = f"node {', '.join(fault.target.ends[0] for fault in down)}" if down else "no node"
        if self.after_ns:
            for fault in down:
                nemesis.returning[fault.target.ends[0]] = asyncio.create_task(
                    self._bring_back(fault, nemesis)
                )
            await asyncio.sleep(0)  # until each has recorded its invocation
            whose = "its own" if self.by is None else f"{self.by}'s"
            clock = "clock" if self.clock == "wall" else f"{self.clock} clock"
            return f"{words} in {format_duration(self.after_ns)} by {whose} {clock}", bool(down)
        receipts = await asyncio.gather(*(self._bring_back(fault, nemesis) for fault in down))
        return words, bool(down) and all(receipt.confirmed for receipt in receipts)

    def brings_up(self, cluster: Cluster) -> tuple[str, ...]:
        """All of them, unless they are delayed."""
        return () if self.after_ns else node_names(self.nodes, cluster)

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Start every node that is down, those with a delay at once."""
        await asyncio.gather(*nemesis.returning.values())
        at_once = cls(nodes="all")
        await asyncio.gather(*(at_once._bring_back(fault, nemesis) for fault in nemesis.lasting(cls.KEY)))

    async def _bring_back(self, fault: Open, nemesis: Nemesis) -> Receipt:
        (name,) = fault.target.ends
        nemesis.take(fault)  # from now on this task ends it
        measuring = server_named(self.by or name, nemesis.cluster)
        action = partial(_returns, fault, server_named(name, nemesis.cluster), measuring, self, nemesis)
        return await nemesis.close(fault, self.KEY, Target(f"node {name}", (name,)), action)


async def _returns(fault: Open, node: Node, measuring: Node, delay: Restart, nemesis: Nemesis) -> Receipt:
    """Start a node when the delay is over by the clock of ``measuring``, or is cut short."""
    before = fault.evidence.get(node.name) or {}
    evidence: dict[str, Any] = {}
    if delay.after_ns:
        wall, loop = measuring.stopwatch(), asyncio.get_running_loop()
        passed = measuring.stopwatch(monotonic=True) if delay.clock == "monotonic" else wall
        since, whose = loop.time(), delay.by or "own"
        while passed() < delay.after_ns and not nemesis.hurry.is_set():
            await asyncio.sleep(POLL_S)
        evidence[f"down_by_{whose}_clock_ms"] = ms(wall())
        if delay.clock == "monotonic":
            evidence[f"down_by_{whose}_monotonic_clock_ms"] = ms(passed())
        evidence["down_ms"] = round((loop.time() - since) * 1000, 3)
        if nemesis.hurry.is_set():
            evidence["delay"] = "cut short, since all steps were done"
    return await comes_back(node, before, evidence)


async def comes_back(node: Node, before: Mapping[str, Any], evidence: Mapping[str, Any]) -> Receipt:
    """Start a node; confirmed if its run id differs from that ``before`` it went down."""
    await node.start()
    life = await node.life()
    clock = await node.read_clock()
    shown = dict(evidence) | {
        "run_id_changed": life.run_id != before.get("run_id"),
        "keys_before": before.get("keys_before"),
        "keys_after": life.keys,
        "clock_offset_ms": ms(clock.offset_ns),
    }
    return together({node.name: (bool(shown["run_id_changed"]), shown)})
