"""From a trial to a scenario: the same story in directed steps, which every substrate can play.

The trial is run once more and its events are told in their order. Nothing is timed: a step follows the one
before it, and where a lease had to run out first the story waits until it is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from lab.durations import UNITS_NS, format_duration
from lab.scenario.load import dump
from lab.scenario.model import Scenario
from lab.search.runner import Outcome, Wire, run_trial
from lab.search.schedule import end_of, step_of
from lab.search.suspicion import PROPERTY_OF, named
from lab.search.trial import LINK_KINDS, Fault, Trial

Step = dict[str, Any]

PLAINLY_NS: Final = 300 * UNITS_NS["ms"]
"""A pause in the story that is shorter than this means nothing."""
IN_FLIGHT_NS: Final = 20 * UNITS_NS["ms"]
"""The same while an operation goes on, whose time-outs decide what comes of it."""
VERBS: Final = {
    "acquire": "acquires",
    "read": "reads",
    "held": "checks",
    "write": "writes",
    "release": "releases",
}
WITHOUT_RESOURCE: Final = ("overlap", "fence-order")
"""Findings that need no reads and writes."""
PROPERTIES: Final = (
    "mutual_exclusion",
    "lease_honesty",
    "fencing",
    "resource",
    "deadlock_freedom",
    "fault_tolerance",
)


@dataclass
class _Teller:
    """Writes steps and sentences while it goes through the events of a trial."""

    trial: Trial
    finding: str
    steps: list[Step] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    leases_ns: dict[str, int] = field(default_factory=dict)
    over: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    last_ns: int = 0

    def passes(self, time_ns: int) -> None:
        """Let time pass, if it matters: until a lease is over, or simply for so long."""
        waited_ns = time_ns - self.last_ns
        self.last_ns = max(self.last_ns, time_ns)
        ended = [
            name for name, until_ns in self.leases_ns.items() if until_ns <= time_ns and name not in self.over
        ]
        for name in ended:
            self.over.add(name)
            within = format_duration(2 * self.trial.ttl_ns + 5 * UNITS_NS["s"])
            self.steps.append({"until": {"lease": name, "over": True, "within": within}})
            self.sentences.append(f"{name.capitalize()}'s lease runs out.")
        plainly_ns, unit_ns = (
            (IN_FLIGHT_NS, 10 * UNITS_NS["ms"]) if self.started else (PLAINLY_NS, 100 * UNITS_NS["ms"])
        )
        if not ended and waited_ns >= plainly_ns:
            rounded_ns = -(-waited_ns // unit_ns) * unit_ns
            self.steps.append({"wait": format_duration(rounded_ns)})

    def act(self, event: dict[str, Any], *, alone: bool) -> None:
        """A client's operation, of which this is the call or the completion."""
        client, f = event["client"], event["f"]
        if event["type"] == "invoke":
            sentence = {"do": [f"{client} {VERBS[f]}"]} if alone else {"start": f"{client} {VERBS[f]}"}
            self.steps.append(sentence)
            if not alone:
                self.started.add(client)
            return
        if client in self.started:
            self.started.discard(client)
            self.steps.append({"finish": [client]})
        self.sentences.append(_outcome(event))
        if f == "acquire" and event["type"] == "ok":
            self.leases_ns[client] = event["time_ns"] + self.trial.ttl_ns
            self.over.discard(client)
        elif f == "release":
            self.leases_ns.pop(client, None)

    def strike(self, fault: Fault, *, begins: bool) -> None:
        """A fault, or its end."""
        if fault.kind == "power_cut" and self.trial.persistence == "none":
            fault = replace(fault, kind="crash")  # which is all there is to lose
        elif fault.kind == "power_cut" and begins and self.trial.persistence == "aof-everysec":
            self._prime(fault)
        step = step_of(fault) if begins else end_of(fault)
        self.steps.append(step.model_dump(mode="json", exclude_none=True))
        self.sentences.append(_fault_words(fault) if begins else _end_words(fault))

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


def _outcome(event: dict[str, Any]) -> str:
    who, f, how = event["client"].capitalize(), event["f"], event["type"]
    words = {
        ("acquire", "ok"): "gets the lock",
        ("acquire", "fail"): "is refused",
        ("acquire", "info"): "does not learn whether it has the lock",
        ("release", "ok"): "releases it",
        ("release", "fail"): "releases a lock that it did not hold any more",
        ("read", "ok"): "reads the resource",
        ("write", "ok"): "writes",
        ("write", "fail"): "has its write rejected",
    }.get((f, how), f"{VERBS[f]} ({how})")
    if f == "held":
        words = "still believes in its lease" if event["value"] == "yes" else "sees that its lease is over"
    fence = f" with fence {event['fence']}" if event.get("fence") is not None and f == "acquire" else ""
    nodes = event["_nodes"] if (f, how) == ("acquire", "ok") else None
    where = f" from {_listed(nodes)}" if nodes else ""
    return f"{who} {words}{fence}{where}."


def _fault_words(fault: Fault) -> str:
    nodes = _listed(fault.nodes)
    who = fault.client.capitalize()
    if fault.kind == "jump":
        way = "forward" if fault.by_ns > 0 else "back"
        return f"The clock of {nodes} jumps {way} by {format_duration(abs(fault.by_ns))}."
    return {
        "cut": f"{who} is cut off from {nodes}.",
        "hold": f"What {nodes} and {who} send each other is held up in the network.",
        "delay": f"Everything between {who} and {nodes} takes {format_duration(fault.by_ns)} longer.",
        "pause": f"{who} is paused.",
        "crash": f"{nodes} crashes.",
        "power_cut": f"{nodes} loses its power before it has synced its file.",
    }[fault.kind]


