"""Broken locks on one node, in the situation that shows each of them; the lock they are made of is right."""

from __future__ import annotations

import pytest

from lab.client_protocol import Outcome
from lab.locks.broken import MUTANTS
from tests.known_bad.driven import Driven, Situation, keeps_trying, situation, writes_if_held

pytestmark = pytest.mark.usefixtures("_patched")
S_NS = 1_000_000_000


@situation()
def both_at_once(sim: Driven) -> None:
    asked = [each.starts("acquire") for each in (sim.alice, sim.bob)]
    for each in asked:
        sim.ended(each)


@situation(ttl_s=1, retry_count=1)
def cut_off_after_the_first_command(sim: Driven) -> None:
    asked = sim.alice.starts("acquire")
    sim.until("A", there=True)
    sim.alice.link("cut", "A")
    sim.ended(asked)
    keeps_trying(sim.bob, sim)


@situation(ttl_s=1.9)
def in_the_last_part_of_a_second(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(1.4)
    sim.bob.does("acquire")


@situation()
def a_client_whose_clock_is_behind(sim: Driven) -> None:
    sim.alice.jumps(-11)
    sim.alice.does("acquire")
    sim.bob.does("acquire")


@situation(retry_count=1)
def asked_in_vain(sim: Driven) -> None:
    sim.bob.does("acquire")
    sim.alice.link("cut", "A")
    sim.alice.does("acquire")


@situation(1.0, node_timeout="250ms", retry_count=1)
def the_reply_is_lost(sim: Driven) -> None:
    sim.alice.link("cut", "A", "replies")
    sim.alice.does("acquire")
    keeps_trying(sim.bob, sim)


@situation()
def a_slow_reply(sim: Driven) -> None:
    sim.alice.link("delay", "A", "replies", by_s=0.4)
    sim.alice.does("acquire")


@situation(ttl_s=1)
def over_and_asked_after_a_step_back(sim: Driven) -> None:
    sim.alice.does("acquire", "read")
    sim.alice.jumps(-5)
    sim.lets_pass(1.2)
    sim.bob.does("acquire", "read", "write")
    writes_if_held(sim.alice)


@situation(ttl_s=1)
def over_and_asked(sim: Driven) -> None:
    sim.alice.does("acquire", "read")
    sim.lets_pass(1.2)
    sim.bob.does("acquire", "read", "write")
    writes_if_held(sim.alice)


@situation()
def granted(sim: Driven) -> None:
    sim.alice.does("acquire")


@situation(ttl_s=1, node_timeout="5s", retry_count=1)
def a_slow_release(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.link("hold", "A", "replies")
    released = sim.alice.starts("release")
    sim.lets_pass(1.1)
    sim.bob.does("acquire")
    sim.alice.link("heal", "A")
    sim.ended(released)
    sim.carol.does("acquire")


@situation()
def the_node_refuses_connections(sim: Driven) -> None:
    sim.alice.link("refuse", "A")
    sim.lets_pass(0.1)
    sim.alice.does("acquire")


@situation(1.0)
def two_keys(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.run(sim.alice.lock.acquire("another", 10 * S_NS))
    sim.alice.does("release")
    keeps_trying(sim.bob, sim)


@situation(ttl_s=1)
def two_keys_one_of_them_over(sim: Driven) -> None:
    sim.alice.does("acquire", "read")
    sim.lets_pass(0.8)
    sim.alice.run(sim.alice.lock.acquire("another", S_NS))
    sim.lets_pass(0.4)
    sim.bob.does("acquire", "read", "write")
    writes_if_held(sim.alice)


@situation()
def again_when_it_is_anothers(sim: Driven) -> None:
    sim.alice.does("acquire", "release")
    sim.bob.does("acquire")
    sim.alice.does("acquire")


@situation(ttl_s=1)
def released_too_late(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(1.1)
    sim.bob.does("acquire")
    sim.alice.does("release")
    sim.carol.does("acquire")


@situation(1.5, ttl_s=1, node_timeout="250ms", retry_count=2)
def the_connection_breaks(sim: Driven) -> None:
    sim.alice.does("acquire", "release")
    sim.alice.link("cut", "A")
    sim.alice.does("acquire")
    sim.alice.link("heal", "A")
    keeps_trying(sim.alice, sim)


@situation(1.0, retry_count=1)
def the_node_restarts(sim: Driven) -> None:
    sim.alice.does("acquire", "release")
    sim.restart("A")
    sim.lets_pass(0.1)
    keeps_trying(sim.alice, sim)


@situation()
def an_extension_fails(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.link("cut", "A")
    sim.alice.does("extend")
    sim.alice.link("heal", "A")
    sim.alice.does("release")


@situation(retry_count=1)
def silence(sim: Driven) -> None:
    sim.alice.does("acquire", "release")
    sim.alice.link("cut", "A", "replies")
    sim.alice.does("acquire")


@situation(1.0)
def another_client_has_another_key(sim: Driven) -> None:
    sim.alice.run(sim.alice.lock.acquire("another", 10 * S_NS))
    keeps_trying(sim.bob, sim)


@situation(1.2, retry_count=2)
def held_for_more_than_a_second(sim: Driven) -> None:
    sim.bob.does("acquire")
    asked = sim.alice.starts("acquire")
    sim.lets_pass(1.6)
    sim.bob.does("release")
    if sim.ended(asked).outcome is not Outcome.OK:
        keeps_trying(sim.alice, sim)


@situation(retry_count=1)
def refused_twice(sim: Driven) -> None:
    sim.bob.does("acquire")
    sim.alice.does("acquire", "acquire")


@situation(1.0, retry_count=1)
def released_and_wanted_at_once(sim: Driven) -> None:
    sim.alice.does("acquire", "release")
    keeps_trying(sim.bob, sim)


SITUATIONS: dict[str, Situation] = {
    "get-then-set": both_at_once,
    "setnx-then-pexpire": cut_off_after_the_first_command,
    "ttl-in-whole-seconds": in_the_last_part_of_a_second,
    "pxat-by-client-clock": a_client_whose_clock_is_behind,
    "silence-is-yes": asked_in_vain,
    "unanswered-set-stays": the_reply_is_lost,
    "deadline-from-reply": a_slow_reply,
    "deadline-by-wall-clock": over_and_asked_after_a_step_back,
    "compares-other-units": over_and_asked,
    "margin-added": granted,
    "get-then-del": a_slow_release,
    "retries-for-ever": the_node_refuses_connections,
    "one-token-for-all-keys": two_keys,
    "one-deadline-for-all-keys": two_keys_one_of_them_over,
    "lease-from-cache": again_when_it_is_anothers,
    "del-when-forgotten": released_too_late,
    "never-reconnects": the_connection_breaks,
    "no-script-fallback": the_node_restarts,
    "raises-node-error": the_node_refuses_connections,
    "release-raises-key-error": an_extension_fails,
    "is-empty-when-away": silence,
    "no-time-out": silence,
    "one-key-for-all": another_client_has_another_key,
    "doubles-its-pauses": held_for_more_than_a_second,
    "mutex-stays-locked": refused_twice,
    "release-asserts": released_too_late,
    "release-empties-key": released_and_wanted_at_once,
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_is_broken_and_its_original_is_not(name: str) -> None:
    mutant, played = MUTANTS[name], SITUATIONS[name]
    assert mutant.finding in played.findings(mutant.lock)
    assert played.findings(mutant.real) == set()
