"""The defects of a driver on real Redis, in real time: real servers and proxies of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from lab.drivers.place import servers_of_trials
from lab.errors import LabError
from lab.examine.answer.keep import write
from lab.examine.command import Asked
from lab.examine.result import Defect, Kept, OnReal
from lab.search.confirm import Confirmation, confirm_all, versions_differ
from lab.substrates import choose
from lab.substrates.execute import execute
from lab.substrates.interruption import Interrupted

ON: Final = "local"
LATE: Final = "there was no time for a run"
SHORTEST_S: Final = 5.0
"""In less time no run comes to its end."""
NO_SCENARIO: Final = "it is kept as a trial, no scenario"


def run_on_real(kept: Kept, asked: Asked, limit_s: float) -> None:
    """Run the scenarios of all defects there, note in the result what came of them, and write it anew.

    Only those of drivers are, for so many seconds of real time at most.

    Raises:
        LabError: the result cannot be written.
    """
    examined = kept.examined
    if not asked.runs_on_real or examined.interrupted or not examined.defects:
        return
    if limit_s < SHORTEST_S:
        kept.examined = replace(
            examined, defects=tuple(_noted(each, {}, LATE, asked) for each in examined.defects)
        )
        write(kept)
        return
    scenarios = [Path(each.scenario) for each in examined.defects if each.scenario is not None]
    try:
        choose(ON)
        confirmed = execute(confirm_all(scenarios, ON, asked.repeat, kept.directory / ON, limit_s))
        why_not = ""
    except LabError as error:
        confirmed, why_not = {}, f"it cannot run here: {error.seen}"
    except Interrupted:
        confirmed, why_not = {}, "it was interrupted"
        examined = replace(examined, interrupted=True)
    defects = tuple(_noted(each, confirmed, why_not, asked) for each in examined.defects)
    kept.examined = replace(examined, defects=defects)
    write(kept)


def _noted(defect: Defect, confirmed: dict[Path, Confirmation], why_not: str, asked: Asked) -> Defect:
    if defect.scenario is None:
        return replace(defect, real=OnReal(why_not=NO_SCENARIO))
    seen = confirmed.get(Path(defect.scenario))
    if seen is None:
        return replace(defect, real=OnReal(why_not=why_not))
    late = "" if seen.runs == asked.repeat else "there was no time for more" if seen.runs else LATE
    differ = versions_differ(servers_of_trials(asked.server), seen.servers)
    return replace(
        defect, real=OnReal(seen.reproduced, seen.judged, seen.unknown, seen.reason or late, differ)
    )
