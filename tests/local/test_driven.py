"""Trials with drivers: used again where as good as new, ended where not; the same trial, the same history."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lab.cli.app import call
from lab.drivers import PREFIX
from lab.drivers.environment import why_not
from lab.errors import LabError, UnknownOutcome
from lab.examine.answer.keep import keep
from lab.examine.answer.narrative import narrate
from lab.examine.answer.on_real import run_on_real
from lab.examine.command import Asked, examine
from lab.examine.kinds import READ_WRITE, SEMAPHORE
from lab.examine.ledger.naming import causes_of
from lab.examine.profile.learn import _must_work, learn
from lab.examine.profile.probes import NotShown, Probes
from lab.examine.programs import Setting
from lab.examine.result import Examined, OnReal
from lab.examine.schedules.anchored import SECOND_TASK, bases
from lab.examine.schedules.beyond import fast_clocks
from lab.examine.violations.judge import violations
from lab.faults.client_crash import ClientCrash
from lab.faults.cut import Cut
from lab.faults.drift import Drift
from lab.faults.pause import Pause
from lab.locks.base import Indeterminate, Lease
from lab.locks.capacity import Capacity
from lab.locks.single import Single
from lab.paths import STATE_VARIABLE
from lab.processes import processes_of
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start, on
from lab.search.faults import timed_fault
from lab.search.loop import Budget
from lab.search.runner import Outcome, run_trial, trials
from lab.search.trial import Round, Trial
from lab.shims.virtual_time import VirtualTime
from lab.substrates.virtual.one_cpu import OneCpu
from lab.substrates.virtual.process import RealProcess
from lab.substrates.virtual.session import SESSION
from tests.local.test_virtual import REDIS_PY

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="virtual time is for Linux"),
    pytest.mark.usefixtures("_patched"),
]

MS_NS, S_NS = 10**6, 10**9
TOY = Path(__file__).with_name("toy_driver.py")
Clients = dict[str, tuple[Round, ...]]
TURNS: Clients = {"alice": (Round(0, 200 * MS_NS),), "bob": (Round(500 * MS_NS, 200 * MS_NS),)}
AT_ONCE: Clients = {"alice": (Round(0, 200 * MS_NS),), "bob": (Round(50 * MS_NS, 200 * MS_NS),)}


def toy(mode: str) -> str:
    return shlex.join([sys.executable, str(TOY), mode])


def trial(lock: str, clients: Clients = TURNS, **more: Any) -> Trial:
    return Trial(lock, clients, nodes=more.pop("nodes", 1), ttl_ns=5 * S_NS, **more)


def reported(outcome: Outcome, f: str = "acquire") -> list[tuple[str, str]]:
    """How the calls of an operation ended."""
    return [
        (event["process"], event["type"])
        for event in outcome.events
        if event["f"] == f and event["type"] != "invoke"
    ]


def without_times(examined: Examined) -> Examined:
    """The result of an examination, apart from how long it took."""
    defects = tuple(replace(defect, seconds=0.0) for defect in examined.defects)
    return replace(examined, seconds=0.0, defects=defects)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RealProcess]]:
    """The drivers that were kept for a later trial, inside ``trials``."""
    found: list[RealProcess] = []
    keep = SESSION.keep

    def noting(client: str, process: RealProcess) -> None:
        found.append(process)
        keep(client, process)

    monkeypatch.setattr(SESSION, "keep", noting)
    monkeypatch.setattr(SESSION, "started", 0)
    with trials():
        yield found


def test_a_driver_that_closes_is_used_again(kept: list[RealProcess]) -> None:
    outcomes = [run_trial(trial(toy("closes"), seed=seed)) for seed in (1, 2, 1)]
    assert [reported(outcome) for outcome in outcomes] == [[("alice", "ok"), ("bob", "ok")]] * 3
    assert (SESSION.started, len(kept)) == (2, 6)
    assert len({process.popen.pid for process in kept}) == 2
    assert outcomes[0].digest() == outcomes[2].digest(), "as by a driver that was started anew"
    assert outcomes[0].digest() != outcomes[1].digest()


@pytest.mark.parametrize(("mode", "overlap"), [("claims-all", True), ("keeps-margin", False)])
def test_the_margin_of_a_driver_is_what_it_does_not_claim(mode: str, overlap: bool) -> None:
    with trials():
        found = [
            name for fast in fast_clocks(Setting(toy(mode), {}, 1)) for name in violations(run_trial(fast))
        ]
    assert ("overlap" in found) == overlap


def test_a_driver_that_waits_for_a_moment_yet_is_used_again(kept: list[RealProcess]) -> None:
    for seed in (1, 2):
        run_trial(trial(toy("closes-late"), seed=seed))
    assert SESSION.started == 2


def test_a_driver_that_says_that_leases_are_lost_is_used_again(kept: list[RealProcess]) -> None:
    """Also of one that it says after it has closed, as a library does whose renewal ends by that."""
    for seed in (1, 2):
        run_trial(trial(toy("closes-losing"), seed=seed))
    assert SESSION.started == 2


def test_the_rate_of_a_drivers_wall_clock_is_a_cause() -> None:
    """With the true time nothing is wrong: a process counts by the rate that it was told."""
    slow = timed_fault(Drift, at_start(), client="alice", ppm=-500_000)
    drifting = trial(toy("closes-by-wall-clock"), {"alice": (Round(0, 3 * S_NS),)}, faults=(slow,))
    with trials():
        (cause,) = causes_of(drifting, "false-validity")
    assert cause.kind == "wall-clock"


@pytest.mark.parametrize(
    ("mode", "why"), [("good", "it knows no close"), ("closes-never", "a thread of it waits for ever")]
)
def test_a_driver_that_is_not_as_good_as_new_is_started_anew(
    mode: str, why: str, kept: list[RealProcess]
) -> None:
    for seed in (1, 2):
        assert reported(run_trial(trial(toy(mode), seed=seed))) == [("alice", "ok"), ("bob", "ok")]
    assert (SESSION.started, kept) == (4, []), why


@pytest.mark.parametrize(
    ("lock", "fault", "ended", "started"),
    [
        (toy("closes"), timed_fault(ClientCrash, on("alice", "granted"), client="alice"), "ok", 3),
        (toy("closes"), timed_fault(Pause, on("alice", "granted"), client="alice"), "ok", 2),
        (toy("closes"), timed_fault(Cut, at_start(), client="alice", nodes=("A",)), "info", 2),
    ],
)
def test_a_driver_of_a_client_that_was_hit_is_used_again_if_it_lives(
    lock: str, fault: Timed, ended: str, started: int, kept: list[RealProcess]
) -> None:
    """One that waits for a silent node loses its connections, and is waited for."""
    hit = trial(lock, faults=(fault,), options={"answer_within": "2s"})
    first = run_trial(hit)
    assert ("alice", ended) in reported(first)
    assert reported(run_trial(trial(lock))) == [("alice", "ok"), ("bob", "ok")]
    assert SESSION.started == started
    assert run_trial(hit).digest() == first.digest()


@pytest.mark.parametrize(("refused", "took_ms"), [(True, 0), (False, 300)])
def test_a_driver_is_refused_connections_until_the_link_is_healed(
    refused: bool, took_ms: int, kept: list[RealProcess]
) -> None:
    """The toy says no if it cannot connect, and waits on a connection that is silent until that breaks."""
    cut = timed_fault(Cut, at_start(), "alice", ("A",), lasts_ns=300 * MS_NS, refused=refused)
    clients: Clients = {"alice": (Round(0, 0), Round(S_NS, 0))}
    outcome = run_trial(trial(toy("closes"), clients, faults=(cut,)))
    assert reported(outcome) == [("alice", "fail"), ("alice", "ok")]
    asked, answered = [event for event in outcome.events if event["process"] == "alice"][:2]
    assert (answered["time_ns"] - asked["time_ns"]) / MS_NS == pytest.approx(took_ms, abs=2)
    assert ("Connection refused" in answered["error"]) == refused


def test_a_driver_that_dies_ends_no_more_than_its_operation(kept: list[RealProcess]) -> None:
    outcome = run_trial(trial(toy("dies")))
    assert reported(outcome) == [("alice", "info"), ("bob", "info")]
    assert [failure.f for failure in outcome.failures] == ["acquire", "acquire"]
    assert outcome.failures[0].error == "the driver ended by itself (exit code 3)"
    assert kept == []


def test_a_driver_that_does_not_answer_leaves_the_outcome_open(kept: list[RealProcess]) -> None:
    options: dict[str, Any] = {"answer_within": "2s"}
    outcome = run_trial(trial(toy("mute"), options=options))
    assert reported(outcome) == [("alice", "info"), ("bob", "info")]
    asked, open_end = (event["time_ns"] for event in outcome.events[:3:2] if event["process"] == "alice")
    assert open_end - asked == pytest.approx(2 * S_NS, abs=MS_NS)
    assert kept == [], "it owes an answer"


def test_a_driver_that_computes_without_end_when_it_closes_is_ended(
    kept: list[RealProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VirtualTime.settle, "__defaults__", (0.5,))
    assert reported(run_trial(trial(toy("closes-spinning")))) == [("alice", "ok"), ("bob", "ok")]
    assert kept == []


def test_a_key_is_looked_for_under_the_name_that_the_driver_gives(kept: list[RealProcess]) -> None:
    """Where a lease's token lies is told, and guides a search."""
    lock = trial(toy("elsewhere"))
    outcome = run_trial(lock, watch=True)
    granted = [event for event in outcome.events if (event["f"], event["type"]) == ("acquire", "ok")]
    assert [event["_nodes"] for event in granted] == [["A"], ["A"]]
    assert [line for line in narrate(lock, "overlap") if "is on no node" in line] == []
    assert outcome.eroded == 0


