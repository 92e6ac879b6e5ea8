"""Naming the cause of a violation: what the nodes executed, and what clients believed, in a watched trial.

Each detector looks for one kind of cause and says what it saw. Which of them matter depends on what was
violated: see ``ORDER``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from msgspec import structs

from lab.errors import NotModelled, UnknownOutcome
from lab.examine import (
    detect_errors,
    detect_expiry,
    detect_keys,
    detect_leases,
    detect_requests,
    detect_service,
    detect_store,
    detect_tokens,
    detect_undone,
)
from lab.examine.detector import Cause, Detector
from lab.examine.evidence import Evidence, Operation
from lab.examine.judge import ERROR, HANG, RELEASE, Violation
from lab.examine.own_findings import all_violations
from lab.examine.places import places_of
from lab.search.runner import Outcome, run_trial
from lab.search.trial import Trial
from lab.search.watch import Executed


def causes_of(outcome: Outcome, violation: Violation) -> list[Cause]:
    """What may have led to a violation in a watched trial, the most telling first; one of each kind."""
    evidence = Evidence(outcome)
    found: dict[str, Cause] = {}
    for detector in ORDER.get(violation.finding, ()):
        cause = next((each for each in detector(evidence) if _matters(evidence, each, violation)), None)
        if cause is not None:
            found.setdefault(cause.kind, cause)
    return [replace(each, places=places_of(evidence, each.kind, each.by)) for each in found.values()]


def _matters(evidence: Evidence, cause: Cause, violation: Violation) -> bool:
    """Whether it can have led to this: who waits for a majority that is away keeps nobody else waiting.

    Nor does who is answered with errors; and no second lock is to blame for what shows without it as well.
    """
    if cause.kind == "mixes-keys":
        return _needs_another_lock(evidence.outcome.trial, violation)
    if cause.kind == "invalid-command" and isinstance(cause.by, Executed) and violation.clients:
        return cause.by.client in violation.clients
    waiting = cause.by
    return (
        cause.kind != "waits-too-long"
        or violation.finding != "unavailable"
        or not isinstance(waiting, Operation)
        or waiting.client in violation.clients
        or not detect_service.majority_is_away(evidence, waiting)
    )


def _needs_another_lock(trial: Trial, violation: Violation) -> bool:
    """Whether the finding is gone when its clients take one lock only."""
    clients = {
        client: tuple(structs.replace(each, other=False) for each in rounds)
        for client, rounds in trial.clients.items()
    }
    try:
        alone = run_trial(structs.replace(trial, clients=clients))
    except (UnknownOutcome, NotModelled):
        return True
    return violation.finding not in all_violations(alone)


_EXCLUSION: Final[tuple[Detector, ...]] = (
    detect_tokens.returns_released,
    detect_tokens.releases_another,
    detect_store.mixes_keys,
    detect_leases.wall_clock,
    detect_requests.mistakes_reply,
    detect_keys.same_token,
    detect_keys.deletes_others,
    detect_keys.overwrites,
    detect_leases.too_few_votes,
    detect_keys.ends_early,
    detect_keys.extends_others,
    detect_keys.recreates,
    detect_expiry.short_expiry,
    detect_leases.shortened,
    detect_leases.not_kept,
    detect_leases.deadline_moves,
    detect_leases.drift_margin,
    detect_leases.late_deadline,
    detect_leases.claims_too_much,
    detect_leases.ignores_deadline,
    detect_leases.too_few_asked,
)
_LIVENESS: Final[tuple[Detector, ...]] = (
    detect_tokens.releases_another,
    detect_store.mixes_keys,
    detect_errors.answered_with_errors,
    detect_expiry.no_expiry,
    detect_expiry.long_expiry,
    detect_requests.goes_on,
    detect_requests.counts_twice,
    detect_requests.overtaken,
    detect_keys.refused_by_own,
    detect_keys.refused_by_earlier_try,
    detect_keys.renews_after_release,
    detect_keys.extends_others,
    detect_service.scripts_lost,
    detect_service.does_not_recover,
    detect_service.asks_nobody,
    detect_service.stops_releasing,
    detect_undone.never_undone,
    detect_service.leaves_keys,
    detect_service.hangs,
    detect_service.raised,
    detect_service.waits_too_long,
    detect_undone.needs_all,
)
_LATE_WRITE: Final[tuple[Detector, ...]] = (
    detect_store.stale_token,
    detect_keys.extends_others,
    detect_leases.renews_another,
    detect_leases.ignores_deadline,
    detect_leases.wall_clock,
    *_EXCLUSION,
)
ORDER: Final[dict[str, tuple[Detector, ...]]] = {
    "overlap": _EXCLUSION,
    "not-linearizable": _EXCLUSION,
    "continuity-loss": (
        detect_keys.recreates,
        detect_leases.not_kept,
        detect_keys.overwrites,
        detect_keys.extends_others,
        *_EXCLUSION,
    ),
    "false-validity": (
        detect_leases.late_deadline,
        detect_leases.wall_clock,
        detect_leases.over_at_return,
        detect_expiry.short_expiry,
        detect_leases.shortened,
        detect_leases.not_kept,
        detect_leases.claims_too_much,
        detect_leases.deadline_moves,
    ),
    "fence-order": (detect_store.fences,),
    "fence-breach": (detect_store.stale_store,),
    "leak": _LIVENESS,
    "unavailable": _LIVENESS,
    "lost-update": (
        detect_store.stale_token,
        detect_store.stale_reads,
        detect_leases.renews_another,
        *_EXCLUSION,
    ),
    "cycle": (detect_store.stale_token, detect_store.stale_reads, *_EXCLUSION),
    "stale-write": _LATE_WRITE,
    "unfenced-write": _LATE_WRITE,
    ERROR: (detect_service.raised,),
    HANG: (detect_service.hangs,),
    RELEASE: (
        detect_tokens.releases_another,
        detect_store.mixes_keys,
        detect_requests.mistakes_reply,
        detect_keys.renews_after_release,
        detect_service.releases_in_vain,
    ),
}
"""Which detectors are asked for which finding, the most telling first."""
