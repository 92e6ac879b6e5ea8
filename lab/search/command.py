"""A search as ``lab search`` asks for it: its arguments, and what is kept of what it found."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from checker.formats.whole import write_whole
from lab.drivers import is_driver
from lab.drivers.place import check_servers_of_replays
from lab.errors import LabError
from lab.locks import check_options
from lab.scenario.model import Scenario
from lab.search.as_scenario import NotExpressible, scenarios_of, text_of
from lab.search.confirm import Confirmation, Replay, best_replayed
from lab.search.draw import S_NS
from lab.search.find import Ended, Search
from lab.search.minimise import places
from lab.search.replay import MARK
from lab.search.runner import trials
from lab.search.space import DEFAULT, NOTHING_SAID, Drawn, one_of, parse_duration, space_of
from lab.search.suspicion import LOOKS
from lab.search.trial import OptionValue, Trial, as_in_a_file

OPTIONS: dict[str, OptionValue] = {"node_timeout": "250ms", "retry_count": 1}
"""Options of the lock that make a scenario plain: one try per acquire, with patience for real nodes."""
OF_DEMAND: Final = ("leak", "unavailable")
"""Findings about a lock that is refused: in these searches clients ask once more at the end, for a while."""
OF_LEASES: Final = (*OF_DEMAND, "false-validity", "continuity-loss")
"""Findings for which clients must do more than acquire and release: extend a lease, or give a try up."""
REPLAYS = 8
"""In how many simulations, each with a seed of its own, a scenario is replayed before it is presented."""


@dataclass(frozen=True)
class Asked:
    """The arguments of ``lab search``, as they were given; durations with their units."""

    lock: str
    find: str = "overlap"
    budget: str = "60s"
    schedules: int | None = None
    seed: int = 0
    drawn: Drawn = NOTHING_SAID
    confirm: str | None = None
    repeat: int = 5
    out: Path | None = None
    command: str = ""
    jobs: int | None = None
    """How many processes run trials; as many as there are cores if None."""
    dask: str = ""
    """The scheduler of a Dask cluster that runs trials, beside this process."""


def options_for(lock: str) -> dict[str, OptionValue]:
    """The plain options, if the lock has them; else none: its defaults, as its users have them."""
    if is_driver(lock):
        return {}
    try:
        check_options(lock, DEFAULT.ttl_ns, OPTIONS)
    except LabError:
        return {}
    return dict(OPTIONS)


def search_of(asked: Asked) -> Search:
    """The search that these arguments ask for. Raises ``LabError`` for one that cannot be."""
    if asked.out is not None and asked.out.is_dir():
        raise LabError(
            f"{asked.out} is a directory",
            where="--out",
            expected="the path of a file, which is written if something is found",
            hint=f"--out {asked.out / 'found.yaml'}",
        )
    find = one_of("--find", asked.find, tuple(LOOKS))
    strategy, wire = asked.drawn.how()
    space = space_of(asked.lock, asked.drawn, options_for(asked.lock))
    if space.server:
        check_servers_of_replays(asked.lock, space.server)
    if find in OF_LEASES:
        space = replace(space, all_operations=True)
    if find in OF_DEMAND:
        ttl_ns = space.ttl_ns
        space = replace(space, demand_ns=3 * ttl_ns + 4 * S_NS, horizon_ns=7 * ttl_ns + 8 * S_NS)
    return Search(
        space,
        find,
        budget_s=parse_duration("--budget", asked.budget) / 1e9,
        schedules=asked.schedules,
        seed=asked.seed,
        strategy=strategy,
        wire=wire,
        jobs=asked.jobs,
        dask=asked.dask,
    )


@dataclass(frozen=True)
class Saved:
    """Where a found trial is: as a scenario where one can express it, and how often that was reproduced."""

    path: Path
    scenario: Scenario | None
    replay: Replay | None = None
    why_not: str = ""
    """Why it makes no scenario."""


def save(asked: Asked, trial: Trial) -> Saved:
    """Write the scenario; where the trial makes none, the trial itself, as JSON."""
    path = (
        asked.out or Path("reports") / f"found-{asked.lock.replace(':', '-')}-{asked.find}-{asked.seed}.yaml"
    )
    return keep(trial, asked.find, path, command=asked.command)


def keep(trial: Trial, finding: str, path: Path, *, command: str) -> Saved:
    """Write what a trial shows as a scenario, replayed; where the trial makes none, the trial, as JSON.

    Args:
        trial: as small as it is.
        finding: what it shows.
        path: of the scenario; the trial's has the suffix ``.json``. Its directory is made.
        command: how it was found, for the reader.

    Raises:
        LabError: no such lock.
        OSError: the file cannot be written.
    """
    with trials():
        scenarios = scenarios_or_reason(trial, finding, command=command)
    return keep_scenario(trial, scenarios, path)


def scenarios_or_reason(trial: Trial, finding: str, *, command: str) -> tuple[Scenario, ...] | str:
    """The scenarios in which a trial happens, or why there is none; only inside ``trials``."""
    try:
        return scenarios_of(trial, finding, command=command)
    except NotExpressible as error:
        return str(error)


def keep_scenario(
    trial: Trial,
    scenarios: tuple[Scenario, ...] | str,
    path: Path,
    left_s: Callable[[], float] = lambda: math.inf,
) -> Saved:
    """Write the scenario that is reproduced, or the trial if there is none.

    ``left_s`` says how many seconds are left for replays; one is run
    in any case. Raises as ``keep`` does.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(scenarios, str):
        return Saved(keep_trial(trial, path), None, why_not=scenarios)
    scenario, replay = best_replayed(scenarios, path.stem, REPLAYS, left_s)
    scenario = scenario.model_copy(update={"why": f"{scenario.why} {replay.sentence}"})
    text = f"{text_of(scenario)}{MARK}{trial.key().decode()}\n"
    write_whole(path, text)
    return Saved(path, scenario, replay)


def keep_trial(trial: Trial, path: Path) -> Path:
    """Write a trial as JSON beside where its scenario would be, and return where. Raises ``OSError``."""
    path = path.with_suffix(".json")
    write_whole(path, trial.key() + b"\n")
    return path


def to_json(ended: Ended, saved: Saved | None, confirmation: Confirmation | None) -> bytes:
    """What came of a search, for programs."""
    progress, first = ended.progress, ended.first
    result = {
        "found": ended.found,
        "faults": None if ended.found is None else places(ended.found),
        "scenario": None if saved is None else str(saved.path),
        "replays": None if saved is None else saved.replay is not None and saved.replay.always,
        "replayed": None
        if saved is None or saved.replay is None
        else {"on": "sim", "reproduced_with_seeds": saved.replay.seeds, "of": saved.replay.of},
        "first": None if first is None else {"schedules": first.tried, "seconds": round(first.seconds, 3)},
        "racy": ended.racy,
        "schedules": progress.schedules,
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
            "servers": list(confirmation.servers),
            "wilson_95": [confirmation.interval.low, confirmation.interval.high],
        },
    }
    return msgspec.json.format(msgspec.json.encode(result, enc_hook=as_in_a_file), indent=2) + b"\n"
