"""What the tests of several processes ask about trials, in a module that helpers import."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from lab.errors import LabError
from lab.examine.examination import Tried
from lab.search.trial import Trial
from lab.search.workers import Workers

KILLS, RAISES, LASTS = -7, -8, -9
"""Seeds of trials that kill the helper that has them, raise an error, or keep a helper busy for long."""
NOTHING = Tried({}, frozenset(), frozenset(), 0, 0)


def asked(trial: Trial) -> Tried:
    """Nothing is wrong, in no time; see the seeds. With the option ``once``, a file's name, one is killed."""
    helps = multiprocessing.parent_process() is not None
    once = Path(str(trial.options.get("once", "")))
    if trial.seed == KILLS and helps and not once.is_file():
        if trial.options:
            once.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if trial.seed == RAISES:
        raise LabError("of a test")
    if trial.seed == LASTS and helps:
        time.sleep(600)
    return NOTHING


@contextmanager
def refuses_elsewhere() -> Iterator[None]:
    """A context that no helper can open."""
    if multiprocessing.parent_process() is not None:
        raise RuntimeError("out of order")
    yield


def waits_for_ever() -> None:
    """Keep a helper busy, say its process id, and wait for it in vain."""
    with closing(Workers(asked, 2)) as workers:
        helped(workers)
        lasting = [Trial("redlock", {}, seed=LASTS)] * 2
        jobs = workers.at_once(lasting)
        sys.stdout.write(f"{workers.pids[0]}\n")
        sys.stdout.flush()
        for job in jobs:
            workers.result(job)


def helped(workers: Workers[Tried]) -> None:
    """Let trials be answered until a helper has answered one."""
    while not workers.helping:
        for job in workers.at_once([Trial("redlock", {}, seed=seed) for seed in range(8)]):
            workers.result(job)
        time.sleep(0.01)


if __name__ == "__main__":
    waits_for_ever()
