"""Runs in virtual time that share processes: the same bytes as alone, and nothing left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.drivers import PREFIX
from lab.drivers.environment import why_not
from lab.errors import ExitCode
from lab.paths import STATE_VARIABLE
from lab.processes import RUN_VARIABLE, processes_of
from lab.run import many_runs, run
from lab.run.request import RunRequest
from lab.run.result import RunResult
from lab.shims import virtual_time
from lab.substrates.cleanup import sweep
from lab.substrates.interruption import Interrupted
from lab.substrates.virtual import drivers, session
from lab.substrates.virtual.machine import RealMachine
from lab.substrates.virtual.process import RealProcess
from lab.substrates.virtual.session import SESSION
from lab.substrates.virtual.template import Template
from tests.local.copied import COPIED, provide_copied
from tests.local.test_virtual import REDIS_PY, history_of
from tests.local.test_virtual import run_virtually as run_on_the_default

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="virtual time is for Linux"),
    pytest.mark.usefixtures("_patched", "_copied"),
]

WITH_DRIVER = (f"lock.name={REDIS_PY}", "cluster.nodes=1", "lock.options={}")
Wanted = tuple[str, int, tuple[str, ...]]
RUNS: tuple[Wanted, ...] = (
    ("healthy", 1, ()),
    ("healthy", 2, ()),
    ("healthy", 1, WITH_DRIVER),
    ("partition-clockjump", 1, ()),
    ("clock-jump-client", 1, ()),
    ("power-cut-everysec", 1, ()),
    ("restart-no-persistence", 1, ()),
    ("gc-pause-after-acquire", 1, WITH_DRIVER),
    ("client-crash", 1, WITH_DRIVER),
    ("failover-race", 1, ()),
)
"""Each way in which a fault reaches a process: it is stopped, killed, cut off, a replica, set forward."""


@pytest.fixture(scope="module")
def _copied() -> None:
    provide_copied()


def run_virtually(name: str, out: Path, *settings: str, seed: int = 1) -> RunResult:
    """Run a scenario on servers that can be copied."""
    return run_on_the_default(name, out, *settings, f"cluster.server={COPIED}", seed=seed)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[RealProcess]]:
    """The programs that were started."""
    found: list[RealProcess] = []
    launch = RealMachine.launch

    def noted(self: RealMachine, *words: object, **options: object) -> RealProcess:
        found.append(launch(self, *words, **options))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(RealMachine, "launch", noted)
    yield found
    assert [process.label for process in found if process.popen.poll() is None] == []


@pytest.mark.full
def test_histories_are_the_same_whatever_ran_before(tmp_path: Path) -> None:
    def history(wanted: Wanted) -> bytes:
        name, seed, settings = wanted
        return history_of(run_virtually(name, tmp_path, *settings, seed=seed))

    alone = {wanted: history(wanted) for wanted in RUNS}
    assert len(set(alone.values())) == len(RUNS)
    with many_runs():
        for row in (RUNS, RUNS[::-1], (*RUNS[::2], *RUNS[1::2])):
            for wanted in row:
                assert history(wanted) == alone[wanted], wanted


@pytest.mark.full
@pytest.mark.parametrize("library", ["redlock-py", "aioredlock", "npm-redlock", "npm-redlock-5"])
def test_libraries_repeat_byte_for_byte(library: str, tmp_path: Path) -> None:
    reason = why_not(library)
    if reason is not None:
        pytest.skip(reason)
    settings = (f"lock.name={PREFIX}{library}", "lock.options={}")
    alone = history_of(run_virtually("healthy", tmp_path, *settings))
    with many_runs():
        for _ in range(3):
            assert history_of(run_virtually("healthy", tmp_path, *settings)) == alone
            run_virtually("delayed-replies", tmp_path, *settings)


def test_processes_are_used_again(tmp_path: Path, launched: list[RealProcess]) -> None:
    with many_runs():
        before = set(
            processes_of(SESSION.run_id)
        )  # a run of an earlier file may have left some to be used again
        for seed in (1, 2, 3):
            result = run_virtually("healthy", tmp_path, *WITH_DRIVER, seed=seed)
            assert result.exit_code is ExitCode.EXPECTED
            names = ("node-A", "store", "client-alice", "client-bob")
            logs = [(result.directory / "logs" / f"{name}.log").read_text() for name in names]
            assert logs[0].count("Server initialized") == 1
            assert logs[0].count("ready to accept connections") == 1, "of this run alone"
            assert logs[2:] == ["", ""], "redis-py says nothing"
        assert len(launched) <= 4, "and not four for each run"
        new = set(processes_of(SESSION.run_id)) - before
        assert len(new) == len(launched), "no copy outlives its run"
        scratch = SESSION.conductor.scratch
    assert processes_of(SESSION.run_id) == []
    assert not scratch.exists()


@pytest.mark.full
@pytest.mark.parametrize("library", ["redlock-py", "npm-redlock"])
def test_a_driver_whose_acquire_never_ended_is_used_again(
    library: str, tmp_path: Path, launched: list[RealProcess]
) -> None:
    """Both wait for ever for a node that they cannot reach; the connections break when the run is over."""
    reason = why_not(library)
    if reason is not None:
        pytest.skip(reason)
    settings = (f"lock.name={PREFIX}{library}", "lock.options={}")
    names = ("partition-clockjump", "healthy", "partition-clockjump", "healthy")
    alone = {name: history_of(run_virtually(name, tmp_path, *settings)) for name in dict.fromkeys(names)}
    launched.clear()
    with many_runs():
        for name in names:
            assert history_of(run_virtually(name, tmp_path, *settings)) == alone[name]
    assert [process.label for process in launched].count("client-alice") == 1


@pytest.mark.full
def test_a_driver_that_goes_on_in_a_stream_of_its_own_is_started_anew(
    tmp_path: Path, launched: list[RealProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM's next token would be another one than that of a new JVM."""
    monkeypatch.setattr(drivers, "DRAW_ANEW", ("another program",))
    with many_runs():
        for _ in range(2):
            run_virtually("healthy", tmp_path, *WITH_DRIVER)
    assert [process.label for process in launched].count("client-alice") == 2
    assert [process.label for process in launched].count("node-A") == 1


