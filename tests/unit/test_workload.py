"""Workloads: their words, and the schedule that is drawn from a seed; nothing here is run."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.client.log import Recording
from lab.client.loop import MOST, Rounds
from lab.client_protocol import Answer, Loop, Outcome
from lab.durations import format_duration, parse_duration_ns
from lab.errors import LabError
from lab.faults.correct import Correct
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.heal import Heal
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.restart import Restart
from lab.faults.resume import Resume
from lab.run.workload import held_since_ns
from lab.scenario.draw import GAP_NS, HOLDER, LEAST_GAP, Drawn, schedule
from lab.scenario.load import load_text
from lab.scenario.model import Scenario
from tests.fuzzing import examples

MS = 1_000_000
S = 1000 * MS
HEAD: dict[str, Any] = {
    "title": "t",
    "source": "s",
    "why": "w",
    "clients": ["alice", "bob", "carol"],
    "expect": {"mutual_exclusion": "ok"},
}
EVERYTHING: list[dict[str, Any]] = [
    {"fault": "cut", "every": "2s", "lasts": "1s", "clients": "one", "nodes": "minority"},
    {"fault": "cut", "every": "3s", "lasts": ["200ms", "1.5s"], "clients": "holder", "nodes": "all"},
    {"fault": "hold", "every": "4s", "lasts": "500ms", "store": True, "direction": "requests"},
    {"fault": "delay", "every": "4s", "lasts": "500ms", "clients": "all", "by": ["10ms", "90ms"]},
    {"fault": "pause", "every": "1s", "lasts": ["100ms", "3s"]},
    {"fault": "jump", "every": "1s", "lasts": "2s", "nodes": "one", "by": ["-1s", "+15s"]},
    {"fault": "crash", "every": "5s", "lasts": "2s", "nodes": "minority"},
    {"fault": "strobe", "every": "9s", "lasts": "1s", "by": "+1s", "period": "50ms"},
    {"fault": "reset", "every": "3s", "clients": ["bob"], "nodes": ["A", "E"]},
    {"fault": "client_crash", "every": "30s"},
]


def load(**parts: Any) -> Scenario:
    text = yaml.safe_dump({**HEAD, "workload": {"duration": "60s"}, **parts})
    loaded = load_text(text, "s.yaml")
    assert load_text(loaded.text, "again.yaml").scenario == loaded.scenario
    return loaded.scenario


def error(**parts: Any) -> LabError:
    with pytest.raises(LabError) as caught:
        load(**parts)
    return caught.value


def test_one_seed_one_schedule() -> None:
    scenario = load(faults=EVERYTHING)
    drawn = schedule(scenario, 7)
    assert drawn == schedule(load(faults=EVERYTHING), 7)
    assert [fault.to_dict() for fault in drawn] != [fault.to_dict() for fault in schedule(scenario, 8)]
    assert {fault.plan.fault for fault in drawn} >= {"cut", "hold", "delay", "pause", "jump", "crash"}
    json.dumps([fault.to_dict() for fault in drawn])


def test_what_is_drawn_is_pinned() -> None:
    """A change of how things are drawn makes every stored seed worthless: it must be a decision."""
    scenario = load(faults=EVERYTHING[:1] + EVERYTHING[5:6], workload={"duration": "6s"})
    assert [(fault.at_ns // MS, fault.words) for fault in schedule(scenario, 7)] == PINNED


PINNED = [
    (534, "cut alice ⇎ A,D for 1s"),
    (1266, "jump D by +13133ms for 2s"),
    (2457, "jump A by +4.48s for 2s"),
    (3566, "jump D by +11679ms for 2s"),
    (4165, "jump C by +7027ms for 2s"),
    (4757, "jump A by +7867ms for 2s"),
]


def test_an_entry_more_leaves_the_others_alone() -> None:
    few = schedule(load(faults=EVERYTHING[4:5]), 3)
    more = schedule(load(faults=[EVERYTHING[4], EVERYTHING[0]]), 3)
    assert [f.words for f in few] == [f.words for f in more if f.plan.fault == "pause"]


@st.composite
def plans(draw: st.DrawFn) -> list[dict[str, Any]]:
    def span(least_ms: int, most_ms: int) -> list[str]:
        in_us = st.integers(least_ms * 1000, most_ms * 1000)
        ends = sorted(draw(st.lists(in_us, min_size=2, max_size=2)))
        return [format_duration(end * 1000) for end in ends]

    found = []
    for name in draw(
        st.lists(st.sampled_from(["cut", "pause", "jump", "crash", "hold"]), min_size=1, max_size=4)
    ):
        plan: dict[str, Any] = {"fault": name, "every": span(20, 5000)[0], "lasts": span(1, 4000)}
        if name in ("cut", "hold"):
            plan["clients"] = draw(st.sampled_from(["one", "all", "holder", ["bob"]]))
        if name != "pause":
            plan["nodes"] = draw(st.sampled_from(["one", "minority", "majority", "all", ["B", "D"]]))
        if name == "jump":
            plan["by"] = span(1, 20_000)
        found.append(plan)
    return found


@settings(deadline=None, max_examples=examples(60))
@given(plans(), st.integers(0, 2**31), st.integers(1, 7), st.integers(100, 60_000))
def test_every_draw_is_within_its_bounds(
    faults: list[dict[str, Any]], seed: int, nodes: int, duration_ms: int
) -> None:
    if nodes < 4 and any(isinstance(plan.get("nodes"), list) for plan in faults):
        nodes = 5
    workload = {"duration": format_duration(duration_ms * MS)}
    scenario = load(faults=faults, cluster={"nodes": nodes}, workload=workload)
    drawn = schedule(scenario, seed)
    assert list(drawn) == sorted(drawn, key=lambda fault: fault.at_ns)
    for fault in drawn:
        plan = fault.plan
        assert plan.every_ns is not None
        assert plan.every_ns * LEAST_GAP // MS * MS - MS <= fault.at_ns < duration_ms * MS
        assert plan.lasts_ns is not None
        assert fault.lasts_ns is not None
        assert plan.lasts_ns[0] <= fault.lasts_ns <= plan.lasts_ns[1]
        check_targets(fault, scenario)
        if plan.fault == "jump":
            least, most = (parse_duration_ns(end) for end in plan.others["by"])
            assert least <= parse_duration_ns(fault.others["by"]) <= most
        check_apart(fault, drawn)


def check_targets(fault: Drawn, scenario: Scenario) -> None:
    names = scenario.cluster.node_names
    majority = len(names) // 2 + 1
    assert set(fault.nodes) <= set(names)
    assert len(set(fault.nodes)) == len(fault.nodes)
    bounds = {
        "one": (1, 1),
        "minority": (1, max(1, len(names) - majority)),
        "majority": (majority, len(names)),
        "all": (len(names), len(names)),
    }
    if isinstance(fault.plan.nodes, str):
        least, most = bounds[fault.plan.nodes]
        assert least <= len(fault.nodes) <= most
    elif fault.plan.nodes:
        assert fault.nodes == fault.plan.nodes
    assert fault.wants_holder or set(fault.clients) <= set(scenario.clients)
    clients = ("alice",) if fault.wants_holder else fault.clients
    assert fault.begin(clients)
    assert fault.end(clients)


def check_apart(fault: Drawn, drawn: tuple[Drawn, ...]) -> None:
    """No two faults last on one part at the same time."""
    for other in drawn:
        if other is not fault and other.at_ns >= fault.at_ns and other.parts & fault.parts:
            assert other.at_ns >= fault.at_ns + (fault.lasts_ns or 0) + GAP_NS


def test_the_steps_of_a_drawn_fault() -> None:
    scenario = load(faults=EVERYTHING)
    shown = {}
    for fault in schedule(scenario, 7):
        clients = ("alice",) if fault.wants_holder else fault.clients
        for step in fault.begin(clients):
            named = getattr(step, "nodes", None) or (getattr(step, "node", None),)
            assert named in (fault.nodes, (None,))
        shown[fault.plan.fault] = fault.begin(clients), fault.end(clients)
    begin, end = shown["pause"]
    assert isinstance(begin[0], Pause)
    assert isinstance(end[0], Resume)
    assert begin[0].client == end[0].client
    begin, end = shown["cut"]
    assert isinstance(begin[0], Cut)
    assert isinstance(end[0], Heal)
    assert (begin[0].client, begin[0].nodes) == (end[0].client, end[0].nodes)
    begin, end = shown["jump"]
    assert isinstance(begin[0], Jump)
    assert isinstance(end[0], Correct)
    begin, end = shown["crash"]
    assert isinstance(begin[0], Crash)
    assert isinstance(end[0], Restart)
    assert begin[0].nodes == end[0].nodes
    assert len(shown["delay"][0]) == 3, "one step for each client"
    assert shown["reset"][1] == (), "nothing ends a reset"


def test_a_fault_during_another_comes_with_each_of_them() -> None:
    jump = {"fault": "jump", "during": "pause", "nodes": "majority", "by": ["+3s", "+9s"]}
    alone = schedule(load(faults=EVERYTHING[4:5]), 3)
    drawn = schedule(load(faults=[EVERYTHING[4], jump]), 3)
    assert [fault.at_ns for fault in drawn] == [fault.at_ns for fault in alone]
    assert all(isinstance(fault.every_step()[1], Jump) for fault in drawn)
    assert all(
        fault.words.startswith(f"{before.words}, meanwhile jump ")
        for fault, before in zip(drawn, alone, strict=True)
    )
    assert all(len(fault.followers[0].nodes) >= 3 for fault in drawn)
    assert len({fault.followers[0].words for fault in drawn}) > 1, "each is drawn anew"
    assert drawn[0].to_dict()["meanwhile"][0]["fault"] == "jump"


def test_no_client_is_paused_while_its_packets_are_kept() -> None:
    faults = [EVERYTHING[4], {"fault": "hold", "every": "1s", "lasts": "1s", "nodes": "one"}]
    drawn = schedule(load(faults=faults), 3)
    for hold in (fault for fault in drawn if fault.plan.fault == "hold"):
        for pause in (fault for fault in drawn if fault.clients == hold.clients and fault is not hold):
            assert hold.lasts_ns
            assert pause.lasts_ns
            apart = pause.at_ns >= hold.at_ns + hold.lasts_ns or hold.at_ns >= pause.at_ns + pause.lasts_ns
            assert apart, (hold.words, pause.words)


def test_a_fault_on_the_holder_keeps_every_client_for_itself() -> None:
    drawn = [f for f in schedule(load(faults=EVERYTHING), 7) if f.clients == (HOLDER,)]
    assert drawn
    assert drawn[0].parts == {f"{client}~{node}" for client in HEAD["clients"] for node in "ABCDE"}


@pytest.mark.parametrize(
    ("parts", "where", "words"),
    [
        ({"workload": None}, "s.yaml", "neither steps nor tracks nor a workload"),
        ({"steps": [{"do": "alice works"}]}, "s.yaml", "steps and workload are there"),
        ({"workload": {"duration": "10"}}, "workload.duration", "no unit"),
        ({"workload": {"duraton": "10s"}}, "workload.duraton", "duration"),
        ({"workload": {"keys": 0}}, "workload.keys", "1 or more"),
        ({"faults": [{"fault": "cutt", "every": "1s", "lasts": "1s"}]}, "faults[0].fault", "cut"),
        ({"faults": [{"fault": "cut", "every": "1s"}]}, "faults[0]", "lasts"),
        ({"faults": [{"fault": "cut", "lasts": "1s"}]}, "faults[0]", "every"),
        ({"faults": [{**EVERYTHING[0], "during": "pause"}]}, "faults[0]", "both"),
        ({"faults": [{"fault": "jump", "during": "pause", "by": "+1s"}]}, "faults[0].during", "no pause"),
        (
            {"faults": [EVERYTHING[5], {"fault": "cut", "during": "pause", "lasts": "1s"}]},
            "faults[1].during",
            "jump",
        ),
        ({"faults": [{"fault": "cut", "every": "1s", "lasts": ["2s", "1s"]}]}, "faults[0].lasts", "range"),
        (
            {"faults": [{"fault": "cut", "every": "1s", "lasts": "1s", "by": "1s"}]},
            "faults[0].by",
            "direction",
        ),
        ({"faults": [{"fault": "jump", "every": "1s", "by": "fast"}]}, "faults[0].by", "duration"),
        ({"faults": [{"fault": "jump", "every": "1s"}]}, "faults[0]", "by"),
        ({"faults": [{"fault": "cut", "every": "1s", "lasts": "1s", "clients": "eve"}]}, "clients", "alice"),
        ({"faults": [{"fault": "cut", "every": "1s", "lasts": "1s", "nodes": ["A", "F"]}]}, "nodes", "A"),
        ({"faults": [{"fault": "reset", "every": "1s", "lasts": "1s"}]}, "faults[0].lasts", "not last"),
        (
            {"faults": [{"fault": "crash", "every": "1s", "lasts": "1s", "clients": "one"}]},
            "clients",
            "nodes",
        ),
    ],
)
def test_mistakes_are_named(parts: dict[str, Any], where: str, words: str) -> None:
    found = error(**parts)
    assert found.where is not None
    assert where in found.where
    assert words in found.render()


def test_keys() -> None:
    assert load().keys == ("resource",)
    assert load(workload={"keys": 3}, key="k").keys == ("k-1", "k-2", "k-3")


class IdleWorker:
    """Does nothing, but counts; its clock goes on by what it is told."""

    def __init__(self) -> None:
        self.rounds = 0
        self.keys: list[str] = []

    def use(self, key: str) -> None:
        self.keys.append(key)

    async def critical_section(self, compute: Any) -> Answer:
        self.rounds += 1
        return Answer(0, Outcome.OK if self.rounds % 2 else Outcome.FAIL)


def rounds(worker: Any, seed: int = 1, **parts: Any) -> Rounds:
    from random import Random

    loop = Loop(**{"duration_ns": 60 * S, "think_ns": 0, "hold_ns": 0, "keys": ["a", "b"], **parts})
    return Rounds(worker, loop, Random(seed))


async def test_a_client_ends_after_its_operations_or_when_it_is_stopped() -> None:
    worker = IdleWorker()
    assert await rounds(worker, operations=6).run() == "6 rounds, 3 complete"
    assert set(worker.keys) == {"a", "b"}
    other = IdleWorker()
    await rounds(other, operations=6).run()
    assert other.keys == worker.keys, "the keys come from the seed"
    stopped = rounds(IdleWorker())
    stopped.stop()
    assert await stopped.run() == "0 rounds, 0 complete"
    assert await rounds(IdleWorker(), duration_ns=0).run() == "0 rounds, 0 complete"


@given(st.integers(0, 2**31), st.integers(0, 10 * S))
def test_a_drawn_time_is_bounded(seed: int, mean_ns: int) -> None:
    assert 0 <= rounds(IdleWorker(), seed).drawn_ns(mean_ns) <= MOST * mean_ns


def test_who_holds_the_lock_is_read_from_the_log(tmp_path: Any) -> None:
    log = tmp_path / "client-alice.jsonl"
    assert held_since_ns(log) is None
    events: list[bytes] = []

    def sink(event: dict[str, Any]) -> None:
        events.append(json.dumps(event).encode() + b"\n")
        log.write_bytes(b"".join(events))

    recording = Recording("alice", sink, clock_ns=lambda: 42)
    recording.invoke("acquire")
    assert held_since_ns(log) is None
    recording.ok("acquire")
    recording.invoke("read")
    assert held_since_ns(log) == 42
    recording.invoke("release")
    assert held_since_ns(log) is None
    recording.fail("release")
    recording.invoke("acquire")
    recording.fail("acquire")
    assert held_since_ns(log) is None
    with log.open("ab") as half:
        half.write(b'{"f":"acquire","type":"ok"')
    assert held_since_ns(log) is None
