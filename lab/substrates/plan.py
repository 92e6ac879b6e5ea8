"""What a cluster is to be, before there is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lab.addresses import Endpoints
from lab.redis_model.persistence import Persistence
from lab.servers import ServerSettings
from lab.substrates.base import Capability, Service


@dataclass(frozen=True, slots=True)
class SentinelPlan:
    """The Redis Sentinels of a cluster, how many of them must agree, and their times in milliseconds."""

    names: tuple[str, ...]
    quorum: int
    down_after_ms: int
    failover_timeout_ms: int


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The size and shape of a cluster, and what will be asked of it.

    ``base_port`` asks for fixed ports: base_port, base_port+1, … ``replicas`` says which nodes replicate
    which masters (replica → master), asynchronously. ``needs`` are the capabilities that will be used.
    ``client_logs`` is the directory into which clients write, ``code`` where the user's own lock is found: a
    substrate that shuts its clients in must let them see these; ``client_image`` is the container image that
    its clients run in, if the lock has one of its own. ``service`` is what kind of servers the nodes are;
    Redis nodes know nothing of each other, those of another kind make one service. ``server`` is which
    server they are, ``redis@8.2``, a program's path or ``image:NAME``; the substrate's default if it is
    empty. ``lock_keys`` are the names that the lock's keys have on the nodes. ``settings`` is how Redis
    nodes are set up besides. ``sentinels``: there are some, which watch the one node that is no replica.
    ``node_timeout_ms``: the nodes are one Redis Cluster, with this ``cluster-node-timeout``.
    ``endpoints``: the nodes are servers that exist, and none is started.
    """

    nodes: tuple[str, ...]
    clients: tuple[str, ...]
    persistence: Persistence
    base_port: int | None = None
    replicas: Mapping[str, str] = field(default_factory=dict)
    needs: frozenset[Capability] = frozenset()
    client_logs: Path | None = None
    code: Path | None = None
    client_image: str | None = None
    service: Service = "redis"
    server: str = ""
    lock_keys: tuple[str, ...] = ()
    settings: ServerSettings = field(default_factory=ServerSettings)
    sentinels: SentinelPlan | None = None
    node_timeout_ms: int | None = None
    endpoints: Endpoints | None = None
