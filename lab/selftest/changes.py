"""Changes of a scenario, each of which must make a difference to what it expects.

The method is that of mutation testing (DeMillo, Lipton and Sayward 1978, "Hints on test data selection"): a
test suite that a changed program passes does not test what was changed. Here the test suite is what a
scenario expects, and the program is its steps.

Left out, one at a time: each fault and each end of one, each action of a client, each wait, and with it the
steps that are impossible without it (a restart without the crash before it). An anchor that only tests a
condition is an assertion; it is replaced by its contrary. In a control, what differs from its scenario is put
back.

Besides, each scenario has wrong versions: its lock replaced by a wrong relative of it (a wrong lock by the
correct one), and each option with an effect replaced by another value. A step is also needed if, without it,
the scenario notices one wrong version less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Literal

import yaml

from lab.faults.down import DownFault
from lab.faults.nemesis import End
from lab.faults.power_cut import PowerCut
from lab.faults.restart import Restart
from lab.locks import lock_class, refused_options
from lab.scenario.anchors import KeysGone, LeaseOver, Replicated, Synced, VoteSplit
from lab.scenario.files import names
from lab.scenario.impossible import ClusterShape, impossible
from lab.scenario.load import load_scenario
from lab.scenario.model import Scenario
from lab.scenario.outcomes import actions
from lab.scenario.problems import Loc
from lab.scenario.step_base import StepModel
from lab.scenario.steps import Do, Finish, Say, Start, Until, Wait

Kind = Literal["fault", "end of a fault", "operation", "wait", "lock", "option", "put back"]
Vary = Callable[[Scenario], Scenario]

Steps = tuple[StepModel, ...]

RELATIVES: Final[Mapping[str, tuple[str, ...]]] = {
    "redlock": (
        "mutant:quorum-off-by-one",
        "mutant:no-elapsed-check",
        "mutant:no-release",
        "mutant:needs-all-nodes",
        "mutant:bare-del",
        "mutant:extend-on-minority",
        "mutant:no-drift-margin",
        "mutant:wall-clock",
        "mutant:set-without-expiry",
        "single",
    ),
    "redlock-sequential": ("redlock", "mutant:no-release", "mutant:needs-all-nodes"),
    "redlock-cas": ("redlock",),
    "redlock-fenced": ("redlock-counter", "redlock"),
    "redlock-counter": ("redlock-fenced",),
    "single": ("plain-del",),
    "plain-del": ("single",),
    "redlock-hyperf": ("redlock", "mutant:no-release", "mutant:needs-all-nodes"),
    "fixed-value": ("single",),
    "setnx-expire": ("single",),
    "failover": ("single",),
}
"""The locks that replace each one, the most similar first; one of several wrong ones must be noticed."""
FENCED: Final = "redlock-fenced"
"""The lock that is correct where one without fences is not, on a store that checks them."""
_FENCING: Final[Mapping[bool | str, tuple[bool, ...]]] = {
    False: (True,),
    True: (False,),
    "all": (False, True),
}
"""The checks of the store that replace each one."""
PERSISTENCE: Final = ("none", "aof-everysec", "aof-always")
BLOCKS: Final = ("steps", "lock", "cluster", "store", "clients")
"""Where a scenario and its control may differ; the first that does is put back."""


@dataclass(frozen=True)
class Change:
    """A scenario with one change.

    Args:
        what: the change, in words that are unique in the scenario.
        changed: the changed scenario.
        missed: an action that was removed, and whose outcome the scenario expects.
    """

    scenario: str
    kind: Kind
    what: str
    changed: Scenario
    missed: str | None = None


@cache
def scenario_of(name: str) -> Scenario:
    """The scenario of that name, the same object each time, so that its actions have an identity."""
    return load_scenario(name).scenario


def written_in_steps() -> tuple[str, ...]:
    """The scenarios that come with the lab, can be simulated and are no workloads, by name."""
    return tuple(name for name in names() if scenario_of(name).steps)


def changes(name: str) -> list[Change]:
    """All changes of a scenario's steps, in the order of its file."""
    scenario = scenario_of(name)
    found = list(_without_steps(scenario))
    if scenario.control_of is not None:
        found.append(_put_back(scenario, scenario_of(scenario.control_of)))
    listed = [what for _, what, _ in found]
    numbered = []
    for at, (kind, what, changed) in enumerate(found):
        times, before = listed.count(what), listed[:at].count(what)
        words = what if times == 1 else f"{what} ({before + 1} of {times})"
        missed = None if kind == "put back" else _missed(scenario, changed)
        numbered.append(Change(name, kind, words, changed, missed))
    return numbered


