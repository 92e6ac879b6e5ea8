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

from lab.address import Address
from lab.errors import LabError
from lab.paths import compose_dir
from lab.substrates.docker import images
from lab.substrates.docker.compose import direct_port, link_port
from lab.substrates.docker.topology import API_PORT
from lab.substrates.probe import echo
from tests.lab_process import Lab

pytestmark = pytest.mark.timeout(300)


def derived(api: Any, name: str, *lines: str) -> str:
    """Make an image out of the base image."""
    dockerfile = "\n".join([f"FROM {images.BASE_IMAGE}", *lines]).encode()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("Dockerfile")
        member.size = len(dockerfile)
        archive.addfile(member, io.BytesIO(dockerfile))
    packed.seek(0)
    for line in api.build(fileobj=packed, custom_context=True, tag=name, rm=True, decode=True):
        assert "error" not in line, line
    return name


def test_an_image_in_which_no_shim_can_be_compiled_is_refused(docker_lab: Lab, engine: Any) -> None:
    base = derived(engine, "lock-lab-test:bare", "RUN mv /usr/bin/apt-get /usr/bin/no-apt-get")
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
        images.make(engine, images.NODE, "lock-lab-test:nowhere", images._shims(), lambda line: None)
    assert "lock-lab-test:nowhere" in caught.value.render()


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
