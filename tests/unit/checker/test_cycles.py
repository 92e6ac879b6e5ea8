"""The two ways to find a cycle agree: positions in the order of versions, and components of the graph."""

from __future__ import annotations

import sys
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker.history.accesses import Accesses, accesses_of, contradictions
from checker.history.evidence import Evidence
from checker.history.operations import MISSING
from checker.properties import cycles
from checker.properties.cycles import components, graph_of, shortest_cycle
from tests.fuzzing import examples
from tests.unit.checker.builder import HistoryBuilder, names

FUZZ = settings(max_examples=examples(300), deadline=None)


@st.composite
def accesses(draw: st.DrawFn, key: str = "k") -> Accesses:
    """Accesses of one key with versions that may well contradict their times."""
    builder = HistoryBuilder()
    versions = draw(st.lists(st.integers(1, 9), unique=True, min_size=1, max_size=6))
    for number, version in enumerate(versions):
        call = draw(st.integers(0, 30))
        based = draw(st.none() | st.integers(max(0, version - 2), version))
        builder.write(f"w{number}", None, call, call + draw(st.integers(1, 10)), based, version, key=key)
    for number in range(draw(st.integers(0, 4))):
        call = draw(st.integers(0, 30))
        version = draw(st.sampled_from([0, *versions]))
        builder.op(f"r{number}", "read", call, call + draw(st.integers(1, 10)), key=key, version_read=version)
    return accesses_of(Evidence(builder.history()))


