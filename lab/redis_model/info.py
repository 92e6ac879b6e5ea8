"""INFO: the sections and fields that locks, libraries and the lab read."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from lab.redis_model.limits import used_bytes

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel

COMPATIBLE: Final = "7.2.4"
"""The version of Redis that every Valkey says it is compatible with."""
Fields = dict[str, object]


def information(model: RedisModel, wanted: list[str]) -> str:
    """Return the sections that are wanted; none, "default", "all" and "everything" mean many."""
    every = {"all", "everything"} & set(wanted)
    usual = not wanted or "default" in wanted
    parts = []
    for name, section in _SECTIONS.items():
        if every or name.lower() in wanted or (usual and name != "Commandstats"):
            lines = "".join(f"{field}:{value}\r\n" for field, value in section(model).items())
            parts.append(f"# {name}\r\n{lines}")
    return "\r\n".join(parts)


def _server(model: RedisModel) -> Fields:
    up_s = (model.monotonic_ns() - model.started_ns) // 1_000_000_000
    return {
        **_product(model),
        "os": "simulated",
        "arch_bits": 64,
        "process_id": model.process_id,
        "run_id": model.run_id,
        "tcp_port": model.port,
        "server_time_usec": model.now_us,
        "uptime_in_seconds": up_s,
        "uptime_in_days": up_s // 86_400,
        "hz": 10,
        "configured_hz": 10,
    }


def _product(model: RedisModel) -> Fields:
    if model.server.product == "redis":
        return {"redis_version": model.version, "redis_mode": model.mode}
    return {
        "redis_version": COMPATIBLE,
        "server_name": "valkey",
        "valkey_version": model.version,
        "server_mode": model.mode,
    }


def _clients(model: RedisModel) -> Fields:
    connected = [session for session in model.sessions.values() if session.can_block]
    return {
        "connected_clients": len(connected) - len(model.replication.feeds),
        "blocked_clients": sum(1 for session in connected if session.wait is not None),
    }


def _persistence(model: RedisModel) -> Fields:
    disk = model.disk()
    snapshots = model.snapshots
    fields: Fields = {
        "loading": 0,
        "rdb_changes_since_last_save": snapshots.changes,
        "rdb_bgsave_in_progress": int(snapshots.in_progress),
        "rdb_last_save_time": snapshots.last_save_s,
        "rdb_last_bgsave_status": "ok",
        "aof_enabled": int(model.aof is not None),
        "aof_rewrite_in_progress": 0,
    }
    if model.aof is not None:
        fields |= {"aof_current_size": disk.written, "aof_pending_bio_fsync": 0, "aof_delayed_fsync": 0}
    return fields


def _memory(model: RedisModel) -> Fields:
    limits = model.limits
    return {
        "used_memory": used_bytes(model.keys),
        "maxmemory": limits.memory_bytes,
        "maxmemory_policy": limits.policy,
    }


def _stats(model: RedisModel) -> Fields:
    return {"total_commands_processed": sum(model.calls.values()), "evicted_keys": model.evicted}


def _replication(model: RedisModel) -> Fields:
    own = model.replication
    if own.master is None:
        fields: Fields = {"role": "master"}
    else:
        host, port = own.master
        fields = {
            "role": "slave",
            "master_host": host,
            "master_port": port,
            "master_link_status": "up" if own.is_linked else "down",
            "master_sync_in_progress": int(own.state == "sync"),
            "slave_read_repl_offset": own.offset,
            "slave_repl_offset": own.offset,
            "slave_priority": 100,
            "slave_read_only": 1,
            "replica_announced": 1,
        }
        if (down_for_s := own.down_for_s) is not None:
            fields["master_link_down_since_seconds"] = down_for_s
    fields["connected_slaves"] = len(own.feeds)
    if model.limits.min_replicas and model.limits.max_lag_s:
        fields["min_slaves_good_slaves"] = own.count_good(model.limits.max_lag_s)
    for number, feed in enumerate(own.feeds.values()):
        state = "online" if feed.acknowledged >= 0 else "send_bulk"
        about = f"ip={feed.host},port={feed.port},state={state},offset={max(feed.acknowledged, 0)},lag=0"
        fields[f"slave{number}"] = about
    return fields | {
        "master_failover_state": "no-failover",
        "master_replid": own.replication_id,
        "master_replid2": own.earlier_id,
        "master_repl_offset": own.offset,
        "second_repl_offset": own.promoted_at + 1 if own.promoted_at >= 0 else -1,
        "repl_backlog_active": int(own.has_stream),
    }


def _commandstats(model: RedisModel) -> Fields:
    return {
        f"cmdstat_{name}": f"calls={calls},usec=0,usec_per_call=0.00" for name, calls in model.calls.items()
    }


def _keyspace(model: RedisModel) -> Fields:
    keys = model.keys
    if not keys.data:
        return {}
    return {"db0": f"keys={len(keys.data)},expires={len(keys.expires)},avg_ttl=0"}


_SECTIONS: dict[str, Callable[[RedisModel], Fields]] = {
    "Server": _server,
    "Clients": _clients,
    "Memory": _memory,
    "Persistence": _persistence,
    "Stats": _stats,
    "Replication": _replication,
    "Commandstats": _commandstats,
    "Keyspace": _keyspace,
}
