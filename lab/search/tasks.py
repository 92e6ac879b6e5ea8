"""Which task a campaign has: a scenario, or schedules that are drawn against a lock."""

from __future__ import annotations

from collections.abc import Sequence

from lab.batch.task import Task
from lab.errors import LabError, did_you_mean


def task_for(
    scenario: str | None,
    *,
    overrides: Sequence[str] = (),
    lock: str | None = None,
    faults: str | None = None,
    wire: str | None = None,
) -> Task:
    """The task that a command line asks for: a scenario's name or file, or without one a lock.

    Raises:
        LabError: there is no such scenario, lock, fault or wire, or they do not go together.
    """
    if scenario is None:
        if lock is None:
            raise LabError(
                "a campaign needs something to run",
                expected="a scenario, or --lock for schedules that are drawn against a lock",
                hint="lab campaign partition-clockjump --seeds 0:100, or "
                "lab campaign --lock redlock --faults safe --seeds 0:10000",
            )
        if overrides:
            raise LabError(
                "--set changes a scenario, and none is given", where=f"--set {overrides[0]}", hint="lab list"
            )
        return _schedules(lock, faults or "all", wire or "direct")
    if faults is not None or wire is not None:
        raise LabError(
            "--faults and --wire are for schedules that are drawn, and a scenario has faults of its own",
            where=f"lab campaign {scenario}",
            hint="leave them out, or leave the scenario out and name a --lock",
        )
    from lab.batch.scenario_task import ScenarioTask
    from lab.scenario.load import load_scenario

    settings = [*overrides, *([f"lock.name={lock}"] if lock else [])]
    loaded = load_scenario(scenario, settings)
    must_be_simulated(loaded.scenario.lock.name)
    return ScenarioTask.of(loaded, scenario)


def must_be_simulated(lock: str) -> None:
    """Refuse a lock that cannot be simulated: a driver is a process. Raises ``LabError``."""
    from lab.drivers import is_driver

    if is_driver(lock):
        raise LabError(
            f"the driver {lock!r}: drawn schedules are simulated, and a process cannot be",
            where="--lock",
            expected="a lock of the lab's, or package.module:Class",
            hint="lab run SCENARIO --lock DRIVER --on local",
        )


def _schedules(lock: str, faults: str, wire: str) -> Task:
    from lab.locks import lock_class
    from lab.search.draw import Space
    from lab.search.runner import WIRES
    from lab.search.schedule_task import ScheduleTask, parse_kinds

    must_be_simulated(lock)
    lock_class(lock)
    for known in WIRES:
        if wire == known:
            return ScheduleTask(Space(lock, kinds=parse_kinds(faults)), wire=known)
    near = did_you_mean(wire, WIRES)
    raise LabError(
        f"the wire {wire!r}",
        where="--wire",
        expected=" or ".join(WIRES),
        hint=f"did you mean {near!r}?" if near else "direct is faster; resp speaks the real protocol",
    )
