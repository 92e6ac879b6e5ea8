"""The files of an examination: for each defect and what is not decided, the result as data, and the page."""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from checker.formats.whole import write_whole
from lab.drivers.place import asked_once
from lab.errors import ELSEWHERE, UnknownOutcome, cannot_write, first_line
from lab.examine.answer.narrative import narrate
from lab.examine.answer.shown_by_another import shown_by_another
from lab.examine.result import RESULT, Defect, Examined, Kept, Undecided
from lab.report.timeline.model import Timeline
from lab.scenario.model import Scenario
from lab.search import command as search
from lab.search.runner import trials
from lab.search.trial import Trial

FAILED: Final = "it could not be written as a scenario"
NO_TIME: Final = "there was no time to write it as a scenario"
NOT_SHOWN: Final = "the steps of a scenario alone do not show the defect"
CUT: Final = "the steps of a scenario did not show the defect in the runs for which there was time"


def keep(
    examined: Examined, directory: Path, *, command: str, pictures: bool = True, limit_s: float = math.inf
) -> Kept:
    """Write all files of an examination; those of an earlier one in this directory are replaced.

    Each defect's smallest trial becomes a scenario, which is replayed in simulation; one that cannot be
    written as steps, or does not show the defect there, is kept as a trial, as is what is not decided. After
    an interruption nothing is replayed or drawn.

    Args:
        examined: the result.
        directory: where to; it is made.
        command: how the defects were found, for the reader of a scenario.
        pictures: whether the smallest schedules are drawn for the page.
        limit_s: how long it may take, in real time: then what is under way is ended, and defects that are
            left are kept as trials. The defects share it: each has its part of what is left.

    Raises:
        LabError: the directory cannot be written.
    """
    until_s = time.monotonic() + limit_s
    try:
        directory.mkdir(parents=True, exist_ok=True)
        _clear(directory)
        examined = replace(examined, undecided=_keep_undecided(examined.undecided, directory))
        kept = Kept(examined, directory)
        defects, interrupted = list(examined.defects), examined.interrupted
        written: list[_Written] = []
        if not interrupted:
            written, interrupted = _written_out(defects, command, until_s, pictures=pictures)
        with asked_once():
            interrupted |= _keep_all(kept, defects, written, until_s, interrupted=interrupted)
        for number, each in enumerate(written, 1):
            if each.timeline is not None and not interrupted:
                _draw(kept, number, each.timeline)
        kept.examined = replace(examined, defects=tuple(defects), interrupted=interrupted)
    except OSError as error:
        raise cannot_write("the result", error, where=str(directory), hint=ELSEWHERE) from error
    write(kept)
    return kept


def write(kept: Kept) -> None:
    """Write the result and its page. Raises ``LabError``: they cannot be written."""
    try:
        write_whole(kept.directory / RESULT, kept.examined.to_json())
        _write_page(kept)
    except OSError as error:
        raise cannot_write("the result", error, where=str(kept.directory), hint=ELSEWHERE) from error


@dataclass(frozen=True)
class _Written:
    """A defect with what happens in its trial, and its scenario, or why there is none."""

    defect: Defect
    trial: Trial
    """That of the scenario: the defect's, or one with another client."""
    scenarios: tuple[Scenario, ...] | str
    timeline: Timeline | None
    """Its picture."""


def _written_out(
    defects: Sequence[Defect], command: str, until_s: float, *, pictures: bool
) -> tuple[list[_Written], bool]:
    """The defects, written, as far as the time lasts, and whether that was interrupted; one at least.

    All in one session: drivers are used again.
    """
    written: list[_Written] = []
    try:
        with trials():
            for defect in defects:
                if written and time.monotonic() >= until_s:
                    break
                narrated = defect
                try:
                    narrated = _narrated(defect)
                    drawn = pictures and not defect.consequence_of
                    timeline = _timeline(narrated) if drawn else None
                    written.append(_Written(narrated, *_told(narrated, command), timeline))
                except Exception as error:  # noqa: BLE001 - the other defects are written
                    why_not = f"{FAILED}: {first_line(error)}"
                    written.append(_Written(narrated, narrated.trial, why_not, None))
    except KeyboardInterrupt:
        return written, True
    return written, False


def _told(defect: Defect, command: str) -> tuple[Trial, tuple[Scenario, ...] | str]:
    """The scenarios of a defect, or why there is none; and their trial: its own, or with another client."""
    scenarios = search.scenarios_or_reason(defect.trial, defect.findings[0], command=command)
    shown = shown_by_another(defect.trial) if isinstance(scenarios, str) else None
    if shown is not None:
        trial, finding = shown
        with_another = search.scenarios_or_reason(trial, finding, command=command)
        if not isinstance(with_another, str):
            (added,) = set(trial.clients) - set(defect.trial.clients)
            why = f"{added.capitalize()} was added: without another client no harm comes of it."
            return trial, tuple(each.model_copy(update={"why": f"{why} {each.why}"}) for each in with_another)
    return defect.trial, scenarios