def test_a_run_alone_shares_nothing(tmp_path: Path, launched: list[RealProcess]) -> None:
    for _ in range(2):
        run_virtually("healthy", tmp_path, *WITH_DRIVER)
        assert [process.label for process in launched if process.popen.poll() is None] == []
    assert len(launched) == 8


def test_a_server_whose_files_or_socket_changed_is_started_anew(
    tmp_path: Path, launched: list[RealProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, Template] = {}
    add = SESSION.add_template

    def noted(program: object, template: Template) -> None:
        kept[template.process.label] = template
        add(program, template)  # type: ignore[arg-type]

    monkeypatch.setattr(SESSION, "add_template", noted)
    alone = history_of(run_virtually("healthy", tmp_path))
    launched.clear()
    with many_runs():
        run_virtually("healthy", tmp_path)
        assert len(launched) == 6
        aof = kept["node-A"].disk.directory / "appendonly.aof"
        opens_first = aof.exists()  # before Redis 7, a server opens it before it stands still
        if opens_first:
            other = aof.with_name("other")
            other.write_bytes(aof.read_bytes())
            other.replace(aof)
        unknown = kept["node-B"].disk.directory / "unknown"
        unknown.write_text("a file that a server has left there")
        kept["node-C"].socket.unlink()
        kept["node-D"].process.end()
        given_up = kept["node-C"].process
        launched.clear()
        assert history_of(run_virtually("healthy", tmp_path)) == alone
        anew = {process.label for process in launched}
        assert not unknown.exists()
        assert given_up.popen.poll() is not None
    assert anew == {"node-C", "node-D", *(("node-A",) if opens_first else ())}


def test_what_an_epoll_looks_at_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a copy has registered goes with its descriptors; if something stayed, it is not copied again."""
    results: list[bool] = []
    reset = Template.reset

    def noted(self: Template) -> bool:
        results.append(reset(self))
        return results[-1]

    monkeypatch.setattr(Template, "reset", noted)
    with many_runs():
        run_virtually("healthy", tmp_path)
        run_virtually("healthy", tmp_path)
        assert results == [True] * 6
        monkeypatch.setattr("lab.substrates.virtual.template._shown", lambda epolls: ("another",))
        run_virtually("healthy", tmp_path)
    assert results[6:] == [False] * 6


def test_a_run_that_is_interrupted_or_fails_costs_all_processes(
    tmp_path: Path, launched: list[RealProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = history_of(run_virtually("healthy", tmp_path, *WITH_DRIVER))
    launched.clear()
    give = RealMachine.give
    sent: list[int] = []

    def interrupting(self: RealMachine, act: object) -> None:
        if self.host.name == "alice" and not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGINT)
        give(self, act)  # type: ignore[arg-type]

    with many_runs():
        run_virtually("healthy", tmp_path, *WITH_DRIVER)
        monkeypatch.setattr(RealMachine, "give", interrupting)
        with pytest.raises(Interrupted):
            run_virtually("healthy", tmp_path, *WITH_DRIVER)
        assert [process.label for process in launched if process.popen.poll() is None] == []
        assert processes_of(SESSION.run_id) == []
        monkeypatch.setattr(RealMachine, "give", give)
        assert history_of(run_virtually("healthy", tmp_path, *WITH_DRIVER)) == alone


def test_a_process_that_the_lab_does_not_know_of_is_ended_as_well(tmp_path: Path) -> None:
    """One that a run has just started when it is interrupted."""
    with many_runs():
        run_virtually("healthy", tmp_path)
        marked = {**os.environ, RUN_VARIABLE: SESSION.run_id}
        with subprocess.Popen(["sleep", "60"], env=marked) as unknown:
            SESSION.discard()
            assert unknown.wait() == -signal.SIGKILL


@pytest.mark.full
def test_a_server_that_dies_unasked_costs_the_drivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = history_of(run_virtually("healthy", tmp_path, *WITH_DRIVER))
    give = RealMachine.give

    def murderous(self: RealMachine, act: object) -> None:
        if self.host.name == "A" and self.world.now_ns > 20_000_000 and self.processes:
            os.kill(self.processes[0].popen.pid, signal.SIGKILL)
        give(self, act)  # type: ignore[arg-type]

    with many_runs():
        run_virtually("healthy", tmp_path, *WITH_DRIVER)
        started = SESSION.started
        with monkeypatch.context() as patched:
            patched.setattr(RealMachine, "give", murderous)
            result = run_virtually("healthy", tmp_path, *WITH_DRIVER)
            assert result.exit_code is ExitCode.UNKNOWN
        assert history_of(run_virtually("healthy", tmp_path, *WITH_DRIVER)) == alone
        assert SESSION.started == started + 2


KILLED = """
import sys
from pathlib import Path
from lab.run import many_runs, run
from lab.run.request import RunRequest
from lab.substrates.virtual.session import SESSION
with many_runs():
    server = ("cluster.server=redis@6.2",)
    run(RunRequest("healthy", server, seed=1, substrate="virtual", out=Path(sys.argv[1])))
    print(SESSION.run_id, SESSION.conductor.scratch, flush=True)
    sys.stdin.read()
"""


def test_a_lab_that_is_killed_between_two_runs_leaves_nothing_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as lab:
        assert lab.stdout is not None
        run_id, scratch = lab.stdout.readline().split()
        assert len(processes_of(run_id)) == 6
        lab.kill()
    sweep()
    assert processes_of(run_id) == []
    assert not Path(scratch).exists()


def test_contexts_may_be_nested_and_other_substrates_are_not_touched(tmp_path: Path) -> None:
    with many_runs():
        with many_runs():
            run_virtually("healthy", tmp_path)
        assert SESSION.is_open
        result = run(RunRequest("healthy", seed=1, substrate="sim", out=tmp_path / "sim"))
        assert result.exit_code is ExitCode.EXPECTED
    assert not SESSION.is_open


def test_where_servers_cannot_be_copied_each_run_starts_its_own(
    tmp_path: Path, launched: list[RealProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "can_copy", lambda: False)
    with many_runs():
        first, second = (history_of(run_virtually("healthy", tmp_path)) for _ in range(2))
        assert not SESSION.is_open
    assert first == second
    assert len(launched) == 2 * (5 + 1), "five nodes and the store"


def test_servers_cannot_be_copied_where_the_kernel_does_not_know_what_it_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(virtual_time, "_PR_GET_TID_ADDRESS", 2**31 - 1)
    assert not virtual_time.can_copy()
