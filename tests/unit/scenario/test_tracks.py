"""Tracks: what they say, in which forms, and what of them is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import LabError
from lab.scenario.anchors import NodesExecuted
from lab.scenario.load import dump, load_text
from lab.scenario.model import Scenario
from lab.scenario.tracks import task_of

HEAD = {
    "title": "t",
    "source": "s",
    "why": "w",
    "clients": ["alice", "bob"],
    "expect": {"mutual_exclusion": "ok"},
}
EXTENDED = {"alice": "extend ok"}
CUT = {"cut": {"client": "alice", "nodes": ["Z"]}}
TRACKS: dict[str, list[Any]] = {
    "alice": [
        {"acquire": {"ttl": "1s", "cancel": "30ms"}},
        "read",
        {"extend": {"at": {"bob": "refused"}, "ttl": "3s"}},
        {"write": {"if_checked": True, "at": "20ms"}},
        {"release": None},
        {"release": {"again": True, "at": {"start": "2s"}}},
    ],
    "alice/2": [{"acquire": {"key": "other", "insist": "5s", "at": {"alice": "acquire invoke", "nth": 1}}}],
    "bob": [
        {"acquire": {"at": {"alice": "granted", "after": "100ms"}}},
        {"close": {"at": {"alice": "lease believed over"}}},
        {"open": {"at": {"alice": "acquire invoke", "nodes": ["A"], "executed": "SET", "after": "1ms"}}},
    ],
    "faults": [
        {
            "cut": {
                "client": "alice",
                "nodes": ["D"],
                "at": {"bob": "refused"},
                "until": {"alice": "extend ok"},
            }
        },
        {"jump": {"node": "C", "by": "+11s", "at": {"nodes": "all", "executed": "SET", "times": 2}}},
        {"heal": {"at": {"faults": "jump ok"}}},
        {"say": {"text": "hello", "at": "1s"}},
    ],
}


def scenario(tracks: Any, **more: Any) -> Scenario:
    return load_text(yaml.safe_dump({**HEAD, "tracks": tracks, **more}, sort_keys=False), "s.yaml").scenario


def test_yaml_and_json_are_two_spellings_of_one_value() -> None:
    one = scenario(TRACKS)
    assert load_text(dump(one), "again.yaml").scenario == one
    as_json = json.dumps(one.model_dump(mode="json", exclude_none=True))
    assert load_text(as_json, "again.json").scenario == one
    assert hash(one.tracks["alice"]) == hash(scenario(TRACKS).tracks["alice"])


def test_a_trigger_says_what_is_waited_for() -> None:
    one = scenario(TRACKS)
    by_key = {timed.step.KEY: timed for timed in one.every_timed}
    opened = by_key["open"].at
    assert opened is not None
    assert (opened.track, opened.event, opened.after_ns) == ("alice", "acquire invoke", 1_000_000)
    assert isinstance(opened.anchor, NodesExecuted)
    heal = by_key["heal"]
    assert heal.step.model_dump(mode="json") == {"heal": "all"}
    assert one.keys == ("resource", "other")
    assert len(one.every_anchor) == 2


@pytest.mark.parametrize(
    ("track", "task"), [("alice", ("alice", 1)), ("alice/2", ("alice", 2)), ("faults", None), ("carol", None)]
)
def test_a_track_is_of_a_clients_task_or_of_the_environment(track: str, task: tuple[str, int] | None) -> None:
    assert task_of(track, ("alice", "bob")) == task


@pytest.mark.parametrize(
    ("tracks", "seen", "where", "hint"),
    [
        ({"alice": [{"acquire": {"at": {"bobb": "granted"}}}]}, 'unknown track "bobb"', "acquire.at", None),
        (
            {"alice": ["acquire"], "bob": [{"acquire": {"at": {"alice": "extend ok"}}}]},
            'no action of the track alice is called "extend"',
            "acquire.at.alice",
            None,
        ),
        (
            {"alice": [{"acquire": {"at": {"alice": "grantd"}}}]},
            '"grantd" is no event of a track',
            "acquire.at",
            'did you mean "granted"?',
        ),
        ({"alice": [{"acquire": {"at": "soon"}}]}, '"soon" is no event', "acquire.at", None),
        ({"alice": [{"acquir": {}}]}, 'unknown step "acquir"', "alice[0]", 'did you mean "acquire"?'),
        ({"alice": [{"acquire": {"until": "5s"}}]}, "acquire has an until and no end", "alice[0]", None),
        ({"alice": [{"wait": "5s"}]}, "wait is a step of the short form", "alice[0]", "`at` says"),
        ({"faults": ["acquire"]}, "it does not say who acquires", "faults[0]", None),
        (
            {"alice": [{"acquire": {"client": "bob"}}]},
            "the client is named in a track of alice",
            "acquire.client",
            None,
        ),
        ({"carol/2": ["acquire"]}, 'unknown client "carol"', "tracks", None),
        ({"alice": []}, "the track is empty", "tracks.alice", None),
        (
            {"faults": [{"cut": {"client": "alice", "nodes": ["Z"]}}]},
            'unknown node "Z"',
            "cut.nodes[0]",
            None,
        ),
        ({"alice": [{"acquire": {"at": {"nth": 2}}}]}, "this names no event", "acquire.at", None),
    ],
)
def test_a_mistake_in_a_track_is_one_error_with_its_place(
    tracks: Any, seen: str, where: str, hint: str | None
) -> None:
    with pytest.raises(LabError) as caught:
        scenario(tracks)
    error = caught.value
    assert error.seen == seen
    assert where in (error.where or "")
    assert (hint or "") in (error.hint or "")


def test_a_scenario_has_steps_or_tracks_and_not_both() -> None:
    with pytest.raises(LabError, match="steps and tracks are there"):
        scenario({"alice": ["acquire"]}, steps=[{"do": "alice acquires"}])


DOCS = Path(__file__).parents[3] / "docs" / "schedules.md"


@pytest.mark.parametrize(
    "text", re.findall(r"```yaml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
)
def test_what_the_documentation_shows_is_a_schedule(text: str) -> None:
    shown = load_text(yaml.safe_dump(HEAD, sort_keys=False) + text, "docs/schedules.md").scenario
    assert shown.every_step
