"""Broken locks on one node that share nothing with the lab's own, and those that extend by themselves."""

from __future__ import annotations

import pytest

from lab.locks.broken import MUTANTS
from tests.known_bad.driven import Driven, Situation, keeps_trying, situation, writes_if_held

pytestmark = pytest.mark.usefixtures("_patched")
HANDMADE, EACH_ITS_OWN, WATCHED = (
    f"lab.locks.broken.{place}"
    for place in ("rewritten:Handmade", "rewritten:ConnectionPerCommand", "watchdogs:Watched")
)


@situation(ttl_s=1)
def extended_when_it_is_anothers(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(1.1)
    sim.bob.does("acquire")
    sim.alice.does("extend")


@situation(ttl_s=1)
def extended_after_anothers(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(1.1)
    sim.bob.does("acquire", "release")
    sim.lets_pass(0.1)
    sim.alice.does("extend")


@situation(ttl_s=1)
def extended_and_over_by_the_first_lease(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(0.5)
    sim.alice.does("extend")
    sim.lets_pass(0.7)
    sim.bob.does("acquire")


@situation()
def a_slow_extension(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.link("delay", "A", "replies", by_s=0.4)
    sim.alice.does("extend")


@situation()
def an_extension_without_an_answer(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.link("cut", "A", "replies")
    sim.alice.does("extend")
    sim.bob.does("acquire")


@situation(1.0, node_timeout="250ms", retry_count=1)
def a_set_that_comes_late(sim: Driven) -> None:
    sim.alice.link("delay", "A", "requests", by_s=0.35)
    asked = sim.alice.starts("acquire")
    sim.lets_pass(0.1)
    sim.alice.link("heal", "A")
    sim.ended(asked)
    sim.lets_pass(0.5)
    keeps_trying(sim.bob, sim)


@situation(node_timeout="250ms", retry_count=2, retry_delay="200ms")
def an_undo_that_comes_late(sim: Driven) -> None:
    sim.alice.link("delay", "A", "requests", by_s=0.9)
    asked = sim.alice.starts("acquire")
    sim.lets_pass(0.4)
    sim.alice.link("heal", "A")
    sim.ended(asked)
    sim.lets_pass(0.6)
    sim.bob.does("acquire")


@situation(ttl_s=1, node_timeout="250ms", retry_count=1)
def a_release_that_comes_late(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.alice.link("delay", "A", "requests", by_s=1.5)
    sim.alice.does("release")
    sim.alice.link("heal", "A")
    sim.lets_pass(0.9)
    sim.alice.does("acquire")
    sim.lets_pass(0.5)
    sim.bob.does("acquire")


@situation()
def a_clock_is_ahead(sim: Driven) -> None:
    sim.bob.jumps(11)
    sim.alice.does("acquire")
    sim.bob.does("acquire")


@situation(ttl_s=1, retry_count=1)
def released_and_wanted(sim: Driven) -> None:
    sim.alice.does("acquire", "release")
    sim.lets_pass(0.5)
    keeps_trying(sim.bob, sim)


@situation(ttl_s=1)
def cut_off_until_it_is_over(sim: Driven) -> None:
    sim.alice.does("acquire", "read")
    sim.alice.link("cut", "A")
    sim.lets_pass(1.05)
    sim.bob.does("acquire", "read", "write")
    sim.alice.link("heal", "A")
    sim.lets_pass(0.4)
    writes_if_held(sim.alice)


@situation(ttl_s=1)
def taken_a_second_time(sim: Driven) -> None:
    sim.alice.does("acquire")
    sim.lets_pass(0.5)
    sim.alice.does("release", "acquire", "read")
    sim.lets_pass(1.2)
    sim.bob.does("acquire", "read", "write")
    writes_if_held(sim.alice)


SITUATIONS: dict[str, tuple[Situation, str]] = {
    "set-xx-extends": (extended_when_it_is_anothers, HANDMADE),
    "expire-extends": (extended_when_it_is_anothers, HANDMADE),
    "extension-sets-again": (extended_after_anothers, HANDMADE),
    "extends-by-what-is-left": (extended_and_over_by_the_first_lease, HANDMADE),
    "extension-is-not-looked-at": (extended_when_it_is_anothers, HANDMADE),
    "extension-from-reply": (a_slow_extension, HANDMADE),
    "unanswered-extension-deletes": (an_extension_without_an_answer, HANDMADE),
    "undo-overtakes-set": (a_set_that_comes_late, EACH_ITS_OWN),
    "one-token-for-all-tries": (an_undo_that_comes_late, EACH_ITS_OWN),
    "one-token-for-all-leases": (a_release_that_comes_late, EACH_ITS_OWN),
    "timestamp-in-the-key": (a_clock_is_ahead, HANDMADE),
    "watchdog-sets-after-release": (released_and_wanted, WATCHED),
    "watchdog-fails-unnoticed": (cut_off_until_it_is_over, WATCHED),
    "watchdog-keeps-first-token": (taken_a_second_time, WATCHED),
    "watchdog-extends-anybodys": (cut_off_until_it_is_over, WATCHED),
}
"""Each with what it is made of."""


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_is_broken_and_its_originals_are_not(name: str) -> None:
    mutant, (played, base) = MUTANTS[name], SITUATIONS[name]
    assert mutant.finding in played.findings(mutant.lock)
    assert played.findings(base) == set()
    assert played.findings(mutant.real) == set()
