"""The ``sim`` substrate: everything in one process and in virtual time; the same seed, the same history."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from lab.servers import DEFAULT, DEFAULT_SETTINGS, ServerSettings, is_image
from lab.substrates.base import Capability, Cluster, Service, Substrate
from lab.substrates.plan import ClusterPlan


class _Sim:
    name = "sim"
    what = "a simulation in one process, in virtual time"
    capabilities = frozenset(Capability) - {
        Capability.DRIVERS,
        Capability.OTHER_SERVICES,
        Capability.CUT_PEERS,
        Capability.REDIS_CLUSTER,
    }

    def missing_reason(self) -> str | None:
        if find_spec("lupa") is None:
            return "the sim substrate needs the package lupa, which runs the scripts of simulated nodes"
        return None

    def servers(self, wanted: str | None = None) -> str | None:
        from lab.redis_model.model import modelled

        server = DEFAULT if wanted is None else modelled(wanted, "cluster.server")
        return server._replace(simulated=True).words

    def lacks(
        self,
        service: Service,
        needed: frozenset[Capability] = frozenset(),
        wanted: str | None = None,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> str | None:
        if wanted and ("/" in wanted or is_image(wanted)):
            return f"sim has models of servers, of none by the name {wanted}"
        if settings.save and Capability.REPLICATION in needed:
            return (
                "sim does not simulate what the snapshot file of a replica holds (real servers: --on virtual)"
            )
        from lab.redis_model.limits import Limits, NotSimulated

        try:
            Limits.of(settings.config)
        except NotSimulated as error:
            return f"cluster.config: {error} (real servers: --on virtual)"
        return None

    def open_files(self, nodes: int, clients: int) -> int:
        return 16 + clients  # their logs

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        if plan.sentinels is not None:
            from lab.substrates.sim.sentinels import SimSentinelCluster

            return SimSentinelCluster(plan, log_dir)
        from lab.substrates.sim.cluster import SimCluster

        return SimCluster(plan, log_dir)


SUBSTRATE: Substrate = _Sim()
