"""The files of an examination: a scenario for each defect, the result as data, and the page."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from lab.batch.scenario_task import ScenarioTask, simulated
from lab.errors import LabError, UnknownOutcome
from lab.examine.kept import RESULT, Kept
from lab.examine.narrative import narrate
from lab.examine.result import Defect, Examined
from lab.scenario.load import load_scenario
from lab.search import command as search
from lab.search.runner import trials


def keep(examined: Examined, directory: Path, *, command: str, pictures: bool = True) -> Kept:
    """Write all files of an examination; those of an earlier one in this directory are replaced.

    Each defect's smallest trial becomes a scenario, which is replayed in simulation; one that cannot be
    written as steps, or does not show the defect there, is kept as a trial. After an interruption nothing is
    replayed or drawn.

    Args:
        examined: the result.
        directory: where to; it is made.
        command: how the defects were found, for the reader of a scenario.
        pictures: whether scenarios are drawn for the page.

    Raises:
        LabError: the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _clear(directory)
        kept = Kept(examined, directory)
        defects, interrupted = [], examined.interrupted
        for number, defect in enumerate(examined.defects, 1):
            path = directory / f"defect-{number}.yaml"
            if not interrupted:
                try:
                    narrated = _narrated(defect)
                    saved = search.keep(narrated.trial, narrated.findings[0], path, command=command)
                    defects.append(_as_saved(narrated, saved))
                    if pictures and saved.replay is not None and saved.replay.seeds:
                        _draw(kept, number, path, saved.replay.seeds[0])
                    continue
                except KeyboardInterrupt:
                    interrupted = True
            path.unlink(missing_ok=True)
            defects.append(_as_trial(defect, path))
        kept.examined = replace(examined, defects=tuple(defects), interrupted=interrupted)
        (directory / RESULT).write_bytes(kept.examined.to_json())
        _write_page(kept)
    except OSError as error:
        raise LabError(
            f"the result cannot be written: {error.strerror or error}",
            where=str(error.filename or directory),
            expected="a directory that can be written",
            hint="choose another with --out",
        ) from error
    return kept


def _as_saved(defect: Defect, saved: search.Saved) -> Defect:
    """A defect with its file: the scenario only if it shows the defect in some simulation."""
    if saved.replay is None:
        return replace(defect, trial_file=str(saved.path))
    if not saved.replay.seeds:  # what its steps leave out was needed
        saved.path.unlink()
        return replace(_as_trial(defect, saved.path), replays=saved.replay.sentence)
    return replace(defect, scenario=str(saved.path), replays=saved.replay.sentence)


def _narrated(defect: Defect) -> Defect:
    """A defect with what happens in its trial; without it, if a client ends outside of its operations."""
    with trials(), contextlib.suppress(UnknownOutcome):
        return replace(defect, happened=narrate(defect.trial, defect.findings[0]))
    return defect


def _as_trial(defect: Defect, path: Path) -> Defect:
    return replace(defect, trial_file=str(search.keep_trial(defect.trial, path)))


def _draw(kept: Kept, number: int, path: Path, seed: int) -> None:
    """Draw one simulation of a scenario; what fails there must not cost the result."""
    try:
        from lab.report.figures.draw import figure  # matplotlib is heavy

        loaded = load_scenario(path)
        with ScenarioTask.of(loaded, str(path)).session():
            run = simulated(loaded, seed)
        picture = figure("timeline", run.history, run.verdict, loaded.scenario.title, "png")
        kept.pictures[number] = (seed, picture)
    except Exception:
        logging.getLogger("lab").exception("%s could not be drawn; the result stands", path)


def _write_page(kept: Kept) -> None:
    from lab.examine.page import to_html  # the template engine is not needed by most commands

    kept.page.write_text(to_html(kept), encoding="utf-8")


def _clear(directory: Path) -> None:
    """Remove the defects' files of the examination whose result is here, so that none is taken for new."""
    with contextlib.suppress(OSError, msgspec.DecodeError, KeyError, TypeError, AttributeError):
        before: Any = msgspec.json.decode((directory / RESULT).read_bytes())
        for number, _ in enumerate(before["defects"], 1):
            for suffix in (".yaml", ".json"):
                (directory / f"defect-{number}{suffix}").unlink(missing_ok=True)
