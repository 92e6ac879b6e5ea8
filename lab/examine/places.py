"""Where in the code of a lock a cause is: the call that sent the command, and the calls that led there."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Final

from lab.examine.evidence import Evidence, Operation
from lab.search.origin import Place, Sent
from lab.search.watch import ClockRead, Executed

PLACES_MAX: Final = 4
"""How many calls of a chain are named: the innermost, and the outermost of the others."""
OF_CLIENT_LIBRARIES: Final = ("HELLO", "CLIENT", "AUTH", "SELECT", "PING")
"""Commands that a client library sends by itself, for instance with a new connection."""
WAITING: Final = ("sleeps-on", "waits-too-long", "hangs")
"""Causes of which the last request tells most, for the operation waited on it."""


def places_of(
    evidence: Evidence, kind: str, by: Executed | Operation | ClockRead | None
) -> tuple[Place, ...]:
    """The calls that led to a command, or to where an operation waits, the outermost first; or none.

    Of a look at a clock those that led to that.
    """
    if isinstance(by, ClockRead):
        return _some(by.places)
    if isinstance(by, Executed):
        return () if by.sent is None else _to_its_sending(evidence, by.sent)
    if by is None:
        return ()
    if by.how == "open" and (waiting := evidence.outcome.waiting.get(by.client)):
        return _some(waiting)
    asked = [sent for sent in evidence.requests_of(by) if sent.places]
    requests = [sent for sent in asked if sent.words[0].upper() not in OF_CLIENT_LIBRARIES] or asked
    if not requests:
        return ()
    token = by.event.get("token")
    with_token = [sent for sent in requests if token in sent.words] or requests
    return _to_its_sending(evidence, _waited_on(requests, by) if kind in WAITING else with_token[0])


def _waited_on(requests: list[Sent], by: Operation) -> Sent:
    """The last request before an operation was silent for most of its time; else what it sent most often."""
    at = [*(sent.time_ns for sent in requests), by.ended_ns]
    silent_ns, last = max((later - earlier, n) for n, (earlier, later) in enumerate(pairwise(at)))
    if silent_ns > (by.ended_ns - by.called_ns) / 2:
        return requests[last]
    often = Counter(sent.words for sent in requests)
    return max(requests, key=lambda sent: often[sent.words])


def _to_its_sending(evidence: Evidence, sent: Sent) -> tuple[Place, ...]:
    """The calls up to the one that says what is sent; helpers that send anything are left out below it."""
    places = sent.places
    named = [at for at, place in enumerate(places) if _names(place, sent.words[0])]
    special = [at for at, place in enumerate(places) if len(_sorts_sent_by(evidence, place)) == 1]
    last = max(named or special, default=len(places) - 1)
    return _some(places[: last + 1])


def _names(place: Place, command: str) -> bool:
    return re.search(rf"\b{re.escape(command)}\b", place.text, re.IGNORECASE) is not None


def _sorts_sent_by(evidence: Evidence, place: Place) -> set[tuple[str, ...]]:
    """Which commands this call sent in the trial, with their script."""
    return {
        sent.words[:2] if sent.words[0].upper().startswith(("EVAL", "FCALL")) else sent.words[:1]
        for sent in evidence.outcome.sent
        if place in sent.places
    }


def _some(places: tuple[Place, ...]) -> tuple[Place, ...]:
    return places if len(places) <= PLACES_MAX else (*places[: PLACES_MAX - 1], places[-1])
