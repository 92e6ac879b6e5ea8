"""Which task a campaign has: a scenario, or schedules that are drawn against a lock."""

from __future__ import annotations

from lab.batch.task import Task
from lab.errors import LabError
from lab.search.space import NOTHING_SAID, Drawn, must_run_in_virtual_time


def task_for(scenario: str | None, *, lock: str | None = None, drawn: Drawn = NOTHING_SAID) -> Task:
    """The task that a command line asks for: a scenario's name or file, or without one a lock.

    ``drawn.set`` changes the scenario, or what schedules are drawn from; its other options are for those.

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
        return _schedules(lock, drawn)
    if given := tuple(drawn.given()):
        are = "are" if len(given) > 1 else "is"
        raise LabError(
            f"{' and '.join(given)} {are} for schedules that are drawn, and a scenario says all that itself",
            where=f"lab campaign {scenario}",
            hint="--set changes a scenario: --set lock.ttl=2s, --set cluster.nodes=3; "
            "or leave the scenario out and name a --lock",
        )
    from lab.batch.scenario_task import ScenarioTask
    from lab.scenario.load import load_scenario

    settings = [*drawn.set, *([f"lock.name={lock}"] if lock else [])]
    settings += [f"cluster.server={drawn.server}"] if drawn.server else []
    loaded = load_scenario(scenario, settings)
    must_run_in_virtual_time(loaded.scenario.lock.name)
    return ScenarioTask.of(loaded, scenario)


def _schedules(lock: str, drawn: Drawn) -> Task:
    from lab.search.schedule_task import ScheduleTask
    from lab.search.space import space_of

    strategy, wire = drawn.how()
    return ScheduleTask(space_of(lock, drawn), strategy, wire)