def brute_force(a: Accesses, epsilon_ns: int = 0) -> nx.DiGraph[int]:
    """Every edge by its definition, real time included."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(a)))
    writers = sorted((int(a.version[i]), i) for i in range(len(a)) if a.write[i])
    for (_, one), (_, two) in pairwise(writers):
        graph.add_edge(one, two)
    for i in range(len(a)):
        seen = int(a.based_on[i]) if a.write[i] else int(a.version[i])
        if seen != MISSING:
            graph.add_edges_from((w, i) for version, w in writers if version == seen and w != i)
            later = [w for version, w in writers if version > seen]
            graph.add_edges_from((i, w) for w in later[:1] if w != i)
        for j in range(len(a)):
            if a.done_ns[i] < a.call_ns[j] - 2 * epsilon_ns:
                graph.add_edge(i, j)
    return graph


@FUZZ
@given(accesses())
def test_positions_components_and_brute_force_agree(a: Accesses) -> None:
    by_position = contradictions(a, 0, 10).count > 0
    by_components = len(set(components(graph_of(a, 0))[: len(a)].tolist())) < len(a)
    by_force = any(len(c) > 1 for c in nx.strongly_connected_components(brute_force(a)))
    assert by_position == by_components == by_force


@pytest.mark.full
@FUZZ
@given(accesses())
def test_every_witness_is_a_cycle_of_real_steps(a: Accesses) -> None:
    found = contradictions(a, 0, 10)
    graph = nx.transitive_closure(brute_force(a))
    for first, second, kind in zip(found.first.tolist(), found.second.tolist(), found.kind, strict=True):
        steps = shortest_cycle(a, first, second, 0, kind)
        assert steps[0].source == steps[-1].target == first
        for one, two in zip(steps, [*steps[1:], steps[0]], strict=True):
            assert one.target == two.source
            assert graph.has_edge(one.source, one.target)


@pytest.mark.full
@FUZZ
@given(accesses())
def test_scipy_and_networkx_find_the_same_components(a: Accesses) -> None:
    graph = graph_of(a, 0)
    slow = components(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cycles, "LARGE", 0)
        fast = components(graph)
        patch.setitem(sys.modules, "scipy.sparse", None)
        without = components(graph)
    for other in (fast, without):
        pairs = {(int(s), int(o)) for s, o in zip(slow, other, strict=True)}
        assert len(pairs) == len(set(slow.tolist())) == len(set(other.tolist()))


def test_a_client_knows_its_own_earlier_writes() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10)
    builder.write("alice", "g", 20, 30, 0, 1).write("alice", "g", 40, 50, 0, 2)
    evidence = Evidence(builder.history())
    assert evidence.based_on.tolist() == [0, 1]
    assert names(builder.verdict()) == set()


def test_a_blind_write_in_between_is_a_cycle_that_is_told_edge_by_edge() -> None:
    builder = HistoryBuilder().write("alice", None, 30, 40, 0, 2).write("bob", None, 10, 20, None, 1)
    (finding,) = builder.verdict().named("cycle")
    assert "alice read version 0, bob wrote version 1 without alice seeing it" in finding.why
    assert "alice wrote version 2 after bob's version 1" in finding.why
    assert [edge["kind"] for edge in finding.details["edges"]] == ["rw", "ww"]


def test_a_large_cycle_is_told_by_two_steps() -> None:
    builder = HistoryBuilder()
    n = cycles.WINDOW_MAX + 10
    for version in range(1, n + 1):
        builder.write(f"w{version}", None, version, version + 0.5, None, version)
    builder.op("late", "read", n + 10, n + 11, version_read=0)
    (finding,) = builder.verdict().named("cycle")
    assert [edge["kind"] for edge in finding.details["edges"]] == ["real-time", "version"]
    assert finding.evidence[1] == f"w{n} wrote version {n}, later than late's version 0"


def test_a_version_that_nobody_on_record_wrote_has_its_place_all_the_same() -> None:
    builder = HistoryBuilder().op("alice", "read", 0, 1, version_read=2).write("bob", None, 10, 11, None, 1)
    (finding,) = builder.verdict().named("cycle")
    assert finding.evidence == (
        "alice had finished (version 2) by 1 ms, before bob began (version 1) at 10 ms",
        "alice read version 2, later than bob's version 1",
    )


def test_info_writes_count_only_when_seen() -> None:
    builder = (
        HistoryBuilder()
        .write("alice", None, 0, 10, 0, None, "info", value="a")
        .write("bob", None, 20, 30, 0, 2)
    )
    assert names(builder.verdict()) == set()
    builder.op("carol", "read", 12, 15, version_read=1, value="a")
    assert names(builder.verdict()) == {"lost-update"}


def test_info_writes_that_the_store_logged_count() -> None:
    builder = (
        HistoryBuilder()
        .write("alice", None, 0, 10, 0, None, "info", value="a")
        .write("bob", None, 20, 30, 0, 2)
    )
    builder.lab("log", 50, key="k", entries=[(1, "a", None, None), (2, "bob-20", None, None)])
    assert names(builder.verdict()) == {"lost-update"}


def test_a_store_that_gives_a_version_twice_proves_nothing() -> None:
    verdict = HistoryBuilder().write("alice", None, 0, 10, 0, 1).write("bob", None, 20, 30, 1, 1).verdict()
    assert verdict["resource"].outcome == "unknown" or verdict["resource"].violations


def test_stamps_that_are_uncertain_order_nothing() -> None:
    def builder(epsilon_ns: int) -> HistoryBuilder:
        return (
            HistoryBuilder(epsilon_ns=epsilon_ns)
            .write("alice", None, 0, 10, 0, 1)
            .op("bob", "read", 12, 13, version_read=0)
        )

    assert names(builder(0).verdict()) == {"cycle"}
    assert names(builder(1_000_000).verdict()) == set()
    assert np.array_equal(accesses_of(Evidence(builder(0).history())).position, [1, 2])


def test_many_lost_updates_are_told_once_each() -> None:
    builder = HistoryBuilder()
    for i in range(25):
        builder.write("alice", None, 100 * i, 100 * i + 10, 2 * i, 2 * i + 1)
        builder.write("bob", None, 100 * i + 5, 100 * i + 20, 2 * i, 2 * i + 2)
    verdict = builder.verdict()
    assert names(verdict) == {"lost-update"}
    assert verdict.findings[0].details["count"] == 25