def _end_words(fault: Fault) -> str:
    nodes, who = _listed(fault.nodes), fault.client.capitalize()
    if fault.kind == "pause":
        return f"{who} goes on."
    return f"{who} reaches {nodes} again." if fault.kind in LINK_KINDS else f"{nodes} is back."


def _listed(names: tuple[str, ...] | list[str]) -> str:
    listed = list(names)
    return "".join(listed) if len(listed) < 2 else f"{', '.join(listed[:-1])} and {listed[-1]}"


def _relevant(outcome: Outcome, finding: str) -> list[dict[str, Any]]:
    """The events up to the last one that proves the finding, without what it does not need."""
    hits = [each for each in named(outcome) if each.name == finding]
    last = min((max(each.witnesses) for each in hits), default=len(outcome.events) - 1)
    if finding == "overlap":  # the release that ends the overlap is a witness as well; it need not be told
        grants = [at for at in hits[0].witnesses if outcome.events[at]["f"] == "acquire"] if hits else []
        last = max(grants, default=last)
    kept = [event for at, event in enumerate(outcome.events) if at <= last]
    if finding in WITHOUT_RESOURCE:
        kept = [event for event in kept if event["f"] not in ("read", "held", "write")]
    return kept


def _in_order(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events with what struck at the instant of a call, before it sent anything, ahead of the call.

    A client that is paused at its call has sent already.
    """
    ordered: list[dict[str, Any]] = []
    for event in events:
        at = len(ordered)
        if event["process"] == "nemesis" and "heals" not in event and event["f"] != "pause":
            while at and _is_call_at(ordered[at - 1], event["time_ns"]):
                at -= 1
        ordered.insert(at, event)
    return ordered


def _is_call_at(event: dict[str, Any], time_ns: int) -> bool:
    return bool(event["type"] == "invoke" and "client" in event and event["time_ns"] == time_ns)


def _told(trial: Trial, finding: str, wire: Wire) -> _Teller:
    outcome = run_trial(trial, wire, watch=True)
    grants = {event["grant_id"]: event.pop("_nodes") for event in outcome.events if "_nodes" in event}
    events = [
        {**event, "_nodes": grants.get(event.get("grant_id", ""))}
        for event in _in_order(_relevant(outcome, finding))
    ]
    teller = _Teller(trial, finding, last_ns=events[0]["time_ns"] if events else 0)
    faults = {f"f{at}": fault for at, fault in enumerate(outcome.struck, start=1)}
    for at, event in enumerate(events):
        if event["process"] == "nemesis":
            if event["type"] == "invoke":
                teller.passes(event["time_ns"])
                begun = event.get("heals") or event["fault_id"]
                teller.strike(faults[begun], begins="heals" not in event)
            continue
        if event["type"] == "invoke":
            if not _completes(events, at):
                continue  # it never came to an end before the finding: it is not needed
            teller.passes(event["time_ns"])
        teller.act(event, alone=_is_alone(events, at))
    return teller


def _completion(events: list[dict[str, Any]], at: int) -> int | None:
    client = events[at].get("client")
    return next(
        (later for later in range(at + 1, len(events)) if events[later].get("client") == client), None
    )


def _completes(events: list[dict[str, Any]], at: int) -> bool:
    return _completion(events, at) is not None


def _is_alone(events: list[dict[str, Any]], at: int) -> bool:
    """Whether a call and its completion have no fault between them that the story must put there."""
    end = _completion(events, at) if events[at]["type"] == "invoke" else None
    between: Iterator[dict[str, Any]] = iter(events[at + 1 : end] if end is not None else ())
    return all(event["process"] != "nemesis" for event in between)


def scenario_of(trial: Trial, finding: str, *, command: str, wire: Wire = "direct") -> Scenario:
    """The scenario that tells this trial. Call it inside ``trials`` with this wire.

    Raises ``pydantic.ValidationError`` if its events make no story that can be told in steps.

    Args:
        trial: what was found, as small as it is.
        finding: what it is meant to show.
        command: how it was found, for the reader.
        wire: on which wire it violates.
    """
    teller = _told(trial, finding, wire)
    names = [name for name in trial.clients if any(name in str(step) for step in teller.steps)]
    prop = PROPERTY_OF[finding]
    data: dict[str, Any] = {
        "title": f"Found by search: {finding} in {trial.lock}",
        "source": f"found by `{command}` (trial seed {trial.seed})",
        "why": " ".join(
            ["A search came upon this by itself, and made it as small as it could.", *teller.sentences]
        ),
        "cluster": {"nodes": trial.nodes, "persistence": trial.persistence},
        "lock": {
            "name": trial.lock,
            "ttl": format_duration(trial.ttl_ns),
            "options": dict(trial.options),
        },
        "store": {"fencing": trial.store_fences},
        "clients": names,
        "steps": _joined(teller.steps),
        "expect": {
            prop: "violated",
            "findings": [finding],
            "either": [other for other in PROPERTIES if other != prop],
        },
    }
    return Scenario.model_validate(data)


def _joined(steps: list[Step]) -> list[Step]:
    """Actions that follow each other in one step."""
    joined: list[Step] = []
    for step in steps:
        if "do" in step and joined and "do" in joined[-1]:
            joined[-1]["do"] += step["do"]
        else:
            joined.append({key: list(body) if isinstance(body, list) else body for key, body in step.items()})
    return joined


def text_of(scenario: Scenario) -> str:
    """The scenario's file."""
    return dump(scenario)
