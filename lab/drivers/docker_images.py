"""Drivers in containers: the image that a client with a driver runs in, and asking the driver in there.

One of the lab's own drivers has an image of its own: the client's, the library as it was installed on the
host, and the runtime that it needs, of Debian's packages. Somebody's own program finds the directory from
which the lab is run in its container, read-only, and what the client's image has: Python and a libc. For a
program that ``node``, ``java`` or ``php`` starts there is an image with that; who needs more names an image
(``LOCK_LAB_CLIENT_IMAGE``).
"""

from __future__ import annotations

import functools
import os
import secrets
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from lab.drivers import PREFIX, is_driver, words_of
from lab.drivers import environment as made_here
from lab.drivers.greet import Question, Said
from lab.drivers.messages import Hello
from lab.drivers.process import READY_TIMEOUT_S, OptionValues
from lab.drivers.registry import HERE, Row, row
from lab.drivers.shapes import is_blocking
from lab.errors import LabError
from lab.substrates.docker import images
from lab.substrates.docker.cleanup import owner_labels, remove_run
from lab.substrates.docker.container import create
from lab.substrates.docker.engine import connect, innermost, no_engine_reason
from lab.substrates.docker.images import BASE_IMAGE, CLIENT_PYTHON, CLIENT_VARIABLE, Files, Image
from lab.substrates.docker.topology import CODE, Mount, Spec
from lab.substrates.run_files import RunFile
from lab.tools import cache
from lab.tools.model import Progress

if TYPE_CHECKING:
    from docker import APIClient

RUNTIMES: Final = {"node": "nodejs", "java": "openjdk-17-jre-headless", "php": "php-cli"}
"""The programs that drivers are run by, and the packages of Debian that have them."""
ROOM: Final = "/lock-lab/driver"
"""Where a library lies in its image: its environment, and the lab's drivers, if they are not in there."""
ENV, DRIVERS = f"{ROOM}/env", f"{ROOM}/drivers"
SITE_PACKAGES: Final = f"driver/env/venv/lib/python{CLIENT_PYTHON}/site-packages"
ANYWHERE: Final = ("/usr/", "/bin/", "/sbin/", "/lib", "/etc/", "/dev/", "/proc/", "/tmp/")
"""Where a container has files of its own."""
ASKED_S: Final = int(READY_TIMEOUT_S) + 60


class Containers:
    """Drivers in the containers of clients."""

    def why_not(self, lock: str) -> str | None:
        """Whether its image is there, and fits this version of the lab."""
        lacking = _lacking(lock)
        return None if lacking is None else ": ".join(filter(None, lacking))

    def launch(self, lock: str) -> tuple[str, ...]:
        """As on the host, with the places that it has in the container."""
        entry, lacking = _row(lock), _lacking(lock)
        if lacking is not None:
            reason, command = lacking
            raise LabError(
                f"the driver {lock.removeprefix(PREFIX)!r} cannot be used on docker: {reason}",
                where=f"lock {lock}",
                hint=command or "`lab drivers list --on docker` shows what can",
            )
        return _words_inside(lock) if entry is None else made_here.command_of(entry, ENV, DRIVERS)

    def client_image(self, lock: str) -> str | None:
        """The driver's own image, or that of all clients."""
        return image_name(lock)

    def hello(self, lock: str, options: OptionValues) -> Hello:
        """Ask it in a container that has no network, and is removed afterwards."""
        words = self.launch(lock)
        said, log = _ask(image_name(lock), Question(words, dict(options)), _code(lock))
        if said is not None and said.hello is not None:
            return said.hello
        log_end = f"its log ends:\n{log}" if log else ""
        if said is None or said.trouble is None:
            raise LabError(
                f"the driver {shlex.join(words)!r} could not be asked in a container", hint=log_end
            )
        trouble = said.trouble
        about = None if _code(lock) is None or trouble.where == "lock.options" else _what_is_there(lock)
        hint = "\n".join(filter(None, (trouble.hint, about, log_end)))
        raise LabError(trouble.seen, where=trouble.where, expected=trouble.expected, hint=hint)


