"""The cause that is named is the act of the lock that did the harm, with its place in the lock's own code."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.examine.detect_requests import overtaken, set_after_undo
from lab.examine.detect_service import leaves_keys
from lab.examine.detector import Cause
from lab.examine.evidence import Evidence
from lab.examine.naming import causes_of
from lab.examine.own_findings import all_violations
from lab.examine.places import places_of
from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.search.runner import run_trial, trials
from lab.search.trial import Fault, Round, Trial, When
from tests.locks_to_test import misleading

pytestmark = pytest.mark.usefixtures("_patched")

MS_NS = 10**6
LOCKS = "tests.locks_to_test"
CANCELLED = Round(0, 3 * S_NS, cancel_ns=100_000)


def trial(lock: str, alice: tuple[Round, ...], bob: tuple[Round, ...] = (), *faults: Fault) -> Trial:
    options: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
    clients = {ALICE: alice, BOB: bob}
    return Setting(f"{LOCKS}.{lock}", options, 1).with_clients(clients, faults)


def of_alice(kind: str, when: When, *, lasts_ns: int = 0, direction: str = "both") -> Fault:
    return Fault(kind, when, ALICE, ("A",), lasts_ns=lasts_ns, direction=direction)  # type: ignore[arg-type]


OWED = trial(
    "misleading:KeepsItsConnection", (CANCELLED, Round(S_NS, 3 * S_NS)), (Round(3 * S_NS // 10, 3 * S_NS),)
)
OWED_LATE = trial(
    "misleading:KeepsItsConnection",
    (Round(0, 0), Round(0, 3 * S_NS)),
    (Round(3 * S_NS // 10, 3 * S_NS),),
    of_alice("hold", When("asks", ALICE, 2), lasts_ns=1950 * MS_NS, direction="replies"),
)
OF_ANOTHER = trial("misleading:OneTokenForAKey", (Round(0, 13 * S_NS),), (Round(21 * S_NS // 2, 3 * S_NS),))
TWICE = trial(
    "misleading:CountsEachTry",
    (Round(0, S_NS),),
    (Round(3 * S_NS // 10, S_NS),),
    of_alice("cut", When(), lasts_ns=5 * MS_NS, direction="replies"),
)
PROLONGED = trial(
    "misleading:ProlongsWhatIsThere",
    (Round(0, 3 * S_NS, ends="keep"),),
    (Round(3 * S_NS // 10, 3 * S_NS),),
)
REPLACED = trial(
    "misleading:ExtendsByReplacing",
    (Round(0, 0, extends=1), Round(0, 3 * S_NS, extends=1)),
    (Round(11 * S_NS, 3 * S_NS), Round(0, 3 * S_NS)),
    of_alice("hold", When("extends", ALICE, 2), lasts_ns=13 * S_NS, direction="requests"),
)
NEWEST = trial(
    "misleading:ReleasesNewest",
    (Round(0, S_NS, other=True),),
    (Round(2 * S_NS, S_NS),),
)
RELEASED = trial(
    "misleading:KeepsReleased",
    (Round(0, 0), Round(0, S_NS), Round(0, 3 * S_NS)),
    (Round(2 * S_NS, S_NS),),
    of_alice("cut", When("releases", ALICE, 2), lasts_ns=100 * MS_NS, direction="replies"),
)
MISSED_PUSH = trial(
    "misleading:WaitsForAPush",
    (Round(0, 3 * S_NS), Round(15 * S_NS, 3 * S_NS)),
    (Round(3 * S_NS // 10, 3 * S_NS),),
    Fault("crash", When("releases", ALICE), nodes=("A",), lasts_ns=100 * MS_NS),
)
UNSENT_PUSH = trial(
    "misleading:WaitsForAPush",
    (Round(0, 3 * S_NS),),
    (Round(3 * S_NS // 10, 3 * S_NS),),
    of_alice("cut", When("releases", ALICE)),
    Fault("drift", When(), nodes=("A",), ppm=8000),
)
IN_ORDER = trial(
    "misleading:KeepsItsConnection",
    (Round(0, 0), Round(S_NS, 0)),
    (),
    of_alice("hold", When("asks", ALICE), lasts_ns=300 * MS_NS, direction="requests"),
)
GIVEN_UP = trial(
    "misleading:DropsItsConnection",
    (Round(0, 0), Round(S_NS, 0)),
    (),
    replace(
        of_alice("delay", When("asks", ALICE), lasts_ns=5 * MS_NS, direction="requests"), by_ns=400 * MS_NS
    ),
)
LEFT_RUNNING = trial(
    "quietly_broken:GoesOnWhenCancelled",
    (Round(S_NS, S_NS, cancel_ns=500 * MS_NS),),
    (Round(0, 2 * S_NS),),
)

FAST = Fault("drift", When(), nodes=("A",), ppm=8_000)


@pytest.mark.parametrize(
    ("lock", "finding", "expected"),
    [
        ("misleading:CountsWholeSeconds", "false-validity", "deadline-moves"),
        ("misleading:CountsWholeSeconds", "lost-update", "deadline-moves"),
        ("plain:Plain", "", ""),
    ],
)
def test_what_is_said_of_a_lease_later_is_no_missing_margin(lock: str, finding: str, expected: str) -> None:
    """Alice is told that time is left, and writes; by the node's clock her key is gone, and Bob has read."""
    late = trial(lock, (Round(0, 4_985 * MS_NS),), (Round(4_967 * MS_NS, 2 * S_NS),), FAST)
    if not finding:
        with trials():
            assert all_violations(run_trial(late)) == {}
    else:
        assert [each.kind for each in causes(late, finding)][:1] == [expected]
        assert "no-drift-margin" not in {each.kind for each in causes(late, finding)}


