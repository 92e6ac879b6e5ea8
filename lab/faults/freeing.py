"""The base class of steps that give nodes back what a fault has taken from them: their disk, their memory."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, ClassVar

from lab.faults.base import Receipt, Target, all_at_once, node_names, together
from lab.faults.nemesis import End, Nemesis
from lab.scenario.types import Nodes
from lab.substrates.base import Cluster, Node


class Free(End):
    """Free some nodes of a fault that lasts, all of them at once."""

    OF: ClassVar[str]
    """What they get back: disk, memory."""
    NONE: ClassVar[str]
    """What is said if none of them lacked it."""

    nodes: Nodes
    """The nodes that are freed."""

    @classmethod
    @abstractmethod
    async def free(cls, node: Node) -> tuple[bool, dict[str, Any]]:
        """Free one node; return whether that was seen, and what was."""

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Free those of these nodes that lack it."""
        names = node_names(self.nodes, nemesis.cluster)
        receipts, freed = [], []
        for fault in nemesis.lasting(self.KEY):
            if ends := tuple(end for end in fault.target.ends if end in names):
                target = Target(f"{self.OF} of {','.join(ends)}", ends)
                action = partial(self._free_all, ends, nemesis.cluster)
                receipts.append(await nemesis.close(fault, self.KEY, target, action))
                freed.append(target.words)
        return "; ".join(freed) or self.NONE, all(one.confirmed for one in receipts)

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Free every node; `TURN` says before or after nodes are started."""
        await cls(nodes="all").end(nemesis)

    async def _free_all(self, names: tuple[str, ...], cluster: Cluster) -> Receipt:
        shown = await all_at_once(self.free(cluster.nodes[name]) for name in names)
        return together(dict(zip(names, shown, strict=True)))
