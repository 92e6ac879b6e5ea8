"""One run of a batch."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from lab.analysis.comparison import Comparison
from lab.batch import preload
from lab.batch.item import Item
from lab.batch.row import Row, unknown
from lab.batch.workers import Workers
from lab.drivers import is_driver
from lab.errors import ExitCode, LabError
from lab.locks import is_own
from lab.report.files import Picture, write_files
from lab.run import many_runs, run
from lab.run.directory import RunDirectory
from lab.run.request import RunRequest
from lab.run.result import RunResult
from lab.substrates.cleanup import sweep
from lab.substrates.interruption import Interrupted


def workers() -> Workers:
    """Processes for runs in virtual time, which share servers and drivers."""
    return Workers(many_runs, _run)


async def run_one(
    item: Item, seed: int, out: Path, *, picture: Picture = "unexpected", shared: Workers | None = None
) -> Row:
    """Run an item once, with its directory below ``out``, in a process of its own.

    Or in one of those that are ``shared``, if its history is the same there as alone. A run that cannot be
    started, or is killed, is unknown; what a killed one left running is ended.
    """
    began_s = time.monotonic()
    call = shared.call if shared is not None and _can_share(item) else partial(preload.call, _run)
    try:
        row = msgspec.json.decode(await call(item, seed, str(out), picture), type=Row)
    except preload.Died as death:
        row = unknown(seed, f"its process ended: {death}")
        if death.killed:
            await asyncio.to_thread(sweep)
    except OSError as error:  # no more processes, or no room for its output
        row = unknown(seed, f"it could not be started: {error.strerror or error}")
    wall_s = time.monotonic() - began_s
    return msgspec.structs.replace(row, item=item.id, wall_s=wall_s, repeat=item.command(seed))


def _can_share(item: Item) -> bool:
    """What somebody's own class leaves in a process is not known."""
    return item.on == "virtual" and (is_own(item.lock) or is_driver(item.lock))


def _run(item: Item, seed: int, out: str, picture: Picture) -> Row:
    """Run an item in this process; an error is a row as well."""
    try:
        request = RunRequest(item.scenario, item.settings, seed=seed, substrate=item.on, out=Path(out))
        result = run(request)
        write_files(result, picture)
        return _row(seed, result)
    except Interrupted:
        return Row(seed, ExitCode.INTERRUPTED, reasons=("it was interrupted",))
    except LabError as error:
        refused = error.seen if error.exit_code == ExitCode.USAGE else ""
        return Row(seed, error.exit_code, reasons=(error.seen,), refused=refused)
    except Exception as error:  # noqa: BLE001 - a defect of the lab must not end the batch, nor look like a verdict
        return unknown(seed, f"the lab itself failed: {type(error).__name__}: {error}")


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
