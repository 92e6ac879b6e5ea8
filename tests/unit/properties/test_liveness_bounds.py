"""Leaks and unavailability at their bounds: how long, how close, beside whom, while who was up.

Alice holds the lock until 30 ms, with a TTL of 1000 ms; the grace is 100 ms: a leak takes more than 1100 ms.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checker.builder import MS, HistoryBuilder

Try = tuple[str, float, float]


def builder(*tries: Try, ttl: float = 1000, **params: Any) -> HistoryBuilder:
    """Refusals by three of five nodes, after Alice gave the lock back; clocks are exact."""
    clients = ["alice", "bob", "carol"]
    made = HistoryBuilder(**{"rho": 0.0, "grace_ns": 100 * MS, "clients": clients, **params})
    made.acquire("alice", "g", 0, 10, ttl=ttl).release("alice", "g", 20, 30)
    for number, (who, call, back) in enumerate(tries):
        made.acquire(f"{who}/{number}", f"t{number}", call, back, "fail")
    return made.lab("phase", 4000)


def leaked(made: HistoryBuilder) -> int | None:
    """For how long the lock was lost, in ms; None if nothing proves that it was."""
    found = made.verdict().named("leak")
    return round(found[0].details["refused_ns"] / MS) if found else None


ONE, TWO = ("bob", 200, 700), ("bob", 800, 1301)


def test_a_series_of_refusals_is_a_leak_if_it_lasts_longer_than_ttl_and_grace() -> None:
    assert leaked(builder(ONE, TWO)) == 1101
    assert leaked(builder(ONE, ("bob", 800, 1300))) is None
    assert leaked(builder(ONE, ("carol", 800, 1301))) == 1101
    assert leaked(builder(ONE, ("bob", 750, 760), TWO)) == 1101
    assert leaked(builder(ONE, TWO, ("bob", 1310, 1320))) == 1101  # with the first that proves it


def test_refusals_more_than_the_grace_apart_are_no_series() -> None:
    assert leaked(builder(ONE, ("bob", 801, 1302))) is None
    assert leaked(builder(("bob", 200, 210), ("carol", 205, 700), ("bob", 800, 1301))) == 1101
    assert leaked(builder(("carol", 205, 700), ("bob", 210, 220), ("bob", 800, 1306))) == 1101
    assert leaked(builder(("bob", 40, 45), ("bob", 200, 700), TWO)) == 1101  # from the second on


def test_only_refusals_by_nodes_count() -> None:
    for reported in (0, None):
        silent = builder(ONE).acquire("bob/7", "u", 800, 1301, "fail", refused_by=reported)
        assert leaked(silent) is None
    assert leaked(builder(ONE).acquire("bob/7", "u", 800, 1301, "fail", refused_by=1)) == 1101
    assert leaked(builder(ONE).acquire("bob/7", "u", 800, 1301, "info")) is None
    other = builder(ONE).acquire("bob/7", "u", 800, 1301, "fail", key="l")
    assert leaked(other) is None


def test_the_longest_lease_that_was_asked_for_counts() -> None:
    assert leaked(builder(ONE, TWO, ttl=1001)) is None
    assert leaked(builder(ONE, TWO).acquire("alice", "o", 2000, 2010, "fail", ttl=1001, key="l")) == 1101
    assert leaked(builder(ONE, TWO, ttl=1000).extend("alice", "g", 12, 14, "fail", ttl=1001)) is None
    assert leaked(builder(ONE, ("bob", 800, 1302)).extend("alice", "g", 12, 14, "fail", ttl=1001)) == 1102
    assert leaked(builder(ONE, TWO, rho=0.01)) is None


def test_standing_still_does_not_count() -> None:
    assert leaked(builder(ONE, TWO).stall("bob", 720, 1)) is None
    assert leaked(builder(ONE, TWO).stall("lab", 720, 1)) is None
    assert leaked(builder(ONE, TWO).stall("carol", 720, 1)) == 1101
    assert leaked(builder(ONE, ("bob", 800, 1311)).stall("bob", 720, 5)) == 1106
    assert leaked(builder(ONE, ("bob", 800, 1311)).stall("bob", 195, 10)) == 1106


@pytest.mark.parametrize(
    ("at", "until", "proven"),
    [
        (50, 199, True),
        (50, 201, False),
        (699, 710, False),
        (720, 730, False),
        (1300, 1400, False),
        (1302, 1400, True),
    ],
)
def test_a_majority_is_up_all_the_while(at: float, until: float, proven: bool) -> None:
    made = builder(ONE, TWO).fault("crash", at, ["A", "B", "C"], until=until)
    assert (leaked(made) is not None) is proven
    assert leaked(builder(ONE, TWO).fault("crash", at, ["A", "B"], until=until)) == 1101
    assert (
        leaked(builder(ONE, TWO).fault("cut", at, ["bob", "A", "B", "C"], until=until)) is not None
    ) is proven
    assert leaked(builder(ONE, TWO).fault("cut", at, ["carol", "A", "B", "C"], until=until)) == 1101


def test_both_ends_of_a_series_were_served_throughout() -> None:
    """Carol cannot be served between Bob's refusal and hers: then his prove nothing about hers."""
    made = builder(ONE, ("carol", 800, 1301)).fault("cut", 720, ["carol", "A", "B", "C"], until=730)
    assert leaked(made) is None
    made = builder(ONE, ("carol", 800, 1301)).fault("cut", 720, ["bob", "A", "B", "C"], until=730)
    assert leaked(made) is None


