"""A cluster to break from Python, step by step."""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import msgspec

from lab.api.live.ending import end_lab
from lab.api.live.protocol import Answer, Begin, Said
from lab.api.result import LabResult
from lab.errors import ExitCode, LabError, UnknownOutcome


class LiveCluster:
    """A cluster that is up between ``__enter__`` and ``__exit__``; after that it has a ``result``.

    The steps are those of scenario files (``lab schema``); each call returns when its step is done, with what
    was told of it. The story is kept as ``scenario.yaml`` in the run's directory, so that it can be run again
    without Python.
    """

    def __init__(self, begin: Begin, cwd: Path, environment: dict[str, str]) -> None:
        self._begin, self._cwd, self._environment = begin, cwd, environment
        self._process: subprocess.Popen[bytes] | None = None
        self._talk: IO[bytes] | None = None
        self._result: LabResult | None = None

    @property
    def result(self) -> LabResult:
        """The verdict, once the cluster is down. Raises ``RuntimeError`` before."""
        if self._result is None:
            raise RuntimeError("the cluster is not down yet: the result is there when its `with` has ended")
        return self._result

    def play(self, step: Mapping[str, Any]) -> list[Said]:
        """Play one step: ``{"wait": "500ms"}``, ``{"heal": "all"}``.

        Raises:
            LabError: there is no such step, or it cannot happen now; the cluster is still up.
            UnknownOutcome: the run has failed, and is being torn down.
        """
        return self._ask(msgspec.json.encode(step).decode()).said

    def do(self, *sentences: str) -> list[Said]:
        """Let clients act, one after the other: ``do("alice acquires", "bob works until before-write")``."""
        return [said for said in self.play({"do": list(sentences)}) if said.actor not in ("lab", "nemesis")]

    def inject(self, **fault: Any) -> list[Said]:
        """Inject one fault, or end one: ``inject(cut={"client": "alice", "nodes": ["D", "E"]})``."""
        if len(fault) != 1:
            raise LabError(f"{len(fault)} faults in one call", expected="one, like inject(heal='all')")
        return self.play(fault)

    def until(self, **anchor: Any) -> list[Said]:
        """Wait for a moment that is observed: ``until(keys="gone")``, ``until(lease="alice", over=True)``."""
        return self.play({"until": anchor})

    def __enter__(self) -> LiveCluster:
        self._talk = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "lab.api.live"],
            cwd=self._cwd,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._talk,
            start_new_session=True,
        )
        try:
            self._ask(msgspec.json.encode(self._begin).decode())
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        try:
            if kind is not None and not issubclass(kind, Exception):
                return  # interrupted: there is no time for a verdict
            if self._result is None:
                self._ask("")
        except LabError:
            if kind is None:
                raise
        finally:
            self._close()

    def _ask(self, line: str) -> Answer:
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            raise RuntimeError("the cluster is not up: use it with `with`")
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
            told = process.stdout.readline()
        except (BrokenPipeError, ValueError):
            told = b""
        if not told.endswith(b"\n"):
            raise UnknownOutcome(f"the lab has ended without a word: {self._last_words()}")
        answer = msgspec.json.decode(told, type=Answer)
        if answer.directory is not None:
            again = shlex.join(["lab", "run", str(Path(answer.directory, "scenario.yaml"))])
            self._result = LabResult(answer.exit_code, Path(answer.directory), again)
            if line:  # it has ended without being asked to
                raise UnknownOutcome(f"the run has failed: {'; '.join(self._result.verdict['unknown'])}")
        if answer.error is not None:
            kind = LabError if answer.error.exit_code == ExitCode.USAGE else UnknownOutcome
            raise kind(
                answer.error.seen,
                where=answer.error.where,
                expected=answer.error.expected,
                hint=answer.error.hint,
            )
        return answer

    def _last_words(self) -> str:
        if self._talk is None:
            return "no word"
        self._talk.seek(0)
        lines = self._talk.read().decode(errors="replace").splitlines()
        return "; ".join(lines[-3:]) or "no word"

    def _close(self) -> None:
        """The end of its input is the end of the cluster, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            end_lab(process)
        if self._talk is not None:
            self._talk.close()
