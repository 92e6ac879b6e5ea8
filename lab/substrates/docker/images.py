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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import tools
from lab.errors import LabError
from lab.paths import compose_dir
from lab.substrates.base import Service
from lab.substrates.docker.engine import connect
from lab.tools import wheels
from lab.tools.model import Progress, SourceFailed

if TYPE_CHECKING:
    from docker import APIClient

LABEL = "lock-lab.image"
DIGEST_LABEL = "lock-lab.digest"
BASE_LABEL = "lock-lab.base"
NODE_VARIABLE = "LOCK_LAB_NODE_IMAGE"
"""Names another image for the nodes than the one that was built last."""
CLIENT_VARIABLE = "LOCK_LAB_CLIENT_IMAGE"
"""Names an image for the clients that was built on the lab's own, with what a driver of one's own needs."""

BASE_IMAGE = "debian:bookworm-slim"
BUILD_TIMEOUT_S = 1800

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

    @property
    def name(self) -> str:
        """Its name in the engine."""
        return f"lock-lab-{self.kind}:{self.digest() if self.own_tag else 'latest'}"

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


NODE = Image("node", "REDIS_IMAGE", _shims)
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


def node_image() -> str:
    """The image of the nodes: the one that was built last, unless another is named."""
    return os.environ.get(NODE_VARIABLE) or NODE.name


def client_image() -> str:
    """The image of the clients: this lab's own, unless another is named."""
    return os.environ.get(CLIENT_VARIABLE) or CLIENT.name


def tag_of(redis_image: str) -> str:
    """The name under which nodes built on ``redis_image`` are kept: "redis:8-alpine" → "…:redis-8-alpine"."""
    return f"lock-lab-node:{re.sub(r'[^A-Za-z0-9_.-]+', '-', redis_image).strip('-.')}"


def missing_reason(api: APIClient) -> str | None:
    """Say which images a run lacks, or which don't fit this lab, or None if all are there."""
    lacking, stale = [], []
    for image in IMAGES:
        name = {NODE: node_image, CLIENT: client_image}.get(image, lambda: TOXIPROXY.name)()
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


def node_image_missing(api: APIClient, name: str) -> str | None:
    """Say why nodes cannot be containers of this image, which is to have the lab's preload libraries."""
    digest = digest_of(api, name)
    if digest is None:
        return f"the engine has no image {name}"
    if digest != NODE.digest():
        return (
            f"{name} was not built by this version of the lab: lab images build --redis-image {name} builds "
            f"{tag_of(name)} on it"
        )
    return None


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


def build(redis_image: str | None, progress: Progress, *, consensus: bool = False) -> list[str]:
    """Build what is lacking or stale, the nodes always, and return the names.

    Without ``redis_image`` nodes stay on the base of those that are there; the first time it is Debian's.
    ``consensus`` asks for the servers that are no Redis as well.

    Raises:
        LabError: no engine answers, or an image could not be built; the engine's last words are told.
    """
    toxiproxy = tools.provide("toxiproxy-server", progress).path
    api = connect(BUILD_TIMEOUT_S)
    try:
        base = redis_image or base_of(api, NODE.name) or BASE_IMAGE
        if redis_image is None and base != BASE_IMAGE:
            progress(f"nodes stay on {base}, chosen before; --redis-image {BASE_IMAGE} goes back to Debian's")
        tagged = tag_of(base)
        make(api, NODE, base, _shims(), progress)
        repository, _, tag = tagged.partition(":")
        api.tag(NODE.name, repository, tag)
        if digest_of(api, CLIENT.name) != CLIENT.digest():
            make(api, CLIENT, BASE_IMAGE, {**_client_code(), **_wheels(progress)}, progress)
        if digest_of(api, TOXIPROXY.name) != TOXIPROXY.digest():
            make(api, TOXIPROXY, BASE_IMAGE, {"toxiproxy-server": toxiproxy.read_bytes()}, progress)
        services = SERVICES.values() if consensus else ()
        for service in services:
            if digest_of(api, service.name) != service.digest():
                make(api, service, BASE_IMAGE, {}, progress)
        _drop_replaced(api)
    finally:
        api.close()
    return [NODE.name, tagged, CLIENT.name, TOXIPROXY.name, *(service.name for service in services)]


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


def make(api: APIClient, image: Image, base: str, files: Files, progress: Progress) -> None:
    """Build one image on a base. Raises ``LabError`` with the engine's last words."""
    progress(f"building {image.name} on {base}")
    lines = api.build(
        fileobj=_context({**files, "Dockerfile": image.dockerfile.read_bytes()}),
        custom_context=True,
        tag=image.name,
        buildargs={image.base_argument: base, **dict(image.arguments)},
        labels={LABEL: image.kind, DIGEST_LABEL: image.digest(), BASE_LABEL: base},
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
        return f"see what the engine said above; --redis-image {BASE_IMAGE} builds nodes with Debian's Redis"
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
