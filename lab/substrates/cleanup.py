"""Ending what a killed lab left behind: its processes, its containers, its files. See ``run_files``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from lab.errors import LabError
from lab.paths import state_dir
from lab.processes import kill_all, started_at
from lab.substrates.run_files import Swept, boot_id, pid_namespace


def _start_is_unknown(record: Mapping[str, Any]) -> bool:
    """Whether a run's process id means nothing here: its lab counts them in another namespace."""
    return record.get("boot") == boot_id() and record.get("pid_namespace") not in (None, pid_namespace())


def sweep(*, everywhere: bool = False) -> list[Swept]:
    """End what dead runs left behind; runs whose lab is alive are not touched.

    A container engine is asked if one of them had containers, or else only if it is to be ``everywhere``. An
    engine that is there but does not answer is then in the result, without a run's id.
    """
    swept: dict[str, Swept] = {}
    engines: dict[str | None, list[_Dead]] = {_current_engine(): []} if everywhere else {}
    for path in sorted(state_dir().glob("*.json")):
        try:
            record = json.loads(path.read_text())
            pid, since, scratch = int(record["pid"]), record["started_at"], Path(record["scratch"])
        except FileNotFoundError:  # it ended properly a moment ago, or another lab has swept it
            continue
        except (OSError, ValueError, KeyError, TypeError):
            # Damaged by a full disk, perhaps: the id still finds processes and containers.
            pid, since, scratch, record = -1, "", None, {"containers": True, "damaged": True}
        if pid > 0 and (started_at(pid) == since or _start_is_unknown(record)):
            continue
        swept[path.stem] = Swept(path.stem, tuple(kill_all(path.stem)))
        dead = _Dead(path, scratch, damaged="damaged" in record)
        if record.get("containers"):
            engines.setdefault(record.get("engine") or _current_engine(), []).append(dead)
        else:
            dead.forget()
    for engine, runs in engines.items():
        _sweep_engine(engine, runs, swept)
    return list(swept.values())


@dataclass(frozen=True, slots=True)
class _Dead:
    """The files of a run whose lab is gone; if they are ``damaged``, it may have had containers or not."""

    path: Path
    scratch: Path | None
    damaged: bool

    def forget(self) -> None:
        """Remove them."""
        if self.scratch is not None and self.scratch.name.startswith("lock-lab-"):
            shutil.rmtree(self.scratch, ignore_errors=True)
        self.path.unlink(missing_ok=True)


def _current_engine() -> str | None:
    """The address of the engine that a run would use now; None if the configuration names one in vain."""
    from lab.substrates.docker.engine import endpoint  # most runs have nothing to do with an engine

    try:
        return endpoint().host
    except LabError:
        return None


def _sweep_engine(host: str | None, runs: Sequence[_Dead], swept: dict[str, Swept]) -> None:
    """Remove what dead runs have in one engine, and then the files of ``runs``: containers share them."""
    from lab.substrates.docker.cleanup import Unasked, sweep_engine

    try:
        found = {one.run_id: one for one in sweep_engine(host)}
    except Unasked as error:
        for run in runs:
            if run.damaged and not error.is_silent:
                run.forget()
            else:
                swept[run.path.stem] = replace(swept[run.path.stem], not_removed=error.seen)
        if not runs and error.is_silent:
            swept[""] = Swept("", not_removed=error.seen)
        return
    for run_id, one in found.items():
        swept[run_id] = replace(one, killed=swept[run_id].killed if run_id in swept else ())
    for run in runs:
        if run.path.stem not in found or found[run.path.stem].not_removed is None:
            run.forget()
