"""A cause is named only if the record shows that it did the harm, and the line is where that was done."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.search.trial import Fault, Round, Trial, When
from tests.known_bad.test_named_causes import MS_NS, causes

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.mistakable"
TTL_NS = 10 * S_NS


def single(lock: str, alice: tuple[Round, ...], bob: tuple[Round, ...] = (), *faults: Fault) -> Trial:
    options: dict[str, str | int | float | bool] = {"node_timeout": "250ms", "retry_count": 1}
    clients = {ALICE: alice, BOB: bob} if bob else {ALICE: alice}
    return Setting(f"{LOCKS}:{lock}", options, 1, TTL_NS).with_clients(clients, faults)


def several(lock: str, clients: dict[str, tuple[Round, ...]], *faults: Fault) -> Trial:
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
SLOW = Fault("delay", When(), ALICE, ("B",), 250 * MS_NS, S_NS, "requests")
NOT_UNDONE = several(
    "LeavesSilentNodesAlone", {ALICE: ()}, Fault("cut", When(), ALICE, ("C",), direction="both"), SLOW
)
NOT_UNDONE_FOR_BOB = several(
    "LeavesSilentNodesAlone",
    {ALICE: (Round(0, 0),), BOB: (Round(S_NS, S_NS),)},
    Fault("cut", When("asks", ALICE), ALICE, ("B", "C"), direction="replies"),
)
REFUSED = several(
    "OneRefusalDecides",
    {ALICE: (), BOB: (Round(3 * S_NS // 10, 3 * S_NS),)},
    Fault("cut", When("granted", ALICE), ALICE, ("C",), direction="requests"),
)
ANNOUNCED = replace(single("AnnouncesItself", (Round(0, S_NS),)), demand_ns=0)
KEPT = single("ReleasesNothing", (Round(0, S_NS),), (Round(3 * S_NS // 10, S_NS),))
OTHER_KEY = single("UndoesAnotherKey", (Round(0, 0, cancel_ns=100_000),))
LOOKED = single(
    "LooksBeforeIt",
    (Round(0, S_NS),),
    (),
    Fault("cut", When("releases", ALICE), ALICE, ("A",), lasts_ns=200 * MS_NS, direction="replies"),
)
LOWERED = single("WritesBackWhatItDrew", (Round(0, 0), Round(1050 * MS_NS, 0)), (Round(3 * S_NS // 10, 0),))
SHORTER = replace(single("KeepsLessThanItClaims", (Round(0, S_NS),)), demand_ns=0)


@pytest.mark.parametrize(
    ("trial", "finding", "kind", "seen", "place"),
    [
        pytest.param(
            TOO_SHORT,
            "unavailable",
            "invalid-command",
            "sent SET with EX 0 for a lease of 700 ms, and A answered with an error: ERR invalid expire time",
            '"EX", ttl_ns // S_NS)',
            id="an error is no mixture of keys",
        ),
        pytest.param(
            ADOPTED,
            "overlap",
            "late-deadline",
            "Alice's acquire ended at 1001 ms and claims 9798 ms, 799 ms more than a majority of the nodes",
            'self._call("GET", key)',
            id="a key of its own is no reply of another request",
        ),
        pytest.param(
            NOT_UNDONE,
            "unavailable",
            "leaves-keys",
            "set a key on B, and nothing was sent there to undo that; it kept Alice's acquire at",
            "._take(key, token, ttl_ns)",
            id="a node with an old key of the same client is no node that is needed",
        ),
        pytest.param(
            NOT_UNDONE_FOR_BOB,
            "unavailable",
            "leaves-keys",
            "set a key on B and C, and nothing was sent there to undo that; it kept",
            "._take(key, token, ttl_ns)",
            id="keys of the client that is refused are on their way out",
        ),
        pytest.param(
            REFUSED,
            "unavailable",
            "needs-all-nodes",
            "failed with only C refusing, of 3 nodes",
            "._take(key, token, ttl_ns)",
            id="a node that refuses is not away",
        ),
        pytest.param(
            ANNOUNCED,
            "false-validity",
            "late-deadline",
            "more than a majority of the nodes keeps its key",
            '._call("SET", ',
            id="another key is not that of the lease",
        ),
        pytest.param(
            KEPT,
            "unavailable",
            "leaves-keys",
            "which sent nothing to A and was a success, left the key of its acquire of",
            '"SET", key, token',
            id="a release that sends nothing",
        ),
        pytest.param(
            OTHER_KEY,
            "unavailable",
            "leaves-keys",
            "which was cancelled at once, set a key that its EVAL of 0 ms did not delete on A",
            '"EVAL", GIVE_BACK, 1, token, key)',
            id="an attempt is undone under another key",
        ),
        pytest.param(
            LOOKED,
            "unavailable",
            "leaves-keys",
            "which said that the lease was lost, left the key of its acquire of 0 ms on A",
            '"GET", lease.key)',
            id="a release that deletes nothing",
        ),
        pytest.param(
            SHORTER,
            "false-validity",
            "wrong-expiry",
            "more than a majority of the nodes keeps its key: it asked A to keep it for less than the lease",
            '"PX", ttl_ns // MS_NS * 9 // 10)',
            id="less time is not a late count",
        ),
        pytest.param(
            LOWERED,
            "fence-order",
            "fence-not-increasing",
            "after Bob had got fence 3: Alice's SET at 1002 ms had lowered the counter on A",
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
