"""The history of a lock that its holder may take again, with what a mutex promises of it.

What such a lock promises to others is a *session*: from the acquire of a client that has no lease to the
release of the last one that it has. The acquires and releases in between change how often it has the lock,
not whether; in the history of sessions they are extensions, so that every rule for locks holds as it stands:

- A nested acquire counts for no longer than the lease that was there, unless the lock says for how long.
- What is nested may prolong the key, and nobody has to say so: it is an extension of unknown outcome.
- Where the outcome of a nested call is not known, nor is how often the client has the lock: its last release
  may not have been the last one, and what is left goes with the lease. Nor is it in the next session after a
  release of unknown outcome, while what that was to give back may last; what an acquire of unknown outcome
  has set is its client's to undo.
- An acquire that is called, or returns with a claim, when the lease of the session is over for certain is no
  nested one: it begins a lease.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Final

from lab.analysis.assumptions import EPSILON_NS, RHO
from lab.search.runner import Event, Outcome, is_unattended

NOT_COUNTED: Final = "how often its client has the lock is not known"
OF_ACQUIRE: Final = ("fence", "refused_by", "value", "_nodes", "_others", "error")
"""What an event of an acquire says and one of an extension does not."""


@dataclass(slots=True)
class Session:
    """What a client has from its first acquire on: under which grant, and until when at the longest.

    ``open``: the grants of it that were not given back. ``unsure``: a nested call had no known outcome.
    ``left``: a release may not have given back what it was to, though that is over for its client.
    """

    grant_id: str
    ttl_ns: int
    until_ns: int
    claimed_ns: int
    open: list[str] = field(default_factory=list)
    unsure: bool = False
    left: bool = False

    def lasts(self, since_ns: int, ttl_ns: int) -> None:
        """The key may be there for this long from now on."""
        self.until_ns = max(self.until_ns, since_ns + round(ttl_ns * (1 + RHO)) + 2 * EPSILON_NS)


def in_sessions(outcome: Outcome) -> Outcome:
    """The outcome with the history of sessions, event by event; itself if nobody may take the lock again."""
    if not outcome.trial.reentrant:
        return outcome
    return dataclasses.replace(outcome, events=_Sessions(outcome.events).told())


class _Sessions:
    """Tells the events of a history as those of sessions; each keeps its place."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events
        self._ends = {
            event["grant_id"]: event
            for event in events
            if event["f"] == "acquire" and event["type"] != "invoke" and event.get("grant_id")
        }
        self._of: dict[str, Session] = {}
        """The session of each grant."""
        self._last: dict[tuple[str, str], Session] = {}
        self._after_left: set[str] = set()
        """The grants that were asked for while a session was there that may not have been given back."""
        self._nested: dict[tuple[str, str], str] = {}
        """The calls that neither begin nor end a session, with the process that stands for theirs."""

    def told(self) -> list[Event]:
        return [self._one(event) if event.get("grant_id") else event for event in self._events]

    def _one(self, event: Event) -> Event:
        f, grant_id = event["f"], event["grant_id"]
        if is_unattended(event):  # what renews itself is held until it is given back
            session = self._of.get(grant_id)
            if session is not None:
                session.until_ns = 1 << 62
        elif f == "acquire":
            return self._acquire(event)
        elif f == "release" and grant_id in self._of:
            return self._release(event, self._of[grant_id])
        elif f == "extend" and grant_id in self._of and event["type"] in ("ok", "info"):
            session = self._of[grant_id]
            session.lasts(event["time_ns"], event.get("ttl_ns") or session.ttl_ns)
            if event["type"] == "ok":
                claimed_ns = event["time_ns"] + (event.get("claimed_ns") or 0)
                session.claimed_ns = max(session.claimed_ns, claimed_ns)
        return self._under(event, self._of.get(grant_id))

    def _acquire(self, event: Event) -> Event:
        grant_id, place, now_ns = event["grant_id"], (event["client"], event["key"]), event["time_ns"]
        if event["type"] == "invoke":
            before, end = self._last.get(place), self._ends.get(grant_id, {})
            if before is None or not before.open or now_ns > before.until_ns:
                if before is not None and before.left and now_ns <= before.until_ns:
                    self._after_left.add(grant_id)
                return event
            claims = end.get("type") == "ok" and end.get("claimed_ns") is not None
            if claims and end["time_ns"] > before.until_ns:
                return event  # what it is said to have can be no part of what was over when it returned
            is_claimed = self._claims_more(end, before)
            self._of[grant_id] = before
            if not is_claimed:
                self._nested[grant_id, "acquire"] = f"{event['process']}/nested {grant_id}"
            return self._as_extension(event, before, "acquire")
        if grant_id not in self._of:
            if event["type"] == "ok":
                left = grant_id in self._after_left
                session = Session(grant_id, event["ttl_ns"], 0, now_ns, [grant_id], unsure=left, left=left)
                session.lasts(now_ns, event["ttl_ns"])
                session.claimed_ns = now_ns + (event.get("claimed_ns") or 0)
                self._of[grant_id] = self._last[place] = session
            return event
        session = self._of[grant_id]
        if event["type"] == "ok":
            session.open.append(grant_id)
        if event["type"] != "fail":
            session.lasts(now_ns, event["ttl_ns"])
        session.unsure = session.unsure or event["type"] == "info"
        if (grant_id, "acquire") not in self._nested:
            session.claimed_ns = now_ns + event["claimed_ns"]
        return self._as_extension(event, session, "acquire")

    @staticmethod
    def _claims_more(end: Event, session: Session) -> bool:
        """Whether a nested acquire prolongs, in the lease that there is, what was claimed before."""
        left_ns = end.get("claimed_ns") if end.get("type") == "ok" else None
        if left_ns is None or end["time_ns"] >= session.claimed_ns:
            return False
        return bool(end["time_ns"] + left_ns > session.claimed_ns + EPSILON_NS)

    def _release(self, event: Event, session: Session) -> Event:
        grant_id, kind = event["grant_id"], event["type"]
        if kind == "invoke":
            if grant_id in session.open:
                session.open.remove(grant_id)
            name = "nested" if session.open else "uncounted" if session.unsure else ""
            if name:
                self._nested[grant_id, "release"] = f"{event['process']}/{name} {grant_id}, release"
        process = self._nested.get((grant_id, "release"))
        is_nested = process is not None and "/nested " in process
        session.left = session.left or kind == "info" or (is_nested and kind == "fail")
        if process is None:
            return self._under(event, session)
        if is_nested:
            session.unsure = session.unsure or session.left
            session.lasts(event["time_ns"], session.ttl_ns)
            return self._as_extension(event, session, "release")
        told = self._under(event, session) | {"process": process}
        return told if kind != "ok" else told | {"type": "info", "error": NOT_COUNTED}

    def _as_extension(self, event: Event, session: Session, f: str) -> Event:
        """A nested call as an extension: of unknown outcome, unless it is claimed."""
        process = self._nested.get((event["grant_id"], f))
        told: Event = {"f": "extend", "grant_id": session.grant_id}
        if process is None:
            return {name: value for name, value in event.items() if name not in OF_ACQUIRE} | told
        told |= {"ttl_ns": session.ttl_ns, "process": process}
        if event["type"] != "invoke":
            told |= {"type": "info", "error": NOT_COUNTED}
        return {name: value for name, value in event.items() if name not in OF_ACQUIRE} | told

    @staticmethod
    def _under(event: Event, session: Session | None) -> Event:
        if session is None or event["grant_id"] == session.grant_id:
            return event
        return event | {"grant_id": session.grant_id}
