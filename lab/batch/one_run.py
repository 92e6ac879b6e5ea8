"""One run of a batch."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import msgspec

from checker.formats.whole import write_whole
from lab.analysis.comparison import Comparison
from lab.batch.dask import Cluster
from lab.batch.executor import Calls, Executor, Lost, NotStarted, Rules, Work, cores
from lab.batch.item import Item
from lab.batch.row import Row, unknown
from lab.drivers import is_driver
from lab.errors import ExitCode, LabError
from lab.locks import is_own
from lab.report.files import Picture, write_files
from lab.run import many_runs, run
from lab.run.directory import RunDirectory, free_directory
from lab.run.request import RunRequest
from lab.run.result import RunResult
from lab.substrates.interruption import Interrupted

ELSEWHERE: Final = "sim"
"""The substrate whose runs can take place on other machines: they need nothing but the lab."""
ALONE: Final = Rules(tries=1, fresh=True)
SHARED: Final = Rules(tries=1)


class _Asked(NamedTuple):
    """A run that is asked for."""

    item: Item
    seed: int
    out: str
    picture: Picture
    text: str | None = None
    """Of its scenario, if that is a file which may not be where the run takes place."""


class Files(NamedTuple):
    """A run that took place elsewhere: its row, and the files of its directory by their names."""

    row: Row
    files: dict[str, bytes]

    def written(self, out: Path) -> Row:
        """The row, after its files were written into a directory below ``out``."""
        if self.row.directory is None:
            return self.row
        directory = free_directory(out, Path(self.row.directory).name)
        for name, content in self.files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        return msgspec.structs.replace(self.row, directory=str(directory))


class Workers:
    """Processes for runs; use it with ``async with``.

    Runs in virtual time share processes, with their servers and drivers, if their history is the same there
    as alone. Each other run has a process of its own.

    Args:
        at_once: how many runs there may be at once; one for each core if None.
        cluster: where simulated runs take place instead; their files are brought here.
    """

    def __init__(self, at_once: int | None = None, cluster: Cluster | None = None) -> None:
        self.simulated = cores() if cluster is None else cluster.size
        """How many simulated runs there may be at once."""
        size = max(at_once or 0, cores())
        self.shared: Executor[_Asked, Row] = Executor(Work(_run, many_runs), size, SHARED)
        self._alone: Executor[_Asked, Row] = Executor(Work(_run), size, ALONE)
        self._calls = {True: Calls(self.shared), False: Calls(self._alone)}
        self._elsewhere: Calls[_Asked, Files] | None = None
        if cluster is not None:
            self._elsewhere = Calls(Executor(Work(_run_elsewhere), cluster.size, ALONE, cluster))
        self._open = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        for calls in self._calls.values():
            await self._open.enter_async_context(calls)
        if self._elsewhere is not None:
            await self._open.enter_async_context(self._elsewhere)
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._open.__aexit__(*error)

    async def run(self, item: Item, seed: int, out: Path, picture: Picture) -> Row:
        """The row of a run. Raises ``LabError``: its process ended, or could not be started."""
        if self._elsewhere is not None:
            asked = _Asked(item, seed, str(out), picture, _text(item.scenario))
            return (await self._elsewhere.call(asked)).written(out)
        return await self._calls[_can_share(item)].call(_Asked(item, seed, str(out), picture))


def _text(scenario: str) -> str | None:
    """The text of a scenario, if it is a file of somebody's own."""
    file = Path(scenario)
    return file.read_text(encoding="utf-8") if file.is_file() else None


def refuse_elsewhere(items: Iterable[Item]) -> None:
    """Refuse runs that need this machine. Raises ``LabError``."""
    for item in items:
        if item.on != ELSEWHERE and not item.why_not:
            raise LabError(
                f"{item.id} runs on {item.on}, and a cluster runs nothing but simulations",
                where="--dask",
                expected=f"runs on {ELSEWHERE}",
                hint=f"--on {ELSEWHERE}, or leave --dask out",
            )


