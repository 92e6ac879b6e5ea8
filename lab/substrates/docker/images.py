"""The images that docker runs need: what they are called, whether they are there, and how they are built.

Each carries a digest of what it was built from as a label, so that one that does not fit the lab any more is
told apart from one that does.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import os
import platform
import re
import tarfile
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lab import tools
from lab.errors import LabError
from lab.paths import compose_dir
from lab.servers import DEFAULT, IMAGE, Server, is_image
from lab.substrates.base import Service
from lab.substrates.docker.engine import connect
from lab.tools import named_servers, wheels
from lab.tools.model import Progress, SourceFailed

if TYPE_CHECKING:
    from docker import APIClient

LABEL = "lock-lab.image"
DIGEST_LABEL = "lock-lab.digest"
BASE_LABEL = "lock-lab.base"
SERVER_LABEL = "lock-lab.server"
"""Product and version of the server, where the lab has put it in: "Redis 8.2.3"."""
NODE_VARIABLE = "LOCK_LAB_NODE_IMAGE"
"""Names another image for nodes whose server nobody chooses than that of the default."""
CLIENT_VARIABLE = "LOCK_LAB_CLIENT_IMAGE"
"""Names an image for the clients that was built on the lab's own, with what a driver of one's own needs."""

BASE_IMAGE = "debian:bookworm-slim"
BUILD_TIMEOUT_S = 1800

SERVER_PLACE = PurePosixPath("/lock-lab/server")
"""Where the server of an image lies that the lab has put in, with the libraries that it brings."""
_SERVER = "server"
"""That directory in the context of the build."""
_PACKAGE = Path(__file__).resolve().parents[2]
_CLIENT_NEEDS = ("hiredis", "msgspec")
"""What the client process imports that is not in Python itself, nor the lab's own."""
_CLIENT_MAY_NEED = ("httpx==0.28.1", "kazoo==2.11.0", "psycopg[binary]==3.3.9", "redis==8.1.0")
"""What the lock of a client may import, installed here or not: in the versions of constraints.txt."""
CLIENT_ALSO = ("async-timeout==5.0.1",)
"""What redis-py, for drivers of one's own, needs in the image: its Python is older than 3.11.3."""
CLIENT_PYTHON = "3.11"
"""The Python of Debian's images."""
_PYTHON_TAGS = (f"--python-version={CLIENT_PYTHON}", "--implementation=cp", "--abi=cp311", "--abi=none")
_CLIENT_CODE = (
    *(
        "__init__.py",
        "addresses.py",
        "channel.py",
        "durations.py",
        "errors.py",
        "client_protocol.py",
        "processes.py",
    ),
    *(
        "drivers/__init__.py",
        "drivers/greet.py",
        "drivers/messages.py",
        "drivers/ordinary.py",
        "drivers/process.py",
        "drivers/python/ordinary_driver.py",
        "drivers/python/wire.py",
        "drivers/shapes.py",
        "client",
        "locks",
        "store",
    ),
)
"""The part of the lab that a client consists of."""

Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Image:
    """One kind of image: its Dockerfile, and what its digest covers."""

    kind: str
    base_argument: str
    files: Callable[[], Files]
    own_tag: bool = False
    """Whether each version has a tag of its own, so that several versions of the lab get along."""
    recipe: str = ""
    """Whose Dockerfile it is built by, if not its own kind's."""
    arguments: tuple[tuple[str, str], ...] = ()
    """The arguments of the Dockerfile besides its base."""
    tag: str = "latest"

    @property
    def name(self) -> str:
        """Its name in the engine."""
        return f"lock-lab-{self.kind}:{self.digest() if self.own_tag else self.tag}"

    @property
    def dockerfile(self) -> Path:
        """Its Dockerfile."""
        return compose_dir() / f"{self.recipe or self.kind}.Dockerfile"

    def digest(self) -> str:
        """A digest of everything in it that comes from the lab."""
        arguments = {name: value.encode() for name, value in self.arguments}
        content = {"Dockerfile": self.dockerfile.read_bytes(), **self.files(), **arguments}
        whole = hashlib.sha256()
        for name in sorted(content):
            whole.update(f"{name}\0{len(content[name])}\0".encode())
            whole.update(content[name])
        return whole.hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Present:
    """One image of the lab's that the engine has."""

    kind: str
    name: str
    base: str
    digest: str
    size_bytes: int
    image_id: str


def _shims() -> Files:
    return {f"shims/{path.name}": path.read_bytes() for path in sorted((_PACKAGE / "shims").glob("*.c"))}


