"""What ``learn`` shows of locks whose code is known: of the lab's own, and of broken ones."""

from __future__ import annotations

import functools
from dataclasses import asdict

import pytest

from lab.examine.kinds import Kind
from lab.examine.profile.learn import FACTS, learn
from lab.examine.profile.probes import Profile
from lab.examine.programs import S_NS, Setting
from lab.search.command import options_for
from lab.search.runner import trials

pytestmark = pytest.mark.usefixtures("_patched")

TRIALS_MAX = 60


@functools.cache
def profile_of(lock: str) -> Profile:
    with trials():
        return learn(Setting(lock, options_for(lock)))


def facts_of(lock: str) -> dict[str, str]:
    return profile_of(lock).facts


REDLOCK = {
    "nodes": "An acquire asks 5 of 5 nodes at once: A, B, C, D, E.",
    "equal addresses": "An address that is given twice is taken for two nodes: it is asked 2 times.",
    "quorum": "An acquire needs 3 of 5 and 3 of 4 nodes: a majority.",
    "silent nodes": "An acquire takes 0.5 ms; with E silent it takes 0.6 ms; "
    "with all nodes silent it gives up after 500 ms.",
    "acquire": "An acquire sends SET NX PX, for the key 'resource'.",
    "held lock": "An acquire of a held lock is refused after 1.2 ms.",
    "tries": "An acquire of a held lock asks 3 times, 216 ms and 207 ms apart; "
    "once with node_timeout=250ms, retry_count=1.",
    "after a refusal": "A refused acquire sends a script of GET to 5 of 5 nodes afterwards.",
    "token": "Each try has a token of its own; two clients had different ones.",
    "expiry": "Keys of a lease of 5000 ms are kept for 5000 ms.",
    "other leases": "Keys of leases of 1500 ms for 1500 ms, of 1234 ms for 1234 ms and "
    "of 700 ms for 700 ms: to the millisecond.",
    "validity": "A lease of 5000 ms ends for its client 4948 ms after the call: 52 ms are kept as a margin, "
    "and it is counted from before the requests.",
    "after the lease": "Asked 30 % of a lease after its end, it says that the lease is not held any more.",
    "extension": "An extension sends a script of GET, PTTL and PEXPIRE, and keys are kept for 5000 ms from "
    "then on on 5 of 5 nodes.",
    "extended lease": "An extended lease ends for its client 4948 ms after the call, counted from before "
    "the requests.",
    "extensions": "A lease was extended 10 of 15 times; the next extension was refused: "
    "resource: extended 10 times, the limit.",
    "extension quorum": "An extension needs 3 of 5 nodes; if none answers, it sends to each once and ended "
    "with an unknown outcome: resource: 0 of 5 nodes extended it, 3 are needed.",
    "late extension": "A late extension sends nothing, and was refused: resource: its time was already over.",
    "watchdog": "None: nothing is renewed while the client computes for two and a half leases.",
    "release": "A release sends a script of GET and DEL: it deletes the key after a look at the value "
    "on 5 of 5 nodes.",
    "late release": "A late release leaves the next holder's key alone, and was refused: not-held.",
    "fences": "None: grants come without a number.",
    "scripts": "Scripts are sent whole each time, by EVAL.",
    "clock": "It never read the wall clock, in 30 trials.",
    "errors": "It raised nothing but lock errors, in 30 trials.",
}


def test_all_facts_of_redlock() -> None:
    assert facts_of("redlock") == REDLOCK
    assert list(REDLOCK) == [about for about, _ in FACTS]
    reported = {name: value for name, value in asdict(profile_of("redlock")).items() if name != "facts"}
    assert reported.pop("waits_ns") < S_NS // 1000, "it asks all nodes at once"
    assert reported == {
        "kind": asdict(Kind(quorum=True)),
        "extends": True,
        "not_tried": [],
        "trials": 30,
        "nodes_used": ("A", "B", "C", "D", "E"),
        "nodes_asked": 5,
        "uses": 0,
        "blocking": False,
        "tries": 1,
        "gives_up_ns": 500_000_000,
        "watchdog": False,
        "ttl_step_ns": 1,
        "can": {"cancel", "tasks", "close"},
        "nested": None,
    }


def test_the_same_lock_gives_the_same_profile() -> None:
    with trials():
        again = learn(Setting("redlock", options_for("redlock")))
    assert asdict(again) == asdict(profile_of("redlock"))


