"""The figures for paper: valid files, the same bytes twice, a reason where nothing is to be shown."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from functools import cache

import numpy as np
import pytest

from lab.analysis.metrics import windows
from lab.report.figures.draw import figure
from lab.report.figures.views import WINDOWS_MAX, views_of
from lab.run.stored import read_run
from tests.unit.report.conftest import history_of, verdict_of
from tests.unit.report.pages import GALLERY

KINDS = ("timeline", "fencing", "graph", "availability", "latency")
HEADS = {"png": b"\x89PNG", "pdf": b"%PDF"}
POINTS_PER_MM = 72 / 25.4


@cache
def drawn(kind: str, name: str, suffix: str = "svg") -> bytes:
    return drawn_anew(kind, name, suffix)


def drawn_anew(kind: str, name: str, suffix: str = "svg") -> bytes:
    run = read_run(GALLERY / name)
    return figure(kind, run.history, run.verdict, run.loaded.scenario.title, suffix)


def words(picture: bytes) -> str:
    return " ".join(
        "".join(one.itertext()) for one in ET.fromstring(picture).iter() if one.tag.endswith("}text")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_valid_picture_and_the_same_twice(kind: str) -> None:
    picture = drawn(kind, "gc-pause-fenced")
    assert ET.fromstring(picture).tag.endswith("svg")
    assert picture == drawn_anew(kind, "gc-pause-fenced")


@pytest.mark.parametrize("suffix", HEADS)
def test_other_formats(suffix: str) -> None:
    picture = drawn("fencing", "gc-pause-fenced", suffix)
    assert picture.startswith(HEADS[suffix])
    assert picture == drawn_anew("fencing", "gc-pause-fenced", suffix)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_it_fits_half_a_page_and_can_be_read(kind: str) -> None:
    root = ET.fromstring(drawn(kind, "partition-clockjump"))
    assert float(root.attrib["width"].removesuffix("pt")) <= 84 * POINTS_PER_MM + 0.1
    sizes = [
        float(size)
        for one in root.iter()
        if one.tag.endswith("}text")
        for size in [one.attrib["style"].split("font-size: ")[-1].split("px")[0].split(" ")[-1]]
        if size.replace(".", "").isdigit()
    ]
    assert all(size >= 6.5 for size in sizes)


def test_a_figure_without_anything_to_show_says_why() -> None:
    assert "no fencing token" in words(drawn("fencing", "partition-clockjump"))
    assert "some order explains" in words(drawn("graph", "gc-pause-fenced"))


@pytest.mark.parametrize("name", ["empty", "hostile"])
def test_strange_histories_have_figures_too(name: str) -> None:
    for kind in KINDS[1:]:
        assert figure(kind, history_of(name), verdict_of(), name, "svg")


def test_availability_counts_as_the_measures_do() -> None:
    """The figure has finer windows than the measures, and the same way to count them."""
    run = read_run(GALLERY / "gc-pause-fenced")
    shown = views_of(run.history, run.verdict).availability
    rows = dict(shown.rows)
    assert set(rows) == {"any client", "alice", "bob"}
    assert rows["any client"].count("#") == 2
    assert len(rows["any client"]) <= WINDOWS_MAX
    assert rows["alice"].startswith("#")
    assert "#" not in rows["bob"][:-1]


def test_windows_may_begin_before_the_first_call() -> None:
    call, end, granted = np.array([25, 41]), np.array([30, 55]), np.array([True, False])
    assert windows(call, end, granted, start_ns=0, window_ns=10) == "--.#.."


@pytest.mark.parametrize("name", ["partition-clockjump", "gc-pause-after-acquire", "power-cut-everysec"])
def test_the_graph_of_a_lost_update_names_the_writes_rightly(name: str) -> None:
    run = read_run(GALLERY / name)
    shown = views_of(run.history, run.verdict).graph
    (lost,) = run.verdict.named("lost-update")
    vertices = {one.id: one for one in shown.vertices}
    first = vertices[shown.edges[0].source]
    assert first.client == lost.clients[0]
    assert first.words == f"write v{lost.details['versions_written'][0]}"
