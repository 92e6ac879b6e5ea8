"""How long a key was on a node, from looks and from the commands seen between them."""

from __future__ import annotations

from typing import Any

from checker.history.events import Event
from lab.report.timeline.data import extract
from lab.report.timeline.model import KeyLife
from tests.unit.checker.builder import MS, HistoryBuilder
from tests.unit.report.conftest import verdict_of

TTL_MS = 1_000


def command(words: str, at: float, *, seen: float | None = None, after: int = 0) -> dict[str, Any]:
    """A command that a node executed; the lab saw it a little later."""
    ran_ns = [round(at * MS), round(at * MS) + 1_000]
    return {"command": words, "seen_ns": round((seen or at + 1) * MS), "ran_ns": ran_ns, "after": after}


def look(
    number: int, at: float, token: str | None, commands: list[dict[str, Any]], left_ms: float | None = None
) -> Event:
    """A look at the key that was asked for at ``at`` ms and answered 20 ms later."""
    f = "key-deleted" if token is None else "key-set"
    value = {
        "look": number,
        "asked_ns": round(at * MS),
        "answered_ns": round((at + 20) * MS),
        "commands": commands,
    }
    left = None if left_ms is None else round(left_ms * MS)
    seen_ns = commands[0]["seen_ns"] if commands else round((at + 20) * MS)
    return Event(
        time_ns=seen_ns,
        process="node",
        type="info",
        f=f,
        node="A",
        key="k",
        token=token,
        ttl_left_ns=left,
        value=value,
    )


def lives(*events: Event, jump: bool = False) -> list[KeyLife]:
    """What is drawn of node A; Bob asks at 95 ms under the token ``bob``, Alice at 0 ms under ``alice``."""
    builder = HistoryBuilder(clients=["alice", "bob"], nodes=1).acquire(
        "alice", "a", 0, 10, token="alice", ttl=TTL_MS
    )
    builder.acquire("bob", "b", 95, 110, token="bob", ttl=TTL_MS).release("bob", "b", 112, 130)
    if jump:
        builder.fault("jump", 50, ["A"], breaks="bounded clock error")
    builder._events += events
    (node,) = extract(builder.history(), verdict_of(), "history").nodes
    return node.lives


SET_BOB = f"SET k bob NX PX {TTL_MS}"


def test_a_key_set_and_deleted_between_two_looks_is_drawn() -> None:
    """The look that the SET led to was answered when the key had been deleted again."""
    gone = look(1, 105, None, [command(SET_BOB, 100)])
    deleted = look(2, 140, None, [command("del k", 120, after=0)])
    (life,) = lives(gone, deleted)
    assert (life.owner, life.ended_by) == ("bob", "deleted")
    assert (life.span.start_ns // MS, (life.span.end_ns or 0) // MS) == (100, 120)


def test_a_set_of_a_script_counts_whatever_its_letters() -> None:
    gone = look(1, 105, None, [command("EVAL", 99), command(f"set k bob px {TTL_MS} nx", 100)])
    (life,) = lives(gone, look(2, 140, None, [command("del k", 120)]))
    assert (life.owner, life.ended_by) == ("bob", "deleted")


def test_a_set_that_found_the_key_taken_is_not_drawn() -> None:
    held = look(1, 5, "alice", [command(f"SET k alice NX PX {TTL_MS}", 4)], left_ms=TTL_MS)
    refused = look(2, 105, "alice", [command(SET_BOB, 100)], left_ms=TTL_MS - 101)
    (life,) = lives(held, refused)
    assert (life.owner, life.span.start_ns // MS) == ("alice", 4)


def test_a_set_that_no_look_confirms_is_not_drawn() -> None:
    """It was seen, the key was not there at once after it, and nothing deleted it: it did not take effect."""
    assert lives(look(1, 105, None, [command(SET_BOB, 100)])) == []


def test_a_key_begins_when_the_node_set_it_not_when_the_lab_saw_that() -> None:
    late = look(1, 300, "bob", [command(SET_BOB, 100, seen=290)], left_ms=TTL_MS - 205)
    (life,) = lives(late)
    assert life.span.start_ns // MS == 100
    assert (life.span.end_ns or 0) // MS == 100 + TTL_MS


def test_the_stamps_of_a_node_whose_clock_was_moved_are_not_believed() -> None:
    late = look(1, 300, "bob", [command(SET_BOB, 200, seen=290)], left_ms=TTL_MS - 10)
    (life,) = lives(late, jump=True)
    assert life.span.start_ns // MS == 290


def test_a_key_that_outlived_its_release_by_expiry_is_told_so() -> None:
    first = look(1, 105, "bob", [command(SET_BOB, 100)], left_ms=TTL_MS - 6)
    (life,) = lives(first)
    assert (life.ended_by, (life.span.end_ns or 0) // MS) == ("expired", 100 + TTL_MS)


def test_a_key_that_outlived_a_restart_was_not_there_while_the_node_was_down() -> None:
    def of_the_node(f: str, at: float) -> Event:
        return Event(time_ns=round(at * MS), process="node", type="info", f=f, node="A")

    first = look(1, 105, "bob", [command(SET_BOB, 100)], left_ms=TTL_MS - 6)
    again = look(2, 310, "bob", [], left_ms=TTL_MS - 211)
    before, after = lives(first, of_the_node("node-down", 200), of_the_node("node-up", 300), again)
    assert (before.span.start_ns // MS, (before.span.end_ns or 0) // MS, before.ended_by) == (
        100,
        200,
        "down",
    )
    assert after.span.start_ns // MS >= 300
    assert (before.asked_ns, after.asked_ns) == (95 * MS, None), "no request brought it back"


def test_a_token_that_all_clients_share_is_that_of_the_last_who_asked() -> None:
    builder = HistoryBuilder(clients=["alice", "bob"], nodes=1).acquire(
        "alice", "a", 0, 10, token="same", ttl=50
    )
    builder.acquire("bob", "b", 95, 110, token="same", ttl=TTL_MS)
    words = f"SET k same NX PX {TTL_MS}"
    builder._events += [
        look(1, 5, "same", [command(f"SET k same NX PX {50}", 4)], left_ms=49),
        look(2, 102, "same", [command(words, 100)], left_ms=TTL_MS - 3),
    ]
    (node,) = extract(builder.history(), verdict_of(), "history").nodes
    assert [life.owner for life in node.lives] == ["alice", "bob"]