def test_a_series_lies_in_one_time_in_which_nobody_can_hold_the_lock() -> None:
    taken = builder(ONE, TWO).acquire("carol", "h", 710, 715, ttl=10).release("carol", "h", 716, 718)
    assert leaked(taken) is None
    at_the_end = builder(ONE, TWO).acquire("carol", "h", 1301, 1310)
    assert leaked(at_the_end) == 1101
    assert leaked(builder(ONE, TWO).acquire("carol", "h", 1300, 1310)) is None


def lone(*tries: Try, call: float = 1131, **params: Any) -> HistoryBuilder:
    return builder(("bob", call, call + 9), *tries, **params)


def test_one_refusal_long_after_the_last_holder_is_a_leak() -> None:
    assert leaked(lone()) == 1101
    assert leaked(lone(call=1130)) is None
    assert leaked(lone().stall("bob", 700, 1)) is None
    assert leaked(lone().stall("lab", 700, 1)) is None
    assert leaked(lone().stall("carol", 700, 1)) == 1101
    assert leaked(lone(call=1141).stall("bob", 25, 10)) == 1106
    assert leaked(lone(call=1141).stall("bob", 1145, 1)) is None  # during it
    assert leaked(lone(("bob", 1500, 1509), call=2500)) == 1470  # the first that proves it


def test_each_lock_is_judged_alone_and_one_without_a_name_as_well() -> None:
    for key in ("l", None):
        made = HistoryBuilder(rho=0.0, grace_ns=100 * MS, unavailable_ns=2000 * MS, clients=["alice", "bob"])
        if key is not None:
            made.acquire("alice/1", "h", 0, 5).acquire("alice/2", "i", 1131, 1140)
        made.acquire("alice", "g", 0, 10, key=key).release("alice", "g", 20, 30, key=key)
        made.acquire("bob", "t", 1131, 1140, "fail", key=key).lab("phase", 4000)
        assert leaked(made) == 1101
        (finding,) = made.verdict().named("leak")
        assert (finding.key, missed(made)) == (key, [])


@pytest.mark.parametrize(
    ("call", "back", "proven"),
    [(1000, 1031, True), (1000, 1032, False), (1100, 1110, False), (1140, 1145, False), (1200, 1210, False)],
)
def test_one_refusal_proves_nothing_with_another_try_beside_it(
    call: float, back: float, proven: bool
) -> None:
    for who in ("bob/9", "carol"):
        made = lone().acquire(who, "u", call, back, "fail", refused_by=0)
        expected = proven or call > 1140
        assert (leaked(made) is not None) is expected
        assert leaked(lone().acquire(who, "u", call, back, "fail", refused_by=0, key="l")) == 1101


def test_a_try_of_unknown_outcome_may_have_held_the_lock() -> None:
    assert leaked(lone().acquire("carol", "u", 1000, 1020, "info", ttl=1)) is None
    assert leaked(lone(call=2121).acquire("carol", "u", 1000, 1019, "info", ttl=1)) == 1101
    assert leaked(lone(call=2120).acquire("carol", "u", 1000, 1019, "info", ttl=1)) is None


@pytest.mark.parametrize(
    ("at", "until", "proven"),
    [(900, 1030, True), (900, 1032, False), (1050, 1060, False), (1139, 1200, False), (1141, 1200, True)],
)
def test_one_refusal_was_served_from_a_grace_before_it_on(at: float, until: float, proven: bool) -> None:
    made = lone().fault("crash", at, ["A", "B", "C"], until=until)
    assert (leaked(made) is not None) is proven


