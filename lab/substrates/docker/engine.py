"""The container engine: where it is, whether it can be used, and calls to it that don't block the loop.

The endpoint is found as the ``docker`` command finds it: ``DOCKER_HOST``, else ``DOCKER_CONTEXT``, else the
current context of its configuration, else the default socket. The SDK is imported only when there is a chance
that somebody answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lab.errors import LabError, UnknownOutcome

if TYPE_CHECKING:
    from docker import APIClient

T = TypeVar("T")

DEFAULT_SOCKET = "unix:///var/run/docker.sock"
CALL_TIMEOUT_S = 60
LOOK_TIMEOUT_S = 3
THREADS = 24

REMOTE = (
    "the engine at {host} is not on this machine: its containers have another monotonic clock than the lab, "
    "so that their stamps cannot be compared, and they see none of its files"
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine should be: its address, and what says so."""

    host: str
    origin: str

    @property
    def socket(self) -> Path | None:
        """The socket's path, if it is one of this machine."""
        return Path(self.host.removeprefix("unix://")) if self.host.startswith("unix://") else None


def endpoint(environment: Mapping[str, str] | None = None) -> Endpoint:
    """Find the engine's address as the ``docker`` command does.

    Raises:
        LabError: a context is asked for that does not exist.
    """
    env = os.environ if environment is None else environment
    if host := env.get("DOCKER_HOST"):
        return Endpoint(host, "DOCKER_HOST")
    home = env.get("DOCKER_CONFIG")
    directory = Path(home) if home else Path.home() / ".docker"
    name = env.get("DOCKER_CONTEXT") or _current_context(directory)
    if name in ("", "default"):
        return Endpoint(DEFAULT_SOCKET, "the default socket")
    return Endpoint(_host_of_context(directory, name), f"the context {name!r}")


def _current_context(directory: Path) -> str:
    try:
        return str(json.loads((directory / "config.json").read_bytes()).get("currentContext") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def _host_of_context(directory: Path, name: str) -> str:
    for meta in sorted(directory.glob("contexts/meta/*/meta.json")):
        try:
            context = json.loads(meta.read_bytes())
            if context["Name"] == name:
                return str(context["Endpoints"]["docker"]["Host"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
    raise LabError(
        f"there is no docker context {name!r}",
        where="DOCKER_CONTEXT, or the docker configuration",
        hint="docker context ls shows them",
    )


def no_engine_reason() -> str | None:
    """Say why there is no engine to use here, or None if one answers. Quick where there is none."""
    try:
        where = endpoint()
    except LabError as error:
        return error.seen
    if (reason := absent_reason(where)) is not None:
        return reason
    try:
        api = connect(LOOK_TIMEOUT_S)
        try:
            return unusable_reason(api.info(), where)
        finally:
            api.close()
    except LabError as error:
        return error.seen


def absent_reason(where: Endpoint) -> str | None:
    """Say why there is no engine of this machine's to ask there, or None if there is a socket."""
    if sys.platform != "linux":
        return f"docker runs need Linux, whose containers share the lab's clock, and this is {sys.platform}"
    if where.socket is None:
        return REMOTE.format(host=where.host)
    if not where.socket.exists():
        return f"no docker engine: there is no socket at {where.socket} ({where.origin})"
    if not os.access(where.socket, os.R_OK | os.W_OK):
        return f"the docker engine's socket {where.socket} may not be used by this user"
    return None


def unusable_reason(info: Mapping[str, Any], where: Endpoint) -> str | None:
    """Say why an engine that answers cannot be used, from what it tells about itself."""
    if info.get("OSType") != "linux":
        return f"the engine at {where.host} runs {info.get('OSType')} containers, the lab needs Linux ones"
    if info.get("KernelVersion") != os.uname().release:
        return REMOTE.format(host=where.host) + f" (its kernel is {info.get('KernelVersion')})"
    if any("userns" in option for option in info.get("SecurityOptions") or ()):
        return f"the engine at {where.host} gives users other ids, who may not write what the lab shares"
    if any("rootless" in option for option in info.get("SecurityOptions") or ()):
        return (
            f"the engine at {where.host} is rootless: its containers' networks cannot be reached from this "
            "machine except through published ports, which the lab does not use"
        )
    return None


def connect(timeout_s: int = CALL_TIMEOUT_S, where: Endpoint | None = None) -> APIClient:
    """Connect to the engine, by default that of the configuration. Raises ``LabError`` if none answers."""
    from docker import APIClient
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    where = where or endpoint()
    try:
        api = APIClient(base_url=where.host, timeout=timeout_s, version="auto", max_pool_size=THREADS)
    except (DockerException, RequestException, OSError) as error:
        raise LabError(
            f"no docker engine answers at {where.host}: {innermost(error)}",
            where=where.origin,
            hint="start it, or choose another substrate with --on",
        ) from error
    return api


def innermost(error: BaseException) -> str:
    """The words of the operating system's error at the bottom, where there is one: the rest is wrapping."""
    seen = error
    while (below := seen.__cause__ or seen.__context__) is not None:
        seen = below
    return (seen.strerror if isinstance(seen, OSError) else None) or str(seen) or type(seen).__name__


class Engine:
    """One connection to the engine for one run; every call goes through a thread of its own pool."""

    def __init__(self) -> None:
        self.api = connect()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._settled = False

    async def call(self, action: Callable[[APIClient], T]) -> T:
        """Run ``action`` with the engine's API, in a thread.

        Raises:
            UnknownOutcome: the engine did not do it.
        """
        if self._settled:
            raise UnknownOutcome("the run is over: the docker engine is not asked any more")
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.ask, action)

    def ask(self, action: Callable[[APIClient], T]) -> T:
        """Run ``action`` at once. Raises ``UnknownOutcome``."""
        from docker.errors import DockerException
        from requests.exceptions import RequestException

        try:
            return action(self.api)
        except (DockerException, RequestException, OSError) as error:
            reason = getattr(error, "explanation", None) or innermost(error)
            raise UnknownOutcome(f"the docker engine refused: {reason}", where="docker") from error

    async def settle(self) -> None:
        """Accept no more calls, and wait until none is under way any more."""
        self._settled = True
        await asyncio.to_thread(self._threads.shutdown, wait=True)

    def close(self) -> None:
        """Let go of the connection."""
        self.api.close()
