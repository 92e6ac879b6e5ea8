"""The model of Redis Sentinel against real ones: the same answers, and a failover with the same events."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lab import tools
from lab.redis_model.sentinel import SentinelModel, SentinelSettings
from lab.servers import server_of
from lab.substrates.real.ports import free_ports
from tests.lab_process import Lab
from tests.sentinels import until_switch
from tests.sim.redis_arms import START_NS, RealWire, Replies, Shown, ask, fields, until
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.full

NOWHERE: Final = ("127.0.0.1", 1)
"""Where nobody listens: neither Sentinel ever reaches its master."""
VOTE: Final = ("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", *map(str, NOWHERE))
HELLO: Final = "127.0.0.9,26379,bert,7,mymaster,127.0.0.1,1,0"
ASKED: Final = (
    ("PING",),
    ("GET", "x"),
    ("SET", "x", "1"),
    ("EVAL", "return 1", "0"),
    ("ROLE",),
    ("PUBLISH", "news", "x"),
    ("SENTINEL",),
    ("SENTINEL", "MASTER"),
    ("SENTINEL", "MASTER", "other"),
    ("SENTINEL", "REPLICAS", "other"),
    ("SENTINEL", "SENTINELS", "other"),
    ("SENTINEL", "FAILOVER", "other"),
    ("SENTINEL", "FAILOVER", "mymaster"),
    ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster"),
    ("SENTINEL", "get-master-addr-by-name", "other"),
    ("SENTINEL", "REPLICAS", "mymaster"),
    ("SENTINEL", "SLAVES", "mymaster"),
    ("SENTINEL", "SENTINELS", "mymaster"),
    (*VOTE, "0", "*"),
    (*VOTE, "5", "anna"),
    (*VOTE, "5", "bert"),
    (*VOTE, "6", "bert"),
    (*VOTE, "4", "carl"),
    ("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", "127.0.0.2", "1", "9", "carl"),
    ("PUBLISH", "__sentinel__:hello", HELLO),
    ("PUBLISH", "__sentinel__:hello", "nonsense"),
    ("SENTINEL", "CKQUORUM", "mymaster"),
    ("SUBSCRIBE", "+switch-master"),
)


class RealSentinel:
    """A redis-server in Sentinel mode."""

    def __init__(self, directory: Path) -> None:
        (self.port,) = free_ports(1)
        file = directory / "sentinel.conf"
        file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {directory}\n"
            f"sentinel monitor mymaster {NOWHERE[0]} {NOWHERE[1]} 2\n"
            "sentinel down-after-milliseconds mymaster 600000\n"
            "sentinel failover-timeout mymaster 4000\n"
        )
        with (directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [tools.require("redis-server"), str(file), "--sentinel"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(ask(RealWire(self.port), "PING") == "+PONG")
        return False

    def stop(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class ModelWire:
    """A connection to a model whose connections lead nowhere."""

    def __init__(self, model: SentinelModel) -> None:
        self._replies = Replies()
        self._session = model.connect(self._push)

    def _push(self, data: bytes) -> None:
        self._replies.data += data

    def write(self, data: bytes) -> None:
        self._session.feed(data)

    def read(self) -> Shown:
        found, reply = self._replies.next()
        return reply if found else "nothing"


@pytest.fixture
def wires(tmp_path: Path) -> Iterator[tuple[RealWire, ModelWire]]:
    real = RealSentinel(tmp_path)
    try:
        until(real.is_ready, "the Sentinel answers")
        wire = RealWire(real.port)
        model = SentinelModel(
            "S1",
            SentinelSettings("127.0.0.1", real.port, "mymaster", NOWHERE, 2, 600_000, 4_000),
            wall_ns=lambda: START_NS,
            monotonic_ns=lambda: 0,
            random=random.Random(1),
            connect=lambda *_: None,
            server=server_of(fields(ask(wire, "INFO", "server"))),
        )
        yield wire, ModelWire(model)
        wire.close()
    finally:
        real.stop()


def comparable(reply: Shown) -> Any:
    """Of rows about servers the names, since the values are times and identities."""
    if isinstance(reply, list) and reply and isinstance(reply[0], list) and "$runid" in reply[0]:
        return [[row[0:6], row[8:10], row[0::2]] for row in reply]
    return reply


def test_a_model_and_a_real_sentinel_give_the_same_answers(wires: tuple[RealWire, ModelWire]) -> None:
    real, model = wires
    different = {}
    for words in ASKED:
        one, other = comparable(ask(real, *words)), comparable(ask(model, *words))
        if one != other:
            different[" ".join(words)] = (one, other)
    assert different == {}


def test_both_tell_the_same_of_themselves(wires: tuple[RealWire, ModelWire]) -> None:
    real, model = (fields(ask(wire, "INFO", "sentinel")) for wire in wires)
    assert set(model) <= set(real)
    assert model["sentinel_masters"] == real["sentinel_masters"]
    names = [part.split("=")[0] for part in real["master0"].split(",")]
    assert [part.split("=")[0] for part in model["master0"].split(",")] == names
    for words in (("SENTINEL", "MASTER", "mymaster"), ("HELLO", "2")):
        one, other = (ask(wire, *words)[0::2] for wire in wires)
        assert one == other


@pytest.mark.timeout(300)
@pytest.mark.parametrize("scenario", ["sentinel-failover-control", "sentinel-wait-control"])
def test_a_failover_has_the_same_events_in_the_same_order(lab: Lab, scenario: str, tmp_path: Path) -> None:
    """What no chance decides is equal: the leader's way through a failover, and what the others take over."""
    real = lab("run", scenario, "--on", "local")
    assert real.code == 0, real.out + real.err
    simulated = run_in_simulation(scenario, 1, tmp_path)
    assert until_switch(real.events) == until_switch(simulated.events)