def test_a_search_and_its_drivers_have_a_cpu_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    before = os.sched_getaffinity(0)
    with trials():
        run_trial(trial(toy("closes")))
        own = os.sched_getaffinity(0)
        assert len(own) == 1
        assert [os.sched_getaffinity(pid) for pid in processes_of(SESSION.run_id)] == [own, own]
        other = OneCpu()
        assert os.sched_getaffinity(0) == own, "no other is left to this thread"
        other.close()
        assert os.sched_getaffinity(0) == own
    assert os.sched_getaffinity(0) == before


def test_nothing_is_left_of_a_search() -> None:
    with trials():
        run_trial(trial(toy("closes")))
        run_id = SESSION.run_id
        assert len(processes_of(run_id)) == 2
    assert processes_of(run_id) == []


def repeats(lock: str, nodes: int) -> None:
    """The same trials, in another order, by used drivers: the same histories."""
    chosen = [trial(lock, clients, nodes=nodes, seed=seed) for clients in (TURNS, AT_ONCE) for seed in (1, 2)]
    with trials():
        first = [run_trial(each).digest() for each in chosen]
        assert [run_trial(each).digest() for each in reversed(chosen)] == first[::-1]
    assert len(set(first)) == len(first)


def test_a_library_repeats() -> None:
    repeats(REDIS_PY, 1)


