"""Cells and runs for the tests of matrices."""

from __future__ import annotations

from msgspec.structs import replace

from lab.batch.matrix.model import Cell, Matrix, Skipped
from lab.batch.verdicts import OneRun

WELL = {"mutual_exclusion": "ok", "fencing": "absent", "resource": "ok"}
BROKEN = {"mutual_exclusion": "violated", "fencing": "violated", "resource": "ok"}
EVIL = '<script>alert("x")</script>|*,"; & \n=1+1'


def run(code: int = 0, outcomes: dict[str, str] | None = None, **more: object) -> OneRun:
    told = OneRun("healthy", 7, code, 2.5, "lab run healthy --seed 7", outcomes=outcomes or {})
    if code == 3:
        more.setdefault("reasons", ("no receipt for cut",))
    if code == 2:
        more |= {"refused": "a TTL of 1500 ms", "reasons": ("exit code 2, error: a TTL of 1500 ms",)}
    return replace(told, **more)


def cell(scenario: str, lock: str, *runs: OneRun, **more: object) -> Cell:
    label = str(more.get("label", ""))
    name = f"{scenario}/{lock} {label}".strip() + "/sim"
    made = Cell(name, scenario, scenario, f"The story of {scenario}", lock, "sim", runs=runs)
    return replace(made, **more)


MATRIX = Matrix(
    "small",
    "A small matrix",
    (
        cell("healthy", "redlock", run(0, WELL), own=True),
        cell("healthy", "driver:pottery", run(1, BROKEN, findings=("overlap",)), label="tuned"),
        cell("jump", "redlock", run(3, {"mutual_exclusion": "unknown"})),
        cell("jump", "driver:pottery", label="tuned", why_not="a lock on one node"),
        cell("late", "driver:redlock", run(0, BROKEN), run(0, BROKEN), run(3), own=True, wanted=3),
        cell("late-control", "driver:redlock", run(0, WELL), own=True, control_of="late"),
    ),
    (Skipped("driver:redlock-rb", "a driver in Ruby"),),
)
