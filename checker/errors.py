"""The one error that bad input raises."""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for text that it cannot decode: no JSON, no UTF-8, or lists in lists without end."""


class HistoryError(ValueError):
    """A history that cannot be read: where, what was seen, what was expected, and what to do about it.

    `str(error)` is the whole message for a person; the attributes serve programs.
    """

    def __init__(
        self,
        problem: str,
        *,
        file: str | None = None,
        line: int | None = None,
        field: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.problem, self.file, self.line, self.field, self.hint = problem, file, line, field, hint
        super().__init__(problem)

    def __str__(self) -> str:
        where = ":".join(str(part) for part in (self.file, self.line) if part is not None)
        what = f"field '{self.field}': {self.problem}" if self.field else self.problem
        message = f"{where}: {what}" if where else what
        return f"{message}\nhint: {self.hint}" if self.hint else message

    def at(self, *, file: str | None = None, line: int | None = None) -> HistoryError:
        """The same error with the place filled in where it was not known yet."""
        return HistoryError(
            self.problem,
            file=self.file or file,
            line=self.line if self.line is not None else line,
            field=self.field,
            hint=self.hint,
        )
