"""Servers that are no Redis, in containers: how each is started, and when they are refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, cast

import pytest

from lab import substrates
from lab.errors import LabError
from lab.paths import compose_dir
from lab.run.execution import Run
from lab.run.request import Plan
from lab.run.steps import needed_of
from lab.scenario.load import load_scenario
from lab.servers import DEFAULT_SETTINGS, ServerSettings
from lab.substrates.base import Capability, Service
from lab.substrates.docker import SUBSTRATE, images, topology
from lab.substrates.docker.services import Seat, spec_of
from lab.substrates.docker.topology import DATA, PROXY
from tests.unit.docker.test_images import FITTING, FakeApi

NODES = ("A", "B", "C")
KINDS: tuple[Service, ...] = ("etcd", "zookeeper", "postgres")
SERVED: dict[str, str] = {kind: image.digest() for kind, image in images.SERVICES.items()}


def reported(service: Service, name: str, directory: Path) -> str:
    """Everything that a server is told: its command, and the files that it finds."""
    seat = Seat(name, NODES, directory / name)
    command = " ".join(spec_of(service, seat).command)
    return command + "\n" + "\n".join(path.read_text() for path in sorted(seat.directory.iterdir()))


@pytest.mark.parametrize("service", ["etcd", "zookeeper"])
def test_every_server_is_told_the_same_of_all_and_who_it_is(service: Service, tmp_path: Path) -> None:
    texts = {name: reported(service, name, tmp_path) for name in NODES}
    peers = Seat("A", NODES, tmp_path).peers()
    ports = {Seat(name, NODES, tmp_path).port for name in NODES} | {
        p for pair in peers.values() for p in pair
    }
    assert len(ports) == 3 * len(NODES), "they share one network namespace"
    for name, text in texts.items():
        assert all(f"127.0.0.1:{first}" in text for first, _ in peers.values())
        assert (
            f"0.0.0.0:{6379 + NODES.index(name)}" in text
            or f"clientPort={6379 + NODES.index(name)}\n" in text
        )
    assert len(set(texts.values())) == len(NODES)
    if service == "zookeeper":
        assert [(tmp_path / name / "myid").read_text() for name in NODES] == ["1\n", "2\n", "3\n"]


@pytest.mark.parametrize("service", KINDS)
def test_a_server_sees_its_own_files_and_shares_the_proxys_network(service: Service, tmp_path: Path) -> None:
    spec = spec_of(service, Seat("A", ("A",), tmp_path / "A"))
    assert spec.shares == PROXY
    assert spec.image == f"lock-lab-{service}:latest"
    assert [mount.target for mount in spec.mounts if mount.writable] == [DATA]
    assert {mount.source for mount in spec.mounts} <= {tmp_path / "A", tmp_path / "A" / "passwd"}


@pytest.mark.parametrize(("euid", "user"), [(0, "65534:65534"), (1000, None)])
def test_postgres_is_never_run_by_root_and_knows_its_user(
    euid: int, user: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    monkeypatch.setattr(os, "getuid", lambda: euid)
    given: list[Any] = []
    monkeypatch.setattr(shutil, "chown", lambda *words: given.append(words))
    spec = spec_of("postgres", Seat("A", ("A",), tmp_path / "A"))
    assert spec.user == user
    uid = 65534 if euid == 0 else euid
    assert (tmp_path / "A" / "passwd").read_text().startswith(f"lab:x:{uid}:{uid}:")
    assert bool(given) is (euid == 0), "its directory is given to who runs it"


@pytest.mark.parametrize("service", KINDS)
def test_without_its_image_a_service_is_refused_with_the_command_that_builds_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = dict(FITTING)
    monkeypatch.setattr("lab.substrates.docker.engine.connect", lambda *_: Api(**there))
    monkeypatch.setattr("lab.substrates.docker.engine.no_engine_reason", lambda: None)
    assert SUBSTRATE.lacks("redis") is None
    assert f"no image lock-lab-{service}:latest" in (SUBSTRATE.lacks(service) or "")
    with pytest.raises(LabError, match="lab images build --consensus provides it"):
        substrates.choose("docker", service=service)
    there |= SERVED
    assert SUBSTRATE.lacks(service) is None


def test_nodes_are_of_an_image_that_the_lab_built(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {**FITTING, "mine": images.NODE.digest(), "theirs": ""}
    monkeypatch.setattr("lab.substrates.docker.engine.connect", lambda *_: Api(**there))
    monkeypatch.setattr("lab.substrates.docker.engine.no_engine_reason", lambda: None)
    assert substrates.choose("docker", server="image:mine:8")[0] == "docker"
    with pytest.raises(LabError, match="the engine has no image gone:8"):
        substrates.choose("docker", server="image:gone:8")
    with pytest.raises(
        LabError, match="lab images build --redis-image theirs:8 builds lock-lab-node:theirs-8"
    ):
        substrates.choose("docker", server="image:theirs:8")
    assert substrates.choose("docker", server="redis@8.2")[0] == "docker"
    with pytest.raises(LabError, match=r"lab images build --server valkey@9\.1 provides it"):
        substrates.choose("docker", server="valkey@9.1")
    spec = topology.node_spec("A", ("A",), "none", None, "mine:8")
    assert spec.image == "mine:8"


class Api(FakeApi):
    """One that can be closed."""

    def close(self) -> None:
        """Nothing to let go of."""


def test_the_images_are_built_by_one_dockerfile_each_with_its_own_packages() -> None:
    recipe = (compose_dir() / "service.Dockerfile").read_text()
    assert "ARG PACKAGES\n" in recipe
    assert len({image.digest() for image in images.SERVICES.values()}) == len(KINDS)
    for service, image in images.SERVICES.items():
        assert image.dockerfile.read_text() == recipe
        assert images.SERVICE_PACKAGES[service] in dict(image.arguments)["PACKAGES"].split()


@pytest.mark.parametrize(
    ("service", "driver", "lacks", "chosen"),
    [
        ("redis", None, None, "docker"),
        ("etcd", None, None, "docker"),
        ("etcd", None, "no image", "local"),
        ("redis", "driver:pottery", None, "docker"),
        ("redis", "driver:pottery", "no image", "local"),
    ],
)
def test_auto_passes_over_what_docker_lacks_and_says_so(
    service: Service, driver: str | None, lacks: str | None, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Docker:
        name, what, capabilities = "docker", "containers", SUBSTRATE.capabilities

        def missing_reason(self) -> str | None:
            return None

        def lacks(
            self,
            service: Service,
            needed: frozenset[Capability] = frozenset(),
            wanted: str | None = None,
            settings: ServerSettings = DEFAULT_SETTINGS,
        ) -> str | None:
            return lacks if service != "redis" else None

    real = substrates.substrate
    monkeypatch.setattr(
        substrates, "substrate", lambda name: cast("Any", Docker()) if name == "docker" else real(name)
    )
    refuses = driver and (lambda name: lacks if name == "docker" else None)
    name, why = substrates.choose("auto", service=service, refuses=refuses or None)
    assert name == chosen
    assert chosen == "docker" or "no image" in why
    if chosen == "docker" or driver:  # what a driver lacks is told by the run
        assert substrates.choose("docker", service=service, refuses=refuses or None)[0] == "docker"
    else:
        with pytest.raises(LabError, match="no image"):
            substrates.choose("docker", service=service)


@pytest.mark.parametrize("name", ["etcd-leader-cut-off", "zookeeper-leader-cut-off"])
def test_a_scenario_that_cuts_servers_off_from_each_other_is_refused(tmp_path: Path, name: str) -> None:
    """They share a network namespace, and nothing lies between them."""
    loaded = load_scenario(name)
    run = Run(Plan(loaded, 1, "docker", "", tmp_path, ""))
    with pytest.raises(LabError) as caught:
        run._refuse_impossible(loaded.scenario, loaded.scenario.steps)
    assert (
        caught.value.seen == "the substrate docker cannot cut the servers of one service off from each other"
    )
    control = load_scenario(f"{name}-control").scenario
    assert Capability.CUT_PEERS not in needed_of(control)
    assert Capability.CUT_PEERS not in needed_of(load_scenario("failover-race").scenario)
