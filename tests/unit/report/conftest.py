"""What the tests of the timeline share: small hand-written histories and verdicts made by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from checker.formats import load
from checker.history.history import History
from checker.verdict import Finding, Outcome, Property, PropertyVerdict, Severity, Verdict

DATA = Path(__file__).parent / "data"
HOMES = {
    "overlap": Property.MUTUAL_EXCLUSION,
    "belief-overlap": Property.MUTUAL_EXCLUSION,
    "stale-write": Property.FENCING,
    "stale-use": Property.FENCING,
    "unfenced-write": Property.FENCING,
    "fence-order": Property.FENCING,
    "lost-update": Property.RESOURCE,
    "false-validity": Property.LEASE_HONESTY,
}


def history_of(name: str) -> History:
    """One of the hand-written histories beside this file."""
    return load(DATA / f"{name}.jsonl")


def finding(
    name: str,
    history: History,
    *places: tuple[str, str, str],
    severity: Severity = Severity.VIOLATION,
    why: str | None = None,
) -> Finding:
    """A finding witnessed by events, each given as (process, f, type)."""
    witnesses = tuple(sorted(event_index(history, *place) for place in places))
    return Finding(
        name, HOMES[name], severity, why or f"why {name} happened", history_key(history), witnesses
    )


def history_key(history: History) -> str | None:
    """The first key of a history."""
    return history.ops.names.key[0] if history.ops.names.key else None


def event_index(history: History, process: str, f: str, kind: str) -> int:
    """Position of the last event of a process with this f and type."""
    events = enumerate(history.events())
    return max(i for i, e in events if (e.process, e.f, e.type) == (process, f, kind))


def verdict_of(*findings: Finding, unknown: tuple[str, ...] = ()) -> Verdict:
    """A verdict that holds these findings and nothing else."""
    properties = {}
    for name in Property:
        own = tuple(f for f in findings if f.property is name)
        bad = any(f.severity is Severity.VIOLATION for f in own)
        outcome = Outcome.VIOLATED if bad else Outcome.UNKNOWN if unknown else Outcome.OK
        properties[name] = PropertyVerdict(name, outcome, "because", own)
    return Verdict(properties, unknown)


@pytest.fixture
def clockjump() -> tuple[History, Verdict]:
    """Alice and bob both hold the lock after a clock jump; alice's write is the one too late."""
    history = history_of("partition-clockjump")
    acquires = (("alice", "acquire", "ok"), ("bob", "acquire", "ok"))
    writes = (("alice", "write", "ok"), ("bob", "write", "ok"))
    return history, verdict_of(
        finding("overlap", history, *acquires),
        finding("unfenced-write", history, *writes),
        finding("lost-update", history, *writes),
    )


@pytest.fixture
def write_history(tmp_path: Path) -> Callable[[list[str]], History]:
    """Load a history from JSON lines."""

    def write(lines: list[str]) -> History:
        path = tmp_path / "history.jsonl"
        path.write_text("\n".join(lines) + "\n")
        return load(path)

    return write