def _lacking(lock: str) -> tuple[str, str] | None:
    """What a driver lacks here, and the command that helps, if one does; None if it lacks nothing."""
    entry = _row(lock)
    reason = (entry.unavailable if entry is not None else "") or no_engine_reason()
    if reason:
        return reason, ""
    image, name = image_of(lock), image_name(lock)
    with _engine() as api:
        if images.digest_of(api, name) == (images.CLIENT if image is None else image).digest():
            return None
    if image is None:
        return f"the engine has no image {name} that fits this version of the lab", "lab images build"
    if entry is not None and entry.missing:
        return f"to make its image, {' and '.join(entry.missing)} must be on the PATH", ""
    return "it has no image that fits this version of the lab", install_command(lock)


def install_command(lock: str) -> str:
    """The command that makes what a driver needs to run in containers."""
    return f"lab drivers install {shlex.quote(lock.removeprefix(PREFIX))} --on docker"


def image_of(lock: str) -> Image | None:
    """The image that this driver's clients run in, if it is not the client's own."""
    entry = _row(lock)
    if entry is None:
        runtime = _runtime(words_of(lock)[0])
        return _image(runtime, runtime, dict) if runtime and not os.environ.get(CLIENT_VARIABLE) else None
    name = entry.shares or lock.removeprefix(PREFIX)
    runtimes = " ".join(sorted(filter(None, map(_runtime, entry.needs))))
    return _image(name, runtimes, functools.partial(_pins, row(name)))


def image_name(lock: str) -> str:
    """What that image is called in the engine."""
    image = image_of(lock)
    return images.client_image() if image is None else image.name


def install(lock: str, progress: Progress) -> str:
    """Make what a driver needs to run in containers, unless it is there; return its image's name.

    Two processes that make the same one do it one after the other. Raises ``LabError``.
    """
    image, entry = image_of(lock), _row(lock)
    if entry is not None and entry.unavailable:
        raise LabError(f"there is no driver for {lock.removeprefix(PREFIX)!r} yet: {entry.unavailable}")
    with _engine(images.BUILD_TIMEOUT_S) as api:
        if images.digest_of(api, images.CLIENT.name) != images.CLIENT.digest():
            raise LabError(
                f"the engine has no image {images.CLIENT.name}, on which this one is built",
                hint="lab images build",
            )
        if image is None:
            return images.client_image()
        with cache.exclusive(f"image-{image.kind}", progress):  # its environment has a lock of its own
            if images.digest_of(api, image.name) != image.digest():
                about = {"driver/about": f"{image.kind}\n".encode()}
                library = {} if entry is None else _library(lock.removeprefix(PREFIX), entry, progress)
                images.make(api, image, BASE_IMAGE, {**about, **library}, progress)
    if entry is not None:
        Containers().hello(lock, {})
    return image.name


def _row(lock: str) -> Row | None:
    """The row of one of the lab's drivers; None for somebody's own. Raises ``LabError``."""
    return row(lock.removeprefix(PREFIX)) if lock.startswith(PREFIX) else None


def named(name: str) -> str:
    """The lock's name of what is asked for on the command line: ``pottery``, or a command line."""
    return name if is_driver(name) else f"{PREFIX}{name}"


def _runtime(program: str) -> str:
    return RUNTIMES.get(program, "") and program


def _image(name: str, runtimes: str, files: Any) -> Image:
    packages = " ".join(RUNTIMES[one] for one in runtimes.split())
    arguments = (("CLIENT_IMAGE", images.CLIENT.name), ("PACKAGES", packages))
    kind = f"driver-{name}"
    return Image(kind, "BASE_IMAGE", files, own_tag=True, recipe="driver", arguments=arguments)


def _pins(entry: Row) -> Files:
    """What a library's image is made of, as far as it is known before it is made."""
    pinned = msgspec.json.encode((entry.library, entry.version, entry.install, entry.files))
    return {"row": pinned, **dict(made_here.sources_of(entry)), **_beside(entry)}


