"""Drivers in containers, as far as no engine is needed: images and digests, command lines, refusals."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.drivers import docker_images as drivers
from lab.drivers import environment, registry
from lab.drivers.greet import Said, Trouble
from lab.drivers.messages import Hello
from lab.drivers.registry import HERE
from lab.errors import LabError
from lab.paths import compose_dir
from lab.substrates.docker import images
from lab.tools import cache
from lab.tools.model import Progress
from tests.unit.docker.test_images import FakeApi

ROWS = {name: row for name, row in registry.rows().items() if not row.unavailable}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An engine that has images of these kinds, with these digests."""
    there = {images.CLIENT.kind: images.CLIENT.digest()}

    @contextmanager
    def answers(timeout_s: int = 0) -> Iterator[Any]:
        yield FakeApi(**there)

    monkeypatch.setattr(drivers, "_engine", answers)
    monkeypatch.setattr(drivers, "no_engine_reason", lambda: None)
    return there


@pytest.mark.parametrize("name", ROWS)
def test_every_driver_has_an_image_with_the_runtime_it_needs(name: str) -> None:
    image = drivers.image_of(f"driver:{name}")
    assert image is not None
    reported = dict(image.arguments)
    assert reported["CLIENT_IMAGE"] == images.CLIENT.name
    programs = {ROWS[name].command[0]} & set(drivers.RUNTIMES)
    assert reported["PACKAGES"].split() == [drivers.RUNTIMES[program] for program in programs]
    assert image.dockerfile == compose_dir() / "driver.Dockerfile"
    for argument in ("BASE_IMAGE", *reported):
        assert f"ARG {argument}" in image.dockerfile.read_text()


@pytest.mark.parametrize("name", ROWS)
def test_a_command_names_nothing_of_the_host_in_a_container(name: str, engine: dict[str, str]) -> None:
    image = drivers.image_of(f"driver:{name}")
    assert image is not None
    engine[image.kind] = image.digest()
    words = drivers.Containers().launch(f"driver:{name}")
    assert not any(str(HERE) in word or "{" in word for word in words)
    files = {f"/lock-lab/{file}" for file in drivers._beside(ROWS[name])}
    assert {word for word in words if word.startswith(drivers.DRIVERS)} <= files


def test_what_shares_an_environment_shares_its_image() -> None:
    shared, other = (
        drivers.image_name("driver:redisson-fenced"),
        drivers.image_name("driver:redisson-redlock"),
    )
    assert shared == other


