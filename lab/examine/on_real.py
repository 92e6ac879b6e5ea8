"""The defects of a driver on real Redis, in real time: real servers and proxies of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from msgspec.structs import replace

from lab.drivers import is_driver
from lab.errors import LabError
from lab.examine.command import Asked
from lab.examine.keep import write
from lab.examine.kept import Kept
from lab.examine.result import Defect, OnReal
from lab.search.confirm import Confirmation, confirm_all
from lab.substrates import choose
from lab.substrates.execute import execute
from lab.substrates.interruption import Interrupted

ON: Final = "local"
AT_LEAST_S: Final = 60.0
"""So long the runs may take however small the budget is."""
NO_SCENARIO: Final = "it is kept as a trial, no scenario"


def real_limit_s(asked: Asked) -> float:
    """How long defects may be run on real Redis, in seconds; 0: they are not. Only those of drivers are."""
    return max(AT_LEAST_S, asked.budget_s / 4) if asked.repeat and is_driver(asked.lock) else 0.0


def run_on_real(kept: Kept, asked: Asked) -> None:
    """Run the scenarios of all defects there, note in the result what came of them, and write it anew.

    Raises:
        LabError: the result cannot be written.
    """
    limit_s, examined = real_limit_s(asked), kept.examined
    if not limit_s or examined.interrupted or not examined.defects:
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
    defects = tuple(_noted(each, confirmed, why_not, asked.repeat) for each in examined.defects)
    kept.examined = replace(examined, defects=defects)
    write(kept)


def _noted(defect: Defect, confirmed: dict[Path, Confirmation], why_not: str, wanted: int) -> Defect:
    if defect.scenario is None:
        return replace(defect, real=OnReal(why_not=NO_SCENARIO))
    seen = confirmed.get(Path(defect.scenario))
    if seen is None:
        return replace(defect, real=OnReal(why_not=why_not))
    late = "" if seen.runs == wanted else f"there was no time for {'more' if seen.runs else 'a run'}"
    return replace(defect, real=OnReal(seen.reproduced, seen.judged, seen.unknown, seen.reason or late))
