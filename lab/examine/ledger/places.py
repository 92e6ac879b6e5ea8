"""Where in the code of a lock a cause is: the call that sent the command, and the calls that led there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from lab.search.origin import Place, Sent
from lab.search.runner import Outcome
from lab.search.watch import ClockRead

PLACES_MAX: Final = 4
"""How many calls of a chain are named: the innermost, and the outermost of the others."""
OF_CLIENT_LIBRARIES: Final = ("HELLO", "CLIENT", "AUTH", "SELECT", "PING")
"""Commands that a client library sends by itself, for instance with a new connection."""


def of_reads(read: ClockRead) -> tuple[Place, ...]:
    """The calls that led to a look at a clock."""
    return _some(read.places)


def of_requests(outcome: Outcome, sent: Sequence[Sent], token: str | None) -> tuple[Place, ...]:
    """The calls that led to the request of an operation that tells most of it: the first with its token."""
    asked = [each for each in sent if each.places]
    requests = [each for each in asked if each.words[0].upper() not in OF_CLIENT_LIBRARIES] or asked
    if not requests:
        return ()
    with_token = [each for each in requests if token in each.words] or requests
    return to_its_sending(outcome, with_token[0])


def to_its_sending(outcome: Outcome, sent: Sent) -> tuple[Place, ...]:
    """The calls up to the one that says what is sent; helpers that send anything are left out below it."""
    places = sent.places
    named = [at for at, place in enumerate(places) if _names(place, sent.words[0])]
    special = [at for at, place in enumerate(places) if len(_sorts_sent_by(outcome, place)) == 1]
    last = max(named or special, default=len(places) - 1)
    return _some(places[: last + 1])


def _names(place: Place, command: str) -> bool:
    return re.search(rf"\b{re.escape(command)}\b", place.text, re.IGNORECASE) is not None


def _sorts_sent_by(outcome: Outcome, place: Place) -> set[tuple[str, ...]]:
    """Which commands this call sent in the trial, with their script."""
    return {
        sent.words[:2] if sent.words[0].upper().startswith(("EVAL", "FCALL")) else sent.words[:1]
        for sent in outcome.sent
        if place in sent.places
    }


def _some(places: tuple[Place, ...]) -> tuple[Place, ...]:
    return places if len(places) <= PLACES_MAX else (*places[: PLACES_MAX - 1], places[-1])