def test_a_lone_refusal_at_the_beginning_of_a_record() -> None:
    made = HistoryBuilder(rho=0.0, grace_ns=100 * MS, clients=["bob"]).acquire(
        "bob", "t", 0, 5, "fail", ttl=None
    )
    assert leaked(made.lab("phase", 10)) is None
    short = HistoryBuilder(rho=0.0, grace_ns=100 * MS, clients=["bob"]).lab("phase", 0)
    assert leaked(short.acquire("bob", "t", 101, 105, "fail", ttl=None)) == 101
    assert leaked(short.acquire("bob/2", "u", 106, 107, "fail", ttl=None)) == 101
    assert leaked(short.acquire("bob/3", "v", 90, 91, "fail", ttl=None)) is None


# -- unavailability ------------------------------------------------------------------------------------------


def missed(made: HistoryBuilder) -> list[int]:
    """For how long clients could not get the lock, in ms."""
    return [round(f.details["waited_ns"] / MS) for f in made.verdict().named("unavailable")]


def bounded(*tries: Try, **params: Any) -> HistoryBuilder:
    return builder(*tries, unavailable_ns=500 * MS, **params)


def in_vain(*tries: Try, **params: Any) -> HistoryBuilder:
    """Tries that no node refused."""
    made = bounded(**params)
    for number, (who, call, back) in enumerate(tries):
        made.acquire(f"{who}/{number}", f"t{number}", call, back, "fail", refused_by=0)
    return made


def test_who_asks_without_a_break_for_longer_than_the_bound_was_not_served() -> None:
    assert missed(in_vain(("bob", 200, 701))) == [501]
    assert missed(in_vain(("bob", 200, 700))) == []
    assert missed(in_vain(("bob", 200, 450), ("carol", 550, 701))) == [501]  # a grace apart
    assert missed(in_vain(("bob", 200, 450), ("carol", 551, 702))) == []
    assert missed(in_vain(("bob", 200, 450), ("carol", 440, 701))) == [501]
    assert missed(in_vain(("bob", 200, 702)).stall("bob", 300, 1)) == [501]
    assert missed(in_vain(("bob", 200, 701)).stall("bob", 300, 1)) == []
    assert missed(in_vain(("bob", 200, 701)).stall("carol", 300, 1)) == [501]
    assert missed(builder(("bob", 200, 3000))) == []  # without a bound


def test_demand_counts_from_when_the_lock_was_free() -> None:
    assert missed(bounded(("bob", 15, 531))) == [501]
    assert missed(bounded(("bob", 15, 530))) == []
    assert missed(bounded(("bob", 15, 29), ("bob", 200, 700))) == []
    assert missed(bounded(("bob", 15, 29), ("bob", 200, 701))) == [501]


def test_demand_counts_until_the_next_grant() -> None:
    assert (
        missed(bounded(("bob", 200, 900)).acquire("carol", "h", 300, 700).release("carol", "h", 901, 902))
        == []
    )
    assert missed(
        bounded(("bob", 200, 900)).acquire("carol", "h", 300, 701).release("carol", "h", 901, 902)
    ) == [501]


def test_two_times_without_a_grant_are_two_findings() -> None:
    made = bounded(("bob", 200, 701), ("bob", 900, 1402))
    assert missed(made) == [501, 502]
    (one, two) = made.verdict().named("unavailable")
    assert (one.clients, one.witnesses, two.witnesses) == (("bob",), (4, 5), (6, 7))


def test_a_majority_is_up_while_somebody_waits() -> None:
    for at, until, expected in ((300, 310, []), (150, 205, [501]), (701, 800, [501]), (100, 199, [506])):
        made = bounded(("bob", 200, 706)).fault("crash", at, ["A", "B", "C"], until=until)
        assert missed(made) == expected


SERIES = ("bob", 200, 205), ("bob", 400, 405), ("bob", 600, 701)


def test_refusals_one_by_one_are_a_proof_as_well() -> None:
    """The key is there at each of them: more than a grace apart, they are no demand without a break."""
    assert missed(bounded(*SERIES)) == [501]
    assert missed(bounded(*SERIES[:2], ("bob", 600, 700))) == []
    assert missed(bounded(*SERIES, ("bob", 900, 905))) == [705]
    assert missed(bounded(*SERIES).stall("bob", 300, 1)) == []
    assert missed(bounded(*SERIES[:2], ("bob", 600, 711)).stall("lab", 300, 10)) == [501]
    assert missed(bounded(*SERIES[:2], ("carol", 600, 711)).stall("carol", 300, 10)) == [501]


