"""What the lab asks a Redis node itself, around all links: the same commands, real or simulated."""

from __future__ import annotations

import time

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.servers import Server, server_of
from lab.substrates.base import Life, Memory, Probe, Role, Stored
from lab.substrates.probe import echo

OWN_KEYS = "lock-lab:"
"""How the keys begin that the lab itself writes on a node."""
OWN_KEY = f"{OWN_KEYS}touched"
"""What the lab itself writes on a node, to move its append-only file on."""
BALLAST = f"{OWN_KEYS}ballast"
"""How the keys begin with which the lab fills the memory of a node."""
OUT_OF_MEMORY = "OOM "
"""How the error begins of a node whose memory is full."""
MISSING = -2
"""What PTTL answers about a key that is not there."""
OF_ANOTHER_TYPE = "WRONGTYPE"
"""How the error begins that a node answers about a key that is no string."""


class AskedNode:
    """A node that answers ``ask``; ``address`` leads to it around every link."""

    name: str
    address: Address
    known_offset: int
    _replicates: Address | None

    async def ask(self, *arguments: str | int) -> object:
        """Let the server execute one command. Raises ``UnknownOutcome``."""
        raise NotImplementedError

    async def probe(self, timeout_s: float) -> Probe:
        """ECHO on a connection of its own, around all links."""
        return await echo(self.address, timeout_s)

    async def info(self, section: str) -> dict[str, str]:
        """Return one section of the node's ``INFO`` as names and values."""
        text = await self.ask("INFO", section)
        lines = text.decode().splitlines() if isinstance(text, bytes) else []
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def echoes(self) -> int:
        """Return how many probes this node has executed so far."""
        stats = (await self.info("commandstats")).get("cmdstat_echo", "calls=0")
        return int(stats.split(",")[0].removeprefix("calls="))

    async def now_ns(self) -> int:
        """TIME."""
        answer = await self.ask("TIME")
        if not isinstance(answer, list):
            raise UnknownOutcome(f"node {self.name} answered TIME with {answer!r}")
        return int(answer[0]) * 1_000_000_000 + int(answer[1]) * 1_000

    async def server(self) -> Server:
        """``INFO server``."""
        return server_of(await self.info("server"))

    async def life(self) -> Life:
        """``INFO server`` and ``DBSIZE``."""
        server = await self.info("server")
        keys = await self.ask("DBSIZE")
        return Life(server["run_id"], int(server["process_id"]), keys if isinstance(keys, int) else -1)

    async def changes(self) -> int:
        """``INFO persistence``."""
        return int((await self.info("persistence")).get("rdb_changes_since_last_save", "0"))

    async def touch(self) -> None:
        """SET a key that no lock uses."""
        await self.ask("SET", OWN_KEY, time.monotonic_ns())

    async def stored(self, key: str) -> Stored | None:
        """PTTL and GET, as the observer looks; of a value that is no string only that it is there."""
        left_ms = await self.ask("PTTL", key)
        if not isinstance(left_ms, int) or left_ms == MISSING:
            return None
        try:
            value = await self.ask("GET", key)
        except UnknownOutcome as error:
            if OF_ANOTHER_TYPE not in error.seen:
                raise
            value = OF_ANOTHER_TYPE.encode()
        if not isinstance(value, bytes):  # it has expired meanwhile
            return None
        return Stored(value.decode(errors="replace"), None if left_ms < 0 else left_ms)

    async def has(self, key: str) -> bool:
        """PTTL."""
        return await self.ask("PTTL", key) != MISSING

    async def memory(self) -> Memory:
        """``INFO memory`` and ``INFO stats``."""
        about, stats = await self.info("memory"), await self.info("stats")
        return Memory(
            int(about.get("used_memory", "0")),
            int(about.get("maxmemory", "0")),
            about.get("maxmemory_policy", "noeviction"),
            int(stats.get("evicted_keys", "0")),
        )

    async def ballast(self, number: int, size_bytes: int, ttl_ms: int | None) -> bool:
        """SETRANGE beyond the end makes a long value by a short command, which MONITOR shows in one line."""
        key = f"{BALLAST}:{number}"
        try:
            await self.ask("SETRANGE", key, size_bytes - 1, "x")
        except UnknownOutcome as error:
            if OUT_OF_MEMORY not in error.seen:
                raise
            return False
        if ttl_ms is not None:
            await self.ask("PEXPIRE", key, ttl_ms)
        return True

    async def free_ballast(self, written: int, keep: int = 0) -> int:
        """UNLINK, one by one, since only some of them are there."""
        removed = 0
        there = [number for number in range(written) if await self.has(f"{BALLAST}:{number}")]
        for number in there[keep:]:
            removed += await self.remove(f"{BALLAST}:{number}")
        return removed

    async def remove(self, key: str | None) -> int:
        """UNLINK, or DBSIZE and FLUSHDB."""
        removed = await self.ask("DBSIZE") if key is None else await self.ask("UNLINK", key)
        if key is None:
            await self.ask("FLUSHDB")
        return removed if isinstance(removed, int) else 0

    async def ripple(self) -> None:
        """PUBLISH goes to the replicas as well."""
        await self.ask("PUBLISH", OWN_KEY, "")

    async def replicate(self, master: Address) -> None:
        """Become the replica of whoever is behind ``master``, also after a restart."""
        await self.follow(master, now=True)

    async def follow(self, master: Address, *, now: bool) -> None:
        """REPLICAOF, or (not ``now``) only when it starts next."""
        self._replicates = master
        if now:
            await self.ask("REPLICAOF", master.host, master.port)

    async def promote(self) -> None:
        """REPLICAOF NO ONE; it stays a master after a restart."""
        self._replicates = None
        await self.ask("REPLICAOF", "NO", "ONE")

    async def role(self) -> Role:
        """``INFO replication``: a replica's offset is what it has processed of its master's stream."""
        about = await self.info("replication")
        replica = about.get("role") == "slave"
        self.known_offset = int(about.get("slave_repl_offset" if replica else "master_repl_offset", "0"))
        linked = about.get("master_link_status") == "up"
        follows = f"{about.get('master_host')}:{about.get('master_port')}" if replica else ""
        promoted_at = int(about.get("second_repl_offset", "-1")) - 1
        return Role(
            "replica" if replica else "master",
            self.known_offset,
            linked,
            follows,
            promoted_at if promoted_at >= 0 and not replica else None,
        )
