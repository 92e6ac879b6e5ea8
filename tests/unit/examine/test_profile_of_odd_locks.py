"""What ``learn`` shows of locks that wait, renew, load scripts, fail, or cannot be made."""

from __future__ import annotations

import re
from dataclasses import asdict

import pytest

from lab.errors import UnknownOutcome
from lab.examine.command import Asked, _learned
from lab.search.command import OPTIONS
from lab.search.runner import trials
from lab.search.trial import OptionValue
from tests.unit.examine.test_profile import facts_of, profile_of

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("_patched")]

ODD = "tests.unit.examine.odd_locks:"


STRANGE: dict[str, dict[str, str]] = {
    "Blocking": {
        "held lock": "An acquire of a held lock waits; it was granted 27 ms after the release; "
        "where the lock was held for longer, it waited for 48002 ms.",
        "tries": "An acquire of a held lock asks again and again, 50 ms to 51 ms apart.",
    },
    "Patient": {
        "held lock": "An acquire of a held lock waits; it was granted 27 ms after the release, "
        "and refused after 8039 ms if it is held for longer."
    },
    "Watched": {
        "watchdog": "Keys are renewed by a script of GET, PTTL and PEXPIRE about every 1250 ms, 9 times, "
        "unasked."
    },
    "WholeSeconds": {
        "acquire": "An acquire sends SET NX EX, for the key 'resource'.",
        "other leases": "Keys of leases of 1500 ms for 1000 ms, of 1234 ms for 1000 ms and of 700 ms: "
        "alice's acquire was refused: resource: ERR invalid expire time in 'set' command (1 tries).",
    },
    "ByDigest": {
        "scripts": "Scripts are sent by EVAL and EVALSHA; where nodes have forgotten them, it falls back to "
        "EVAL: acquire succeeded, extend succeeded and release succeeded."
    },
    "LoadedOnce": {
        "scripts": "Scripts are sent by EVALSHA and SCRIPT; where nodes have forgotten them, it has no "
        "fallback: acquire succeeded, extend ended with an unknown outcome: resource: NOSCRIPT No matching "
        "script. Please use EVAL and release ended with an unknown outcome: resource: NOSCRIPT No matching "
        "script. Please use EVAL."
    },
    "OfLibrary": {
        "scripts": "Scripts are sent by EVALSHA and SCRIPT; where nodes have forgotten them, it falls back "
        "to SCRIPT: acquire succeeded, extend succeeded and release succeeded.",
        "tries": "An acquire of a held lock asks once, by default as well.",
    },
    "ReadsThenDeletes": {
        "release": "A release sends GET and DEL: it deletes the key after a look at the value in an earlier "
        "request, on 1 of 1 nodes."
    },
    "NeedsOptions": {
        "tries": "An acquire of a held lock asks once, with the options given.",
        "token": "Each acquire has a token of its own; two clients had different ones.",
    },
    "ByHost": {"equal addresses": "An address that is given twice is asked once."},
    "TokenOfClient": {"token": "Each client has one token for all of its acquires."},
    "Raises": {
        "extension": "A lease cannot be extended: it ended with an unknown outcome: KeyError: 'resource'.",
        "errors": "It raised what it must not: extend: KeyError: 'resource'.",
    },
}


@pytest.mark.parametrize("name", STRANGE)
def test_what_odd_locks_are(name: str) -> None:
    facts = STRANGE[name]
    shown = facts_of(ODD + name)
    assert {about: shown[about] for about in facts} == facts


def test_a_lock_that_waits_and_one_that_renews_say_so_to_programs() -> None:
    assert (profile_of(ODD + "Blocking").blocking, profile_of(ODD + "Blocking").tries) == (True, None)
    assert profile_of(ODD + "Watched").watchdog is True
    assert profile_of(ODD + "Raises").extends is False


def test_what_cannot_be_run_is_not_shown_and_the_rest_is() -> None:
    why = "a client's own code failed: RuntimeError: one client is enough"
    profile = profile_of(ODD + "FailsWhileTwoAsk")
    missing = [about for about, fact in profile.facts.items() if fact == f"not shown: {why}"]
    assert missing == [
        "held lock", "tries", "after a refusal", "token", "after the lease", "late extension", "watchdog",
        "late release", "fences",
    ]  # fmt: skip
    assert profile.not_tried == [f"{about}: {why}" for about in missing]
    assert profile.facts["nodes"] == "An acquire asks 1 of 5 nodes: A."
    assert profile.facts["quorum"] == "An acquire needs the one node that it uses, and none of the others."
    assert (profile.blocking, profile.watchdog) == (None, None)
    assert profile.facts["errors"] == f"It raised what it must not: {why}; 5 trials ended by that."


WHERE = re.compile(r"odd_locks\.py:\d+ in ")


@pytest.mark.parametrize(
    ("name", "seen", "where"),
    [
        ("NeverMade", "a client's own code failed: RuntimeError: no library", "in build"),
        ("NoLease", "does not work: TypeError: acquire returned True, which is no Lease", "in acquire"),
        (
            "NotAwaitable",
            "does not work: TypeError: acquire returned None and cannot be awaited",
            "in acquire",
        ),
        (
            "Misspelt",
            "does not work: AttributeError: 'list' object has no attribute 'call'",
            "in _asks < odd_locks.py: in acquire",
        ),
    ],
)
def test_a_lock_that_does_not_work_is_refused_at_once_with_its_line(name: str, seen: str, where: str) -> None:
    with pytest.raises(UnknownOutcome) as refused:
        profile_of(ODD + name)
    assert seen in refused.value.seen
    assert refused.value.where is not None
    assert WHERE.match(refused.value.where)
    assert re.sub(r":\d+", ":", refused.value.where).removeprefix("odd_locks.py: ") == where


@pytest.mark.parametrize(
    ("lock", "options"),
    [("TakesNoOptions", {}), ("NeverGranted", {**OPTIONS})],
    ids=["none", "as it takes them"],
)
def test_a_lock_that_refuses_the_labs_options_is_made_without_them(
    lock: str, options: dict[str, OptionValue]
) -> None:
    with trials():
        assert _learned(Asked(ODD + lock), {**OPTIONS}, lambda: None)[1] == options


def test_options_that_were_asked_for_are_not_left_out() -> None:
    asked = Asked(ODD + "TakesNoOptions", options=(("retry_count", 1),))
    with trials(), pytest.raises(UnknownOutcome, match="an unknown name"):
        _learned(asked, {**OPTIONS}, lambda: None)


def test_nothing_is_guessed_of_a_lock_that_is_never_granted() -> None:
    profile = profile_of(ODD + "NeverGranted")
    shown = {about for about, fact in profile.facts.items() if not fact.startswith("not shown: ")}
    assert shown == {"clock", "errors"}
    assert len(profile.not_tried) == len(profile.facts) - len(shown)
    reported = asdict(profile)
    unknown = ["blocking", "tries", "gives_up_ns", "watchdog"]
    assert {field: reported[field] for field in unknown} == dict.fromkeys(unknown)
