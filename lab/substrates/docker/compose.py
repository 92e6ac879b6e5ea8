"""The compose file, for bringing the same cluster up by hand: written from the topology that runs use.

``python -m lab.substrates.docker.compose`` writes ``compose.yaml`` and ``toxiproxy.json`` anew; a test fails
when they differ from what is written here. The clients are left out: by hand, that is you.
"""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

from lab.paths import compose_dir
from lab.substrates.base import STORE
from lab.substrates.docker import images
from lab.substrates.docker.topology import (
    ANYWHERE,
    API_PORT,
    HARDENED,
    IN_MEMORY,
    LIMITS,
    LOGGING,
    PROXY,
    Spec,
    node_spec,
    port_of,
    proxy_spec,
)

NODES = ("A", "B", "C", "D", "E")
CLIENTS = ("alice", "bob")
FIRST_PORT = 21000
"""The nodes themselves, and the store; a hundred later alice's links to each of them, then bob's."""
APART = 100
PROXIES = "toxiproxy.json"

HEADER = """\
# Five Redis nodes and the store behind Toxiproxy, as `lab run --on docker` has them, to poke at by hand.
# Written by `python -m lab.substrates.docker.compose`; the topology is in lab/substrates/docker/topology.py.
# `lab images build` makes the images. README.md says how to reach it and how to break it.
"""


def direct_port(target: str) -> int:
    """The port on which a node, or the store, is reached around every link."""
    return FIRST_PORT + (len(NODES) if target == STORE else NODES.index(target))


def link_port(client: str, target: str) -> int:
    """The port on which a client reaches a node, or the store."""
    return direct_port(target) + APART * (CLIENTS.index(client) + 1)


def proxies() -> list[dict[str, Any]]:
    """What Toxiproxy is configured with: one proxy per link."""
    return [
        {
            "name": f"{client}-{target}",
            "listen": f"{ANYWHERE}:{link_port(client, target)}",
            "upstream": f"127.0.0.1:{port_of(target, NODES)}",
            "enabled": True,
        }
        for client in CLIENTS
        for target in (*NODES, STORE)
    ]


def services() -> dict[str, Any]:
    """Every container, as compose describes it."""
    links = [link_port(client, target) for client in CLIENTS for target in (*NODES, STORE)]
    published = {
        API_PORT: API_PORT,
        **{direct_port(name): port_of(name, NODES) for name in (*NODES, STORE)},
        **{port: port for port in links},
    }
    proxy = _service(proxy_spec())
    proxy["command"] = [*proxy["command"], "-config", f"/{PROXIES}"]
    proxy["volumes"] = [f"./{PROXIES}:/{PROXIES}:ro"]
    proxy["ports"] = [f"127.0.0.1:{here}:{there}" for here, there in published.items()]
    found = {PROXY: proxy}
    for name in (*NODES, STORE):
        found[name] = _service(node_spec(name, NODES, "none", None))
    return found


def _service(spec: Spec) -> dict[str, Any]:
    image = f"${{{images.NODE_VARIABLE}:-{spec.image}}}" if spec.image == images.NODE.name else spec.image
    made: dict[str, Any] = {"image": image, "command": list(spec.command)}
    if spec.shares is not None:
        made |= {"network_mode": f"service:{spec.shares}", "depends_on": [spec.shares]}
    in_memory = [f"{directory}:{options}" for directory, options in IN_MEMORY.items()]
    limits = {**LIMITS, "tmpfs": in_memory, "logging": deepcopy(LOGGING)}
    return made | deepcopy(HARDENED) | limits | {"user": "65534:65534"}


def compose_yaml() -> str:
    """The compose file."""
    body = {"services": services()}
    return HEADER + yaml.safe_dump(body, sort_keys=False, width=110)


def proxies_json() -> str:
    """Toxiproxy's configuration."""
    return json.dumps(proxies(), indent=1) + "\n"


def write(directory: Path) -> None:
    """Write both files."""
    (directory / "compose.yaml").write_text(compose_yaml(), encoding="utf-8")
    (directory / PROXIES).write_text(proxies_json(), encoding="utf-8")


if __name__ == "__main__":
    write(compose_dir())
