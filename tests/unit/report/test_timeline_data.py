"""Lanes, bands and marks as they are read from hand-written histories."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from msgspec import structs

from checker.history.events import Event
from checker.history.history import History
from checker.verdict import Severity, Verdict
from lab.report.timeline.data import extract
from lab.report.timeline.excerpt import MOST_OPS
from lab.report.timeline.faults import receipt_words
from lab.report.timeline.marks import scene_of
from lab.report.timeline.model import ClientLane, NodeLane, Promotion, Span, Timeline
from lab.report.timeline.signs import signs_in
from tests.unit.checker.builder import HistoryBuilder
from tests.unit.report.conftest import event_index, finding, history_of, verdict_of

MS = 1_000_000


def client(builder: Timeline, name: str) -> ClientLane:
    return next(lane for lane in builder.clients if lane.name == name)


def node(builder: Timeline, name: str) -> NodeLane:
    return next(lane for lane in builder.nodes if lane.name == name)


def test_windows_are_those_of_the_checker(clockjump: tuple[History, Verdict]) -> None:
    builder = extract(*clockjump, "history")
    (alice,) = client(builder, "alice").grants
    # TTL 10 s called at 58 ms, told 9845 ms at 111: guaranteed for 9845 ms * 0.999 / 1.001 from then on.
    assert alice.guaranteed == (Span(111 * MS, 9_936_329_670),)
    assert alice.belief == (Span(111 * MS, 9_956 * MS),)
    assert alice.claimed_ns == (9_956 * MS,)


def test_overlap_becomes_a_band_between_both_clients(clockjump: tuple[History, Verdict]) -> None:
    (band,) = extract(*clockjump, "history").bands
    assert band.clients == ("alice", "bob")
    assert band.span == Span(237 * MS, 9_936_329_670)
    assert band.words == "both hold the lock for at least 9.6 s"


def test_key_lives_until_the_clock_jump_cuts_it(clockjump: tuple[History, Verdict]) -> None:
    builder = extract(*clockjump, "history")
    first, second = node(builder, "C").lives
    assert (first.owner, first.ended_by) == ("alice", "jump")
    assert first.span == Span(59_500_000, 120 * MS)
    assert first.promised_ns == 10_059_500_000
    assert (second.owner, second.span.start_ns) == ("bob", 185_200_000)
    (life,) = node(builder, "A").lives
    assert life.span == Span(59_100_000, 10_059_100_000)
    assert life.promised_ns is None
    assert [jump.by_ns for jump in node(builder, "C").jumps] == [11_000_008_000]


def test_cut_links_and_lost_requests(clockjump: tuple[History, Verdict]) -> None:
    builder = extract(*clockjump, "history")
    (link,) = node(builder, "D").links
    assert (link.peer, link.words, link.lossy, link.fault) == ("alice", "cut off", True, 1)
    assert link.span == Span(2 * MS, 349 * MS)
    assert {missed.node for missed in client(builder, "alice").cut_tries} == {"D", "E"}
    assert {missed.node for missed in client(builder, "bob").cut_tries} == {"A", "B"}


def test_faults_are_numbered_and_healings_are_not(clockjump: tuple[History, Verdict]) -> None:
    faults = extract(*clockjump, "history").faults
    assert [(fault.number, fault.name) for fault in faults] == [(1, "cut"), (2, "jump"), (3, "cut")]
    assert faults[1].receipt is not None
    assert "moved 11 s" in faults[1].receipt
    assert faults[0].receipt == "D, E: probe through link no answer in 50 ms, probe arrived no"


def test_a_clock_that_goes_to_and_fro_ends_no_key_early() -> None:
    """How far it steps stands in the fault's text alone; what its receipt does not say is no single jump."""
    builder = HistoryBuilder(clients=["alice"], nodes=1).acquire("alice", "a", 0, 10, token="a", ttl=1000)
    about = {"fault_id": "f1", "target": "clock of A +500ms every 50ms", "targets": ["A"]}
    seen = {"offset_before_ms": 0.1, "readings_stepped_away": 1, "readings_stepped_back": 1}
    builder._nemesis("invoke", "strobe", 20, **about)
    builder._nemesis("ok", "strobe", 20.5, receipt=seen, **about)
    lane = node(extract(builder.history(), verdict_of(), "history"), "A")
    assert [jump.by_ns for jump in lane.jumps] == [None]


