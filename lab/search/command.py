"""A search as ``lab search`` asks for it: its arguments, and what is kept of what it found."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec
from pydantic import ValidationError

from lab.batch.scenario_task import ScenarioTask
from lab.durations import DurationError, parse_duration_ns
from lab.errors import ExitCode, LabError, did_you_mean
from lab.locks import margin_ns
from lab.scenario.load import load_scenario
from lab.scenario.model import Scenario
from lab.search.confirm import Confirmation, Replay
from lab.search.draw import STRATEGIES, Space
from lab.search.find import Budget, Ended, Search
from lab.search.minimise import places
from lab.search.runner import WIRES, trials
from lab.search.suspicion import LOOKS
from lab.search.tasks import must_be_simulated
from lab.search.tell import scenario_of, text_of
from lab.search.trial import CLIENTS, KINDS, OptionValue, Trial

T = TypeVar("T", bound=str)
OPTIONS: dict[str, OptionValue] = {"node_timeout": "250ms", "retry_count": 1}
"""Options of the lock that make a story plain: one try per acquire, with patience for real nodes."""
NODES_MAX = 9
REPLAYS = 8
"""In how many simulations, each with a seed of its own, a story is replayed before it is presented."""
PERSISTENCE = ("aof-always", "aof-everysec", "none", "any")


@dataclass(frozen=True)
class Asked:
    """The arguments of ``lab search``, as they were given; durations with their units."""

    lock: str
    find: str = "overlap"
    budget: str = "60s"
    schedules: int | None = None
    seed: int = 0
    nodes: int = 5
    clients: int = 2
    faults: str | None = None
    persistence: str = "aof-always"
    ttl: str = "10s"
    strategy: str = "guided"
    wire: str = "direct"
    confirm: str | None = None
    repeat: int = 5
    out: Path | None = None
    command: str = ""


def search_of(asked: Asked) -> Search:
    """The search that these arguments ask for. Raises ``LabError`` for one that cannot be."""
    kinds = [kind.strip() for kind in (asked.faults or ",".join(KINDS)).split(",") if kind.strip()]
    find = _one_of("--find", asked.find, tuple(LOOKS))
    persistence = _one_of("--persistence", asked.persistence, PERSISTENCE)
    ttl_ns = _duration("--ttl", asked.ttl)
    if ttl_ns < 100_000_000:
        raise LabError(f"a TTL of {asked.ttl}", where="--ttl", expected="100ms or more")
    if not 1 <= asked.nodes <= NODES_MAX:
        raise LabError(f"{asked.nodes} nodes", where="--nodes", expected=f"1 to {NODES_MAX}")
    if not 2 <= asked.clients <= len(CLIENTS):
        raise LabError(f"{asked.clients} clients", where="--clients", expected=f"2 to {len(CLIENTS)}")
    must_be_simulated(asked.lock)
    space = Space(
        asked.lock,
        dict(OPTIONS),
        ttl_ns,
        asked.nodes,
        asked.clients,
        None if persistence == "any" else persistence,  # type: ignore[arg-type]
        tuple(_one_of("--faults", kind, KINDS) for kind in kinds),
        horizon_ns=3 * ttl_ns,
    )
    margin_ns(asked.lock, ttl_ns, OPTIONS)  # a lock that there is
    return Search(
        space,
        find,
        Budget(_duration("--budget", asked.budget) / 1e9, asked.schedules),
        seed=asked.seed,
        strategy=_one_of("--strategy", asked.strategy, STRATEGIES),
        wire=_one_of("--wire", asked.wire, WIRES),
    )


def _one_of(option: str, word: str, known: Sequence[T]) -> T:
    for each in known:
        if each == word:
            return each
    near = did_you_mean(word, known)
    raise LabError(
        f"{word!r}",
        where=option,
        expected="one of " + ", ".join(known),
        hint=f"did you mean {near!r}?" if near else None,
    )


def _duration(option: str, text: str) -> int:
    try:
        return parse_duration_ns(text)
    except DurationError as error:
        raise LabError(f"{text!r} {error}", where=option, expected="a duration like 60s") from error


@dataclass(frozen=True)
class Saved:
    """Where a found trial is: as a scenario, if it can be told as one, and how often that was reproduced."""

    path: Path
    scenario: Scenario | None
    replay: Replay | None = None


def save(asked: Asked, trial: Trial, search: Search) -> Saved:
    """Write the scenario; where the trial makes none, the trial itself, as JSON."""
    path = (
        asked.out or Path("reports") / f"found-{asked.lock.replace(':', '-')}-{asked.find}-{asked.seed}.yaml"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    scenario: Scenario | None = None
    with trials(search.wire), contextlib.suppress(ValidationError):
        scenario = scenario_of(trial, asked.find, command=asked.command, wire=search.wire)
    if scenario is None:
        path = path.with_suffix(".json")
        path.write_bytes(trial.key() + b"\n")
        return Saved(path, None)
    text = f"{text_of(scenario)}# The trial that this tells:\n# {trial.key().decode()}\n"
    path.write_text(text, encoding="utf-8")
    replay = _replayed(path)
    scenario = scenario.model_copy(update={"why": f"{scenario.why} {replay.sentence}"})
    text = f"{text_of(scenario)}# The trial that this tells:\n# {trial.key().decode()}\n"
    path.write_text(text, encoding="utf-8")
    return Saved(path, scenario, replay)


def _replayed(path: Path) -> Replay:
    """Run the scenario in simulations with the seeds from 0 on: does it come out as it says?"""
    task = ScenarioTask.of(load_scenario(path), str(path))
    with task.session():
        seeds = tuple(seed for seed in range(REPLAYS) if task(seed).exit_code == ExitCode.EXPECTED)
    return Replay(seeds, REPLAYS)


def to_json(ended: Ended, saved: Saved | None, confirmation: Confirmation | None) -> bytes:
    """What came of a search, for programs."""
    progress, first = ended.progress, ended.first
    told = {
        "found": ended.found,
        "faults": None if ended.found is None else places(ended.found),
        "scenario": None if saved is None else str(saved.path),
        "replays": None if saved is None else saved.replay is not None and saved.replay.always,
        "replayed": None
        if saved is None or saved.replay is None
        else {"on": "sim", "reproduced_with_seeds": saved.replay.seeds, "of": saved.replay.of},
        "first": None if first is None else {"schedules": first.tried, "seconds": round(first.seconds, 3)},
        "racy": ended.racy,
        "schedules": progress.tried,
        "seconds": round(progress.seconds, 3),
        "violations": progress.violations,
        "covered": len(progress.covered),
        "checked_in_full": progress.sampled,
        "interrupted": ended.interrupted,
        "confirmation": None
        if confirmation is None
        else {
            "on": confirmation.on,
            "reproduced": confirmation.reproduced,
            "judged": confirmation.judged,
            "unknown": confirmation.unknown,
            "wilson_95": [confirmation.interval.low, confirmation.interval.high],
        },
    }
    return msgspec.json.format(msgspec.json.encode(told), indent=2) + b"\n"
