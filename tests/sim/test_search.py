"""The search: found, made small, told as a scenario, replayed; and nothing found where nothing is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from lab.cli.app import call
from lab.errors import LabError, UnknownOutcome
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.scenario.load import load_text
from lab.scenario.model import Scenario
from lab.scenario.triggers import at_start, on
from lab.search.as_scenario import scenarios_of, text_of
from lab.search.command import REPLAYS
from lab.search.draw import RandomDraw, Space, draw_trial
from lab.search.faults import CLASSIC_KINDS, KINDS, Kind, client_of, nodes_of, timed_fault
from lab.search.find import VARIANTS, Ended, First, Progress, Search
from lab.search.loop import variant
from lab.search.minimise import deletions, minimise, places
from lab.search.pin import pinned
from lab.search.runner import run_trial, trials
from lab.search.suspicion import found
from lab.search.trial import Round, Trial, decode
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

ROOT = Path(__file__).resolve().parents[2]
MS_NS, S_NS = 10**6, 10**9
OPTIONS: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
CORPUS = sorted((Path(__file__).parent.parent / "corpus").glob("*.json"))


def space(lock: str, kinds: tuple[Kind, ...], **more: object) -> Space:
    return Space(lock, OPTIONS, kinds=kinds, **more)  # type: ignore[arg-type]


def search(
    lock: str, finding: str, kinds: tuple[Kind, ...], schedules: int, seed: int, **more: object
) -> Ended:
    return Search(space(lock, kinds, **more), finding, schedules=schedules, seed=seed).run()


def kinds_at_places(trial: Trial) -> list[str]:
    """The kinds of the faults, one for each link and node, sorted."""
    return sorted(fault.step.KEY for fault in trial.faults for _ in range(max(1, len(nodes_of(fault)))))


@pytest.fixture(scope="module")
def ended() -> Ended:
    return search("redlock", "overlap", (Cut, Jump), 400, 4)


@pytest.mark.full
def test_a_clock_jump_between_two_majorities_is_found_from_nothing(ended: Ended) -> None:
    assert ended.found is not None
    assert kinds_at_places(ended.found) == ["cut", "cut", "jump"]


@pytest.mark.full
def test_nothing_can_be_taken_from_what_was_found(ended: Ended) -> None:
    assert ended.found is not None
    with trials():
        assert found(run_trial(ended.found), "overlap")
        for smaller in deletions(ended.found):
            variants = (smaller, *(variant(smaller, number) for number in range(1, VARIANTS)))
            assert not all(found(run_trial(each), "overlap") for each in variants)


@pytest.mark.full
def test_the_same_seed_draws_the_same() -> None:
    one, again = (search("redlock-fenced", "fence-order", (Cut, Crash), 40, 9) for _ in range(2))
    assert one.progress.covered == again.progress.covered
    assert one.progress.schedules == again.progress.schedules


@pytest.mark.full
def test_what_was_found_is_told_as_a_scenario_that_replays(ended: Ended, tmp_path: Path) -> None:
    assert ended.found is not None
    with trials():
        scenario = scenarios_of(ended.found, "overlap", command="lab search")[0]
    assert "The clock of" in scenario.why
    file = tmp_path / "found.yaml"
    file.write_text(text_of(scenario))
    assert load_text(file.read_text(), "found.yaml").scenario == scenario
    replayed = run_in_simulation(str(file), 1, tmp_path)
    assert not replayed.mismatches
    assert not replayed.unknown
    assert replayed.verdict.named("overlap")


@pytest.mark.full
def test_a_lock_inside_its_assumptions_is_not_accused() -> None:
    ended = search("redlock", "overlap", (Cut, Delay, Hold, Crash), 80, 7)
    assert (ended.found, ended.progress.schedules) == (None, 80)
    assert ended.progress.covered


def test_a_lock_that_fails_in_a_way_of_its_own_ends_the_search() -> None:
    with pytest.raises(UnknownOutcome, match="out of order"):
        search("tests.sim.campaign_locks:Faulty", "overlap", (Cut,), 3, 1)


@pytest.mark.parametrize(
    ("words", "kinds", "everything"),
    [
        ((), CLASSIC_KINDS, False),
        (("--faults", "classic"), CLASSIC_KINDS, False),
        (("--faults", "all"), KINDS, True),
        (("--faults", "reset, cut"), (Cut, Reset), True),
        (("--faults", "cut"), (Cut,), False),
    ],
)
def test_clients_do_all_they_can_where_faults_beyond_the_classic_ones_are_asked_for(
    words: tuple[str, ...], kinds: tuple[Kind, ...], everything: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces: list[Space] = []

    def run(self: Search) -> Ended:
        spaces.append(self.space)
        return Ended(None, None, racy=False, progress=Progress())

    monkeypatch.setattr(Search, "run", run)
    assert call(["search", "--lock", "redlock", *words]) == 0
    assert [(each.kinds, each.all_operations) for each in spaces] == [(kinds, everything)]


@pytest.mark.full
def test_random_draws_other_trials_than_guided() -> None:
    one, other = (
        Search(space("redlock", (Cut, Jump)), "overlap", schedules=15, seed=5, strategy=strategy)
        for strategy in ("guided", "random")
    )
    assert one.run().progress.covered != other.run().progress.covered


def noisy() -> Trial:
    rounds = (Round(0, 3 * S_NS), Round(300 * MS_NS, 50 * MS_NS))
    return Trial(
        "redlock",
        {"alice": rounds, "bob": (Round(300 * MS_NS, 3 * S_NS), *rounds), "carol": rounds},
        faults=(
            timed_fault(Delay, at_start(), "carol", ("A", "B"), by_ns=20 * MS_NS),
            timed_fault(Cut, at_start(), "alice", ("D", "E"), lasts_ns=5 * S_NS),
            timed_fault(Cut, at_start(), "carol", tuple("ABCDE")),
            timed_fault(Jump, on("alice", "granted"), nodes=("C",), by_ns=20 * S_NS),
            timed_fault(Pause, on("bob", "write invoke"), "bob", lasts_ns=S_NS),
        ),
        options=OPTIONS,
    )


def test_the_minimiser_leaves_only_what_is_needed() -> None:
    def violates(trial: Trial) -> bool:
        return all(found(run_trial(replace(trial, seed=seed)), "overlap") for seed in range(2))

    with trials():
        assert violates(noisy())
        small = minimise(noisy(), violates, same_cluster=True)
    assert kinds_at_places(small) == ["cut", "cut", "jump"]
    assert len(small.clients) == 2
    assert sum(len(rounds) for rounds in small.clients.values()) == 2


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_corpus(path: Path) -> None:
    """What was found once is found still; a file says by its name which finding, or that there is none."""
    lock, _, finding = path.stem.partition("--")
    trial = decode(path.read_bytes())
    assert trial.lock == lock
    with trials():
        outcome = run_trial(trial)
        if finding.startswith("no-"):
            assert not found(outcome, finding.removeprefix("no-").partition("--")[0])
        else:
            assert found(outcome, finding.partition("--")[0])


def see_replays(scenario: Scenario, finding: str, directory: Path) -> None:
    """Whatever the seed is, it comes out as it expects, with this finding."""
    file = directory / "told.yaml"
    file.write_text(text_of(scenario))
    for seed in (1, 2):
        replayed = run_in_simulation(str(file), seed, directory)
        assert not replayed.mismatches
        assert replayed.verdict.named(finding)


COUNTERS = Path(__file__).parent.parent / "corpus" / "redlock-counter--fence-order.json"


@pytest.mark.full
def test_what_strikes_at_a_call_is_told_before_it_and_replays(tmp_path: Path) -> None:
    """A cut that waits for a call would come too late on real nodes if the scenario put it after the call."""
    with trials():
        scenario = scenarios_of(decode(COUNTERS.read_bytes()), "fence-order", command="lab search")[0]
    called = [
        one.at.event for one in scenario.every_timed if one.at is not None and one.step.KEY == "acquire"
    ]
    assert called[-1] == "cut ok"
    see_replays(scenario, "fence-order", tmp_path)


@pytest.mark.full
def test_how_far_an_operation_was_when_a_fault_ended_is_told_and_replays(tmp_path: Path) -> None:
    """Bob's undo goes out when its acquire has timed out, and must find the link healed: 100 ms later."""
    cut = timed_fault(Cut, at_start(), "bob", ("A",), lasts_ns=S_NS)
    clients: dict[str, tuple[Round, ...]] = {
        "alice": (Round(300 * MS_NS, 3 * S_NS),),
        "bob": (Round(0, 3 * S_NS), Round(300 * MS_NS, 3 * S_NS), Round(0, 3 * S_NS)),
    }
    trial = Trial("fixed-value", clients, (cut,), options=OPTIONS)
    with trials():
        assert found(run_trial(trial), "overlap")
        scenario = scenarios_of(trial, "overlap", command="lab search")[0]
    (cut_in_tracks,) = scenario.tracks["faults"]
    assert cut_in_tracks.until is not None
    assert (cut_in_tracks.until.track, cut_in_tracks.until.event) == ("bob", "acquire invoke")
    assert cut_in_tracks.until.after_ns >= 100 * MS_NS
    see_replays(scenario, "overlap", tmp_path)


