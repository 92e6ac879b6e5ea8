"""The cause that is named is the act of the lock that did the harm, with its place in the lock's own code."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.naming import Cause, causes_of
from lab.examine.ledger.rules import NEVER_ENDS, breaches
from lab.examine.ledger.words import tell
from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger, at_start, on
from lab.search.faults import Kind, timed_fault
from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial
from lab.substrates.base import Direction
from tests.locks_to_test import misleading

pytestmark = pytest.mark.usefixtures("_patched")

MS_NS = 10**6
LOCKS = "tests.locks_to_test"
CANCELLED = Round(0, 3 * S_NS, cancel_ns=100_000)


def trial(lock: str, alice: tuple[Round, ...], bob: tuple[Round, ...] = (), *faults: Timed) -> Trial:
    options: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
    clients = {ALICE: alice, BOB: bob}
    return Setting(f"{LOCKS}.{lock}", options, 1).with_clients(clients, faults)


def of_alice(
    kind: Kind, at: Trigger, *, by_ns: int = 0, lasts_ns: int = 0, direction: Direction = "both"
) -> Timed:
    return timed_fault(kind, at, ALICE, ("A",), by_ns, lasts_ns, direction)


OWED = trial(
    "misleading:KeepsItsConnection", (CANCELLED, Round(S_NS, 3 * S_NS)), (Round(3 * S_NS // 10, 3 * S_NS),)
)
OWED_LATE = trial(
    "misleading:KeepsItsConnection",
    (Round(0, 0), Round(0, 3 * S_NS)),
    (Round(3 * S_NS // 10, 3 * S_NS),),
    of_alice(Hold, on(ALICE, "acquire invoke", 2), lasts_ns=1950 * MS_NS, direction="replies"),
)
OF_ANOTHER = trial("misleading:OneTokenForAKey", (Round(0, 13 * S_NS),), (Round(21 * S_NS // 2, 3 * S_NS),))
TWICE = trial(
    "misleading:CountsEachTry",
    (Round(0, S_NS),),
    (Round(3 * S_NS // 10, S_NS),),
    of_alice(Cut, at_start(), lasts_ns=5 * MS_NS, direction="replies"),
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
    of_alice(Hold, on(ALICE, "extend invoke", 2), lasts_ns=13 * S_NS, direction="requests"),
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
    of_alice(Cut, on(ALICE, "release invoke", 2), lasts_ns=100 * MS_NS, direction="replies"),
)
MISSED_PUSH = trial(
    "misleading:WaitsForAPush",
    (Round(0, 3 * S_NS), Round(15 * S_NS, 3 * S_NS)),
    (Round(3 * S_NS // 10, 3 * S_NS),),
    timed_fault(Crash, on(ALICE, "release invoke"), nodes=("A",), lasts_ns=100 * MS_NS),
)
UNSENT_PUSH = trial(
    "misleading:WaitsForAPush",
    (Round(0, 3 * S_NS),),
    (Round(3 * S_NS // 10, 3 * S_NS),),
    of_alice(Cut, on(ALICE, "release invoke")),
    timed_fault(Drift, at_start(), nodes=("A",), ppm=8000),
)
IN_ORDER = trial(
    "misleading:KeepsItsConnection",
    (Round(0, 0), Round(S_NS, 0)),
    (),
    of_alice(Hold, on(ALICE, "acquire invoke"), lasts_ns=300 * MS_NS, direction="requests"),
)
GIVEN_UP = trial(
    "misleading:DropsItsConnection",
    (Round(0, 0), Round(S_NS, 0)),
    (),
    of_alice(Delay, on(ALICE, "acquire invoke"), by_ns=400 * MS_NS, lasts_ns=5 * MS_NS, direction="requests"),
)
LEFT_RUNNING = trial(
    "quietly_broken:GoesOnWhenCancelled",
    (Round(S_NS, S_NS, cancel_ns=500 * MS_NS),),
    (Round(0, 2 * S_NS),),
)

FAST = timed_fault(Drift, at_start(), nodes=("A",), ppm=8_000)


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
    cause = causes(replace(early, demand_ns=0), "false-validity")[0]
    assert cause.kind == "extension-not-kept"
    assert cause.seen.endswith(": it changed no key")


def causes(trial: Trial, finding: str) -> list[Cause]:
    with trials():
        assert finding in all_violations(run_trial(trial))
        return causes_of(trial, finding)


def source(file: str) -> list[str]:
    return (Path(misleading.__file__).parent / file).read_text().splitlines()


@pytest.mark.parametrize(
    ("trial", "finding", "kind", "seen", "place"),
    [
        pytest.param(
            OWED,
            "overlap",
            "mistakes-reply",
            "Alice's acquire of 1001 ms claimed the lease until 5900 ms, but its key lay on none of 1"
            " nodes when it returned: A did not get it in time; on the same connection the reply to "
            "the SET of 0 ms had not been read",
            'misleading.py: await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)',
            id="the reply to a request that was given up",
        ),
        pytest.param(
            OWED_LATE,
            "overlap",
            "mistakes-reply",
            "Alice's acquire of 1803 ms claimed the lease until 6702 ms, but its key lay on none of 1"
            " nodes when it returned: A changed nothing by SET NX PX; on the same connection the "
            "reply to the SET of 3 ms had not been read",
            'misleading.py: await self._call("SET", key, token, "NX", "PX", ttl_ns // MS_NS)',
            id="a reply that comes later",
        ),
        pytest.param(
            OF_ANOTHER,
            "overlap",
            "others-token",
            "Alice's release of 13.00 s, which succeeded, deleted Bob's key on A at 13.00 s (a script"
            " of GET and DEL): it names the token of that other lease",
            'plain.py: await self._call("EVAL", script, 1, key, *arguments)',
            id="a script that compares with another client's token",
        ),
        pytest.param(
            NEWEST,
            "unavailable",
            "others-token",
            "Alice's release of 1004 ms, which ended at 1005 ms, left its key on A until 5001 ms: the"
            " script of GET sent there names the token of Alice's lease of 'another-order' of 502 ms",
            'plain.py: await self._call("EVALSHA", digest, 1, key, *arguments)',
            id="a release of another lease of its own",
        ),
        pytest.param(
            RELEASED,
            "overlap",
            "returns-released",
            "Alice's acquire of 1105 ms claimed the lease until 4902 ms, but its key lay on none of 1"
            " nodes when it returned: A got no request; its client had released that very lease, of 3 "
            "ms, before",
            'plain.py: await self._call("EVALSHA", digest, 1, key, *arguments)',
            id="a lease that was released already",
        ),
        pytest.param(
            TWICE,
            "unavailable",
            "counts-twice",
            "Alice's release of 1007 ms, which ended at 1007 ms, left its key on A until 6007 ms: the"
            " script of HEXISTS and HINCRBY sent there at 1007 ms counted it; the acquire of 0 ms had"
            " counted it twice, at 0 ms and at 5 ms",
            'misleading.py: await self._call("EVAL", ENTER, 1, key, token, ttl_ns // MS_NS)',
            id="a repeated request that counts",
        ),
        pytest.param(
            PROLONGED,
            "leak",
            "extends-others-key",
            "Bob's acquire of 300 ms, which was refused, prolonged Alice's key on A at 300 ms "
            "(PEXPIRE): it does not compare whose the key is",
            'misleading.py: asyncio.gather( self._call("SETNX", key, token), '
            'self._call("PEXPIRE", key, ttl_ns // MS_NS), )',
            id="a refused acquire that prolongs",
        ),
        pytest.param(
            REPLACED,
            "overlap",
            "extends-others-key",
            "Alice's extension of 1505 ms, which had no certain end, replaced Bob's key on A at 14.51"
            " s (SET XX GET PX): it does not compare whose the key is",
            'misleading.py: await self._call("SET", lease.key, lease.token, "XX", "GET", "PX", '
            "ttl_ns // MS_NS)",
            id="an extension that comes when its client asks anew",
        ),
        pytest.param(
            MISSED_PUSH,
            "unavailable",
            "sleeps-on",
            "Bob's acquire of 3803 ms took 17.23 s; A did a script of SET NX PX (create), a script of"
            " GET and DEL (delete), RPUSH (create) (the key of Alice's acquire of 0 ms lay there); it"
            " sent nothing for 17.20 s after BLPOP to A from 3805 ms on",
            'misleading.py: await pushed.call("BLPOP", f"{key}:pushed", 0)',
            id="a wait that a short fault does not explain",
        ),
        pytest.param(
            UNSENT_PUSH,
            "unavailable",
            "sleeps-on",
            "Bob's acquire of 300 ms never ended; A changed nothing by BLPOP (the key of Alice's "
            "acquire of 0 ms lay there); it sent nothing for 10.00 s after BLPOP to A from 301 ms on;"
            ' it waits at \'await pushed.call("BLPOP", f"{key}:pushed", 0)\'',
            'misleading.py: await pushed.call("BLPOP", f"{key}:pushed", 0)',
            id="a wait that a fault of another client's link, and a drift, do not explain",
        ),
        pytest.param(
            LEFT_RUNNING,
            "unavailable",
            "goes-on",
            "Alice's acquire of 1000 ms set its key on A at 2129 ms (a script of SET NX PX), after "
            "its lease was unknown at 1500 ms",
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
        shown = [each for each in breaches(keep(left)) if each.kind.effect == NEVER_ENDS][-1]
        told = tell(keep(left), shown)
    assert told.places[-1].text == 'await pushed.call("BLPOP", f"{key}:pushed", 0)'


def test_looking_changes_nothing() -> None:
    with trials():
        for each in (OWED, MISSED_PUSH, LEFT_RUNNING):
            events = [dict(event) for event in run_trial(each, watch=True).events]
            for event in events:
                event.pop("_nodes", None)
                event.pop("_others", None)
            assert events == run_trial(each).events
