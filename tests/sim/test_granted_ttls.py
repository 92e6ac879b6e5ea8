"""What is recorded of a lock that grants less time than it was asked for."""

from __future__ import annotations

import pytest

from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial
from tests.locks_to_test.unusual import Capped

ASKED_NS = 5_000_000_000


@pytest.mark.parametrize("f", ["acquire", "extend"])
@pytest.mark.usefixtures("_patched")
def test_a_grant_and_an_extension_last_as_long_as_the_lock_says(f: str) -> None:
    rounds: dict[str, tuple[Round, ...]] = {"alice": (Round(0, Capped.most_ns // 2, extends=1),)}
    trial = Trial(
        lock="tests.locks_to_test.unusual:Capped", clients=rounds, nodes=1, ttl_ns=ASKED_NS, demand_ns=0
    )
    with trials():
        events = [event for event in run_trial(trial).events if event["f"] == f]
    assert [(event["type"], event["ttl_ns"]) for event in events] == [
        ("invoke", ASKED_NS),
        ("ok", Capped.most_ns),
    ]
