"""The model of Redis Sentinel: alone, and as a cluster in the simulation with its faults and receipts."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from lab.redis_model import RedisModel
from lab.redis_model.sentinel import SentinelModel, SentinelSettings
from lab.redis_model.watched import Conversation, Watched
from lab.scenario.files import sentinel_names
from lab.substrates.sim.node import SimNode
from lab.substrates.sim.sentinels import SimSentinel
from lab.substrates.sim.simulate import simulate
from tests.sentinels import FORCED, HEAD, WAITS_FOR_REPLICAS, faults, published, until_switch
from tests.sim.hosts import here
from tests.sim.redis_arms import START_NS
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

NODE_A, NODE_B, NODE_C = ("node-a", 6379), ("node-b", 6379), ("node-c", 6379)
IN_SHORT = ("sentinel-failover-control", "sentinel-min-replicas")
"""Those that are run in `make test`: the others take more time, and `make test-rest` has it."""


class Alone:
    """A Sentinel whose connections lead nowhere, and its clock."""

    def __init__(self, quorum: int = 2) -> None:
        self.now_ns = START_NS
        self.made: list[tuple[str, int, Conversation]] = []
        settings = SentinelSettings("sentinel-1", 26379, "mymaster", NODE_A, quorum, 1_000, 4_000)
        self.model = SentinelModel(
            "S1",
            settings,
            wall_ns=lambda: self.now_ns,
            monotonic_ns=lambda: self.now_ns,
            random=random.Random(1),
            connect=lambda host, port, conversation: self.made.append((host, port, conversation)),
        )
        self.heard: list[bytes] = []
        self.model.connect(self.heard.append).feed(b"PSUBSCRIBE *\r\n")

    def ask(self, *words: str | int) -> Any:
        return self.model.call(*words)

    def pass_ms(self, by_ms: int) -> None:
        """Let time pass, with the rounds that fall into it."""
        end_ns = self.now_ns + by_ms * 1_000_000
        while (due_ns := self.model.next_timer_ns()) is not None and due_ns <= end_ns:
            self.now_ns = max(self.now_ns, due_ns)
            self.model.tick()
        self.now_ns = end_ns

    @property
    def events(self) -> bytes:
        return b"".join(self.heard)

    def votes(self, epoch: int, candidate: str, master: tuple[str, int] = NODE_A) -> Any:
        return self.ask("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", *master, epoch, candidate)


def test_it_votes_once_in_an_epoch() -> None:
    alone = Alone()
    assert alone.votes(0, "*") == [0, b"*", 0], "it is only asked whether the master is down"
    assert alone.votes(1, "anna") == [0, b"anna", 1]
    assert alone.votes(1, "bert") == [0, b"anna", 1], "its vote in this epoch is given"
    assert alone.votes(2, "bert") == [0, b"bert", 2]
    assert alone.votes(1, "carl") == [0, b"bert", 2], "an earlier epoch is over"
    assert alone.votes(3, "carl", NODE_B) == [0, b"*", 0], "it does not watch that master"


def test_a_vote_outlives_a_restart_as_its_file_does() -> None:
    alone = Alone()
    alone.votes(1, "anna")
    alone.model.take_hello("sentinel-2,26379,bert,1,mymaster,node-b,6379,1")
    again = Alone()
    again.model = SentinelModel(
        "S1",
        alone.model.settings,
        wall_ns=lambda: again.now_ns,
        monotonic_ns=lambda: again.now_ns,
        random=random.Random(2),
        connect=lambda *_: None,
        remembered=alone.model.remembered(),
    )
    assert again.ask("SENTINEL", "MYID") == alone.ask("SENTINEL", "MYID")
    assert again.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster") == [b"node-b", b"6379"]
    assert again.votes(1, "carl", NODE_B)[1] != b"carl", "it voted in this epoch before it ended"
    assert list(again.model.replicas) == [NODE_A]
    assert list(again.model.sentinels) == ["bert"]


@pytest.mark.parametrize(
    ("quorum", "sentinels", "votes", "elected"),
    [
        (1, 3, 1, False),  # of three Sentinels two have to vote for it
        (1, 3, 2, True),
        (2, 5, 2, False),
        (2, 5, 3, True),
        (4, 5, 3, False),  # a majority, but fewer than the quorum
        (4, 5, 4, True),
    ],
)
def test_a_leader_has_a_majority_and_the_quorum(
    quorum: int, sentinels: int, votes: int, elected: bool
) -> None:
    alone = Alone(quorum)
    model = alone.model
    model._start()
    for number in range(1, sentinels):
        model.take_hello(f"sentinel-{number + 1},26379,other-{number},1,mymaster,node-a,6379,0")
        other = model.sentinels[f"other-{number}"]
        other.leader, other.leader_epoch = model.identity if number < votes else other.run_id, 1
    assert (model._leader() == model.identity) is elected


def replica(alone: Alone, address: tuple[str, int], **about: Any) -> Watched:
    """A replica that answers and has told of itself."""
    now_ms = alone.model.now_ms
    made = alone.model.replicas[address] = Watched("slave", *address, now_ms, run_id=address[0])
    made.links.is_whole, made.info_ms = True, now_ms
    for name, value in about.items():
        setattr(made, name, value)
    return made


def test_it_promotes_the_replica_that_has_come_furthest() -> None:
    alone = Alone()
    replica(alone, NODE_B, offset=100)
    further = replica(alone, NODE_C, offset=101)
    assert alone.model._best_replica() is further
    further.priority = 200
    assert alone.model._best_replica() is alone.model.replicas[NODE_B], "a lower priority number comes first"
    alone.model.replicas[NODE_B].priority = 0
    assert alone.model._best_replica() is further, "0: never"
    further.link_down_ms = 10_001
    assert alone.model._best_replica() is None, "it has not heard the master for too long"
    with pytest.raises(Exception, match="NOGOODSLAVE"):
        alone.model.force()


def test_of_two_that_have_come_as_far_the_run_id_decides() -> None:
    alone = Alone()
    for address in (NODE_C, NODE_B):
        replica(alone, address, offset=100)
    best = alone.model._best_replica()
    assert best is alone.model.replicas[NODE_B]


def test_a_server_that_cannot_be_reached_is_down_after_the_time_and_not_before() -> None:
    alone = Alone()
    alone.pass_ms(900)
    assert b"+sdown" not in alone.events
    alone.pass_ms(250)
    assert alone.events.count(b"+sdown") == 1
    assert b"master mymaster node-a 6379" in alone.events
    assert b"+odown" not in alone.events, "alone it makes no quorum of two"
    assert b"+try-failover" not in alone.events


def test_after_a_stall_it_only_watches_for_thirty_seconds() -> None:
    alone = Alone(quorum=1)
    alone.pass_ms(200)
    alone.now_ns += 2_500_000_000  # a pause: no round took place
    alone.pass_ms(29_000)
    assert b"+tilt" in alone.events
    assert b"+sdown" not in alone.events
    assert alone.votes(0, "*")[0] == 0
    alone.pass_ms(2_000)
    assert alone.events.index(b"-tilt") < alone.events.index(b"+sdown")


def test_a_later_configuration_is_taken_over_and_an_earlier_one_is_not() -> None:
    alone = Alone()
    alone.model.take_hello("sentinel-2,26379,bert,3,mymaster,node-b,6379,3")
    assert alone.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster") == [b"node-b", b"6379"]
    alone.model.take_hello("sentinel-3,26379,carl,2,mymaster,node-c,6379,2")
    assert alone.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "mymaster") == [b"node-b", b"6379"]
    alone.model.take_hello("sentinel-3,26379,carl,9,other,node-c,6379,9")
    assert alone.model.epoch == 3, "another service is none of its business"


def test_what_a_sentinel_lacks_is_no_gap_of_the_model() -> None:
    alone, missed = Alone(), list[object]()
    alone.model.on_missing = missed.append
    assert str(alone.ask("GET", "x")).startswith("ERR unknown command 'GET'")
    assert missed == []
    alone.ask("SENTINEL", "RESET", "*")
    assert len(missed) == 1, "real ones have it"


def test_a_node_ends_the_connections_of_a_type_and_keeps_the_one_that_asks() -> None:
    model = RedisModel(
        "A", wall_ns=lambda: START_NS, monotonic_ns=lambda: 0, persistence="none", random=random.Random(1)
    )
    ended: list[str] = []
    sessions = {
        name: model.connect(lambda _: None, peer=name, closed=lambda name=name: ended.append(name))  # type: ignore[misc]
        for name in ("asks", "normal", "monitor", "listens", "by number")
    }
    number = sessions["by number"].number
    sessions["asks"].feed(b"CLIENT KILL ID %d\r\n" % number)
    assert ended == ["by number"]
    ended.clear()
    sessions["monitor"].feed(b"MONITOR\r\n")
    sessions["listens"].feed(b"SUBSCRIBE news\r\n")
    sessions["asks"].feed(b"CLIENT KILL TYPE normal\r\n")
    assert sorted(ended) == ["monitor", "normal"]
    sessions["asks"].feed(b"CLIENT KILL TYPE pubsub\r\n")
    assert ended[-1] == "listens"
    assert sessions["asks"].is_open


def test_only_a_node_with_a_file_rewrites_it() -> None:
    model = RedisModel(
        "A", wall_ns=lambda: START_NS, monotonic_ns=lambda: 0, persistence="none", random=random.Random(1)
    )
    assert str(model.call("CONFIG", "REWRITE")) == "ERR The server is running without a config file"


async def _follows_while_paused() -> list[bool]:
    numbers = iter(range(1, 9))
    a, b = (SimNode(name, here().network, lambda: next(numbers), "none") for name in "AB")
    await asyncio.gather(a.start(), b.start())
    await b.replicate(a.address)
    await b.pause()
    await a.ask("SET", "k", "v")
    await asyncio.sleep(0.1)
    while_paused = b"k" in b.model.keys.data
    await b.resume()
    await asyncio.sleep(0.1)
    return [while_paused, b"k" in b.model.keys.data]


def test_a_replica_that_stands_still_does_not_follow() -> None:
    assert simulate(_follows_while_paused, 1) == [False, True]


async def _restarted() -> list[Any]:
    settings = SentinelSettings("sentinel-1", 26379, "mymaster", NODE_A, 2, 1_000, 4_000)
    sentinel = SimSentinel("S1", here().network, partial(next, count(100)), settings)
    await sentinel.start()
    vote = ("SENTINEL", "IS-MASTER-DOWN-BY-ADDR", *NODE_A)
    identity, first = await sentinel.ask("SENTINEL", "MYID"), await sentinel.ask(*vote, 1, "anna")
    await sentinel.kill()
    await sentinel.start()
    return [identity, first, await sentinel.ask("SENTINEL", "MYID"), await sentinel.ask(*vote, 1, "bert")]


def test_a_sentinel_that_was_killed_remembers_who_it_is_and_that_it_has_voted() -> None:
    identity, first, again, second = simulate(_restarted, 1)
    assert identity == again
    assert first == [0, b"anna", 1]
    assert second[1:] == [b"*", 1], "its vote of this epoch is given; for whom it does not know any more"


# In the simulation.


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "scenario",
    [name if name in IN_SHORT else pytest.param(name, marks=pytest.mark.full) for name in sentinel_names()],
)
def test_it_comes_out_as_its_file_says(scenario: str, tmp_path: Path) -> None:
    run = run_in_simulation(scenario, 1, tmp_path)
    assert run.mismatches == ()
    assert run.unknown == ()
    by_type = [event["type"] for event in run.events if event["process"] == "nemesis"]
    assert by_type.count("invoke") == by_type.count("ok") > 0, "every fault has a receipt"


def test_a_failover_has_a_receipt_and_its_events(tmp_path: Path) -> None:
    events = run_in_simulation("sentinel-failover", 4, tmp_path).events
    (failover,) = faults(events, "failover")
    receipt = failover["receipt"]
    assert (receipt["old_master"], receipt["new_master"], receipt["epoch"]) == ("A", "B", 1)
    assert (receipt["role_of_old"], receipt["role_of_new"]) == ("no answer", "master")
    assert receipt["gap_bytes"] > 0
    leader, others = until_switch(events)
    assert leader[-1] == "+switch-master"
    assert others == [["+new-epoch", "+vote-for-leader", "+config-update-from", "+switch-master"]] * 2
    assert len(published(events)) == 3


@pytest.mark.full
def test_faults_on_sentinels_have_receipts_and_a_forced_failover_is_one(tmp_path: Path) -> None:
    (tmp_path / "forced.yaml").write_text(HEAD + FORCED)
    run = run_in_simulation(str(tmp_path / "forced.yaml"), 1, tmp_path)
    assert (run.mismatches, run.unknown) == ((), ())
    events = run.events
    (failover,) = faults(events, "failover")
    assert failover["target"] == "Sentinel S1"
    assert failover["receipt"]["gap_bytes"] > 0
    parted = next(event for event in faults(events, "cut") if event["targets"] == ["B", "A"])
    ways = parted["receipt"]["A"]["ways"]
    assert {way: seen["probe_through_link"] for way, seen in ways.items()} == {
        "B→A": "no answer in 50 ms",
        "A→B": "no answer in 50 ms",
    }


@pytest.mark.full
def test_the_lock_waits_for_replicas_and_asks_the_sentinels_that_it_can_reach(tmp_path: Path) -> None:
    (tmp_path / "waits.yaml").write_text(WAITS_FOR_REPLICAS)
    run = run_in_simulation(str(tmp_path / "waits.yaml"), 1, tmp_path)
    assert (run.mismatches, run.unknown) == ((), ())
    assert any("no Sentinel that can be reached names a master" in line for line in run.lines)
