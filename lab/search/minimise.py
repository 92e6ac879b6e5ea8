"""Making a trial that violates as small as it can be: raise, delete, shorten, simplify, until nothing helps.

Raising comes first. A cut that lasts too short, or a jump that only just suffices, needs the others beside
it; once it is decisive they can go. The result is a local minimum: no fault, no place of a fault, no client
and no round can be taken away from it, and nothing in it said more plainly, without losing the violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import Final

from msgspec.structs import replace

from lab.faults.down import DownFault
from lab.faults.jump import Jump
from lab.faults.links import LinkFault
from lab.faults.pause import Pause
from lab.scenario.tracks import Timed
from lab.search.faults import FOR_GOOD, client_of, every_fault, is_a, lasting, nodes_of, with_fields
from lab.search.plainer_tracks import fewer_actions, fits, plainer_tracks
from lab.search.simplify import (
    plainer_cluster,
    plainer_faults,
    plainer_rounds,
    renamed,
    with_fault,
    with_round,
)
from lab.search.trial import CLIENTS, Round, Trial

Violates = Callable[[Trial], bool]
Changes = Callable[[Trial], Iterable[Trial]]

TURN_NS: Final = 300_000_000
"""How long after one client the next begins, where they begin one after the other."""
TURNS_NS: Final = tuple(turn * TURN_NS for turn in range(len(CLIENTS)))


def minimise(trial: Trial, violates: Violates, *, same_cluster: bool = False) -> Trial:
    """The smallest trial that this leads to and that still ``violates``, as ``trial`` does.

    Args:
        trial: what violates.
        violates: whether a trial does; asked at most once about each.
        same_cluster: whether the number of nodes, their persistence and the TTL must stay as they are.
    """
    ask = once(violates)
    plainer: list[Changes] = [shortenings, plainer_rounds, plainer_faults, plainer_tracks]
    if not same_cluster:
        plainer.append(plainer_cluster)
    smaller = True
    while smaller:
        shorter = _climb(_without_many(trial, ask), ask)
        for changes in (deletions, *plainer, renamed):
            shorter = descend(shorter, changes, ask)
        smaller = shorter != trial
        trial = shorter
    return trial


def once(violates: Violates) -> Violates:
    """The same question, with its answers kept."""
    known: dict[bytes, bool] = {}

    def asked(trial: Trial) -> bool:
        key = trial.key()
        if key not in known:
            known[key] = violates(trial)
        return known[key]

    return asked


def _without_many(trial: Trial, violates: Violates) -> Trial:
    """Leave out many faults at a time: all of them, halves, quarters (Zeller's delta debugging)."""
    size = len(trial.faults)
    while size > 1:
        at = 0
        while at < len(trial.faults):
            without = replace(trial, faults=trial.faults[:at] + trial.faults[at + size :])
            if violates(without):
                trial = without
            else:
                at += size
        size = min(size, len(trial.faults)) // 2
    return trial


def _climb(trial: Trial, violates: Violates) -> Trial:
    """Make each fault decisive, where that keeps the violation."""
    for at in range(len(trial.faults)):
        for raised in raise_fault(trial.faults[at], trial):
            changed = with_fault(trial, at, raised)
            if violates(changed):
                trial = changed
                break
    return trial


def descend(trial: Trial, changes: Changes, violates: Violates) -> Trial:
    """Accept what keeps the violation, going on where the last one was, until nothing does any more."""
    first = 0
    while True:
        for at, changed in enumerate(changes(trial)):
            if at >= first and violates(changed):
                trial, first = changed, at
                break
        else:
            if first == 0:
                return trial
            first = 0


def deletions(trial: Trial) -> Iterator[Trial]:
    """The trial without one fault, client, round, or place of a fault.

    A fault may have done nothing but keep the clients apart, so it is also left out with their turns changed.
    """
    for at in range(len(trial.faults)):
        without = replace(trial, faults=trial.faults[:at] + trial.faults[at + 1 :])
        yield without
        yield from in_turns(without)
    yield from fewer_actions(trial)
    if len(trial.clients) > 1:
        for name in trial.clients:
            clients = {other: rounds for other, rounds in trial.clients.items() if other != name}
            faults = tuple(f for f in trial.faults if name not in (client_of(f), f.at and f.at.track))
            tracks = {track: own for track, own in trial.tracks.items() if track.partition("/")[0] != name}
            fewer = replace(trial, clients=clients, faults=faults, tracks=tracks)
            if fits(fewer):
                yield fewer
    for name, rounds in trial.clients.items():
        for at in range(len(rounds)):
            if len(rounds) > 1 or trial.demand_ns:
                yield replace(trial, clients={**trial.clients, name: rounds[:at] + rounds[at + 1 :]})
    for at, fault in enumerate(trial.faults):
        if len(nodes_of(fault)) > 1:
            for node in nodes_of(fault):
                rest = tuple(other for other in nodes_of(fault) if other != node)
                yield with_fault(trial, at, with_fields(fault, nodes=rest))


def in_turns(trial: Trial) -> Iterator[Trial]:
    """The trial with its clients beginning one after the other, in each order."""
    for order in permutations(trial.clients):
        clients = {
            name: tuple(
                replace(each, think_ns=order.index(name) * TURN_NS) if at == 0 else each
                for at, each in enumerate(rounds)
            )
            for name, rounds in trial.clients.items()
        }
        if clients != trial.clients:
            yield replace(trial, clients=clients)


def shortenings(trial: Trial) -> Iterator[Trial]:
    """The trial with less waiting, or with the plainest seed; each is simpler than the trial."""
    if not any(_takes_turns(trial, order) for order in permutations(trial.clients)):
        yield from in_turns(trial)
    for name, rounds in trial.clients.items():
        for at, each in enumerate(rounds):
            for plainer in _plainer_rounds(each, trial.ttl_ns, first=at == 0):
                yield with_round(trial, name, at, plainer)
    if trial.seed:
        yield replace(trial, seed=0)


def _takes_turns(trial: Trial, order: tuple[str, ...]) -> bool:
    return all(
        rounds[0].think_ns == turn * TURN_NS
        for turn, name in enumerate(order)
        if (rounds := trial.clients[name])
    )


def _plainer_rounds(each: Round, ttl_ns: int, *, first: bool) -> Iterator[Round]:
    if each.think_ns and not (first and each.think_ns in TURNS_NS):
        for shorter_ns in (0, 100_000_000, 1_000_000_000):
            if shorter_ns < each.think_ns:
                yield replace(each, think_ns=shorter_ns)
    if each.other:
        yield replace(each, other=False)
    kept_ns = ttl_ns * 3 // 10
    for plain_ns in (kept_ns, 0):
        if _plainness(each.hold_ns, kept_ns) > _plainness(plain_ns, kept_ns):
            yield replace(each, hold_ns=plain_ns)


def _plainness(hold_ns: int, kept_ns: int) -> int:
    """How odd it is to hold a lock for so long: a part of the lease is plainest."""
    return 0 if hold_ns == kept_ns else 1 if hold_ns == 0 else 2


def raise_fault(fault: Timed, trial: Trial) -> Iterator[Timed]:
    """The fault, made decisive: it lasts for good, or past a lease, or jumps past a lease."""
    past_ns = trial.ttl_ns + 1_000_000_000
    if is_a(fault, LinkFault):
        if fault.lasts_ns != FOR_GOOD:
            yield lasting(fault, FOR_GOOD)
    elif isinstance(jump := fault.step, Jump):
        target_ns = past_ns if jump.by_ns > 0 else -past_ns
        if jump.by_ns != target_ns:
            yield with_fields(fault, by_ns=target_ns)
    elif is_a(fault, Pause):
        if fault.lasts_ns != past_ns:
            yield lasting(fault, past_ns)
    elif is_a(fault, DownFault) and fault.lasts_ns != 100_000_000:
        yield lasting(fault, 100_000_000)  # the sooner it is back, the less it remembers


def places(trial: Trial) -> int:
    """How many faults there are, counting each link and node on its own."""
    return sum(max(1, len(nodes_of(fault))) for fault in every_fault(trial))
