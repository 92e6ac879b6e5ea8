"""Many runs in virtual time, in worker processes: they share servers and drivers, and leave none behind."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from lab.batch.item import Item
from lab.batch.one_run import Workers, run_one
from lab.batch.row import Row
from lab.errors import ExitCode
from tests.lab_process import Lab, alive, below
from tests.local.copied import COPIED, provide_copied
from tests.local.test_virtual import REDIS_PY

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="virtual time is for Linux")

ON_ONE_NODE = ("cluster.nodes=1", "lock.options={}", f"cluster.server={COPIED}")
OF_REDIS_PY = Item(
    "healthy/redis-py/virtual", "healthy", REDIS_PY, "virtual", (f"lock.name={REDIS_PY}", *ON_ONE_NODE)
)
OF_SOMEBODY = msgspec.structs.replace(
    OF_REDIS_PY,
    id="healthy/somebody/virtual",
    lock="lab.locks.redlock:Redlock",
    settings=("lock.name=lab.locks.redlock:Redlock", f"cluster.server={COPIED}"),
)
SUITE = f"""
title: two locks in virtual time
cases:
  - {{scenarios: healthy, on: virtual, repeat: 2}}
  - {{scenarios: healthy, on: virtual, locks: "{REDIS_PY}", set: ["cluster.nodes=1", "lock.options={{}}"]}}
"""


@pytest.fixture(scope="module", autouse=True)
def _copied() -> None:
    provide_copied()


def history(row: Row) -> bytes:
    assert row.as_expected, row.reasons
    return (Path(str(row.directory)) / "history.jsonl").read_bytes()


def servers() -> list[int]:
    return [pid for pid, command in below(os.getpid()).items() if "redis-server" in command]


async def test_runs_share_one_worker_and_its_servers(tmp_path: Path) -> None:
    alone = history(await run_one(OF_REDIS_PY, 1, tmp_path))
    async with Workers() as workers:
        for _ in range(3):
            assert history(await run_one(OF_REDIS_PY, 1, tmp_path, workers=workers)) == alone
        assert workers.shared.started == 1
        kept = servers()
        assert len(kept) == 2, "of the node and the store, one stands still for each"
        assert (await run_one(OF_REDIS_PY, 2, tmp_path, workers=workers)).as_expected
        assert servers() == kept
        await run_one(OF_SOMEBODY, 1, tmp_path, workers=workers)
        assert servers() == kept, "what somebody's class leaves behind is not known"
    assert alive(kept) == []


async def test_a_worker_that_is_killed_costs_one_run(tmp_path: Path) -> None:
    async with Workers() as workers:
        assert (await run_one(OF_REDIS_PY, 1, tmp_path, workers=workers)).as_expected
        before = servers()
        (worker,) = workers.shared.pids
        os.kill(worker, signal.SIGKILL)
        lost = await run_one(OF_REDIS_PY, 2, tmp_path, workers=workers)
        assert lost.exit_code == ExitCode.UNKNOWN
        assert lost.reasons == ("its process ended: SIGKILL",)
        assert alive(before) == [], "they do not notice that it is gone"
        assert (await run_one(OF_REDIS_PY, 2, tmp_path, workers=workers)).as_expected
        assert workers.shared.started == 2


def test_a_suite_leaves_nothing_running(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(SUITE)
    run = lab("suite", "mine.yaml")
    assert run.code == 0, run.out + run.err
    assert "2 of 2 as expected" in run.out
    lab.wait_until_nothing_runs()


def test_a_campaign_leaves_nothing_running(lab: Lab) -> None:
    settings = [word for each in OF_REDIS_PY.settings for word in ("--set", each)]
    run = lab("campaign", "healthy", *settings, "--seeds", "1:4", "--jobs", "2")
    assert run.code == 0, run.out + run.err
    lab.wait_until_nothing_runs()
