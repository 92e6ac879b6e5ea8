"""The ``docker`` substrate: containers of an engine on this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lab.servers import DEFAULT_SETTINGS, ServerSettings, no_host_names
from lab.substrates.base import Capability, Cluster, Service, Substrate
from lab.substrates.plan import ClusterPlan

if TYPE_CHECKING:
    from docker import APIClient

BUILD_SERVICES = "lab images build --consensus"


class _Docker:
    name = "docker"
    what = "containers of the engine on this machine"
    # What answers with errors runs in the lab's process, which containers can't reach.
    capabilities = frozenset(Capability) - {
        Capability.CUT_PEERS,
        Capability.ONE_CONNECTION,
        Capability.ANSWER_ERRORS,
        Capability.STALL_DISKS,
        Capability.HEAR_SENDS,
    }

    def missing_reason(self) -> str | None:
        from lab.substrates.docker.engine import LOOK_TIMEOUT_S, no_engine_reason
        from lab.substrates.docker.images import missing_reason

        if reason := no_engine_reason():
            return reason
        lacking = _asked(missing_reason, LOOK_TIMEOUT_S)
        return None if lacking is None else f"{lacking}: lab images build provides it"

    def servers(self, wanted: str | None = None) -> str | None:
        from lab.errors import LabError
        from lab.substrates.docker.engine import connect
        from lab.substrates.docker.images import node_missing_reason, server_in_image

        api = connect()
        try:
            if wanted and (reason := node_missing_reason(api, wanted)):
                raise LabError(reason, where="--server")
            return server_in_image(api, wanted)
        finally:
            api.close()

    def lacks(
        self,
        service: Service,
        needed: frozenset[Capability] = frozenset(),
        wanted: str | None = None,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> str | None:
        from lab.substrates.docker.images import node_missing_reason, server_in_image, service_missing_reason

        reason = _asked(lambda api: node_missing_reason(api, wanted))  # the store is one in any case
        if reason is None and Capability.REDIS_CLUSTER in needed:
            return no_host_names(_asked(lambda api: server_in_image(api, wanted)) or "")
        if reason is not None or service == "redis":
            return reason
        reason = _asked(lambda api: service_missing_reason(api, service))
        return None if reason is None else f"{reason}: {BUILD_SERVICES} provides it"

    def open_files(self, nodes: int, clients: int) -> int:
        return 24 + 2 * clients  # each is attached to, and has a log

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        if plan.sentinels is not None:
            from lab.substrates.docker.sentinels import SentinelCluster

            return SentinelCluster(plan, run_id, log_dir)
        if plan.node_timeout_ms is not None:
            from lab.substrates.docker.sharded import ShardedCluster

            return ShardedCluster(plan, run_id, log_dir)
        from lab.substrates.docker.cluster import DockerCluster

        return DockerCluster(plan, run_id, log_dir)


def _asked(question: Callable[[APIClient], str | None], timeout_s: int | None = None) -> str | None:
    """What the engine's images answer; that it does not answer, if so."""
    from lab.errors import LabError
    from lab.substrates.docker.engine import connect

    try:
        api = connect() if timeout_s is None else connect(timeout_s)
        try:
            return question(api)
        finally:
            api.close()
    except LabError as error:
        return error.seen


SUBSTRATE: Substrate = _Docker()
