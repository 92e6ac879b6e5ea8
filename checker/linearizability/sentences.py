"""One plain sentence for what a check found; times count from time zero of the history."""

from __future__ import annotations

from dataclasses import dataclass

from checker.history.operations import NEVER, F, Operations, Status
from checker.linearizability import owned, unowned
from checker.words import instant

_NO_ROOM = "and no {kind} called by {end} is left to go between them"


@dataclass(frozen=True, slots=True)
class Narrator:
    """Tells about rows of a table of operations; `zero_ns` is the time zero of its history."""

    ops: Operations
    zero_ns: int

    def at(self, time_ns: int) -> str:
        """A stamp in seconds: `10.19 s`."""
        return instant(time_ns - self.zero_ns)

    def called(self, row: int) -> str:
        """When the operation was called."""
        return self.at(int(self.ops.call_ns[row]))

    def returned(self, row: int) -> str:
        """When the operation returned, as far as anybody knows."""
        time_ns = int(self.ops.return_ns[row])
        return "never, as far as is known," if time_ns == NEVER else self.at(time_ns)

    def who(self, row: int) -> str:
        """The process."""
        return str(self.ops.name("process", row))

    def what(self, row: int) -> str:
        """The operation with its process and interval."""
        f = F(int(self.ops.f[row])).name.lower()
        value = self.ops.name("value", row)
        shown = "" if value is None else f" {value!r}"
        refused = "refused " if self.ops.status[row] == Status.FAIL else ""
        end = int(self.ops.return_ns[row])
        until = "outcome unknown" if end == NEVER else self.at(end)
        return f"{self.who(row)}'s {refused}{f}{shown} ({self.called(row)} to {until})"


def unowned_sentence(words: Narrator, reason: int, earlier: int, later: int) -> str:
    """Why the scan of `unowned` stopped; rows of the table, `earlier` -1 when there was nothing before."""
    end = words.returned(later)
    if reason == unowned.NEVER_HELD:
        return f"{words.what(later)} says that the lock was held, but it was free during the whole of it."
    kind = "release" if reason == unowned.NO_RELEASE else "acquire"
    if earlier < 0:
        needs = f"{words.what(later)} needs the lock to be held"
        return f"{needs}, but no acquire called by {end} can have taken it."
    room = _NO_ROOM.format(kind=kind, end=end)
    return f"{words.what(later)} has to take effect after {words.what(earlier)}, {room}."


def owned_sentence(words: Narrator, reason: int, earlier: int, later: int, depth: int) -> str:
    """Why the scan of `owned` stopped; rows of the table, `earlier` -1 when there was nothing before."""
    who, end = words.who(later), words.returned(later)
    if reason == owned.CORES_OVERLAP:
        return (
            f"{who}'s acquire returned at {end} while {words.who(earlier)} held the lock (since "
            f"{words.returned(earlier)}) and had not yet called a release."
        )
    if reason == owned.TOO_DEEP:
        times = "" if depth == 1 else f", deeper than the {depth} times that it may"
        return (
            f"{who} acquired again at {end} while it held the lock (since {words.returned(earlier)}){times}."
        )
    if reason == owned.NOT_HELD:
        return f"{who}'s release (called at {words.called(later)}) succeeded although {who} held no lock."
    if reason == owned.FREE_ALL_THE_TIME:
        return f"{words.what(later)} says that the lock was held, but it was free during the whole of it."
    if reason == owned.REFUSED_TO_HOLDER:
        return (
            f"{who}'s acquire was refused at {end} although {who} held the lock "
            f"(since {words.returned(earlier)}) and may hold it once more."
        )
    fences = int(words.ops.fence[later]), int(words.ops.fence[earlier])
    return (
        f"{who} acquired at {end} with fence {fences[0]}, not greater than fence {fences[1]}, with which "
        f"{words.who(earlier)} had acquired before."
    )


def blocked_sentence(words: Narrator, model: str, blocked: int) -> str:
    """Why a search ended without an order."""
    return (
        f"no order of the operations explains {words.what(blocked)} by the {model} model: all that returned "
        "before it can be put in order, it cannot."
    )
