"""Trials that say what happens in tracks: played, kept, made smaller, and run as scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.errors import LabError
from lab.examine.answer.narrative import schedule_words
from lab.examine.violations.judge import labels
from lab.faults.cut import Cut
from lab.run import run
from lab.run.events import Listener
from lab.run.request import RunRequest
from lab.scenario.tracks import Timed
from lab.scenario.triggers import on
from lab.search.as_scenario import scenarios_of, text_of
from lab.search.as_tracks import tracks_of
from lab.search.faults import timed_fault
from lab.search.minimise import minimise
from lab.search.replay import trial_of
from lab.search.runner import Event, run_trial, trials
from lab.search.suspicion import found
from lab.search.trial import Round, Trial
from tests.sim.simulated import run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

OPTIONS: Any = {"node_timeout": "250ms", "retry_count": 1}
CUT: Any = {
    "client": "alice",
    "nodes": ["A", "B", "C"],
    "at": {"alice": "granted"},
    "until": {"bob": "refused"},
}


def trial(tracks: dict[str, list[Any]], lock: str = "redlock", **more: Any) -> Trial:
    """A trial of Alice and Bob that says all in tracks."""
    return Trial(
        lock,
        {"alice": (), "bob": ()},
        options=OPTIONS,
        tracks={name: tuple(map(Timed.model_validate, track)) for name, track in tracks.items()},
        **more,
    )


def events(one: Trial) -> list[Event]:
    with trials():
        return run_trial(one).events


def ends(one: Trial) -> list[tuple[str, str, str]]:
    return [(each["process"], each["f"], each["type"]) for each in events(one) if each["type"] != "invoke"]


WAITS: dict[str, list[Any]] = {
    "alice": ["acquire", {"release": {"at": {"bob": "refused"}}}],
    "bob": [{"acquire": {"at": {"alice": "granted"}}}, {"acquire": {"at": {"alice": "released"}}}],
    "faults": [{"cut": CUT}],
}


def test_actions_wait_for_events_and_so_do_the_ends_of_faults() -> None:
    assert ends(trial(WAITS)) == [
        ("alice", "acquire", "ok"),
        ("nemesis", "cut", "ok"),
        ("bob", "acquire", "fail"),
        ("nemesis", "heal", "ok"),
        ("alice", "release", "ok"),
        ("bob", "acquire", "ok"),
    ]


@pytest.mark.parametrize(("nth", "granted"), [(1, False), (2, True)])
def test_what_strikes_as_a_client_sends_strikes_before_anything_has_left(nth: int, granted: bool) -> None:
    """Her first sending asks for the lock, her second one gives it back."""
    cut = {"client": "alice", "nodes": ["A", "B", "C"], "at": {"alice": "sends", "nth": nth}}
    done = ends(trial({"alice": ["acquire", "release"], "faults": [{"cut": cut}]}))
    assert (("alice", "acquire", "ok") in done) is granted
    assert ("alice", "release", "ok") not in done


def test_who_is_killed_as_it_sends_has_sent_nothing() -> None:
    dies = {"client": "alice", "at": {"alice": "sends"}}
    tracks: dict[str, list[Any]] = {
        "alice": ["acquire"],
        "bob": [{"acquire": {"at": {"start": "100ms"}}}],
        "faults": [{"client_crash": dies}],
    }
    assert ("bob", "acquire", "ok") in ends(trial(tracks))


def test_who_is_paused_as_it_sends_sends_it_when_it_goes_on() -> None:
    stops = {"client": "alice", "at": {"alice": "sends"}, "until": {"bob": "granted"}}
    tracks: dict[str, list[Any]] = {
        "alice": ["acquire"],
        "bob": [{"acquire": {"at": {"start": "100ms"}}}],
        "faults": [{"pause": stops}],
    }
    assert ends(trial(tracks)) == [
        ("nemesis", "pause", "ok"),
        ("bob", "acquire", "ok"),
        ("nemesis", "resume", "ok"),
        ("alice", "acquire", "fail"),
    ]


def test_a_cancelled_acquire_waits_for_what_nodes_executed() -> None:
    cancelled = {"acquire": {"cancel": {"nodes": ["B"], "executed": "SET"}}}
    tracks: dict[str, list[Any]] = {
        "alice": [cancelled],
        "bob": [{"acquire": {"at": {"alice": "acquire info"}}}],
    }
    assert ends(trial(tracks))[0] == ("alice", "acquire", "info")


def test_second_tasks_and_second_keys_have_leases_of_their_own() -> None:
    tracks: dict[str, list[Any]] = {
        "alice": ["acquire", {"acquire": {"key": "another"}}, {"release": {"key": "another"}}, "release"],
        "alice/2": [{"acquire": {"at": {"alice": "granted"}}}, "release"],
    }
    told = [
        (each["key"], each["grant_id"], each["type"])
        for each in events(trial(tracks))
        if each["f"] == "acquire"
    ]
    assert ("another", "alice-1001", "ok") in told or ("another", "alice-2001", "ok") in told
    assert [kind for key, grant, kind in told if key != "another" and grant != "alice-1"] == [
        "invoke",
        "fail",
    ]


def test_an_operation_of_a_lease_that_is_not_there_is_left_out_at_once() -> None:
    tracks: dict[str, list[Any]] = {
        "alice": ["acquire"],
        "bob": [
            {"acquire": {"at": {"alice": "granted"}}},
            {"write": {"at": "5s"}},
            {"release": {"at": "5s"}},
            {"acquire": {"at": "10ms"}},
        ],
    }
    bobs = [each["time_ns"] for each in events(trial(tracks)) if each.get("client") == "bob"]
    assert len(bobs) == 4
    assert bobs[-1] - bobs[0] < 1_000_000_000


def test_it_is_kept_as_json_and_its_mistakes_have_their_place() -> None:
    kept = trial(WAITS)
    assert trial_of(kept.key(), "kept.json") == kept
    with pytest.raises(LabError) as error:
        trial_of(
            kept.key()
            .replace(b'"bob":"acquire fail"', b'"carol":"acquire fail"')
            .replace(b'"bob":"refused"', b'"carol":"refused"'),
            "kept.json",
        )
    assert "tracks" in error.value.render()
    assert "carol" in error.value.render()


def test_its_faults_leave_the_assumptions_and_it_is_told() -> None:
    jump = {"node": "C", "by": "+11s", "at": {"alice": "granted"}}
    jumps = trial({"alice": ["acquire"], "faults": [{"jump": jump}]})
    assert labels(jumps) == {"a node's clock jumps"}
    assert "Faults: jump: {node: C, by: +11s, at: {alice: granted}}." in schedule_words(jumps)


LOST: dict[str, list[Any]] = {
    "alice": [
        "acquire",
        "read",
        {"check": {"at": "200ms"}},
        {"write": {"if_checked": True}},
        {"release": {"at": {"bob": "granted"}}},
    ],
    "bob": [{"acquire": {"insist": "20s", "pause": "100ms", "at": {"alice": "granted"}}}],
    "carol": [{"acquire": {"insist": "20s", "at": {"alice": "released"}}}],
    "faults": [{"delay": {"client": "bob", "nodes": ["D"], "by": "10ms", "at": {"alice": "granted"}}}],
}


def late_release(lock: str = "mutant:bare-del") -> Trial:
    """Alice gives back what is Bob's by now, and Carol gets it as well."""
    one = trial(LOST, lock, ttl_ns=2_000_000_000)
    return Trial(
        lock,
        {"alice": (), "bob": (), "carol": ()},
        options=OPTIONS,
        ttl_ns=one.ttl_ns,
        tracks=one.tracks,
    )


