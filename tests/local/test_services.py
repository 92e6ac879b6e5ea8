"""Locks on etcd, ZooKeeper and Postgres, on real servers: skipped where they are not installed."""

from __future__ import annotations

import os
import signal

import pytest

from lab import tools
from lab.processes import processes_of
from lab.scenario.files import consensus_names
from lab.scenario.load import load_scenario
from lab.tools import Missing
from tests.lab_process import MARK, Ended, Lab

pytestmark = pytest.mark.full

QUICK = {f"{service}-pause-fenced" for service in tools.SERVICES}
CUT_OFF = ("etcd-leader-cut-off", "zookeeper-leader-cut-off")
SCENARIOS = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in consensus_names()
    if name not in CUT_OFF
]

FAULTS = """
title: Servers of etcd are killed, paused and cut off, and a majority goes on
source: a test
why: Every fault on them has its receipt.
cluster: {nodes: 3, service: etcd}
lock: {name: etcd, ttl: 10s}
store: {fencing: true}
clients: [alice, bob]
steps:
  - do: alice works
  - crash: {nodes: [A]}
  - do: bob works
  - restart: {nodes: [A]}
  - pause: {node: B}
  - do: alice works
  - resume: {node: B}
  - shutdown: {nodes: [C]}
  - restart: {nodes: [C]}
  - cut: {client: bob, nodes: [A], mode: refused}
  - hold: {client: bob, nodes: [B], direction: replies}
  - delay: {client: alice, nodes: [C], by: 300ms}
  - do: bob works
  - heal: all
expect: {mutual_exclusion: ok, fencing: ok, resource: ok}
"""
WAITS = """
title: A client holds the lock
source: a test
why: To be killed.
cluster: {nodes: 1, service: postgres}
lock: {name: postgres}
clients: [alice]
steps: [{do: alice acquires}, {wait: 600s}]
expect: {mutual_exclusion: ok}
"""


def installed(service: str) -> None:
    found = tools.find(service)
    if isinstance(found, Missing):
        pytest.skip(f"{found.reason}: {found.hint}")


def as_its_file_says(lab: Lab, name: str) -> Ended:
    """Run a scenario: as expected, every fault with its receipt, and each grant with a larger fence."""
    installed(load_scenario(name).scenario.cluster.service)
    run = lab("run", name, "--on", "local", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err
    assert every_fault_has_its_receipt(run)
    fences = [event["fence"] for event in run.events if event["f"] == "acquire" and event["type"] == "ok"]
    assert fences == sorted(set(fences))
    return run


def every_fault_has_its_receipt(run: Ended) -> bool:
    by_type = [event["type"] for event in run.events if event["process"] == "nemesis"]
    return by_type.count("invoke") == by_type.count("ok") > 0


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_comes_out_as_its_file_says(lab: Lab, name: str) -> None:
    as_its_file_says(lab, name)
    assert processes_of(lab.mark, MARK) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CUT_OFF)
def test_a_leader_without_its_peers_grants_nothing_and_they_go_on(lab: Lab, name: str) -> None:
    run = as_its_file_says(lab, name)
    parted = [e for e in run.events if e["f"] == "cut" and e["type"] == "ok" and e["targets"][0] == "A"]
    assert [e["targets"] for e in parted] == [["A", "B"], ["A", "C"]]
    for event in parted:
        (evidence,) = event["receipt"].values()
        to, fro = evidence["ways"].values()
        assert to["probe_through_link"] == fro["probe_through_link"] == "no answer in 50 ms"
        assert fro["target_is"] == "leader", "it was the leader that was cut off"
    healed = next(e["index"] for e in run.events if e["f"] == "heal")
    apart = [e for e in run.events if parted[-1]["index"] < e["index"] < healed and e["f"] == "acquire"]
    assert {e["client"] for e in apart if e["type"] == "ok"} == {"bob"}
    assert {e["client"] for e in apart if e["type"] == "fail"} >= {"carol"}
    late = [e for e in run.events if e["process"] == "alice" and e["f"] == "write" and e["index"] > healed]
    assert [e["type"] for e in late] == ["invoke", "fail"], "what came with an old fence was stopped"


def test_faults_on_servers_have_receipts(lab: Lab) -> None:
    installed("etcd")
    (lab.directory / "faults.yaml").write_text(FAULTS)
    run = lab("run", "faults.yaml", "--on", "local", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err
    assert every_fault_has_its_receipt(run)
    cut = next(e for e in run.events if e["f"] == "cut" and e["type"] == "ok")
    assert cut["receipt"]["A"]["link"] == ["refused"]


def test_a_database_does_not_outlive_a_killed_lab(lab: Lab) -> None:
    installed("postgres")
    (lab.directory / "waits.yaml").write_text(WAITS)
    process = lab.start("run", "waits.yaml", "--on", "local")
    lab.wait_for_event("acquire")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert processes_of(lab.mark, MARK) != [], "the database is still there, with its mark"
    assert lab("down").code == 0
    assert processes_of(lab.mark, MARK) == []


def test_what_is_not_installed_is_refused_with_the_command_that_installs_it(lab: Lab) -> None:
    command = ("run", "etcd-pause-fenced", "--on", "local")
    run = lab.ended(lab.start(*command, within=("/usr/bin/env", "PATH=/nowhere")))
    assert run.code == 2, run.out + run.err
    assert "etcd is not installed" in run.err
    assert "apt-get install" in run.err


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["--lock", "redlock"], "the lock redlock needs nodes of redis, and these are etcd"),
        (["--set", "steps=[{jump: {node: A, by: +5s}}]"], "no way to ask it for its clock"),
        (["--set", "steps=[{do: alice acquires}, {until: {keys: gone}}]"], "it has no MONITOR"),
        (["--on", "sim"], "sim cannot run nodes that are no Redis"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(lab: Lab, settings: list[str], said: str) -> None:
    more = [] if "--on" in settings else ["--on", "local"]
    run = lab("run", "etcd-pause-fenced", *settings, *more)
    assert run.code == 2, run.out + run.err
    assert said in run.err
