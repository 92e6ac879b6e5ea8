"""A worker of a campaign: ``python -m lab.search.worker``, a process that runs seeds until its input ends.

It is a process of its own because a simulation changes clocks and entropy of the whole process, and because a
seed may end the process it runs in. Line by line: a task comes in, ``{"ready":true}`` goes out; then lists of
seeds come in, and one result goes out for each seed, in their order, as soon as it is there.
"""

from __future__ import annotations

import base64
import gc
import os
import pickle
import queue
import sys
import threading
from typing import TYPE_CHECKING, Final

import msgspec

from lab.search.tally import SeedResult
from lab.substrates.execute import Interrupted

if TYPE_CHECKING:
    from lab.search.campaign import Task

COLLECT_EVERY: Final = 64
"""Seeds between two collections of garbage where the task's session has switched the collector off."""


class Order(msgspec.Struct, frozen=True):
    """The first line that a worker reads: a pickled task, and where it is to be imported from."""

    task: str
    path: list[str]


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first line that a worker writes: whether it can run the task."""

    ready: bool = False
    cannot: str = ""


def main() -> None:
    """Serve until the input ends; then, or when nobody reads any more, end at once, whatever runs."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what the code under test prints must not be taken for an answer
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    try:
        task = _task(lines.get())
    except Exception as error:  # noqa: BLE001 - whatever importing somebody's task may raise
        _tell(answers, msgspec.json.encode(Answer(cannot=describe(error))))
        return
    with task.session():
        _tell(answers, msgspec.json.encode(Answer(ready=True)))
        done = 0
        while True:
            for seed in msgspec.json.decode(lines.get(), type=list[int]):
                _tell(answers, msgspec.json.encode(run_seed(task, seed)))
                done += 1
                if done % COLLECT_EVERY == 0 and not gc.isenabled():
                    gc.collect()


def _read(lines: queue.SimpleQueue[bytes]) -> None:
    """Pass on what comes in. The end of the input means that nobody wants an answer any more."""
    with open(0, "rb", closefd=False) as source:
        for line in source:
            lines.put(line)
    os._exit(0)


def _tell(answers: int, line: bytes) -> None:
    rest = line + b"\n"
    while rest:
        rest = rest[os.write(answers, rest) :]


def _task(line: bytes) -> Task:
    order = msgspec.json.decode(line, type=Order)
    sys.path[:] = [*dict.fromkeys([*order.path, *sys.path])]
    task: Task = pickle.loads(base64.b64decode(order.task))
    return task


def run_seed(task: Task, seed: int) -> SeedResult:
    """Run one seed; what it raises is its result."""
    try:
        return task(seed)
    except Interrupted:
        raise  # somebody ends this process: the seed has no result
    except Exception as error:  # noqa: BLE001 - a seed that fails must not cost the others
        return SeedResult(seed, 3, reasons=(describe(error),))


def describe(error: BaseException) -> str:
    """An error in one line, with its class and, if it has one, the place in it."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


if __name__ == "__main__":
    main()
