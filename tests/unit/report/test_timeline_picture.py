"""The picture itself: valid files, texts as texts, the same bytes twice, no stumbling over strange input."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec import structs

from checker import check
from checker.history.events import Event
from checker.history.history import History
from checker.verdict import Cause, Verdict
from lab.report.timeline import draw_timeline
from lab.report.timeline.axis import build_axis
from lab.report.timeline.data import extract
from lab.report.timeline.marks import scene_of
from lab.report.timeline.metrics import Occupied, text_width, wrapped
from lab.report.timeline.words import clean, duration
from tests.unit.checker.builder import HistoryBuilder
from tests.unit.report.conftest import history_of, verdict_of
from tests.unit.report.pages import stored

MS = 1_000_000
NAMES = (
    "partition-clockjump",
    "gc-pause-after-acquire",
    "gc-pause-in-flight",
    "pause-fenced",
    "healthy",
    "one-grant",
    "one-event",
    "empty",
    "truncated",
    "hostile",
)


def svg_texts(path: Path) -> list[str]:
    """All texts of an SVG file, which must be well-formed."""
    texts = []
    for element in ET.parse(path).iter():
        if element.tag.endswith("}text"):
            texts.append("".join(element.itertext()))
    return texts


@pytest.mark.parametrize("name", NAMES)
def test_every_history_gives_a_valid_svg_and_png(name: str, tmp_path: Path) -> None:
    svg, png = draw_timeline(history_of(name), verdict_of(), name, tmp_path)
    assert name in svg_texts(svg)
    head = png.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:])
    assert width == 1210
    assert 300 < height < 3000


def test_the_picture_names_lanes_faults_and_findings(
    clockjump: tuple[History, Verdict], tmp_path: Path
) -> None:
    (svg,) = draw_timeline(*clockjump, "A clock jumps", tmp_path, formats=("svg",))
    texts = svg_texts(svg)
    for words in ("alice", "bob", "node A", "node E", "store", "A clock jumps", "overlap", "lost-update"):
        assert words in texts
    assert "both hold the lock for at least 9.6 s" in texts
    assert "✗ Mutual exclusion: VIOLATED" in texts
    assert "✗ unfenced-write, lost-update" in texts
    assert "jump clock of C +11 s" in texts
    assert any("receipt: offset before" in words for words in texts)


def test_a_paused_and_a_promoted_node_are_drawn(tmp_path: Path) -> None:
    builder = HistoryBuilder(clients=["alice"], nodes=2).acquire("alice", "g1", 0, 100)
    builder.fault("pause", 20, ["A"], until=900, breaks="bounded process pauses")
    builder.fault("promote", 300, ["B"], breaks="durable nodes").read("alice", "g1", 950, 960, 0)
    held = Event(time_ns=5 * MS, process="node", type="info", f="key-set", node="A", key="k", token="t")
    builder._events += [held, structs.replace(held, node="B")]
    (svg,) = draw_timeline(builder.history(), verdict_of(), "Nodes", tmp_path, formats=("svg",))
    texts = svg_texts(svg)
    assert "① paused 880 ms" in texts
    assert "② becomes master" in texts


def test_the_same_history_gives_the_same_bytes(clockjump: tuple[History, Verdict], tmp_path: Path) -> None:
    first = [p.read_bytes() for p in draw_timeline(*clockjump, "t", tmp_path / "1")]
    second = [p.read_bytes() for p in draw_timeline(*clockjump, "t", tmp_path / "2")]
    assert first == second


def test_names_are_printed_as_they_are(tmp_path: Path) -> None:
    title = "cost $x_1$ & <b>\\frac{1}{2}</b>\x00\x1b[31m\ud800\u202e"
    svg, png = draw_timeline(history_of("hostile"), verdict_of(), title, tmp_path)
    texts = svg_texts(svg)
    assert "cost $x_1$ & <b>\\frac{1}{2}</b>��[31m�" in texts
    assert "$\\frac{a}{b}$" in texts
    assert '<b>&"x"</b>' in texts
    assert png.stat().st_size > 1000


def test_no_text_leaves_the_page(clockjump: tuple[History, Verdict], tmp_path: Path) -> None:
    title = "word " * 60 + "W" * 300
    (svg,) = draw_timeline(*clockjump, title, tmp_path, formats=("svg",))
    root = ET.parse(svg).getroot()
    width = float(root.attrib["viewBox"].split()[2])
    for element in root.iter():
        if not element.tag.endswith("}text"):
            continue
        style = element.attrib["style"]
        size = float(style.split("font-size: ")[1].split("px")[0])
        x = float(element.attrib["x"])
        length = text_width("".join(element.itertext()), size, "font-weight: 700" in style)
        middle = "text-anchor: middle" in style
        left = x - length / 2 if middle else x - length if "text-anchor: end" in style else x
        assert left >= -0.5
        assert left + length <= width + 0.5


def test_five_thousand_operations_are_excerpted(
    write_history: Callable[[list[str]], History], tmp_path: Path
) -> None:
    lines = ['{"history": 1, "params": {}}']
    for number in range(5000):
        base = {"process": "a", "client": "a", "key": "k", "grant_id": f"g{number}", "f": "acquire"}
        lines.append(json.dumps(base | {"type": "invoke", "time_ns": number * 10 * MS, "ttl_ns": 5 * MS}))
        lines.append(
            json.dumps(base | {"type": "ok", "time_ns": number * 10 * MS + MS, "token": f"t{number}"})
        )
    lines.append(json.dumps({"end": True, "events": 10_000}))
    (svg,) = draw_timeline(write_history(lines), verdict_of(), "long", tmp_path, formats=("svg",))
    assert any(words.startswith("Excerpt: 48 of 5 000 operations") for words in svg_texts(svg))
    assert svg.stat().st_size < 500_000


def test_matplotlib_is_imported_only_when_drawing_and_pyplot_never() -> None:
    code = (
        "import sys, lab.report.timeline as t, lab.report.timeline.data\n"
        "assert 'matplotlib' not in sys.modules\n"
        "from lab.report.timeline.draw import picture\n"
        "from lab.report.timeline.model import Timeline\n"
        "picture(Timeline('x'))\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_short_history_with_long_leases_gets_a_break() -> None:
    axis = build_axis([0, 100 * MS, 200 * MS, 300 * MS], [9_900 * MS, 10_000 * MS], 50, 390)
    (gap,) = axis.breaks()
    assert axis.x(300 * MS) <= gap.x0
    assert gap.x1 <= axis.x(9_900 * MS)
    assert axis.x(300 * MS) - axis.x(0) > 0.6 * 340


def test_an_even_rhythm_is_never_broken() -> None:
    axis = build_axis([number * 1000 * MS for number in range(10)], [], 50, 390)
    assert axis.breaks() == []
    assert [label for _, label in axis.ticks()][:2] == ["0", "2 000"]


def test_time_runs_from_left_to_right_whatever_the_breaks() -> None:
    moments = [0, 5 * MS, 9 * MS, 10_000 * MS, 10_004 * MS, 90_000 * MS, 90_001 * MS, 90_002 * MS]
    axis = build_axis(moments, [], 50, 390)
    xs = [axis.x(time_ns) for time_ns in range(-10 * MS, 90_010 * MS, 500 * MS // 7)]
    assert xs == sorted(xs)
    assert len(axis.breaks()) == 2
    assert all(50 <= x <= 390 for x in xs)


def test_labels_never_cover_each_other() -> None:
    taken = Occupied()
    places = [taken.place_in_row(100, 30, 0, 8, 0, 200, 60) for _ in range(4)]
    found = sorted(place for place in places if place is not None)
    assert len(found) >= 3
    assert all(b - a >= 30 for a, b in pairwise(found))
    assert taken.place_in_row(100, 30, 0, 8, 0, 200, 5) is None


def test_lines_are_broken_at_words_but_not_inside_numbers() -> None:
    lines = wrapped("both hold the lock for 9 876 ms and then some", 8, 60)
    assert " ".join(lines) == "both hold the lock for 9 876 ms and then some"
    assert any("9 876" in line for line in lines)
    assert all(text_width(line, 8) <= 60 for line in lines)


@pytest.mark.parametrize(
    ("span_ns", "words"),
    [
        (9_876 * MS, "9 876 ms"),
        (400_000_000_000, "400 s"),
        (12_345, "12 µs"),
        (1_500_000, "1.5 ms"),
        (0, "0 ms"),
    ],
)
def test_durations_in_words(span_ns: int, words: str) -> None:
    assert duration(span_ns) == words


def test_clean_keeps_scripts_and_drops_controls() -> None:
    assert clean("锁 жук\n\x07\u202e") == "锁 жук �"
    assert clean("x" * 500, 10) == "xxxxxxxxx…"


def test_the_fault_is_blamed_and_the_write_is_its_consequence(tmp_path: Path) -> None:
    run = stored("partition-clockjump")
    timeline = extract(run.history, run.verdict, "A clock jumps")
    blamed = [(fault.name, fault.causes) for fault in timeline.faults if fault.causes]
    assert blamed == [("jump", ("overlap", "unfenced-write", "lost-update"))]
    scene = scene_of(timeline)
    assert {mark.kind for mark in scene.marks if mark.cause} == {"fault", "jump"}
    (write,) = [mark for mark in scene.marks if mark.kind == "accepted" and mark.findings]
    assert write.note == "✗ unfenced-write, lost-update: consequence of ②"
    (svg,) = draw_timeline(run.history, run.verdict, "A clock jumps", tmp_path, formats=("svg",))
    texts = svg_texts(svg)
    assert write.note in texts
    assert {"cause", "consequence"} <= set(texts)


def test_without_a_broken_assumption_no_fault_is_blamed(clockjump: tuple[History, Verdict]) -> None:
    timeline = extract(*clockjump, "no fault is named by these findings")
    assert [fault.causes for fault in timeline.faults] == [(), (), ()]
    assert not any(mark.cause for mark in scene_of(timeline).marks)
    assert timeline.consequences(("lost-update",)) == "✗ lost-update"


def test_picture_and_headline_have_the_same_length(tmp_path: Path) -> None:
    for name in ("partition-clockjump", "power-cut-everysec", "restart-delayed-clockjump"):
        run = stored(name)
        (band,) = extract(run.history, run.verdict, name).bands
        (overlap,) = run.verdict.named("overlap")
        assert overlap.headline.partition(" for ")[2] == band.words.partition(" for ")[2]


def test_the_node_says_what_took_it_down(tmp_path: Path) -> None:
    run = stored("power-cut-everysec")
    (svg,) = draw_timeline(run.history, run.verdict, "Power", tmp_path, formats=("svg",))
    assert "② power cut" in svg_texts(svg)
    marks = scene_of(extract(run.history, run.verdict, "Power")).marks
    assert [(mark.label, mark.cause) for mark in marks if mark.kind == "down"] == [("② power cut", True)]


def test_replies_in_flight_are_drawn_until_they_are_read(tmp_path: Path) -> None:
    run = stored("gc-pause-in-flight")
    timeline = extract(run.history, run.verdict, "Replies")
    replies = [reply for node in timeline.nodes for reply in node.replies]
    (alice,) = [client for client in timeline.clients if client.name == "alice"]
    (attempt,) = alice.attempts
    assert len(replies) == len(timeline.nodes) == 5
    for reply in replies:
        assert reply.sent_ns < reply.delivered_ns < (reply.read_ns or 0) <= (attempt.span.end_ns or 0)
    words = "5 replies in flight, read at 2 130 ms"
    (svg,) = draw_timeline(run.history, run.verdict, "Replies", tmp_path, formats=("svg",))
    assert words in svg_texts(svg)
    scene = scene_of(timeline)
    assert [mark.label for mark in scene.marks if mark.kind == "reply"] == [words]
    assert [arrow.lane1 for arrow in scene.arrows if arrow.held] == ["alice"] * 5


def test_a_command_that_took_the_key_is_marked_at_its_nodes(tmp_path: Path) -> None:
    builder = HistoryBuilder(rho=0.0).acquire("alice", "g1", 0, 10).acquire("bob", "g2", 100, 110)
    history = builder.history()
    (found,) = check(history).named("overlap")
    taken = Cause("command", "bob", ("A",), "DEL k", 3, 90 * MS, "bob's DEL deleted the key on A")
    verdict = verdict_of(replace(found, cause=taken))
    lost = Event(time_ns=5 * MS, process="node", type="info", f="key-set", node="A", key="k", token="t")
    history = history.with_others([*history.others, (99, lost)])
    (svg,) = draw_timeline(history, verdict, "DEL", tmp_path, formats=("svg",))
    assert "bob’s DEL" in svg_texts(svg)
    marks = scene_of(extract(history, verdict, "DEL")).marks
    assert [(mark.lane, mark.t0, mark.cause) for mark in marks if mark.kind == "loss"] == [
        ("node:A", 90 * MS, True)
    ]
