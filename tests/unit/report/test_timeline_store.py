"""Where the store's marks stand, and which of them is red."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lab.report.timeline import draw_timeline
from lab.report.timeline.axis import build_axis
from lab.report.timeline.data import extract
from lab.report.timeline.draw import picture
from lab.report.timeline.marks import scene_of
from lab.report.timeline.metrics import side_by_side
from lab.report.timeline.model import Announcement, Span, StoreWrite, Timeline
from lab.report.timeline.style import VIOLATION
from tests.unit.checker.builder import MS, HistoryBuilder

HELD = (30.0, 2_300.0)
"""Alice's write is called early in her lease, and returns long after it: the network held it."""


def delayed_write(executed: list[dict[str, Any]] | None = None) -> HistoryBuilder:
    """Alice's write is called first and carried out last; Bob works in between, under a later grant."""
    builder = (
        HistoryBuilder(clients=["alice", "bob"])
        .acquire("alice", "a", 0, 10, ttl=1000)
        .read("alice", "a", 12, 13, 0)
    )
    builder.write("alice", "a", *HELD, based=0, version=2, value="alice:1")
    builder.acquire("bob", "b", 2_000, 2_010).read("bob", "b", 2_020, 2_030, 0)
    builder.write("bob", "b", 2_040, 2_100, based=0, version=1, value="bob:1").release(
        "bob", "b", 2_110, 2_120
    )
    if executed is not None:
        builder.lab("executed", 2_400, key="k", value=executed)
    return builder


def ran(grant: str, value: str, at_ms: float, **more: Any) -> dict[str, Any]:
    """One write as the store tells of it, carried out within a microsecond."""
    at_ns = round(at_ms * MS)
    return {"f": "write", "grant_id": grant, "value": value, "ran_ns": [at_ns, at_ns + 1000], **more}


def reported(builder: HistoryBuilder) -> Timeline:
    return extract(builder.history(), builder.verdict(), "history")


def by_client(timeline: Timeline) -> dict[str, StoreWrite]:
    return {write.client: write for write in timeline.writes}


def test_the_write_carried_out_last_is_the_wrong_one_though_it_was_called_first() -> None:
    timeline = reported(delayed_write())
    writes = by_client(timeline)
    assert writes["bob"].guilty == ()
    assert writes["alice"].guilty == ("unfenced-write", "lost-update")
    red = {(mark.lane, mark.kind) for mark in scene_of(timeline).marks if mark.findings}
    assert {lane for lane, kind in red if kind == "write"} == {"alice"}
    assert [arrow.lane0 for arrow in scene_of(timeline).arrows if arrow.guilty] == ["alice"]


def test_a_write_stands_where_the_store_carried_it_out() -> None:
    executed = [ran("b", "bob:1", 2_090, version=1), ran("a", "alice:1", 2_280, version=2)]
    writes = by_client(reported(delayed_write(executed)))
    assert [round(writes[name].at_ns / MS) for name in ("bob", "alice")] == [2_090, 2_280]
    assert [writes[name].between for name in ("bob", "alice")] == [None, None]


def test_without_a_stamp_versions_bound_it_and_the_bounds_are_told() -> None:
    """Version 2 cannot have been written before version 1 was called: not within Alice's lease."""
    timeline = reported(delayed_write())
    writes = by_client(timeline)
    assert writes["alice"].between == Span(2_040 * MS, 2_300 * MS)
    assert writes["bob"].between == Span(2_040 * MS, 2_100 * MS)
    assert writes["alice"].at_ns > 1_010 * MS
    tips = [mark.tip for mark in scene_of(timeline).marks if mark.kind == "accepted"]
    assert all("when exactly was not recorded" in tip[1] for tip in tips)


def test_a_stamp_that_call_and_return_contradict_is_not_believed() -> None:
    writes = by_client(reported(delayed_write([ran("b", "bob:1", 9_000, version=1)])))
    assert writes["bob"].between == Span(2_040 * MS, 2_100 * MS)


@pytest.mark.parametrize("value", ["alice", [1], [{"f": "write"}], [{"f": "write", "ran_ns": [5, "x"]}], {}])
def test_what_is_no_list_of_executions_is_passed_over(value: Any) -> None:
    assert by_client(reported(delayed_write(value)))["bob"].between is not None


