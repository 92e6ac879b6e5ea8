"""Ports of this machine: free ones, and the ones that a scenario asks for."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Iterator

from lab.errors import LabError
from lab.substrates.base import STORE
from lab.substrates.plan import ClusterPlan

PORTS = range(10_000, 30_000)
"""Below the range from which the kernel takes ports for outgoing connections, which come and go."""


def free_ports(count: int) -> list[int]:
    """Return distinct ports nobody listens on right now, drawn at random so that two labs rarely meet."""
    drawn: list[int] = []
    while len(drawn) < count:
        port = secrets.choice(PORTS)
        if port not in drawn and is_port_free(port):
            drawn.append(port)
    return drawn


def is_port_free(port: int) -> bool:
    """Tell whether a listener could be put on this loopback port now."""
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def reserved(port: int) -> Iterator[None]:
    """Keep a port from being given to anybody who asks for a free one, while nobody listens on it.

    A server that names the port can still listen there, even before this ends: both sockets allow reuse, and
    this one never listens. A port that is taken already is left alone.
    """
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
        yield


def planned_ports(plan: ClusterPlan) -> dict[str, int | None]:
    """The port of each node and of the store, None where the plan leaves it open.

    Raises:
        LabError: a port that the plan asks for is taken.
    """
    names = (*plan.nodes, STORE)
    if plan.base_port is None:
        return dict.fromkeys(names)
    ports: dict[str, int | None] = {name: plan.base_port + offset for offset, name in enumerate(names)}
    for name, port in ports.items():
        if port and not is_port_free(port):
            raise LabError(
                f"port {port}, wanted for {name}, is already taken",
                where="cluster.base_port",
                expected=f"{len(ports)} free ports from {plan.base_port} on",
                hint="choose another base_port, or leave it out: the lab then picks free ports",
            )
    return ports
