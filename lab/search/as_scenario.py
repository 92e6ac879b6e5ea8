"""From a trial to a scenario: its operations and faults as tracks, which every substrate can play.

The trial is run once more, and what its finding needs is written down in the order in which it happened.
What begins later than something else waits for that: a client's next operation for the end of its last one,
or of another's; a fault for an operation that it came after, or, in the middle of one, for what nodes had
executed of it. So the order stays that of the trial where calls take longer, as they do on real servers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import ValidationError

from lab.durations import UNITS_NS, format_duration
from lab.faults.client_crash import ClientCrash
from lab.faults.clock import ClockFault
from lab.faults.crash import Crash
from lab.faults.heal import Heal
from lab.faults.hold import Hold
from lab.faults.power_cut import PowerCut
from lab.scenario.load import dump
from lab.scenario.model import PROPERTIES, Scenario
from lab.scenario.tracks import Timed
from lab.scenario.triggers import at_start
from lab.search.as_tracks import tracks_of
from lab.search.faults import client_of, fault_of, is_a, nodes_of, timed_fault
from lab.search.guard import CANCELLED
from lab.search.placing import Operation, Placed, operations_of, placed
from lab.search.relevant import NotExpressible, Proven, Series, relevant
from lab.search.runner import Event, run_trial
from lab.search.sentences import outcome_words, sentence
from lab.search.trial import KEY, Trial

Body = dict[str, Any]

MS_NS: Final = UNITS_NS["ms"]
PLAINLY_NS: Final = 250 * MS_NS
"""A wait that is shorter than this, and than a tenth of the TTL, means nothing."""
IN_FLIGHT_NS: Final = 20 * MS_NS
"""The same while an operation goes on, whose time-outs decide what comes of it."""
ACTIONS: Final[dict[str, str]] = {"held": "check"}
"""Operations of a history that actions call otherwise."""
FAULTS: Final = "faults"


@dataclass
class _Written:
    """Tracks, while the events of a trial are gone through."""

    trial: Trial
    proven: Proven
    tracks: dict[str, list[Body]] = field(default_factory=dict)
    sentences: list[str] = field(default_factory=list)
    last: Body = field(default_factory=lambda: {"start": "0s"})
    """The trigger of the latest event."""
    last_ns: int = 0
    latest_of: str = ""
    """The track whose action's end that event is."""
    leases_ns: dict[str, int] = field(default_factory=dict)
    """When the leases end that are counted on, by client."""
    seen: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """How often each event of a track has come."""
    calls: dict[int, Body] = field(default_factory=dict)
    """By operation, the trigger of its call."""
    under_way: dict[str, Operation] = field(default_factory=dict)
    struck: dict[str, Body] = field(default_factory=dict)
    """By its id, the body of a fault that lasts."""
    released: set[str] = field(default_factory=set)
    killed: set[str] = field(default_factory=set)

    def show_that_it_works(self, events: list[Event]) -> None:
        """Where no client is granted the lock: let one have it first, else nothing is proved."""
        if not any(event["f"] == "acquire" and event["type"] == "ok" for event in events):
            client = next(event["client"] for event in events if "client" in event)
            for action in ("acquire", "release"):
                self._append(client, action, {})
                self._happened(client, action, "invoke")
                self._happened(client, action, "ok")
            self.last = self._trigger(client, "release", "ok")
            self.latest_of = client
            self.sentences.append(f"{client.capitalize()} gets the lock, and releases it.")

    def call(self, event: Event, operation: Operation) -> None:
        """An operation is called."""
        client, action = event["client"], ACTIONS.get(event["f"], str(event["f"]))
        body: Body = {}
        if series := self._series_of(event):
            if event["grant_id"] != series[0]:
                self._happened(client, action, "invoke")
                return
            body["insist"] = _about(self.proven.called_ns(series[-1]) - event["time_ns"])
        if self.trial.other_key in event.get("key", ""):  # in the lock's pattern of keys
            body["key"] = self.trial.other_key
        if event["f"] in ("acquire", "extend") and event["ttl_ns"] != self.trial.ttl_ns:
            body["ttl"] = format_duration(event["ttl_ns"])
        if event["f"] == "release":
            if event["grant_id"] in self.released:
                body["again"] = True
            self.released.add(event["grant_id"])
            self.leases_ns.pop(client, None)
        if operation.end is not None and str(operation.end.get("error")).endswith(CANCELLED):
            body["cancel"] = self._cancel(operation, action)
        trigger = self._after_another(operation) or self._since(event["time_ns"], client)
        self._append(client, action, body | ({} if trigger is None else {"at": trigger}))
        self._happened(client, action, "invoke")
        self.calls[id(operation)] = self._trigger(client, action, "invoke")
        self.under_way[client] = operation
        self._came(self.calls[id(operation)], event["time_ns"], "")

    def _series_of(self, event: Event) -> Series:
        """The acquires of which this is one, where the client asks again and again, which is one action."""
        series = self.proven.insisting.get(event["client"], ()) if event["f"] == "acquire" else ()
        return series if event["grant_id"] in series else ()

    def _after_another(self, operation: Operation) -> Body | None:
        """The end of another client's operation that was called just before: in a trial it came first."""
        for other in self.under_way.values():
            if other.client == operation.client or other.end is None:
                continue
            if other.end["time_ns"] <= operation.call_ns:  # it insists, and is between two tries
                continue
            if other.end["time_ns"] - other.call_ns < IN_FLIGHT_NS:
                action, outcome = ACTIONS.get(other.f, other.f), other.end["type"]
                times = self.seen[other.client, action, outcome] + 1
                return {other.client: f"{action} {outcome}"} | ({"nth": times} if times > 1 else {})
        return None

    def _cancel(self, operation: Operation, action: str) -> Any:
        """When an operation is cancelled: after a time, or once nodes have executed what they had by then.

        If it was cancelled on its way, the network holds what comes next: a cancellation takes its time too.
        """
        assert operation.end is not None
        client, lasted_ns = operation.client, operation.end["time_ns"] - operation.call_ns
        if lasted_ns >= IN_FLIGHT_NS:
            return format_duration(lasted_ns)
        seen = operation.seen_by(operation.end["time_ns"])
        times = {event: self.seen[client, action, event] + 1 for event in ("invoke", "info")}
        begins, ends = (
            {client: f"{action} {event}"} | ({"nth": nth} if nth > 1 else {}) for event, nth in times.items()
        )
        hold = {
            "client": client,
            "nodes": list(self.trial.node_names),
            "direction": "requests" if seen is None else "replies",
            "at": begins,
            "until": ends,
        }
        self._append(FAULTS, Hold.KEY, hold)
        for event in ("invoke", "ok"):
            self._happened(FAULTS, Hold.KEY, event)
            self._happened(FAULTS, Heal.KEY, event)
        if seen is None:
            return format_duration(lasted_ns)
        command, nodes = seen
        return {"nodes": list(nodes), "executed": command}

    def completion(self, event: Event, nodes: list[str] | None) -> None:
        """An operation has ended."""
        client, action = event["client"], ACTIONS.get(event["f"], str(event["f"]))
        outcome = event["type"]
        if event["f"] == "held" and event.get("value") == "no":
            outcome = "fail"
        self._happened(client, action, outcome)
        series = self._series_of(event)
        if series and outcome != "ok":
            if event["grant_id"] == series[-1]:
                self.under_way.pop(client, None)
                self.sentences.append(f"{client.capitalize()} asks for it again and again, and is refused.")
            return
        self._came(self._trigger(client, action, outcome), event["time_ns"], client)
        self.under_way.pop(client, None)
        self.sentences.append(outcome_words(event, nodes))
        if event["f"] in ("acquire", "extend") and event["type"] == "ok":
            self.leases_ns[client] = event["time_ns"] + event.get("ttl_ns", self.trial.ttl_ns)

    def strike(self, each: Placed) -> None:
        """A fault, or its end."""
        fault = each.fault
        assert fault is not None
        time_ns = each.event["time_ns"]
        fault_id = each.event.get("heals") or each.event["fault_id"]
        if not each.begins:
            self._end(each, fault_id)
            return
        if client_of(fault) in self.killed and not is_a(fault, ClockFault):
            return
        if is_a(fault, PowerCut) and self.trial.persistence == "none":
            fault = timed_fault(Crash, at_start(), nodes=nodes_of(fault))  # which is all there is to lose
        trigger: Any = self._in_the_middle(each) or self._since(time_ns, "")
        if is_a(fault, PowerCut) and self.trial.persistence == "aof-everysec":
            trigger = self._prime(fault, trigger)
        step = fault.step.model_dump(mode="json", exclude_none=True)
        ((key, body),) = step.items()
        self._append(FAULTS, key, body | ({} if trigger is None else {"at": trigger}))
        self.struck[fault_id] = self.tracks[FAULTS][-1][key]
        self._happened(FAULTS, key, "invoke")
        self._happened(FAULTS, key, "ok")
        self._came(self._trigger(FAULTS, key, "ok"), time_ns, "")
        self.sentences.append(sentence(fault_of(fault).clause))
        if is_a(fault, ClientCrash):
            self.killed.add(client_of(fault))
            self.under_way.pop(client_of(fault), None)
            for body in self.struck.values():  # else what it sent might seem to be on its way still
                if body.get("client") == client_of(fault) and "nodes" in body:
                    body.setdefault("until", dict(self.last))

    def _end(self, each: Placed, fault_id: str) -> None:
        fault, time_ns = each.fault, each.event["time_ns"]
        assert fault is not None
        body = self.struck.pop(fault_id, None)
        ending = fault_of(fault).ENDED_BY
        if body is None or ending is None:
            return
        if each.waits_ns and client_of(fault) in self.under_way:  # until what was called has been sent
            call = self.calls[id(self.under_way[client_of(fault)])]
            body["until"] = call | {"after": format_duration(each.waits_ns)}
        else:
            body["until"] = self._since(time_ns, FAULTS) or format_duration(0)
        self._happened(FAULTS, ending, "invoke")
        self._happened(FAULTS, ending, "ok")
        self._came(self._trigger(FAULTS, ending, "ok"), time_ns, "")
        self.sentences.append(sentence(fault_of(fault).ended_clause))

    def _in_the_middle(self, each: Placed) -> Body | None:
        """The trigger of a fault that strikes while an operation is on its way, and how far that was."""
        if each.since is None or id(each.since) not in self.calls:
            return None
        trigger = dict(self.calls[id(each.since)])
        seen = each.since.seen_by(each.seen_ns)
        if seen is not None:
            command, nodes = seen
            trigger |= {"nodes": list(nodes), "executed": command}
        after_ns = each.waits_ns
        lasted_ns = each.event["time_ns"] - each.since.call_ns
        if lasted_ns >= IN_FLIGHT_NS:
            after_ns = max(after_ns, lasted_ns)
            trigger = dict(self.calls[id(each.since)])
        return trigger | ({"after": _about(after_ns)} if after_ns else {})

    def _prime(self, fault: Timed, trigger: Any) -> Any:
        """What is lost in a power cut must be written, and not yet synced: see to both."""
        nodes = list(nodes_of(fault))
        for actions in self.tracks.values():
            at = max((at for at, one in enumerate(actions) if "acquire" in one), default=None)
            if at is not None:
                actions.insert(at, {"prime": {"nodes": nodes, **_moved(actions[at]["acquire"])}})
        own = trigger if isinstance(trigger, dict) else {}
        return {word: value for word, value in own.items() if word not in ("nodes", "executed", "after")} | {
            "nodes": nodes,
            "synced": False,
        }

    def end(self) -> None:
        """Let go on who stands still in the middle of an operation: a run waits for its end."""
        for body in self.struck.values():
            if body.get("client") in self.under_way:
                body["until"] = dict(self.last)

    def _since(self, time_ns: int, track: str) -> Any:
        """The trigger of what happens now; None: it follows the end of the action before in its track."""
        after_ns = time_ns - self.last_ns
        ended = [name for name, ns in self.leases_ns.items() if self.last_ns < ns <= time_ns]
        if ended:
            last = max(ended, key=self.leases_ns.__getitem__)
            after_ns = time_ns - self.leases_ns[last]
            reference: Body = {last: "lease over"}
            for name in ended:
                self.sentences.append(f"{name.capitalize()}'s lease runs out.")
                del self.leases_ns[name]
        else:
            reference = dict(self.last)
        plainly_ns = min(PLAINLY_NS, self.trial.ttl_ns // 10)
        if self.under_way:
            plainly_ns = min(plainly_ns, IN_FLIGHT_NS)
        after = {"after": _about(after_ns)} if after_ns >= plainly_ns else {}
        if "start" in reference:
            return {"start": after["after"]} if after else None
        if track == self.latest_of and not ended and track:
            return after["after"] if after else None
        return reference | after

    def _came(self, trigger: Body, time_ns: int, track: str) -> None:
        self.last, self.last_ns, self.latest_of = trigger, max(time_ns, self.last_ns), track

    def _append(self, track: str, action: str, body: Body) -> None:
        self.tracks.setdefault(track, []).append({action: body})

    def _happened(self, track: str, action: str, outcome: str) -> None:
        self.seen[track, action, outcome] += 1

    def _trigger(self, track: str, action: str, outcome: str) -> Body:
        times = self.seen[track, action, outcome]
        return {track: f"{action} {outcome}", **({"nth": times} if times > 1 else {})}


def _about(duration_ns: int) -> str:
    """A time to the millisecond: latencies differ by that much anyway, and a file is read by people."""
    return format_duration(max(1, round(duration_ns / MS_NS)) * MS_NS)


def _moved(body: Body) -> Body:
    """The trigger of an action, taken from it for one that is put before it."""
    return {"at": body.pop("at")} if "at" in body else {}


def scenario_of(trial: Trial, finding: str, *, command: str) -> Scenario:
    """The scenario in which this trial happens. Call it inside ``trials``.

    It is told as it comes out where clients have connections, as in every scenario: after a fault on a link
    these are made anew, which takes a round trip. If it does not show the finding there (it cancels an
    operation a fraction of a round trip after the call, say), it is told as it comes out without.

    Args:
        trial: what was found, as small as it is.
        finding: what it is meant to show.
        command: how it was found, for the reader.

    Raises:
        NotExpressible: it does not show the finding, or that needs what only the simulation has.
    """
    if trial.tracks:
        return _as_it_is(trial, finding, command)
    outcome = run_trial(trial, "resp", watch=True)
    try:
        proven = relevant(outcome, finding)
    except NotExpressible:
        outcome = run_trial(trial, "direct", watch=True)
        proven = relevant(outcome, finding)
    operations = operations_of(outcome, proven.whole)
    in_order = placed(outcome, proven.events, operations)
    begun_ns = in_order[0].event["time_ns"] if in_order else 0
    written = _Written(trial, proven, last_ns=begun_ns)
    written.show_that_it_works(proven.events)
    crashed = {client_of(each.fault) for each in in_order if each.fault and is_a(each.fault, ClientCrash)}
    for each in in_order:
        event = each.event
        if each.fault is not None:
            written.strike(each)
            continue
        operation = operations[id(event)]
        if event["client"] in written.killed:
            continue
        if event is not operation.call:
            written.completion(event, event.get("_nodes"))
        elif operation.end is not None or operation.executed or operation.client in crashed:
            written.call(event, operation)
    written.end()
    return _checked(_data(trial, finding, proven.property, written.tracks, written.sentences, command))


def _as_it_is(trial: Trial, finding: str, command: str) -> Scenario:
    """The scenario of a trial that says all in tracks: they are its tracks, and nothing is told anew."""
    if trial.faults or any(trial.clients.values()):
        raise NotExpressible("it says a part of what happens in rounds, and a part in tracks")
    proven = relevant(run_trial(trial, watch=True), finding)
    tracks = {
        name: [timed.model_dump(mode="json", exclude_none=True) for timed in track]
        for name, track in tracks_of(trial).items()
    }
    return _checked(_data(trial, finding, proven.property, tracks, [], command))


def _checked(data: Body) -> Scenario:
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise NotExpressible("; ".join(str(each["msg"]) for each in error.errors())) from error


def _data(
    trial: Trial,
    finding: str,
    violated: str,
    tracks: dict[str, list[Body]],
    sentences: list[str],
    command: str,
) -> Body:
    data: Body = {
        "title": f"Found by search: {finding} in {trial.lock}",
        "source": f"found by `{command}` (trial seed {trial.seed})",
        "why": " ".join(["A search came upon this by itself, and made it as small as it could.", *sentences]),
        "cluster": {
            "nodes": trial.nodes,
            "persistence": trial.persistence,
            **({"server": trial.server} if trial.server else {}),
        },
        "lock": {
            "name": trial.lock,
            "ttl": format_duration(trial.ttl_ns),
            "options": dict(trial.options),
            **({"key": trial.keys} if trial.keys else {}),
        },
        "warm_up": False,  # as in the trial: what it is about may be how a client comes to its connections
        "store": {"fencing": trial.store_fences},
        "clients": [name for name in trial.clients if name in str(tracks)],
        **({"key": trial.key_name} if trial.key_name != KEY else {}),
        "tracks": tracks,
        "expect": {
            violated: "violated",
            "findings": [finding],
            "either": [other for other in PROPERTIES if other != violated],
        },
    }
    if trial.demand_ns and violated == "fault_tolerance":
        data["unavailable_after"] = format_duration(trial.unavailable_ns)
    return data


def text_of(scenario: Scenario) -> str:
    """The scenario's file."""
    return dump(scenario)
