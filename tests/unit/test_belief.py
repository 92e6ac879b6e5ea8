"""Belief against truth, on histories whose truth can be told by hand (times in milliseconds)."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Self

import pytest
from msgspec.structs import replace

from checker import load
from checker.history.events import Event, Model
from checker.history.history import History
from lab.analysis.belief import CrossCheck, Held, _Spans, cross_check
from lab.analysis.key_presence import Piece
from lab.report.belief import belief_lines
from tests.unit.checker.builder import MS, HistoryBuilder

NODES = "ABCDE"
GALLERY = Path(__file__).resolve().parents[2] / "reports" / "gallery"


class Watched(HistoryBuilder):
    """A history with what the observer saw on the nodes."""

    def __init__(self, nodes: int = 5) -> None:
        super().__init__(nodes=nodes, rho=0.0, epsilon_ns=0)
        self.looks = dict.fromkeys(NODES, 0)

    def node(self, f: str, at: float, node: str, **fields: object) -> Self:
        key = None if f.startswith("node-") else "k"
        self._events.append(
            Event(time_ns=round(at * MS), process="node", type="info", f=f, node=node, key=key, **fields)  # type: ignore[arg-type]
        )
        return self

    def look(
        self,
        nodes: str,
        at: float,
        token: str | None,
        *,
        left: float = 1000,
        ran: float | None = None,
        until: float | None = None,
        words: str = "DEL k",
    ) -> Self:
        """A look at nodes that was asked at ``at`` and answered 2 ms later; ``ran``: after a command."""
        for node in nodes:
            command = {} if ran is None else {"commands": [self.command(node, at, ran, words)]}
            self.looks[node] += 1
            span = {"asked_ns": round(at * MS), "answered_ns": round((until or at + 2) * MS)}
            value = {"look": self.looks[node], **span, **command}
            reported = {"token": token, "ttl_left_ns": round(left * MS)} if token else {}
            self.node("key-set" if token else "key-deleted", at, node, value=value, **reported)
        return self

    def command(self, node: str, seen: float, ran: float, words: str = "DEL k") -> dict[str, object]:
        """A command that ran after the last look so far."""
        return {
            "command": words,
            "seen_ns": round(seen * MS),
            "ran_ns": [round(ran * MS)] * 2,
            "after": self.looks[node],
        }

    def granted(self, nodes: str = "ABC", token: str = "t") -> Self:
        """Alice asks at 0 and believes from 10 on; the nodes ran her SET at 5 and were looked at at 8."""
        self.acquire("alice", "a", 0, 10, token=token)
        self.look(nodes, 8, token, ran=5, words=f"SET k {token} NX PX 1000")
        return self

    def down(self, at: float, node: str) -> Self:
        """The connection to a node is lost."""
        return self.node("node-down", at, node, value={"passed": self.looks[node]})

    def over(self, at: float) -> Self:
        """The history ends, and a little later the watch on all nodes."""
        self.lab("phase", at, "info", value="heal")
        for node in NODES:
            if self.looks[node]:
                self.node("node-left", at + 100, node, value={"passed": self.looks[node]})
        return self


def checked(builder: Watched, *, one_master: bool = False) -> CrossCheck:
    return cross_check(builder.history(), one_master=one_master)


def alone(builder: Watched) -> Held:
    (held,) = checked(builder).held
    return held


def words(builder: Watched) -> str:
    return "\n".join(f"{word}: {text}" for word, text in belief_lines(checked(builder)))


def test_they_agree_while_a_majority_keeps_the_token() -> None:
    builder = Watched().granted().look("ABC", 500, "t", left=500).look("DE", 500, None).over(480)
    held = alone(builder)
    assert held.agrees
    assert not held.differs
    assert held.most == 3
    assert words(builder).startswith("agree: the token of the one grant was on 3 of 5 nodes")


def test_a_lock_that_uses_one_node_of_five_is_reported_as_such() -> None:
    builder = Watched().granted("A").look("A", 500, "t", left=500).look("BCDE", 500, None).over(480)
    assert words(builder).startswith("agree: the token of the one grant was on A only, of 5 nodes,")


def test_a_client_that_says_held_after_a_failed_extension_has_another_line() -> None:
    def line(answer: str) -> str:
        builder = Watched().granted().look("ABC", 2000, None).look("DE", 2000, None)
        builder.extend("alice", "a", 100, 110, "fail")
        return words(builder.op("alice", "held", 1_500, 1_510, grant_id="a", value=answer).over(1_900))

    assert line("no").startswith("agree")
    assert "from 10 ms to 1.51 s" in line("yes")


def test_a_clock_that_jumps_parts_them_between_the_bounds() -> None:
    builder = Watched().granted()
    builder.fault("jump", 100, ["C"], breaks="bounded clock error")  # confirmed at 100.5
    builder.look("C", 101, None).look("AB", 500, "t").look("CDE", 500, None).over(480)
    held = alone(builder)
    assert (held.first_ns, held.last_ns) == (100 * MS, 103 * MS), (
        "gone when it jumped, or until it was looked at"
    )
    assert (held.sure_ns, held.possible_ns) == ((480 - 103) * MS, (480 - 100) * MS)
    assert [(loss.node, loss.why) for loss in held.losses] == [("C", "its clock was moved by a jump")]
    reported = words(builder)
    assert "DIFFER: alice believed in a from 10 ms to 0.48 s, the end of the steps" in reported
    assert "until 0.10 s (C: its clock was moved by a jump): 377 ms to 380 ms of belief" in reported


def test_a_node_that_is_left_with_a_majority_changes_nothing() -> None:
    builder = Watched().granted("ABCD").fault("jump", 100, ["C"])
    builder.look("C", 101, None).look("ABD", 500, "t").look("CE", 500, None).over(480)
    assert alone(builder).agrees


def test_a_command_that_deletes_the_token_ends_it_when_the_node_ran_it() -> None:
    builder = Watched(1).granted("A").look("A", 303, None, ran=300).look("A", 500, None).over(480)
    held = alone(builder)
    assert (held.first_ns, held.last_ns) == (300 * MS, 305 * MS)
    assert held.losses[0].why == "deleted or replaced by a command"
    assert "on its node only until 0.30 s" in words(builder)


def test_belief_ends_with_the_call_of_the_release() -> None:
    builder = Watched().granted().release("alice", "a", 300, 310, token="t")
    builder.look("ABC", 305, None, ran=302).look("ABCDE", 500, None).over(480)
    assert alone(builder).agrees


def test_an_expiry_is_known_without_a_look() -> None:
    builder = Watched().acquire("alice", "a", 0, 10, ttl=100, claimed=400, token="t")
    builder.look("ABC", 8, "t", left=95, ran=5, words="SET k t NX PX 100").look("ABCDE", 500, None).over(480)
    held = alone(builder)
    assert (held.first_ns, held.last_ns) == (103 * MS, 105 * MS)
    assert held.losses[0].why == "it expired"


def test_a_key_that_vanishes_without_a_reason_was_there_only_as_long_as_it_was_seen() -> None:
    builder = Watched().granted().look("C", 400, None).look("AB", 500, "t").look("CDE", 500, None).over(480)
    held = alone(builder)
    assert (held.sure_ns, held.possible_ns) == ((480 - 402) * MS, (480 - 10) * MS)
    assert held.losses[0].why == "no reason was seen"


def test_the_stamp_of_a_node_whose_clock_is_wrong_counts_for_nothing() -> None:
    builder = Watched(1).granted("A").fault("drift", 100, ["A"], until=450)
    builder.look("A", 303, None, ran=200).look("A", 500, None).over(480)
    held = alone(builder)
    assert held.first_ns == 10 * MS, "nothing tells when the command ran"
    assert held.last_ns == 305 * MS


def test_what_a_node_that_was_not_watched_had_is_not_known() -> None:
    builder = Watched(1).granted("A").down(100, "A").node("node-up", 200, "A")
    builder.look("A", 201, "t").look("A", 500, "t").over(480)
    held = alone(builder)
    assert (held.sure_ns, held.possible_ns) == (0, (203 - 10) * MS)
    assert words(builder).startswith("not known: alice believed in a")


def test_a_node_surely_has_nothing_while_it_is_down() -> None:
    builder = Watched(1).granted("A").look("A", 97, "t", left=900)
    builder.fault("crash", 100, ["A"], until=300).down(101, "A").node("node-up", 299, "A")
    builder.look("A", 299.5, "t").look("A", 500, "t").over(480)
    held = alone(builder)
    assert held.first_ns == 97 * MS
    assert held.last_ns == round(100.5 * MS), "the receipt says that it was gone"
    assert held.sure_ns == (299.5 - 100.5) * MS, "until it was started again"
    assert held.possible_ns == (301.5 - 97) * MS
    assert held.losses[0].why == "it went down in a crash"


def test_a_token_that_was_set_and_deleted_before_an_observation() -> None:
    builder = Watched(1).look("A", 1, None).acquire("alice", "a", 2, 10, token="t")
    builder.look("A", 200, None, ran=5, words="SET k t NX PX 1000")
    builder.release("alice", "a", 90, 110).look("A", 500, None).over(480)
    assert (alone(builder).sure_ns, alone(builder).possible_ns) == (0, 80 * MS)
    other = Watched(1).look("A", 1, None).acquire("alice", "a", 2, 10, token="t")
    other.look("A", 200, None, ran=5, words="SET k other NX PX 1000")
    other.release("alice", "a", 90, 110).look("A", 500, None).over(480)
    assert alone(other).sure_ns == 80 * MS, "what was set was another one"


@pytest.mark.parametrize("harmless", ["SET k u NX PX 1000", "set k u px 1000 nx", "EVAL"])
def test_what_cannot_delete_a_key_did_not(harmless: str) -> None:
    builder = Watched(1).granted("A")
    builder.node("key-touched", 101, "A", value={"commands": [builder.command("A", 101, 100, harmless)]})
    builder.look("A", 303, None, ran=300).look("A", 500, None).over(480)
    assert alone(builder).first_ns == 300 * MS


def test_commands_that_were_never_read_may_be_anything() -> None:
    builder = Watched(1).look("A", 1, None).acquire("alice", "a", 2, 10, token="t")
    builder.release("alice", "a", 90, 110).look("A", 500, None).over(480)
    assert alone(builder).sure_ns == 80 * MS
    behind = Watched(1).look("A", 1, None).acquire("alice", "a", 2, 10, token="t")
    behind.release("alice", "a", 90, 110).look("A", 500, None)
    behind.lab("phase", 480, "info", value="heal").node("node-left", 580, "A", value={"passed": 1})
    assert (alone(behind).sure_ns, alone(behind).possible_ns) == (0, 80 * MS)


def test_a_majority_that_was_never_there() -> None:
    builder = Watched().granted("AB").look("AB", 500, "t").look("CDE", 500, None).over(480)
    held = alone(builder)
    assert held.most == 2
    assert (held.sure_ns, held.possible_ns) == (470 * MS, 470 * MS)
    assert "at no time known to be on 3 of 5 nodes" in words(builder)


def test_a_node_without_observations_may_have_it() -> None:
    builder = Watched().granted("AB").look("AB", 500, "t").over(480)
    held = alone(builder)
    assert not held.differs
    assert not held.agrees


def test_a_lock_that_never_asks_a_second_node_needs_no_majority() -> None:
    builder = Watched().granted("A").look("A", 500, "t").look("BCDE", 500, None).over(480)
    assert checked(builder).needed == 1
    assert alone(builder).agrees


def test_with_replicas_one_node_is_enough() -> None:
    builder = Watched(2).granted("AB").fault("jump", 100, ["B"])
    builder.look("B", 101, None).look("A", 500, "t").look("B", 500, None).over(480)
    (held,) = checked(builder, one_master=True).held
    assert held.agrees
    assert checked(builder).held[0].differs


def test_tokens_that_several_grants_share_identify_none() -> None:
    builder = Watched().granted(token="locked").look("ABC", 500, "locked").over(480)
    builder.acquire("bob", "b", 20, 30, token="locked")
    assert checked(builder).held == ()
    assert "with a token that other grants have too" in words(builder)


def test_an_aborted_run_says_nothing_beyond_its_last_observation() -> None:
    held = alone(Watched().granted().stall("lab", 400, 1))
    assert held.sure_ns == 0
    assert held.possible_ns == (401 - 10) * MS


@pytest.mark.parametrize(
    "pieces", [(), ((0, 3),), ((2, 4), (0, 1)), ((0, 4), (1, 2)), ((0, 2), (1, 4), (1, 3)), ((1, 3), (3, 4))]
)
def test_a_span_is_covered_if_one_of_the_pieces_covers_it(pieces: tuple[tuple[int, int], ...]) -> None:
    """Also if a shorter one begins later; two that follow each other are not one."""
    spans = _Spans(Piece(*piece) for piece in pieces)
    for start_ns, end_ns in combinations(range(6), 2):
        covered = any(first <= start_ns and end_ns <= last for first, last in pieces)
        assert spans.cover(start_ns, end_ns) == covered


@pytest.mark.parametrize(
    "run", sorted(path.parent for path in GALLERY.glob("*/history.jsonl")), ids=lambda run: run.name
)
def test_stored_runs_can_be_compared_or_say_why_not(run: Path) -> None:
    found = cross_check(load(run / "history.jsonl"))
    assert found.missing or found.held
    assert belief_lines(found)
    json.dumps(found.to_dict())


@pytest.mark.parametrize("model", ["semaphore", "read-write-lock"])
def test_a_key_that_several_may_hold_is_not_searched_for_one_token(model: Model) -> None:
    history = Watched().granted().over(50).history()
    assert cross_check(history).missing is None
    shared = history.with_params(replace(history.params, model=model, permits=2))
    assert cross_check(shared).missing == (
        "several may hold this lock at once, and a key of a node shows the token of one"
    )


def test_a_history_without_nodes_says_so() -> None:
    found = cross_check(History.from_events(HistoryBuilder().acquire("alice", "a", 0, 10).events()))
    assert found.missing == "no node was observed"
    assert found.to_dict() == {"missing": "no node was observed"}


def test_the_json_form_is_in_milliseconds() -> None:
    builder = Watched().granted().fault("jump", 100, ["C"])
    builder.look("C", 101, None).look("AB", 500, "t").look("CDE", 500, None).over(480)
    kept = json.loads(json.dumps(checked(builder).to_dict()))
    assert (kept["grants"], kept["agree"], kept["part"], kept["not_known"]) == (1, 0, 1, 0)
    (one,) = kept["grants_that_do_not_agree"]
    assert one["without_enough_nodes_ms"] == [377.0, 380.0]
    assert one["since_ms"] == [100.0, 103.0]
    assert one["losses"] == [{"node": "C", "ms": [100.0, 103.0], "why": "its clock was moved by a jump"}]
