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
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab import tools
from lab.errors import LabError
from lab.paths import compose_dir
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

BASE_IMAGE = "debian:bookworm-slim"
BUILD_TIMEOUT_S = 1800

_PACKAGE = Path(__file__).resolve().parents[2]
_CLIENT_NEEDS = ("hiredis", "msgspec", "redis")
"""What the client process imports that is not in Python itself, nor the lab's own."""
_CLIENT_ALSO = ("async-timeout==5.0.1",)
"""What redis-py needs in the image, whose Python is older than 3.11.3."""
_CLIENT_PYTHON = ("--python-version=3.11", "--implementation=cp", "--abi=cp311", "--abi=none")
_CLIENT_CODE = (
    *("__init__.py", "address.py", "channel.py", "durations.py", "errors.py", "heartbeat.py", "points.py"),
    *(
        "drivers/__init__.py",
        "drivers/messages.py",
        "drivers/process.py",
        "client",
        "locks",
        "mutants",
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

    @property
    def name(self) -> str:
        """Its name in the engine."""
        return f"lock-lab-{self.kind}:{self.digest() if self.own_tag else 'latest'}"

    @property
    def dockerfile(self) -> Path:
        """Its Dockerfile."""
        return compose_dir() / f"{self.kind}.Dockerfile"

    def digest(self) -> str:
        """A digest of everything in it that comes from the lab."""
        content = {"Dockerfile": self.dockerfile.read_bytes(), **self.files()}
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
    for name in _CLIENT_CODE:
        path = _PACKAGE / name
        yield from (path,) if path.is_file() else (p for p in path.rglob("*") if p.suffix in (".py", ".lua"))


def requirements() -> list[str]:
    """What the client imports, in the versions that the lab itself runs with."""
    return [*(f"{name}=={importlib.metadata.version(name)}" for name in _CLIENT_NEEDS), *_CLIENT_ALSO]


NODE = Image("node", "REDIS_IMAGE", _shims)
CLIENT = Image("client", "BASE_IMAGE", _client_code, own_tag=True)
TOXIPROXY = Image("toxiproxy", "BASE_IMAGE", dict)
IMAGES = (NODE, CLIENT, TOXIPROXY)


def node_image() -> str:
    """The image of the nodes: the one that was built last, unless another is named."""
    return os.environ.get(NODE_VARIABLE) or NODE.name


def tag_of(redis_image: str) -> str:
    """The name under which nodes built on ``redis_image`` are kept: "redis:8-alpine" → "…:redis-8-alpine"."""
    return f"lock-lab-node:{re.sub(r'[^A-Za-z0-9_.-]+', '-', redis_image).strip('-.')}"


def missing_reason(api: APIClient) -> str | None:
    """Say which images a run lacks, or which don't fit this lab, or None if all are there."""
    lacking, stale = [], []
    for image in IMAGES:
        name = node_image() if image is NODE else image.name
        digest = _digest_of(api, name)
        if digest is None:
            lacking.append(name)
        elif digest != image.digest():
            stale.append(name)
    if lacking:
        return f"the engine has no image {', '.join(lacking)}"
    if stale:
        return f"{', '.join(stale)} was built by another version of the lab"
    return None


def _digest_of(api: APIClient, name: str) -> str | None:
    from docker.errors import ImageNotFound

    try:
        inspected: dict[str, Any] = api.inspect_image(name)  # type: ignore[no-untyped-call]
    except ImageNotFound:
        return None
    return str((inspected["Config"]["Labels"] or {}).get(DIGEST_LABEL, ""))


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


def build(redis_image: str | None, progress: Progress) -> list[str]:
    """Build what is lacking or stale, the nodes always, and return the names.

    Raises:
        LabError: no engine answers, or an image could not be built; the engine's last words are told.
    """
    toxiproxy = tools.provide("toxiproxy-server", progress).path
    api = connect(BUILD_TIMEOUT_S)
    try:
        base = redis_image or BASE_IMAGE
        tagged = tag_of(base)
        _build(api, NODE, base, _shims(), progress)
        repository, _, tag = tagged.partition(":")
        api.tag(NODE.name, repository, tag)
        if _digest_of(api, CLIENT.name) != CLIENT.digest():
            _build(api, CLIENT, BASE_IMAGE, {**_client_code(), **_wheels(progress)}, progress)
        if _digest_of(api, TOXIPROXY.name) != TOXIPROXY.digest():
            _build(api, TOXIPROXY, BASE_IMAGE, {"toxiproxy-server": toxiproxy.read_bytes()}, progress)
        _drop_replaced(api)
    finally:
        api.close()
    return [NODE.name, tagged, CLIENT.name, TOXIPROXY.name]


def _drop_replaced(api: APIClient) -> None:
    """Remove the images whose names went to newer ones, unless a run still uses them."""
    from docker.errors import DockerException

    for image in api.images(filters={"label": LABEL, "dangling": True}):
        with contextlib.suppress(DockerException):
            api.remove_image(image["Id"])


def _wheels(progress: Progress) -> Files:
    """What the client imports, unpacked as pip would install it."""
    machine = platform.machine().lower()
    tags = (*_CLIENT_PYTHON, f"--platform=manylinux_2_17_{machine}", f"--platform=manylinux2014_{machine}")
    files: Files = {}
    for requirement in requirements():
        with tempfile.TemporaryDirectory(prefix="lock-lab-") as scratch:
            directory = Path(scratch)
            try:
                wheel = wheels.download(requirement, directory, progress, tags=tags)
                for path in wheels.unpack(wheel, directory / "site", lambda _: True):
                    files[str(path.relative_to(directory))] = path.read_bytes()
            except SourceFailed as failure:
                raise LabError(
                    f"{requirement} could not be had: {failure}", where="the client image"
                ) from failure
    return files


def _build(api: APIClient, image: Image, base: str, files: Files, progress: Progress) -> None:
    progress(f"building {image.name} on {base}")
    lines = api.build(
        fileobj=_context({**files, "Dockerfile": image.dockerfile.read_bytes()}),
        custom_context=True,
        tag=image.name,
        buildargs={image.base_argument: base},
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
                hint=_hint(str(error), base),
            )


def _why(error: str, said: list[str]) -> str:
    refused = [line for text in said for line in text.splitlines() if line.startswith("REFUSED: ")]
    if refused:
        return refused[-1].removeprefix("REFUSED: ")
    return "\n".join(["the image could not be built", *said[-3:], error])


def _hint(error: str, base: str) -> str:
    reach = ("no such host", "pull access denied", "dial tcp", "connection refused", "timeout", "deadline")
    if base == BASE_IMAGE and any(words in error for words in reach):
        script = compose_dir() / "base-image.sh"
        return f"no registry can be reached: {script} makes {base} of Debian's packages"
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
