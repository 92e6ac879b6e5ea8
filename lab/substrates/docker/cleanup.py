"""Nothing is left in the engine: what a killed lab leaves there is found by its labels and removed.

A run's labels say which process made it, on which boot of the machine and in which pid namespace, so that
only what belongs to a dead lab is touched, whoever asks. Labs whose state lies elsewhere clean up after
themselves, as they do with processes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.paths import state_dir
from lab.processes import started_at
from lab.substrates.docker.engine import (
    LOOK_TIMEOUT_S,
    Endpoint,
    absent_reason,
    connect,
    endpoint,
    innermost,
)
from lab.substrates.docker.topology import LABEL, PART_LABEL, PROXY
from lab.substrates.run_files import Swept, boot_id, pid_namespace

if TYPE_CHECKING:
    from docker import APIClient

PID_LABEL = "lock-lab.pid"
STARTED_LABEL = "lock-lab.started"
BOOT_LABEL = "lock-lab.boot"
SPACE_LABEL = "lock-lab.pid-namespace"
STATE_LABEL = "lock-lab.state"
_REMOVERS = 8


def owner_labels(run_id: str) -> dict[str, str]:
    """The labels of everything that this process makes for a run."""
    return {
        LABEL: run_id,
        PID_LABEL: str(os.getpid()),
        STARTED_LABEL: started_at(os.getpid()) or "",
        BOOT_LABEL: boot_id(),
        SPACE_LABEL: pid_namespace(),
        STATE_LABEL: str(state_dir()),
    }


def is_dead(labels: Mapping[str, str]) -> bool:
    """Whether the lab that made something with these labels is gone; False where that is not ours to tell."""
    if labels.get(BOOT_LABEL) != boot_id():
        return True
    if labels.get(STATE_LABEL, str(state_dir())) != str(state_dir()):
        return False
    if labels.get(SPACE_LABEL) != pid_namespace():
        return False
    try:
        pid = int(labels[PID_LABEL])
    except (KeyError, ValueError):
        return False
    return started_at(pid) != labels.get(STARTED_LABEL)


class Unasked(Exception):
    """An engine could not be asked what it has. ``is_silent``: it is there, but it does not answer."""

    def __init__(self, seen: str, *, is_silent: bool) -> None:
        super().__init__(seen)
        self.seen, self.is_silent = seen, is_silent


def sweep_engine(host: str | None = None) -> list[Swept]:
    """Remove what dead labs left in an engine: the one at the address ``host``, or that of the configuration.

    What it refuses to remove is in the result, with the reason.

    Raises:
        Unasked: no engine answers there.
    """
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    try:
        where = endpoint() if host is None else Endpoint(host, "the run's file")
    except LabError as error:
        raise Unasked(error.seen, is_silent=False) from error
    if (reason := absent_reason(where)) is not None:
        raise Unasked(reason, is_silent=False)
    try:
        connect(LOOK_TIMEOUT_S, where).close()
        api = connect(LOOK_TIMEOUT_S * 10, where)
        try:
            return [_removed(api, run) for run in sorted(_dead_runs(api))]
        finally:
            api.close()
    except LabError as error:
        raise Unasked(error.seen, is_silent=True) from error
    except (DockerException, RequestException, OSError) as error:
        seen = f"the docker engine at {where.host} fell silent: {innermost(error)}"
        raise Unasked(seen, is_silent=True) from error


def _removed(api: APIClient, run_id: str) -> Swept:
    try:
        return Swept(run_id, containers=remove_run(api, run_id))
    except LabError as error:
        return Swept(run_id, not_removed=error.seen)


def _dead_runs(api: APIClient) -> set[str]:
    marked = [one["Labels"] for one in api.containers(all=True, filters={"label": LABEL})]
    marked += [one["Labels"] for one in api.networks(filters={"label": LABEL})]
    return {labels[LABEL] for labels in marked if is_dead(labels)}


def remove_run(api: APIClient, run_id: str, logs: Path | None = None) -> int:
    """Remove everything of one run, running or not, and return how many containers that were.

    With ``logs`` the containers' logs are kept there, except those that are there already. Raises
    ``LabError``.
    """
    mine = {"label": f"{LABEL}={run_id}"}

    def remove(container: dict[str, Any]) -> None:
        from docker.errors import DockerException, NotFound

        if logs is not None:
            with contextlib.suppress(DockerException, OSError):
                _keep_log(api, container, logs)
        with contextlib.suppress(NotFound):
            api.remove_container(container["Id"], force=True, v=True)

    try:
        containers = api.containers(all=True, filters=mine)
        with ThreadPoolExecutor(_REMOVERS) as threads:
            # Podman removes no container in whose network namespace another one is.
            list(threads.map(remove, [one for one in containers if not _is_shared(one)]))
            list(threads.map(remove, [one for one in containers if _is_shared(one)]))
        for network in api.networks(filters=mine):
            api.remove_network(network["Id"])
    except Exception as error:
        seen = getattr(error, "explanation", None) or innermost(error)
        raise LabError(
            f"the docker engine did not remove run {run_id}: {seen}", hint="lab down tries again"
        ) from error
    return len(containers)


def _is_shared(container: dict[str, Any]) -> bool:
    return str(container["Labels"].get(PART_LABEL, "")).startswith(PROXY)


def _keep_log(api: APIClient, container: dict[str, Any], logs: Path) -> None:
    part = str(container["Labels"].get(PART_LABEL, container["Id"][:12]))
    name = part if "-" in part or len(part) > 1 else f"node-{part}"
    path = logs / f"{name}.log"
    if not path.exists():
        path.write_bytes(api.logs(container["Id"]))
