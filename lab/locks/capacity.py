"""How many may hold a lock at once: one, as many as a semaphore has permits, or all readers or one writer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

ROOM: Final = 1 << 31
"""What a writer takes of a read-write lock: all of it, more than there can be readers."""
READ: Final = "read"


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of a lock there is, and what an acquire takes of it.

    One rule for all locks, as in ``checker.properties.counting``: what the leases of a lock weigh adds up to
    at most ``room``. ``permits``: so many clients may hold it. ``read_write``: any number of readers, or one
    writer.
    """

    permits: int = 1
    read_write: bool = False

    @property
    def room(self) -> int:
        """What the leases that are held at once may weigh together."""
        return ROOM if self.read_write else self.permits

    @property
    def of_one(self) -> bool:
        """Whether one client at a time may hold it."""
        return self.room == 1

    def weight(self, mode: object) -> int:
        """What a lease weighs whose acquire asked in this mode; one that says nothing is a writer's."""
        return ROOM if self.read_write and mode != READ else 1

    @property
    def words(self) -> str:
        """What a lock is of which there is so much."""
        if self.read_write:
            return "a read-write lock"
        return "a lock" if self.permits == 1 else f"a semaphore of {self.permits} permits"

    @property
    def promise(self) -> str:
        """Who may hold it at once, in words."""
        if self.read_write:
            return "one writer, or any number of readers, at a time"
        return "one holder at a time" if self.permits == 1 else f"at most {self.permits} holders at a time"

    @property
    def params(self) -> dict[str, Any]:
        """What the header of a history says of it; nothing of a lock with one holder."""
        if self.read_write:
            return {"model": "read-write-lock"}
        return {"model": "semaphore", "permits": self.permits} if self.permits > 1 else {}


ONE_HOLDER: Final = Capacity()
"""That of a lock which nothing else is said of."""
