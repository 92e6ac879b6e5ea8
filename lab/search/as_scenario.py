"""From a trial to a scenario: the same in directed steps, which every substrate can play.

The trial is run once more, and what its finding needs becomes steps, in their order. A step follows the one
before it; where a lease had to run out first, or a client waited for longer than means nothing, so it does in
the scenario. What cannot be said in one way for certain (how far an operation was when a fault struck) is
said in several: ``candidate_scenarios``, the likeliest first. Which of them reproduces the finding is seen by
replaying.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from msgspec import structs
from pydantic import ValidationError

from lab.durations import UNITS_NS, format_duration
from lab.scenario.load import dump
from lab.scenario.model import PROPERTIES, Scenario
from lab.search.actor import unavailable_ns
from lab.search.guard import CANCELLED
from lab.search.placing import PLACINGS, Operation, Placed, operations_of, placed
from lab.search.relevant import NotExpressible, Proven, relevant
from lab.search.runner import Event, Outcome, Wire, run_trial
from lab.search.schedule import end_of, step_of
from lab.search.sentences import VERBS, end_words, fault_words, outcome_words
from lab.search.trial import LINK_KINDS, Fault, Trial

Step = dict[str, Any]

MS_NS: Final = UNITS_NS["ms"]
PLAINLY_NS: Final = 250 * MS_NS
"""A wait that is shorter than this, and than a tenth of the TTL, means nothing."""
IN_FLIGHT_NS: Final = 20 * MS_NS
"""The same while an operation goes on, whose time-outs decide what comes of it."""


@dataclass
class _StepWriter:
    """Writes steps and sentences while it goes through the events of a trial."""

    trial: Trial
    timed: bool
    """Whether time simply passes where a lease runs out, too."""
    steps: list[Step] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    leases_ns: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    started: dict[str, Operation] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    killed: set[str] = field(default_factory=set)
    troubled: set[str] = field(default_factory=set)
    """Clients with links that are not whole."""
    released: set[str] = field(default_factory=set)
    last_ns: int = 0
    waited_ns: int = 0
    """What has passed without a step, since it was too short to mean anything."""

    def show_that_it_works(self, events: list[Event]) -> None:
        """Where nobody is granted the lock: let somebody have it first, else nothing is proved."""
        if not any(event["f"] == "acquire" and event["type"] == "ok" for event in events):
            client = next(event["client"] for event in events if "client" in event)
            self.steps.append({"do": [f"{client} acquires", f"{client} releases"]})
            self.sentences.append(f"{client.capitalize()} gets the lock, and releases it.")

    def passes(self, time_ns: int) -> None:
        """Let time pass, if it matters: until a lease is over, or simply for so long."""
        self.waited_ns += max(0, time_ns - self.last_ns)
        self.last_ns = max(self.last_ns, time_ns)
        ended = [
            name for name, until_ns in self.leases_ns.items() if until_ns <= time_ns and name not in self.over
        ]
        for name in ended:
            self.over.add(name)
            self.sentences.append(f"{name.capitalize()}'s lease runs out.")
            if not self.timed:
                within = format_duration(2 * self.trial.ttl_ns + 5 * UNITS_NS["s"])
                self.steps.append({"until": {"lease": name, "over": True, "within": within}})
        plainly_ns, unit_ns = min(PLAINLY_NS, self.trial.ttl_ns // 10), 100 * MS_NS
        if self.started:
            plainly_ns = min(plainly_ns, IN_FLIGHT_NS)
        if self.started or plainly_ns < unit_ns:
            unit_ns = 10 * MS_NS
        if (self.timed or not ended) and self.waited_ns >= max(plainly_ns, MS_NS):
            rounded_ns = -(-self.waited_ns // unit_ns) * unit_ns
            self.steps.append({"wait": format_duration(rounded_ns)})
            self.waited_ns = 0
        elif ended:
            self.waited_ns = 0

    def act(self, event: Event, operation: Operation, nodes: list[str] | None, *, alone: bool) -> None:
        """A client's operation, of which this is the call or the completion."""
        client, f = event["client"], event["f"]
        if client in self.killed:
            return
        if event["type"] == "invoke":
            self._refuse_twice(event)
            sentence = f"{client} {VERBS[f]}"
            self.steps.append({"do": [sentence]} if alone else {"start": sentence})
            if not alone:
                self.started[client] = operation
            return
        if str(event.get("error")).endswith(CANCELLED):
            raise NotExpressible(f"{client}'s acquire is cancelled, and no step cancels one")
        self.last_ns = max(self.last_ns, event["time_ns"])
        if self.started.pop(client, None) is not None:
            self.steps.append({"finish": [client]})
        self.sentences.append(outcome_words(event, nodes))
        if f in ("acquire", "extend") and event["type"] == "ok":
            self.leases_ns[client] = event["time_ns"] + self.trial.ttl_ns
            self.over.discard(client)
        elif f == "release":
            self.leases_ns.pop(client, None)

    def _refuse_twice(self, event: Event) -> None:
        if event["f"] != "release":
            return
        if event["grant_id"] in self.released:
            raise NotExpressible(f"{event['client']} releases one grant twice, and no step does that")
        self.released.add(event["grant_id"])

    def strike(self, each: Placed) -> None:
        """A fault, or its end."""
        fault = each.fault
        assert fault is not None
        if fault.client in self.killed and not (fault.kind == "jump" or fault.kind == "drift"):
            return
        if fault.kind == "power_cut" and self.trial.persistence == "none":
            fault = structs.replace(fault, kind="crash")  # which is all there is to lose
        elif fault.kind == "power_cut" and each.begins and self.trial.persistence == "aof-everysec":
            self._prime(fault)
        if each.waits_ns:
            self.steps.append({"wait": format_duration(each.waits_ns)})
        step = step_of(fault) if each.begins else end_of(fault)
        self.steps.append(step.model_dump(mode="json", exclude_none=True))
        self.sentences.append(fault_words(fault) if each.begins else end_words(fault))
        if fault.kind == "pause":
            (self.paused.add if each.begins else self.paused.discard)(fault.client)
        if fault.kind in LINK_KINDS:
            (self.troubled.add if each.begins else self.troubled.discard)(fault.client)
        if fault.kind == "client_crash":
            self.killed.add(fault.client)
            self.started.pop(fault.client, None)
            if self.troubled == {fault.client}:  # else what it sent might seem to be on its way still
                self.troubled.clear()
                self.steps.append({"heal": "all"})

    def anchor(self, each: Placed) -> None:
        """Wait until nodes have executed what they had executed of the operation under way."""
        if each.since is None or each.since is not next(reversed(self.started.values()), None):
            return
        seen = each.since.seen_by(each.seen_ns)
        if seen is not None:
            command, nodes = seen
            anchor = {"until": {"nodes": list(nodes), "executed": command}}
            begun = max(at for at, step in enumerate(self.steps) if "start" in step)
            if anchor not in self.steps[begun:]:
                self.steps.append(anchor)

    def end(self) -> None:
        """Let go on who stands still in the middle of an operation: a scenario waits for its end."""
        self.steps += [{"resume": {"client": client}} for client in sorted(self.paused & self.started.keys())]

    def _prime(self, fault: Fault) -> None:
        """What is lost in a power cut must be written, and not yet synced: see to both."""
        acquires = [at for at, step in enumerate(self.steps) if _begins_acquire(step)]
        nodes = list(fault.nodes)
        if acquires:
            self.steps.insert(acquires[-1], {"prime": {"nodes": nodes}})
            self.steps.append({"until": {"nodes": nodes, "synced": False}})


