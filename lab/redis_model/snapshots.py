"""Snapshots (RDB): when a server writes one by itself, and what is in it.

The server looks ten times a second. It writes a snapshot when there were as many changes since the last one
as one of its save points says, and its wall clock shows that more seconds have passed than that point says:
a clock that is set back puts snapshots off. A snapshot holds the keys as they were when it was begun, with
their times of expiry in Unix time. A server that starts from one drops the keys whose time is over, unless it
starts as a replica. SHUTDOWN and FLUSHALL write one too if there are save points.

The process that writes, which a real server forks, takes no time here: the file is there at once, whole and
synced, and the server notes it in its next round, as a real one does.

Source: Redis 7.0, ``serverCron``, ``rdbSaveBackground``, ``rdbLoadRioWithLoadingCtx``,
``prepareForShutdown``.
"""

from __future__ import annotations

from collections.abc import Callable

from lab.redis_model.keyspace import Keyspace, snapshot
from lab.redis_model.reply import pack
from lab.servers import SavePoint


class Snapshots:
    """The snapshot file of one server, which started in second ``second`` of Unix time.

    Args:
        points: when it is written; none: only when somebody asks for it.
        keys: what is in it.
        data: what an earlier server has left.
        second: what the wall clock shows.
    """

    def __init__(
        self, points: tuple[SavePoint, ...], keys: Keyspace, data: bytes | None, second: Callable[[], int]
    ) -> None:
        self.points = points
        self.data = data
        """The file; None if there is none."""
        self.last_save_s = second()
        """When the last one was written; the start of the server, before the first."""
        self.in_progress = False
        self._keys, self._second = keys, second
        self._saved_dirty = self._begun_dirty = keys.dirty

    @property
    def changes(self) -> int:
        """How many changes there were since the last snapshot that the server has noted."""
        return self._keys.dirty - self._saved_dirty

    def loaded(self) -> None:
        """Count changes from here on: what was loaded is in the file."""
        self._saved_dirty = self._begun_dirty = self._keys.dirty

    def save(self) -> None:
        """Write one, and note it at once."""
        self._write()
        self._note()

    def round(self) -> None:
        """Note the snapshot that was written since the last round, or begin one if a save point says so."""
        if self.in_progress:
            self._note()
        elif any(self._is_due(point) for point in self.points):
            self._write()
            self.in_progress = True

    def due_s(self) -> int | None:
        """When a round has something to do, in seconds of Unix time; None: not before the next change."""
        if self.in_progress:
            return self.last_save_s
        due = [self.last_save_s + point.seconds + 1 for point in self.points if self.changes >= point.changes]
        return min(due, default=None)

    def _is_due(self, point: SavePoint) -> bool:
        return self.changes >= point.changes and self._second() - self.last_save_s > point.seconds

    def _write(self) -> None:
        self.data = b"".join([pack(args) for args in snapshot(self._keys)])
        self._begun_dirty = self._keys.dirty

    def _note(self) -> None:
        self.in_progress = False
        self.last_save_s = self._second()
        self._saved_dirty = self._begun_dirty
