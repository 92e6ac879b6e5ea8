"""Cycles over ww, wr, rw and real-time edges: found by components, told edge by edge.

Whether there is one is decided on arrays (`checker.history.accesses`). This module builds the graph around a
contradiction, finds its strongly connected components (scipy when it is installed and the graph is large,
networkx otherwise), and hands the guilty one to networkx for the shortest cycle through the contradiction.

Real-time edges would be quadratic in number. They go through a chain of instants instead: an operation leads
to the instant of its return, instants lead to later ones, and an instant leads to the operations that were
called after it and before the next. Paths, hence components, are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

from checker.history.accesses import Accesses
from checker.history.masks import positions
from checker.history.operations import I64, MISSING, Index

LARGE: Final = 5_000
"""Nodes from which on the components are worth importing scipy for."""
WINDOW_MAX: Final = 3_000
"""Accesses of one key around a contradiction that are looked at for a shorter cycle."""
KINDS: Final = ("ww", "wr", "rw", "real-time")


@dataclass(frozen=True, slots=True)
class Graph:
    """Edges between accesses of one key; nodes from `accesses` on are instants.

    `kind` indexes `KINDS`; the edges of an operation's return and of the chain are real-time ones, of which
    only the one that leaves an operation counts as a step.
    """

    accesses: int
    nodes: int
    source: Index
    target: Index
    kind: np.ndarray


@dataclass(frozen=True, slots=True)
class Step:
    """One edge of a cycle between two accesses (rows of `Accesses`)."""

    source: int
    target: int
    kind: str


def graph_of(accesses: Accesses, epsilon_ns: int) -> Graph:
    """All edges between the accesses of one key, which are ordered by position; O(n log n)."""
    n = len(accesses)
    writer = positions(accesses.write)
    versions = accesses.version[writer]
    parts = [(writer[:-1], writer[1:], 0)]
    reader = positions(~accesses.write | (accesses.based_on != MISSING))
    seen = np.where(accesses.write[reader], accesses.based_on[reader], accesses.version[reader])
    at = np.searchsorted(versions, seen)
    wrote = (
        (at < writer.size) & (versions[np.minimum(at, writer.size - 1)] == seen) if writer.size else at < 0
    )
    parts.append((writer[at[wrote]], reader[wrote], 1))
    after = np.searchsorted(versions, seen, side="right")
    replaced = after < writer.size
    parts.append((reader[replaced], writer[after[replaced]], 2))
    parts += [(s, t, 3) for s, t in _real_time(accesses, epsilon_ns)]
    source, target = (np.concatenate([p[i] for p in parts]) for i in (0, 1))
    kind = np.concatenate([np.full(p[0].size, p[2], np.int8) for p in parts])
    real = source != target
    return Graph(n, 2 * n, source[real], target[real], kind[real])


def _real_time(accesses: Accesses, epsilon_ns: int) -> list[tuple[Index, Index]]:
    n = len(accesses)
    order = np.argsort(accesses.done_ns, kind="stable")
    instant = n + np.arange(n)
    before = np.searchsorted(accesses.done_ns[order], accesses.call_ns - 2 * epsilon_ns)
    called = positions(before > 0)
    return [
        (order, instant),
        (instant[:-1], instant[1:]),
        (instant[before[called] - 1], called),
    ]


def components(graph: Graph) -> I64:
    """The number of the strongly connected component of each node, shape (nodes,)."""
    if graph.nodes >= LARGE:
        try:
            from scipy.sparse import coo_array
            from scipy.sparse.csgraph import connected_components
        except ImportError:
            pass
        else:
            ones = np.ones(graph.source.size, np.int8)
            matrix = coo_array((ones, (graph.source, graph.target)), shape=(graph.nodes, graph.nodes))
            return np.asarray(connected_components(matrix.tocsr(), connection="strong")[1], np.int64)
    import networkx as nx

    labels = np.empty(graph.nodes, np.int64)
    for number, members in enumerate(nx.strongly_connected_components(_digraph(graph))):
        labels[list(members)] = number
    return labels


def shortest_cycle(accesses: Accesses, first: int, second: int, epsilon_ns: int, kind: str) -> list[Step]:
    """The shortest cycle through the edge from `first` to `second` (rows of accesses of one key).

    Looks at the accesses between the two in the order of versions; if these are too many, or what was read
    was written by nobody on record, the order of versions itself is the second step.
    """
    begin, rest = Step(first, second, kind), [Step(second, first, "version")]
    position = accesses.position
    window = positions((position >= position[second]) & (position <= position[first]))
    if window.size > WINDOW_MAX:
        return [begin, *rest]
    graph = graph_of(accesses.take(window), epsilon_ns)
    labels = components(graph)
    source, target = (int(positions(window == x)[0]) for x in (second, first))
    if labels[source] != labels[target]:
        return [begin, *rest]
    import networkx as nx

    inside = positions(labels == labels[source]).tolist()
    digraph = _digraph(graph).subgraph(inside)
    path = nx.dijkstra_path(digraph, source, target, weight="steps")
    return [begin, *_steps(digraph, path, graph.accesses, window)]


def _digraph(graph: Graph) -> Any:
    import networkx as nx

    digraph: Any = nx.DiGraph()
    digraph.add_nodes_from(range(graph.nodes))
    for source, target, kind in zip(
        graph.source.tolist(), graph.target.tolist(), graph.kind.tolist(), strict=True
    ):
        if not digraph.has_edge(source, target):
            digraph.add_edge(source, target, kind=KINDS[kind], steps=int(source < graph.accesses))
    return digraph


def _steps(digraph: Any, path: list[int], accesses: int, window: Index) -> list[Step]:
    steps = []
    source, kind = path[0], ""
    for here, there in pairwise(path):
        kind = kind or digraph.edges[here, there]["kind"]
        if there < accesses:
            steps.append(Step(int(window[source]), int(window[there]), kind))
            source, kind = there, ""
    return steps