@pytest.mark.full
def test_luck_is_taken_out_by_leaving_one_majority() -> None:
    """Without its last cut the trial depends on who answers first; it is found again, or one like it."""
    always = decode(COUNTERS.read_bytes())
    lucky = replace(always, faults=always.faults[:1])

    def count(trial: Trial, least: int) -> int:
        variants = (trial, *(variant(trial, number) for number in range(1, VARIANTS)))
        return sum(found(run_trial(each), "fence-order") for each in variants)

    with trials():
        assert count(always, 0) == VARIANTS
        assert count(lucky, 0) < VARIANTS
        sure = pinned(lucky, count, VARIANTS)
        assert sure is not None
        assert count(sure, 0) == VARIANTS


def test_the_corpus_is_there() -> None:
    assert len(CORPUS) >= 5


def lab(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", "search", *words],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--lock", "redlok"), "lock.name"),
        (("--lock", "redlock", "--find", "ovrlap"), "--find"),
        (("--lock", "redlock", "--faults", "cut,jmp"), "--faults"),
        (("--lock", "redlock", "--budget", "60"), "--budget"),
        (("--lock", "redlock", "--nodes", "0"), "--nodes"),
        (("--lock", "redlock", "--clients", "1"), "--clients"),
        (("--lock", "redlock", "--strategy", "clever"), "--strategy"),
        (("--lock", "redlock", "--confirm", "dokcer"), "--confirm"),
    ],
)
def test_bad_arguments_are_one_clear_error(words: tuple[str, ...], option: str) -> None:
    with pytest.raises(LabError) as error:
        call(["search", *words])
    assert error.value.exit_code == 2
    assert error.value.where == option


