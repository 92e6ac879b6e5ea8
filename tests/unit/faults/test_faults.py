"""What the faults say of themselves: what they break, what they need, whom they hit, what ends them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from lab.faults.base import Fault, Tolerance, all_at_once, all_faults
from lab.faults.nemesis import End
from lab.redis_model.persistence import Persistence
from lab.run.steps import needs
from lab.scenario import registry
from lab.scenario.anchors import Synced
from lab.scenario.impossible import ClusterShape, impossible
from lab.scenario.registry import OWN, steps
from lab.scenario.steps import Operation, Until
from lab.substrates.base import Capability

TOLERANCE = Tolerance(clock_error_ns=10_000_000, clock_rate=0.001, network_delay_ns=1_000_000_000)


def step(body: dict[str, Any]) -> Any:
    ((key, value),) = body.items()
    return steps()[key].model_validate({key: value})


def test_each_step_is_of_a_scenario_or_a_fault_or_ends_one_and_has_the_file_of_its_name() -> None:
    reported = {key for key, step in steps().items() if step.__module__ == OWN}
    ends = {key for key, step in steps().items() if issubclass(step, End)}
    injected = {fault.KEY for fault in all_faults()}
    operations = {key for key, step in steps().items() if issubclass(step, Operation)}
    assert reported == {"do", "start", "finish", "until", "wait", "say"} | operations
    assert reported | ends | injected | {"prime"} == set(steps())
    assert {step.__module__ for key, step in steps().items() if key not in reported} == {
        f"lab.faults.{key}" for key in set(steps()) - reported
    }
    assert {fault.ENDED_BY for fault in all_faults()} == {*ends, None}
    assert all(not fault.PASSES or fault.ENDED_BY is None for fault in all_faults())


BREAKS: list[tuple[dict[str, Any], str | None]] = [
    ({"cut": {"client": "a", "nodes": ["A"]}}, None),
    ({"hold": {"client": "a", "nodes": ["A"]}}, "bounded network delay"),
    ({"delay": {"client": "a", "nodes": ["A"], "by": "999ms"}}, None),
    ({"delay": {"client": "a", "nodes": ["A"], "by": "900ms", "jitter": "100ms"}}, "bounded network delay"),
    ({"bandwidth": {"client": "a", "nodes": ["A"], "rate": "1KB/s"}}, "bounded network delay"),
    ({"bandwidth": {"client": "a", "nodes": ["A"], "rate": "2KB/s"}}, None),
    ({"reset": {"client": "a", "nodes": ["A"]}}, None),
    ({"pause": {"client": "a"}}, "bounded process pauses"),
    ({"pause": {"node": "A"}}, "bounded process pauses"),
    ({"jump": {"node": "A", "by": "+10ms"}}, None),
    ({"jump": {"client": "a", "by": "-11ms"}}, "bounded clock error"),
    ({"drift": {"node": "A", "ppm": -1000}}, None),
    ({"drift": {"node": "A", "ppm": 1001}}, "bounded clock error"),
    ({"strobe": {"node": "A", "by": "+10ms", "every": "10ms"}}, None),
    ({"strobe": {"node": "A", "by": "-11ms", "every": "10ms"}}, "bounded clock error"),
    ({"client_crash": {"client": "a"}}, None),
    ({"promote": {"node": "B"}}, "durable nodes"),
    ({"answers": {"nodes": ["A"], "error": "BUSY"}}, None),
    ({"evict": {"nodes": ["A"]}}, "keys kept for their TTL"),
    ({"stall_disk": {"nodes": ["A"]}}, "bounded process pauses"),
    ({"fill_memory": {"nodes": ["A"]}}, None),
]


@pytest.mark.parametrize(("body", "broken"), BREAKS, ids=lambda value: str(value))
def test_what_a_fault_breaks(body: dict[str, Any], broken: str | None) -> None:
    one = step(body)
    assert one.breaks(TOLERANCE) == broken


@pytest.mark.parametrize(
    ("fault", "persistence", "broken"),
    [
        ("crash", "none", True),
        ("crash", "aof-everysec", False),
        ("crash", "rdb", True),
        ("shutdown", "rdb", False),
        ("power_cut", "rdb", True),
        ("shutdown", "none", True),
        ("shutdown", "aof-everysec", False),
        ("power_cut", "aof-everysec", True),
        ("power_cut", "aof-always", False),
    ],
)
def test_only_what_loses_data_breaks_durability(fault: str, persistence: Persistence, broken: bool) -> None:
    one = step({fault: {"nodes": ["A"]}})
    tolerance = Tolerance(clock_error_ns=0, persistence=persistence)
    assert one.breaks(tolerance) == ("durable nodes" if broken else None)


@pytest.mark.parametrize(
    ("body", "needed"),
    [
        ({"cut": {"client": "a", "nodes": ["A"]}}, {Capability.CUT_LINKS}),
        ({"cut": {"node": "B", "from": "A"}}, {Capability.CUT_LINKS}),
        ({"promote": {"node": "B"}}, {Capability.REPLICATION}),
        ({"delay": {"client": "a", "store": True, "by": "1s"}}, {Capability.SLOW_LINKS}),
        ({"pause": {"node": "A"}}, {Capability.PAUSE_NODES}),
        ({"pause": {"client": "a"}}, {Capability.PAUSE_CLIENTS}),
        ({"jump": {"client": "a", "by": "+1s"}}, {Capability.CLIENT_CLOCKS}),
        ({"drift": {"node": "A", "ppm": 500}}, {Capability.NODE_CLOCKS}),
        ({"power_cut": {"nodes": ["A"]}}, {Capability.POWER_CUTS}),
        ({"prime": {"nodes": ["A"]}}, {Capability.POWER_CUTS}),
        ({"heal": "all"}, set()),
        ({"bandwidth": {"client": "a", "nodes": ["A"], "rate": "10KB/s"}}, {Capability.NARROW_LINKS}),
        ({"answers": {"nodes": ["A"], "error": "BUSY"}}, {Capability.ANSWER_ERRORS}),
        ({"cut": {"client": "a", "nodes": ["A"], "connection": "commands"}}, {Capability.ONE_CONNECTION}),
        (
            {"reset": {"client": "a", "nodes": ["A"], "connection": "subscription"}},
            {Capability.ONE_CONNECTION},
        ),
        ({"evict": {"nodes": ["A"]}}, {Capability.REMOVE_KEYS}),
        ({"stall_disk": {"nodes": ["A"]}}, {Capability.STALL_DISKS}),
        ({"until": {"keys": "gone"}}, {Capability.WATCH_KEYS}),
        ({"until": {"lease": "a", "over": True}}, set()),
    ],
    ids=str,
)
def test_what_a_step_needs(body: dict[str, Any], needed: set[Capability]) -> None:
    assert needs((step(body),)) == needed


def test_looking_at_disks_needs_their_record() -> None:
    anchor = Synced.model_validate({"nodes": ["A"], "synced": False})
    assert needs((Until(anchor=anchor),)) == {Capability.POWER_CUTS, Capability.WATCH_KEYS}


def test_a_disk_that_stalls_is_a_pause_only_if_each_write_waits_for_it() -> None:
    tolerance = Tolerance(clock_error_ns=0, persistence="aof-everysec")
    assert step({"stall_disk": {"nodes": ["A"]}}).breaks(tolerance) is None


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"answers": {"nodes": ["A"], "error": "busy"}}, "no error reply"),
        ({"answers": {"nodes": ["A"], "error": "BUSY\r\n+OK"}}, "no error reply"),
        ({"answers": {"nodes": ["A"], "error": "BUSY", "to": []}}, "names no commands"),
        ({"answers": {"nodes": ["A"], "error": "BUSY", "to": ["GET x"]}}, "is no command"),
        ({"answers": {"nodes": ["A"], "error": "BUSY", "to": "flushall"}}, "no probe can show"),
        (
            {"cut": {"client": "a", "nodes": ["A"], "mode": "refused", "connection": "commands"}},
            "is not known",
        ),
        ({"evict": {"nodes": ["A"], "key": "k", "all": True}}, "all keys are to go"),
    ],
    ids=str,
)
def test_what_the_new_faults_refuse(body: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        step(body)


IMPOSSIBLE: list[tuple[list[dict[str, Any]], str]] = [
    ([{"stall_disk": {"nodes": ["A"]}}, {"stall_disk": {"nodes": ["A", "B"]}}], "A stalls already"),
    ([{"free_disk": {"nodes": ["A"]}}], "A is not stalled"),
    ([{"hold": {"client": "a", "store": True, "connection": "commands"}}], "are told apart, and no others"),
    ([{"crash": {"nodes": ["A"]}}, {"stall_disk": {"nodes": ["A"]}}], "A is down already"),
    ([{"crash": {"nodes": ["A"]}}, {"evict": {"nodes": ["A"]}}], "A is down already"),
    (
        [{"stall_disk": {"nodes": ["A"]}}, {"crash": {"nodes": ["A"]}}, {"restart": {"nodes": ["A"]}}],
        "the disk of A stalls",
    ),
    (
        [{"client_crash": {"client": "a"}}, {"answers": {"client": "a", "nodes": ["A"], "error": "OOM"}}],
        "killed",
    ),
]


@pytest.mark.parametrize(("bodies", "complaint"), IMPOSSIBLE, ids=str)
def test_what_the_new_faults_cannot_follow(bodies: list[dict[str, Any]], complaint: str) -> None:
    shape = ClusterShape(nodes=("A", "B"), persistence="aof-always")
    found = [error.message() for _, error in impossible([step(body) for body in bodies], shape)]
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("persistence", "complaint"), [("none", "keep nothing on disk"), ("rdb", "does not wait for its disk")]
)
def test_a_disk_does_not_stall_where_nobody_waits_for_it(persistence: str, complaint: str) -> None:
    shape = ClusterShape(nodes=("A",), persistence=persistence)
    (found,) = impossible([step({"stall_disk": {"nodes": ["A"]}})], shape)
    assert complaint in found[1].message()


def test_memory_is_filled_where_it_has_a_limit_and_is_not_full() -> None:
    fill, free = step({"fill_memory": {"nodes": ["A"]}}), step({"free_memory": {"nodes": ["A"]}})
    (found,) = impossible([fill], ClusterShape(nodes=("A",)))
    assert "use as much memory as there is" in found[1].message()
    limited = ClusterShape(nodes=("A",), config={"maxmemory": "8mb"})
    assert list(impossible([fill, free, fill], limited)) == []
    assert [error.message() for _, error in impossible([fill, fill], limited)] == [
        "the memory of A is full already; expected a free_memory before it"
    ]
    assert [error.message() for _, error in impossible([free], limited)] == [
        "the memory of A is not full; expected a fill_memory before it"
    ]


def test_a_full_memory_breaks_an_assumption_only_where_keys_are_evicted() -> None:
    evicts = Tolerance(clock_error_ns=0, evicts=True)
    assert step({"fill_memory": {"nodes": ["A"]}}).breaks(evicts) == "keys kept for their TTL"


def test_two_steps_with_one_key_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "PACKAGES", ("lab.faults", "lab.faults"))
    with pytest.raises(TypeError, match="two steps have the key answers"):
        steps.__wrapped__()


async def test_what_is_done_at_once_comes_back_in_order_and_one_alone_is_no_task() -> None:
    async def who(number: int, turns: int) -> tuple[int, bool]:
        for _ in range(turns):
            await asyncio.sleep(0)
        return number, asyncio.current_task() is test

    test = asyncio.current_task()
    assert await all_at_once(who(number, 3 - number) for number in range(3)) == [
        (0, False),
        (1, False),
        (2, False),
    ]
    assert await all_at_once([who(7, 1)]) == [(7, True)]
    assert await all_at_once(who(number, 0) for number in range(0)) == []


def test_the_order_of_the_steps_does_not_hang_on_what_was_imported_first() -> None:
    code = (
        "import lab.faults.strobe, lab.faults.cut\nfrom lab.scenario.registry import steps\nprint(*steps())"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == list(steps())


@pytest.mark.parametrize("fault", all_faults(), ids=lambda fault: fault.KEY)
def test_each_fault_says_what_it_does_and_what_is_so_when_it_has_ended(fault: type[Fault]) -> None:
    one = step({fault.KEY: yaml.safe_load(fault.EXAMPLE.partition(", or")[0])})
    assert re.fullmatch(r"[A-Za-z].*[^. ]", one.clause), one.clause
    assert bool(one.ended_clause) == (fault.ENDED_BY is not None)