def _missed(scenario: Scenario, changed: Scenario) -> str | None:
    """An action that the changed scenario has less often, and of which outcomes are expected."""
    before, after = ([str(action) for action in actions(each.steps)] for each in (scenario, changed))
    named = scenario.expect.operations or {}
    return next((text for text in named if after.count(text) < before.count(text)), None)


_Found = tuple[Kind, str, Scenario]


def _without_steps(scenario: Scenario) -> Iterator[_Found]:
    steps = scenario.steps
    for at, step in enumerate(steps):
        if isinstance(step, Say):
            continue
        if isinstance(step, Do):
            for number, action in enumerate(step.actions):
                left = _drop(steps, (at, "actions", number))
                yield "operation", f"without: {action}", _with_steps(scenario, left)
        elif contrary := _contrary(step):
            what = f"{_words(contrary)}, the contrary"
            yield "wait", what, _with_steps(scenario, (*steps[:at], contrary, *steps[at + 1 :]))
        else:
            yield _kind(step), f"without: {_words(step)}", _with_steps(scenario, _drop(steps, (at,)))


def _contrary(step: StepModel) -> StepModel | None:
    """For an anchor that tests a condition: waiting until the condition does not hold."""
    anchor = step.anchor if isinstance(step, Until) else None
    match anchor:
        case LeaseOver(over=False):
            return Until(anchor=anchor.model_copy(update={"over": True}))
        case Synced(synced=False):
            return Until(anchor=anchor.model_copy(update={"synced": True}))
        case Replicated(replicated=False):
            return Until(anchor=anchor.model_copy(update={"replicated": True}))
        case VoteSplit():
            return Until(anchor=KeysGone(keys="gone", nodes=anchor.nodes))
    return None


def _kind(step: StepModel) -> Kind:
    if isinstance(step, Start):
        return "operation"
    if isinstance(step, Until | Wait | Finish):
        return "wait"
    return "end of a fault" if isinstance(step, End) else "fault"


def _words(step: StepModel) -> str:
    """A step as in a scenario file, on one line."""
    if isinstance(step, Start):
        return f"start: {step.action}"
    data = step.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    return yaml.safe_dump(data, default_flow_style=True, width=10_000, sort_keys=False).strip()[1:-1]


def _drop(steps: Steps, loc: Loc) -> Steps:
    """The steps without the one at ``loc``, or without one item of its list."""
    at, *inner = loc
    assert isinstance(at, int)
    step = steps[at]
    field = {"actions": "actions", "clients": "clients"}.get(str(inner[0])) if len(inner) > 1 else None
    rest = (
        tuple(one for number, one in enumerate(getattr(step, field)) if number != inner[1]) if field else ()
    )
    kept = (step.model_copy(update={field: rest}),) if field and rest else ()
    return (*steps[:at], *kept, *steps[at + 1 :])


def _possible(scenario: Scenario, steps: Steps) -> Steps:
    """The steps without those that are impossible."""
    shape = ClusterShape.of(scenario.cluster)
    while found := next(impossible(steps, shape), None):
        at, _, *inner = found[0]
        steps = _drop(steps, (at, *inner))
    return steps


def _with_steps(scenario: Scenario, steps: Steps) -> Scenario:
    return scenario.model_copy(update={"steps": _possible(scenario, steps)})