@pytest.mark.parametrize("library", ["redis-py", "symfony-lock", "php-lock", "npm-redlock"])
def test_a_library_that_has_nothing_to_do_for_minutes_is_there_afterwards(library: str) -> None:
    reason = why_not(library)
    if reason is not None:
        pytest.skip(reason)
    clients: Clients = {"alice": (Round(0, S_NS), Round(150 * S_NS, S_NS)), "bob": ()}
    outcome = run_trial(trial(f"{PREFIX}{library}", clients, horizon_ns=200 * S_NS))
    assert reported(outcome) == [("alice", "ok")] * 2


@pytest.mark.full
@pytest.mark.parametrize("library", ["redlock-py", "npm-redlock", "npm-redlock-5"])
def test_libraries_on_five_nodes_repeat(library: str) -> None:
    reason = why_not(library)
    if reason is not None:
        pytest.skip(reason)
    repeats(f"{PREFIX}{library}", 5)


@pytest.mark.full
def test_lab_test_finds_what_is_wrong_with_a_driver_and_real_redis_confirms_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A budget counts looks at it here, and not seconds."""

    def counting(seconds: float, _: Callable[[], float]) -> Budget:
        return Budget(seconds, count().__next__, lambda: 0.0)

    monkeypatch.setattr("lab.examine.command.Budget", counting)
    alone, together = (examine(Asked(toy("shares"), budget="400s", jobs=jobs, repeat=1)) for jobs in (1, 2))
    assert without_times(together) == without_times(alone), "for any number of processes"
    examined, asked = alone, Asked(toy("shares"), budget="400s", repeat=1)
    assert examined.defects[0].findings[0] == "overlap"
    assert "cancelled attempts: this driver has no `cancel`" in examined.not_tried
    first = replace(examined, defects=examined.defects[:1])
    kept = keep(first, tmp_path, command="lab test", pictures=False)
    run_on_real(kept, asked, 60.0)
    real = kept.examined.defects[0].real
    assert real is not None
    assert real == OnReal(reproduced=1, judged=1, differ=real.differ)
    (directory,) = (tmp_path / "local").glob("defect-1-*")
    assert (directory / "history.jsonl").is_file()


@pytest.mark.parametrize(
    "words",
    [
        ["test", "driver:redsync"],
        ["search", "--lock", "driver:redsync"],
        ["campaign", "--lock", "driver:redsync", "--seeds", "0:1"],
    ],
)
def test_a_driver_in_go_is_refused_with_the_reason(words: list[str]) -> None:
    with pytest.raises(LabError) as caught:
        call(words)
    assert caught.value.exit_code == 2
    assert "a program in Go calls the kernel itself" in caught.value.render()
    assert "--on local" in caught.value.render()


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("raise SystemExit(7)", "does not work: it ends, or says nothing, before it is asked"),
        ("print('debug: I am here', flush=True); input(); input()", "does not work: a line that is no JSON"),
        (f"import sys; sys.argv[1:] = ['dies']; exec(open({str(TOY)!r}).read())", r"does not work: .*code 3"),
    ],
)
def test_a_driver_that_does_not_work_is_refused_at_once(program: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "driver.py"
    path.write_text(program)
    with trials(), pytest.raises(UnknownOutcome, match=says) as caught:
        learn(Setting(shlex.join([sys.executable, str(path)]), {}, 1))
    assert "< /dev/null" in (caught.value.hint or "")


class NeverAnswers(Single):
    """A lock that is no driver, and whose acquire ends with an unknown outcome each time."""

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        raise Indeterminate(key)


@pytest.mark.parametrize("lock", [toy("closes"), toy("refuses"), f"{__name__}:NeverAnswers"])
def test_what_grants_or_refuses_or_is_no_driver_is_asked_on(lock: str) -> None:
    with trials():
        _must_work(Probes(Setting(lock, {}, 1)))


def test_a_driver_of_which_a_trial_shows_nothing_is_asked_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_shown(self: Probes) -> None:
        raise NotShown("the trial did not come to an end")

    monkeypatch.setattr(Probes, "alone", not_shown)
    with trials():
        _must_work(Probes(Setting(toy("dies"), {}, 1)))


def test_a_process_that_has_ended_needs_no_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    cpu = OneCpu()
    try:
        cpu.bind(ended.pid)
    finally:
        cpu.close()


def test_threads_are_bound_also_where_one_of_them_has_just_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    bound: list[int] = []

    def set_affinity(task: int, cpus: set[int]) -> None:
        if task == os.getpid():
            raise ProcessLookupError
        bound.append(task)

    over = threading.Event()
    threads = [threading.Thread(target=over.wait) for _ in range(2)]
    for thread in threads:
        thread.start()
    cpu = OneCpu()
    try:
        with monkeypatch.context() as patched:
            patched.setattr(os, "sched_setaffinity", set_affinity)
            cpu.bind(os.getpid())
        assert {thread.native_id for thread in threads} <= set(bound)
    finally:
        cpu.close()
        over.set()
        for thread in threads:
            thread.join()


def test_schedules_are_of_what_a_driver_says_that_it_can() -> None:
    profile = learn(Setting(toy("waits"), {}, 1))
    assert profile.can == {"cancel", "tasks"}
    assert not any(each.startswith(("cancelled", "two tasks")) for each in profile.not_tried)
    profile = learn(Setting(toy("closes"), {}, 1))
    assert profile.can == frozenset()
    assert (
        sum(each.startswith(("cancelled", "two tasks", "a lock object")) for each in profile.not_tried) == 3
    )


@pytest.mark.parametrize(
    ("mode", "capacity", "reference", "left"),
    [
        ("two-permits", Capacity(2), SEMAPHORE, "holder-1"),
        ("readers", Capacity(read_write=True), READ_WRITE, "alice"),
    ],
)
def test_of_how_many_may_hold_its_lock_a_driver_says_when_it_is_asked(
    mode: str, capacity: Capacity, reference: str, left: str
) -> None:
    """Its class cannot say it, so each trial does; the lock grants it to everybody, which is seen."""
    setting = Setting(toy(mode), {}, 1)
    kind = learn(setting).kind
    assert (kind.capacity, kind.reference) == (capacity, reference)
    asked = dataclasses.replace(setting, capacity=kind.capacity).with_clients(
        {"alice": (Round(0, S_NS),), "bob": (Round(50 * MS_NS, S_NS, reads=capacity.read_write),)}
    )
    outcome = run_trial(asked)
    assert "over-capacity" in violations(outcome)
    assert left in {event["process"] for event in outcome.events}


def test_a_cancelled_acquire_of_a_driver_ends_when_its_library_has_ended() -> None:
    """Bob waits for Alice's lock, and is cancelled: he never has it, and his next acquire is another one."""
    clients: Clients = {
        "alice": (Round(0, S_NS),),
        "bob": (Round(50 * MS_NS, 0, cancel_ns=300 * MS_NS), Round(S_NS, 100 * MS_NS)),
    }
    outcome = run_trial(trial(toy("waits"), clients), watch=True)
    ended = [
        (each["client"], each["type"], each.get("error"))
        for each in outcome.events
        if each["f"] == "acquire" and each["type"] != "invoke"
    ]
    assert ended == [("alice", "ok", None), ("bob", "info", "cancelled"), ("bob", "ok", None)]
    cancelled_ns = next(each["time_ns"] for each in outcome.events if each.get("error") == "cancelled")
    later = [each for each in outcome.commands if each.name == "SET" and each.time_ns > cancelled_ns]
    assert len(later) == 1, "its library asks on for the acquire that was cancelled"


def test_two_tasks_of_a_driver_each_have_a_lease() -> None:
    alice = Setting(REDIS_PY, {"blocking": False}, 1, can=frozenset(("tasks",)))
    found = next(each for each in bases(alice, learn(alice)) if SECOND_TASK in each.tracks)
    events = run_trial(found).events
    assert {each["process"] for each in events if each["f"] == "acquire"} >= {"alice", "alice+2"}
    assert violations(run_trial(found)) == {}


def test_one_lock_object_serves_leases_that_follow_each_other() -> None:
    one = Setting(REDIS_PY, {"blocking": False}, 1, can=frozenset(("tasks", "one-object")))
    found = [each for each in bases(one, learn(one)) if each.options.get("one_object")]
    assert found
    assert not any(SECOND_TASK in each.tracks for each in found)
    turn = Round(100 * MS_NS, 100 * MS_NS)
    clients: Clients = {"alice": (turn, turn, turn), "bob": ()}
    outcome = run_trial(trial(REDIS_PY, clients, options=dict(found[0].options)))
    assert reported(outcome) == [("alice", "ok")] * 3
    tokens = [each["token"] for each in outcome.events if each["f"] == "acquire" and each["type"] == "ok"]
    assert len(set(tokens)) == 3
