"""Items and runs for the tests of batches."""

from __future__ import annotations

from msgspec.structs import replace

from lab.batch.item import Item, Plan, Skipped
from lab.batch.result import Cell, Result
from lab.batch.row import Row

WELL = {"mutual_exclusion": "ok", "fencing": "absent", "resource": "ok"}
BROKEN = {"mutual_exclusion": "violated", "fencing": "violated", "resource": "ok"}
EVIL = '<script>alert("x")</script>|*,"; & \n=1+1'


def run(code: int = 0, outcomes: dict[str, str] | None = None, **more: object) -> Row:
    row = Row(7, code, outcomes or {}, wall_s=2.5, repeat="lab run healthy --seed 7")
    if code == 3:
        more.setdefault("reasons", ("no receipt for cut",))
    if code == 2:
        more |= {"refused": "a TTL of 1500 ms", "reasons": ("a TTL of 1500 ms",)}
    return replace(row, **more)


def cell(scenario: str, lock: str, *runs: Row, survey: bool = True, **more: object) -> Cell:
    label = str(more.get("label", ""))
    name = f"{scenario}/{lock} {label}".strip() + "/sim"
    item = Item(name, scenario, lock, "sim", title=f"The scenario of {scenario}")
    item = replace(item, **{"repeat": max(1, len(runs)), **more})
    return Cell(item, tuple(replace(row, item=item.id) for row in runs), survey)


def survey_of(*cells: Cell, name: str = "small", title: str = "A small matrix", **more: object) -> Result:
    plan = Plan(name, title, tuple(cell.item for cell in cells), survey=True)
    return Result(replace(plan, **more), cells)


MATRIX = survey_of(
    cell("healthy", "redlock", run(0, WELL), own=True),
    cell("healthy", "driver:pottery", run(1, BROKEN, findings=("overlap",)), label="tuned"),
    cell("jump", "redlock", run(3, {"mutual_exclusion": "unknown"})),
    cell("jump", "driver:pottery", label="tuned", why_not="a lock on one node"),
    cell("late", "driver:redlock", run(0, BROKEN), run(0, BROKEN), run(3), own=True),
    cell("late-control", "driver:redlock", run(0, WELL), own=True, control_of="late"),
    skipped=(Skipped("driver:redlock-rb", "a driver in Ruby"),),
)