def wrong_versions(scenario: Scenario) -> Iterator[tuple[Kind, str, Vary]]:
    """Wrong versions of a scenario's lock and options: the kind, words, and the function that makes it.

    Time-outs and the number of tries are not changed: they only decide how long things take.
    """
    for relative in RELATIVES[scenario.lock.name]:
        yield "lock", f"lock: {relative}", partial(_another_lock, name=relative)
    if scenario.expect.fencing == "violated" and scenario.lock.name == "redlock":
        yield "lock", f"lock: {FENCED}, fencing: true", _fenced
    options = scenario.lock.options
    neighbours: dict[str, Any] = {}
    if "max_extensions" in options:
        neighbours["max_extensions"] = int(options["max_extensions"]) + 1
    if "retry_jitter" in options:
        neighbours["retry_jitter"] = "0ms"
    for name, value in neighbours.items():
        varied = partial(_with, block="lock", options={**options, name: value})
        yield "option", f"{name}: {value}", varied
    if any(isinstance(step, DownFault) for step in scenario.steps):
        power = any(isinstance(step, PowerCut) for step in scenario.steps)
        for kept in PERSISTENCE:
            if kept != scenario.cluster.persistence and not (power and kept == "none"):
                yield "option", f"persistence: {kept}", partial(_with, block="cluster", persistence=kept)
    if getattr(lock_class(scenario.lock.name), "hands_out_fences", False):
        for fencing in _FENCING[scenario.store.fencing]:
            yield "option", f"fencing: {str(fencing).lower()}", partial(_with, block="store", fencing=fencing)
    if any(isinstance(step, Restart) and step.clock == "monotonic" for step in scenario.steps):
        yield "option", "clock: wall", partial(_delayed_by, clock="wall")
    for name, client in scenario.clients.items():
        if "check_before_write" in client.model_fields_set:
            checks = not client.check_before_write
            what = f"{name}: {{check_before_write: {str(checks).lower()}}}"
            yield "option", what, partial(_with_client, name=name, checks=checks)


def _with(scenario: Scenario, *, block: str, **values: Any) -> Scenario:
    changed = scenario.model_copy(update={block: getattr(scenario, block).model_copy(update=values)})
    return _with_steps(changed, changed.steps)


def _another_lock(scenario: Scenario, *, name: str) -> Scenario:
    """The same with another lock, and those of the options that it has."""
    lock = scenario.lock
    refused = refused_options(name, lock.ttl_ns, lock.options)
    left = {option: value for option, value in lock.options.items() if option not in refused}
    return _with(scenario, block="lock", name=name, options=left)


def _fenced(scenario: Scenario) -> Scenario:
    return _with(_with(scenario, block="lock", name=FENCED), block="store", fencing=True)


def _delayed_by(scenario: Scenario, *, clock: str) -> Scenario:
    """The same with delays of restarts measured by another kind of clock."""
    steps = (
        step.model_copy(update={"clock": clock}) if isinstance(step, Restart) else step
        for step in scenario.steps
    )
    return scenario.model_copy(update={"steps": tuple(steps)})


def _with_client(scenario: Scenario, *, name: str, checks: bool) -> Scenario:
    client = scenario.clients[name].model_copy(update={"check_before_write": checks})
    return scenario.model_copy(update={"clients": {**scenario.clients, name: client}})


def _put_back(control: Scenario, controlled: Scenario) -> _Found:
    """The control with a block of its scenario; only outcomes that both have can be compared."""
    block = next(block for block in BLOCKS if getattr(control, block) != getattr(controlled, block))
    changed = control.model_copy(update={block: getattr(controlled, block)})
    before, after = ([str(action) for action in actions(each.steps)] for each in (control, changed))
    named = control.expect.operations or {}
    both = {text: outcomes for text, outcomes in named.items() if before.count(text) == after.count(text)}
    expect = control.expect.model_copy(update={"operations": both or None})
    return "put back", f"the {block} of {control.control_of}", changed.model_copy(update={"expect": expect})
