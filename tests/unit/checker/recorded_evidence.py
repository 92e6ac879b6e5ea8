"""What the checks derive from a history before they decide: every column of it, as one digest per subject.

A verdict shows little of that. A column that changes and still gives the same verdict on a few hundred
histories gives another one on some history that nobody drew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final

import numpy as np

from checker.errors import HistoryError
from checker.history.accesses import accesses_of, contradictions
from checker.history.attribution import Forgotten
from checker.history.events import Event
from checker.history.evidence import Evidence
from checker.history.grants import unnamed_releases
from checker.history.history import History
from checker.history.identity import acquires_by_grant, origins, owners, threaded, unknown_grants
from checker.history.operations import NONE
from checker.history.sightings import lost_between
from checker.history.unpairing import events_of
from checker.history.windows import expiry, possible
from checker.linearizability import turns
from checker.linearizability.adapter import lock_columns, register_ops, without_empty_cores
from checker.linearizability.columns import event_order
from checker.linearizability.lease import may_end_by_itself
from checker.linearizability.owned import keeps_identity
from checker.linearizability.owners import by_client, by_owner, excess_releases, to_be_searched
from checker.properties import counting, deadlock_freedom, fairness, fencing, lease_honesty, waits
from checker.properties.availability import Availability
from checker.properties.waiting import gaps, hold_ends, tries_of

_PLAIN: Final = (str, int, float, type(None))


def plain(thing: Any) -> Any:
    """Nested tuples that say all of a thing: of an array its type as well, of a sequence each item."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.tolist()
    if isinstance(thing, _PLAIN):
        return thing
    if is_dataclass(thing):
        return type(thing).__name__, [plain(getattr(thing, f.name)) for f in fields(thing) if f.compare]
    if isinstance(thing, Event):
        return str(thing)
    if isinstance(thing, Mapping):
        return [(plain(key), plain(value)) for key, value in thing.items()]
    if isinstance(thing, set | frozenset):
        return sorted(map(str, thing))
    if hasattr(thing, "__getitem__") and hasattr(thing, "__len__"):
        return [plain(thing[at]) for at in range(len(thing))]
    if isinstance(thing, Iterable):
        return [plain(one) for one in thing]
    raise TypeError(f"saw a {type(thing).__name__}, expected columns, names and numbers")


def _operations(evidence: Evidence) -> Iterable[Any]:
    history, ops = evidence.history, evidence.ops
    yield history.ops
    yield ops.grant, ops.names.grant
    yield history.faults, history.stalls, history.lab, history.start_ns, history.end_ns
    yield events_of(history.ops, history.others)


def _identity(evidence: Evidence) -> Iterable[Any]:
    for ops in (evidence.history.ops, evidence.ops):
        yield acquires_by_grant(ops), unknown_grants(ops), origins(ops), owners(ops)
        yield unnamed_releases(ops)
    yield threaded(evidence.ops)
    yield evidence.renamed, evidence.open_ends(evidence.grants.row), evidence.open_why()


def _grants(evidence: Evidence) -> Iterable[Any]:
    yield evidence.grants
    yield evidence.killed, evidence.began_ns
    yield evidence.guaranteed, evidence.believed
    yield possible(evidence.grants, evidence.params), expiry(evidence.grants, evidence.params)


def _resource(evidence: Evidence) -> Iterable[Any]:
    yield evidence.writes
    accesses = accesses_of(evidence)
    yield accesses
    for epsilon_ns, limit in ((0, 100), (evidence.params.epsilon_ns, 1)):
        yield contradictions(accesses, epsilon_ns, limit)
    yield fencing.resource_uses(evidence)