def _begins_acquire(step: Step) -> bool:
    words = step.get("do", [step.get("start", "")])
    return any(str(word).endswith("acquires") for word in words)


def _written(
    outcome: Outcome,
    proven: Proven,
    operations: dict[int, Operation],
    in_order: list[Placed],
    *,
    timed: bool,
) -> _StepWriter:
    writer = _StepWriter(outcome.trial, timed, last_ns=in_order[0].event["time_ns"] if in_order else 0)
    writer.show_that_it_works(proven.events)
    crashed = {each.fault.client for each in in_order if each.fault and each.fault.kind == "client_crash"}
    for at, each in enumerate(in_order):
        event = each.event
        if each.fault is not None:
            writer.anchor(each)
            writer.passes(event["time_ns"])
            writer.strike(each)
            continue
        operation = operations[id(event)]
        if event is operation.call:
            cut_short = operation.end is None
            if cut_short and not (operation.executed or operation.client in crashed):
                continue  # it came to nothing before the finding
            writer.passes(event["time_ns"])
        writer.act(event, operation, event.get("_nodes"), alone=_is_alone(in_order, at, operation))
    writer.end()
    return writer


def _is_alone(in_order: list[Placed], at: int, operation: Operation) -> bool:
    """Whether a call and its completion have nothing between them that the steps must put there.

    Other operations stand there if they come so late that this one was waiting for something.
    """
    if operation.end is None:
        return False
    for each in in_order[at + 1 :]:
        if each.event is operation.end:
            return True
        if each.fault is not None or each.event["time_ns"] - operation.call_ns >= IN_FLIGHT_NS:
            return False
    return True