def _keep_all(
    kept: Kept,
    defects: list[Defect],
    written: Sequence[_Written],
    until_s: float,
    *,
    interrupted: bool,
) -> bool:
    """Write the defects' files, and put their paths into ``defects``; whether that was interrupted."""
    for at, defect in enumerate(defects):
        path, why_not = kept.directory / f"defect-{at + 1}.yaml", NO_TIME
        if not interrupted and at < len(written) and (at == 0 or time.monotonic() < until_s):
            try:
                part_s = (until_s - time.monotonic()) / (len(written) - at)
                defects[at] = _replayed(written[at], path, part_s)
                continue
            except OSError:
                raise
            except KeyboardInterrupt:
                interrupted = True
            except Exception as error:  # noqa: BLE001 - the defect is kept as a trial, and so are the others
                why_not = f"{FAILED}: {first_line(error)}"
        path.unlink(missing_ok=True)
        narrated = written[at].defect if at < len(written) else defect
        defects[at] = _as_trial(narrated, path)
        if not interrupted:
            defects[at] = replace(defects[at], replays=why_not)
    return interrupted


def _replayed(written: _Written, path: Path, part_s: float) -> Defect:
    """A defect with its file; its scenario is replayed for so many seconds."""
    until_s = time.monotonic() + part_s

    def left_s() -> float:
        return until_s - time.monotonic()

    saved = search.keep_scenario(written.trial, written.scenarios, path, left_s)
    return _as_saved(written.defect, saved)


def _as_saved(defect: Defect, saved: search.Saved) -> Defect:
    """A defect with its file: the scenario only if it shows the defect in some simulation."""
    if saved.replay is None:
        return replace(defect, trial_file=str(saved.path), replays=saved.why_not)
    if not saved.replay.seeds:  # what its steps leave out was needed
        saved.path.unlink()
        return replace(_as_trial(defect, saved.path), replays=CUT if saved.replay.cut else NOT_SHOWN)
    return replace(defect, scenario=str(saved.path), replays=saved.replay.sentence)


def _narrated(defect: Defect) -> Defect:
    """A defect with what happens in its trial; without it, if a client ends outside of its operations."""
    with contextlib.suppress(UnknownOutcome):
        return replace(defect, happened=narrate(defect.trial, defect.findings[0]))
    return defect


def _as_trial(defect: Defect, path: Path) -> Defect:
    return replace(defect, trial_file=str(search.keep_trial(defect.trial, path)))


def _keep_undecided(undecided: Sequence[Undecided], directory: Path) -> tuple[Undecided, ...]:
    """Write the trial of each of them, and return them with the path of its file."""
    paths = [directory / f"undecided-{number}.json" for number, _ in enumerate(undecided, 1)]
    return tuple(
        replace(each, trial_file=str(search.keep_trial(each.trial, path)))
        for each, path in zip(undecided, paths, strict=True)
    )


def _timeline(defect: Defect) -> Timeline | None:
    """What the picture of a defect shows; what fails there must not cost the result."""
    try:
        from lab.examine.answer.picture import timeline_of  # numpy and the checker are heavy

        return timeline_of(defect)
    except Exception:
        logging.getLogger("lab").exception("a defect could not be drawn; the result stands")
        return None


def _draw(kept: Kept, number: int, timeline: Timeline) -> None:
    """Draw a defect; what fails there must not cost the result."""
    try:
        from lab.report.timeline.draw import picture  # matplotlib is heavy

        kept.pictures[number] = picture(timeline, ["png"])["png"]
    except Exception:
        logging.getLogger("lab").exception("a defect could not be drawn; the result stands")


def _write_page(kept: Kept) -> None:
    from lab.examine.answer.page import to_html  # the template engine is not needed by most commands

    write_whole(kept.page, to_html(kept))


def _clear(directory: Path) -> None:
    """Remove the files of the examination whose result is here, so that none is taken for new."""
    with contextlib.suppress(OSError, msgspec.DecodeError, KeyError, TypeError, AttributeError):
        before: Any = msgspec.json.decode((directory / RESULT).read_bytes())
        for number, _ in enumerate(before["defects"], 1):
            for suffix in (".yaml", ".json"):
                (directory / f"defect-{number}{suffix}").unlink(missing_ok=True)
        for number, _ in enumerate(before["undecided"], 1):
            (directory / f"undecided-{number}.json").unlink(missing_ok=True)