def test_an_extension_that_prolongs_no_key_is_not_one_that_is_counted_from_too_late() -> None:
    """It comes so early that the key has nearly all of its time yet."""
    early = trial("misleading:ExtendsInItsMind", (Round(0, S_NS // 2, extends=1),))
    (cause,) = causes(replace(early, demand_ns=0), "false-validity")
    assert cause.kind == "extension-not-kept"
    assert cause.seen.endswith(
        "more than a majority of the nodes keeps its key, which it has prolonged on no node"
    )


@pytest.mark.parametrize("arrives", [IN_ORDER, GIVEN_UP], ids=["in order", "on a closed connection"])
def test_no_undoing_was_overtaken_that_came_later_or_could_not_wait(arrives: Trial) -> None:
    """With some latencies both arrive at once, in their order."""
    for seed in range(8):
        with trials():
            evidence = Evidence(run_trial(replace(arrives, seed=seed, demand_ns=0), watch=True))
        sent = sorted(evidence.outcome.commands, key=lambda each: each.sent_ns)
        mine = [each for each in sent if each.client == ALICE]
        setting, undoing = (next(each for each in mine if each.name == name) for name in ("SET", "EVAL"))
        assert (setting.time_ns > undoing.time_ns) == (arrives is GIVEN_UP)
        passed = [(one.name, other.name) for one, other, _ in set_after_undo(evidence)]
        assert passed == ([("SET", "EVAL")] if arrives is GIVEN_UP else [])
        assert list(overtaken(evidence)) == []


def causes(trial: Trial, finding: str) -> list[Cause]:
    with trials():
        violation = all_violations(run_trial(trial))[finding]
        return causes_of(run_trial(trial, watch=True), violation)


def source(file: str) -> list[str]:
    return (Path(misleading.__file__).parent / file).read_text().splitlines()


@pytest.mark.parametrize(
    ("trial", "finding", "kind", "seen", "place"),
    [
        pytest.param(
            OWED,
            "overlap",
            "mistakes-reply",
            "Alice's acquire of 1001 ms succeeded before A can have answered its SET",
            'misleading.py: await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)',
            id="the reply to a request that was given up",
        ),
        pytest.param(
            OWED_LATE,
            "overlap",
            "mistakes-reply",
            "Alice's acquire of 1803 ms succeeded although A had refused its SET: on the same connection its "
            "acquire of 3 ms, which ended without an answer at 503 ms, had left a reply to be read",
            'misleading.py: await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)',
            id="a reply that comes later",
        ),
        pytest.param(
            OF_ANOTHER,
            "overlap",
            "others-token",
            "Alice's release at 13.00 s deleted Bob's key on A: it sent Bob's token to compare the key with",
            'plain.py: await self._call("EVAL", script, 1, key, *arguments)',
            id="a script that compares with another client's token",
        ),
        pytest.param(
            NEWEST,
            "unavailable",
            "others-token",
            "Alice's release at 1004 ms, of the lease of 1 ms, named the token of the lease of 502 ms",
            'plain.py: await self._call("EVALSHA", digest, 1, key, *arguments)',
            id="a release of another lease of its own",
        ),
        pytest.param(
            RELEASED,
            "overlap",
            "returns-released",
            "Alice's acquire at 1105 ms asked no node, and returned the lease that Alice had released at "
            "1005 ms",
            'plain.py: await self._call("EVALSHA", digest, 1, key, *arguments)',
            id="a lease that was released already",
        ),
        pytest.param(
            TWICE,
            "unavailable",
            "counts-twice",
            "Alice's acquire of 0 ms was counted twice on A, by HINCRBY at 0 ms and at 5 ms",
            'misleading.py: await self._call("EVAL", ENTER, 1, key, token, ttl_ns // MS_NS)',
            id="a repeated request that counts",
        ),
        pytest.param(
            PROLONGED,
            "leak",
            "extends-others-key",
            "Bob's acquire at 300 ms prolonged Alice's key on A: PEXPIRE without a look at the value",
            'misleading.py: asyncio.gather( self._call("SETNX", key, token), '
            'self._call("PEXPIRE", key, ttl_ns // MS_NS), )',
            id="a refused acquire that prolongs",
        ),
        pytest.param(
            REPLACED,
            "overlap",
            "extends-others-key",
            "Alice's extension at 14.51 s replaced Bob's key on A: SET without a look at the value",
            'misleading.py: await self._call("SET", lease.key, lease.token, "XX", "GET", "PX", '
            "ttl_ns // MS_NS)",
            id="an extension that comes when its client asks anew",
        ),
        pytest.param(
            MISSED_PUSH,
            "unavailable",
            "sleeps-on",
            "Bob's acquire waited on for 12.9 s with the lock free",
            'misleading.py: await pushed.call("BLPOP", f"{key}:pushed", 0)',
            id="a wait that a short fault does not explain",
        ),
        pytest.param(
            UNSENT_PUSH,
            "unavailable",
            "sleeps-on",
            "Bob's acquire, called at 300 ms, never ended, with the lock free for",
            'misleading.py: await pushed.call("BLPOP", f"{key}:pushed", 0)',
            id="a wait that a fault of another client's link, and a drift, do not explain",
        ),
        pytest.param(
            LEFT_RUNNING,
            "unavailable",
            "goes-on",
            "Alice's acquire of 1000 ms was cancelled at 1500 ms, but a task of it went on",
            'plain.py: await self._call("EVALSHA", digest, 1, key, *arguments)',
            id="a task that outlives its acquire",
        ),
    ],
)
def test_the_first_cause_is_the_act_itself(
    trial: Trial, finding: str, kind: str, seen: str, place: str
) -> None:
    first = causes(trial, finding)[0]
    assert first.kind == kind
    assert first.seen.startswith(seen)
    sent = first.places[-1]
    assert f"{sent.file}: {sent.text}" == place
    assert sent.text.split()[0] in source(sent.file)[sent.line - 1]


def test_the_calls_that_led_to_it_are_named_across_tasks() -> None:
    """What is sent in a task of its own was made somewhere, too."""
    places = causes(LEFT_RUNNING, "unavailable")[0].places
    assert [each.function for each in places[:2]] == [
        "GoesOnWhenCancelled.acquire",
        "GoesOnWhenCancelled._poll",
    ]


def test_an_operation_that_does_not_end_is_shown_where_it_waits() -> None:
    left = trial("misleading:WaitsForAPush", (Round(0, 3 * S_NS, ends="keep"),))
    with trials():
        seen = Evidence(run_trial(left, watch=True))
    waiting = seen.operations[-1]
    assert (waiting.client, waiting.f, waiting.how) == (ALICE, "acquire", "open")
    assert places_of(seen, "hangs", waiting)[-1].text == 'await pushed.call("BLPOP", f"{key}:pushed", 0)'


def test_looking_changes_nothing() -> None:
    with trials():
        for each in (OWED, MISSED_PUSH, LEFT_RUNNING):
            events = [dict(event) for event in run_trial(each, watch=True).events]
            for event in events:
                event.pop("_nodes", None)
                event.pop("_others", None)
            assert events == run_trial(each).events


def test_a_key_that_was_put_back_is_not_left_while_its_owner_counts_on_it() -> None:
    """Alice puts Bob's key back, is refused, and later by keys of his unanswered attempts."""
    silent = Fault("cut", When("releases", BOB), BOB, ("A",), direction="replies")
    put_back = trial(
        "misleading:PutsBack", (Round(0, 6500 * MS_NS),), (Round(5250 * MS_NS, 1500 * MS_NS),), silent
    )
    with trials():
        evidence = Evidence(run_trial(put_back, watch=True))
    refused = [each for each in evidence.operations if each.f == "acquire" and each.how == "fail"]
    assert refused
    assert evidence.writers[next(iter(evidence.locks_at("A", refused[0].called_ns).values()))[0]] == {
        ALICE,
        BOB,
    }
    assert list(leaves_keys(evidence)) == []