def test_where_nothing_can_be_confirmed_nothing_is_searched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-engine")
    monkeypatch.setattr(Search, "run", lambda self: pytest.fail("it was searched"))
    with pytest.raises(LabError) as error:
        call(["search", "--lock", "redlock", "--confirm", "docker"])
    assert (error.value.exit_code, error.value.where) == (2, "--confirm")
    assert "engine" in error.value.seen


@pytest.mark.full
def test_the_command_finds_and_saves(tmp_path: Path) -> None:
    file = tmp_path / "found.yaml"
    words = (
        "--lock",
        "fixed-value",
        "--faults",
        "cut",
        "--ttl",
        "2s",
        "--schedules",
        "300",
        "--budget",
        "1h",
    )
    size = ("--nodes", "1", "--clients", "3", "--seed", "0")
    ended = lab(*words, *size, "--out", str(file), "--confirm", "sim", "--repeat", "1", cwd=tmp_path)
    assert ended.returncode == 1, ended.stderr
    assert "overlap: FOUND, reproduced in 8 of 8 replays on sim\n" in ended.stdout
    assert "sim: run 1 of 1: " in ended.stderr, "whatever it is confirmed on, it is run there as by hand"
    scenario = load_text(file.read_text(), "found").scenario
    assert scenario.lock.name == "fixed-value"
    assert scenario.why.endswith("Replayed in simulation: reproduced with each of 8 seeds.")


