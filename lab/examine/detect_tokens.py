"""Causes that show in whose token a lease has, or a request names, of those that one client was given."""

from __future__ import annotations

from collections.abc import Iterator

from lab.examine.detector import Cause, who, whose
from lab.examine.evidence import Evidence, Operation


def returns_released(evidence: Evidence) -> Iterator[Cause]:
    """A grant with the token of a lease that its client had released before, for which no node was asked."""
    releases = [each for each in evidence.operations if each.f == "release"]
    for grant in evidence.grants():
        token = grant.event.get("token")
        released = next(
            (
                each
                for each in releases
                if each.client == grant.client
                and token is not None
                and each.event.get("token") == token
                and each.called_ns < grant.called_ns
            ),
            None,
        )
        if released is None or evidence.requests_of(grant):
            continue
        seen = (
            f"{whose(grant.client)} acquire at {evidence.at(grant.called_ns)} asked no node, and returned "
            f"the lease that {who(grant.client)} had released at {evidence.at(released.called_ns)}"
        )
        yield Cause("returns-released", seen, released)


def releases_another(evidence: Evidence) -> Iterator[Cause]:
    """A release that names the token of another lease of its client, and not that of the lease it is of."""
    for release in (each for each in evidence.operations if each.f == "release"):
        own = release.event.get("token")
        other = _named(evidence, release)
        if own is None or other is None:
            continue
        seen = (
            f"{whose(release.client)} release at {evidence.at(release.called_ns)}, of the lease of "
            f"{evidence.at(_granted_ns(evidence, release, own))}, named the token of the lease of "
            f"{evidence.at(other.ended_ns)}"
        )
        yield Cause("others-token", seen, release)


def _named(evidence: Evidence, release: Operation) -> Operation | None:
    """Another grant of the client's whose token a release sent, if it did not send its own."""
    words = {word for sent in evidence.requests_of(release) for word in sent.words}
    if release.event.get("token") in words:
        return None
    return next(
        (
            grant
            for grant in evidence.grants()
            if grant.client == release.client
            and grant.ended_ns <= release.called_ns
            and grant.event.get("token") in words
        ),
        None,
    )


def _granted_ns(evidence: Evidence, release: Operation, token: str) -> int:
    """When the lease of a release was granted, or that it is released where that is not known."""
    theirs = (each.ended_ns for each in evidence.grants() if each.event.get("token") == token)
    return next(theirs, release.called_ns)
