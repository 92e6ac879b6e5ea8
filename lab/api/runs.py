"""One run with its page and picture, and stored runs: checking them, drawing pages and figures."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from checker.formats.whole import write_whole
from lab import run as runs
from lab.addresses import ENDPOINT_FORM, Endpoint, without_password
from lab.errors import ExitCode, LabError, UnknownOutcome, cannot_write
from lab.processes import started_at
from lab.run.request import RunRequest

if TYPE_CHECKING:
    from lab.report.files import Picture
    from lab.run.events import Listener
    from lab.run.recorder import Recorder
    from lab.run.result import RunResult
    from lab.run.steps import Player
    from lab.substrates.base import Cluster

__all__ = ["RunRequest", "check", "existing", "figure", "page", "report", "run", "up"]

FORMATS: Final = ("svg", "png", "pdf")


class Reported(NamedTuple):
    """A run with its page and picture, how long each part took, in seconds, and the exit code."""

    result: RunResult
    files: tuple[Path, ...]
    seconds: Mapping[str, float]
    exit_code: ExitCode


def existing(endpoints: str | None, proxy: str | None) -> tuple[str, ...]:
    """The overrides that make a scenario run on endpoints, URLs with commas between them.

    Their passwords are kept in this process, and are in no override. Raises ``LabError``: one is no URL.
    """
    overrides = []
    if endpoints is not None:
        urls = []
        for number, url in enumerate(filter(None, endpoints.split(",")), 1):
            try:
                urls.append(without_password(url.strip()))
                Endpoint.parse(urls[-1])
            except ValueError as error:
                raise LabError(
                    f"endpoint {number}: {error}",
                    where="--endpoints",
                    expected=ENDPOINT_FORM,
                    hint="in a user or a password, %2C is a comma, %40 an @, and %2F a slash",
                ) from None
        overrides += [f"cluster.nodes={len(urls)}", f"cluster.endpoints={json.dumps(urls)}"]
    if proxy is not None:
        overrides.append(f"cluster.proxy={json.dumps(proxy)}")
    return tuple(overrides)


def run(request: RunRequest, listener: Listener | None = None, *, picture: Picture = "always") -> Reported:
    """Run one scenario, write its page and draw it as ``picture`` says. Raises as ``lab.run.run``."""
    from lab.report.files import preload

    return report(runs.run(request, listener, partial(preload, picture)), picture)


def up(request: RunRequest, listener: Listener) -> Path:
    """Bring the cluster of a scenario up without its steps, and keep it; return the run's directory.

    Raises:
        LabError: bad input, or a missing tool; nothing was started.
        UnknownOutcome: the cluster did not come up.
        Interrupted: a signal ended it before it was up.
    """
    from lab.run.execution import Run
    from lab.substrates.execute import execute_on

    class Unplayed(Run):
        async def _play(self, player: Player, cluster: Cluster, recorder: Recorder) -> None:
            """Play nothing."""

    plan = request.plan()
    listener.planned(plan)
    recorded = execute_on(plan.substrate, plan.seed, Unplayed(plan, listener.event).prepare())
    if recorded.aborted is not None:
        raise UnknownOutcome(recorded.aborted, where=str(recorded.directory.logs))
    return recorded.directory.path


def report(
    result: RunResult, picture: Picture = "always", seconds: Mapping[str, float] | None = None
) -> Reported:
    """Write the page of a finished run, and draw it; an error in that does not cost the verdict.

    A file that cannot be written is logged as an error, and the exit code then says so.
    """
    from lab.report.files import write_files

    began = time.monotonic()
    written = write_files(result, picture)
    parts = result.timings_s if seconds is None else seconds
    seconds = {**parts, "report": time.monotonic() - began}
    return Reported(result, written.files, seconds, written.exit_code(result))


def is_no_run(target: Path) -> bool:
    """Whether a path is neither a run's directory nor its history, but a file for the checker."""
    try:
        return target.exists() and not target.is_dir() and target.name != "history.jsonl"
    except OSError:
        return True


def check(target: Path) -> Reported:
    """Check a stored run, and write verdict, page and picture again. Raises ``LabError``."""
    from lab.run.stored import read_run

    began = time.monotonic()
    try:
        result = read_run(target)
    except OSError as error:
        raise LabError(
            f"the run cannot be read: {error.strerror or error}",
            where=str(error.filename or target),
            hint="`ls -l` shows who may read it",
        ) from None
    result.write()
    return report(result, seconds={"check": time.monotonic() - began})


def page(target: Path) -> Path:
    """Write the page of a stored run again. Raises ``LabError``."""
    from lab.report.page import write_page
    from lab.run.stored import read_run

    result = read_run(target)
    try:
        return write_page(result, result.directory)
    except OSError as error:
        raise cannot_write("the page", error) from error


def figure(target: Path, kind: str, out: Path | None = None) -> Path:
    """Draw one figure of a stored run into a file; its suffix says the format.

    Raises:
        LabError: it is no run's directory, its files are damaged, or the file cannot be written.
    """
    from lab.run.stored import read_run

    result = read_run(target)
    path = out or result.directory / f"{kind}.svg"
    suffix = path.suffix.lstrip(".").lower()
    if suffix not in FORMATS:
        raise LabError(
            f"no figure can be written as {path.suffix or 'a file without a suffix'}",
            where=str(path),
            expected="a name that ends in .svg, .png or .pdf",
            hint=f"lab report RUN --figure {kind} --out {kind}.pdf",
        )
    from lab.report.figures.draw import figure as draw  # matplotlib is heavy

    picture = draw(kind, result.history, result.verdict, result.loaded.scenario.title, suffix)
    try:
        write_whole(path, picture)
    except OSError as error:
        raise cannot_write("the figure", error, hint="choose another file with --out") from error
    return path


def process_age_s() -> float | None:
    """The age of this process in seconds, from ``/proc``, to 10 ms; None if there is no ``/proc``."""
    started = started_at(os.getpid())
    if started is None:
        return None
    return time.clock_gettime(time.CLOCK_BOOTTIME) - int(started) / os.sysconf("SC_CLK_TCK")
