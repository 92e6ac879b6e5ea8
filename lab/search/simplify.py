"""Plainer trials: other values for what cannot be left out, each of them simpler to tell than the one before.

Each change lowers a measure of its own and raises none that comes before it, so a series of them ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Final

from msgspec.structs import replace

from lab.durations import UNITS_NS
from lab.faults.drift import Drift
from lab.faults.jump import Jump
from lab.scenario.steps import Extend
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS, START, at_start, on
from lab.scenario.types import SENTINEL_NAMES
from lab.search.faults import client_of, lasting, moved, nodes_of, with_fields
from lab.search.plainer_tracks import fits
from lab.search.trial import CLIENTS, Round, Trial

PLAIN_TTL_NS: Final = 10 * UNITS_NS["s"]
PLAIN_NODES: Final = (3, 5)
"""How many nodes are plain, the plainest first."""
PLAIN_DRIFTS_PPM: Final = (8_000, 200_000)
"""How fast a clock may plainly drift: little, and much."""
PLAIN_ENDINGS: Final = ("release", "keep", "twice")
OPERATIONS: Final = ("granted", "acquire invoke", "extend invoke", "release invoke", "write invoke")
"""Events that a reader knows without counting what a client sends."""


def plainer_rounds(trial: Trial) -> Iterator[Trial]:
    """The trial with fewer operations: no demand, fewer extensions, plain endings, nothing cancelled."""
    if trial.demand_ns:
        yield replace(trial, demand_ns=0)
    for name, rounds in trial.clients.items():
        for at, each in enumerate(rounds):
            for plainer in _plainer_round(each):
                yield with_round(trial, name, at, plainer)


def _plainer_round(each: Round) -> Iterator[Round]:
    if each.cancel_ns:
        yield replace(each, cancel_ns=0)
    if each.ttl_ns:
        yield replace(each, ttl_ns=0)
    if each.extend_ttl_ns:
        yield replace(each, extend_ttl_ns=0)
    if each.other:
        yield replace(each, other=False)
    for ends in PLAIN_ENDINGS[: PLAIN_ENDINGS.index(each.ends)]:
        yield replace(each, ends=ends)
    for extends in sorted({0, each.extends - 1}):
        if 0 <= extends < each.extends:
            yield replace(each, extends=extends)


def plainer_faults(trial: Trial) -> Iterator[Trial]:
    """The trial with one fault at a plainer moment, or of a plainer size."""
    for at, fault in enumerate(trial.faults):
        for plainer in (*_plainer_events(fault, trial), *_plainer_drifts(fault)):
            if plainer != fault:
                yield with_fault(trial, at, plainer)


def _plainer_events(fault: Timed, trial: Trial) -> Iterator[Timed]:
    at = fault.at
    assert at is not None
    if at != at_start():
        yield moved(fault, at_start())
    if at.event == SENDS and at.track in trial.clients:
        rounds = trial.clients[at.track]
        extends = sum(each.extends for each in rounds)
        for event in OPERATIONS:
            for nth in range(1, 1 + (extends if event.startswith(Extend.KEY) else len(rounds))):
                yield moved(fault, on(at.track, event, nth))
    elif at.track != START and at.event != "granted":
        for name in trial.clients:
            yield moved(fault, on(name, "granted"))
    if at.after_ns:
        yield moved(fault, at.model_copy(update={"after_ns": 0}))
    for nth in sorted({1, at.nth - 1}):
        if 0 < nth < at.nth:
            yield moved(fault, at.model_copy(update={"nth": nth}))


def _plainer_drifts(fault: Timed) -> Iterator[Timed]:
    drift = fault.step
    if not isinstance(drift, Drift):
        return
    for ppm in PLAIN_DRIFTS_PPM:
        if abs(drift.ppm) == ppm:
            return
        yield with_fields(fault, ppm=ppm if drift.ppm > 0 else -ppm)


def plainer_cluster(trial: Trial) -> Iterator[Trial]:
    """The trial with a plainer cluster: fewer nodes, a TTL of 10 s, nodes that sync before they answer."""
    for nodes in PLAIN_NODES:
        if nodes < trial.nodes:
            for kept in combinations(trial.node_names, nodes):
                fewer = with_nodes(trial, kept)
                if fits(fewer):
                    yield fewer
    if trial.replicated and not trial.sentinels:
        yield replace(trial, replicated=False, uses=0)
    if trial.persistence != "aof-always":
        yield replace(trial, persistence="aof-always")
    if trial.ttl_ns != PLAIN_TTL_NS and not trial.tracks:  # whose times have their own scale
        horizon_ns = max(trial.horizon_ns, trial.horizon_ns * PLAIN_TTL_NS // trial.ttl_ns)
        yield _at_the_scale_of(trial, horizon_ns)
        yield replace(trial, ttl_ns=PLAIN_TTL_NS, horizon_ns=horizon_ns)


def with_nodes(trial: Trial, kept: tuple[str, ...]) -> Trial:
    """The trial with these of its nodes alone, called A, B, C…; what hits no node any more is left out."""
    named = dict(zip(kept, trial.node_names, strict=False))
    faults = tuple(
        _on_nodes(fault, named)
        for fault in trial.faults
        if not nodes_of(fault) or not named.keys().isdisjoint(nodes_of(fault))
    )
    tracks = {name: tuple(_on_nodes(timed, named) for timed in track) for name, track in trial.tracks.items()}
    return replace(trial, nodes=len(kept), faults=faults, tracks=tracks)


def _on_nodes(timed: Timed, named: Mapping[str, str]) -> Timed:
    """An action on the nodes that are left, by their new names; a fault of others alone stays as it is."""
    step = timed.step
    changed: dict[str, object] = {}
    for field in ("node", "from_node"):
        name = getattr(step, field, None)
        if isinstance(name, str) and name in named:
            changed[field] = named[name]
    nodes = getattr(step, "nodes", None)
    if isinstance(nodes, tuple):
        kept = (named.get(node, node) for node in nodes if node in named or node in SENTINEL_NAMES)
        changed["nodes"] = tuple(kept) or nodes
    return timed.model_copy(update={"step": step.model_copy(update=changed)}) if changed else timed


def _at_the_scale_of(trial: Trial, horizon_ns: int) -> Trial:
    """The trial with the plain TTL; what takes a good part of a lease takes the same part of it."""

    def scaled(ns: int) -> int:
        return ns * PLAIN_TTL_NS // trial.ttl_ns if ns >= trial.ttl_ns // 10 else ns

    clients = {
        name: tuple(
            replace(each, hold_ns=scaled(each.hold_ns), think_ns=scaled(each.think_ns)) for each in rounds
        )
        for name, rounds in trial.clients.items()
    }
    faults = tuple(_scaled(fault, scaled) for fault in trial.faults)
    return replace(
        trial,
        ttl_ns=PLAIN_TTL_NS,
        clients=clients,
        faults=faults,
        demand_ns=scaled(trial.demand_ns),
        horizon_ns=horizon_ns,
    )


def _scaled(fault: Timed, scaled: Callable[[int], int]) -> Timed:
    """A fault with its times at another scale; by how much a link is slower stays."""
    at, jump = fault.at, fault.step
    assert at is not None
    if isinstance(jump, Jump):
        by_ns = scaled(jump.by_ns) if jump.by_ns > 0 else -scaled(-jump.by_ns)
        fault = with_fields(fault, by_ns=by_ns)
    fault = moved(fault, at.model_copy(update={"after_ns": scaled(at.after_ns)}))
    return lasting(fault, scaled(fault.lasts_ns)) if fault.lasts_ns else fault


def renamed(trial: Trial) -> Iterator[Trial]:
    """The trial with its clients called Alice, Bob and so on, in the order in which they begin.

    Latencies depend on names, so it is tried with other seeds as well.
    """
    if trial.tracks:
        return
    in_order = sorted(
        trial.clients, key=lambda name: trial.clients[name][0].think_ns if trial.clients[name] else 0
    )
    names = dict(zip(in_order, CLIENTS, strict=False))
    if list(names) == list(names.values()) == list(trial.clients):
        return
    faults = tuple(_by_clients(fault, names) for fault in trial.faults)
    clients = {name: trial.clients[old] for old, name in names.items()}
    for seed in dict.fromkeys((trial.seed, 0, -1)):
        yield replace(trial, clients=clients, faults=faults, seed=seed)


def _by_clients(fault: Timed, names: Mapping[str, str]) -> Timed:
    """A fault with other names of clients."""
    client, at = client_of(fault), fault.at
    assert at is not None
    renamed = with_fields(fault, client=names.get(client, client)) if client else fault
    return moved(renamed, at.model_copy(update={"track": names.get(at.track or "", at.track)}))


def with_round(trial: Trial, client: str, at: int, use: Round) -> Trial:
    """The trial with another round of a client at this place."""
    rounds = trial.clients[client]
    return replace(trial, clients={**trial.clients, client: (*rounds[:at], use, *rounds[at + 1 :])})


def with_fault(trial: Trial, at: int, fault: Timed) -> Trial:
    """The trial with another fault at this place."""
    return replace(trial, faults=(*trial.faults[:at], fault, *trial.faults[at + 1 :]))
