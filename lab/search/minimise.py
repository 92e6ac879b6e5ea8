"""Making a trial that violates as small as it can be: raise magnitudes, delete, shorten, until nothing helps.

Raising comes first. A cut that lasts too short, or a jump that only just suffices, needs the others beside
it; once it is decisive they can go. The result is a local minimum: no fault, no place of a fault, no client
and no round can be taken away from it without losing the violation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import permutations
from typing import Final

from msgspec.structs import replace

from lab.search.trial import FOR_GOOD, Fault, Round, Trial, When

Violates = Callable[[Trial], bool]

TURN_NS: Final = 300_000_000
"""How long after one client the next begins, where they begin one after the other."""


def minimise(trial: Trial, violates: Violates) -> Trial:
    """The smallest trial that this leads to and that still ``violates``, as ``trial`` does."""
    smaller = True
    while smaller:
        raised = _climb(trial, violates)
        shorter = _descend(_descend(raised, deletions, violates), shortenings, violates)
        smaller = shorter != trial
        trial = shorter
    return trial


def _climb(trial: Trial, violates: Violates) -> Trial:
    """Make each fault decisive, where that keeps the violation."""
    for at in range(len(trial.faults)):
        for changed in changes_of(trial, at, raise_fault):
            if violates(changed):
                trial = changed
                break
    return trial


def _descend(trial: Trial, changes: Callable[[Trial], Iterable[Trial]], violates: Violates) -> Trial:
    """Accept the first change that keeps the violation, again and again."""
    found = True
    while found:
        found = False
        for changed in changes(trial):
            if violates(changed):
                trial, found = changed, True
                break
    return trial


def deletions(trial: Trial) -> Iterator[Trial]:
    """The trial without one fault, client, round, or place of a fault.

    A fault may have done nothing but keep the clients apart, so it is also left out with their turns changed.
    """
    for at in range(len(trial.faults)):
        without = replace(trial, faults=trial.faults[:at] + trial.faults[at + 1 :])
        yield without
        yield from in_turns(without)
    if len(trial.clients) > 1:
        for name in trial.clients:
            clients = {other: rounds for other, rounds in trial.clients.items() if other != name}
            faults = tuple(f for f in trial.faults if name not in (f.client, f.when.client))
            yield replace(trial, clients=clients, faults=faults)
    for name, rounds in trial.clients.items():
        for at in range(len(rounds)):
            if len(rounds) > 1:
                yield replace(trial, clients={**trial.clients, name: rounds[:at] + rounds[at + 1 :]})
    for at, fault in enumerate(trial.faults):
        if len(fault.nodes) > 1:
            for node in fault.nodes:
                rest = tuple(other for other in fault.nodes if other != node)
                yield with_fault(trial, at, replace(fault, nodes=rest))


def in_turns(trial: Trial) -> Iterator[Trial]:
    """The trial with its clients beginning one after the other, in each order."""
    for order in permutations(trial.clients):
        clients = {
            name: (replace(rounds[0], think_ns=order.index(name) * TURN_NS), *rounds[1:])
            for name, rounds in trial.clients.items()
        }
        if clients != trial.clients:
            yield replace(trial, clients=clients)


def shortenings(trial: Trial) -> Iterator[Trial]:
    """The trial with less waiting, or with a fault at a plainer time; each is simpler than the trial."""
    if not any(_takes_turns(trial, order) for order in permutations(trial.clients)):
        yield from in_turns(trial)
    for name, rounds in trial.clients.items():
        for at, each in enumerate(rounds):
            for plainer in _plainer_rounds(each, trial.ttl_ns, first=at == 0):
                yield replace(
                    trial, clients={**trial.clients, name: (*rounds[:at], plainer, *rounds[at + 1 :])}
                )
    for at in range(len(trial.faults)):
        yield from changes_of(trial, at, _plainer_times)
    if trial.seed:
        yield replace(trial, seed=0)


def _takes_turns(trial: Trial, order: tuple[str, ...]) -> bool:
    return all(trial.clients[name][0].think_ns == turn * TURN_NS for turn, name in enumerate(order))


def _plainer_rounds(each: Round, ttl_ns: int, *, first: bool) -> Iterator[Round]:
    if each.think_ns and not (first and each.think_ns % TURN_NS == 0):
        for shorter_ns in (0, 100_000_000, 1_000_000_000):
            if shorter_ns < each.think_ns:
                yield replace(each, think_ns=shorter_ns)
    kept_ns = ttl_ns * 3 // 10
    for plain_ns in (kept_ns, 0):
        if _plainness(each.hold_ns, kept_ns) > _plainness(plain_ns, kept_ns):
            yield replace(each, hold_ns=plain_ns)


def _plainness(hold_ns: int, kept_ns: int) -> int:
    """How odd it is to hold a lock for so long: a part of the lease is plainest."""
    return 0 if hold_ns == kept_ns else 1 if hold_ns == 0 else 2


def _plainer_times(fault: Fault, trial: Trial) -> Iterator[Fault]:
    when = fault.when
    if when != When():
        yield replace(fault, when=When())
    if when.moment in ("asks", "before-write", "releases"):
        for name in trial.clients:
            yield replace(fault, when=When("granted", name))
    if when.after_ns:
        yield replace(fault, when=replace(when, after_ns=0))
    if when.nth > 1:
        yield replace(fault, when=replace(when, nth=when.nth - 1))


def raise_fault(fault: Fault, trial: Trial) -> Iterator[Fault]:
    """The fault, made decisive: it lasts for good, or past a lease, or jumps past a lease."""
    past_ns = trial.ttl_ns + 1_000_000_000
    if fault.kind in ("cut", "hold", "delay"):
        if fault.lasts_ns != FOR_GOOD:
            yield replace(fault, lasts_ns=FOR_GOOD)
    elif fault.kind == "jump":
        target_ns = past_ns if fault.by_ns > 0 else -past_ns
        if fault.by_ns != target_ns:
            yield replace(fault, by_ns=target_ns)
    elif fault.kind == "pause":
        if fault.lasts_ns != past_ns:
            yield replace(fault, lasts_ns=past_ns)
    elif fault.lasts_ns != 100_000_000:
        yield replace(fault, lasts_ns=100_000_000)  # the sooner it is back, the less it remembers


def changes_of(trial: Trial, at: int, change: Callable[[Fault, Trial], Iterable[Fault]]) -> Iterator[Trial]:
    """The trial with one of its faults changed, in each way."""
    for changed in change(trial.faults[at], trial):
        yield with_fault(trial, at, changed)


def with_fault(trial: Trial, at: int, fault: Fault) -> Trial:
    """The trial with another fault at this place."""
    return replace(trial, faults=(*trial.faults[:at], fault, *trial.faults[at + 1 :]))


def places(trial: Trial) -> int:
    """How many faults there are, counting each link and node on its own."""
    return sum(max(1, len(fault.nodes)) for fault in trial.faults)