def test_the_late_write_is_the_guilty_one(clockjump: tuple[History, Verdict]) -> None:
    builder = extract(*clockjump, "history")
    assert [(w.client, w.version, w.guilty) for w in builder.writes] == [
        ("bob", 1, ()),
        ("alice", 2, ("unfenced-write", "lost-update")),
    ]
    assert all(w.asked_ns <= w.at_ns for w in builder.writes)


def test_a_pause_lasts_until_the_confirmed_resume_and_covers_its_stall() -> None:
    history = history_of("gc-pause-after-acquire")
    builder = extract(history, verdict_of(), "history")
    (pause,) = client(builder, "alice").pauses
    assert (pause.kind, pause.span) == ("pause", Span(15 * MS, 1_196 * MS))


def test_what_happens_to_a_node_is_drawn_in_its_lane() -> None:
    builder = HistoryBuilder(clients=["alice"], nodes=2).acquire("alice", "g1", 0, 10)
    builder.lab("phase", 1).fault("pause", 20, ["A"], until=40, breaks="bounded process pauses")
    builder.fault("promote", 50, ["B"], breaks="durable nodes")
    held = Event(time_ns=5 * MS, process="node", type="info", f="key-set", node="A", key="k", token="t")
    builder._events += [held, structs.replace(held, node="B")]
    drawn = extract(builder.history(), verdict_of(), "history")
    (pause,) = node(drawn, "A").pauses
    assert (pause.kind, pause.span, pause.fault) == ("pause", Span(20 * MS, 40 * MS), 1)
    assert node(drawn, "B").promotions == [Promotion(50 * MS, 2, "becomes master")]
    assert not node(drawn, "B").pauses
    assert not node(drawn, "A").promotions
    assert not client(drawn, "alice").pauses
    assert "paused" in signs_in(drawn)


def test_refused_released_and_not_held() -> None:
    builder = extract(history_of("gc-pause-after-acquire"), verdict_of(), "history")
    bob = client(builder, "bob")
    outcomes = [(attempt.kind, attempt.outcome) for attempt in bob.attempts]
    assert outcomes == [("acquire", "fail"), ("acquire", "ok"), ("release", "ok")]
    assert [(a.kind, a.outcome) for a in client(builder, "alice").attempts][-1] == ("release", "fail")
    # Given back before the deadline: the deadline means nothing any more.
    assert bob.grants[0].claimed_ns == ()


def test_a_rejected_write_is_no_version_and_a_warning_is_no_guilt() -> None:
    history = history_of("pause-fenced")
    warning = finding("stale-use", history, ("alice", "write", "fail"), severity=Severity.WARNING)
    builder = extract(history, verdict_of(warning), "history")
    assert [(w.client, w.accepted, w.version, w.fence) for w in builder.writes] == [
        ("bob", True, 1, 34),
        ("alice", False, None, 33),
    ]
    (late,) = client(builder, "alice").uses
    assert (late.guilty, late.warned) == ((), ("stale-use",))


def test_findings_about_acquires_are_flags() -> None:
    history = history_of("pause-fenced")
    builder = extract(
        history, verdict_of(finding("false-validity", history, ("alice", "acquire", "ok"))), "t"
    )
    (flag,) = builder.flags
    assert (flag.lane, flag.names, flag.at_ns) == ("alice", ("false-validity",), 4 * MS)


def test_empty_history_says_so() -> None:
    builder = extract(history_of("empty"), verdict_of(), "history")
    assert builder.notes == ["The history holds no operation of any client."]
    assert [lane.name for lane in builder.clients] == ["alice", "bob"]


def test_truncated_history_and_a_fault_without_a_receipt() -> None:
    builder = extract(history_of("truncated"), verdict_of(unknown=("the history is truncated",)), "history")
    assert builder.faults[0].receipt is None
    assert builder.reasons == ["the history is truncated"]
    assert any("incomplete" in note for note in builder.notes)
    (write,) = client(builder, "alice").uses
    assert (write.outcome, write.span.end_ns) == ("info", None)


