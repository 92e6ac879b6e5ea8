"""Functions of the lab, called in a process of their own.

Simulated runs patch clocks and sockets, and real ones handle signals: neither is possible in a program that
has an event loop, threads or handlers of its own. The child (``python -m lab.api.child``) can import what its
caller can; arguments, results and errors are pickled.

It is no worker of ``lab.batch.executor``, which hands jobs of one function to processes that share them, and
gives a job that a dying worker had to the next. Here one caller talks with one child, whose functions differ,
whose clusters live between two calls (``lab.api.live``), and whose death is the answer.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from lab.errors import ExitCode, LabError, UnknownOutcome
from lab.substrates.interruption import Interrupted

__all__ = ["Child", "Interrupted", "answers", "environment_for"]

T = TypeVar("T")

ENDS_WITHIN_S: Final = 60.0
"""How long an interrupted child may take to tear down, in seconds."""


class Child:
    """A process that calls functions of the lab; end it with ``close``.

    Args:
        cwd: its working directory.
        environment: its environment.
        module: the module that it runs.
    """

    def __init__(self, cwd: Path, environment: Mapping[str, str], module: str = "lab.api.child") -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - until `close`
        self._busy = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            start_new_session=True,  # a Ctrl-C is passed on by `close`, once
        )

    def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of a module, and return what it returns.

        Raises:
            LabError: as the function does.
            UnknownOutcome: it failed otherwise, or the child has ended.
        """
        self._busy = True
        self.send(pickle.dumps((function, arguments)))
        try:
            returned: T = self.receive()
        except LabError:
            self._busy = False
            raise
        self._busy = False
        return returned

    def send(self, data: bytes) -> None:
        """Write to its input; if it has ended, ``receive`` raises that."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def receive(self) -> Any:
        """Its next answer; an error is raised. Raises ``UnknownOutcome`` if it has ended."""
        assert self.process.stdout is not None
        try:
            answer = pickle.load(self.process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise UnknownOutcome(f"the lab has ended without a result: {self._last_output()}") from None
        if isinstance(answer, LabError):
            raise answer
        return answer

    def close(self) -> None:
        """End it; it tears down what it has started, and is killed only if it takes too long."""
        process = self.process
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        if self._busy and process.poll() is None:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
        self._stderr.close()

    def _last_output(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()
        return "; ".join(lines[-3:]) or f"exit code {self.process.returncode}"


def environment_for(lock: object = None) -> dict[str, str]:
    """The environment in which a child imports what this process can import, and the lock's module."""
    path = [str(Path(entry or ".").resolve()) for entry in sys.path]
    if isinstance(lock, type):
        file = getattr(sys.modules.get(lock.__module__), "__file__", None)
        depth = lock.__module__.count(".")
        path += [str(Path(file).resolve().parents[depth])] if file else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}


def answers() -> Callable[[object], None]:
    """A function that sends answers to stdout; other output goes to stderr from now on."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def answer(content: object) -> None:
        pickle.dump(content, out)
        out.flush()

    return answer


def main() -> int:
    """Call each function that is sent, one after the other, until the end of the input."""
    # Its caller ends it by SIGINT, which a shell lets its background jobs ignore, and all that they start.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    answer = answers()
    try:
        while True:
            answer(_called(*pickle.load(sys.stdin.buffer)))
    except (EOFError, BrokenPipeError):  # the caller has ended
        return ExitCode.EXPECTED
    except (Interrupted, KeyboardInterrupt):
        return ExitCode.INTERRUPTED


def _called(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    try:
        return function(*arguments)
    except Interrupted:
        raise
    except LabError as error:
        return error
    except Exception as error:  # noqa: BLE001 - a defect must not look like a verdict
        traceback.print_exc()
        what = f"{type(error).__name__}: {error}"
        return UnknownOutcome(f"the lab itself failed: {what}", hint="`lab down` ends what may be left")


if __name__ == "__main__":
    sys.exit(main())
