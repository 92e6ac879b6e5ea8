"""The ``docker`` substrate: containers of an engine on this machine."""

from __future__ import annotations

from pathlib import Path

from lab.substrates.base import Capability, Cluster, ClusterPlan, Substrate


class _Docker:
    name = "docker"
    what = "containers of the engine on this machine"
    capabilities = frozenset(Capability) - {Capability.DRIVERS, Capability.OTHER_SERVICES}

    def missing_reason(self) -> str | None:
        from lab.substrates.docker.engine import no_engine_reason

        reason = no_engine_reason()
        if reason is not None:
            return reason
        from lab.errors import LabError
        from lab.substrates.docker.engine import LOOK_TIMEOUT_S, connect
        from lab.substrates.docker.images import missing_reason

        try:
            api = connect(LOOK_TIMEOUT_S)
            try:
                lacking = missing_reason(api)
            finally:
                api.close()
        except LabError as error:
            return error.seen
        return None if lacking is None else f"{lacking}: lab images build provides it"

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        from lab.substrates.docker.cluster import DockerCluster

        return DockerCluster(plan, run_id, log_dir)


SUBSTRATE: Substrate = _Docker()
