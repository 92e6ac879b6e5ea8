"""The tracks of a trial with events in the place of times, which every substrate can play in its order.

The trial is played once more, and what happened is written down in its order. What begins later than
something else waits for that: a client's next operation for the end of its last one, or of another's; a fault
for an operation that it came after, or, in the middle of one, for what nodes had executed of it. So the order
stays that of the trial where calls take longer, as they do on real servers, and nothing waits for what a
client is about to send, which only a simulation hears.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel

from lab.durations import UNITS_NS
from lab.faults.base import Fault as FaultStep
from lab.faults.client_crash import ClientCrash
from lab.faults.clock import ClockFault
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.down import DownFault
from lab.faults.heal import Heal
from lab.faults.hold import Hold
from lab.faults.links import ConnectionsFault
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.faults.prime import Prime
from lab.faults.reset import Reset
from lab.run.tracks import NEVER_NS, Played
from lab.scenario.anchors import NOT_SEEN, NodesExecuted
from lab.scenario.steps import Acquire, Check, Extend, Operation, Read, Release, Write
from lab.scenario.tracks import Timed, task_of
from lab.scenario.triggers import SENDS, START, Trigger, after, at_start, on
from lab.search.as_tracks import FAULTS, action
from lab.search.faults import client_of, fault_of, is_a, nodes_of, timed_fault
from lab.search.runner import ZERO_NS, Event, Outcome, is_unattended
from lab.search.sentences import outcome_words, sentence
from lab.search.trial import KEY
from lab.substrates.sim.clock import MONOTONIC_START_NS

MS_NS: Final = UNITS_NS["ms"]
PLAINLY_NS: Final = 250 * MS_NS
"""A wait that is shorter than this, and than a tenth of the TTL, means nothing."""
IN_FLIGHT_NS: Final = 20 * MS_NS
"""The same while an operation goes on, whose time-outs decide what comes of it."""
SENT_WITHIN_NS: Final = 50 * MS_NS
"""By then a client has sent what it was started on, and has not given up."""
TELLING: Final = ("PEXPIRE", "SET")
"""Commands by which a scenario tells best how far an operation was, the later one first."""


@dataclass(eq=False)
class Call:
    """An operation of a client that was called: one try of it, if it insists."""

    track: str
    client: str
    f: str
    called_ns: int
    called: Trigger
    """The event of its call, in what is written."""
    ended_ns: int = NEVER_NS
    at: int | None = None
    """Which action of its track it is, in what is written; None: a later try of one that insists."""
    before: Trigger | None = None
    """The event before it: what is to come ahead of it waits for that. None: the start."""
    sent: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """When it sent something, and to which nodes."""
    executed: list[tuple[int, str, str]] = field(default_factory=list)
    """When which node executed which command on the lock's key."""

    def reached(self, nodes: tuple[str, ...], time_ns: int) -> bool:
        """Whether it had sent anything to one of these nodes before this moment."""
        return any(at < time_ns and not set(nodes).isdisjoint(to) for at, to in self.sent)

    def was_executed(self, nodes: tuple[str, ...], time_ns: int) -> bool:
        """Whether one of these nodes had executed anything of it by this moment."""
        return any(at <= time_ns and node in nodes for at, node, _ in self.executed)

    def so_far(self, time_ns: int) -> Trigger:
        """The event that nodes have executed what they had executed of it by this moment."""
        by_then = [name for at, _, name in self.executed if at <= time_ns and name not in NOT_SEEN]
        for command in (*TELLING, *by_then[-1:]):
            nodes = {node for at, node, name in self.executed if at <= time_ns and name == command}
            if nodes:
                seen = NodesExecuted(executed=command, nodes=tuple(sorted(nodes)))
                return self.called.model_copy(update={"anchor": seen})
        return self.called


@dataclass(eq=False)
class Struck:
    """A fault that was written and lasts: which action of the tracks it is, and the fault of the trial."""

    at: int
    fault: Timed
    waits_for: Call | None = None
    """What was called before it ends has to be sent first."""