def _client_code() -> Files:
    files = {f"site/lab/{path.relative_to(_PACKAGE)}": path.read_bytes() for path in _client_sources()}
    return {**_shims(), **files, "requirements": "\n".join(requirements()).encode()}


def _client_sources() -> Iterator[Path]:
    for path in (_PACKAGE / name for name in _CLIENT_CODE):
        yield from (path,) if path.is_file() else (p for p in path.rglob("*") if p.suffix in (".py", ".lua"))


def requirements() -> list[str]:
    """What the client imports: of what the lab itself needs the versions that it runs with."""
    needed = [f"{name}=={importlib.metadata.version(name)}" for name in _CLIENT_NEEDS]
    return [*needed, *_CLIENT_MAY_NEED, *CLIENT_ALSO]


def node_of(server: Server) -> Image:
    """The image of nodes with a server that the lab provides: lock-lab-redis:8.2.3."""
    return Image(server.product, "REDIS_IMAGE", _shims, recipe="node", tag=server.version)


def node_on(redis_image: str) -> Image:
    """The image of nodes with the server of another one: redis:8-alpine → lock-lab-node:redis-8-alpine."""
    tag = re.sub(r"[^A-Za-z0-9_.-]+", "-", redis_image).strip("-.")
    return Image("node", "REDIS_IMAGE", _shims, tag=tag)


NODE = node_of(DEFAULT)
CLIENT = Image("client", "BASE_IMAGE", _client_code, own_tag=True)
TOXIPROXY = Image("toxiproxy", "BASE_IMAGE", dict)
IMAGES = (NODE, CLIENT, TOXIPROXY)
SERVICE_PACKAGES: Mapping[Service, str] = {
    "etcd": "etcd-server",
    "zookeeper": "zookeeper",
    "postgres": "postgresql-15",
}
"""Debian's packages of the servers that are no Redis."""
SERVICES: Mapping[Service, Image] = {
    service: Image(service, "BASE_IMAGE", dict, recipe="service", arguments=(("PACKAGES", packages),))
    for service, packages in {**SERVICE_PACKAGES, "zookeeper": "zookeeper default-jre-headless"}.items()
}


def node_image(wanted: str | None = None) -> str:
    """The image of nodes with this server: ``redis@7.2``, ``image:NAME``; without one that of the default.

    Raises:
        LabError: there is no source of that server, or it is a path.
    """
    if wanted is None:
        return os.environ.get(NODE_VARIABLE) or NODE.name
    return wanted.removeprefix(IMAGE) if is_image(wanted) else node_of(_named(wanted).server).name


def _named(wanted: str) -> named_servers.NamedServer:
    found = named_servers.named(wanted)
    if isinstance(found, named_servers.NamedServer):
        return found
    raise LabError(
        f"docker runs images, and {wanted} is a program of this machine",
        where="--server",
        expected=f"{', '.join(named_servers.NAMES)}, or image:NAME",
    )


def client_image() -> str:
    """The image of the clients: this lab's own, unless another is named."""
    return os.environ.get(CLIENT_VARIABLE) or CLIENT.name


def missing_reason(api: APIClient) -> str | None:
    """Say which images a run lacks besides its nodes', or which don't fit this lab, or None."""
    lacking, stale = [], []
    for image, name in ((CLIENT, client_image()), (TOXIPROXY, TOXIPROXY.name)):
        digest = digest_of(api, name)
        if digest is None:
            lacking.append(name)
        elif digest != image.digest():
            stale.append(name)
    if lacking:
        return f"the engine has no image {', '.join(lacking)}"
    if stale:
        return f"{', '.join(stale)} was built by another version of the lab"
    return None


def node_missing_reason(api: APIClient, wanted: str | None = None) -> str | None:
    """Say why nodes cannot be containers with this server, or None.

    An image that somebody names is to have the lab's preload libraries, as the lab's own have.
    """
    name = node_image(wanted)
    digest = digest_of(api, name)
    if digest == NODE.digest():
        return None
    own = name == NODE.name or (wanted is not None and not is_image(wanted))
    command = "lab images build" if wanted is None else f"lab images build --server {wanted}"
    if digest is None:
        listed = "lab images list shows those that it has, lab images build makes the lab's own"
        return f"the engine has no image {name}: {f'{command} provides it' if own else listed}"
    if own:
        return f"{name} was built by another version of the lab: {command} builds it again"
    return (
        f"{name} was not built by this version of the lab: lab images build --redis-image {name} builds "
        f"{node_on(name).name} on it"
    )


def server_in_image(api: APIClient, wanted: str | None = None) -> str | None:
    """Product and version of the server in the nodes' image; None if that does not say so."""
    return (_labels_of(api, node_image(wanted)) or {}).get(SERVER_LABEL)


