"""An ordinary lock on asyncio says itself whether a lease is held; one that renews its leases is known to."""

from __future__ import annotations

import pytest

from lab.examine.defects import NOT_TOLD
from lab.examine.ledger.finders import seen
from lab.examine.ledger.keeping import keep
from lab.examine.programs import ALICE, BOB, S_NS, Setting
from lab.examine.violations.judge import RENEWAL
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.reset import Reset
from lab.scenario.tracks import Timed
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.runner import trials
from lab.search.trial import Round, Trial
from tests.known_bad.examined import examined
from tests.known_bad.test_named_causes import MS_NS, causes

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test.ordinary"
WITHOUT_RETRIES: dict[str, str | int | float | bool] = {"retries": 0, "socket_timeout": 0.5}


def of(
    lock: str,
    alice: tuple[Round, ...],
    bob: tuple[Round, ...] = (),
    *faults: Timed,
    ttl_ns: int = 10 * S_NS,
) -> Trial:
    clients = {ALICE: alice, BOB: bob} if bob else {ALICE: alice}
    return Setting(f"{LOCKS}.{lock}", WITHOUT_RETRIES, 1, ttl_ns).with_clients(clients, faults)


LONG = (Round(0, 30 * S_NS),)
LATER = (Round(3 * S_NS // 10, 3 * S_NS),)
GRANTED = on(ALICE, "granted")
CUT_OFF = timed_fault(Cut, GRANTED, ALICE, ("A",), direction="both")
BROKEN = timed_fault(Reset, GRANTED, ALICE, ("A",))


@pytest.mark.parametrize(
    "trial",
    [
        pytest.param(of("watching:Watching", LONG, LATER, CUT_OFF), id="cut off for good"),
        pytest.param(of("watching:Watching", LONG, (), BROKEN), id="a broken connection"),
        pytest.param(of("watching:Watching", (Round(0, 3 * S_NS, ends="keep"),)), id="not given back"),
        pytest.param(of("watching:Watching", LONG, LATER), id="without a fault"),
    ],
)
def test_one_that_says_when_its_lease_is_over_does_nothing_wrong(trial: Trial) -> None:
    with trials():
        assert not set(seen(keep(trial))) - {"unavailable"}


def test_its_answer_is_recorded_and_its_leases_are_those_of_a_lock_that_renews() -> None:
    with trials():
        events = keep(of("watching:Watching", LONG, LATER, CUT_OFF)).outcome.events
    said = [
        each["value"]
        for each in events
        if each["f"] == "held" and each["client"] == ALICE and each["type"] == "ok"
    ]
    assert said[-1] == "no"


def test_a_task_that_ends_at_an_error_has_its_cause() -> None:
    assert causes(of("watching:EndsAtAnError", LONG, (), BROKEN), RENEWAL)[0].kind == "renewal-stops"


@pytest.mark.parametrize("sending", [5, 7])
def test_who_is_refused_by_a_key_is_not_kept_out_by_one_broken_connection(sending: int) -> None:
    down = timed_fault(Crash, on(ALICE, "sends", sending), nodes=("A",), lasts_ns=100 * MS_NS)
    alice = (Round(0, 3 * S_NS // 2), Round(S_NS // 2, 300 * MS_NS))
    bob = (Round(300 * MS_NS, 100 * MS_NS), Round(S_NS, 100 * MS_NS))
    trial = of("watching:ReleasesQuietly", alice, bob, down, ttl_ns=5 * S_NS)
    assert "does-not-recover" not in {each.kind for each in causes(trial, "unavailable")}


@pytest.mark.full
@pytest.mark.parametrize(("lock", "tells"), [("TellsNothing", False), ("StaysLost", True)])
def test_one_that_has_nothing_to_ask_is_not_accused_of_what_its_user_cannot_know(
    lock: str, tells: bool
) -> None:
    """Who is cut off for a lease goes on: that is not decided, with the reason."""
    found = examined(f"{LOCKS}.renewing:{lock}", 100, to_the_end=True, options=(("retries", 0),))
    assert [(defect.cause, defect.seen) for defect in found.defects] == []
    untold = {one.finding for one in found.undecided if one.why == NOT_TOLD}
    assert untold == (set() if tells else {"unfenced-write", "lost-update"})
