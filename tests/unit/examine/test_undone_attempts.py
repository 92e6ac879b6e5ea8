"""Keys that are set after what was to undo it: of which attempts they are held against a lock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from lab.examine.detect_requests import claims_nothing, overtaken, set_after_undo
from lab.examine.detect_service import leaves_keys
from lab.examine.evidence import MS_NS, Evidence, Operation
from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.search.command import OPTIONS
from lab.search.origin import Sent
from lab.search.runner import Outcome, run_trial
from lab.search.trial import Fault, Round, Trial, When
from lab.search.watch import Executed, State

pytestmark = pytest.mark.usefixtures("_patched")


@pytest.mark.parametrize(
    ("f", "how", "nodes", "expected"),
    [
        ("acquire", "info", 1, True),
        ("acquire", "info", 5, True),
        ("acquire", "fail", 5, True),
        ("acquire", "fail", 1, False),
        ("acquire", "ok", 5, False),
        ("acquire", "open", 5, False),
        ("extend", "info", 5, False),
        ("release", "fail", 5, False),
        ("", "", 5, False),
    ],
)
def test_an_attempt_claims_nothing_whose_outcome_is_unknown_or_that_got_no_majority(
    f: str, how: str, nodes: int, expected: bool
) -> None:
    """An only node that has refused it must not have its key; without an operation nothing is known."""
    operation = Operation(ALICE, f, "", 0, 1, how) if f else None
    evidence = SimpleNamespace(
        operation_of=lambda _: operation, outcome=SimpleNamespace(trial=SimpleNamespace(nodes=nodes))
    )
    assert claims_nothing(cast(Evidence, evidence), cast(Executed, None)) == expected


def undone(lock: str, nodes: int) -> Evidence:
    """What is seen when Alice's second acquire gets no answer, and what undoes it overtakes its SET."""
    setting = Setting(lock, OPTIONS, nodes).with_ttl(20 * S_NS)
    slow = Fault(
        "delay",
        When("asks", ALICE, 2),
        ALICE,
        setting.names,
        S_NS * 5 // 6,
        S_NS // 200,
        direction="requests",
    )
    return Evidence(run_trial(setting.with_clients({ALICE: (Round(0, S_NS),)}, (slow,)), watch=True))


@pytest.mark.parametrize(
    ("lock", "nodes", "accused"),
    [
        ("mutant:undo-overtakes-set", 1, True),
        ("tests.locks_to_test.unusual:BreaksOff", 1, False),
        ("tests.unit.examine.odd_locks:BreaksOffOnAll", 5, False),
    ],
)
def test_a_key_that_overtook_its_undoing_is_held_against_a_lock_that_refused_it(
    lock: str, nodes: int, accused: bool
) -> None:
    """By what set it, and by where it lies."""
    evidence = undone(lock, nodes)
    assert list(set_after_undo(evidence))
    assert bool(list(overtaken(evidence))) == accused
    assert bool(list(leaves_keys(evidence))) == accused


UNDO = ("EVAL", "a script", "1", "k", "t")


def ran(
    sent_ms: int,
    at_ms: int,
    words: tuple[str, ...],
    *,
    sets: bool = False,
    client: str = ALICE,
    in_script: bool = False,
) -> Executed:
    """A command, sent and executed at these times, that ``sets`` a key without a value or changes nothing."""
    sent = Sent(sent_ms * MS_NS, sent_ms * MS_NS, client, "A", 1, words, ())
    after: State = {"k": ("t", 1000)} if sets else {}
    return Executed(at_ms * MS_NS, "A", client, words, in_script, {}, after, sent)


SET = ran(5, 30, ("SET", "k", "t", "NX"), sets=True)
EARLIER = ran(1, 2, SET.words, sets=True)
SET_LATER = ran(65, 70, ("SET", "k", "t", "NX"), sets=True)


@pytest.mark.parametrize(
    ("commands", "shown"),
    [
        pytest.param((ran(20, 25, UNDO), SET), True, id="it was sent later and came first"),
        pytest.param((ran(55, 56, UNDO), SET_LATER), True, id="it was released before"),
        pytest.param((ran(20, 25, UNDO), SET_LATER), False, id="the attempt goes on"),
        pytest.param((SET, ran(55, 56, UNDO)), False, id="in their order"),
        pytest.param(
            (ran(1, 2, SET.words, sets=True), ran(20, 25, UNDO), SET), False, id="it had been there"
        ),
        pytest.param((ran(20, 25, UNDO, client=BOB), SET), False, id="another client's"),
        pytest.param((ran(55, 56, UNDO, client=BOB), SET_LATER), False, id="another client's release"),
        pytest.param((ran(20, 25, UNDO, in_script=True), SET), False, id="a part of a script"),
        pytest.param((ran(55, 56, UNDO, in_script=True), SET_LATER), False, id="a part of its script"),
        pytest.param((ran(20, 25, (*UNDO[:4], "other")), SET), False, id="of another value"),
    ],
)
def test_a_key_is_set_after_what_was_to_undo_it(commands: tuple[Executed, ...], shown: bool) -> None:
    """An acquire goes on from 0 to 40 ms, a release from 50 to 60 ms."""
    times = (
        ("acquire", "invoke", 0),
        ("acquire", "ok", 40),
        ("release", "invoke", 50),
        ("release", "ok", 60),
    )
    events = [
        {"process": client, "client": client, "f": f, "type": kind, "time_ns": ms * MS_NS}
        for f, kind, ms in times
        for client in (ALICE, BOB)
    ]
    trial = Trial("single", {ALICE: ()}, nodes=1)
    seen = list(set_after_undo(Evidence(Outcome(trial, events, frozenset(), commands=commands))))
    assert seen == ([(commands[-1], commands[0], "t")] if shown else [])
