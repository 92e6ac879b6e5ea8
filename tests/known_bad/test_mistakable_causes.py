"""A cause is named only if the record shows that it did the harm, and the line is where that was done."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.rules import FAILS, breaches
from lab.examine.profile.learn import learn
from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.examine.schedules.anchored import SECOND_TASK, bases
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.reset import Reset
from lab.scenario.steps import Acquire, Release
from lab.scenario.tracks import Timed
from lab.scenario.triggers import after, at_start, on
from lab.search.as_tracks import action
from lab.search.faults import timed_fault
from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial
from tests.known_bad.test_named_causes import MS_NS, causes

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.mistakable"
TTL_NS = 10 * S_NS


def single(lock: str, alice: tuple[Round, ...], bob: tuple[Round, ...] = (), *faults: Timed) -> Trial:
    options: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
    clients = {ALICE: alice, BOB: bob} if bob else {ALICE: alice}
    return Setting(f"{LOCKS}:{lock}", options, 1, TTL_NS).with_clients(clients, faults)


def several(lock: str, clients: dict[str, tuple[Round, ...]], *faults: Timed) -> Trial:
    options: dict[str, str | int | float | bool] = {"node_timeout": "200ms", "retry_count": 1}
    return Setting(f"{LOCKS}:{lock}", options, 3, TTL_NS).with_clients(clients, faults)


TOO_SHORT = replace(
    single("RoundsDownToSeconds", (Round(0, 210 * MS_NS, other=True),)),
    ttl_ns=700 * MS_NS,
    demand_ns=6 * S_NS,
    horizon_ns=13 * S_NS,
)
ADOPTED = single(
    "AdoptsWhatItLeft",
    (Round(0, 3 * S_NS, cancel_ns=300_000), Round(S_NS, 15 * S_NS)),
    (Round(3 * S_NS // 10, 3 * S_NS),),
)
SLOW = timed_fault(Delay, at_start(), ALICE, ("B",), 250 * MS_NS, S_NS, "requests")
NOT_UNDONE = several(
    "LeavesSilentNodesAlone", {ALICE: ()}, timed_fault(Cut, at_start(), ALICE, ("C",), direction="both"), SLOW
)
NOT_UNDONE_FOR_BOB = several(
    "LeavesSilentNodesAlone",
    {ALICE: (Round(0, 0),), BOB: (Round(S_NS, S_NS),)},
    timed_fault(Cut, on(ALICE, "acquire invoke"), ALICE, ("B", "C"), direction="replies"),
)
REFUSED = several(
    "OneRefusalDecides",
    {ALICE: (), BOB: (Round(3 * S_NS // 10, 3 * S_NS),)},
    timed_fault(Cut, on(ALICE, "granted"), ALICE, ("C",), direction="requests"),
)
ANNOUNCED = replace(single("AnnouncesItself", (Round(0, S_NS),)), demand_ns=0)
KEPT = single("ReleasesNothing", (Round(0, S_NS),), (Round(3 * S_NS // 10, S_NS),))
OTHER_KEY = single("UndoesAnotherKey", (Round(0, 0, cancel_ns=100_000),))
LOOKED = single(
    "LooksBeforeIt",
    (Round(0, S_NS),),
    (),
    timed_fault(Cut, on(ALICE, "release invoke"), ALICE, ("A",), lasts_ns=200 * MS_NS, direction="replies"),
)
LOWERED = single("WritesBackWhatItDrew", (Round(0, 0), Round(1050 * MS_NS, 0)), (Round(3 * S_NS // 10, 0),))
OWN_KEY = single(
    "RepeatsItsSet",
    (Round(0, S_NS),),
    (Round(S_NS, S_NS),),
    timed_fault(Cut, on(ALICE, "acquire invoke"), ALICE, ("A",), lasts_ns=5 * MS_NS, direction="replies"),
)
TIE = several(
    "WaitsOutATie",
    {ALICE: (Round(0, S_NS),), BOB: (Round(0, S_NS),)},
    *(timed_fault(Cut, at_start(), each, ("C",)) for each in (ALICE, BOB)),
    timed_fault(Delay, at_start(), ALICE, ("B",), 100 * MS_NS, S_NS // 2, "requests"),
    timed_fault(Delay, at_start(), BOB, ("A",), 100 * MS_NS, S_NS // 2, "requests"),
)
SHORTER = replace(single("KeepsLessThanItClaims", (Round(0, S_NS),)), demand_ns=0)


@pytest.mark.parametrize(
    ("trial", "finding", "kind", "seen", "place"),
    [
        pytest.param(
            TOO_SHORT,
            "unavailable",
            "invalid-command",
            "Alice's acquire of 6410 ms failed at 6411 ms although the lock was free; A answered SET "
            "NX EX with \"ERR invalid expire time in 'set' command\"",
            '"EX", ttl_ns // S_NS)',
            id="an error is no mixture of keys",
        ),
        pytest.param(
            ADOPTED,
            "overlap",
            "late-deadline",
            "Alice's acquire of 1000 ms claimed the lease until 10.80 s, but it can be sure of a "
            "majority only until 10000 ms: A changed nothing by GET",
            'self._call("GET", key)',
            id="a key of its own is no reply of another request",
        ),
        pytest.param(
            NOT_UNDONE,
            "unavailable",
            "leaves-keys",
            "Alice's acquire of 0 ms, which had no certain end at 200 ms, left its key on B until "
            "10.25 s: nothing was sent there to take it away",
            "._take(key, token, ttl_ns)",
            id="a node with an old key of the same client is no node that is needed",
        ),
        pytest.param(
            NOT_UNDONE_FOR_BOB,
            "unavailable",
            "leaves-keys",
            "Alice's acquire of 0 ms, which had no certain end at 200 ms, left its key on B and C "
            "until 10000 ms: nothing was sent there to take it away",
            "._take(key, token, ttl_ns)",
            id="keys of the client that is refused are on their way out",
        ),
        pytest.param(
            REFUSED,
            "unavailable",
            "needs-all-nodes",
            "Bob's acquire of 9943 ms failed at 9946 ms although the lock was free; A and B did SET "
            "NX PX (create), a script of GET and DEL (delete); C changed nothing by a script of GET "
            "(the key of Alice's acquire of 0 ms lay there)",
            "._take(key, token, ttl_ns)",
            id="a node that refuses is not away",
        ),
        pytest.param(
            ANNOUNCED,
            "false-validity",
            "late-deadline",
            "Alice's acquire of 0 ms claimed the lease until 10.20 s, but it can be sure of a "
            "majority only until 10.00 s: the claim counts from the return of the call, 401 ms; the "
            "first request left at 0 ms",
            '._call("SET", ',
            id="another key is not that of the lease",
        ),
        pytest.param(
            KEPT,
            "unavailable",
            "leaves-keys",
            "Alice's release of 1002 ms, which ended at 1002 ms, left its key on A until 10000 ms: "
            "nothing was sent there to take it away",
            '"SET", key, token',
            id="a release that sends nothing",
        ),
        pytest.param(
            OTHER_KEY,
            "unavailable",
            "leaves-keys",
            "Alice's acquire of 0 ms, which had no certain end at 1 ms, left its key on A until 10000"
            " ms: the script of GET sent there changed nothing",
            '"EVAL", GIVE_BACK, 1, token, key)',
            id="an attempt is undone under another key",
        ),
        pytest.param(
            LOOKED,
            "unavailable",
            "leaves-keys",
            "Alice's release of 1002 ms, which ended at 1202 ms, left its key on A until 10000 ms: "
            "the GET sent there does not name its value",
            '"GET", lease.key)',
            id="a release that deletes nothing",
        ),
        pytest.param(
            OWN_KEY,
            "unavailable",
            "leaves-keys",
            "Alice's acquire of 0 ms, which was still going on at 5000 ms, left its key on A until 10000 ms: "
            "the SET NX PX sent there changed nothing",
            '"SET", key, token',
            id="the next try, when the key has expired, takes nothing away",
        ),
        pytest.param(
            TIE,
            "unavailable",
            "waits-too-long",
            "Alice's acquire of 0 ms took 25",
            "._take(key, token, ttl_ns)",
            id="what was late for a moment has arrived long since",
        ),
        pytest.param(
            SHORTER,
            "false-validity",
            "wrong-expiry",
            "Alice's acquire of 0 ms claimed the lease until 9799 ms, but it can be sure of a "
            "majority only until 9000 ms: SET NX PX gave the key 9.00 s of the 10.00 s asked for",
            '"PX", ttl_ns // MS_NS * 9 // 10)',
            id="less time is not a late count",
        ),
        pytest.param(
            LOWERED,
            "fence-order",
            "fence-not-increasing",
            "a grant at 1054 ms has fence 2 after bob's 2, which was granted before; …; Bob got 2 "
            "(counted to 2 on A); Bob got 3 (counted to 3 on A); Alice got 2 (counted to 2 on A); "
            "Alice got 3 (counted to 3 on A); Alice's SET had lowered the counter on A from 3 to 1 at"
            " 1002 ms",
            '"SET", f"{key}:fence", fence)',
            id="a counter that was lowered",
        ),
    ],
)
def test_the_first_cause_did_the_harm(trial: Trial, finding: str, kind: str, seen: str, place: str) -> None:
    first = causes(trial, finding)[0]
    assert first.kind == kind
    assert seen in first.seen
    assert place in first.places[-1].text


def test_a_client_that_waits_for_a_lost_reply_leaves_no_key() -> None:
    cut = timed_fault(Cut, on(ALICE, "acquire invoke"), ALICE, ("A",), direction="replies")
    patient = single("SendsSet", (Round(0, S_NS),), (Round(S_NS, S_NS),), cut)
    assert causes(replace(patient, options={"node_timeout": "8s", "retry_count": 1}), "unavailable") == []


ORDINARY = "tests.locks_to_test.ordinary"
BREAKS = timed_fault(Reset, on(ALICE, "granted"), ALICE, ("A",))
AWAY = timed_fault(Crash, on(ALICE, "release invoke"), nodes=("A",), lasts_ns=S_NS // 10)
TWICE = (action(Release), action(Release, again=True))


@pytest.mark.parametrize(
    ("lock", "releases", "fault"),
    [
        pytest.param("with_asyncio:TriesOnce", TWICE, BREAKS, id="a broken connection, and its user is told"),
        pytest.param("renewing:SaysNothing", TWICE[:1], BREAKS, id="a broken connection, and nobody is told"),
        pytest.param(
            "renewing:SaysNothing",
            (action(Release, after(13 * S_NS)),),
            AWAY,
            id="a node that is down, after renewals",
        ),
    ],
)
def test_a_release_that_could_send_nothing_is_no_cause(
    lock: str, releases: tuple[Timed, ...], fault: Timed
) -> None:
    trial = Setting(f"{ORDINARY}.{lock}", {"retries": 0}, 1).with_clients({ALICE: ()})
    shown = replace(trial, tracks={ALICE: (action(Acquire), *releases), "faults": (fault,)})
    assert causes(shown, "unavailable") == []


def test_a_call_of_a_client_that_did_not_ask_in_vain_is_no_cause() -> None:
    """Alice's connection was broken as well; hers fails when Bob has waited for the end of his own key."""
    insists = action(Acquire, after(S_NS // 2), insist_ns=8 * S_NS, pause_ns=S_NS // 2)
    tracks = {
        ALICE: (action(Acquire), action(Release), action(Acquire, after(9 * S_NS))),
        BOB: (action(Acquire, on(ALICE, "released")), action(Release), insists, action(Release)),
        "faults": (timed_fault(Crash, on(BOB, "release invoke"), nodes=("A",), lasts_ns=S_NS // 10),),
    }
    trial = Setting(f"{ORDINARY}.renewing:SaysNothing", {"retries": 0}, 1).with_clients({ALICE: (), BOB: ()})
    shown = replace(trial, tracks=tracks)
    with trials():
        failed = [each for each in breaches(keep(shown)) if each.kind.effect == FAILS]
    assert [each.call.client for each in failed if each.call is not None] == [ALICE]
    assert causes(shown, "unavailable") == []


def test_an_older_lease_is_released_when_the_next_task_has_one_of_its_own() -> None:
    """By a second task of its client: what it deletes must not be the newer one's."""
    setting = Setting("tests.locks_to_test.misleading:OneTokenForAKey", {}, 1)
    late = [each for each in bases(setting, learn(setting)) if _is_late(each)]
    assert late
    seen = [causes(each, "overlap") for each in late if "overlap" in all_violations(run_trial(each))]
    assert {cause.kind for each in seen for cause in each[:1]} == {"others-token"}
    plain = Setting("tests.locks_to_test.plain:Plain", {}, 1)
    assert not any(map(all_violations, map(run_trial, filter(_is_late, bases(plain, learn(plain))))))


def _is_late(trial: Trial) -> bool:
    """Whether a first task releases when a second one was granted the lock."""
    return any(
        isinstance(timed.step, Release) and timed.at is not None and timed.at.track == SECOND_TASK
        for timed in trial.tracks.get(ALICE, ())
    )
