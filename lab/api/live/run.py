"""A run whose story is told while it is played."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from lab.api.live.protocol import Answer, Problem, Said
from lab.errors import LabError, UnknownOutcome
from lab.run.directory import RunDirectory
from lab.run.execution import Run, RunOptions
from lab.run.recorder import Recorder
from lab.run.steps import Player, Told
from lab.scenario.load import LoadedScenario, load_text
from lab.scenario.step_base import StepModel
from lab.substrates import substrate
from lab.substrates.base import Capability, Cluster

NAME: Final = "live"
PLACEHOLDER: Final = {"say": "A story told from Python"}


def loaded_story(scenario: dict[str, Any], steps: list[dict[str, Any]]) -> LoadedScenario:
    """The scenario with these steps. Raises ``LabError`` if they make none."""
    text = msgspec.json.encode({**scenario, "steps": [PLACEHOLDER, *steps]}).decode()
    return load_text(text, NAME)


def problem(error: LabError) -> Problem:
    """What the caller is to know of an error; places in a text that nobody wrote mean nothing."""
    where = error.where.partition("key ")[2] if error.where and "key " in error.where else error.where
    return Problem(error.seen, where or None, error.expected, error.hint, int(error.exit_code))


def tell(answer: Answer) -> None:
    """Print one answer."""
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    sys.stdout.buffer.flush()


class Lines:
    """What comes in, line by line."""

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
    """A run that takes its steps from stdin; otherwise as any other."""

    def __init__(self, scenario: dict[str, Any], options: RunOptions) -> None:
        self._about = scenario
        self._steps: list[dict[str, Any]] = []
        self._said: list[Said] = []
        super().__init__(loaded_story(scenario, []), options, self._note)

    def _note(self, told: Told) -> None:
        self._said.append(Said(told.actor, told.text, told.mood))

    def _needed(self, steps: Iterable[StepModel]) -> frozenset[Capability]:
        """Whatever the substrate has: nobody knows yet what will happen."""
        return substrate(self._options.substrate).capabilities

    async def _play(self, player: Player, cluster: Cluster, recorder: Recorder) -> None:
        """Play what is told, until the story ends. Raises ``asyncio.CancelledError`` if nobody tells on."""
        lines = Lines()
        self._answer()
        while line := await lines.next():
            error: LabError | None = None
            try:
                await self._one(line, player)
            except UnknownOutcome as failed:
                self._answer(problem(failed))
                raise
            except LabError as wrong:
                error = wrong
            if player.missed:  # what follows would tell another story
                error = UnknownOutcome(f"never seen: {player.missed[0]}", hint="the run proves nothing")
            self._answer(problem(error) if error is not None else None)
        if line is None:
            raise asyncio.CancelledError
        await player.play(())

    async def _one(self, line: bytes, player: Player) -> None:
        if player.missed:
            return
        step = msgspec.json.decode(line, type=dict[str, Any])
        loaded = loaded_story(self._about, [*self._steps, step])
        self._refuse_what_cannot_be(loaded.scenario, loaded.scenario.steps[-1:])
        self._steps.append(step)
        self._loaded, self._scenario = loaded, loaded.scenario
        await player.play_one(loaded.scenario.steps[-1])

    def _answer(self, error: Problem | None = None) -> None:
        tell(Answer(self._said, error))
        self._said = []

    def keep_story(self, directory: RunDirectory) -> None:
        """Keep the scenario as it was told."""
        directory.write_scenario(self._loaded.text)
