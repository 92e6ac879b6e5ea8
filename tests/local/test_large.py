"""Many clients, and a long time: on demand, since both take minutes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.run.recorder import HISTORY
from tests.lab_process import Ended, Lab, children_of

pytestmark = [pytest.mark.slow, pytest.mark.full]
CLIENTS = 500
SOAK = "10m"
GROWTH_MAX_BYTES = 64 << 20


def ended(lab: Lab, process: subprocess.Popen[str], look: Callable[[], None]) -> Ended:
    """Read what it says until its end, however long that takes, and look at it every ten seconds.

    A lab whose words nobody reads stands still as soon as the pipe is full.
    """
    while True:
        try:
            out, err = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            look()
        else:
            return Ended(process.returncode, out, err, lab.directory / "reports")


def scenario_of_many(directory: Path, wait: str) -> str:
    """The file of a scenario in which each of many clients works once."""
    names = [f"client-{number}" for number in range(CLIENTS)]
    scenario = {
        "title": "Many clients",
        "source": "a test",
        "why": "There is no number of clients that the lab is made for.",
        "lock": {"name": "redlock", "ttl": wait, "options": {"node_timeout": "5s"}},
        "clients": names,
        "steps": [{"do": f"{name} works"} for name in names],
        "expect": {"mutual_exclusion": "ok", "resource": "ok"},
    }
    (directory / "many.yaml").write_text(json.dumps(scenario))
    return "many.yaml"


@pytest.mark.timeout(1800)
def test_five_hundred_clients(lab: Lab, tmp_path: Path) -> None:
    run = lab("run", scenario_of_many(tmp_path, "10s"), "--on", "sim", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err
    acquired = [event for event in run.events if event["f"] == "acquire" and event["type"] == "ok"]
    assert len(acquired) == CLIENTS


@pytest.mark.timeout(3600)
def test_five_hundred_clients_for_real_are_a_verdict_or_an_error_and_leave_nothing(
    lab: Lab, tmp_path: Path
) -> None:
    process = lab.start("run", scenario_of_many(tmp_path, "60s"), "--on", "local", "--picture", "unexpected")
    run = ended(lab, process, lambda: None)
    assert run.code in (0, 2, 3), run.out + run.err
    assert "Traceback" not in run.err
    if run.code == 0:
        acquired = [event for event in run.events if event["f"] == "acquire" and event["type"] == "ok"]
        assert len(acquired) == CLIENTS


def resident_bytes(pid: int) -> int:
    """What a process has in memory, by the kernel's word."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) << 10


@pytest.mark.timeout(1500)
def test_a_soak_of_chaos_takes_no_more_memory_in_the_end(lab: Lab) -> None:
    process = lab.start(
        "run", "chaos", "--on", "local", "--set", f"workload.duration={SOAK}", "--picture", "unexpected"
    )
    directory = lab.wait_for_event("acquire")
    sizes: list[int] = []

    def look() -> None:
        if not (directory / HISTORY).exists():  # what the checker takes afterwards is another matter
            sizes.append(resident_bytes(process.pid))

    run = ended(lab, process, look)
    assert run.code in (0, 1, 3), run.err
    assert "Traceback" not in run.err
    assert children_of(process.pid) == {}
    middle, last = sizes[len(sizes) // 2], sizes[-2]
    assert last - middle < GROWTH_MAX_BYTES