def service_missing_reason(api: APIClient, service: Service) -> str | None:
    """Say why nodes of this kind cannot run, or None if they can."""
    image = SERVICES[service]
    if digest_of(api, image.name) == image.digest():
        return None
    return f"the engine has no image {image.name} that fits this version of the lab"


def digest_of(api: APIClient, name: str) -> str | None:
    """What an image was built from; empty if it does not say so, None if it is not there."""
    labels = _labels_of(api, name)
    return None if labels is None else labels.get(DIGEST_LABEL, "")


def base_of(api: APIClient, name: str) -> str | None:
    """The image that one of the lab's is built on; None if it is not there, or does not say so."""
    return (_labels_of(api, name) or {}).get(BASE_LABEL)


def _labels_of(api: APIClient, name: str) -> dict[str, str] | None:
    from docker.errors import ImageNotFound

    try:
        inspected: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None
    return inspected["Config"]["Labels"] or {}


def present() -> list[Present]:
    """Return the lab's images that the engine has. Raises ``LabError`` if no engine answers."""
    api = connect()
    try:
        found = api.images(filters={"label": LABEL})
    finally:
        api.close()
    return sorted(
        (_read(image, name) for image in found for name in image["RepoTags"] or ("<none>:<none>",)),
        key=lambda one: one.name,
    )


def _read(image: dict[str, Any], name: str) -> Present:
    labels = image["Labels"]
    base, digest = labels.get(BASE_LABEL, "?"), labels.get(DIGEST_LABEL, "?")
    return Present(labels[LABEL], name, base, digest, image["Size"], image["Id"])


def remove() -> list[str]:
    """Remove all of the lab's images, and return their names. Raises ``LabError``."""
    from docker.errors import DockerException

    names = {image.name if "<none>" not in image.name else image.image_id for image in present()}
    api = connect()
    try:
        for name in sorted(names):
            api.remove_image(name)
    except DockerException as error:
        raise LabError(
            f"the engine did not remove {name}: {getattr(error, 'explanation', error)}",
            hint="lab down ends what a killed lab left running",
        ) from error
    finally:
        api.close()
    return sorted(names)


def build(
    progress: Progress,
    *,
    servers: Sequence[str] = (),
    redis_image: str | None = None,
    consensus: bool = False,
) -> list[str]:
    """Build what is lacking or stale, and return the names.

    Nodes have the default server, unless others are named: ``servers`` by name (``redis@7.2``), or the one in
    ``redis_image``, on which nodes are always built anew. ``consensus`` asks for the servers that are no
    Redis as well.

    Raises:
        LabError: a server cannot be had, no engine answers, or an image could not be built; the engine's
            last words are told.
    """
    wanted = [_named(name) for name in servers or (() if redis_image else (named_servers.DEFAULT_NAME,))]
    toxiproxy = tools.provide("toxiproxy-server", progress).path
    api = connect(BUILD_TIMEOUT_S)
    built: list[Image] = []
    try:
        for server in wanted:
            built.append(image := node_of(server.server))
            if digest_of(api, image.name) != image.digest():
                files, words = _with_server(server, progress)
                make(api, image, BASE_IMAGE, {**_shims(), **files}, progress, {SERVER_LABEL: words})
        if redis_image is not None:
            built.append(image := node_on(redis_image))
            make(api, image, redis_image, {**_shims(), f"{_SERVER}/origin": redis_image.encode()}, progress)
            progress(f"--server image:{image.name} runs nodes of it")
        built += (CLIENT, TOXIPROXY)
        if digest_of(api, CLIENT.name) != CLIENT.digest():
            make(api, CLIENT, BASE_IMAGE, {**_client_code(), **_wheels(progress)}, progress)
        if digest_of(api, TOXIPROXY.name) != TOXIPROXY.digest():
            make(api, TOXIPROXY, BASE_IMAGE, {"toxiproxy-server": toxiproxy.read_bytes()}, progress)
        for service in SERVICES.values() if consensus else ():
            built.append(service)
            if digest_of(api, service.name) != service.digest():
                make(api, service, BASE_IMAGE, {}, progress)
        _drop_replaced(api)
    finally:
        api.close()
    return [image.name for image in built]


