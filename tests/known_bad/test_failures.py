"""Broken locks that go on the wrong way after a failure, in the situation that shows each of them."""

from __future__ import annotations

import pytest

from lab.client_protocol import Outcome
from lab.locks.broken import MUTANTS
from lab.search.trial import KEY
from tests.known_bad.driven import S_NS, Driven, Situation, keeps_trying, situation, writes_if_held

pytestmark = pytest.mark.usefixtures("_patched")


@situation(ttl_s=1)
def released_after_another_took_it(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(1.1)
    sim.bob.does("acquire")
    sim.alice.does("release")
    sim.lets_pass(0.1)
    sim.carol.does("acquire")


@situation(4.0, node_timeout="250ms", retry_count=2)
def an_outage_over_several_tries(sim: Driven) -> None:
    sim.alice.link("cut", "A")
    for _ in range(3):
        sim.alice.does("acquire")
    sim.alice.link("heal", "A")
    sim.lets_pass(11)
    keeps_trying(sim.alice, sim)


@situation(1.0, retry_count=1)
def refused_and_released(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.bob.does("acquire")
    sim.alice.does("release")
    keeps_trying(sim.bob, sim)


@situation(1.0, node_timeout="250ms", retry_count=1)
def one_reply_is_lost(sim: Driven) -> None:
    sim.alice.link("cut", "A", "replies")
    asked = sim.alice.starts("acquire")
    sim.lets_pass(0.1)
    sim.alice.link("heal", "A")
    sim.ended(asked)
    keeps_trying(sim.bob, sim)


@situation(ttl_s=1)
def another_key_meanwhile(sim: Driven) -> None:
    sim.alice.does("acquire", "read")
    other = sim.alice.run(sim.alice.lock.acquire("another", S_NS))
    sim.alice.run(sim.alice.lock.release(other))
    sim.lets_pass(1.2)
    sim.bob.does("acquire", "read", "write")
    writes_if_held(sim.alice)


@situation(1.0, ttl_s=1, retry_count=1)
def cancelled_while_it_is_asked(sim: Driven) -> None:
    asked = sim.alice.begin(sim.alice.lock.acquire(KEY, S_NS))
    sim.lets_pass(0.0001)
    asked.cancel()
    sim.lets_pass(2)
    keeps_trying(sim.bob, sim)


@situation(node_timeout="250ms", retry_count=1)
def silent_for_one_try(sim: Driven) -> None:
    sim.alice.link("cut", "CDE")
    sim.alice.does("acquire")
    sim.bob.link("cut", "AB")
    assert sim.bob.does("acquire") is Outcome.OK
    sim.alice.does("acquire")


@situation(1.0, node_timeout="250ms", retry_count=1)
def extended_without_an_answer(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.link("cut", "CDE", "replies")
    sim.alice.does("extend")
    sim.alice.link("heal", "CDE")
    sim.alice.does("release")
    keeps_trying(sim.bob, sim)


@situation(node_timeout="250ms", retry_count=1)
def opened_while_most_are_away(sim: Driven) -> None:
    sim.alice.link("cut", "CDE")
    sim.alice.run(sim.alice.lock.open())
    sim.alice.does("acquire")
    sim.bob.link("cut", "AB")
    sim.bob.does("acquire")


SITUATIONS: dict[str, Situation] = {
    "release-expires-anybodys": released_after_another_took_it,
    "pool-runs-dry": an_outage_over_several_tries,
    "circuit-stays-open": an_outage_over_several_tries,
    "remembers-refusal": refused_and_released,
    "library-repeats-set": one_reply_is_lost,
    "one-watchdog-for-all-keys": another_key_meanwhile,
    "watchdog-of-cancelled": cancelled_while_it_is_asked,
    "drops-failed-nodes": silent_for_one_try,
    "failed-extension-forgets": extended_without_an_answer,
    "nodes-of-the-start": opened_while_most_are_away,
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_is_broken_and_its_original_is_not(name: str) -> None:
    mutant, played = MUTANTS[name], SITUATIONS[name]
    assert mutant.finding in played.findings(mutant.lock)
    assert played.findings(mutant.real) == set()
