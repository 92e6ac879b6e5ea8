"""The images and the compose file for real: what is refused, what comes up by hand."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.addresses import Address
from lab.errors import LabError
from lab.paths import compose_dir
from lab.servers import Server
from lab.substrates.docker import images
from lab.substrates.docker.compose import direct_port, link_port
from lab.substrates.docker.topology import API_PORT
from lab.substrates.probe import echo
from tests.lab_process import Lab

pytestmark = pytest.mark.timeout(300)


FILES = {**images._shims(), "server/origin": b"another image"}
"""What nodes on another image are built of."""


def derived(api: Any, name: str, *lines: str, base: str = images.BASE_IMAGE) -> str:
    """Make an image out of another one."""
    dockerfile = "\n".join([f"FROM {base}", *lines]).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(dockerfile)
        archive.addfile(member, io.BytesIO(dockerfile))
    packed.seek(0)
    for line in api.build(fileobj=packed, custom_context=True, tag=name, rm=True, decode=True):
        assert "error" not in line, line
    return name


def server(version: str) -> str:
    """A line that adds a redis-server which can do no more than tell its version."""
    script = f"#!/bin/sh\\necho Redis server v={version} sha=0\\n"
    return f"RUN printf '{script}' >/usr/bin/redis-server && chmod 755 /usr/bin/redis-server"


def test_an_image_in_which_no_shim_can_be_compiled_is_refused(docker_lab: Lab, engine: Any) -> None:
    base = derived(
        engine, "lock-lab-test:bare", server("7.0.15"), "RUN mv /usr/bin/apt-get /usr/bin/no-apt-get"
    )
    try:
        run = docker_lab("images", "build", "--redis-image", base)
    finally:
        engine.remove_image(base)
    assert run.code == 2, run.out + run.err
    assert "neither apt-get nor apk" in run.err
    assert "Traceback" not in run.err
    images_now = json.loads(docker_lab("images", "list", "--json").out)
    assert all(image["base"] != base for image in images_now)


def test_an_image_that_is_not_there_is_named(engine: Any) -> None:
    with pytest.raises(LabError) as caught:
        images.make(engine, images.NODE, "lock-lab-test:nowhere", FILES, lambda line: None)
    assert "lock-lab-test:nowhere" in caught.value.render()


TRIED = images.Image("node-test", "REDIS_IMAGE", images._shims, recipe="node")
"""Nodes that are built as the lab's are, under another name."""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("RUN true", "has neither redis-server nor valkey-server"),
        (
            server("6.0.16"),
            "has Redis 6.0.16, which is too old: Redis 6.2 or later is needed",
        ),
    ],
    ids=["no server", "too old"],
)
def test_an_image_without_a_server_that_serves_is_refused(engine: Any, line: str, words: str) -> None:
    base = derived(engine, "lock-lab-test:other", line)
    try:
        with pytest.raises(LabError) as caught:
            images.make(engine, TRIED, base, FILES, lambda line: None)
    finally:
        engine.remove_image(base)
    assert caught.value.seen.startswith("the image lock-lab-test:other has ")
    assert words in caught.value.seen


