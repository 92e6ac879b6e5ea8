"""Tasks for the tests of campaigns, in a module that workers can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.batch.row import Row

GIVE_UP_S = 120.0


@dataclass(frozen=True)
class Plain:
    """Finds something in every tenth seed, prints where results are expected, and counts its sessions."""

    name: str = "plain"

    @contextmanager
    def session(self) -> Iterator[None]:
        os.environ["CAMPAIGN_SESSION"] = "open"
        yield

    def __call__(self, seed: int) -> Row:
        assert os.environ["CAMPAIGN_SESSION"] == "open"
        print('{"seed": 0, "digest": "no answer"}')  # noqa: T201
        return self.result(seed)

    def result(self, seed: int) -> Row:
        bad = seed % 10 == 3
        return Row(
            seed,
            exit_code=int(bad),
            outcomes={"mutual_exclusion": "violated" if bad else "ok"},
            findings=("overlap",) if bad else (),
            reasons=("mutual_exclusion: violated, not ok",) if bad else (),
            digest=f"digest-{seed}",
        )

    def identity(self) -> dict[str, Any]:
        return {"plain": self.name}

    def repeat(self, seed: int) -> str:
        return f"lab run plain --seed {seed}"


@dataclass(frozen=True)
class Fragile(Plain):
    """Some seeds end the process they run in: once, or whenever they are tried; one raises."""

    marks: str = ""
    once: tuple[int, ...] = ()
    always: tuple[int, ...] = ()
    raises: tuple[int, ...] = ()

    def __call__(self, seed: int) -> Row:
        tries = Path(self.marks, f"{seed}-{os.getpid()}")
        tries.touch()
        if seed in self.raises:
            raise RuntimeError("out of order")
        if seed in self.always or (seed in self.once and len(list(Path(self.marks).glob(f"{seed}-*"))) == 1):
            print("about to die", file=sys.stderr, flush=True)  # noqa: T201
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(seed)


@dataclass(frozen=True)
class Gated(Plain):
    """Says which process it is, then waits at a gate, a file."""

    marks: str = ""

    def __call__(self, seed: int) -> Row:
        Path(self.marks, f"by-{os.getpid()}-{seed}").touch()
        gate, give_up = Path(self.marks, "gate"), time.monotonic() + GIVE_UP_S
        while not gate.exists():
            if time.monotonic() > give_up:
                raise TimeoutError("nobody opened the gate")
            time.sleep(0.01)
        return super().__call__(seed)
