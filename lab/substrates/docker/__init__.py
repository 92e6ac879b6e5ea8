"""The ``docker`` substrate: containers of an engine on this machine."""

from __future__ import annotations

from pathlib import Path

from lab.servers import DEFAULT_SETTINGS, IMAGE, ServerSettings, is_image
from lab.substrates.base import Capability, Cluster, Service, Substrate
from lab.substrates.plan import ClusterPlan

BUILD_SERVICES = "lab images build --consensus"


class _Docker:
    name = "docker"
    what = "containers of the engine on this machine"
    # What answers with errors runs in the lab's process, which containers can't reach.
    capabilities = frozenset(Capability) - {
        Capability.CUT_PEERS,
        Capability.SENTINELS,
        Capability.ONE_CONNECTION,
        Capability.ANSWER_ERRORS,
        Capability.STALL_DISKS,
        Capability.HEAR_SENDS,
    }

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

    def servers(self, wanted: str | None = None) -> str | None:
        return None  # an image tells what is in it when it runs

    def lacks(
        self,
        service: Service,
        needed: frozenset[Capability] = frozenset(),
        wanted: str | None = None,
        settings: ServerSettings = DEFAULT_SETTINGS,
    ) -> str | None:
        if wanted and not is_image(wanted):
            return f"docker runs images, and {wanted} is none: --server image:NAME"
        if service == "redis":
            return self._image_missing(wanted.removeprefix(IMAGE)) if wanted else None
        from lab.errors import LabError
        from lab.substrates.docker.engine import connect
        from lab.substrates.docker.images import service_missing_reason

        try:
            api = connect()
            try:
                reason = service_missing_reason(api, service)
            finally:
                api.close()
        except LabError as error:
            return error.seen
        return None if reason is None else f"{reason}: {BUILD_SERVICES} provides it"

    def _image_missing(self, name: str) -> str | None:
        from lab.errors import LabError
        from lab.substrates.docker.engine import connect
        from lab.substrates.docker.images import node_image_missing

        try:
            api = connect()
            try:
                return node_image_missing(api, name)
            finally:
                api.close()
        except LabError as error:
            return error.seen

    def open_files(self, nodes: int, clients: int) -> int:
        return 24 + 2 * clients  # each is attached to, and has a log

    def cluster(self, plan: ClusterPlan, run_id: str, log_dir: Path) -> Cluster:
        from lab.substrates.docker.cluster import DockerCluster

        return DockerCluster(plan, run_id, log_dir)


SUBSTRATE: Substrate = _Docker()