async def run_one(
    item: Item, seed: int, out: Path, *, picture: Picture = "unexpected", workers: Workers | None = None
) -> Row:
    """Run an item once, with its directory below ``out``, in one of the ``workers`` or in a new process.

    A run that cannot be started, or is killed, is unknown; what a killed one left running is ended.
    """
    began_s = time.monotonic()
    try:
        async with contextlib.nullcontext(workers) if workers is not None else Workers(1) as those:
            row = await those.run(item, seed, out, picture)
    except Lost as lost:
        row = unknown(seed, f"its process ended: {lost.why}")
    except NotStarted as error:  # no more processes, or no room for their output
        row = unknown(seed, f"it could not be started: {error.reason}")
    except LabError as error:
        row = unknown(seed, error.seen)
    wall_s = time.monotonic() - began_s
    return msgspec.structs.replace(row, item=item.id, wall_s=wall_s, repeat=item.command(seed))


def _can_share(item: Item) -> bool:
    """What somebody's own class leaves in a process is not known."""
    return item.on == "virtual" and (is_own(item.lock) or is_driver(item.lock))


def _run(asked: _Asked) -> Row:
    """Run an item in this process; an error is a row as well."""
    item, seed, out, picture, _ = asked
    try:
        request = RunRequest(item.scenario, item.settings, seed=seed, substrate=item.on, out=Path(out))
        result = run(request)
        written = write_files(result, picture)
        row = _row(seed, result)
        if written.lost is not None:
            code = int(written.exit_code(result))
            row = msgspec.structs.replace(row, exit_code=code, reasons=(*row.reasons, written.lost.seen))
        return row
    except Interrupted:
        return Row(seed, ExitCode.INTERRUPTED, reasons=("it was interrupted",))
    except LabError as error:
        refused = error.seen if error.exit_code == ExitCode.USAGE else ""
        return Row(seed, error.exit_code, reasons=(error.seen,), refused=refused)
    except Exception as error:  # noqa: BLE001 - a defect of the lab must not end the batch, nor look like a verdict
        return unknown(seed, f"the lab itself failed: {type(error).__name__}: {error}")


def _run_elsewhere(asked: _Asked) -> Files:
    """Run an item where its directory does not stay."""
    with tempfile.TemporaryDirectory(prefix="lock-lab-suite-") as scratch:
        item, out = asked.item, Path(scratch) / "out"
        if asked.text is not None:
            file = Path(scratch) / Path(item.scenario).name
            file.write_text(asked.text, encoding="utf-8")
            item = msgspec.structs.replace(item, scenario=str(file))
        row = _run(asked._replace(item=item, out=str(out)))
        if row.directory is None:
            return Files(row, {})
        directory = Path(row.directory)
        files = [path for path in directory.rglob("*") if path.is_file()]
        return Files(row, {str(path.relative_to(directory)): path.read_bytes() for path in files})


def _row(seed: int, result: RunResult) -> Row:
    receipts, faults = _receipts(result.directory)
    return Row(
        seed,
        int(result.exit_code),
        result.outcomes,
        result.findings,
        reasons(result.comparison),
        receipts=receipts,
        faults=faults,
        steps_s=result.timings_s.get("steps", 0.0),
        versions={name: version for name, version in result.environment.items() if name != "substrate"},
        directory=str(result.directory),
    )


def reasons(compared: Comparison) -> tuple[str, ...]:
    """Mismatches, and why anything is unknown; the latter first if the result is unknown.

    That may be the reason of a mismatch.
    """
    if compared.exit_code == ExitCode.EXPECTED:
        return ()
    wrong = tuple(f"{m.what}: {m.seen}, expected {m.expected}" for m in compared.mismatches)
    return (
        (*compared.unknown, *wrong) if compared.exit_code == ExitCode.UNKNOWN else (*wrong, *compared.unknown)
    )


def _receipts(directory: Path) -> tuple[int, int]:
    """How many faults have a receipt, and how many were injected or ended in all."""
    seen: dict[str, set[str]] = {"invoke": set(), "ok": set()}
    for event in _events(directory):
        if event.get("process") == "nemesis" and event["type"] in seen:
            seen[event["type"]].add(event["fault_id"])
    return len(seen["ok"]), len(seen["invoke"])


def _events(directory: Path) -> Iterable[dict[str, Any]]:
    with contextlib.suppress(OSError, msgspec.DecodeError):
        for line in RunDirectory.existing(directory).history.read_bytes().splitlines():
            yield msgspec.json.decode(line, type=dict[str, Any])
