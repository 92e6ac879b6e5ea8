"""The append-only file: what was written to it, and how much of that is synced.

A command is written before its answer goes out. With ``aof-always`` it is synced before that as well. With
``aof-everysec`` the server looks after each round of its loop, and it makes a round at least ten times a
second: it syncs when something is unsynced and its wall clock shows a later second than at the last sync.
So the first write after an idle time is synced at once, the next one in the same second waits for the
second's end, and a clock that is set back stops syncing until it has caught up.

The sync itself, which a real server does in a thread, takes no time here, unless the disk stalls. With
``aof-always`` the server waits for a stalled disk as soon as it has written, and does nothing else; with
``aof-everysec`` a thread waits for it, and more and more is unsynced.

Source: Redis 7.0, ``flushAppendOnlyFile``.
"""

from __future__ import annotations

from lab.redis_model.parser import RequestParser
from lab.redis_model.persistence import Disk
from lab.redis_model.reply import pack


class AppendOnlyFile:
    """One file, open since its server started in second ``second`` of Unix time.

    Without ``syncs`` (`appendfsync no`) the server leaves syncing to the system, and syncs when it ends.

    Commands become bytes when somebody looks at the file.
    """

    def __init__(self, data: bytes, *, always: bool, second: int, syncs: bool = True) -> None:
        self._data = bytearray(data)
        self.always, self.syncs = always, syncs
        self.stalled = False
        """Whether no sync ends."""
        self._synced = len(data)
        self._last_sync_second = second
        self._selected = False
        self._later: list[list[bytes]] = []
        """Commands that were written after ``_data``."""
        self._later_synced = 0

    @property
    def is_synced(self) -> bool:
        """Whether nothing would be lost in a power cut."""
        return self._later_synced == len(self._later) and (
            bool(self._later) or self._synced == len(self._data)
        )

    @property
    def next_sync_ns(self) -> int:
        """Before its wall clock shows this (ns of Unix time) the server does not sync."""
        return (self._last_sync_second + 1) * 1_000_000_000

    def append(self, commands: list[list[bytes]]) -> None:
        """Write commands, and sync them if that is always done."""
        if not self._selected:
            self._selected = True
            self._later.append([b"SELECT", b"0"])
        self._later += commands
        if self.always and not self.stalled:
            self._later_synced = len(self._later)

    def round(self, second: int) -> None:
        """Sync if the policy says so, at the end of a round of the server's loop."""
        if self.syncs and second > self._last_sync_second and not (self.stalled or self.is_synced):
            self.sync(second)

    @property
    def blocks(self) -> bool:
        """Whether the server waits for its disk, and does nothing else."""
        return self.stalled and self.always and not self.is_synced

    def holds(self, second: int) -> bool:
        """Whether a sync was begun that does not end."""
        waits = self.always or (self.syncs and second > self._last_sync_second)
        return self.stalled and not self.is_synced and waits

    def sync(self, second: int) -> None:
        """Sync now."""
        self._synced = len(self._data)
        self._later_synced = len(self._later)
        self._last_sync_second = second

    def rewrite(self, data: bytes, second: int) -> None:
        """Begin anew with ``data``, which is synced: after a full synchronisation with a master."""
        self._data = bytearray(data)
        self._later = []
        self._selected = True
        self.sync(second)

    def state(self) -> Disk:
        """How much is written and synced, and the rest."""
        self._write()
        return Disk(len(self._data), self._synced, bytes(self._data[self._synced :]))

    def kept(self, *, power_cut: bool) -> bytes:
        """Return what is left of it after the server's end."""
        self._write()
        return bytes(self._data[: self._synced] if power_cut else self._data)

    def _write(self) -> None:
        """Turn commands into bytes."""
        later, self._later = self._later, []
        synced, self._later_synced = self._later_synced, 0
        for args in later[:synced]:
            self._data += pack(args)
        if synced:
            self._synced = len(self._data)
        for args in later[synced:]:
            self._data += pack(args)


def commands_in(data: bytes) -> list[list[bytes]]:
    """Return the commands of a file; one that is cut off, or a transaction without its end, is left out."""
    parser = RequestParser()
    parser.feed(data)
    done: list[list[bytes]] = []
    held: list[list[bytes]] | None = None
    while (request := parser.next()) is not None:
        name = request[0].upper() if request else b""
        if name == b"MULTI":
            held = []
        elif name == b"EXEC":
            done.extend(held or [])
            held = None
        else:
            (done if held is None else held).append(request)
    return done