OWN: dict[str, tuple[Kind, dict[str, str]]] = {
    "redlock-sequential": (
        Kind(quorum=True, sequential=True),
        {
            "nodes": "An acquire asks 5 of 5 nodes one after the other: A, B, C, D, E, in this order "
            "each time.",
            "silent nodes": "An acquire takes 2.4 ms; with E silent it takes 252 ms; "
            "with all nodes silent it gives up after 2500 ms.",
            "quorum": REDLOCK["quorum"],
        },
    ),
    "redlock-fenced": (
        Kind(quorum=True, fenced=True),
        {
            "fences": "Fences come from INCRBY on 5 nodes, in a request after the one that takes the lock; "
            "grants in a row had 1, 2 and 3.",
        },
    ),
    "redlock-counter": (
        Kind(quorum=True, fenced=True),
        {
            "acquire": "An acquire sends a script of SET NX PX and INCR, for the key 'resource'.",
            "fences": "Fences come from INCR on 5 nodes, in the script that takes the lock; "
            "grants in a row had 1, 2 and 3.",
        },
    ),
    "redlock-cas": (Kind(quorum=True, announces=True), {"quorum": REDLOCK["quorum"]}),
    "redlock-hyperf": (
        Kind(quorum=True, sequential=True),
        {
            "quorum": "An acquire needs 5 of 5 and 4 of 4 nodes: all of them.",
            "token": "Each acquire has a token of its own for all of its tries; two clients had "
            "different ones.",
            "extension": "A lease cannot be extended: it ended with an unknown outcome: "
            "resource: redlock-hyperf has no extension.",
            "clock": "It reads the wall clock: a jump of it moves how long a lease is said to be valid.",
        },
    ),
    "single": (
        Kind(quorum=False),
        {
            "nodes": "An acquire asks 1 of 5 nodes: A.",
            "equal addresses": "It asks one node.",
            "quorum": "An acquire needs the one node that it uses, and none of the others.",
            "silent nodes": "An acquire takes 0.6 ms; with A silent it gives up after 500 ms, "
            "with an unknown outcome.",
            "after a refusal": "A refused acquire sends nothing afterwards.",
            "late release": REDLOCK["late release"],
        },
    ),
    "failover": (
        Kind(quorum=False),
        {
            "quorum": "An acquire needs 1 of the 5 nodes that it uses; it turns to B, C, D and E if the "
            "first ones are silent.",
        },
    ),
    "setnx-expire": (
        Kind(quorum=False),
        {
            "acquire": "An acquire sends SETNX and PEXPIRE, for the key 'resource'; between them the key "
            "has no expiry.",
            "expiry": REDLOCK["expiry"],
            "extension": "An extension sends PEXPIRE, and keys are kept for 5000 ms from then on "
            "on 1 of 1 nodes.",
            "release": "A release sends DEL: it deletes the key without a look at the value on 1 of 1 nodes.",
            "scripts": "None are sent.",
        },
    ),
    "fixed-value": (
        Kind(quorum=False),
        {
            "token": "Every acquire of every client has the same token, 'locked'.",
            "release": "A release sends a script of GET and DEL: it deletes the key after a look at the "
            "value on 1 of 1 nodes.",
            "late release": "A late release deletes the next holder's key on A, and succeeded.",
        },
    ),
    "plain-del": (
        Kind(quorum=False),
        {
            "release": "A release sends DEL: it deletes the key without a look at the value on 1 of 1 nodes.",
            "late release": "A late release deletes the next holder's key on A, and succeeded.",
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("lock", OWN)
def test_what_the_labs_own_locks_are(lock: str) -> None:
    kind, facts = OWN[lock]
    profile = profile_of(lock)
    assert profile.kind == kind
    assert {about: profile.facts[about] for about in facts} == facts
    assert profile.not_tried == []
    assert profile.trials <= TRIALS_MAX


ALL = "A, B, C, D, E"
BROKEN: dict[str, dict[str, str]] = {
    "quorum-off-by-one": {"quorum": "An acquire needs 2 of 5 and 2 of 4 nodes: less than a majority."},
    "quorum-of-reachable": {"quorum": "An acquire needs 1 of 5 and 1 of 4 nodes: less than a majority."},
    "counts-silence": {"quorum": "An acquire is granted with no node reached (0 of 5 and 0 of 4)."},
    "needs-all-nodes": {"quorum": "An acquire needs 5 of 5 and 4 of 4 nodes: all of them."},
    "counts-refusals": {"held lock": "An acquire was granted while another client held the lock."},
    "set-without-nx": {
        "acquire": "An acquire sends SET PX, for the key 'resource'.",
        "held lock": "An acquire was granted while another client held the lock.",
        "after a refusal": "not shown: no acquire was refused",
    },
    "set-without-expiry": {
        "acquire": "An acquire sends SET NX, for the key 'resource', which never expires.",
        "expiry": "Keys of a lease of 5000 ms have no expiry.",
        "other leases": "Keys of leases of 1500 ms without end, of 1234 ms without end and "
        "of 700 ms without end.",
    },
    "seconds-for-milliseconds": {"expiry": "Keys of a lease of 5000 ms are kept for 5000000 ms."},
    "short-keys": {"expiry": "Keys of a lease of 5000 ms are kept for 2500 ms."},
    "counts-from-replies": {
        "validity": "A lease of 5000 ms ends for its client 4949 ms after the call: 51 ms are kept as a "
        "margin; with slower replies it ends 20 ms later: it is counted from the replies."
    },
    "no-drift-margin": {
        "validity": "A lease of 5000 ms ends for its client 5000 ms after the call: no margin is kept, "
        "and it is counted from before the requests."
    },
    "wall-clock": {
        "clock": "It reads the wall clock: a jump of it moves how long a lease is said to be valid."
    },
    "believes-by-wall-clock": {
        "clock": "It reads the wall clock: a jump of it moves whether it is said to be held."
    },
    "token-from-time": {"clock": "It reads the wall clock: a jump of it moves the token."},
    "believes-for-ever": {
        "after the lease": "Asked 30 % of a lease after its end, it says that the lease is still held."
    },
    "waits-for-all": {
        "silent nodes": "An acquire takes 0.6 ms; with E silent it takes 10000 ms, and was refused: "
        "resource: a majority granted it, but after 5000 ms no time was left (1 tries); "
        "with all nodes silent it gives up after 10000 ms."
    },
    "stops-at-majority": {
        "nodes": "An acquire asks 3 of 5 nodes one after the other: A, B, C, in this order each time.",
        "after a refusal": "A refused acquire sends a script of GET and DEL to 5 of 5 nodes afterwards.",
    },
    "bare-del": {
        "release": "A release sends DEL: it deletes the key without a look at the value on 5 of 5 nodes.",
        "late release": f"A late release deletes the next holder's key on {ALL}, and succeeded.",
    },
    "undo-by-bare-del": {
        "after a refusal": "A refused acquire sends DEL to 5 of 5 nodes afterwards, which deletes the "
        f"holder's key on {ALL}."
    },
    "no-release": {"release": f"A release sends nothing, and succeeded; keys are kept on {ALL}."},
    "release-at-majority": {
        "release": "A release sends a script of GET and DEL: it deletes the key after a look at the value "
        "on 3 of 5 nodes, and not on D, E."
    },
    "retry-without-unlock": {"after a refusal": "A refused acquire sends nothing afterwards."},
    "token-reused": {"token": "Every acquire of every client has the same token, 'this-machine'."},
    "token-from-seed": {
        "token": "Each try has a token of its own, and two clients make the same ones.",
        "late release": f"A late release deletes the next holder's key on {ALL}, and succeeded.",
    },
    "extends-locally": {"extension": "An extension sends GET, and no key is kept for longer."},
    "extends-in-seconds": {
        "extension": "An extension sends a script of GET and PEXPIRE, and keys are kept for 5 ms after it "
        "on 5 of 5 nodes."
    },
    "extends-anybodys": {
        "extensions": "A lease was extended 15 times; no limit was seen.",
        "late extension": f"A late extension prolongs the next holder's key on {ALL}, and succeeded.",
    },
    "extend-reacquires": {
        "late extension": f"A late extension takes the lock again on {ALL} if it is free, and succeeded."
    },
    "extend-on-minority": {
        "extension quorum": "An extension needs 2 of 5 nodes; if none answers, it sends to each once and "
        "ended with an unknown outcome: resource: 0 of 5 nodes extended it, 2 are needed."
    },
    "failed-extension-believed": {"extension quorum": "An extension needs 0 of 5 nodes."},
    "extension-adds-up": {
        "extended lease": "An extended lease ends for its client 8447 ms after the call: longer than the "
        "lease of 5000 ms."
    },
    "extension-from-replies": {
        "extended lease": "An extended lease ends for its client 4949 ms after the call; with slower replies "
        "20 ms later: counted from the replies."
    },
    "fence-constant": {
        "fences": "Fences come from INCRBY on 5 nodes, in a request after the one that takes the lock; "
        "grants in a row had 1, 1 and 1, which do not grow."
    },
    "fence-not-written-back": {
        "fences": "Fences do not come from a counter on the nodes; grants in a row had 1, 1 and 1, "
        "which do not grow."
    },
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.full if i % 4 else ()) for i, name in enumerate(BROKEN)]
)
def test_the_defect_of_a_broken_lock_shows(name: str) -> None:
    facts = BROKEN[name]
    shown = facts_of(f"mutant:{name}")
    assert {about: shown[about] for about in facts} == facts
    real = facts_of("redlock-fenced" if "fence" in name else "redlock")
    assert all(real[about] != fact for about, fact in facts.items() if about != "after a refusal")
    assert profile_of(f"mutant:{name}").trials <= TRIALS_MAX


def test_what_programs_decide_by_shows_defects() -> None:
    assert profile_of("mutant:stops-at-majority").nodes_asked == 3
    assert profile_of("mutant:extends-locally").extends is True
    assert profile_of("mutant:counts-refusals").blocking is None


@pytest.mark.parametrize(("nodes", "needs"), [(3, "2 of 3 and 2 of 2"), (1, "the one node that it uses")])
def test_other_numbers_of_nodes(nodes: int, needs: str) -> None:
    with trials():
        profile = learn(Setting("redlock", options_for("redlock"), nodes))
    assert profile.facts["quorum"].startswith(f"An acquire needs {needs}")
    assert profile.nodes_used == tuple("ABC"[:nodes])
    assert profile.not_tried == []
