"""What nodes other than Redis don't take part in, on any substrate, what substrates lack, and why."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lab.substrates.base import Capability, Service

_NO_CLOCK = "there is no way to ask it for its clock, so a shifted one would have no receipt"
_BEYOND: Mapping[Capability, str] = {
    Capability.NODE_CLOCKS: _NO_CLOCK,
    Capability.POWER_CUTS: "what it has synced to disk is not recorded",
    Capability.REPLICATION: "its servers copy to each other by themselves, or not at all",
    Capability.WATCH_KEYS: "it has no MONITOR: nobody outside sees what its servers do with a key",
    Capability.SEE_COMMANDS: "it has no MONITOR: nobody outside sees what its servers do with a key",
    Capability.RESET_LINKS: "it closes idle connections by itself, so the end of one would be no receipt",
    Capability.ANSWER_ERRORS: "its protocol has other commands and errors",
    Capability.ONE_CONNECTION: "its clients subscribe to nothing by a command that could be seen",
    Capability.REMOVE_KEYS: "it keeps leases and sessions, and no key that could be removed alone",
    Capability.FILL_MEMORY: "its memory has other limits, and other things happen at them",
    Capability.STALL_DISKS: "what it has synced to disk is not recorded",
    Capability.NARROW_LINKS: "it answers no probe that is large enough to measure a rate",
}

_NEEDS_A_KEY = "it writes or removes keys of the lab's own, and a node takes those of its own slots only"
_IN_A_REDIS_CLUSTER: Mapping[Capability, str] = {
    Capability.REMOVE_KEYS: "a node removes keys of its own slots only",
    Capability.FILL_MEMORY: _NEEDS_A_KEY,
    Capability.POWER_CUTS: _NEEDS_A_KEY,
    Capability.STALL_DISKS: _NEEDS_A_KEY,
}

_NOT_OURS = "the servers are not the lab's, and it changes nothing of theirs but keys of its own"
_LACKING: Mapping[tuple[str, Capability], str] = {
    ("virtual", Capability.REDIS_CLUSTER): "the conductor has no links for the cluster bus",
    ("sim", Capability.REDIS_CLUSTER): "the model of Redis has no slots and no cluster bus",
    ("endpoints", Capability.NODE_CLOCKS): _NOT_OURS,
    ("endpoints", Capability.PAUSE_NODES): _NOT_OURS,
    ("endpoints", Capability.STOP_NODES): _NOT_OURS,
    ("endpoints", Capability.POWER_CUTS): _NOT_OURS,
    ("endpoints", Capability.STALL_DISKS): _NOT_OURS,
    ("endpoints", Capability.REMOVE_KEYS): _NOT_OURS,
    ("endpoints", Capability.FILL_MEMORY): _NOT_OURS,
    ("endpoints", Capability.REPLICATION): _NOT_OURS,
    ("endpoints", Capability.CUT_PEERS): _NOT_OURS,
    ("endpoints", Capability.SENTINELS): "Sentinels that exist are not asked",
    ("endpoints", Capability.REDIS_CLUSTER): "a Redis Cluster that exists names addresses past its proxies",
    ("endpoints", Capability.OTHER_SERVICES): "endpoints are Redis servers",
    ("endpoints", Capability.SEE_COMMANDS): "MONITOR would show the commands of everybody else",
    ("endpoints", Capability.ANSWER_ERRORS): "every server that the lab does not run may see such commands",
    ("endpoints", Capability.ONE_CONNECTION): "Toxiproxy does not tell connections apart",
    ("endpoints", Capability.HEAR_SENDS): "that is heard in a simulated network only",
}


def lacking(substrate: str, capabilities: Collection[Capability]) -> str:
    """Say that a substrate lacks these capabilities, and why, where that is not plain."""
    why = [_LACKING[substrate, each] for each in capabilities if (substrate, each) in _LACKING]
    return f"{substrate} cannot {', '.join(sorted(capabilities))}" + "".join(f" ({each})" for each in why)


def refusal(service: Service, capability: Capability, *, sharded: bool = False) -> str | None:
    """Say why nodes of this kind don't take part in that, on any substrate; None: they do.

    ``sharded``: they are a Redis Cluster.
    """
    if service != "redis":
        return _BEYOND.get(capability)
    return _IN_A_REDIS_CLUSTER.get(capability) if sharded else None
