"""The exit code of many runs."""

from __future__ import annotations

from collections.abc import Iterable

from lab.errors import ExitCode


def worst(codes: Iterable[int]) -> ExitCode:
    """1 if any run had an unexpected result, 0 only if all were as expected, else 3.

    All codes but 0 and 1 (a killed process, an interruption, bad input) count as unknown; so does no code.
    """
    seen = set(codes)
    if ExitCode.UNEXPECTED in seen:
        return ExitCode.UNEXPECTED
    return ExitCode.EXPECTED if seen == {ExitCode.EXPECTED} else ExitCode.UNKNOWN
