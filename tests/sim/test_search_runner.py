"""The lean runner: deterministic, alike on both wires; its first look never misses what the checker finds."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, get_args
from zlib import crc32

import pytest

from lab.errors import LabError, UnknownOutcome
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.redis_model.persistence import Persistence
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.draw import RandomDraw, Space, draw_trial
from lab.search.faults import KINDS, Kind, timed_fault
from lab.search.runner import WIRES, Wire, run_trial, trials
from lab.search.suspicion import LOOKS, named, suspect
from lab.search.trial import Round, Trial, decode
from lab.search.world import ORDERS, SHARES, TrialWorld
from tests.hash_seeds import HASH_SEEDS

pytestmark = pytest.mark.usefixtures("_patched")

MS_NS, S_NS = 10**6, 10**9
OPTIONS: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
TWO: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 3 * S_NS),), "bob": (Round(300 * MS_NS, 3 * S_NS),)}


def drawn(
    lock: str, count: int, seed: int, kinds: tuple[Kind, ...] = KINDS, *, everything: bool = False
) -> list[Trial]:
    draw = RandomDraw(Random(seed))
    space = Space(lock, OPTIONS, 2 * S_NS, clients=3, persistence=None, kinds=kinds, horizon_ns=8 * S_NS)
    if everything:
        space = replace(space, all_operations=True, demand_ns=2 * S_NS)
    return [draw_trial(draw, space, "guided") for _ in range(count)]


@pytest.mark.parametrize("wire", WIRES)
def test_the_same_trial_gives_the_same_history(wire: Wire) -> None:
    chosen = drawn("redlock", 6, 1) + drawn("redlock", 6, 1, everything=True)
    with trials(wire):
        first = [run_trial(trial, wire).digest() for trial in chosen]
        assert [run_trial(trial, wire).digest() for trial in reversed(chosen)] == first[::-1]
    assert len(set(first)) == len(first)


PRINT_DIGESTS = """
from tests.sim.test_search_runner import drawn
from lab.search.runner import run_trial, trials
with trials():
    print([run_trial(trial).digest() for trial in drawn("redlock-fenced", 5, 2, everything=True)])
