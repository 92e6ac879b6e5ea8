"""A split vote: every node holds the key, and no value of it stands on a majority."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.run.anchors import Anchors
from lab.scenario.anchors import VoteSplit


def came(tokens: Mapping[str, str | None]) -> bool:
    """Whether the vote counts as split with these values of the key on the nodes."""
    unused = cast(Any, None)

    async def token(node: str) -> str | None:
        return tokens[node]

    anchors = Anchors(
        cast(Any, SimpleNamespace(nodes=dict.fromkeys(tokens))),
        cast(Any, SimpleNamespace(token=token)),
        unused,
        unused,
        started_ns=lambda: 0,
        leases={},
        pending={},
        slack_ns=0,
    )
    anchor = VoteSplit.model_validate({"vote": "split", "within": "1ms"})
    return asyncio.run(anchors.wait_for(anchor))[1]


@pytest.mark.parametrize(
    ("values", "split"),
    [("aabbc", True), ("aaabc", False), ("aabb-", False), ("-----", False), ("aabb", True), ("aaab", False)],
)
def test_a_vote_is_split_if_all_are_cast_and_nobody_has_a_majority(values: str, split: bool) -> None:
    tokens = {node: None if one == "-" else one for node, one in zip("ABCDE", values, strict=False)}
    assert came(tokens) is split
