"""Many clients, and a long time: on demand, since both take minutes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab_process import Lab, children_of

pytestmark = pytest.mark.slow
CLIENTS = 500
SOAK = "10m"
GROWTH_MAX_BYTES = 64 << 20


@pytest.mark.timeout(1800)
def test_five_hundred_clients(lab: Lab, tmp_path: Path) -> None:
    names = [f"client-{number}" for number in range(CLIENTS)]
    steps = [{"do": f"{name} works"} for name in names]
    story = {
        "title": "Many clients",
        "source": "a test",
        "why": "There is no number of clients that the lab is made for.",
        "lock": {"name": "redlock", "ttl": "10s", "options": {"node_timeout": "5s"}},
        "clients": names,
        "steps": steps,
        "expect": {"mutual_exclusion": "ok", "resource": "ok"},
    }
    (tmp_path / "many.yaml").write_text(json.dumps(story))
    run = lab("run", "many.yaml", "--on", "sim", "--picture", "unexpected")
    assert run.code == 0, run.out + run.err
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
    lab.wait_for_event("acquire")
    sizes: list[int] = []
    while process.poll() is None:
        try:
            process.wait(10)
        except Exception:  # noqa: BLE001 - it is still at it
            sizes.append(resident_bytes(process.pid))
    run = lab.ended(process)
    assert run.code in (0, 1, 3), run.err
    assert "Traceback" not in run.err
    assert children_of(process.pid) == {}
    middle, last = sizes[len(sizes) // 2], sizes[-2]
    assert last - middle < GROWTH_MAX_BYTES
