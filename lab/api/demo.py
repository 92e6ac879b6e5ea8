"""A run that is shown part by part at the reader's pace.

The run is over before its first part is shown: leases expire in real time, while the reader reads.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.text import Text

from lab.api.runs import run
from lab.report.demo.parts import EventLog, parts_of
from lab.report.demo.show import Show
from lab.report.demo.texts import words_for
from lab.report.page import PAGE
from lab.report.terminal import print_result, relative
from lab.run.request import Plan, RunRequest
from lab.run.result import RunResult

__all__ = ["RunRequest", "show_run"]

READING_S = 4.0
"""How long each part stays on a terminal with ``auto``."""


def show_run(request: RunRequest, screen: Console, talk: Console, *, auto: bool) -> RunResult:
    """Run a scenario and show it: the next part after Enter, or after a while with ``auto``.

    Raises:
        LabError: no such scenario, or the run is not possible.
        Interrupted: a signal ended it; everything was torn down.
    """
    log = _Log(screen)
    with talk.status("running …"):
        result = run(request, log, picture="unexpected").result
    shown = Show(screen, result, _Pause(screen, auto=auto))
    scenario = result.loaded.scenario
    shown.play(parts_of(scenario, log.lines), words_for(result.name, scenario))
    if result.as_expected:
        shown.conclude()
    else:
        print_result(screen, result)
    screen.print(Text(f"its page: {relative(result.directory / PAGE)}", "dim"), soft_wrap=True)
    return result


class _Log(EventLog):
    """Prints what is to be run, and keeps the events."""

    def __init__(self, screen: Console) -> None:
        super().__init__()
        self._screen = screen

    def planned(self, plan: Plan) -> None:
        scenario = plan.loaded.scenario
        where = "in simulation" if plan.substrate == "sim" else f"on {plan.substrate}, on real Redis"
        self._screen.print(Text(scenario.title, "bold"))
        chosen = f"run {where} ({plan.why}), lock {scenario.lock.name}, seed {plan.seed}\n"
        self._screen.print(Text(chosen, "dim"))


class _Pause:
    """The pause between two parts: until Enter, for a while, or (without a terminal) none."""

    def __init__(self, screen: Console, *, auto: bool) -> None:
        self._screen = screen
        self._asks = not auto and sys.stdin.isatty() and screen.is_terminal
        self._rests = auto and screen.is_terminal

    def __call__(self) -> None:
        if self._asks:
            self._screen.input("[dim]Enter continues[/] ")
        elif self._rests:
            time.sleep(READING_S)
