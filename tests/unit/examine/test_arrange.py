"""Defects that go back to one act of a lock are one, with its place in the code; two bugs stay two."""

from __future__ import annotations

import html
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from lab.examine.answer.junit import junit
from lab.examine.answer.page import to_html
from lab.examine.answer.words import explain, headline
from lab.examine.defects import arranged
from lab.examine.ledger.breaches import CLAIMS, OWN_KEYS, RESIDUE
from lab.examine.ledger.naming import CATALOGUE
from lab.examine.result import Defect, Kept
from lab.search.origin import Place
from tests.unit.examine.test_output import TRIAL, defect, examined, printed, section

SENDS = Place("my_lock.py", 41, "MyLock.give_back", 'await self.call("DEL", key)')
ELSEWHERE = Place("my_lock.py", 52, "MyLock.undo", 'await self.call("DEL", key)')


def causes(*defects: Defect) -> list[tuple[str, int]]:
    return [(each.cause, each.consequence_of) for each in arranged(defects)]


@pytest.mark.parametrize(
    ("one", "other", "follows"),
    [
        ((SENDS,), (SENDS,), 1),
        ((ELSEWHERE, SENDS), (SENDS,), 1),
        ((SENDS,), (ELSEWHERE,), 0),
        ((SENDS,), (SENDS, ELSEWHERE), 0),
        ((), (), 0),
    ],
)
def test_what_the_same_call_did_is_one_defect(
    one: tuple[Place, ...], other: tuple[Place, ...], follows: int
) -> None:
    made = (
        defect("deletes-others-key", places=one, rule=OWN_KEYS),
        defect("ends-lease-early", places=other, rule=OWN_KEYS),
    )
    assert causes(*made) == [("deletes-others-key", 0), ("ends-lease-early", follows)]


def test_what_a_call_leaves_undone_is_a_defect_of_its_own() -> None:
    """The SET that takes the lock is right; the votes are counted wrongly, and the key is not deleted."""
    made = (
        defect("too-few-votes", places=(SENDS,), rule=CLAIMS),
        defect("leaves-keys", places=(SENDS,), rule=RESIDUE),
    )
    assert causes(*made) == [("too-few-votes", 0), ("leaves-keys", 0)]


def test_a_schedule_that_shows_the_cause_of_another_shows_a_consequence() -> None:
    both = defect("extension-not-kept", also_fits=("wrong-expiry",))
    one = defect("wrong-expiry")
    assert causes(both, one) == [("wrong-expiry", 0), ("extension-not-kept", 1)]


def test_a_rare_schedule_does_not_take_the_place_of_one_that_always_fails() -> None:
    often = defect("mistakes-reply", also_fits=("too-few-votes",), reproduced=20)
    rare = defect("too-few-votes", reproduced=12)
    assert causes(rare, often) == [("mistakes-reply", 0), ("too-few-votes", 1)]


def test_what_needs_no_fault_is_no_consequence_of_what_needs_one() -> None:
    plain = defect("mixes-keys", also_fits=("leaves-keys",), trial=replace(TRIAL, faults=()))
    faulty = defect("leaves-keys")
    assert faulty.faults
    assert causes(faulty, plain) == [("mixes-keys", 0), ("leaves-keys", 1)]


def test_the_most_harmful_comes_first_and_the_unexplained_last() -> None:
    made = (
        defect("unknown", findings=("overlap",)),
        defect("leaves-keys", findings=("unavailable",)),
        defect("hangs", findings=("hang", "unavailable")),
        defect("overwrites-key", findings=("lost-update",)),
    )
    named = [cause for cause, _ in causes(*made)]
    assert named == ["overwrites-key", "hangs", "leaves-keys", "unknown"]


def test_consequences_come_after_all_defects_and_name_theirs() -> None:
    made = (
        defect("overwrites-key", places=(SENDS,), rule=OWN_KEYS),
        defect("recreates-key", places=(SENDS,), rule=OWN_KEYS),
        defect("same-token"),
    )
    assert causes(*made) == [("overwrites-key", 0), ("same-token", 0), ("recreates-key", 1)]


def test_the_place_in_the_code_comes_with_the_calls_that_led_there() -> None:
    places = (
        Place("my_lock.py", 12, "MyLock.release", "await self.give_back(lease)"),
        Place("my_lock.py", 41, "MyLock.give_back", 'await self.nodes[0].call("DEL", key)'),
    )
    result = examined(defect(places=places))
    reported = " ".join(section(printed(result), "DEFECTS").split())
    sent, called = (
        'my_lock.py:41: await self.nodes[0].call("DEL", key)',
        "called from my_lock.py:12: await self.give_back(lease)",
    )
    assert f"code {sent} {called} leads to" in reported
    assert sent in junit(result).decode().replace("&quot;", '"')
    page = html.unescape(to_html(Kept(result, Path("reports/test-x"))))
    assert sent in page
    assert called in page
    (data,) = msgspec.json.decode(result.to_json())["defects"]
    assert data["places"][1] == {
        "file": "my_lock.py",
        "line": 41,
        "function": "MyLock.give_back",
        "text": 'await self.nodes[0].call("DEL", key)',
    }


def test_a_consequence_is_told_with_its_defect_and_not_counted() -> None:
    follows = defect("extension-not-kept", seen="the key had its old time", trial_file="out/defect-2.json")
    result = examined(defect(), replace(follows, consequence_of=1))
    assert headline(result) == "1 defect in my_lock:MyLock, compared with redlock"
    told = f"{CATALOGUE['extension-not-kept'].what} The key had its old time."
    replayed = "lab test --replay out/defect-2.json"
    reported = " ".join(section(printed(result), "DEFECTS").split())
    assert f"also seen as {told}" in reported
    assert "2. " not in reported
    for text in (reported, junit(result).decode(), to_html(Kept(result, Path("x"))), explain(result)):
        assert told in text
        assert replayed in text
    assert [each["consequence_of"] for each in msgspec.json.decode(result.to_json())["defects"]] == [0, 1]
