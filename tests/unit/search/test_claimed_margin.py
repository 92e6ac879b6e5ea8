"""What a library does not claim of its leases is its margin: who goes by the claim stops earlier."""

from __future__ import annotations

from typing import Any

import pytest

from lab.search.suspicion import claimed_margin_ns

S = 10**9


def call(
    f: str, called_ns: int, ended_ns: int, claimed_ns: int | None, client: str = "alice", task: str = ""
) -> list[dict[str, Any]]:
    about = {"f": f, "process": f"{client}{task}", "client": client, "ttl_ns": 10 * S}
    return [
        {**about, "type": "invoke", "time_ns": called_ns},
        {**about, "type": "ok", "time_ns": ended_ns, "claimed_ns": claimed_ns},
    ]


@pytest.mark.parametrize(
    ("events", "margin_ns"),
    [
        (call("acquire", 0, S, 8 * S), S),
        (call("acquire", 0, S, 8 * S) + call("extend", 2 * S, 2 * S, 10 * S - 5), 5),
        # Bob waited for a second until his last try, by which the library counts his lease.
        (call("acquire", 0, S, 8 * S) + call("acquire", 2 * S, 4 * S, 8 * S, client="bob"), S),
        (call("acquire", 0, S, 12 * S), 0),
        # What is not claimed is not held against a lock: it is taken to leave what the references leave.
        (call("acquire", 0, S, None), 102 * 10**6),
        (call("release", 0, S, None), 0),
    ],
)
def test_the_least_that_was_not_claimed(events: list[dict[str, Any]], margin_ns: int) -> None:
    assert claimed_margin_ns(events) == margin_ns


def test_two_tasks_of_one_client_may_call_at_once() -> None:
    first = call("acquire", 0, 2 * S, 7 * S)
    second = call("acquire", S, 3 * S, 8 * S, task="+2")
    assert claimed_margin_ns([first[0], second[0], first[1], second[1]]) == S
    assert claimed_margin_ns([first[0], second[0], first[1]]) == S
