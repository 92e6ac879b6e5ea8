"""The lab's errors and exit codes."""

from __future__ import annotations

import copy
import difflib
import errno
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})
"""Errors of writing that are the disk's: full, or broken."""
ELSEWHERE: Final = "choose another directory with --out"


class ExitCode(IntEnum):
    """Exit codes of every `lab` command."""

    EXPECTED = 0
    """The run came out as the scenario expects, or the command succeeded."""
    UNEXPECTED = 1
    """The run came out differently from what the scenario expects."""
    USAGE = 2
    """Bad usage or bad input; nothing was run."""
    UNKNOWN = 3
    """No verdict: the harness failed, a receipt is missing, or the run was vacuous."""
    INTERRUPTED = 130
    """Interrupted by the user (128 + SIGINT)."""


class LabError(Exception):
    """An error the user can act on. It is shown by `render()`, never as a traceback.

    `seen` says what was found, in one sentence. `where` is a place such as "file.yaml:12, key `lock.ttl`".
    `expected` says what would have been right; `hint` is the next thing to do, best a command. `others` are
    further errors of the same input, each of them with a place of its own: all are shown at once.
    """

    exit_code: int = ExitCode.USAGE

    def __init__(
        self,
        seen: str,
        *,
        where: str | None = None,
        expected: str | None = None,
        hint: str | None = None,
        others: Sequence[LabError] = (),
    ) -> None:
        super().__init__(seen)
        self.seen = seen
        self.where = where
        self.expected = expected
        self.hint = hint
        self.others = tuple(others)

    @classmethod
    def of_all(cls, errors: Sequence[LabError]) -> LabError:
        """Several errors as one: the first of them, with the others behind it."""
        first, *rest = [each for error in errors for each in (error, *error.others)]
        alone = [copy.copy(error) for error in (first, *rest)]
        for each in alone:
            each.others = ()
        alone[0].others = tuple(alone[1:])
        return alone[0]

    def render(self) -> str:
        """Plain text, one line per known field: `error:`, then `where:`, `expected:` and `hint:` indented.

        Continuation lines of a field that spans several lines are indented below it. The others follow, each
        in the same way.
        """
        lines = ["error: " + self.seen.replace("\n", "\n    ")]
        for name, text in (("where", self.where), ("expected", self.expected), ("hint", self.hint)):
            if text is not None:
                lines.append(f"  {name}: " + text.replace("\n", "\n    "))
        return "\n".join([*lines, *(other.render() for other in self.others)])

    def __str__(self) -> str:
        return self.render()


class UnknownOutcome(LabError):
    """The harness itself failed, so the run has no verdict (exit code 3)."""

    exit_code: int = ExitCode.UNKNOWN


class NotModelled(LabError):
    """A lock needs what simulated nodes do not have: what comes of it there says nothing about it."""

    exit_code: int = ExitCode.UNKNOWN


class LockFailed(UnknownOutcome):
    """The lock under test raised what no lock may raise, so the run has no verdict."""


def cannot_write(what: str, error: OSError, *, where: str | None = None, hint: str | None = None) -> LabError:
    """The error for a file that cannot be written: bad input (exit code 2), but for a full disk (3).

    ``where`` is its place if the error does not name it, ``hint`` what else can be chosen.
    """
    full = error.errno in NO_ROOM
    kind = UnknownOutcome if full else LabError
    return kind(
        f"{what} cannot be written: {error.strerror or error}",
        where=str(error.filename or where or "") or None,
        expected="room for it on the disk" if full else "a directory that can be written",
        hint=f"make room{f', or {hint}' if hint else ''}" if full else hint,
    )


def first_line(error: Exception) -> str:
    """An error in one line: what was seen, or its kind and text."""
    text = error.seen if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
    return text.partition("\n")[0]


def did_you_mean(word: str, choices: Iterable[str]) -> str | None:
    """The choice nearest to `word` (difflib ratio ≥ 0.6, case ignored), or None if none comes near."""
    by_folded = {choice.casefold(): choice for choice in choices}
    matches = difflib.get_close_matches(word.casefold(), by_folded, n=1)
    return by_folded[matches[0]] if matches else None
