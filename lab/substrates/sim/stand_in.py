"""Stand-ins for clocks and entropy: inside a simulation they are the current host's, elsewhere the real ones.

Each stand-in asks whose code is running. So one that somebody captured while a simulation ran does no harm
afterwards.
"""

from __future__ import annotations

import datetime
import os
import random
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from lab.substrates.sim.clock import S_NS
from lab.substrates.sim.dates import Datetime
from lab.substrates.sim.host import Host, forbidden, running_host


def _clock(real: Callable[[], Any], simulated: Callable[[Host], Any]) -> Callable[[], Any]:
    def shown() -> Any:
        host = running_host()
        return real() if host is None else simulated(host)

    return shown


def _refusal(real: Callable[..., Any], what: str) -> Callable[..., Any]:
    def refuse(*arguments: Any, **options: Any) -> Any:
        host = running_host()
        if host is not None:
            raise forbidden(host, what)
        return real(*arguments, **options)

    return refuse


def _urandom(real: Callable[[int], bytes]) -> Callable[[int], bytes]:
    def urandom(size: int, /) -> bytes:
        host = running_host()
        return real(size) if host is None else host.random.randbytes(size)

    return urandom


def _now_if_none(real: Callable[..., Any], position: int) -> Callable[..., Any]:
    """``time.localtime`` and its like ask the real clock unless they are given a time."""

    def by_own_clock(*arguments: Any) -> Any:
        host = running_host()
        if host is None or len(arguments) > position:
            return real(*arguments)
        now_s = host.clock.wall_ns() / S_NS
        return real(*arguments, time.localtime(now_s) if real.__name__ in ("strftime", "asctime") else now_s)

    return by_own_clock


def _drawn(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def draw(*arguments: Any, **options: Any) -> Any:
        host = running_host()
        return (real if host is None else getattr(host.random, name))(*arguments, **options)

    return draw


def _seed(real: Callable[..., None]) -> Callable[..., None]:
    def seed(self: Random, a: Any = None, version: int = 2) -> None:
        host = running_host()
        if a is None and host is not None:
            a = host.random.getrandbits(256)
        real(self, a, version)

    return seed


def _uuid1(real: Callable[..., uuid.UUID]) -> Callable[..., uuid.UUID]:
    def uuid1(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        host = running_host()
        if host is None:
            return real(node, clock_seq)
        drawn = host.random
        since_1582 = host.clock.wall_ns() // 100 + 0x01B21DD213814000
        sequence = drawn.getrandbits(14) if clock_seq is None else clock_seq
        fields = (
            since_1582 & 0xFFFFFFFF,
            since_1582 >> 32 & 0xFFFF,
            since_1582 >> 48 & 0x0FFF,
            sequence >> 8 & 0x3F,
            sequence & 0xFF,
            drawn.getrandbits(48) | 1 << 40 if node is None else node,
        )
        return uuid.UUID(fields=fields, version=1)

    return uuid1


@dataclass(frozen=True, slots=True)
class StandIn:
    """What stands in for the function called ``name`` of a module or class."""

    place: Any
    name: str
    function: Callable[..., Any]


CPU_CLOCKS: Final = tuple(
    f"{clock}{unit}" for clock in ("clock_gettime", "process_time", "thread_time") for unit in ("", "_ns")
)
DRAWS: Final = (
    "betavariate",
    "choice",
    "choices",
    "expovariate",
    "gammavariate",
    "gauss",
    "getrandbits",
    "lognormvariate",
    "normalvariate",
    "paretovariate",
    "randbytes",
    "randint",
    "random",
    "randrange",
    "sample",
    "shuffle",
    "triangular",
    "uniform",
    "vonmisesvariate",
    "weibullvariate",
)


def captured() -> list[StandIn]:
    """What is often captured at import, and so replaced wherever somebody holds it."""

    def clock(name: str, simulated: Callable[[Host], Any]) -> StandIn:
        return StandIn(time, name, _clock(getattr(time, name), simulated))

    def monotonic_s(host: Host) -> float:
        return host.clock.monotonic_ns() / S_NS

    def monotonic_ns(host: Host) -> int:
        return host.clock.monotonic_ns()

    return [
        clock("time", lambda host: host.clock.wall_ns() / S_NS),
        clock("time_ns", lambda host: host.clock.wall_ns()),
        clock("monotonic", monotonic_s),
        clock("monotonic_ns", monotonic_ns),
        clock("perf_counter", monotonic_s),
        clock("perf_counter_ns", monotonic_ns),
        StandIn(time, "sleep", _refusal(time.sleep, "blocks in time.sleep")),
        StandIn(os, "urandom", _urandom(os.urandom)),
        StandIn(uuid, "uuid1", _uuid1(uuid.uuid1)),
    ]


def named() -> list[StandIn]:
    """What is replaced where it is defined, and in modules that imported it by its name."""
    refused: list[tuple[Any, str, str]] = [
        (threading.Thread, "start", "starts a thread"),
        (subprocess.Popen, "__init__", "starts a process"),
    ]
    refused += [(time, name, f"asks a real clock with time.{name}") for name in CPU_CLOCKS]
    return [
        StandIn(Random, "seed", _seed(Random.seed)),
        *(StandIn(place, name, _refusal(getattr(place, name), what)) for place, name, what in refused),
        *(
            StandIn(time, name, _now_if_none(getattr(time, name), int(name == "strftime")))
            for name in ("localtime", "gmtime", "ctime", "asctime", "strftime")
        ),
        *(StandIn(random, name, _drawn(name, getattr(random, name))) for name in DRAWS),
        StandIn(datetime, "datetime", Datetime),
    ]
