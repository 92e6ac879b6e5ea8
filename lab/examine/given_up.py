"""Requests that were waited for in vain, undone, and executed after all: no lock can help it."""

from __future__ import annotations

from typing import Final

from lab.examine.evidence import MS_NS, Evidence
from lab.search.watch import Executed

WAITED_NS: Final = 50 * MS_NS
"""Who has waited for an answer for so long has given it up: there are hardly shorter time-outs."""


def was_given_up(evidence: Evidence, setting: Executed) -> bool:
    """Whether what a request set had been undone over another connection before a node executed it.

    Its client had waited for the answer by then, and used the first connection no more: nothing that is sent
    over another one is sure to come later.
    """
    first, values = setting.sent, {new for _, _, new in setting.changes() if new is not None}
    if first is None:
        return False
    later = [
        each
        for each in evidence.outcome.sent
        if (each.client, each.node) == (first.client, first.node) and each.time_ns > first.time_ns
    ]
    undone_ns = min(
        (
            each.time_ns
            for each in later
            if each.connection != first.connection
            and first.time_ns + WAITED_NS <= each.time_ns <= setting.time_ns
            and each.words != first.words
            and values.intersection(each.words)
        ),
        default=None,
    )
    if undone_ns is None:
        return False
    before = {each.words for each in evidence.outcome.sent if each.time_ns < undone_ns}
    return not any(  # what was held up is noted once more when it goes on
        each.connection == first.connection and each.time_ns >= undone_ns and each.words not in before
        for each in later
    )
