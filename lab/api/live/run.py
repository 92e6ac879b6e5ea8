"""A run whose steps arrive while it is played."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec

from lab.errors import ExitCode, LabError, UnknownOutcome
from lab.run.events import RunEvent
from lab.run.execution import RecordedRun, Run
from lab.run.recorder import Recorder
from lab.run.request import Plan
from lab.run.result import RunResult
from lab.run.steps import Player
from lab.scenario.load import LoadedScenario, load_text
from lab.scenario.step_base import StepModel
from lab.substrates import substrate
from lab.substrates.base import Capability, Cluster

NAME: Final = "live"
Answer = Callable[[object], None]
PLACEHOLDER: Final = {"say": "Steps played from Python"}


def scenario_of(scenario: dict[str, Any], steps: list[dict[str, Any]]) -> LoadedScenario:
    """The scenario with these steps. Raises ``LabError`` if they make none."""
    text = msgspec.json.encode({**scenario, "steps": [PLACEHOLDER, *steps]}).decode()
    return load_text(text, NAME)


def for_python(error: LabError) -> LabError:
    """An error for the calling program, without places in the generated YAML."""
    where = error.where.partition("key ")[2] if error.where and "key " in error.where else error.where
    kind = LabError if error.exit_code == ExitCode.USAGE else UnknownOutcome
    others = tuple(map(for_python, error.others))
    return kind(error.seen, where=where or None, expected=error.expected, hint=error.hint, others=others)


class InputLines:
    """The lines of stdin."""

    def __init__(self) -> None:
        self._reader: asyncio.StreamReader | None = None

    async def next(self) -> bytes | None:
        """The next line without its end; None when there are no more."""
        if self._reader is None:
            self._reader = asyncio.StreamReader(limit=1 << 20)
            reader = self._reader
            await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
            )
        line = await self._reader.readline()
        return line.rstrip(b"\n") if line.endswith(b"\n") else None


class LiveRun(Run):
    """A run that takes its steps from stdin."""

    def __init__(self, scenario: dict[str, Any], plan: Plan, answer: Answer) -> None:
        self._about, self._send = scenario, answer
        self._steps: list[dict[str, Any]] = []
        self._events: list[RunEvent] = []
        super().__init__(plan, self._keep)

    def _keep(self, event: RunEvent) -> None:
        self._events.append(event)

    def _needed(self, steps: Iterable[StepModel]) -> frozenset[Capability]:
        """All capabilities of the substrate, since the steps are not known yet."""
        return substrate(self._plan.substrate).capabilities

    async def _play(self, player: Player, cluster: Cluster, recorder: Recorder) -> None:
        """Play each step that arrives. Raises ``asyncio.CancelledError`` if the input ends too early."""
        lines = InputLines()
        self._answer()
        while line := await lines.next():
            error: LabError | None = None
            try:
                await self._one(line, player)
            except UnknownOutcome as failed:
                self._answer(failed)
                raise
            except LabError as wrong:
                error = wrong
            if player.missed:
                error = UnknownOutcome(f"never observed: {player.missed[0]}", hint="the run proves nothing")
            self._answer(error)
        if line is None:
            raise asyncio.CancelledError
        await player.play(())

    async def _one(self, line: bytes, player: Player) -> None:
        if player.missed:
            return
        step = msgspec.json.decode(line, type=dict[str, Any])
        loaded = scenario_of(self._about, [*self._steps, step])
        self._refuse_impossible(loaded.scenario, loaded.scenario.steps[-1:])
        self._steps.append(step)
        self._loaded, self._scenario = loaded, loaded.scenario
        await player.play_one(loaded.scenario.steps[-1])

    def _answer(self, error: LabError | None = None) -> None:
        events, self._events = self._events, []
        self._send(events if error is None else for_python(error))

    def conclude(self, recorded: RecordedRun) -> RunResult:
        """Write the scenario with the steps that were played, and check the history."""
        recorded.directory.write_scenario(self._loaded.text)
        words = ["lab", "run", str(recorded.directory.scenario), "--seed", str(self._plan.seed)]
        self._plan = replace(self._plan, repeat=shlex.join([*words, "--on", self._plan.substrate]))
        return super().conclude(recorded)
