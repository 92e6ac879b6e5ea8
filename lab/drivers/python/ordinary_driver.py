"""An ordinary lock that blocks: ``python -m lab.drivers.python.ordinary_driver NAME SETTINGS PATH``.

What belongs to one lease runs in one thread, as it does in a program: locks keep things for each thread.
"""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from lab.client_protocol import Mode
from lab.drivers import ordinary
from lab.drivers.messages import ONE_OBJECT
from lab.drivers.python.wire import Grant, Refused, serve
from lab.drivers.shapes import Settings, Shape, shape_of


@dataclass(eq=False)
class Lease:
    """A lease, and the thread that it belongs to until it is ``over``."""

    held: ordinary.Held
    thread: Thread
    over: bool = False


class Thread:
    """A thread that does one thing after the other."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def do(self, work: Callable[[], Any]) -> Any:
        """What ``work`` returns or raises there."""
        done, result, error = threading.Event(), list[Any](), list[BaseException]()

        def run() -> None:
            try:
                result.append(work())
            except BaseException as raised:
                error.append(raised)
            done.set()

        self._work.put(run)
        done.wait()
        if error:
            raise error[0]
        return result[0]

    def _run(self) -> None:
        while True:
            self._work.get()()


class Ordinary:
    """The lock as a driver; ``alone``: this process has nothing else to do."""

    ttl_step_ms = 1

    def __init__(self, shape: Shape, *, alone: bool = False) -> None:
        self._shape, self._alone = shape, alone
        self.distribution = shape.lock.partition(":")[0].partition(".")[0]
        one_object = (ONE_OBJECT,) if shape.serves_again else ()
        self.options = (*shape.options, *ordinary.OPTIONS_OF_CLIENTS, *one_object)
        self.node_key, self.permits = shape.node_key, shape.permits
        said = {
            "extend": shape.extend is not None,
            "fence": bool(shape.fence),
            "held": bool(shape.owned),
            "renews": shape.renews,
            "read-write": shape.read_write,
        }
        self.caps = ("tasks", *(name for name, is_so in said.items() if is_so))
        if shape.lasts_ns:
            self.ttl_step_ms = shape.lasts_ns // 1_000_000
        elif shape.in_seconds:
            self.ttl_step_ms = 1000
        self._idle: list[Thread] = []
        self._only: Thread | None = None
        """The one thread in which an object is used again."""
        self.client_name = self.service = ""
        self.sentinels: list[tuple[str, int]] = []

    def open(self, nodes: list[tuple[str, int]], options: dict[str, Any]) -> None:
        self._session = ordinary.Session(
            self._shape, nodes, options, self.client_name, self.sentinels, self.service
        )
        self._only = Thread() if options.get(ONE_OBJECT) else None
        if self._alone:
            ordinary.belongs_to(self._session)

    def acquire(self, key: str, ttl_ms: int, mode: Mode = "write") -> Grant:
        thread = self._only or (self._idle.pop() if self._idle else Thread())
        try:
            asked = lambda: ordinary.now(self._session.acquire(key, ttl_ms, mode))  # noqa: E731
            held = _said(lambda: thread.do(asked))
        except BaseException:
            self._idle.append(thread)
            raise
        return Grant(Lease(held, thread), token=held.token or None, fence=held.fence)

    def extend(self, lease: Lease, ttl_ms: int) -> None:
        _said(lambda: lease.thread.do(lambda: ordinary.now(self._session.extend(lease.held, ttl_ms))))

    def release(self, lease: Lease) -> None:
        try:
            _said(lambda: lease.thread.do(lambda: ordinary.now(self._session.release(lease.held))))
        finally:
            if not lease.over:  # else it is released again, and its thread may have another lease
                self._idle.append(lease.thread)
            lease.over = True

    def held(self, lease: Lease) -> tuple[bool, None]:
        return _said(lambda: lease.thread.do(lambda: ordinary.now(self._session.owned(lease.held)))), None

    def close(self) -> None:
        ordinary.now(self._session.close())


def _said(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except ordinary.Refused as no:
        raise Refused(str(no)) from no


def main(name: str, settings: str, path: str) -> None:
    """Serve the lock of this name."""
    sys.path[:] = dict.fromkeys([*path.split(":"), *sys.path])
    shape = shape_of(name, msgspec.json.decode(settings, type=Settings))
    if shape is None:
        raise SystemExit(f"{name}: there is no such lock")
    serve(Ordinary(shape, alone=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
