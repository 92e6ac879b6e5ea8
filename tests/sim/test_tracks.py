"""Playing tracks in the simulation: what waits for what, and what never comes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tests.sim.simulated import Simulated, run_in_simulation

pytestmark = pytest.mark.usefixtures("_patched")

HEAD: dict[str, Any] = {
    "title": "t",
    "source": "s",
    "why": "w",
    "lock": {"name": "redlock", "ttl": "2s", "options": {"retry_count": 1}},
    "clients": ["alice", "bob"],
    "expect": {"mutual_exclusion": "ok"},
}


def played(tracks: dict[str, list[Any]], tmp_path: Path, **more: Any) -> Simulated:
    file = tmp_path / "s.yaml"
    file.write_text(yaml.safe_dump({**HEAD, "tracks": tracks, **more}, sort_keys=False))
    return run_in_simulation(str(file), 1, tmp_path)


def events(run: Simulated) -> Iterator[dict[str, Any]]:
    for line in (run.directory / "history.jsonl").read_bytes().splitlines()[1:-1]:
        event = msgspec.json.decode(line)
        if event["process"] not in ("lab", "node"):
            yield event


def operations(run: Simulated) -> list[tuple[str, str, str]]:
    return [(event["process"], event["f"], event["type"]) for event in events(run)]


def place(run: Simulated, process: str, f: str, kind: str) -> int:
    return operations(run).index((process, f, kind))


def test_tracks_go_on_side_by_side_and_wait_for_each_other(tmp_path: Path) -> None:
    run = played(
        {
            "alice": ["acquire", {"release": {"at": {"bob": "refused", "nth": 2}}}],
            "bob": [
                {"acquire": {"at": {"alice": "granted"}}},
                {"acquire": {"at": "100ms"}},
                {"acquire": {"at": {"alice": "released"}}},
            ],
        },
        tmp_path,
    )
    assert not run.unknown
    ends = [one for one in operations(run) if one[2] != "invoke"]
    assert ends == [
        ("alice", "acquire", "ok"),
        ("bob", "acquire", "fail"),
        ("bob", "acquire", "fail"),
        ("alice", "release", "ok"),
        ("bob", "acquire", "ok"),
    ]


def test_a_fault_strikes_before_what_waits_for_the_same_event(tmp_path: Path) -> None:
    """Its receipt takes 50 ms; both clients, who wait for nothing else, go on after that."""
    run = played(
        {
            "alice": ["acquire", "extend"],
            "bob": [{"acquire": {"at": {"alice": "granted"}}}],
            "faults": [{"cut": {"client": "alice", "nodes": ["D", "E"], "at": {"alice": "granted"}}}],
        },
        tmp_path,
    )
    cut = place(run, "nemesis", "cut", "ok")
    assert place(run, "alice", "acquire", "ok") < cut < place(run, "alice", "extend", "invoke")
    assert cut < place(run, "bob", "acquire", "invoke")


def test_a_fault_at_a_call_is_there_before_anything_is_sent(tmp_path: Path) -> None:
    run = played(
        {
            "alice": ["acquire"],
            "faults": [
                {
                    "cut": {
                        "client": "alice",
                        "nodes": ["A", "B", "C"],
                        "at": {"alice": "acquire invoke"},
                        "until": {"alice": "acquire returns"},
                    }
                }
            ],
        },
        tmp_path,
    )
    assert place(run, "nemesis", "cut", "ok") < place(run, "alice", "acquire", "invoke")
    assert place(run, "alice", "acquire", "fail") < place(run, "nemesis", "heal", "ok")


def test_an_event_that_never_comes_makes_the_run_unknown(tmp_path: Path) -> None:
    run = played({"alice": ["acquire"], "bob": [{"acquire": {"at": {"alice": "refused"}}}]}, tmp_path)
    assert any("alice: refused" in reason for reason in run.unknown), run.unknown


def test_the_end_of_a_lease_is_an_event(tmp_path: Path) -> None:
    run = played(
        {
            "alice": [{"acquire": {"ttl": "5s"}}],
            "bob": [{"acquire": {"at": {"alice": "lease over"}}}],
        },
        tmp_path,
    )
    granted = {event["process"]: event for event in events(run) if event["type"] == "ok"}
    assert granted["bob"]["time_ns"] - granted["alice"]["time_ns"] > 4_990_000_000
    assert granted["alice"]["ttl_ns"] == 5_000_000_000


def test_two_tasks_of_a_client_share_its_lock_object(tmp_path: Path) -> None:
    run = played(
        {
            "alice": ["acquire", {"release": {"at": {"alice/2": "acquire returns"}}}],
            "alice/2": [{"acquire": {"at": {"alice": "granted"}}}, {"acquire": {"key": "other"}}],
        },
        tmp_path,
    )
    assert not run.unknown
    ends = [one for one in operations(run) if one[2] != "invoke"]
    assert ("alice+2", "acquire", "fail") in ends
    assert ends[-1][0] in ("alice", "alice+2")
    assert {event["key"] for event in events(run) if event["process"] == "alice+2"} == {"resource", "other"}
    grants = [
        event["grant_id"] for event in events(run) if event["f"] == "acquire" and event["type"] == "invoke"
    ]
    assert len(set(grants)) == len(grants)


def test_a_cancelled_acquire_has_an_unknown_outcome_and_ends_the_process(tmp_path: Path) -> None:
    run = played(
        {
            "alice": [
                {"acquire": {"cancel": {"nodes": ["A"], "executed": "SET"}}},
                {"acquire": {"at": "3s"}},
            ],
            "faults": [
                {
                    "hold": {
                        "client": "alice",
                        "nodes": "all",
                        "direction": "replies",
                        "at": {"alice": "acquire invoke"},
                        "until": {"alice": "acquire info"},
                    }
                }
            ],
        },
        tmp_path,
    )
    (cancelled,) = [event for event in events(run) if event["type"] == "info" and event["f"] == "acquire"]
    assert cancelled["error"] == "cancelled"
    assert operations(run)[-1] == ("alice/2", "acquire", "ok")


def test_a_client_that_insists_asks_until_it_is_granted(tmp_path: Path) -> None:
    run = played(
        {
            "alice": ["acquire"],
            "bob": [{"acquire": {"insist": "10s", "pause": "300ms", "at": {"alice": "granted"}}}],
        },
        tmp_path,
    )
    bobs = [kind for process, f, kind in operations(run) if process == "bob" and kind != "invoke"]
    assert bobs[-1] == "ok"
    assert 5 <= bobs.count("fail") <= 8


def test_a_killed_clients_tracks_end_with_it(tmp_path: Path) -> None:
    run = played(
        {
            "alice": ["acquire", {"release": {"at": "1s"}}],
            "bob": [{"acquire": {"at": {"alice": "lease over"}}}],
            "faults": [{"client_crash": {"client": "alice", "at": {"alice": "granted"}}}],
        },
        tmp_path,
    )
    assert not run.unknown
    assert ("alice", "release", "invoke") not in operations(run)
    assert operations(run)[-1] == ("bob", "acquire", "ok")


@pytest.mark.parametrize("again", [False, True])
def test_a_lease_can_be_released_twice(again: bool, tmp_path: Path) -> None:
    release: Any = {"release": {"again": True}} if again else "release"
    run = played({"alice": ["acquire", "release", release]}, tmp_path)
    assert [f for _, f, kind in operations(run) if kind == "invoke"].count("release") == 1 + again


def test_what_is_to_be_checked_first_is_left_out_if_the_check_failed(tmp_path: Path) -> None:
    run = played(
        {"alice": ["acquire", "read", {"check": {"at": "3s"}}, {"write": {"if_checked": True}}, "write"]},
        tmp_path,
        expect={"mutual_exclusion": "ok"},
    )
    assert [f for _, f, kind in operations(run) if kind == "invoke"].count("write") == 1


@pytest.mark.parametrize(
    ("cancel", "unknown"), [("5s", False), ({"nodes": "all", "executed": "PEXPIRE"}, True)]
)
def test_an_operation_that_ended_before_its_cancellation_proves_nothing_unless_that_is_a_time_out(
    cancel: Any, unknown: bool, tmp_path: Path
) -> None:
    run = played({"alice": [{"acquire": {"cancel": cancel}}]}, tmp_path)
    assert any("ended before it was cancelled" in reason for reason in run.unknown) is unknown