def test_a_rejected_write_that_was_held_is_not_drawn_inside_the_lease() -> None:
    builder = HistoryBuilder(store_fences=True).acquire("alice", "a", 0, 10, fence=1)
    builder.write("alice", "a", *HELD, based=0, version=None, type="fail", value="alice:1", fence=1)
    (write,) = reported(builder).writes
    assert write.at_ns == 2_300 * MS, "known to be over when it returned, after the lease"
    builder.lab("executed", 2_400, key="k", value=[ran("a", "alice:1", 2_250)])
    (write,) = reported(builder).writes
    assert (round(write.at_ns / MS), write.accepted, write.between) == (2_250, False, None)


def test_an_announced_token_is_drawn_where_it_was_announced_with_its_client() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 40, token="t1")
    at_ns = 30 * MS
    executed = [{"f": "announce", "token": "t1", "ran_ns": [at_ns, at_ns]}]
    builder.lab("executed", 90, key="k", value=executed).lab("executed", 91, key="other", value=executed)
    timeline = reported(builder)
    assert timeline.announcements == [Announcement("alice", 30 * MS)]
    (mark,) = [mark for mark in scene_of(timeline).marks if mark.kind == "announced"]
    assert (mark.lane, mark.label) == ("store", "alice announces its token")
    assert "alice announces its token" in svg(timeline)


def test_the_later_of_two_close_versions_does_not_cover_the_earlier() -> None:
    executed = [ran("b", "bob:1", 2_090, version=1), ran("a", "alice:1", 2_090.1, version=2)]
    drawn = svg(reported(delayed_write(executed)))
    (one,), (two,) = (text_places(drawn, words) for words in ("v1", "v2"))
    assert two - one >= 13, "each stands in a box of its own, in the order of the versions"
    assert text_places(drawn, "bob")
    assert text_places(drawn, "✗ unfenced-write, lost-update"), "what was wrong is written below"


def test_both_fences_are_named_where_both_writes_are_close() -> None:
    builder = (
        HistoryBuilder(store_fences=True)
        .acquire("alice", "a", 0, 10, fence=33)
        .acquire("bob", "b", 2_000, 2_001, fence=34)
    )
    builder.write("bob", "b", 2_010, 2_012, based=0, version=1, fence=34)
    builder.write("alice", "a", 2_013, 2_015, based=0, version=None, type="fail", fence=33)
    drawn = svg(reported(builder))
    assert text_places(drawn, "bob, fence 34")
    assert text_places(drawn, "alice: rejected (fence 33)")


def test_the_number_in_the_picture_is_the_number_in_the_text() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10).acquire("bob", "b", 200, 210)
    verdict = builder.verdict()
    (overlap,) = verdict.named("overlap")
    (band,) = extract(builder.history(), verdict, "history").bands
    assert band.span.end_ns is not None
    assert band.span.end_ns - band.span.start_ns == overlap.details["overlap_ns"]
    assert f"{overlap.details['overlap_ns'] / MS:.0f} ms" in band.words


def test_boxes_side_by_side_stay_in_order_and_near_their_wishes() -> None:
    assert side_by_side([(10, 4), (50, 4)], 0, 100) == [10, 50]
    assert side_by_side([(50, 10), (50, 10), (52, 10)], 0, 100) == pytest.approx(
        [40.67, 50.67, 60.67], abs=0.01
    )
    assert side_by_side([(1, 10), (99, 10)], 0, 100) == [5, 95]
    close = side_by_side([(97, 10), (98, 10)], 0, 100)
    assert close == [85, 95], "the row's end pushes back"


def test_red_is_the_wrong_write_alone(tmp_path: Path) -> None:
    builder = delayed_write([ran("b", "bob:1", 2_090, version=1), ran("a", "alice:1", 2_280, version=2)])
    path, *_ = draw_timeline(builder.history(), builder.verdict(), "history", tmp_path, ["svg"])
    drawn = path.read_text(encoding="utf-8")
    assert VIOLATION in style_of(drawn, "write v2")
    assert VIOLATION not in style_of(drawn, "write v1")


def svg(timeline: Timeline) -> str:
    """The picture on paper."""
    assert build_axis(timeline.moments, timeline.window_ends, 0, 100)
    return picture(timeline, ["svg"])["svg"].decode()


def text_places(drawn: str, words: str) -> list[float]:
    """Where a text stands, from left to right, in points."""
    found = re.findall(
        rf'<text[^>]*?(?:x="([0-9.]+)"|translate\(([0-9.]+)[^>]*)[^>]*>{re.escape(words)}</text>', drawn
    )
    return sorted(float(one or other) for one, other in found)


def style_of(drawn: str, words: str) -> str:
    (style,) = re.findall(rf'<text style="([^"]*)"[^>]*>{re.escape(words)}</text>', drawn)
    return str(style)