def test_what_needs_nothing_is_left_out_of_tracks() -> None:
    with trials():
        assert found(run_trial(late_release()), "overlap")
        assert not found(run_trial(late_release("redlock")), "overlap")
        smallest = minimise(late_release(), lambda it: found(run_trial(it), "overlap"))
    said = {name: [timed.step.KEY for timed in track] for name, track in smallest.tracks.items()}
    assert said == {"alice": ["acquire", "release"], "bob": ["acquire"], "carol": ["acquire"]}
    assert smallest.nodes == 3


def test_a_call_takes_the_place_of_a_sending_since_that_is_heard_everywhere() -> None:
    """Alice gets the lock, and cannot give it back: what she sends second is lost."""
    cut = {"client": "alice", "nodes": ["A", "B", "C"], "at": {"alice": "sends", "nth": 2}}
    lost = trial({"alice": ["acquire", "release"], "faults": [{"cut": cut}]})

    def keeps_it(one: Trial) -> bool:
        done = [(each["f"], each["type"]) for each in run_trial(one).events]
        return ("acquire", "ok") in done and ("release", "info") in done

    with trials():
        assert keeps_it(lost)
        smallest = minimise(lost, keeps_it)
    (struck,) = smallest.tracks["faults"]
    assert struck.at is not None
    assert (struck.at.track, struck.at.event) == ("alice", "release invoke")