@pytest.mark.parametrize("change", ["pin", "driver", "client", "Dockerfile"])
def test_a_digest_follows_all_that_an_image_is_made_of(
    change: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def digest() -> str:
        image = drivers.image_of("driver:pottery")
        assert image is not None
        return image.digest()

    before = digest()
    assert digest() == before
    if change == "pin":
        row = msgspec.structs.replace(ROWS["pottery"], version="0")
        monkeypatch.setattr(registry, "rows", lambda: {"pottery": row})
    elif change == "driver":
        (tmp_path / "python").mkdir()
        (tmp_path / "python" / "pottery_driver.py").write_text("another")
        monkeypatch.setattr(drivers, "HERE", tmp_path)
    elif change == "client":
        another = images.Image("client", "BASE_IMAGE", lambda: {"x": b""}, own_tag=True)
        monkeypatch.setattr(images, "CLIENT", another)
    else:
        for kind in ("driver", "client"):
            (tmp_path / f"{kind}.Dockerfile").write_text((compose_dir() / f"{kind}.Dockerfile").read_text())
        with (tmp_path / "driver.Dockerfile").open("a") as file:
            file.write("USER nobody")
        monkeypatch.setattr(images, "compose_dir", lambda: tmp_path)
    assert digest() != before


def test_what_is_not_made_yet_is_told_with_the_command_that_makes_it(engine: dict[str, str]) -> None:
    place = drivers.Containers()
    reported = "it has no image that fits this version of the lab: lab drivers install pottery --on docker"
    assert place.why_not("driver:pottery") == reported
    with pytest.raises(LabError) as caught:
        place.launch("driver:pottery")
    assert caught.value.hint == "lab drivers install pottery --on docker"
    image = drivers.image_of("driver:pottery")
    assert image is not None
    engine[image.kind] = "of another version"
    assert place.why_not("driver:pottery") == reported
    engine[image.kind] = image.digest()
    assert place.why_not("driver:pottery") is None


def test_what_nobody_can_make_here_is_told(engine: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    place = drivers.Containers()
    assert place.why_not("driver:redlock-rb") == registry.row("redlock-rb").unavailable
    monkeypatch.setenv("PATH", "")
    assert place.why_not("driver:redsync") == "to make its image, go must be on the PATH"
    monkeypatch.setattr(drivers, "no_engine_reason", lambda: "no docker engine")
    assert place.why_not("driver:pottery") == "no docker engine"
    with pytest.raises(LabError, match="no docker engine"):
        place.launch("./my-driver")


def test_without_the_clients_image_nothing_is_built_on_it(engine: dict[str, str]) -> None:
    engine.clear()
    with pytest.raises(LabError) as caught:
        drivers.install("driver:pottery", lambda line: None)
    assert caught.value.hint == "lab images build"


def test_a_program_of_ones_own_runs_in_the_clients_image_or_in_one_with_its_runtime(
    engine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = drivers.Containers()
    assert drivers.image_name("./my-driver --fast") == images.CLIENT.name
    assert place.why_not("./my-driver --fast") is None
    assert drivers.image_name("node driver.js").startswith("lock-lab-driver-node:")
    assert place.why_not("node 'my driver.js'") == (
        "it has no image that fits this version of the lab: "
        "lab drivers install 'node '\"'\"'my driver.js'\"'\"'' --on docker"
    )
    monkeypatch.setenv(images.CLIENT_VARIABLE, "mine:latest")
    assert drivers.image_name("node driver.js") == "mine:latest"
    assert "no image mine:latest that fits" in (place.why_not("node driver.js") or "")


def test_a_named_image_must_be_built_on_this_labs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(images.CLIENT_VARIABLE, "lock-lab-mine:latest")
    fitting = {image.kind: image.digest() for image in images.IMAGES}
    lacking = images.missing_reason(FakeApi(**fitting))  # type: ignore[arg-type]
    assert lacking == "the engine has no image lock-lab-mine:latest"
    stale = images.missing_reason(FakeApi(**fitting, mine="old"))  # type: ignore[arg-type]
    assert stale == "lock-lab-mine:latest was built by another version of the lab"
    assert images.missing_reason(FakeApi(**fitting, mine=fitting["client"])) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "inside"),
    [
        ("./driver --fast", ("./driver", "--fast")),
        ("python3 sub/driver.py", ("python3", "sub/driver.py")),
        ("sub/../driver x", ("/lock-lab/code/driver", "x")),
        ("{here}/driver {here}", ("/lock-lab/code/driver", "/lock-lab/code")),
        ("/usr/bin/env python3 ./driver.py", ("/usr/bin/env", "python3", "./driver.py")),
        ("../driver", None),
        ("python3 ../../driver.py", None),
        ("/opt/driver", None),
        ("/usr/../opt/driver", None),
    ],
)
def test_where_the_files_of_ones_own_driver_are_in_a_container(
    command: str, inside: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    command = command.replace("{here}", shlex.quote(str(tmp_path)))
    if inside is not None:
        assert drivers._words_inside(command) == inside
        return
    with pytest.raises(LabError, match="is not in the container of a client") as caught:
        drivers._words_inside(command)
    assert str(tmp_path) in (caught.value.expected or "")


HELLO = Hello("mine", "1", ("extend",))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said(hello=HELLO), []),
        (None, ["could not be asked in a container", "its log ends:\n    no such module"]),
        (
            Said(trouble=Trouble("cannot be started", None, "a program", "chmod")),
            ["cannot be started", "chmod", images.CLIENT_VARIABLE, images.CLIENT.name, "no such module"],
        ),
        (
            Said(trouble=Trouble("refuses", "lock.options", "options", None)),
            ["refuses", "where: lock.options", "no such module"],
        ),
    ],
    ids=["hello", "nothing", "trouble", "options"],
)
def test_what_a_driver_says_in_its_container(
    said: Said | None, words: list[str], engine: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drivers, "_ask", lambda *_: (said, "no such module"))
    place = drivers.Containers()
    if not words:
        assert place.hello("./my-driver", {}) == HELLO
        return
    with pytest.raises(LabError) as caught:
        place.hello("./my-driver", {})
    for word in words:
        assert word in caught.value.render()


def test_pins_are_in_what_is_asked_of_pip() -> None:
    """Every environment in Python: what its image gets is what it gets on the host."""
    for name, row in ROWS.items():
        if row.language == "Python" and not row.shares:
            pins = [word for command in row.install for word in command if "==" in word]
            assert pins == list(row.install[-1][row.install[-1].index("--quiet") + 1 :]), name
            assert drivers._beside(row), name


def test_an_environment_is_copied_without_links(
    engine: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "driver.js").write_text("1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "link").symlink_to(tmp_path / "driver.js")
    monkeypatch.setattr(environment, "install", lambda name, progress: tmp_path)
    found = drivers._library("npm-redlock", ROWS["npm-redlock"], lambda line: None)
    assert found == {"driver/env/driver.js": b"1"}


def test_an_image_can_be_made_while_the_environment_in_it_is_made(
    engine: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each has a lock that one process at a time holds; were it the same one, nobody would ever get it."""

    def install(name: str, progress: Progress) -> Path:
        with cache.exclusive(f"driver-{name}", progress, timeout_s=0.1):
            return tmp_path

    made: list[str] = []
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(environment, "install", install)
    monkeypatch.setattr(images, "make", lambda api, image, *_: made.append(image.name))
    monkeypatch.setattr(drivers.Containers, "hello", lambda *_: HELLO)
    assert [drivers.install("driver:redsync", lambda line: None)] == made