@pytest.mark.full
@pytest.mark.parametrize("replays", [True, False])
def test_whether_the_scenario_comes_out_as_the_search_saw_it_is_said(
    replays: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    """A search found a scenario, or a race of packets, of which a scenario in steps shows none."""
    jump = timed_fault(Jump, on("alice", "granted"), nodes=("C",), by_ns=11 * S_NS)
    cut = timed_fault(Cut, at_start(), "alice", ("D", "E"))
    thrice = tuple(Round(think_ns * MS_NS, 3 * S_NS) for think_ns in (300, 0, 0))
    disturbed, race = (
        Trial(
            "redlock",
            {"alice": (Round(0, 3 * S_NS),), "bob": (Round(S_NS, S_NS),)},
            (cut, jump),
            options=OPTIONS,
        ),
        Trial("redlock-counter", {"alice": thrice, "bob": thrice[:2]}, options=OPTIONS, seed=630),
    )
    trial, finding = (disturbed, "overlap") if replays else (race, "fence-order")
    with trials():
        assert found(run_trial(trial), finding)
    ended = Ended(First(1, 0.0, trial), trial, racy=False, progress=Progress())
    monkeypatch.setattr(Search, "run", lambda self: ended)
    words = ["search", "--lock", trial.lock, "--find", finding, "--out", str(tmp_path / "found.yaml")]
    assert call([*words, "--json"]) == 1
    reported = msgspec.json.decode(capfdbinary.readouterr().out)
    assert reported["replays"] is replays
    seeds = reported["replayed"]["reproduced_with_seeds"]
    assert reported["replayed"]["of"] == REPLAYS
    assert (len(seeds) == REPLAYS) is replays
    assert call(words) == 1
    said = capfdbinary.readouterr().out.decode()
    assert (f"reproduced in {REPLAYS} of {REPLAYS} replays on sim" in said) is replays
    assert (f"FOUND, but reproduced in only {len(seeds)} of {REPLAYS} replays on sim" in said) is not replays
    why = load_text((tmp_path / "found.yaml").read_text(), "found").scenario.why
    assert ("reproduced with each of" in why) is replays
    assert (f"reproduced with only {len(seeds)} of {REPLAYS} seeds" in why) is not replays


@pytest.mark.full
def test_the_command_tells_that_nothing_was_found(tmp_path: Path) -> None:
    ended = lab("--lock", "redlock", "--faults", "cut", "--schedules", "20", "--budget", "1h")
    assert ended.returncode == 0
    assert "overlap: not found" in ended.stdout
    assert "20 schedules" in ended.stdout


@pytest.mark.full
@pytest.mark.parametrize("seed", range(15))
def test_from_what_the_minimiser_leaves_nothing_can_be_deleted(seed: int) -> None:
    """For any violation: here one that needs some kinds of faults at some places, and one client."""
    random = Random(seed)
    trial = draw_trial(RandomDraw(random), space("redlock", KINDS, clients=3), "guided")
    every = {
        (fault.step.KEY, place)
        for fault in trial.faults
        for place in (nodes_of(fault) or (client_of(fault),))
    }
    needed = set(random.sample(sorted(every), min(3, len(every))))
    client = random.choice(sorted(trial.clients))

    def violates(trial: Trial) -> bool:
        there = {
            (fault.step.KEY, place)
            for fault in trial.faults
            for place in (nodes_of(fault) or (client_of(fault),))
        }
        return needed <= there and client in trial.clients

    small = minimise(trial, violates)
    assert violates(small)
    assert not any(
        violates(smaller) for smaller in deletions(small) if smaller.clients.keys() < small.clients.keys()
    )
    assert not any(violates(smaller) for smaller in deletions(small) if places(smaller) < places(small))


@pytest.mark.full
def test_a_pause_is_told_and_replays(tmp_path: Path) -> None:
    pause = timed_fault(Pause, on("alice", "write invoke"), "alice", lasts_ns=2500 * MS_NS)
    clients: dict[str, tuple[Round, ...]] = {"alice": (Round(0, 0),), "bob": (Round(2200 * MS_NS, 0),)}
    trial = Trial("redlock", clients, (pause,), options=OPTIONS, ttl_ns=2 * S_NS)
    with trials():
        scenario = scenarios_of(trial, "stale-write", command="lab search")[0]
    assert "Alice is paused." in scenario.why
    file = tmp_path / "told.yaml"
    file.write_text(text_of(scenario))
    replayed = run_in_simulation(str(file), 1, tmp_path)
    assert not replayed.mismatches
    assert replayed.verdict.named("stale-write")
