"""A story that is run, and then told scene by scene at the pace of those who watch.

The run is over before its first scene is shown: leases run out in real time, and would not wait until
somebody has read a sentence and pressed Enter.
"""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.text import Text

from lab.api.runs import run
from lab.report.demo.scenes import Narration, scenes_of
from lab.report.demo.show import Show
from lab.report.demo.texts import words_for
from lab.report.page import PAGE
from lab.report.terminal import print_result, relative
from lab.run.request import Plan, RunRequest
from lab.run.result import RunResult
from lab.substrates import is_simulated

READING_S = 4.0
"""How long each scene stands on a terminal where it goes on by itself."""


def show_run(request: RunRequest, screen: Console, talk: Console, *, auto: bool) -> RunResult:
    """Run a story and show it: at each Enter the next scene, or by itself with ``auto``.

    Raises:
        LabError: no such scenario, or the run is not possible.
        Interrupted: a signal ended it; everything was torn down.
    """
    story = _Story(screen)
    with talk.status("the story is being run …"):
        result = run(request, story, picture="unexpected").result
    shown = Show(screen, result, _Pause(screen, auto=auto))
    scenario = result.loaded.scenario
    shown.play(scenes_of(scenario, story.lines), words_for(result.name, scenario))
    if result.as_expected:
        shown.conclude()
    else:
        print_result(screen, result)
    screen.print(Text(f"its page: {relative(result.directory / PAGE)}", "dim"), soft_wrap=True)
    return result


class _Story(Narration):
    """Says what is to be run, and keeps what is told of it."""

    def __init__(self, screen: Console) -> None:
        super().__init__()
        self._screen = screen

    def planned(self, plan: Plan) -> None:
        story = plan.loaded.scenario
        where = "in simulation" if is_simulated(plan.substrate) else f"on {plan.substrate}, on real Redis"
        self._screen.print(Text(story.title, "bold"))
        chosen = f"run {where} ({plan.why}), lock {story.lock.name}, seed {plan.seed}\n"
        self._screen.print(Text(chosen, "dim"))


class _Pause:
    """What happens between two scenes: wait for Enter, for a while, or (where nobody watches) not at all."""

    def __init__(self, screen: Console, *, auto: bool) -> None:
        self._screen = screen
        self._asks = not auto and sys.stdin.isatty() and screen.is_terminal
        self._rests = auto and screen.is_terminal

    def __call__(self) -> None:
        if self._asks:
            self._screen.input("[dim]Enter goes on[/] ")
        elif self._rests:
            time.sleep(READING_S)