def _nodes(evidence: Evidence) -> Iterable[Any]:
    sightings, grants, names = evidence.sightings, evidence.grants, evidence.ops.names.token
    yield sightings.nodes
    for g in np.flatnonzero(grants.token != NONE).tolist():
        key, token = evidence.key(int(grants.key[g])), str(names[int(grants.token[g])])
        called_ns = int(grants.called_ns[g])
        yield sightings.began_ns(key, token, called_ns)
        middle_ns = (called_ns + evidence.history.end_ns) // 2
        for until_ns in (called_ns, middle_ns, evidence.history.end_ns + 1):
            yield sightings.over_by(key, token, called_ns, until_ns)
            for node in sightings.nodes.get(key, {}).values():
                yield node.never_had(token), lost_between(node, token, until_ns)


def _faults(evidence: Evidence) -> Iterable[Any]:
    attribution, last = evidence._attribution, (len(evidence.ops) * 2,)
    tokens = frozenset(map(str, evidence.ops.names.token))
    for name in sorted(evidence.client_names):
        yield (attribution.broken_assumption(last, (name,)) or (None,))[0]
        begin, end = evidence.history.start_ns, evidence.history.end_ns
        for key in (None, *evidence.ops.names.key):
            for since_ns in (begin, (begin + end) // 2):
                lost = Forgotten(key, since_ns, end, tokens)
                yield (attribution.broken_assumption(last, (name,), lost) or (None,))[0]


def _liveness(evidence: Evidence) -> Iterable[Any]:
    availability, rows = Availability(evidence), np.arange(len(evidence.ops))
    yield evidence.still_ns(rows, evidence.ops.return_ns[rows]), evidence.pauses()
    for name in sorted(evidence.client_names):
        yield availability.served(name), availability.still(name), availability.dead(name)
    tries, ends = tries_of(evidence), hold_ends(evidence)
    yield tries, ends
    yield gaps(evidence.grants.key, evidence.grants.called_ns, ends, evidence, 0)
    yield deadlock_freedom._longest_ttls(evidence)
    yield waits.cycles(evidence)
    yield fairness.starvation(evidence), fairness._held_on_return(evidence)


def _leases(evidence: Evidence) -> Iterable[Any]:
    yield lease_honesty._claims(evidence)
    if evidence.model in counting.MODELS:
        try:
            weight = counting.weights(evidence)
        except HistoryError as error:
            yield str(error)
            return
        holds = counting.guaranteed_holds(evidence, weight)
        yield weight, holds, counting.levels(holds), counting._possible_holds(evidence, weight)


def _orders(evidence: Evidence) -> Iterable[Any]:
    ops, params = evidence.history.ops, evidence.params
    yield may_end_by_itself(by_client(ops), len(ops.names.key) + 1, params.rho, params.delta_ns)
    yield register_ops(ops, np.arange(len(ops)))
    columns = lock_columns(ops, params.refusals, params.epsilon_ns)
    yield columns
    if not len(columns):
        return
    owned = by_owner(columns, ops)
    yield owned.process, event_order(columns), columns.ranked()
    yield without_empty_cores(owned, ops, params.epsilon_ns)
    yield keeps_identity(columns), keeps_identity(owned.ranked())
    yield excess_releases(owned.ranked(), np.ones(owned.keys, np.bool_))
    for fenced in (False, True):
        yield turns.in_turns(owned, fenced=fenced), turns.in_turns(columns, owners=False, fenced=fenced)
        yield [to_be_searched(owned.ranked(), depth, fenced=fenced) for depth in (1, 2)]


SUBJECTS: Final[Mapping[str, Callable[[Evidence], Iterable[Any]]]] = {
    "operations": _operations,
    "identity": _identity,
    "grants": _grants,
    "resource": _resource,
    "nodes": _nodes,
    "faults": _faults,
    "liveness": _liveness,
    "leases": _leases,
    "orders": _orders,
}


def evidence_of(history: History) -> str:
    """The digests of all subjects, eight characters each, in the order of `SUBJECTS`."""
    evidence, found = Evidence(history), []
    for derive in SUBJECTS.values():
        text = repr(plain(derive(evidence)))
        found.append(hashlib.sha256(text.encode()).hexdigest()[:8])
    return " ".join(found)