@pytest.mark.slow
def test_a_valkey_server_is_found(docker_lab: Lab, engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No image of Valkey is within reach everywhere: this one has a Redis under its name."""
    rename = (
        "RUN cp /lock-lab/server/redis-server /usr/bin/valkey-server"
        " && rm -r /lock-lab/server /usr/local/bin/redis-server"
    )
    base = derived(engine, "lock-lab-test:valkey", "USER root", rename, base=images.NODE.name)
    try:
        images.make(engine, TRIED, base, FILES, lambda line: None)
        monkeypatch.setenv(images.NODE_VARIABLE, TRIED.name)
        found = json.loads(docker_lab("doctor", "--json").out)
        run = docker_lab("run", "healthy", "--on", "docker", "--picture", "unexpected")
    finally:
        engine.remove_image(TRIED.name, force=True)
        engine.remove_image(base, force=True)
    assert run.code == 0, run.out + run.err
    (row,) = (row for row in found["rows"] if row["item"] == "docker images")
    assert row["origin"] == f"{TRIED.name} on {base}"


def test_the_doctor_sees_the_engine_and_the_images(docker_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(docker_lab("doctor", "--json").out)
    assert {"name": "docker", "available": True, "lacks": []} in found["substrates"]
    monkeypatch.setenv(images.NODE_VARIABLE, "lock-lab-node:nowhere")
    found = json.loads(docker_lab("doctor", "--json").out)
    assert {"name": "docker", "available": False, "lacks": ["docker images"]} in found["substrates"]
    assert found["command"] == "lab images build"
    run = docker_lab("run", "healthy", "--on", "docker")
    assert run.code == 2
    assert "lab images build" in run.err


def compose_command() -> list[str]:
    """The compose that is here, be it the plugin or the older program."""
    if shutil.which("docker"):
        plugin = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if plugin.returncode == 0:
            return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    pytest.skip("there is neither docker compose nor docker-compose")


async def reached(port: int, timeout_s: float = 2.0) -> bool:
    return (await echo(Address("x", "127.0.0.1", port), timeout_s)).reached


async def eventually(port: int) -> bool:
    give_up = time.monotonic() + 60
    while not (there := await reached(port)) and time.monotonic() < give_up:
        time.sleep(0.05)  # noqa: ASYNC251 - nothing else runs here
    return there


async def test_the_compose_file_brings_the_cluster_up(engine: Any, tmp_path: Path) -> None:
    command = compose_command()
    for name in ("compose.yaml", "toxiproxy.json"):
        shutil.copy(compose_dir() / name, tmp_path / name)
    project = [*command, "--project-name", "lock-lab-by-hand", "--file", str(tmp_path / "compose.yaml")]
    compose: Callable[..., Any] = lambda *words: subprocess.run(  # noqa: E731
        [*project, *words], check=True, capture_output=True, timeout=120
    )
    try:
        compose("up", "-d")
        assert await eventually(direct_port("A"))
        assert await eventually(link_port("alice", "A"))
        toxic = {"name": "cut", "type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}
        urllib.request.urlopen(  # noqa: ASYNC210
            f"http://127.0.0.1:{API_PORT}/proxies/alice-A/toxics", json.dumps(toxic).encode(), timeout=20
        ).close()
        assert not await reached(link_port("alice", "A"), 0.2)
        assert await eventually(link_port("bob", "A"))
        compose("kill", "A")
        assert not await reached(link_port("bob", "A"))
    finally:
        subprocess.run([*project, "down"], check=False, capture_output=True, timeout=120)  # noqa: ASYNC221
    assert engine.containers(all=True, filters={"name": "lock-lab-by-hand"}) == []


@pytest.mark.parametrize("name", ["redis@7.2", "valkey@9.1"])
def test_nodes_run_the_server_that_is_asked_for(docker_lab: Lab, engine: Any, name: str) -> None:
    """One has libraries beside it, the other is a Valkey; both are in the cache or come from their source."""
    built = docker_lab("images", "build", "--server", name)
    if built.code != 0 and "could not be provided" in built.err:
        pytest.skip(built.err)
    assert built.code == 0, built.err
    run = docker_lab("run", "partition-clockjump", "--on", "docker", "--server", name)
    assert run.code == 0, run.out + run.err
    assert Server.parse(name).words in run.out + run.err
    (verdict,) = docker_lab.directory.glob("reports/partition-clockjump-*/verdict.json")
    said = Server.parse(json.loads(verdict.read_text())["environment"]["server"])
    assert str(said).startswith(f"{name}.")
    assert not said.simulated


def test_a_server_without_an_image_is_refused_with_the_command_that_builds_it(docker_lab: Lab) -> None:
    run = docker_lab("run", "healthy", "--on", "docker", "--server", "redis@6.2.5")
    assert run.code == 2
    assert "lab images build --server redis@6.2.5 provides it" in run.err
