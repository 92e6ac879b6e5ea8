"""Causes that show in the errors that nodes answer with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from checker.words import listed
from lab.examine.detector import Cause, whose
from lab.examine.evidence import MS_NS, Evidence, Operation
from lab.examine.places import OF_CLIENT_LIBRARIES
from lab.search.watch import Executed

EXPIRIES: Final = ("EX", "PX", "EXAT", "PXAT")
"""Words of a SET before its expiry."""
EXPIRES: Final = ("SETEX", "PSETEX")
"""Commands with an expiry for their second argument."""
OF_THE_SERVER: Final = ("NOSCRIPT", "EXECABORT")
"""How errors begin that do not tell what is wrong with a command."""


def answered_with_errors(evidence: Evidence) -> Iterator[Cause]:
    """An acquire that failed, and was answered with an error by so many nodes that no majority is left."""
    trial = evidence.outcome.trial
    for acquire in reversed(evidence.operations):
        if acquire.f != "acquire" or acquire.how not in ("fail", "info"):
            continue
        errors = _errors(evidence, acquire)
        if len(errors) <= trial.minority:
            continue
        first = next(iter(errors.values()))
        what = " ".join((first.name, *(("with", expiry) if (expiry := _expiry(first)) else ())))
        seen = (
            f"{whose(acquire.client)} acquire at {evidence.at(acquire.called_ns)} sent {what} for a lease of "
            f"{trial.ttl_ns / MS_NS:.0f} ms, and {listed(sorted(errors))} answered with an error: "
            f"{first.error[:120]}"
        )
        yield Cause("invalid-command", seen, first)


def _errors(evidence: Evidence, acquire: Operation) -> dict[str, Executed]:
    """The first command of each node that an acquire got nothing from but errors, and changed nothing on."""
    found: dict[str, Executed] = {}
    changed: set[str] = set()
    for entry in evidence.executed_during(acquire):
        if entry.sent_ns < acquire.called_ns or entry.name in OF_CLIENT_LIBRARIES:
            continue
        if entry.changes():
            changed.add(entry.node)
        elif entry.error and not entry.error.startswith(OF_THE_SERVER):
            found.setdefault(entry.node, entry)
    return {node: entry for node, entry in found.items() if node not in changed}


def _expiry(entry: Executed) -> str:
    """The expiry that a command asks for, if no node accepts it."""
    if entry.name in EXPIRES:
        return entry.words[2] if _is_none(entry.words[2]) else ""
    pairs = pairwise(entry.words[3:] if entry.name == "SET" else ())
    return next((f"{a.upper()} {b}" for a, b in pairs if a.upper() in EXPIRIES and _is_none(b)), "")


def _is_none(number: str) -> bool:
    return number.lstrip("-").isdigit() and int(number) <= 0
