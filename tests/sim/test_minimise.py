"""The minimiser: what cannot be left out is said as plainly as can be, and asking is cheap."""

from __future__ import annotations

from itertools import chain
from random import Random

import pytest
from msgspec.structs import replace

from lab.faults.cut import Cut
from lab.faults.drift import Drift
from lab.faults.jump import Jump
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.draw import RandomDraw, Space, draw_trial
from lab.search.faults import KINDS, nodes_of, timed_fault
from lab.search.minimise import deletions, minimise, shortenings
from lab.search.runner import run_trial, trials
from lab.search.simplify import plainer_cluster, plainer_faults, plainer_rounds, renamed
from lab.search.suspicion import named
from lab.search.trial import Round, Trial
from tests.sim.shown_trials import MS_NS, OPTIONS, S_NS

pytestmark = pytest.mark.usefixtures("_patched")

EVERYTHING = (deletions, shortenings, plainer_rounds, plainer_faults, plainer_cluster, renamed)


def small(trial: Trial, *needed: object, same_cluster: bool = False) -> Trial:
    """What is left of a trial if it violates as long as all of these texts are in it."""
    words = [str(each) for each in needed]
    return minimise(
        trial, lambda it: all(word in it.key().decode() for word in words), same_cluster=same_cluster
    )


BUSY = Trial(
    "redlock",
    {
        "bob": (Round(700 * MS_NS, S_NS, extends=2, ends="twice", cancel_ns=2 * MS_NS),),
        "carol": (Round(20 * MS_NS, 2 * S_NS, extends=1, ends="keep"),),
    },
    (timed_fault(Drift, on("carol", "sends", 3, 20 * MS_NS), "carol", ppm=123_456),),
    persistence="none",
    ttl_ns=300 * MS_NS,
    options=OPTIONS,
    seed=7,
    horizon_ns=2 * S_NS,
    demand_ns=S_NS,
)


def test_what_is_not_needed_becomes_plain() -> None:
    assert (
        small(BUSY).key()
        == Trial("redlock", {"alice": ()}, nodes=3, options=OPTIONS, horizon_ns=66_666_666_666).key()
    )


@pytest.mark.parametrize(
    ("needed", "left"),
    [
        ('"extends":1', Round(0, 3 * S_NS, extends=1)),
        ('"ends":"keep"', Round(0, 3 * S_NS, ends="keep")),
        ('"ends":"twice"', Round(0, 3 * S_NS, ends="twice")),
        ('"cancel_ns":2000000', Round(0, 3 * S_NS, cancel_ns=2 * MS_NS)),
    ],
)
def test_of_an_operation_only_what_is_needed_is_left(needed: str, left: Round) -> None:
    assert small(BUSY, needed).clients == {"alice": (left,)}


@pytest.mark.parametrize(
    ("needed", "left"),
    [
        (['"drift"'], timed_fault(Drift, at_start(), "alice", ppm=8_000)),
        (['"ppm":200000'], timed_fault(Drift, at_start(), "alice", ppm=200_000)),
        (
            ['"drift"', '"extends"', '"extend invoke"'],
            timed_fault(Drift, on("alice", "extend invoke"), "alice", ppm=8_000),
        ),
        (['"drift"', '"sends"'], timed_fault(Drift, on("alice", "sends"), "alice", ppm=8_000)),
        (['"drift"', '"nth":2'], timed_fault(Drift, on("alice", "sends", 2), "alice", ppm=8_000)),
    ],
)
def test_a_fault_gets_a_plain_moment_and_a_plain_size(needed: list[str], left: Timed) -> None:
    assert small(BUSY, *needed).faults == (left,)


def test_the_cluster_stays_where_it_must() -> None:
    kept = small(BUSY, same_cluster=True)
    assert (kept.nodes, kept.persistence, kept.ttl_ns) == (5, "none", 300 * MS_NS)
    assert small(BUSY, '"persistence":"none"').persistence == "none"


def test_nodes_are_renamed_where_fewer_are_left() -> None:
    cut, jump = (
        timed_fault(Cut, at_start(), "alice", ("D", "E")),
        timed_fault(Jump, at_start(), nodes=("B",), by_ns=11 * S_NS),
    )
    trial = Trial("redlock", {"alice": (Round(0, 3 * S_NS),)}, (cut, jump), options=OPTIONS)
    left = minimise(trial, lambda it: {type(fault.step) for fault in it.faults} == {Cut, Jump})
    assert left.nodes == 3
    assert sorted(node for fault in left.faults for node in nodes_of(fault)) in (
        ["A", "B"],
        ["A", "C"],
        ["B", "C"],
        ["A", "A"],
    )


@pytest.mark.parametrize("seed", range(12))
def test_from_what_is_left_nothing_can_be_made_plainer(seed: int) -> None:
    """For a violation of any shape: here one that needs some words of a drawn trial."""
    random = Random(seed)
    space = Space("redlock", dict(OPTIONS), 2 * S_NS, clients=3, all_operations=True, demand_ns=4 * S_NS)
    trial = draw_trial(RandomDraw(random), space, "guided")
    text = trial.key().decode()
    words = [
        f'"{word}"'
        for word in (*KINDS, "keep", "twice", "extends", "sends", "cancel_ns")
        if f'"{word}"' in text
    ]
    needed = random.sample(words, min(2, len(words)))
    asked: list[bytes] = []

    def violates(it: Trial) -> bool:
        asked.append(it.key())
        return all(word in it.key().decode() for word in needed)

    left = minimise(trial, violates)
    assert len(asked) == len(set(asked)), "nothing is asked twice"
    assert len(asked) < 500
    assert violates(left)
    assert not any(violates(plainer) for plainer in chain.from_iterable(each(left) for each in EVERYTHING))
    assert minimise(left, violates) == left


@pytest.mark.full
def test_a_real_violation_stays_one() -> None:
    asked = 0

    def violates(trial: Trial) -> bool:
        nonlocal asked
        asked += 1
        return "continuity-loss" in {each.name for each in named(run_trial(trial))}

    draw = RandomDraw(Random(1))
    space = Space(
        "mutant:extend-reacquires",
        dict(OPTIONS),
        2 * S_NS,
        clients=3,
        horizon_ns=8 * S_NS,
        all_operations=True,
        demand_ns=4 * S_NS,
        persistence=None,
    )
    with trials():
        trial = next(each for each in iter(lambda: draw_trial(draw, space, "guided"), None) if violates(each))
        asked = 0
        left = minimise(trial, violates)
        assert violates(left)
    assert len(trial.faults) >= 3
    assert (left.faults, left.nodes, left.ttl_ns) == ((), 3, 10 * S_NS)
    assert asked < 250
    assert replace(left, clients={}) != left
