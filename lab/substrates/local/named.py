"""Servers that tell others where a server is, on this machine.

Each process resolves what servers announce, names and addresses, by a preload library to loopback addresses
of its own, where Toxiproxy listens on the ports of the server: 127.77.process.server.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lab import tools
from lab.shims import NAMES_VARIABLE, preload
from lab.substrates.local.client import LocalClient
from lab.substrates.local.cluster import LocalCluster
from lab.substrates.local.node import LocalNode
from lab.substrates.plan import ClusterPlan
from lab.substrates.real.named import NamedLinks
from lab.substrates.sentinels import host_name


class NamedCluster(NamedLinks[LocalNode, LocalNode, LocalClient], LocalCluster):
    """Servers that announce names, and a link from every process to every server that it asks."""

    def __init__(self, plan: ClusterPlan, run_id: str, log_dir: Path, servers: Sequence[str]) -> None:
        super().__init__(plan, run_id, log_dir)
        self._servers = tuple(servers)
        self._processes = (*plan.clients, *self._servers)
        self._names_shim = tools.require("names-shim")
        for process in self._processes:
            self._names_file(process).write_text("".join(f"{line}\n" for line in self._resolved(process)))

    def _resolved(self, process: str) -> list[str]:
        """What a process resolves, and to what."""
        return [f"{host_name(server)} {self._listens(process, server)}" for server in self._servers]

    def _environment(self, name: str, environment: dict[str, str]) -> dict[str, str]:
        before = environment.get("LD_PRELOAD")
        return {
            **environment,
            "LD_PRELOAD": f"{self._names_shim}:{before}" if before else preload(self._names_shim),
            NAMES_VARIABLE: str(self._names_file(name)),
        }

    def _names_file(self, process: str) -> Path:
        return self._scratch / f"{process}.names"

    def _listens(self, process: str, server: str) -> str:
        """A loopback address that nobody else is told."""
        above, low = divmod(self._processes.index(process), 250)
        return f"127.{77 + above}.{low + 1}.{self._servers.index(server) + 1}"