def _beside(entry: Row) -> Files:
    """The lab's own files that a driver is run from where they lie: the directory of its program."""
    rooms = {
        Path(word.removeprefix("{here}/")).parent for word in entry.command if word.startswith("{here}/")
    }
    paths = [path for room in rooms for path in sorted((HERE / room).iterdir()) if path.suffix == ".py"]
    return {f"driver/drivers/{path.relative_to(HERE)}": path.read_bytes() for path in paths}


def _library(name: str, entry: Row, progress: Progress) -> Files:
    """A library as it goes into its image. Raises ``LabError`` if it cannot be had."""
    owner = row(entry.shares) if entry.shares else entry
    if owner.language == "Python":
        return {**_packages(owner, progress), **_beside(owner)}
    env = made_here.install(name, progress)
    paths = [path for path in sorted(env.rglob("*")) if path.is_file() and not path.is_symlink()]
    return {f"driver/env/{path.relative_to(env)}": path.read_bytes() for path in paths}


def _packages(entry: Row, progress: Progress) -> Files:
    """A library of Python's with all that it needs. Raises ``LabError``."""
    pins = [word for command in entry.install for word in command if "==" in word]
    found = images.packages([*pins, *images.CLIENT_ALSO], progress)
    return {f"{SITE_PACKAGES}/{name}": content for name, content in found.items()}


def _code(lock: str) -> Path | None:
    return None if lock.startswith(PREFIX) else Path.cwd()


def _words_inside(lock: str) -> tuple[str, ...]:
    """A command line, with the places that its files have in the container. Raises ``LabError``."""
    here = Path.cwd()
    if is_blocking(lock):
        return words_of(lock, "python3", [str(CODE)])
    return tuple(_inside(word, here) for word in words_of(lock))


def _inside(word: str, here: Path) -> str:
    leaves = "/" in word and ".." in Path(word).parts
    if not (word.startswith("/") or leaves):
        return word
    there = Path(os.path.normpath(here / word))
    if there.is_relative_to(here):
        return str(CODE / there.relative_to(here))
    if not leaves and word.startswith(ANYWHERE):
        return word
    raise LabError(
        f"{word!r} is not in the container of a client",
        where="lock.name",
        expected=f"files below {here}, which it sees, or programs that it has",
        hint="run the lab from the directory that your driver lies in",
    )


def _what_is_there(lock: str) -> str:
    return (
        f"its container is made of {image_name(lock)} and sees {Path.cwd()}, read-only: what needs "
        f"only a libc, or Python {CLIENT_PYTHON}, runs there; {CLIENT_VARIABLE} names an image of your own"
    )


def _ask(image: str, question: Question, code: Path | None) -> tuple[Said | None, str]:
    """What a driver says of itself in a container, and the end of its log."""
    run_id = secrets.token_hex(8)
    mounts = () if code is None else (Mount(code, CODE),)
    command = ("python3", "-P", "-m", "lab.drivers.greet", msgspec.json.encode(question).decode())
    directory = None if code is None else str(CODE)
    spec = Spec("hello", image, command, {"PYTHONDONTWRITEBYTECODE": "1"}, mounts, directory=directory)
    run_file = RunFile(run_id, Path(tempfile.mkdtemp(prefix="lock-lab-")), containers=True)
    with _engine(ASKED_S) as api:
        try:
            made = create(api, spec, run_id, "none", owner_labels(run_id), {})
            api.start(made)
            api.wait(made, timeout=ASKED_S)
            said, log = api.logs(made, stderr=False), api.logs(made, stdout=False, tail=8)
        finally:
            remove_run(api, run_id)
            run_file.close()
    try:
        return msgspec.json.decode(said, type=Said), log.decode(errors="replace").strip()
    except msgspec.DecodeError:
        return None, (said + log).decode(errors="replace").strip()


@contextmanager
def _engine(timeout_s: int = 60) -> Iterator[APIClient]:
    """The engine, for a few calls. Raises ``LabError`` for whatever it does not do."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException

    api = connect(timeout_s)
    try:
        yield api
    except (DockerException, RequestException) as error:
        reason = getattr(error, "explanation", None) or innermost(error)
        raise LabError(f"the docker engine refused: {reason}", where="docker") from error
    finally:
        api.close()
