"""The lab's errors and exit codes: what was seen, where, what was expected, and what to do now."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import IntEnum


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
    `expected` says what would have been right; `hint` is the next thing to do, best a command.
    """

    exit_code: int = ExitCode.USAGE

    def __init__(
        self, seen: str, *, where: str | None = None, expected: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(seen)
        self.seen = seen
        self.where = where
        self.expected = expected
        self.hint = hint

    def render(self) -> str:
        """Plain text, one line per known field: `error:`, then `where:`, `expected:` and `hint:` indented.

        Continuation lines of a field that spans several lines are indented below it.
        """
        lines = ["error: " + self.seen.replace("\n", "\n    ")]
        for name, text in (("where", self.where), ("expected", self.expected), ("hint", self.hint)):
            if text is not None:
                lines.append(f"  {name}: " + text.replace("\n", "\n    "))
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.render()


class UnknownOutcome(LabError):
    """The harness itself failed, so the run has no verdict (exit code 3)."""

    exit_code: int = ExitCode.UNKNOWN


def did_you_mean(word: str, choices: Iterable[str]) -> str | None:
    """The choice nearest to `word` (difflib ratio ≥ 0.6, case ignored), or None if none comes near."""
    by_folded = {choice.casefold(): choice for choice in choices}
    matches = difflib.get_close_matches(word.casefold(), by_folded, n=1)
    return by_folded[matches[0]] if matches else None
