"""Cuts that refuse connections: they have receipts, words and steps of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from lab.errors import LabError
from lab.faults.cut import Cut
from lab.scenario.triggers import at_start
from lab.search.faults import FOR_GOOD, lasting, moved, timed_fault, with_fields
from lab.search.replay import trial_of
from lab.search.runner import run_trial, trials
from lab.search.sentences import fault_words
from lab.search.trial import START_NS, Round, Trial

pytestmark = pytest.mark.usefixtures("_patched")

S_NS = 10**9
REFUSED = timed_fault(Cut, at_start(-START_NS), "bob", ("A",), refused=True)
TRIAL = Trial("single", {"alice": (Round(0, S_NS),), "bob": (Round(0, 0),)}, (REFUSED,), nodes=1)


@pytest.fixture(autouse=True)
def _trials() -> Iterator[None]:
    with trials():
        yield


@pytest.mark.parametrize(("refused", "link"), [(True, ["refused"]), (False, ["cut-replies", "cut-requests"])])
@pytest.mark.parametrize("lasts_ns", [S_NS, FOR_GOOD])
def test_a_receipt_shows_it_and_its_end(refused: bool, link: list[str], lasts_ns: int) -> None:
    cut = lasting(with_fields(REFUSED, mode="refused" if refused else "blackhole"), lasts_ns)
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
    refused = with_fields(REFUSED, nodes=nodes)
    assert refused.step.model_dump()["cut"]["mode"] == "refused"
    said = f"connections of Bob to {listed} are refused for good, before the locks are opened"
    assert fault_words(refused) == said
    silent = moved(with_fields(refused, mode="blackhole"), at_start())
    assert fault_words(silent) == f"the packets between Bob and {listed} are lost for good, from the start"


def test_a_trial_in_which_connections_are_refused_is_kept_and_read() -> None:
    assert trial_of(TRIAL.key(), "kept.json") == TRIAL
    changed = TRIAL.key().replace(b'"mode":"refused"', b'"mode":"refused","connection":"commands"')
    with pytest.raises(LabError, match="what a connection is for is not known when it is refused") as caught:
        trial_of(changed, "kept.json")
    assert caught.value.where == "kept.json, key faults[0]"
    assert caught.value.expected
