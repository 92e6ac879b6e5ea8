"""The ``virtual`` substrate: real servers and real drivers in one virtual time.

Redis servers and drivers are unmodified processes under a preload library (``lab/shims/vtime.c``), which
turns every wait with a time-out into a wait for the conductor's clock. The conductor is the simulated world:
it owns time, the network and the faults, and lets one thing happen at a time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lab import tools
from lab.servers import DEFAULT_SETTINGS, ServerSettings, is_image
from lab.substrates.base import Capability, Cluster, Service, Substrate
from lab.substrates.local import servers_on_this_machine
from lab.substrates.plan import ClusterPlan
from lab.tools import Missing


def not_in_virtual_time(wanted: str | None = None) -> str | None:
    """Say why the server that is found on this machine sees real time under a preload library, or None.

    ``wanted`` is the one to look for, in place of the default.
    """
    found = tools.find(wanted or "redis-server")
    if isinstance(found, Missing):
        return None
    if found.static:
        return found.no_preload
    shim = tools.find("vtime-shim")
    clock = tools.monotonic_clock(found.path, shim.path if isinstance(shim, tools.Found) else None)
    if not clock or clock.startswith("POSIX"):
        return None
    return f"{found.path}, {found.version}, reads time from the processor, past libc ({clock})"


class _Virtual:
    name = "virtual"
    what = "real servers and drivers on this machine, in virtual time"
    capabilities = frozenset(Capability) - {
        Capability.OTHER_SERVICES,
        Capability.CUT_PEERS,
        Capability.REDIS_CLUSTER,
        Capability.HEAR_SENDS,
    }

    def missing_reason(self) -> str | None:
        if sys.platform != "linux":
            return f"the virtual substrate needs Linux (a preload library, /proc), and this is {sys.platform}"
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
        if service != "redis":
            return f"servers of {service} do not run in virtual time"
        if is_image(wanted):
            return f"{wanted} is an image, for docker, and virtual runs programs of this machine"
        reason = not_in_virtual_time(wanted)
        return None if reason is None else f"{reason}, so it does not run in virtual time"

    def open_files(self, nodes: int, clients: int) -> int:
        servers = nodes + 1
        # Of each server, what /proc shows of its threads; of each link, a door and a connection.
        return max(16 + 13 * servers + 2 * clients * (servers + 1), 40 + 2 * clients)

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        if plan.sentinels is not None:
            from lab.substrates.virtual.sentinels import VirtualSentinelCluster

            return VirtualSentinelCluster(plan, run_id, log_dir)
        from lab.substrates.virtual.cluster import VirtualCluster

        return VirtualCluster(plan, run_id, log_dir)


SUBSTRATE: Substrate = _Virtual()
