"""The page of a run: one file that needs nothing, tells all, and lets no text of a user's become markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lab.report.page import write_page
from lab.report.page.build import page
from tests.unit.report.conftest import history_of, verdict_of
from tests.unit.report.pages import SCENARIOS, Harm, by_hand, harmful, stored
from tests.unit.report.test_timeline_picture import NAMES


class Read(HTMLParser):
    """The elements of a page, its texts, and what is in its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.scripts and self.lasttag == "script" and self.cdata_elem == "script":
            self.scripts[-1] += data
        else:
            self.texts.append(data)

    @property
    def data(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.scripts[0])
        return read


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_page_of_a_run_tells_all(name: str, tmp_path: Path) -> None:
    subject = stored(name)
    path = write_page(subject, tmp_path)
    read = Read(path.read_text(encoding="utf-8"))
    reported = " ".join(read.texts)
    assert subject.loaded.scenario.title in reported
    for seen in subject.verdict.properties.values():
        assert seen.why in reported
    assert str(subject.repeat) in reported
    assert "seed" in reported
    marks = read.data["scene"]["marks"]
    lanes = {lane["id"] for lane in read.data["scene"]["lanes"]}
    assert {part for mark in marks for part in mark["lane"].split("\n")} <= {*lanes, ""}
    for finding in subject.verdict.findings:
        if finding.severity == "violation":
            assert ("article", "id", f"finding-{finding.name}") in read.attributes
            assert any(finding.name in mark["findings"] for mark in marks), finding.name
    injected = [fault for fault in subject.history.faults if fault.heals is None]
    assert len([1 for mark in marks if mark["kind"] == "fault"]) == len(injected)


@pytest.mark.parametrize("name", NAMES)
def test_every_history_has_a_page(name: str, tmp_path: Path) -> None:
    read = Read(page(by_hand(history_of(name), verdict_of()), tmp_path))
    assert read.data["scene"]["panels"]
    assert ("svg", "id", "timeline") in read.attributes


def test_it_needs_nothing_and_forbids_the_rest(tmp_path: Path) -> None:
    text = page(stored("partition-clockjump"), tmp_path)
    read = Read(text)
    fetched = [
        value for tag, name, value in read.attributes if name in ("src", "srcset", "data") or tag == "link"
    ]
    assert fetched == []
    (policy,) = [value for _, name, value in read.attributes if name == "content" and "default-src" in value]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for part in (read.scripts[1], *re.findall(r"<style>(.*?)</style>", text, re.DOTALL)):
        digest = base64.b64encode(hashlib.sha256(part.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert not [1 for _, name, _ in read.attributes if name.startswith("on") or name == "style"]


def test_texts_that_mean_harm_stay_texts(tmp_path: Path) -> None:
    subject = harmful(tmp_path)
    text = page(subject, tmp_path)
    read = Read(text)
    clean = Read(page(stored("partition-clockjump"), tmp_path))
    assert "img" not in read.tags
    assert read.tags.count("script") == clean.tags.count("script") == 2
    assert not [1 for _, name, _ in read.attributes if name.startswith("on")]
    harm = Harm()
    reported = " ".join(read.texts)
    assert harm.title in reported
    assert harm.key in reported
    assert harm.client in reported
    assert any(harm.client == lane["name"] for lane in read.data["scene"]["lanes"])


def test_it_is_the_same_page_every_time(tmp_path: Path) -> None:
    assert page(stored("gc-pause-fenced"), tmp_path) == page(stored("gc-pause-fenced"), tmp_path)


def test_a_cycle_is_drawn_as_a_graph(tmp_path: Path) -> None:
    views = Read(page(stored("partition-clockjump"), tmp_path)).data["views"]
    edges = [(edge["kind"], edge["source"], edge["target"]) for edge in views["graph"]["edges"]]
    assert [kind for kind, _, _ in edges] == ["ww", "rw"]
    assert edges[0][1:] == edges[1][:0:-1]
    assert {vertex["words"] for vertex in views["graph"]["vertices"]} == {"write v1", "write v2"}


def test_fences_are_points_over_time(tmp_path: Path) -> None:
    views = Read(page(stored("gc-pause-fenced"), tmp_path)).data["views"]
    seen = [(p["client"], p["kind"], p["outcome"], p["y"]) for p in views["fencing"]["points"]]
    assert ("alice", "write", "fail", 1) in seen
    assert ("bob", "write", "ok", 2) in seen
    assert ("alice", "grant", "ok", 1) in seen


def test_the_page_opens_with_the_picture_then_the_verdict_then_the_tables(tmp_path: Path) -> None:
    text = page(stored("partition-clockjump"), tmp_path)
    at = [text.index(part) for part in ("<h1>", '<svg id="timeline"', 'class="headline', "<table")]
    assert at == sorted(at)
