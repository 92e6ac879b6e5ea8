"""`cluster.config`: directives of redis.conf for the nodes, and those that the lab sets itself."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field

from lab.scenario.problems import kind, problem, shown

_NAME: Final = r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9_-]*)?"
"""A directive of a server, or of a module: `search.timeout`."""
_PERSISTENCE: Final = "cluster.persistence says what nodes keep on disk"
_ADDRESS: Final = "the lab chooses where nodes listen; cluster.base_port fixes their ports"
_FILES: Final = "each node has a directory of its own, which the lab keeps and cuts back"
_PROCESS: Final = "the lab starts and ends the process, and reads its output"
_REPLICATION: Final = "cluster.replicas says who replicates whom, over links that faults can cut"
_SYNC: Final = "the lab lets replicas synchronise at once and without a file"
_ACCESS: Final = "clients and the lab connect without a password, on loopback or the run's own network"
_KIND: Final = "cluster.sharded makes the nodes a Redis Cluster, and cluster.sentinels starts Sentinels"
_OWNED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("appendonly",), _PERSISTENCE),
    **dict.fromkeys(("save",), "cluster.save has the save points, with persistence: rdb"),
    **dict.fromkeys(("port", "bind", "unixsocket", "unixsocketperm"), _ADDRESS),
    **dict.fromkeys(("tcp-backlog", "protected-mode"), _ADDRESS),
    **dict.fromkeys(("dir", "dbfilename", "appendfilename", "appenddirname", "include"), _FILES),
    **dict.fromkeys(("daemonize", "supervised", "pidfile", "set-proc-title"), _PROCESS),
    **dict.fromkeys(("logfile", "loglevel", "syslog-enabled", "jemalloc-bg-thread"), _PROCESS),
    **dict.fromkeys(("hz", "dynamic-hz"), "in virtual time the lab sets how often a server looks around"),
    **dict.fromkeys(("replicaof", "slaveof", "replica-announce-ip", "replica-announce-port"), _REPLICATION),
    **dict.fromkeys(("repl-diskless-sync", "repl-diskless-sync-delay"), _SYNC),
    **dict.fromkeys(("requirepass", "masterauth", "masteruser", "user", "aclfile"), _ACCESS),
    **dict.fromkeys(("rename-command",), "the lab looks at nodes by commands with their usual names"),
    **dict.fromkeys(("cluster-enabled", "cluster-config-file", "sentinel"), _KIND),
}
"""Directives that the lab sets itself, and why."""
_OWNED_BEGINNINGS: Final[Mapping[str, str]] = {"tls-": _ACCESS, "cluster-": _KIND}
NO_EVICTION: Final = "noeviction"
"""The `maxmemory-policy` of a server that evicts nothing."""
_SYNC_POLICIES: Final = ("always", "everysec")


def _name(name: str) -> str:
    if not re.fullmatch(_NAME, name):
        raise problem(f"{shown(name)} is no directive", "a name as in redis.conf, such as maxmemory-policy")
    beginnings = (why for beginning, why in _OWNED_BEGINNINGS.items() if name.startswith(beginning))
    if (why := _OWNED.get(name) or next(beginnings, None)) is not None:
        expected = "others, such as maxmemory or min-replicas-to-write"
        raise problem(f"the lab sets {name} itself", expected, why)
    return name


def _value(value: Any) -> Any:
    """A value as text: true and false are `yes` and `no`, which YAML reads so."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
        raise problem(f"{kind(value)} is no value of a directive", "a text, a number, yes or no")
    text = f"{value}"
    if not text.isprintable() or text.startswith("--"):
        raise problem(f"{shown(text)} is no value of a directive", "one line of text that begins with no --")
    return text


def _config(config: Mapping[str, str]) -> Mapping[str, str]:
    policy = config.get("appendfsync")
    if policy in _SYNC_POLICIES:
        raise problem(
            f"appendfsync {policy} is how a node keeps what it writes",
            "appendfsync: no",
            f"cluster.persistence: aof-{policy}",
        )
    return config


DirectiveName = Annotated[str, AfterValidator(_name), Field(json_schema_extra={"pattern": f"^{_NAME}$"})]
DirectiveValue = Annotated[
    str,
    BeforeValidator(_value, json_schema_input_type=str | int | float | bool),
]
Config = Annotated[Mapping[DirectiveName, DirectiveValue], AfterValidator(_config)]
"""Directives and their values, as redis.conf has them."""