"""


def test_the_same_trial_gives_the_same_history_in_another_process() -> None:
    reported = {
        subprocess.run(
            [sys.executable, "-c", PRINT_DIGESTS],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
        ).stdout
        for seed in HASH_SEEDS
    }
    assert len(reported) == 1


@pytest.mark.parametrize("name", ["host/alice", "phase"])
def test_a_trials_sources_draw_what_pythons_own_draw(name: str) -> None:
    for first in ("random", "getrandbits", "uniform", "randrange", "choice", "gauss", "randbytes"):
        given = {
            "getrandbits": (160,),
            "uniform": (-1, 1),
            "randrange": (10**9,),
            "choice": ("abc",),
            "randbytes": (9,),
        }.get(first, ())
        for seed in (0, 7, 999):
            plain, ours = Random(seed << 32 | crc32(name.encode())), TrialWorld(seed).random(name)
            assert getattr(ours, first)(*given) == getattr(plain, first)(*given)
            assert [ours.random() for _ in range(5)] == [plain.random() for _ in range(5)]


def test_pipes_of_a_trial_draw_apart_and_the_same_again() -> None:
    def drawn_by(seed: int, name: str) -> list[float]:
        draws = TrialWorld(seed).shares(name)
        return [draws.random() for _ in range(200)]

    names = [
        f"{client}-{node}:6379/{way}" for client in TWO for node in "ABCDE" for way in ("requests", "replies")
    ]
    rows = {(seed, name): drawn_by(seed, name) for seed in range(20) for name in names}
    assert all(drawn_by(*each) == row for each, row in rows.items())
    assert len({tuple(row) for row in rows.values()}) >= len(rows) - 6  # of 65,536 places, a few may meet
    everything = [share for row in rows.values() for share in row]
    assert 0 <= min(everything) < 0.01
    assert 0.99 < max(everything) < 1
    assert 0.45 < sum(everything) / len(everything) < 0.55


def test_a_pipe_draws_on_when_the_row_is_over() -> None:
    draws = TrialWorld(1).shares("alice-A:6379/requests")
    once, again = ([draws.random() for _ in range(SHARES)] for _ in range(2))
    assert sorted(once) == sorted(again)
    assert {draws.randint(-2, 3) for _ in range(200)} == set(range(-2, 4))


def test_a_negative_seed_decides_in_which_order_the_nodes_answer() -> None:
    def turns(seed: int) -> list[float]:
        return [TrialWorld(seed).shares(f"alice-{node}:6379/requests").random() for node in "ABCDE"]

    orders = [turns(-seed) for seed in range(1, ORDERS + 1)]
    assert all(sorted(turn) == [0, 0.2, 0.4, 0.6, 0.8] for turn in orders)
    assert sorted(turn.index(0) for turn in orders) == list(range(ORDERS))


def test_after_a_cut_replies_belong_to_what_is_asked_now() -> None:
    """What was lost was asked over connections that end with the cut: no reply is taken for another one."""
    cut = timed_fault(Cut, at_start(), "alice", tuple("ABCDE"), lasts_ns=S_NS)
    twice = (Round(0, S_NS), Round(S_NS, S_NS))
    with trials():
        outcome = run_trial(Trial("redlock", {"alice": twice, "bob": ()}, (cut,), options=OPTIONS))
    ends = [event["type"] for event in outcome.events if event["f"] in ("acquire", "release")]
    assert ends == ["invoke", "fail", "invoke", "ok", "invoke", "ok"]


def test_a_trial_survives_json() -> None:
    for trial in drawn("redlock", 20, 3, everything=True):
        again = decode(trial.key())
        assert again == trial
        assert again.key() == trial.key()
    persistence: Any = "-".join(("aof", "always"))
    same = Trial("redlock", TWO, persistence=persistence, ttl_ns=int("1" + 10 * "0"))
    assert same == Trial("redlock", TWO)
    assert same.key() == Trial("redlock", TWO).key()


@pytest.mark.parametrize(
    ("lock", "seed"),
    [
        ("redlock", 1),
        pytest.param("redlock-counter", 1, marks=pytest.mark.full),
        pytest.param("fixed-value", 1, marks=pytest.mark.full),
        pytest.param("redlock-fenced", 5, marks=pytest.mark.full),
    ],
)
def test_the_first_look_never_misses(lock: str, seed: int) -> None:
    seen: Counter[str] = Counter()
    with trials():
        for trial in drawn(lock, 60, seed):
            outcome = run_trial(trial)
            names = {finding.name for finding in named(outcome)} & LOOKS.keys()
            seen.update(names)
            for name in names:
                assert suspect(outcome, name), (name, trial.key())
            assert suspect(outcome, "overlap") == ("overlap" in names), "windows are the checker's"
    assert seen or lock == "redlock-fenced"


SCENARIOS: dict[str, tuple[Trial, bool]] = {
    "jump": (
        Trial(
            "redlock",
            TWO,
            (
                timed_fault(Cut, at_start(), "alice", ("D", "E")),
                timed_fault(Jump, on("alice", "granted"), nodes=("C",), by_ns=11 * S_NS),
            ),
            options=OPTIONS,
        ),
        True,
    ),
    "jump of too little": (
        Trial(
            "redlock",
            TWO,
            (
                timed_fault(Cut, at_start(), "alice", ("D", "E")),
                timed_fault(Jump, on("alice", "granted"), nodes=("C",), by_ns=5 * S_NS),
            ),
            options=OPTIONS,
        ),
        False,
    ),
    **{
        f"crash with {persistence}": (
            Trial(
                "redlock",
                TWO,
                (
                    timed_fault(Cut, at_start(), "alice", ("D", "E")),
                    timed_fault(Crash, on("alice", "granted"), nodes=("C",), lasts_ns=100 * MS_NS),
                ),
                options=OPTIONS,
                persistence=persistence,
            ),
            persistence in ("none", "rdb"),
        )
        for persistence in get_args(Persistence)
    },
    "power cut with aof-always": (
        Trial(
            "redlock",
            TWO,
            (
                timed_fault(Cut, at_start(), "alice", ("D", "E")),
                timed_fault(PowerCut, on("alice", "granted"), nodes=("C",), lasts_ns=100 * MS_NS),
            ),
            options=OPTIONS,
        ),
        False,
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_end_alike_on_both_wires(name: str, wire: Wire) -> None:
    trial, overlaps = SCENARIOS[name]
    with trials(wire):
        assert any(finding.name == "overlap" for finding in named(run_trial(trial, wire))) is overlaps


@pytest.mark.parametrize("wire", WIRES)
def test_a_trial_leaves_the_collector_nothing(wire: Wire) -> None:
    """Also one that ends while a fault waits, or lasts: what is left slows the next ones down."""
    over = timed_fault(Cut, at_start(MS_NS), "alice", ("A", "B"), lasts_ns=S_NS)
    for_good = timed_fault(Cut, at_start(MS_NS), "alice", ("A", "B"), lasts_ns=100 * S_NS)
    waits = timed_fault(Pause, on("alice", "write invoke", nth=40), "alice", lasts_ns=S_NS)
    with trials(wire):
        for faults in ((), (), (over,), (for_good,), (waits,)):
            trial = Trial("redlock", TWO, faults, options=OPTIONS, horizon_ns=20 * S_NS)
            gc.collect()
            outcome = run_trial(trial, wire)
            left = gc.collect()
            assert len(outcome.struck) == len(faults) - (waits in faults)
            assert left == 0 or not faults, faults


def test_a_pause_between_check_and_write_gives_a_stale_write() -> None:
    pause = timed_fault(Pause, on("alice", "write invoke"), "alice", lasts_ns=11 * S_NS)
    clients: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 0),), "bob": (Round(10_500 * MS_NS, 0),)}
    trial = Trial("redlock", clients, (pause,), options=OPTIONS)
    for wire in WIRES:
        with trials(wire):
            names = {finding.name for finding in named(run_trial(trial, wire))}
        assert "stale-write" in names
        assert "overlap" not in names


def test_an_unknown_lock_is_an_error() -> None:
    with trials(), pytest.raises((LabError, UnknownOutcome)):
        run_trial(Trial("redlok", TWO))


def test_an_acquire_that_is_cancelled_has_an_end_whatever_it_was_waiting_for() -> None:
    ends: set[str] = set()
    with trials():
        for cancel_ns in range(200_000, 3_000_000, 200_000):
            rounds = (Round(0, 0, cancel_ns=cancel_ns), Round(0, 0))
            outcome = run_trial(Trial("redlock-cas", {"alice": rounds}, options=OPTIONS))
            ends |= {str(event.get("error")) for event in outcome.events if event["type"] == "info"}
            assert all(each.severity != "violation" for each in named(outcome))
    assert ends == {"cancelled", "announce: cancelled"}


def test_a_lock_that_needs_connections_of_its_own_gets_them() -> None:
    """On the direct wire all clients would share one transaction."""
    clients: dict[str, tuple[Round, ...]] = {
        name: (Round(0, 50 * MS_NS), Round(0, 50 * MS_NS)) for name in ("alice", "bob", "carol")
    }
    with trials():
        for seed in range(12):
            trial = Trial(
                "tests.locks_to_test.unusual:InTransaction", clients, nodes=1, seed=seed, demand_ns=5 * S_NS
            )
            outcome = run_trial(trial)
            assert outcome.digest() == run_trial(trial, "resp").digest()
            assert [each.name for each in named(outcome) if each.severity == "violation"] == []
            assert {event["client"] for event in outcome.events if event["type"] == "ok"} == set(clients)


def test_a_client_that_dies_among_several_sends_ends_nothing_else() -> None:
    """What its loop had still to do at that instant is gone with it."""
    struck: set[Timed] = set()
    with trials():
        for nth in range(1, 6):
            dies = timed_fault(ClientCrash, on("alice", "sends", nth), "alice")
            trial = Trial("tests.locks_to_test.unusual:InTransaction", TWO, (dies,), nodes=1)
            outcome = run_trial(trial)
            struck.update(outcome.struck)
            ends = [each["type"] for each in outcome.events if each.get("client") == "bob"]
            assert Counter(ends)["invoke"] == len(ends) / 2, "Bob's operations end"
    assert len(struck) == 5


def test_a_token_in_a_hash_is_seen_on_the_nodes() -> None:
    clients: dict[str, tuple[Round, ...]] = {"alice": (Round(0, S_NS),)}
    trial = Trial("tests.locks_to_test.unusual:Hashed", clients, nodes=1)
    with trials():
        events = run_trial(trial, watch=True).events
    assert [each["_nodes"] for each in events if "_nodes" in each] == [["A"]]
