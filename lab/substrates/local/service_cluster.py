"""The ``local`` substrate with nodes that make one service: an etcd, a ZooKeeper, a Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from lab import tools
from lab.errors import LabError, UnknownOutcome
from lab.substrates.local.cluster import PORT_TRIES, LocalProcesses
from lab.substrates.local.services import LAYOUTS, Member, ServiceNode, prepare
from lab.substrates.real.ports import free_ports
from lab.tools import Missing


class ServiceCluster(LocalProcesses[ServiceNode]):
    """Servers that belong together. The store is a Redis, as always."""

    _program: Path

    def _look_for_programs(self) -> None:
        found = tools.find(self._plan.service)
        if isinstance(found, Missing):
            raise LabError(found.reason, expected=f"{self._plan.service}, to run here", hint=found.hint)
        self._program = found.path
        self._versions[self._plan.service] = found.version

    async def _start_nodes(self, ports: Mapping[str, int | None]) -> dict[str, ServiceNode]:
        """Start servers that belong together; again, on other ports, when one of them found none free."""
        service = self._plan.service
        for attempt in range(1, PORT_TRIES + 1):
            drawn = iter(free_ports(3 * len(self._plan.nodes)))
            members = [
                Member(name, next(drawn), (next(drawn), next(drawn)), self._scratch / f"{name}-{attempt}")
                for name in self._plan.nodes
            ]
            launches = LAYOUTS[service](self._program, members)
            nodes = [ServiceNode(service, one, launches[one.name], self._nursery) for one in members]
            self._started += nodes
            await asyncio.gather(*(prepare(service, launches[m.name], m, self._nursery) for m in members))
            await asyncio.gather(*(node.launch() for node in nodes))
            for node in nodes:
                node.running().expected_end = True  # until it is ready
            try:
                await asyncio.gather(*(node.until_ready() for node in nodes))
            except UnknownOutcome:
                ended = [node for node in nodes if not node.alive]
                if not ended or attempt == PORT_TRIES:
                    raise
                await asyncio.gather(*(node.kill() for node in nodes if node.alive))
            else:
                break
        for node in nodes:
            node.running().expected_end = False
        return {node.name: node for node in nodes}
