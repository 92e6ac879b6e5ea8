"""A run whose story is told while it is played."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Final

import msgspec

from lab.errors import ExitCode, LabError, UnknownOutcome
from lab.run.execution import Lived, Run
from lab.run.narration import Narrated
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
PLACEHOLDER: Final = {"say": "A story told from Python"}


def loaded_story(scenario: dict[str, Any], steps: list[dict[str, Any]]) -> LoadedScenario:
    """The scenario with these steps. Raises ``LabError`` if they make none."""
    text = msgspec.json.encode({**scenario, "steps": [PLACEHOLDER, *steps]}).decode()
    return load_text(text, NAME)


def in_the_words_of_python(error: LabError) -> LabError:
    """What the caller is to know of an error; places in a text that nobody wrote mean nothing."""
    where = error.where.partition("key ")[2] if error.where and "key " in error.where else error.where
    kind = LabError if error.exit_code == ExitCode.USAGE else UnknownOutcome
    return kind(error.seen, where=where or None, expected=error.expected, hint=error.hint)


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

    def __init__(self, scenario: dict[str, Any], plan: Plan, answer: Answer) -> None:
        self._about, self._tell_caller = scenario, answer
        self._steps: list[dict[str, Any]] = []
        self._said: list[Narrated] = []
        super().__init__(plan, self._note)

    def _note(self, told: Narrated) -> None:
        self._said.append(told)

    def _needed(self, steps: Iterable[StepModel]) -> frozenset[Capability]:
        """Whatever the substrate has: nobody knows yet what will happen."""
        return substrate(self._plan.substrate).capabilities

    async def _play(self, player: Player, cluster: Cluster, recorder: Recorder) -> None:
        """Play what is told, until the story ends. Raises ``asyncio.CancelledError`` if nobody tells on."""
        lines = Lines()
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
            if player.missed:  # what follows would tell another story
                error = UnknownOutcome(f"never seen: {player.missed[0]}", hint="the run proves nothing")
            self._answer(error)
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

    def _answer(self, error: LabError | None = None) -> None:
        said, self._said = self._said, []
        self._tell_caller(said if error is None else in_the_words_of_python(error))

    def conclude(self, lived: Lived) -> RunResult:
        """Keep the scenario as it was told, which is what repeats it, and check the history."""
        lived.directory.write_scenario(self._loaded.text)
        words = ["lab", "run", str(lived.directory.scenario), "--seed", str(self._plan.seed)]
        self._plan = replace(self._plan, repeat=shlex.join([*words, "--on", self._plan.substrate]))
        return super().conclude(lived)