def candidate_scenarios(trial: Trial, finding: str, *, command: str, wire: Wire = "direct") -> list[Scenario]:
    """The scenarios that may tell this trial, the likeliest first; which does is seen by replaying them.

    Call it inside ``trials`` with this wire.

    Args:
        trial: what was found, as small as it is.
        finding: what it is meant to show.
        command: how it was found, for the reader.
        wire: on which wire it violates.

    Raises:
        NotExpressible: no steps say what happens in it, or it does not show the finding.
    """
    if len(trial.leases_ns) > 1:
        raise NotExpressible("clients ask for leases of different lengths, and no step says so")
    outcome = run_trial(trial, wire, watch=True)
    proven = relevant(outcome, finding)
    operations = operations_of(outcome, proven.whole)
    found: list[Scenario] = []
    impossible: ValidationError | None = None
    for whole, timed, placing in product((False, True), (False, True), PLACINGS):
        part = replace(proven, events=proven.whole) if whole else proven
        in_order = placed(outcome, part.events, operations, placing)
        writer = _written(outcome, part, operations, in_order, timed=timed)
        try:
            scenario = Scenario.model_validate(_data(trial, finding, part, writer, command))
        except ValidationError as error:
            impossible = error
            continue
        if scenario not in found:
            found.append(scenario)
    if not found:
        reasons = "; ".join(str(each["msg"]) for each in impossible.errors()) if impossible else "no steps"
        raise NotExpressible(reasons)
    return found


def scenario_of(trial: Trial, finding: str, *, command: str, wire: Wire = "direct") -> Scenario:
    """The likeliest of ``candidate_scenarios``. Raises ``NotExpressible``."""
    return candidate_scenarios(trial, finding, command=command, wire=wire)[0]


def _data(trial: Trial, finding: str, proven: Proven, writer: _StepWriter, command: str) -> dict[str, Any]:
    data: dict[str, Any] = {
        "title": f"Found by search: {finding} in {trial.lock}",
        "source": f"found by `{command}` (trial seed {trial.seed})",
        "why": " ".join(
            ["A search came upon this by itself, and made it as small as it could.", *writer.sentences]
        ),
        "cluster": {"nodes": trial.nodes, "persistence": trial.persistence},
        "lock": {
            "name": trial.lock,
            "ttl": format_duration(trial.ttl_ns),
            "options": dict(trial.options),
        },
        "store": {"fencing": trial.store_fences},
        "clients": [name for name in trial.clients if any(name in str(step) for step in writer.steps)],
        "steps": list(_joined(writer.steps)),
        "expect": {
            proven.property: "violated",
            "findings": [finding],
            "either": [other for other in PROPERTIES if other != proven.property],
        },
    }
    if trial.demand_ns and proven.property == "fault_tolerance":
        data["unavailable_after"] = format_duration(unavailable_ns(trial.ttl_ns))
    return data


def _joined(steps: list[Step]) -> Iterator[Step]:
    """Actions that follow each other in one step."""
    actions: list[str] = []
    for step in steps:
        if "do" in step:
            actions += step["do"]
            continue
        if actions:
            yield {"do": actions}
            actions = []
        yield step
    if actions:
        yield {"do": actions}


def text_of(scenario: Scenario) -> str:
    """The scenario's file."""
    return dump(scenario)
