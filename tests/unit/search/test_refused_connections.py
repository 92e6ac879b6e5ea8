"""Cuts that refuse connections: they have receipts, words and steps of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from lab.api.strategies import words as of_strategies
from lab.errors import LabError
from lab.examine import schedule_words
from lab.search import sentences
from lab.search.as_tracks import step_of
from lab.search.replay import trial_of
from lab.search.runner import run_trial, trials
from lab.search.trial import FOR_GOOD, START_NS, Fault, Round, Trial, When

pytestmark = pytest.mark.usefixtures("_patched")

S_NS = 10**9
REFUSED = Fault("cut", When(after_ns=-START_NS), "bob", ("A",), refused=True)
TRIAL = Trial("single", {"alice": (Round(0, S_NS),), "bob": (Round(0, 0),)}, (REFUSED,), nodes=1)


@pytest.fixture(autouse=True)
def _trials() -> Iterator[None]:
    with trials():
        yield


@pytest.mark.parametrize(("refused", "link"), [(True, ["refused"]), (False, ["cut-replies", "cut-requests"])])
@pytest.mark.parametrize("lasts_ns", [S_NS, FOR_GOOD])
def test_a_receipt_shows_it_and_its_end(refused: bool, link: list[str], lasts_ns: int) -> None:
    cut = replace(REFUSED, refused=refused, lasts_ns=lasts_ns)
    events = run_trial(replace(TRIAL, faults=(cut,))).events
    nemesis = [each for each in events if each["process"] == "nemesis"]
    assert [each["type"] for each in nemesis] == ["invoke", "ok"] * (2 if lasts_ns else 1)
    begun = nemesis[1]["receipt"]["A"]
    assert begun["link"] == link
    assert begun["probe_through_link"].startswith("no answer")
    if lasts_ns:
        assert nemesis[3]["receipt"]["A"]["probe_through_link_ms"] == 0


def test_who_is_refused_sends_nothing_and_others_do() -> None:
    outcome = run_trial(TRIAL, watch=True)
    assert {each.client for each in outcome.commands} == {"alice"}


@pytest.mark.parametrize(
    ("nodes", "listed"), [(("A",), "A"), (("A", "B"), "A and B"), (("A", "B", "C"), "A, B and C")]
)
def test_it_is_told_apart_from_a_cut_that_loses_everything(nodes: tuple[str, ...], listed: str) -> None:
    refused = replace(REFUSED, nodes=nodes)
    assert step_of(refused).model_dump()["cut"]["mode"] == "refused"
    assert sentences.fault_words(refused) == f"Connections of Bob to {listed} are refused."
    assert schedule_words.fault_words(refused) == (
        f"connections of Bob to {listed} are refused for good, before the locks are opened"
    )
    shown = f"cut {{client: bob, nodes: [{', '.join(nodes)}], mode: refused}}"
    assert of_strategies.fault_words(refused) == f"before the locks are opened, {shown}"
    silent = replace(refused, refused=False, when=When())
    assert of_strategies.fault_words(silent) == "at the start, " + shown.replace(", mode: refused", "")


@pytest.mark.parametrize("changed", [replace(REFUSED, direction="requests"), replace(REFUSED, kind="reset")])
def test_only_a_cut_in_both_directions_refuses(changed: Fault) -> None:
    assert trial_of(TRIAL.key(), "kept.json") == TRIAL
    with pytest.raises(LabError, match=f"connections that a {changed.kind} refuses") as caught:
        trial_of(replace(TRIAL, faults=(changed,)).key(), "kept.json")
    assert caught.value.where == "kept.json, key faults[0].refused"
    assert caught.value.expected == "a cut in both directions"
