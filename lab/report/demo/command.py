"""``lab demo``: run a story, then tell it at the pace of those who watch.

The run is over before its first scene is shown: leases run out in real time, and would not wait until
somebody has read a sentence and pressed Enter.
"""

from __future__ import annotations

import secrets
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

from checker import load
from lab.errors import ExitCode
from lab.report.demo.scenes import Listener, scenes_of
from lab.report.demo.show import Show
from lab.report.demo.texts import words_for
from lab.report.page import PAGE
from lab.report.terminal import print_judgement, relative
from lab.run.execution import Run, RunOptions
from lab.scenario.load import load_scenario
from lab.substrates import choose, is_simulated
from lab.substrates.execute import Interrupted, execute_on

READING_S = 4.0
"""How long each scene stands on a terminal with `--auto`."""


def demo_command(name: str, on: str, seed: int | None, out: Path, *, auto: bool) -> int:
    """Run the story, and tell it: at each Enter the next scene, or by itself with ``auto``.

    Raises:
        LabError: no such scenario, or the run is not possible.
    """
    screen, talk = Console(emoji=False, highlight=False), Console(stderr=True, emoji=False, highlight=False)
    loaded = load_scenario(name)
    substrate, why = choose(on)
    drawn = secrets.randbelow(2**31) if seed is None else seed
    repeat = f"lab demo {name} --on {substrate} --seed {drawn}"
    screen.print(Text(loaded.scenario.title, "bold"))
    where = "in simulation" if is_simulated(substrate) else f"on {substrate}, on real Redis"
    lock = loaded.scenario.lock.name
    screen.print(Text(f"run {where} ({why}), lock {lock}, seed {drawn}\n", "dim"))
    listener = Listener()
    story = Run(loaded, RunOptions(drawn, out, repeat, substrate, "unexpected"), listener)
    try:
        with talk.status("the story is being run …"):
            work = story.prepare()
            result = story.conclude(execute_on(substrate, drawn, work))
        history = load(result.directory / "history.jsonl")
        verdict = result.judgement.verdict
        wait = _Pause(screen, auto=auto)
        show = Show(screen, history, verdict, loaded.scenario.title, wait)
        show.play(scenes_of(loaded.scenario, listener.lines), words_for(loaded.name, loaded.scenario))
    except (Interrupted, KeyboardInterrupt):
        talk.print("interrupted: everything was stopped")
        return ExitCode.INTERRUPTED
    if result.exit_code == ExitCode.EXPECTED:
        show.conclude(result.judgement)
    else:
        print_judgement(screen, loaded.name, result.judgement, result.aborted)
        talk.print(f"repeat: {repeat}", markup=False, soft_wrap=True)
    screen.print(Text(f"its page: {relative(result.directory / PAGE)}", "dim"), soft_wrap=True)
    return result.exit_code


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