def test_a_killed_client_is_not_resumed_when_its_pause_would_end() -> None:
    stops = {"client": "alice", "at": {"alice": "granted"}, "until": {"start": "1s"}}
    dies = {"client": "alice", "at": {"start": "500ms"}}
    tracks: dict[str, list[Any]] = {
        "alice": ["acquire", "read"],
        "bob": [{"acquire": {"at": {"start": "2s"}}}],
        "faults": [{"pause": stops}],
        "faults-2": [{"client_crash": dies}],
    }
    told = [(f, kind) for process, f, kind in ends(trial(tracks)) if process == "nemesis"]
    assert told == [("pause", "ok"), ("client_crash", "ok")]


def test_how_long_the_lock_may_be_refused_follows_the_leases_that_are_asked_for() -> None:
    assert trial({"alice": [{"acquire": {"ttl": "70s"}}]}).longest_ttl_ns == 70_000_000_000


def test_its_scenario_is_its_tracks_word_for_word_and_replays(tmp_path: Path) -> None:
    one = late_release()
    with trials():
        scenario = scenarios_of(one, "overlap", command="lab test")[0]
    assert dict(scenario.tracks) == tracks_of(one)
    file = tmp_path / "found.yaml"
    file.write_text(text_of(scenario))
    ended = run_in_simulation(str(file), 1, tmp_path)
    assert (ended.mismatches, ended.unknown) == ((), ())


def test_a_scenario_waits_for_what_clients_send_where_that_is_seen(tmp_path: Path) -> None:
    stops = {"client": "alice", "at": {"alice": "sends"}, "until": {"bob": "granted"}}
    scenario = {
        "title": "t",
        "source": "s",
        "why": "w",
        "lock": {"name": "redlock", "ttl": "2s", "options": {"retry_count": 1}},
        "clients": ["alice", "bob"],
        "tracks": {
            "alice": ["acquire"],
            "bob": [{"acquire": {"at": {"start": "100ms"}}}],
            "faults": [{"pause": stops}],
        },
        "expect": {"mutual_exclusion": "ok"},
    }
    file = tmp_path / "sends.yaml"
    file.write_text(yaml.safe_dump(scenario))
    in_simulation = run_in_simulation(str(file), 1, tmp_path)
    assert (in_simulation.mismatches, in_simulation.unknown) == ((), ())
    lines = "\n".join(in_simulation.lines)
    places = [lines.index(words) for words in ("pause: alice", "bob holds", "go on", "alice is refused")]
    assert places == sorted(places)
    with pytest.raises(LabError, match="local cannot tell that a client is about to send"):
        run(RunRequest(str(file), substrate="local", out=tmp_path), Listener())


def test_rounds_and_faults_are_tracks_as_well() -> None:
    short = Trial(
        "redlock",
        {"alice": (Round(100, 300, extends=1, ends="twice"),)},
        (timed_fault(Cut, on("alice", "granted", 2, 50), "alice", ("A", "B"), lasts_ns=70),),
    )
    long = {
        name: [timed.model_dump(mode="json", exclude_none=True) for timed in track]
        for name, track in tracks_of(short).items()
    }
    assert long["alice"] == [
        {"acquire": {"at": "100ns"}},
        {"read": {}},
        {"extend": {"at": "150ns"}},
        {"check": {"at": "150ns"}},
        {"write": {"if_checked": True}},
        {"release": {}},
        {"release": {"again": True, "if_granted": True}},
    ]
    (cut,) = long["fault-0"]
    assert cut["cut"]["at"] == {"alice": "granted", "nth": 2, "after": "50ns"}
    assert cut["cut"]["until"] == "70ns"