def test_a_long_history_becomes_an_excerpt_around_the_violation(
    write_history: Callable[[list[str]], History],
) -> None:
    lines = ['{"history": 1, "params": {"clients": ["a", "b"]}}']
    for number in range(5000):
        who = "ab"[number % 2]
        base = {"process": who, "client": who, "key": "k", "grant_id": f"g{number}", "f": "acquire"}
        lines.append(json.dumps(base | {"type": "invoke", "time_ns": number * 10 * MS, "ttl_ns": 5 * MS}))
        lines.append(
            json.dumps(base | {"type": "ok", "time_ns": number * 10 * MS + MS, "token": f"t{number}"})
        )
    lines.append(json.dumps({"end": True, "events": 10_000}))
    history = write_history(lines)
    bad = finding("fence-order", history, ("a", "acquire", "ok"))
    middle = bad.__class__(**{**{n: getattr(bad, n) for n in bad.__slots__}, "witnesses": (5001,)})
    builder = extract(history, verdict_of(middle), "history")
    drawn = [a.span.start_ns for lane in builder.clients for a in lane.attempts]
    assert len(drawn) < MOST_OPS
    assert min(drawn) == 0
    assert max(drawn) == 4999 * 10 * MS
    assert 2500 * 10 * MS in drawn
    assert len(builder.gaps) == 2
    assert builder.notes[0].startswith("Excerpt: ")
    assert "of 5 000 operations" in builder.notes[0]


def test_only_the_key_of_the_violation_is_drawn(write_history: Callable[[list[str]], History]) -> None:
    lines = ['{"history": 1, "params": {}}']
    for number, key in enumerate(("busy", "busy", "other")):
        base = {"process": "a", "client": "a", "key": key, "grant_id": f"g{number}", "f": "acquire"}
        lines.append(json.dumps(base | {"type": "invoke", "time_ns": number * 10 * MS, "ttl_ns": MS}))
        lines.append(
            json.dumps(base | {"type": "ok", "time_ns": number * 10 * MS + MS, "token": f"t{number}"})
        )
    lines.append('{"end": true, "events": 6}')
    history = write_history(lines)
    calm = extract(history, verdict_of(), "history")
    assert len(calm.clients[0].attempts) == 2
    assert "other" in calm.notes[0]
    bad = finding("false-validity", history, ("a", "acquire", "ok"))
    accused = bad.__class__(**{**{n: getattr(bad, n) for n in bad.__slots__}, "key": "other"})
    assert len(extract(history, verdict_of(accused), "history").clients[0].attempts) == 1


@pytest.mark.parametrize(
    ("receipt", "words"),
    [
        ({"moved_ms": 11000.0}, "moved 11 s"),
        ({"A": {"arrived": True}, "B": {"arrived": True}}, "A, B: arrived yes"),
        (
            {"before": {"offset_ns": 0}, "after": {"offset_ns": 2_000_000}},
            "before: offset 0 ms; after: offset 2 ms",
        ),
        ({"state": None}, "state none"),
        ({}, ""),
    ],
)
def test_receipts_in_words(receipt: dict[str, object], words: str) -> None:
    assert receipt_words(receipt) == words


def test_event_index_finds_the_last(clockjump: tuple[History, Verdict]) -> None:
    history, _ = clockjump
    assert list(history.events())[event_index(history, "bob", "write", "ok")].version_written == 1


def test_a_pause_ends_at_the_latest_when_its_client_acts_again() -> None:
    """The lab confirms the resumption later than the client receives its refusal."""
    builder = HistoryBuilder(clients=["alice"], nodes=1).acquire(
        "alice", "a", 10, 99, "fail", error="too late"
    )
    builder.lab("phase", 0).fault("pause", 20, ["alice"], until=99.25)
    drawn = extract(builder.history(), verdict_of(), "history")
    (pause,) = client(drawn, "alice").pauses
    assert pause.span == Span(20 * MS, 99 * MS)


def test_a_grant_given_back_within_the_uncertainty_of_stamps_is_drawn() -> None:
    builder = HistoryBuilder(clients=["alice"], nodes=1, epsilon_ns=MS).acquire("alice", "a", 0, 10)
    builder.release("alice", "a", 11, 12)
    (grant,) = client(extract(builder.history(), verdict_of(), "history"), "alice").grants
    assert (grant.belief, grant.guaranteed) == ((Span(10 * MS, 11 * MS),), ())


def test_a_warning_is_not_red_on_the_page() -> None:
    history = history_of("pause-fenced")
    warning = finding("stale-use", history, ("alice", "write", "fail"), severity=Severity.WARNING)
    scene = scene_of(extract(history, verdict_of(warning), "history"))
    (late,) = [mark for mark in scene.marks if mark.warnings]
    assert (late.kind, late.findings, late.warnings) == ("write", (), ("stale-use",))
