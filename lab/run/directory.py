"""The directory of one run and the files in it."""

from __future__ import annotations

import contextlib
import os
import secrets
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from checker.formats.whole import write_whole
from lab.errors import ELSEWHERE, LabError, cannot_write
from lab.run.recorder import HISTORY

LATEST = "latest"


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """``<scenario>-<time>-<seed>/``: scenario.yaml, history.jsonl, verdict.json, pictures and logs/."""

    path: Path
    run_id: str

    @classmethod
    def create(cls, out: Path, scenario: str, seed: int) -> RunDirectory:
        """Make a fresh directory below ``out`` and let ``out/latest`` point to it.

        Raises:
            LabError: it cannot be made.
        """
        stamp = datetime.now().astimezone().strftime("%Y%m%dT%H%M%S")
        name = f"{scenario}-{stamp}-{seed}"
        try:
            out.mkdir(parents=True, exist_ok=True)
            path = free_directory(out.resolve(), name)
            (path / "logs").mkdir()
        except OSError as error:
            raise cannot_write("the run", error, where=str(out), hint=ELSEWHERE) from error
        with contextlib.suppress(OSError):  # some file systems have no symbolic links
            link = path.parent / f".{LATEST}-{secrets.token_hex(4)}"
            link.symlink_to(path.name)
            link.replace(path.parent / LATEST)
        return cls(path, secrets.token_hex(8))

    @classmethod
    def existing(cls, path: Path) -> RunDirectory:
        """Open the directory of a finished run.

        Raises:
            LabError: it is no run's directory.
        """
        if path.is_file() and path.name == HISTORY:
            path = path.parent
        if not path.is_dir():
            raise LabError(
                "no such run",
                where=str(path),
                expected="the directory of a run",
                hint="look into reports/, or use reports/latest",
            )
        return cls(path.resolve(), path.resolve().name)

    @property
    def logs(self) -> Path:
        """The directory of the logs of servers and clients."""
        return self.path / "logs"

    @property
    def scenario(self) -> Path:
        """The scenario as it was run."""
        return self.path / "scenario.yaml"

    @property
    def history(self) -> Path:
        """The history: every operation, fault and observation."""
        return self.path / HISTORY

    @property
    def verdict(self) -> Path:
        """The result as JSON."""
        return self.path / "verdict.json"

    @property
    def schedule(self) -> Path:
        """The faults that were drawn for a workload, by the time at which they begin."""
        return self.path / "schedule.json"

    def write_schedule(self, faults: list[dict[str, Any]]) -> None:
        """Write the faults that were drawn. Raises ``LabError``."""
        self._write(self.schedule, msgspec.json.format(msgspec.json.encode(faults), indent=2) + b"\n")

    def read_schedule(self) -> list[dict[str, Any]]:
        """The faults that were drawn; none if the file is gone or damaged."""
        with contextlib.suppress(OSError, msgspec.DecodeError):
            return msgspec.json.decode(self.schedule.read_bytes(), type=list[dict[str, Any]])
        return []

    def write_scenario(self, text: str) -> None:
        """Write the scenario as it is run. Raises ``LabError``."""
        self._write(self.scenario, text)

    def write_verdict(self, content: bytes) -> None:
        """Write the result as JSON. Raises ``LabError``; the history can be judged again."""
        self._write(self.verdict, content, f"{ELSEWHERE}; `lab check` judges the history again")

    @staticmethod
    def _write(path: Path, content: bytes | str, hint: str = ELSEWHERE) -> None:
        try:
            write_whole(path, content)
        except OSError as error:
            raise cannot_write(path.name, error, hint=hint) from error


def free_directory(out: Path, name: str) -> Path:
    """Make a directory of this name below ``out``, or with a number behind it. Raises ``OSError``."""
    for attempt in range(1, 1000):
        path = out / (name if attempt == 1 else f"{name}-{attempt}")
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)  # noqa: PTH102 - must fail if it exists: two labs may start in one second
            return path
    raise FileExistsError(str(out / name))