def test_a_series_of_single_refusals_is_broken_by_whatever_may_explain_one() -> None:
    assert missed(bounded(*SERIES).acquire("carol", "u", 402, 410, "fail")) == []  # beside the second
    before = bounded(*SERIES).acquire("carol", "u", 310, 315, "fail")
    assert missed(before) == []  # within the grace before it
    assert missed(bounded(*SERIES).acquire("carol", "u", 301, 302, "fail")) == []
    wider = ("bob", 200, 205), ("bob", 410, 415), ("bob", 620, 701)
    assert missed(bounded(*wider).acquire("carol", "u", 306, 308, "fail")) == [501]  # one more of the series
    assert missed(bounded(*wider).acquire("carol", "u", 305, 308, "fail")) == []
    assert missed(bounded(*wider).acquire("carol", "u", 306, 310, "fail")) == []
    assert missed(bounded(*SERIES[:2], ("bob", 600, 605)).acquire("bob", "u", 606, 701, "fail")) == [501]
    assert missed(bounded(*SERIES[:2], ("bob", 600, 605)).acquire("carol", "u", 606, 701, "fail")) == []
    silent = bounded(*SERIES).acquire("bob/8", "u", 500, 505, "fail", refused_by=0)
    assert missed(silent) == []
    assert missed(bounded(*SERIES).acquire("bob/8", "u", 500, 505, "fail", refused_by=1)) == [501]
    assert missed(bounded(*SERIES).acquire("carol", "u", 500, 501, "fail", key="l")) == [501]


def test_a_series_of_single_refusals_lies_in_times_in_which_nobody_can_hold_the_lock() -> None:
    assert missed(bounded(*SERIES).acquire("carol", "u", 702, 705)) == [501]
    assert missed(bounded(*SERIES).acquire("carol", "u", 701, 705)) == []
    down = {"f": "crash", "targets": ["A", "B", "C"]}
    assert missed(bounded(*SERIES).fault(at=500, until=510, **down)) == []  # type: ignore[arg-type]
    assert missed(bounded(*SERIES).fault(at=702, until=710, **down)) == [501]  # type: ignore[arg-type]


def test_a_key_on_which_demand_without_a_break_was_seen_is_told_once() -> None:
    assert missed(bounded(*SERIES, ("bob", 900, 1402))) == [502]
    both = bounded(*SERIES).acquire("bob", "o", 2000, 2600, "fail", key="l")
    assert missed(both) == [600, 501]


def test_times_in_which_nobody_tried_hide_no_others() -> None:
    """The key was free for long without a try: that says nothing, and what was missed before stands."""
    made = bounded(("bob", 200, 701)).acquire("carol", "u", 850, 860).release("carol", "u", 870, 880)
    verdict = made.verdict()
    assert [round(f.details["waited_ns"] / MS) for f in verdict.named("unavailable")] == [501]
    assert verdict["fault_tolerance"].outcome == "violated"


def of_two(*tries: Try, held_until: float, **params: Any) -> HistoryBuilder:
    """The same of a semaphore with two permits; Carol has the other one all the time."""
    made = builder(*tries, ttl=1000, model="semaphore", permits=2, **params)
    made.acquire("carol", "c", 0, 5, ttl=4000)
    return made.release("carol", "c", held_until, held_until + 5)


def test_a_permit_is_lost_though_another_one_is_held() -> None:
    tries = (("bob", 200, 700), ("bob", 800, 2500), ("bob", 2510, 4400), ("bob", 4410, 6000))
    assert leaked(of_two(*tries, held_until=3900)) == 4200  # TTL and grace are 4100 ms
    assert leaked(of_two(*tries, held_until=3900).acquire("dave", "d", 100, 110, ttl=4000)) is None
    granted = of_two(*tries, held_until=3900).acquire("dave", "d", 2000, 2010, ttl=1000)
    assert leaked(granted.release("dave", "d", 2010, 2011)) is None  # a grant in between
    asked = of_two(*tries, held_until=3900).acquire("dave", "d", 100, 110, "fail", value=2)
    assert leaked(asked) is None  # there never was room for what Dave asked for


def test_a_semaphore_with_a_free_permit_is_unavailable_if_it_grants_none() -> None:
    tries = (("bob", 200, 700), ("bob", 710, 1400))
    made = of_two(*tries, held_until=3000, unavailable_ns=1000 * MS)
    (found,) = made.verdict().named("unavailable")
    assert found.clients[0] == "bob"
    full = of_two(*tries, held_until=3000, unavailable_ns=1000 * MS)
    assert not full.acquire("dave", "d", 40, 50, ttl=4000).verdict().named("unavailable")
