"""Locks with different names must not be in each other's way, however alike the names are."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from lab.examine.programs import ALICE, BOB, Setting
from lab.search.actor import KEY
from lab.search.trial import Round, Trial

ALIKE: Final = (
    KEY.upper(),
    f"{KEY} ",
    f"{KEY}s",
    f"{KEY}:1",
    f"{KEY}/1",
    f"tenant:{KEY}",
    f"tenant/{KEY}",
    f"{KEY}-{'and a long name ' * 16}",
    KEY[:-1],
    KEY[::-1],
)
"""Names that are one for a lock that folds case, trims, cuts off, drops a prefix, or mixes the letters up."""
NUMBERED: Final = 30
"""So many more: of eight buckets, that of the first name is hit by one of them in 98 of 100 cases."""


def other_names(setting: Setting) -> list[Trial]:
    """Alice takes a lock with another name while she holds the first one."""
    ttl_ns = setting.ttl_ns
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, ttl_ns // 10, other=True),),
        BOB: (Round(2 * ttl_ns, ttl_ns // 20),),
    }
    trial = setting.with_clients(clients)
    names = (*ALIKE, *(f"order-{number}" for number in range(1, NUMBERED + 1)))
    return [replace(trial, other_key=name) for name in names]
