"""What a node that was cut off from its watchers, or a replica, is said to have done to a key."""

from __future__ import annotations

from typing import Any

import pytest

from checker.decide import check
from checker.history.events import Event
from tests.unit.checker.builder import MS, HistoryBuilder


def two_holders() -> HistoryBuilder:
    made = HistoryBuilder(nodes=2, clients=["alice", "bob"])
    made.acquire("alice", "g", 0, 1, ttl=60, token="a")
    made.acquire("bob", "h", 20, 22, ttl=60, token="b")
    return made


def node(made: HistoryBuilder, f: str, name: str, at: int, **more: Any) -> None:
    key = None if f.startswith("node") else "k"
    made._events.append(Event(time_ns=at * MS, process="node", type="info", f=f, node=name, key=key, **more))


def look(made: HistoryBuilder, name: str, number: int, at: int, token: str | None, *commands: str) -> None:
    value: dict[str, Any] = {"asked_ns": at * MS, "answered_ns": (at + 1) * MS, "look": number}
    if commands:
        stamps = {"seen_ns": at * MS, "ran_ns": [at * MS, at * MS], "after": number - 1}
        value["commands"] = [{"command": command, **stamps} for command in commands]
    left = {"token": token, "ttl_left_ns": (60 - at) * MS} if token else {}
    node(made, "key-set" if token else "key-deleted", name, at + 1, value=value, **left)


def cause(made: HistoryBuilder) -> str:
    (overlap,) = [one for one in check(made.history()).findings if one.name == "overlap"]
    assert overlap.cause is not None
    return overlap.cause.text


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"ran_on": True}, "A ended all connections at 5 ms (event 3) and had no key afterwards"),
        (None, "A went down at 5 ms (event 3) and came back without the key"),
    ],
)
def test_a_node_whose_connections_ended_was_not_down(value: dict[str, bool] | None, said: str) -> None:
    made = two_holders()
    look(made, "A", 1, 2, "a")
    node(made, "node-down", "A", 5, value={"passed": 1})
    node(made, "node-up", "A", 6, value=value)
    look(made, "A", 2, 7, None)
    assert cause(made) == said


def test_a_set_on_a_replica_that_had_lost_the_key_before_is_no_cause() -> None:
    """A replica executes its master's SET without NX; it can't overwrite what a failover has taken away."""
    made = two_holders()
    look(made, "A", 1, 2, "a")
    made.fault("failover", 4, ["B"], until=5, breaks="durable nodes")
    look(made, "A", 2, 7, None)
    look(made, "A", 3, 21, "b", "SET k b PX 60")
    assert cause(made).startswith("failover at 4 ms")
