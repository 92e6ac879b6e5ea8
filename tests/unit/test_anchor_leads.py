"""Who leads, as the servers say: one of them, or none; those that are down or stand still are not asked."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.run.anchors import Anchors
from lab.scenario.anchors import Leads
from lab.substrates.base import LEADER, Role

FOLLOWER = "follower"


class Server:
    """Says that it is ``role``; None: it is paused, and may not be asked."""

    def __init__(self, role: str | None) -> None:
        self._role = role
        self.alive = True

    def states(self) -> dict[int, str]:
        return {1: "S" if self._role else "T"}

    async def role(self) -> Role:
        assert self._role is not None, "a server that stands still was asked"
        return Role(self._role, 0, linked=True)


def came(servers: dict[str, Server], **anchor: Any) -> tuple[str, bool]:
    """In which words, and whether, the moment came within 50 ms."""
    unused = cast(Any, None)
    anchors = Anchors(
        cast(Any, SimpleNamespace(nodes=servers)),
        unused,
        unused,
        unused,
        started_ns=lambda: 0,
        leases={},
        pending={},
        slack_ns=0,
    )
    one = Leads.model_validate({"within": "50ms", **anchor})
    return asyncio.run(anchors.wait_for(one))


@pytest.mark.parametrize(
    ("roles", "asked", "leads"),
    [
        ((LEADER, FOLLOWER, FOLLOWER), ["A"], True),
        ((FOLLOWER, LEADER, None), ["B", "C"], True),
        ((FOLLOWER, LEADER, FOLLOWER), ["A"], False),
        (("alone", FOLLOWER, None), ["A", "C"], False),
    ],
)
def test_who_leads_is_what_the_servers_say(
    roles: tuple[str | None, ...], asked: list[str], leads: bool
) -> None:
    servers = {name: Server(role) for name, role in zip("ABC", roles, strict=True)}
    words, is_so = came(servers, nodes=asked, leads=leads)
    assert is_so, words
    assert words == f"node {', '.join(asked)} {'leads' if leads else 'does not lead'}"
    assert not came(servers, nodes=asked, leads=not leads)[1]
