"""The ``endpoints`` substrate: Redis servers that exist, which are not the lab's."""

from __future__ import annotations

from pathlib import Path

from lab.servers import DEFAULT_SETTINGS, ServerSettings
from lab.substrates.base import Capability, Cluster, Service, Substrate
from lab.substrates.plan import ClusterPlan


class _Endpoints:
    name = "endpoints"
    what = "Redis servers that exist, with real processes on this machine"
    capabilities = frozenset(
        (
            Capability.CUT_LINKS,
            Capability.HOLD_LINKS,
            Capability.SLOW_LINKS,
            Capability.NARROW_LINKS,
            Capability.RESET_LINKS,
            Capability.CLIENT_CLOCKS,
            Capability.PAUSE_CLIENTS,
            Capability.KILL_CLIENTS,
            Capability.WATCH_KEYS,
            Capability.DRIVERS,
        )
    )

    def missing_reason(self) -> str | None:
        from lab.substrates.local import SUBSTRATE as LOCAL

        return LOCAL.missing_reason()

    def servers(self, wanted: str | None = None) -> str | None:
        return None

    def lacks(
        self,
        service: Service,
        needed: frozenset[Capability] = frozenset(),
        wanted: str | None = None,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> str | None:
        return None

    def open_files(self, nodes: int, clients: int) -> int:
        from lab.substrates.local import SUBSTRATE as LOCAL

        gateways = 64 + 3 * nodes * (clients + 1)  # a listener for each, and two ends
        return LOCAL.open_files(nodes, clients) + gateways

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        from lab.substrates.endpoints.cluster import EndpointCluster

        return EndpointCluster(plan, run_id, log_dir)


SUBSTRATE: Substrate = _Endpoints()
