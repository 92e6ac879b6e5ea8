"""Broken locks on several nodes, and fences that do not grow, in the situation that shows each of them."""

from __future__ import annotations

import pytest

from lab.client_protocol import Outcome
from lab.locks.broken import MUTANTS
from tests.known_bad.driven import S_NS, Driven, Situation, keeps_trying, situation

pytestmark = pytest.mark.usefixtures("_patched")


def each_in_its_part(sim: Driven, alices: str, bobs: str) -> None:
    """Let both ask, each of whom reaches some nodes."""
    names = "".join(sim.cluster.nodes)
    sim.alice.link("cut", "".join(set(names) - set(alices)))
    sim.bob.link("cut", "".join(set(names) - set(bobs)))
    sim.alice.does("acquire")
    assert sim.bob.does("acquire") is Outcome.OK or len(names) == 4


@situation(nodes=7, node_timeout="250ms", retry_count=1)
def three_of_seven(sim: Driven) -> None:
    each_in_its_part(sim, "ABC", "DEFG")


@situation(nodes=5, node_timeout="250ms", retry_count=1)
def two_of_five(sim: Driven) -> None:
    each_in_its_part(sim, "AB", "CDE")


@situation(nodes=4, node_timeout="250ms", retry_count=1)
def two_of_four(sim: Driven) -> None:
    each_in_its_part(sim, "AB", "CD")


@situation(nodes=5, node_timeout="250ms", retry_count=2)
def two_of_five_twice(sim: Driven) -> None:
    each_in_its_part(sim, "AB", "CDE")


@situation(1.5, node_timeout="250ms", retry_count=2)
def replies_are_lost(sim: Driven) -> None:
    sim.alice.link("cut", "CDE", "replies")
    sim.alice.does("acquire")
    keeps_trying(sim.bob, sim)


@situation(ttl_s=2, node_timeout="250ms")
def extended_at_two(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(1)
    sim.alice.link("cut", "CDE")
    sim.alice.does("extend")
    for node in "CDE":
        sim.until(node, there=False)
    sim.bob.link("cut", "AB")
    sim.bob.does("acquire")


@situation(ttl_s=2, node_timeout="250ms", retry_count=1)
def extended_and_one_clock_jumps(sim: Driven) -> None:
    sim.alice.link("delay", "DE", "replies", by_s=0.1)
    sim.alice.does("acquire")
    sim.alice.link("heal", "DE")
    sim.lets_pass(1)
    assert sim.alice.does("extend") is Outcome.OK
    sim.lets_pass(1.2)
    sim.node("C").host.clock.jump(3 * S_NS)
    sim.bob.link("cut", "AB")
    sim.bob.does("acquire")


@situation(1.0, node_timeout="250ms", retry_count=1)
def sets_that_come_late(sim: Driven) -> None:
    sim.alice.link("hold", "CDE", "requests")
    sim.alice.does("acquire")
    sim.alice.link("heal", "CDE")
    sim.lets_pass(0.1)
    keeps_trying(sim.bob, sim)


@situation(node_timeout="250ms", retry_count=1)
def slow_replies(sim: Driven) -> None:
    sim.alice.link("delay", "ABCDE", "replies", by_s=0.2)
    assert sim.alice.does("acquire") is Outcome.OK


@situation(1.0, node_timeout="250ms", retry_count=2)
def the_first_node_is_silent(sim: Driven) -> None:
    sim.alice.link("cut", "A")
    keeps_trying(sim.alice, sim)


@situation(node_timeout="250ms", retry_count=1)
def a_node_refuses_connections(sim: Driven) -> None:
    sim.alice.link("refuse", "A")
    sim.lets_pass(0.1)
    sim.alice.does("acquire")


@situation(node_timeout="250ms", retry_count=1)
def released_while_one_is_silent(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.link("cut", "A")
    sim.alice.does("release")


@situation(node_timeout="250ms", retry_count=1)
def grants_by_two_majorities(sim: Driven) -> None:
    sim.alice.link("cut", "DE")
    for _ in range(2):
        assert sim.alice.does("acquire", "release") is Outcome.OK
    sim.bob.link("cut", "AB")
    sim.bob.link("delay", "C", "replies", by_s=0.05)
    sim.lets_pass(0.1)
    assert sim.bob.does("acquire") is Outcome.OK


@situation(node_timeout="250ms", retry_count=1)
def refused_and_granted_later(sim: Driven) -> None:
    sim.carol.does("acquire")
    assert sim.alice.does("acquire") is Outcome.FAIL
    sim.carol.does("release")
    sim.lets_pass(0.1)
    assert sim.bob.does("acquire", "release") is Outcome.OK
    sim.lets_pass(0.1)
    assert sim.alice.does("acquire") is Outcome.OK


@situation(ttl_s=1)
def twice_with_a_long_pause(sim: Driven) -> None:
    assert sim.alice.does("acquire", "release") is Outcome.OK
    sim.lets_pass(1.2)
    assert sim.alice.does("acquire") is Outcome.OK


@situation(ttl_s=1)
def never_released(sim: Driven) -> None:
    assert sim.alice.does("acquire") is Outcome.OK
    sim.lets_pass(1.2)
    assert sim.bob.does("acquire") is Outcome.OK


@situation(node_timeout="250ms", retry_count=1)
def many_rounds(sim: Driven) -> None:
    for _ in range(8):
        sim.alice.does("acquire")
        sim.bob.does("acquire")
        sim.lets_pass(0.5)
        sim.alice.does("release")
        sim.bob.does("release")
        sim.lets_pass(0.1)


@situation(node_timeout="250ms", retry_count=1)
def again_while_it_is_held(sim: Driven) -> None:
    assert sim.alice.does("acquire") is Outcome.OK
    assert sim.alice.does("acquire") is Outcome.FAIL
    sim.lets_pass(0.1)
    sim.bob.does("acquire")


SITUATIONS: dict[str, Situation] = {
    "quorum-is-three": three_of_seven,
    "quorum-is-two": two_of_five,
    "quorum-is-half": two_of_four,
    "adds-up-tries": two_of_five_twice,
    "undoes-last-try-only": replies_are_lost,
    "extends-at-reachable": extended_at_two,
    "extends-where-granted": extended_and_one_clock_jumps,
    "undoes-where-granted": sets_that_come_late,
    "elapsed-per-node": slow_replies,
    "elapsed-in-whole-seconds": slow_replies,
    "samples-nodes": many_rounds,
    "token-per-client": again_while_it_is_held,
    "stops-at-first-silence": the_first_node_is_silent,
    "gather-raises": a_node_refuses_connections,
    "cannot-read-silence": released_while_one_is_silent,
    "release-waits-for-all": released_while_one_is_silent,
    "smallest-count": grants_by_two_majorities,
    "fastest-count": grants_by_two_majorities,
    "sum-of-counts": grants_by_two_majorities,
    "fence-before-lock": refused_and_granted_later,
    "fence-expires": twice_with_a_long_pause,
    "fence-raised-at-release": never_released,
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_is_broken_and_its_original_is_not(name: str) -> None:
    mutant, played = MUTANTS[name], SITUATIONS[name]
    assert mutant.finding in played.findings(mutant.lock)
    assert played.findings(mutant.real) == set()


@pytest.mark.parametrize("name", ["twice_with_a_long_pause", "never_released", "refused_and_granted_later"])
def test_counting_on_one_node_in_the_script_that_sets_the_key_is_right(name: str) -> None:
    played: Situation = globals()[name]
    assert played.findings("lab.locks.broken.counters:FencedSingle") == set()
