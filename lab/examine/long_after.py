"""Situations with long pauses, in which a node forgets what it was to keep for longer than a lease."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.search.trial import Round, Trial

PAUSES_NS: Final = (61 * S_NS, 61 * 60 * S_NS)
"""Longer than the round numbers, a minute and an hour, for which people let things lie; cheap ones first."""


def long_after(setting: Setting) -> Iterator[Trial]:
    """Alice, Bob and Alice again hold the lock for a moment, each of them long after the other."""
    turn_ns = setting.ttl_ns // 10
    for pause_ns in PAUSES_NS:
        clients = {
            ALICE: (Round(0, turn_ns), Round(2 * pause_ns, turn_ns)),
            BOB: (Round(pause_ns, turn_ns),),
        }
        trial = setting.with_clients(clients, demand=False)
        yield replace(trial, horizon_ns=2 * pause_ns + trial.horizon_ns)
