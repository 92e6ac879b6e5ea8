"""The exit code of many runs: the only place that decides it."""

from __future__ import annotations

from collections.abc import Iterable

from lab.errors import ExitCode


def worst(codes: Iterable[int]) -> ExitCode:
    """1 if anything came out otherwise than expected, 0 only if everything came out as expected, else 3.

    Whatever is neither 0 nor 1 (a killed process, an interruption, bad input) is unknown; so is nothing at
    all.
    """
    seen = set(codes)
    if ExitCode.UNEXPECTED in seen:
        return ExitCode.UNEXPECTED
    return ExitCode.EXPECTED if seen == {ExitCode.EXPECTED} else ExitCode.UNKNOWN
