"""Which numbers a history may hold, at the bound of each; and what faults, stalls and lab records become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from checker.errors import HistoryError
from checker.formats.jsonl import event_line, footer_line, header_line, parse
from checker.history.events import Event, Params
from checker.history.history import Fault, History, Stall
from checker.history.operations import NEVER
from tests.unit.checker.builder import HistoryBuilder

STAMP, DURATION = 2**61, 2**59
HINT = "leave a duration out that has no end; count time from the start of the recording"
STAMPS = ("attempt_ns", "deadline_ns", "version_read", "version_written")


def acquired(call: int = 0, back: int = 1, type: Any = "ok", **said: Any) -> History:
    """Alice, and then Bob, who is told these numbers."""
    events = [
        Event(time_ns=0, process="alice", type="invoke", f="acquire"),
        Event(time_ns=1, process="alice", type="ok", f="acquire"),
        Event(time_ns=call, process="bob", type="invoke", f="acquire"),
        Event(time_ns=back, process="bob", type=type, f="acquire", **said),
    ]
    return History.from_events(events)


def refused(**said: Any) -> str:
    with pytest.raises(HistoryError) as caught:
        acquired(**said)
    assert caught.value.hint == HINT
    return f"{caught.value.field}: {caught.value.problem}"


@pytest.mark.parametrize(
    ("name", "most"),
    [*((name, STAMP) for name in STAMPS), ("claimed_ns", DURATION), ("ttl_ns", DURATION)],
)
def test_the_bounds_of_what_a_client_is_told(name: str, most: int) -> None:
    for number in (most, -most):
        assert getattr(acquired(**{name: number}).ops, name)[1] == number
    for number in (most + 1, -most - 1):
        assert refused(**{name: number}) == (
            f"{name}: saw {number}, expected a number from {-most} to {most} (event 3)"
        )


@pytest.mark.parametrize("number", [NEVER, NEVER + 1, 2**63 - 1])
def test_a_lease_may_have_no_end(number: int) -> None:
    assert acquired(ttl_ns=number).ops.ttl_ns[1] == number


def test_a_lease_that_is_too_long_and_has_an_end_is_refused() -> None:
    assert refused(ttl_ns=NEVER - 1).startswith(f"ttl_ns: saw {NEVER - 1}, expected")


def test_the_bounds_of_stamps() -> None:
    assert acquired(-STAMP, STAMP).ops.call_ns[1] == -STAMP
    problem = f"expected a number from {-STAMP} to {STAMP}"
    assert refused(call=-STAMP - 1) == f"time_ns: saw {-STAMP - 1}, {problem} (event 2)"
    assert refused(back=STAMP + 1) == f"time_ns: saw {STAMP + 1}, {problem} (event 3)"
    assert refused(back=STAMP + 1, type="info") == f"time_ns: saw {STAMP + 1}, {problem} (event 3)"


def test_of_several_the_first_is_named_and_an_open_operation_by_its_call() -> None:
    events = [
        Event(time_ns=at, process=who, type="invoke", f="acquire", ttl_ns=DURATION + at)
        for at, who in enumerate("abc")
    ]
    with pytest.raises(HistoryError, match=rf"saw {DURATION + 1}, .*\(event 1\)"):
        History.from_events(events)


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_named_with_its_event(number: int) -> None:
    for fence in (0, 2**63 - 1, -(2**63)):
        events = [
            Event(time_ns=0, process="a", type="invoke", f="acquire", fence=fence),
            Event(time_ns=1, process="a", type="ok", f="acquire", fence=number),
        ]
        with pytest.raises(HistoryError) as caught:
            History.from_events(events)
        problem = f"saw {number}, expected an integer of 64 bits (event 1)"
        assert (caught.value.field, caught.value.problem) == ("fence", problem)


@pytest.mark.parametrize(
    ("name", "most"),
    [
        *(
            (name, STAMP)
            for name in ("time_ns", "start_ns", "index", "fence", "refused_by", "wait_ns", *STAMPS)
        ),
        *((name, DURATION) for name in ("duration_ns", "ttl_left_ns", "ttl_ns", "claimed_ns")),
    ],
)
def test_the_bounds_of_what_others_report(name: str, most: int) -> None:
    def reported(number: int) -> History:
        said: dict[str, Any] = {"time_ns": 5, "process": "lab", "type": "info", "f": "phase", name: number}
        event = Event(**said)
        return History.from_events([Event(time_ns=4, process="lab", type="info", f="phase"), event])

    for number in (most, -most):
        assert getattr(reported(number).others[1][1], name) == number
    for number in (most + 1, -most - 1):
        with pytest.raises(HistoryError) as caught:
            reported(number)
        problem = f"saw {number}, expected a number from {-most} to {most} (event 1)"
        assert (caught.value.field, caught.value.problem) == (name, problem)
    for number in (NEVER, 2**63 - 1) if name == "ttl_ns" else ():
        assert reported(number)
    with pytest.raises(HistoryError):
        reported(2**63)
    with pytest.raises(HistoryError):
        reported(NEVER - 1)


@pytest.mark.parametrize("name", ["grace_ns", "delta_ns", "epsilon_ns", "stall_ns", "unavailable_ns"])
def test_the_bounds_of_durations_among_the_parameters(name: str) -> None:
    def assumed(number: int) -> History:
        params: dict[str, Any] = {name: number}
        return History.from_events([], Params(**params))

    assert getattr(assumed(0).params, name) == 0
    assert assumed(10**17)
    with pytest.raises(HistoryError) as caught:
        assumed(-1)
    assert str(caught.value) == f"field 'params.{name}': saw -1, expected a duration of 0 ns or more"
    with pytest.raises(HistoryError) as caught:
        assumed(10**17 + 1)
    assert str(caught.value) == (
        f"field 'params.{name}': saw {10**17 + 1}, expected an integer from 0 to {10**17}"
    )


@pytest.mark.parametrize(("name", "least"), [("nodes", 1), ("quorum", 1), ("depth", 1), ("permits", 0)])
def test_the_bounds_of_counts_among_the_parameters(name: str, least: int) -> None:
    params: list[dict[str, Any]] = [{name: least}, {name: least - 1}]
    assert History.from_events([], Params(**params[0]))
    with pytest.raises(HistoryError, match=f"saw {least - 1}, expected an integer from {least} to"):
        History.from_events([], Params(**params[1]))


@pytest.mark.parametrize("rho", [-0.1, 1.0, float("nan")])
def test_a_rate_is_less_than_one(rho: float) -> None:
    with pytest.raises(HistoryError, match="expected a rate from 0 to 1"):
        History.from_events([], Params(rho=rho))


# -- what others report --------------------------------------------------------------------------------------


def test_a_history_without_events_begins_and_ends_at_zero() -> None:
    history = History.from_events([])
    assert (history.start_ns, history.end_ns, len(history.ops)) == (0, 0, 0)


@pytest.mark.parametrize("processes", [("lab", "a"), ("a", "lab"), ("lab", "node", "a"), ("a", "b", "lab")])
def test_a_file_begins_with_its_first_event_whoever_recorded_it(processes: tuple[str, ...]) -> None:
    kinds = {"lab": ("info", "phase"), "node": ("info", "node-up")}
    events = [
        Event(time_ns=5 + at, process=process, type=kind[0], f=kind[1])  # type: ignore[arg-type]
        for at, process in enumerate(processes)
        for kind in (kinds.get(process, ("invoke", "read")),)
    ]
    text = b"".join(event_line(event, at) for at, event in enumerate(events))
    history = parse(header_line(Params()) + text + footer_line(len(events)))
    assert (history.start_ns, history.end_ns) == (5, 4 + len(events))


def test_a_history_begins_with_its_first_event_and_ends_with_the_latest() -> None:
    events = [Event(time_ns=at, process="lab", type="info", f="phase") for at in (7, 3, 9, 8)]
    history = History.from_events(events)
    assert (history.start_ns, history.end_ns) == (7, 9)


def fault_events(*events: tuple[str, dict[str, Any]], process: str = "nemesis") -> History:
    made = [
        Event(time_ns=10 * at, process=process, type=type, **fields)  # type: ignore[arg-type]
        for at, (type, fields) in enumerate(events)
    ]
    return History.from_events(made)


def test_an_injection_meets_its_receipt_and_its_healing() -> None:
    about = {"f": "cut", "fault_id": "1", "targets": ["A", "B"], "breaks": "x"}
    healing = {"f": "heal", "fault_id": "2", "heals": "1", "target": "A"}
    history = fault_events(
        *(("invoke", about), ("ok", {**about, "receipt": {"seen": 1}}), ("invoke", healing), ("ok", healing)),
    )
    assert history.faults == (
        Fault("cut", "1", "A, B", ("A", "B"), "x", 0, 0, 10, {"seen": 1}, True, None, 30),
        Fault("heal", "2", "A", (), None, 2, 20, 30, None, True, "1", NEVER),
    )


def test_a_fault_without_an_id_is_known_by_its_name() -> None:
    history = fault_events(
        ("invoke", {"f": "cut"}), ("invoke", {"f": "jump"}), ("fail", {"f": "cut"}), ("ok", {"f": "jump"})
    )
    assert [(f.fault_id, f.receipt_ns, f.confirmed) for f in history.faults] == [
        ("cut", 20, False),
        ("jump", 30, True),
    ]
    assert fault_events(("ok", {"f": "cut"}), ("info", {"f": "cut"})).faults == ()
    twice = fault_events(("invoke", {"f": "cut"}), ("ok", {"f": "cut"}), ("ok", {"f": "cut"}))
    assert [f.receipt_ns for f in twice.faults] == [10]


def test_a_healing_that_was_not_confirmed_ends_nothing() -> None:
    about, healing = {"f": "cut", "fault_id": "1"}, {"f": "heal", "fault_id": "2", "heals": "1"}
    for ending in ([], [("fail", healing)]):
        cut, heal = fault_events(("invoke", about), ("ok", about), ("invoke", healing), *ending).faults
        assert (cut.until_ns, heal.until_ns) == (NEVER, NEVER)


def test_a_healing_is_healed_by_nothing() -> None:
    healing = {"f": "heal", "fault_id": "1", "heals": "1"}
    (heal,) = fault_events(("invoke", healing), ("ok", healing)).faults
    assert heal.until_ns == NEVER


def test_what_the_lab_invokes_is_no_fault() -> None:
    history = fault_events(("invoke", {"f": "read"}), ("ok", {"f": "read", "value": "x"}), process="lab")
    assert history.faults == ()
    assert [(record.f, record.type, record.value) for record in history.lab] == [
        ("read", "invoke", None),
        ("read", "ok", "x"),
    ]
    assert (history.stalls, history.nodes) == ((), ())


def test_stalls_of_clients_and_of_the_lab() -> None:
    def stall(process: str, **said: Any) -> Event:
        return Event(time_ns=100, process=process, type="info", f="stall", **said)

    history = History.from_events(
        [
            stall("alice/2", duration_ns=30),
            stall("bob/1", client="carol", start_ns=40, duration_ns=30),
            stall("lab", duration_ns=30),
            stall("alice"),
            stall("alice", start_ns=40, duration_ns=-30),
            stall("nemesis", duration_ns=30),
            stall("node", duration_ns=30),
        ]
    )
    assert history.stalls == (
        *(Stall("alice", 70, 100, 0), Stall("carol", 40, 70, 1), Stall("lab", 70, 100, 2)),
        *(Stall("alice", 100, 100, 3), Stall("alice", 40, 40, 4)),
    )
    assert history.lab == ()
    assert [event.process for event in history.nodes] == ["node"]


def test_what_nodes_report_is_kept_apart() -> None:
    builder = HistoryBuilder().lab("read", 1, value="x").acquire("alice", "g", 2, 3)
    history = builder.history()
    assert (history.nodes, len(history.lab), len(history.ops)) == ((), 1, 1)
    assert np.array_equal(history.ops.call_index, [1])
