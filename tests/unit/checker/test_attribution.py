"""To which fault a finding is put down: one that fits it, and no more certainty than there is."""

from __future__ import annotations

from typing import Any

import pytest

from checker.history.events import Event
from tests.unit.checker.builder import MS, TTL, HistoryBuilder

CLOCK, DURABLE, PAUSES = "bounded clock error", "durable nodes", "bounded process pauses"
REMOVED = "keys kept for their TTL"


def overlap(**acquired: Any) -> HistoryBuilder:
    """Alice is granted the lock until 5000 at the earliest, and Bob at 700."""
    builder = HistoryBuilder(clients=["alice", "bob"])
    builder.acquire("alice", "g1", 100, 110, ttl=5 * TTL, token="ta", **acquired)
    return builder.acquire("bob", "g2", 690, 700, ttl=5 * TTL, token="tb", **acquired)


def broken(builder: HistoryBuilder, name: str = "overlap") -> str:
    """The sentence about the assumption, without its beginning."""
    sentence = builder.verdict().named(name)[0].broken_assumption
    assert sentence is not None
    return sentence


def held(builder: HistoryBuilder, node: str, token: str, at: float, key: str = "k") -> HistoryBuilder:
    """A node is seen to hold a key."""
    builder._events.append(
        Event(
            time_ns=round(at * MS), process="node", type="info", f="key-set", node=node, key=key, token=token
        )
    )
    return builder


@pytest.mark.parametrize("paused", ["alice", "bob", "C"])
@pytest.mark.parametrize("breaks", [CLOCK, DURABLE, REMOVED])
def test_a_node_that_may_have_forgotten_goes_before_a_pause(paused: str, breaks: str) -> None:
    builder = overlap().fault("jump", 300, ["C"], breaks=breaks)
    builder.fault("pause", 400, [paused], breaks=PAUSES)
    assert broken(builder) == f"assumption '{breaks}' was broken by the nemesis at 0.20 s (event 2)"


def test_a_slow_network_makes_no_node_forget() -> None:
    builder = overlap().fault("drift", 300, ["C"], breaks=CLOCK)
    builder.fault("hold", 400, ["alice", "A"], breaks="bounded network delay")
    assert CLOCK in broken(builder)


def test_the_clock_of_a_client_makes_no_node_forget() -> None:
    builder = overlap().fault("crash", 300, ["C"], breaks=DURABLE).fault("jump", 400, ["alice"], breaks=CLOCK)
    assert DURABLE in broken(builder)


@pytest.mark.parametrize(
    ("f", "at", "until", "fits"),
    [
        ("jump", 10, None, False),  # off by the same all the time
        ("jump", 10, 90, False),
        ("jump", 10, 650, True),  # set right, and so stepped, while Alice held the lock
        ("jump", 99.6, None, True),  # done at 100.1
        ("jump", 120, 650, True),
        ("drift", 10, None, True),
        ("drift", 10, 90, False),
        ("drift", 10, 900, True),
        ("crash", 10, 900, True),
        ("jump", 720, None, False),  # Bob has the lock already
        ("jump", 99.5, None, True),  # done at 100
        ("jump", 99.25, None, False),
        ("jump", 10, 100, True),
        ("jump", 700, None, True),
        ("jump", 10, 700, True),
        ("jump", 10, 700.5, False),
        ("drift", 10, 700.5, True),
    ],
)
def test_only_what_happened_while_the_key_was_forgotten_fits(
    f: str, at: float, until: float | None, fits: bool
) -> None:
    builder = overlap().release("alice", "g1", 800, 810).fault(f, at, ["C"], breaks=CLOCK, until=until)
    builder.fault("pause", 750, ["alice"], breaks=PAUSES)
    assert (CLOCK in broken(builder)) is fits
    assert (PAUSES in broken(builder)) is not fits


def test_what_lasts_goes_before_what_makes_no_node_forget() -> None:
    builder = overlap().fault("drift", 10, ["C"], breaks=CLOCK).fault("pause", 300, ["C"], breaks=PAUSES)
    assert CLOCK in broken(builder)


def test_a_fault_without_targets_fits_no_better() -> None:
    builder = overlap().fault("jump", 200, [], breaks=CLOCK).fault("jump", 300, ["D"], breaks=CLOCK)
    assert "(event 4), the latest of 2 faults" in broken(builder)


