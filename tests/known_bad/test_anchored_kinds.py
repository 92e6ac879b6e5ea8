"""Defects that anchored schedules show with no fault but cuts: each is found there, and its twin is clean."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.naming import causes_of
from lab.examine.profile.learn import learn
from lab.examine.programs import BOB, Setting
from lab.examine.schedules import anchored
from lab.examine.schedules.building import hurt
from lab.search.command import options_for
from lab.search.plainer_tracks import fits
from lab.search.runner import run_trial, trials
from lab.search.trial import Trial

pytestmark = pytest.mark.usefixtures("_patched")

LOCKS = "tests.locks_to_test."
PLAIN_MAX, CUT_MAX = 90, 12


def schedules(lock: str) -> Iterator[Trial]:
    """The first ones without a fault, and some in which each acquire reaches another majority."""
    options = options_for(lock)
    profile = learn(Setting(lock, options, 5))
    kind = profile.kind
    setting = Setting(
        lock,
        options,
        5 if kind.quorum else 1,
        fences=kind.fenced,
        observed=kind.observed,
        ttl_step_ns=profile.ttl_step_ns,
        can=profile.can,
    )
    setting = setting.with_ttl(setting.ttl_ns)
    plain = [trial for trial, _ in zip(anchored.bases(setting, profile), range(PLAIN_MAX), strict=False)]
    yield from plain
    surroundings = [
        faults for faults in anchored._surroundings(setting) if any(each.until for each in faults)
    ]
    for faults in surroundings:
        struck = (hurt(trial, *faults) for trial in plain if BOB in trial.tracks)
        yield from [trial for trial in struck if fits(trial)][:CUT_MAX]


@pytest.mark.parametrize(
    ("lock", "finding", "cause"),
    [
        ("observed:LooksThenReplaces", "overlap", "overwrites-key"),
        ("ordinary.one_object:NotesTooEarly", "unavailable", "leaves-keys"),
        ("on_several:HighestOfAnyMajority", "fence-order", "fence-not-increasing"),
    ],
)
def test_a_broken_lock_is_found_with_its_cause(lock: str, finding: str, cause: str) -> None:
    with trials():
        showing = (trial for trial in schedules(LOCKS + lock) if finding in all_violations(run_trial(trial)))
        first = next(showing, None)
        assert first is not None
        assert [each.kind for each in causes_of(first, finding)][:1] == [cause]


@pytest.mark.full
@pytest.mark.parametrize(
    "lock", ["observed-lease", f"{LOCKS}ordinary.one_object:Locks", "redlock-fenced", f"{LOCKS}plain:Plain"]
)
def test_a_correct_lock_is_clean(lock: str) -> None:
    """What a fault kept it from doing has no cause: its undo, where the replies to its client are held."""
    with trials():
        for trial in schedules(lock):
            for finding in all_violations(run_trial(trial)):
                assert causes_of(trial, finding) == []