class Writing:
    """Tracks, while what happened in a trial is gone through.

    Args:
        outcome: a trial in tracks alone, watched.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome, self._trial = outcome, outcome.trial
        self.tracks: dict[str, list[Timed]] = {}
        self.sentences: list[str] = []
        self._last = at_start()
        """The event that came last."""
        self._last_ns = ZERO_NS
        self._latest_of = ""
        """The track whose action's end that event is."""
        self._leases_ns: dict[str, int] = {}
        """When the leases end that are counted on, by track."""
        self._times: Counter[tuple[str, str, str]] = Counter()
        """How often each event of a track has come, in what is written."""
        self._under_way: dict[str, Call] = {}
        self._insisting: dict[str, Timed] = {}
        """By track, the action whose tries go on."""
        self._struck: dict[int, Struck] = {}
        """What lasts, by the identity of the trial's action."""
        self._killed: set[str] = set()
        self._ends = self._completions()
        self._played = as_called(outcome)

    def write(self) -> None:
        """Go through all that happened."""
        self._show_that_it_works()
        for at, each in enumerate(self._played):
            if isinstance(each.timed.step, Operation):
                self._of_client(each, at)
            else:
                self._of_environment(each)
        busy = {call.client for call in self._under_way.values()}
        for struck in self._struck.values():  # a run waits for the end of every call
            if client_of(struck.fault) in busy:
                self._ends_at(struck, self._last)

    def _completions(self) -> dict[tuple[str, str, int], list[Event]]:
        """The history's completions, by client, operation and time."""
        found: defaultdict[tuple[str, str, int], list[Event]] = defaultdict(list)
        for event in self._outcome.events:
            if "client" in event and event["type"] != "invoke":
                found[event["client"], event["f"], event["time_ns"]].append(event)
        return found

    def _show_that_it_works(self) -> None:
        """Where no client is granted the lock: let one have it first, else nothing is proved."""
        tries = [each for each in self._played if each.key == Acquire.KEY]
        if tries and not any(each.outcome == "ok" for each in tries):
            track = tries[0].track
            for step in (Acquire, Release):
                self._append(track, action(step))
                self._happened(track, step.KEY, "invoke")
                self._came(self._happened(track, step.KEY, "ok"), self._last_ns, track)
            self.sentences.append(f"{track.capitalize()} gets the lock, and releases it.")

    # Clients.

    def _of_client(self, each: Played, at: int) -> None:
        client, _ = task_of(each.track, tuple(self._trial.clients)) or ("", 1)
        if each.outcome == "skipped" or client in self._killed:
            return
        if each.outcome == "invoke":
            self._call(each, client, at)
            return
        call = self._under_way.pop(each.track)
        event = self._happened(each.track, each.key, each.outcome)
        insists = isinstance(each.timed.step, Acquire) and bool(each.timed.step.insist_ns)
        if insists and each.outcome in ("fail", "info"):
            if not any(later.timed is each.timed for later in self._played[at + 1 :]):
                del self._insisting[each.track]
                self.sentences.append(f"{client.capitalize()} asks for it again and again, and is refused.")
                self._came(event, each.time_ns, each.track)
            return
        self._insisting.pop(each.track, None)
        self._came(event, each.time_ns, each.track)
        for completion in self._ends.get((client, call.f, each.time_ns), [])[:1]:
            self.sentences.append(outcome_words(completion, completion.get("_nodes")))
        if each.key in ("acquire", "extend") and each.outcome == "ok":
            ttl_ns = getattr(each.timed.step, "ttl_ns", None) or self._trial.ttl_ns
            self._leases_ns[each.track] = each.time_ns + ttl_ns

    def _call(self, each: Played, client: str, at: int) -> None:
        step = each.timed.step
        assert isinstance(step, Operation)
        tries_again = self._insisting.get(each.track) is each.timed
        before, at_action = None, None
        if not tries_again:
            if isinstance(step, Release):
                self._leases_ns.pop(each.track, None)
            cancel = step.cancel and self._cancel(each, step.cancel)
            when = self._after_another(client, at) or self._since(each.time_ns, each.track)
            before = when
            if when is None or when.default:  # the end of the action before, which is what came last
                after_ns = 0 if when is None else when.after_ns
                before = None if self._last.track == START else _later(self._last, after_ns)
            at_action = len(self.tracks.get(each.track, ()))
            self._append(
                each.track, Timed.model_construct(step=_with(step, cancel=cancel), at=when, until=None)
            )
            if isinstance(step, Acquire) and step.insist_ns:
                self._insisting[each.track] = each.timed
        called = self._happened(each.track, each.key, "invoke")
        f = HISTORY.get(each.key, each.key)
        call = Call(each.track, client, f, each.time_ns, called, at=at_action, before=before)
        self._note_messages(call, each)
        self._under_way[each.track] = call
        if not tries_again:
            self._came(called, each.time_ns, "")

    def _note_messages(self, call: Call, begins: Played) -> None:
        ends = (
            each.time_ns
            for each in self._played
            if each.track == call.track
            and each.timed is begins.timed
            and each.time_ns >= call.called_ns
            and each.outcome != "invoke"
            and each.key == begins.key
        )
        call.ended_ns = next(ends, call.ended_ns)
        sendings = self._outcome.sendings[call.client]
        for at, to in zip(sendings.times_ns, sendings.targets, strict=True):
            if call.called_ns <= (time_ns := at + MONOTONIC_START_NS) < call.ended_ns:
                call.sent.append((time_ns, tuple(to)))
        for each in self._outcome.commands:
            ours = each.client == call.client and len(each.words) > 1 and KEY in each.words[1]
            if ours and call.called_ns <= each.time_ns < call.ended_ns:
                call.executed.append((each.time_ns, each.node, each.name))

    def _after_another(self, client: str, at: int) -> Trigger | None:
        """The end of another client's operation that was called just before: in a trial it came first.

        One that was refused because this one was granted did not.
        """
        granted = self._end_of(self._played[at].track, at)
        for other in self._under_way.values():
            lasted_ns = other.ended_ns - other.called_ns
            if other.client != client and lasted_ns < IN_FLIGHT_NS:
                ended = self._end_of(other.track, at)
                if ended is None or (
                    ended.outcome != "ok" and granted is not None and granted.outcome == "ok"
                ):
                    continue
                times = self._times[other.track, ended.key, ended.outcome] + 1
                return on(other.track, f"{ended.key} {ended.outcome}", times)
        return None

    def _end_of(self, track: str, at: int) -> Played | None:
        """How the call of this track ended that is under way at this place, or begins there."""
        later = (each for each in self._played[at:] if each.track == track and each.outcome != "invoke")
        return next(later, None)

    def _cancel(self, each: Played, cancel: Trigger) -> Trigger:
        """When an operation is cancelled: as the trial says it, or once nodes have executed what they had.

        If it was cancelled on its way, the network holds what comes next: a cancellation takes its time too.
        """
        if not (cancel.operation == SENDS or (cancel.default and cancel.after_ns < IN_FLIGHT_NS)):
            return cancel
        client, _ = task_of(each.track, tuple(self._trial.clients)) or ("", 1)
        times = self._times[each.track, each.key, "invoke"] + 1
        call = Call(each.track, client, each.key, each.time_ns, on(each.track, f"{each.key} invoke", times))
        self._note_messages(call, each)
        seen = call.so_far(call.ended_ns)
        direction: Literal["requests", "replies"] = "requests" if seen.anchor is None else "replies"
        hold = timed_fault(Hold, call.called, client, self._trial.node_names, direction=direction)
        until = on(each.track, f"{each.key} info", self._times[each.track, each.key, "info"] + 1)
        self._append(FAULTS, _changed(hold, until=until))
        for word in (Hold.KEY, Heal.KEY):
            self._happened(FAULTS, word, "invoke")
            self._happened(FAULTS, word, "ok")
        if seen.anchor is None:
            return after(max(1, call.ended_ns - call.called_ns)) or cancel
        return Trigger.model_construct(**dict(Trigger(after="0s")) | {"anchor": seen.anchor})

    # The environment.

    def _of_environment(self, each: Played) -> None:
        if each.key != each.timed.step.KEY:
            if each.outcome == "ok" and (struck := self._struck.pop(id(each.timed), None)) is not None:
                self._end(each, struck)
        elif each.outcome != "ok":
            return
        elif isinstance(each.timed.step, FaultStep):
            self._strike(each)
        else:  # the end of faults, said by itself
            self._append(FAULTS, _changed(each.timed, at=self._since(each.time_ns, "")))
            self._happened(FAULTS, each.key, "invoke")
            self._came(self._happened(FAULTS, each.key, "ok"), each.time_ns, "")

    def _strike(self, each: Played) -> None:
        """A fault has taken effect."""
        fault, time_ns = each.timed, each.time_ns
        client = client_of(fault)
        if client in self._killed and not is_a(fault, ClockFault):
            return
        sends = fault.at is not None and fault.at.operation == SENDS  # after the call, in its instant
        own = [
            call
            for call in self._under_way.values()
            if call.client == client and (sends or call.called_ns < time_ns)
        ]
        if own and is_a(fault, Reset):
            executed = own[-1].was_executed(nodes_of(fault), time_ns)
            direction: Literal["requests", "replies"] = "replies" if executed else "requests"
            self._break(each, own[-1], direction)
            return
        if own and not nodes_of(fault):
            apart = tuple(name for name in self._trial.node_names if not own[-1].reached((name,), time_ns))
            if is_a(fault, Pause) and apart:
                hold = timed_fault(Hold, at_start(), client, apart, direction="requests")
                self._write(hold, self._ahead_of(own[-1], Hold.KEY), each, waits_for=own[-1])
                return
            nothing_sent = len(apart) == self._trial.nodes
            if time_ns - own[-1].called_ns <= IN_FLIGHT_NS and not (
                is_a(fault, ClientCrash) and nothing_sent
            ):
                self._strike_between(each, own[-1], apart)
                return
        ahead = [call for call in self._under_way.values() if self._goes_before(each, call)]
        if ahead and is_a(fault, Reset) and ahead[0].client == client:
            self._break(each, ahead[0], "requests")
        elif ahead:
            self._write(fault, self._ahead_of(ahead[0], fault.step.KEY), each)
        elif self._under_way:
            call = [*self._under_way.values()][-1]
            self._write(fault, self._in_the_middle(call, time_ns), each)
        else:
            self._write(fault, self._since(time_ns, ""), each)

    def _break(self, each: Played, call: Call, direction: Literal["requests", "replies"]) -> None:
        """What is under way when connections break is lost, and they end: so they do when a cut is healed."""
        cut = timed_fault(Cut, at_start(), call.client, nodes_of(each.timed), direction=direction)
        self._write(cut, self._ahead_of(call, Cut.KEY), each)
        until = _later(call.called, SENT_WITHIN_NS)
        self._ends_at(self._struck.pop(id(each.timed)), until)
        self._heal(cut, each.time_ns)

    def _ahead_of(self, call: Call, key: str) -> Trigger | None:
        """The trigger of a fault that strikes before a call, which then waits for it."""
        if call.at is None:
            return call.called
        before = call.before
        call.before = on(FAULTS, f"{key} ok", self._times[FAULTS, key, "ok"] + 1)
        track = self.tracks[call.track]
        track[call.at] = _changed(track[call.at], at=call.before)
        return before

    def _strike_between(self, each: Played, call: Call, apart: tuple[str, ...]) -> None:
        """What struck a client between two messages strikes it while the network holds the next ones.

        ``apart`` are the nodes to which it had sent nothing yet.
        """
        if apart and len(apart) < self._trial.nodes:
            hold = timed_fault(Hold, at_start(), call.client, apart, direction="requests")
            seen = call.so_far(each.time_ns)
        else:
            hold = timed_fault(Hold, at_start(), call.client, self._trial.node_names, direction="replies")
            seen = call.so_far(call.ended_ns if call.ended_ns < NEVER_NS else each.time_ns)
        at = len(self.tracks.get(FAULTS, []))
        hold = _changed(hold, at=self._ahead_of(call, Hold.KEY), until=None)
        self._append(FAULTS, hold)
        for word in ("invoke", "ok"):
            self._happened(FAULTS, Hold.KEY, word)
        self._write(each.timed, seen, each)
        self.tracks[FAULTS][at] = _changed(hold, until=self._last)
        self._heal(hold, each.time_ns)

    def _goes_before(self, each: Played, call: Call) -> bool:
        """Whether a fault goes ahead of a call on whose way it struck: it strikes as that is called."""
        fault, time_ns = each.timed, each.time_ns
        if is_a(fault, DownFault) or (nodes_of(fault) and not is_a(fault, ConnectionsFault)):
            return not call.was_executed(nodes_of(fault), time_ns)
        if client_of(fault) != call.client:
            return time_ns - call.called_ns <= IN_FLIGHT_NS
        if nodes_of(fault):
            return not call.reached(nodes_of(fault), time_ns)
        if is_a(fault, Pause, ClientCrash):
            return not any(at < time_ns for at, _ in call.sent)
        return time_ns == call.called_ns and not call.sent

    def _in_the_middle(self, call: Call, time_ns: int) -> Trigger:
        """The event that a call is as far on its way as it was then."""
        lasted_ns = time_ns - call.called_ns
        if lasted_ns >= IN_FLIGHT_NS:
            return _later(call.called, _about(lasted_ns))
        return call.so_far(time_ns)

    def _write(
        self, fault: Timed, at: Trigger | None, each: Played, *, waits_for: Call | None = None
    ) -> None:
        """Write a fault for that of the trial."""
        if is_a(fault, PowerCut) and self._trial.persistence == "none":
            fault = timed_fault(Crash, at_start(), nodes=nodes_of(fault))  # which is all there is to lose
        if is_a(fault, PowerCut) and self._trial.persistence == "aof-everysec":
            at = self._prime(fault, at)
        key = fault.step.KEY
        self._append(FAULTS, _changed(fault, at=at, until=None))
        self._struck[id(each.timed)] = Struck(len(self.tracks[FAULTS]) - 1, fault, waits_for)
        self._happened(FAULTS, key, "invoke")
        self._came(self._happened(FAULTS, key, "ok"), each.time_ns, "")
        self.sentences.append(sentence(fault_of(fault).clause))
        if is_a(fault, ClientCrash):
            self._kill(client_of(fault))

    def _kill(self, client: str) -> None:
        self._killed.add(client)
        self._under_way = {track: call for track, call in self._under_way.items() if call.client != client}
        for other in self._struck.values():  # else what it sent might seem to be on its way still
            if client_of(other.fault) == client and nodes_of(other.fault):
                self._ends_at(other, self._last)

    def _prime(self, fault: Timed, at: Trigger | None) -> Trigger:
        """What is lost in a power cut must be written, and not yet synced: see to both."""
        nodes = nodes_of(fault)
        for track in self.tracks.values():
            last = max((i for i, one in enumerate(track) if isinstance(one.step, Acquire)), default=None)
            if last is not None:
                prime = Timed.model_construct(step=Prime(nodes=nodes), at=track[last].at, until=None)
                track[last : last + 1] = [prime, _changed(track[last], at=None)]
        before = Trigger.model_construct(**dict(Trigger(after="0s"))) if at is None else at
        synced = Trigger.model_validate({"nodes": list(nodes), "synced": False}).anchor
        return before.model_copy(update={"anchor": synced, "after_ns": 0})

    def _end(self, each: Played, struck: Struck) -> None:
        """A fault is over."""
        call = struck.waits_for or next(
            (one for one in self._under_way.values() if one.client == client_of(struck.fault)), None
        )
        if struck.waits_for is not None and call is not None:
            lasted_ns = each.time_ns - call.called_ns
            self._ends_at(struck, _later(call.called, _about(lasted_ns)))
        else:
            self._ends_at(struck, self._since(each.time_ns, FAULTS) or at_start())
        self._heal(struck.fault, each.time_ns)

    def _ends_at(self, struck: Struck, until: Trigger) -> None:
        told = self.tracks[FAULTS][struck.at]
        if told.ending is not None and told.until is None:
            self.tracks[FAULTS][struck.at] = _changed(told, until=until)

    def _heal(self, fault: Timed, time_ns: int) -> None:
        ending = fault_of(fault).ENDED_BY
        if ending is not None:
            self._happened(FAULTS, ending, "invoke")
            self._came(self._happened(FAULTS, ending, "ok"), time_ns, "")
            self.sentences.append(sentence(fault_of(fault).ended_clause))

    # The order.

    def _since(self, time_ns: int, track: str) -> Trigger | None:
        """The trigger of what happens now; None: it follows the end of the action before in its track."""
        after_ns = time_ns - self._last_ns
        last = self._last
        ended = [name for name, ns in self._leases_ns.items() if self._last_ns < ns <= time_ns]
        if ended:
            latest = max(ended, key=self._leases_ns.__getitem__)
            after_ns = time_ns - self._leases_ns[latest]
            last = on(latest, "lease over")
            for name in ended:
                self.sentences.append(f"{name.capitalize()}'s lease runs out.")
                del self._leases_ns[name]
        plainly_ns = min(PLAINLY_NS, self._trial.ttl_ns // 10)
        if self._under_way:
            plainly_ns = min(plainly_ns, IN_FLIGHT_NS)
        after_ns = _about(after_ns) if after_ns >= plainly_ns else 0
        if last.track == START:
            return at_start(after_ns) if after_ns else None
        if track == self._latest_of and not ended and track:
            return after(after_ns)
        return _later(last, after_ns)

    def _came(self, event: Trigger, time_ns: int, track: str) -> None:
        self._last, self._last_ns, self._latest_of = event, max(time_ns, self._last_ns), track

    def _append(self, track: str, timed: Timed) -> None:
        self.tracks.setdefault(track, []).append(timed)

    def _happened(self, track: str, key: str, outcome: str) -> Trigger:
        """Count an event of what is written, and return it as one to wait for."""
        self._times[track, key, outcome] += 1
        return on(track, f"{key} {outcome}", self._times[track, key, outcome])


def as_called(outcome: Outcome) -> list[Played]:
    """What was played, each operation in the place of its call: a client that stands still calls it later.

    One that was never called is left out.
    """
    calls: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for event in outcome.events:
        if event["type"] == "invoke" and "client" in event and not is_unattended(event):
            calls[event["client"], event["f"]].append(event["time_ns"])
    found: list[Played] = []
    later: list[Played] = []
    for each in outcome.played:
        due = [one for one in later if one.time_ns < each.time_ns or one.track == each.track]
        later = [one for one in later if one not in due]
        found += due
        if isinstance(each.timed.step, RECORDED) and each.outcome == "invoke":
            pending = calls[each.track.partition("/")[0], HISTORY.get(each.key, each.key)]
            if not pending:
                continue
            called_ns = pending.pop(0)
            if called_ns > each.time_ns:
                later.append(each._replace(time_ns=called_ns))
                continue
        found.append(each)
    return found + later


RECORDED: Final = (Acquire, Extend, Release, Read, Check, Write)
"""Operations that are in a history."""
HISTORY: Final = {"check": "held"}
"""Actions that a history calls otherwise."""


def _about(duration_ns: int) -> int:
    """A time to the millisecond: latencies differ by that much anyway, and a file is read by people."""
    return max(1, round(duration_ns / MS_NS)) * MS_NS


def _later(event: Trigger, after_ns: int) -> Trigger:
    return event.model_copy(update={"after_ns": after_ns})


def _with(step: BaseModel, **fields: Any) -> Any:
    return step.model_copy(update=fields)


def _changed(timed: Timed, **fields: Any) -> Timed:
    return timed.model_copy(update=fields)