def _with_server(server: named_servers.NamedServer, progress: Progress) -> tuple[Files, str]:
    """A server and the libraries that it brings, and what it says it is. Raises ``LabError``."""
    with tempfile.TemporaryDirectory(prefix="lock-lab-") as scratch:
        found = server.provide_kept(progress)
        try:
            files = named_servers.moved(found.path, SERVER_PLACE, Path(scratch), progress)
        except SourceFailed as failure:
            raise LabError(f"{server.name} cannot be put into an image: {failure}") from failure
        contents = {f"{_SERVER}/{name}": path.read_bytes() for name, path in files.items()}
    return {**contents, f"{_SERVER}/origin": str(server.server).encode()}, found.version or str(server.server)


def _drop_replaced(api: APIClient) -> None:
    """Remove the images whose names went to newer ones, unless a run still uses them."""
    from docker.errors import DockerException

    for image in api.images(filters={"label": LABEL, "dangling": True}):
        with contextlib.suppress(DockerException):
            api.remove_image(image["Id"])


def _wheels(progress: Progress) -> Files:
    """What the client imports, unpacked as pip would install it."""
    return {f"site/{name}": content for name, content in packages(requirements(), progress).items()}


def packages(pins: Sequence[str], progress: Progress) -> Files:
    """What pip installs for these, and for what they need, for the Python of the images.

    Raises:
        LabError: they cannot be had.
    """
    progress(f"fetching {', '.join(pins)} for Python {CLIENT_PYTHON}")
    with tempfile.TemporaryDirectory(prefix="lock-lab-") as scratch:
        site = Path(scratch, "site")
        try:
            wheels.install(pins, site, Path(scratch), tags=python_tags())
        except SourceFailed as failure:
            raise LabError(
                f"{', '.join(pins)} could not be had: {failure}",
                expected=f"wheels for Python {CLIENT_PYTHON}",
                hint="is PyPI within reach from here?",
            ) from failure
        paths = [path for path in sorted(site.rglob("*")) if path.is_file() and path.suffix != ".pyc"]
        return {str(path.relative_to(site)): path.read_bytes() for path in paths}


def python_tags() -> tuple[str, ...]:
    """The options by which pip chooses wheels for the Python of the images."""
    machine = platform.machine().lower()
    platforms = ("manylinux_2_28", "manylinux_2_17", "manylinux2014")
    return (*_PYTHON_TAGS, *(f"--platform={one}_{machine}" for one in platforms))


def make(
    api: APIClient,
    image: Image,
    base: str,
    files: Files,
    progress: Progress,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Build one image on a base. Raises ``LabError`` with the engine's last words."""
    progress(f"building {image.name} on {base}")
    lines = api.build(
        fileobj=_context({**files, "Dockerfile": image.dockerfile.read_bytes()}),
        custom_context=True,
        tag=image.name,
        buildargs={image.base_argument: base, **dict(image.arguments)},
        labels={LABEL: image.kind, DIGEST_LABEL: image.digest(), BASE_LABEL: base, **labels},
        rm=True,
        forcerm=True,
        decode=True,
        timeout=BUILD_TIMEOUT_S,
    )
    _follow(lines, image, base, progress)


def _follow(lines: Iterable[dict[str, Any]], image: Image, base: str, progress: Progress) -> None:
    """Tell the steps as they come. Raises ``LabError`` with the last words if one fails."""
    said: list[str] = []
    for line in lines:
        text = str(line.get("stream", "")).strip()
        if text.startswith("Step "):
            progress(text.splitlines()[0])
        elif text:
            said.append(text)
        if error := line.get("error"):
            raise LabError(
                _why(str(error).strip(), said),
                where=f"building {image.name} on {base}",
                hint=_hint("\n".join([*said, str(error)]), base),
            )


def _why(error: str, said: list[str]) -> str:
    # An engine may send a line of stderr in colour.
    if refused := re.findall(r"^(?:\x1b\[\d+m)?REFUSED: ([^\x1b\n]+)", "\n".join(said), re.MULTILINE):
        return str(refused[-1])
    return "\n".join(["the image could not be built", *said[-3:], error])


def _hint(error: str, base: str) -> str:
    reach = ("no such host", "pull access denied", "dial tcp", "connection refused", "timeout", "deadline")
    if base == BASE_IMAGE and any(words in error for words in reach):
        script = compose_dir() / "base-image.sh"
        return f"no registry can be reached: {script} makes {base} of Debian's packages"
    if "has neither redis-server" in error:
        return f"name an image of Redis or Valkey, or build one that installs it: FROM {base}"
    if base != BASE_IMAGE:
        return "see what the engine said above; lab images build without --redis-image builds the lab's own"
    return "see what the engine said above"


def _context(files: Files) -> io.BytesIO:
    """The build context as a tar file, the same for the same content."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o755
            archive.addfile(member, io.BytesIO(files[name]))
    packed.seek(0)
    return packed
