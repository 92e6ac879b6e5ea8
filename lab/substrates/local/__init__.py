"""The ``local`` substrate: processes of this machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from lab import tools
from lab.servers import DEFAULT_SETTINGS, ServerSettings, is_image, no_host_names
from lab.substrates.base import Capability, Cluster, Service, Substrate
from lab.substrates.plan import ClusterPlan
from lab.tools import Missing


def servers_on_this_machine(wanted: str | None = None) -> str | None:
    """Name the server that is found on this machine, where it is, and what is passed over for it, and why.

    Raises ``LabError``: the one that is ``wanted`` is not here.
    """
    if wanted:
        tools.require(wanted)
    found = tools.find(wanted or "redis-server")
    if isinstance(found, Missing):
        return None
    return f"{found.version} ({found.passed_over})" if found.passed_over else found.version


_PRELOADED: Final = frozenset(
    (Capability.NODE_CLOCKS, Capability.POWER_CUTS, Capability.SENTINELS, Capability.REDIS_CLUSTER)
)
"""What a preload library is needed for."""


class _Local:
    name = "local"
    what = "real processes on this machine"
    capabilities = frozenset(Capability) - {Capability.ONE_CONNECTION, Capability.HEAR_SENDS}

    def missing_reason(self) -> str | None:
        if sys.platform != "linux":
            return f"the local substrate needs Linux (preload shims, /proc), and this is {sys.platform}"
        if not os.access("/proc/self/stat", os.R_OK):
            return "the local substrate needs /proc"
        return None

    def servers(self, wanted: str | None = None) -> str | None:
        return servers_on_this_machine(wanted)

    def lacks(
        self,
        service: Service,
        needed: frozenset[Capability] = frozenset(),
        wanted: str | None = None,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> str | None:
        if is_image(wanted):
            return f"{wanted} is an image, for docker, and local runs programs of this machine"
        preloaded = sorted(needed & _PRELOADED)
        if service != "redis" or not preloaded:
            return None
        found = tools.find(wanted or "redis-server")
        if isinstance(found, Missing):
            return None
        if found.static:
            return f"{found.no_preload}, so local cannot {' or '.join(preloaded)}"
        return no_host_names(found.version) if Capability.REDIS_CLUSTER in needed else None

    def open_files(self, nodes: int, clients: int) -> int:
        from lab.substrates.parts import PROBES_AT_ONCE
        from lab.substrates.toxiproxy import LINKS_PER_SERVER

        links = clients * (nodes + 1)
        lab = 16 + 2 * clients + min(links, PROBES_AT_ONCE)  # pipes, and the probes of fresh links
        proxy = 10 + 3 * min(links, LINKS_PER_SERVER)  # a listener for each, and two ends
        server = 40 + 2 * clients  # of which a Redis keeps 32 for itself
        return max(lab, proxy, server)

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        if plan.service != "redis":
            from lab.substrates.local.service_cluster import ServiceCluster

            return ServiceCluster(plan, run_id, log_dir)
        if plan.node_timeout_ms is not None:
            from lab.substrates.local.sharded import ShardedCluster

            return ShardedCluster(plan, run_id, log_dir)
        if plan.sentinels is not None:
            from lab.substrates.local.sentinels import SentinelCluster

            return SentinelCluster(plan, run_id, log_dir)
        from lab.substrates.local.cluster import LocalCluster

        return LocalCluster(plan, run_id, log_dir)


SUBSTRATE: Substrate = _Local()
