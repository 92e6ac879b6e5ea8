"""The page of a run as its reader has it: rendered, hovered, zoomed, walked through with keys, printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="SKIPPED: playwright is not installed (extra dev)")

from playwright.sync_api import expect

from lab.report.page import write_page
from tests.browser.conftest import Watched
from tests.unit.report.conftest import history_of, verdict_of
from tests.unit.report.pages import SCENARIOS, Harm, by_hand, harmful, stored

pytestmark = pytest.mark.timeout(600)

Opened = Callable[..., Watched]


@pytest.fixture
def clockjump(tmp_path: Path, opened: Opened) -> Watched:
    """The page of the scenario that the README shows."""
    return opened(write_page(stored("partition-clockjump"), tmp_path))


def focused(watched: Watched, name: str) -> str:
    """An attribute of what has the focus."""
    found = watched.page.evaluate(f"document.activeElement.getAttribute({name!r})")
    return str(found)


@pytest.mark.parametrize("name", SCENARIOS)
def test_it_renders_without_a_complaint_and_asks_for_nothing(
    name: str, tmp_path: Path, opened: Opened
) -> None:
    path = write_page(stored(name), tmp_path)
    watched = opened(path)
    assert watched.complaints == []
    assert watched.requests == [path.as_uri()]
    page = watched.page
    marks = page.evaluate("JSON.parse(document.getElementById('data').textContent).scene.marks.length")
    expect(page.locator("#timeline .mark")).to_have_count(marks)
    wide = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide[0] <= wide[1]


@pytest.mark.parametrize("name", ["empty", "one-event", "one-grant", "truncated"])
def test_strange_histories_render(name: str, tmp_path: Path, opened: Opened) -> None:
    watched = opened(write_page(by_hand(history_of(name), verdict_of()), tmp_path))
    assert watched.complaints == []


def test_hovering_explains_and_escape_hides(clockjump: Watched) -> None:
    page = clockjump.page
    expect(page.locator("#tip")).to_be_hidden()
    page.locator('#timeline .life[aria-label^="node C had alice"]').hover()
    expect(page.locator("#tip")).to_be_visible()
    expect(page.locator("#tip")).to_contain_text("the node’s clock jumped beyond its end")
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()
    page.locator("#timeline .fault").first.hover()
    expect(page.locator("#tip")).to_contain_text("receipt: D, E: probe through link no answer")


def test_zooming_with_buttons_keys_and_wheel(clockjump: Watched) -> None:
    page = clockjump.page
    timeline = page.locator("#timeline")
    expect(timeline).to_have_attribute("data-zoom", "1.00")
    expect(page.get_by_role("button", name="zoom out")).to_be_disabled()
    page.get_by_role("button", name="zoom in").click()
    expect(timeline).to_have_attribute("data-zoom", "2.00")
    page.get_by_role("button", name="whole run").click()
    expect(timeline).to_have_attribute("data-zoom", "1.00")
    timeline.locator('[tabindex="0"]').focus()
    page.keyboard.press("+")
    expect(timeline).to_have_attribute("data-zoom", "2.00")
    page.keyboard.press("0")
    expect(timeline).to_have_attribute("data-zoom", "1.00")
    timeline.evaluate(
        "e => e.dispatchEvent(new WheelEvent('wheel', "
        "{deltaY: -200, ctrlKey: true, clientX: 600, cancelable: true, bubbles: true}))"
    )
    expect(timeline).to_have_attribute("data-zoom", "2.72")
    page.get_by_role("button", name="one scale").click()
    expect(page.get_by_role("button", name="one scale")).to_have_attribute("aria-pressed", "true")
    expect(timeline.locator(".gap")).to_have_count(0)
    assert clockjump.complaints == []


def test_everything_is_reached_by_keyboard(clockjump: Watched) -> None:
    page = clockjump.page
    page.keyboard.press("Tab")  # the page opens with the picture
    first = focused(clockjump, "aria-label")
    assert first.startswith("fault 1: cut alice")
    expect(page.locator("#tip")).to_be_visible()
    page.keyboard.press("ArrowRight")
    assert focused(clockjump, "aria-label").startswith("fault 2: jump clock of C")
    page.keyboard.press("Enter")
    assert focused(clockjump, "id") == "fault-2"
    page.locator("#timeline [tabindex='0']").focus()
    seen = set()
    for _ in range(9):
        page.keyboard.press("ArrowDown")
        seen.add(focused(clockjump, "aria-label").split(" ")[0].split(":")[0])
    assert {"alice", "bob", "the", "node"} <= seen
    page.keyboard.press("End")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#timeline') === null")


def test_the_text_leads_to_the_picture_and_back(clockjump: Watched) -> None:
    page = clockjump.page
    page.locator('[data-show-finding="overlap"]').click()
    expect(page.locator("#timeline .band.shown")).to_have_count(1)
    assert focused(clockjump, "data-findings") == "overlap"
    page.keyboard.press("Enter")
    assert focused(clockjump, "id") == "finding-overlap"
    page.locator('[data-show-fault="2"]').click()
    assert focused(clockjump, "data-fault") == "2"
    page.locator("#timeline .accepted.guilty").focus()
    page.keyboard.press("Enter")
    assert focused(clockjump, "id") in ("finding-unfenced-write", "finding-lost-update")


def test_the_smaller_pictures(tmp_path: Path, opened: Opened) -> None:
    page = opened(write_page(stored("gc-pause-fenced"), tmp_path)).page
    expect(page.locator("#fencing .point")).to_have_count(4)
    page.locator("#fencing .point.write.fail").hover()
    expect(page.locator("#tip")).to_contain_text("alice: write with fence 1, rejected")
    assert page.locator("#availability .window.got").count() == 4
    assert page.locator("#latency .point").count() == 7
    expect(page.locator("#graph svg")).to_have_count(0)


def test_a_cycle_as_a_graph(clockjump: Watched) -> None:
    page = clockjump.page
    expect(page.locator("#graph .vertex")).to_have_count(2)
    page.locator("#graph .edge.rw text").hover(force=True)
    page.locator("#graph .edge.rw").focus()
    expect(page.locator("#tip")).to_contain_text("unseen by")


def test_texts_that_mean_harm_stay_texts(tmp_path: Path, opened: Opened) -> None:
    watched = opened(write_page(harmful(tmp_path), tmp_path))
    page, harm = watched.page, Harm()
    assert page.evaluate("window.harmed") is None
    assert page.locator("img").count() == 0
    assert watched.complaints == []
    assert page.locator("h1").inner_text() == harm.title
    page.locator("#timeline .sure").first.hover()
    assert page.evaluate("window.harmed") is None
    assert harm.client in (page.locator("#timeline").text_content() or "")


def test_dark_reduced_and_printed(tmp_path: Path, opened: Opened) -> None:
    path = write_page(stored("partition-clockjump"), tmp_path)
    paper = "getComputedStyle(document.body).backgroundColor"
    smooth = "getComputedStyle(document.documentElement).scrollBehavior"
    light = opened(path, color_scheme="light", reduced_motion="no-preference").page
    dark = opened(path, color_scheme="dark", reduced_motion="reduce").page
    assert light.evaluate(paper) == "rgb(255, 255, 255)"
    assert dark.evaluate(paper) == "rgb(22, 24, 27)"
    assert (light.evaluate(smooth), dark.evaluate(smooth)) == ("smooth", "auto")
    dark.emulate_media(media="print")
    assert dark.evaluate(paper) == "rgb(255, 255, 255)"
    expect(dark.locator(".tools")).to_be_hidden()
    assert dark.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("name", "label"), [("partition-clockjump", "clock +11 s"), ("power-cut-everysec", "power cut")]
)
def test_a_narrow_screen_keeps_the_name_of_the_cause(
    name: str, label: str, tmp_path: Path, opened: Opened
) -> None:
    page = opened(write_page(stored(name), tmp_path), viewport={"width": 400, "height": 800}).page
    bad = page.locator("#timeline .label.bad").all_text_contents()
    assert any(words.endswith(label) for words in bad)


def test_the_cause_is_solid_and_the_late_write_is_outlined(clockjump: Watched) -> None:
    page = clockjump.page
    fill = "(one) => getComputedStyle(one).fill"
    red = page.locator("#timeline .cause.jump .bolt").evaluate(fill)
    late = page.locator("#timeline .guilty.accepted .shape")
    assert late.evaluate(fill) != red
    assert late.evaluate("(one) => getComputedStyle(one).stroke") == red
