"""A cluster that is driven from Python, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from lab.api.child import Child
from lab.errors import LabError, UnknownOutcome

if TYPE_CHECKING:
    from lab.run.events import RunEvent
    from lab.run.result import RunResult


class Begin(msgspec.Struct, frozen=True):
    """A scenario without steps, the substrate, where the run's directory is made, and the seed."""

    scenario: dict[str, Any]
    on: str
    out: str
    seed: int


class LiveCluster:
    """A cluster that is up between ``__enter__`` and ``__exit__``; after that it has a ``result``.

    The steps are those of scenario files (``lab list --schema``); each call returns when its step is done,
    with its events. The steps are kept as ``scenario.yaml`` in the run's directory, so that they can be run
    again without Python.

    The process of the cluster (``python -m lab.api.live``) reads JSON lines: ``Begin``, then steps, then an
    empty line after the last step, on which it heals, reads the store, tears down and checks. An end of its
    input before that is an interruption. It answers each line with the events, a list of ``RunEvent``, or an
    error; the last one, or one on which the run has failed, with the ``RunResult``.
    """

    def __init__(self, begin: Begin, cwd: Path, environment: dict[str, str]) -> None:
        self._begin, self._cwd, self._environment = begin, cwd, environment
        self._child: Child | None = None
        self._result: RunResult | None = None

    @property
    def result(self) -> RunResult:
        """The verdict, once the cluster is down. Raises ``RuntimeError`` before."""
        if self._result is None:
            raise RuntimeError("the cluster is not down yet: the result is there when its `with` has ended")
        return self._result

    def play(self, step: Mapping[str, Any]) -> list[RunEvent]:
        """Play one step: ``{"wait": "500ms"}``, ``{"heal": "all"}``.

        Raises:
            LabError: there is no such step, or it cannot happen now; the cluster is still up.
            UnknownOutcome: the run has failed, and is being torn down.
        """
        return self._ask(msgspec.json.encode(step))

    def do(self, *sentences: str) -> list[RunEvent]:
        """Let clients act, one after the other: ``do("alice acquires", "bob works until before-write")``."""
        return [one for one in self.play({"do": list(sentences)}) if one.actor not in ("lab", "nemesis")]

    def inject(self, **fault: Any) -> list[RunEvent]:
        """Inject one fault, or end one: ``inject(cut={"client": "alice", "nodes": ["D", "E"]})``."""
        if len(fault) != 1:
            raise LabError(f"{len(fault)} faults in one call", expected="one, like inject(heal='all')")
        return self.play(fault)

    def until(self, **anchor: Any) -> list[RunEvent]:
        """Wait for an anchor: ``until(keys="gone")``, ``until(lease="alice", over=True)``."""
        return self.play({"until": anchor})

    def __enter__(self) -> LiveCluster:
        self._child = Child(self._cwd, self._environment, "lab.api.live")
        try:
            self._ask(msgspec.json.encode(self._begin))
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> None:
        try:
            if kind is not None and not issubclass(kind, Exception):
                return  # interrupted: there is no time for a verdict
            if self._result is None:
                self._ask(b"")
        except LabError:
            if kind is None:
                raise
        finally:
            self._close()

    def _ask(self, line: bytes) -> list[RunEvent]:
        if self._child is None:
            raise RuntimeError("the cluster is not up: use it with `with`")
        self._child.send(line + b"\n")
        answer = self._child.receive()
        if isinstance(answer, list):
            return answer
        self._result = answer
        if line:  # a result before the last step
            raise UnknownOutcome(f"the run has failed: {'; '.join(answer.comparison.unknown)}")
        return []

    def _close(self) -> None:
        """End the process; it tears the cluster down at the end of its input."""
        child, self._child = self._child, None
        if child is not None:
            child.close()