def test_another_clients_pause_goes_after_ones_own_and_after_a_nodes() -> None:
    def put_down_to(*paused: str) -> str:
        builder = HistoryBuilder(clients=["alice", "bob", "carol"]).acquire("alice", "g1", 0, 10)
        for number, who in enumerate(paused):
            builder.fault("pause", 20 + 10 * number, [who], breaks=f"no pause of {who}")
        builder.acquire("bob", "g2", 1500, 1510).write("bob", "g2", 1520, 1530, 0, 1)
        builder.write("alice", "g1", 1540, 1550, 0, 2)
        return broken(builder, "stale-write").split("'")[1].removeprefix("no pause of ")

    assert put_down_to("alice", "carol") == "alice"
    assert put_down_to("A", "carol") == "A"
    assert put_down_to("alice", "A", "carol") == "A"
    assert put_down_to("carol") == "carol"


def test_a_fault_that_was_over_before_the_earlier_grant_was_asked_for_fits_nothing() -> None:
    builder = (
        HistoryBuilder(clients=["alice", "bob"])
        .lab("phase", 0)
        .fault("crash", 40, ["C"], breaks=DURABLE, until=60)
    )
    builder.acquire("alice", "g1", 100, 110, ttl=5 * TTL).fault("pause", 300, ["alice"], breaks=PAUSES)
    assert PAUSES in broken(builder.acquire("bob", "g2", 690, 700))


def test_what_lasts_goes_after_what_happens() -> None:
    builder = overlap().fault("crash", 300, ["D"], breaks=DURABLE).fault("drift", 10, ["C"], breaks=CLOCK)
    assert broken(builder).endswith("(event 4)")
    assert DURABLE in broken(builder)


def test_several_that_fit_alike_are_all_told() -> None:
    builder = overlap().fault("jump", 200, ["C"], breaks=CLOCK).fault("crash", 300, ["D"], breaks=DURABLE)
    builder.fault("pause", 400, ["bob"], breaks=PAUSES)
    assert broken(builder) == (
        "assumption 'durable nodes' was broken by the nemesis at 0.20 s (event 4), the latest of 2 faults "
        "that may have led to it (events 2, 4)"
    )


def test_a_long_list_of_faults_is_cut() -> None:
    builder = overlap()
    for at in range(200, 900, 100):
        builder.fault("jump", at - 50, [f"N{at}"], breaks=CLOCK)
    assert broken(builder).endswith(
        "the latest of 6 faults that may have led to it (events 4, 6, 8, 10, 12 …)"
    )


def test_a_node_that_held_both_keys_fits_best() -> None:
    builder = overlap().fault("jump", 200, ["C"], breaks=CLOCK).fault("jump", 300, ["D"], breaks=CLOCK)
    assert "(events 2, 4)" in broken(builder)
    held(held(builder, "C", "ta", 105), "D", "tb", 695)
    assert "(events" in broken(builder), "each of them held one of the two"
    assert broken(held(builder, "C", "tb", 695)).endswith("(event 3)")


def test_another_keys_value_tells_nothing() -> None:
    builder = overlap().fault("jump", 200, ["C"], breaks=CLOCK).fault("jump", 300, ["D"], breaks=CLOCK)
    held(held(builder, "C", "ta", 105, key="other"), "C", "tb", 106, key="other")
    assert "the latest of 2 faults" in broken(builder)


def test_an_extension_that_kept_nothing_is_put_down_to_a_node_too() -> None:
    builder = overlap().extend("alice", "g1", 710, 720, ttl=5 * TTL)
    builder.fault("jump", 300, ["C"], breaks=CLOCK).fault("pause", 400, ["alice"], breaks=PAUSES)
    assert CLOCK in broken(builder, "continuity-loss")


def test_what_no_node_forgot_is_put_down_to_the_latest_as_before() -> None:
    builder = HistoryBuilder(clients=["alice", "bob"]).acquire("alice", "g1", 0, 10)
    builder.fault("jump", 20, ["C"], breaks=CLOCK).fault("pause", 30, ["alice"], breaks=PAUSES)
    builder.acquire("bob", "g2", 1500, 1510).write("bob", "g2", 1520, 1530, 0, 1)
    builder.write("alice", "g1", 1540, 1550, 0, 2)
    assert broken(builder, "stale-write") == (
        "assumption 'bounded process pauses' was broken by the nemesis at 30 ms (event 4)"
    )
