"""The verdict says only what was shown: passes on liveness, validity, the order of grants, belief, causes."""

from __future__ import annotations

from typing import Any, Self

import pytest

from checker.history.events import Event
from checker.history.evidence import Evidence
from checker.verdict import Verdict
from tests.unit.checker.builder import MS, HistoryBuilder, names

NODES = "ABCDE"


class Watched(HistoryBuilder):
    """A history with what was seen on five nodes, all of which were watched to the end."""

    def __init__(self, **params: object) -> None:
        super().__init__(rho=0.0, epsilon_ns=0, clients=["alice", "bob", "carol"], **params)
        self.looks = dict.fromkeys(NODES, 0)

    def look(
        self, nodes: str, at: float, token: str | None, *commands: str, left: float = 1_000, ran: float = -1
    ) -> Self:
        """A look at nodes, asked at `at` and answered 1 ms later, after commands that ran at `ran`."""
        for node in nodes:
            said = [
                {
                    "command": words,
                    "seen_ns": round(at * MS),
                    "ran_ns": [round(ran * MS)] * 2,
                    "after": self.looks[node],
                }
                for words in commands
            ]
            self.looks[node] += 1
            span = {"asked_ns": round(at * MS), "answered_ns": round((at + 1) * MS)}
            value = {"look": self.looks[node], **span, **({"commands": said} if said else {})}
            self._node("key-set" if token else "key-deleted", at, node, token, left, value)
        return self

    def _node(
        self, f: str, at: float, node: str, token: str | None, left: float, value: dict[str, object]
    ) -> None:
        reported = {"token": token, "ttl_left_ns": round(left * MS)} if token else {}
        self._events.append(
            Event(
                time_ns=round(at * MS),
                process="node",
                type="info",
                f=f,
                node=node,
                key=None if f == "node-left" else "k",
                value=value,
                **reported,  # type: ignore[arg-type]
            )
        )

    def sets(self, nodes: str, token: str, ran: float, *, left: float = 1_000) -> Self:
        """A SET that the nodes ran at `ran`, and were looked at after."""
        return self.look(nodes, ran + 1, token, f"SET k {token} NX PX 1000", left=left, ran=ran)

    def verdict(self, model: str | None = None) -> Verdict:
        end = max(event.time_ns for event in self._events) / MS
        for node in NODES:
            self._node("node-left", end, node, None, 0, {"passed": self.looks[node]})
        return super().verdict(model)


# -- liveness ------------------------------------------------------------------------------------------------


def refusals(count: int, every: int, **reported: Any) -> HistoryBuilder:
    """Alice holds and releases; from 100 ms on Bob is refused, at once each time."""
    builder = HistoryBuilder(unavailable_ns=1_000 * MS, grace_ns=200 * MS)
    builder.acquire("alice", "g1", 0, 10, ttl=10_000).release("alice", "g1", 20, 30)
    for number in range(count):
        at = 300 + number * every
        builder.acquire("bob", f"b{number}", at, at + 20, "fail", ttl=10_000, **reported)
    return builder


@pytest.mark.parametrize(("count", "every"), [(4, 1_120), (6, 1_120)])
def test_refusals_that_nobody_explains_are_no_pass(count: int, every: int) -> None:
    silent = refusals(count, every, refused_by=0).verdict()
    assert silent["fault_tolerance"].outcome == silent["deadlock_freedom"].outcome == "unknown"
    assert "no client tried for 1.1 s" in silent["fault_tolerance"].why
    refused = refusals(count, every).verdict()
    assert refused["fault_tolerance"].outcome == "violated"
    assert names(refused) >= {"unavailable"}
    assert refused["deadlock_freedom"].outcome == "unknown"


@pytest.mark.parametrize(("count", "waited"), [(2, 1_140), (3, 2_260)])
def test_refusals_count_up_to_the_last_event(count: int, waited: int) -> None:
    (finding,) = refusals(count, 1_120).verdict().named("unavailable")
    assert finding.details["waited_ns"] == waited * MS


def test_refusals_are_no_series_if_another_client_tries_beside_one_of_them() -> None:
    beside = refusals(2, 1_100).acquire("carol", "c", 290, 310, "fail", ttl=10_000)
    assert beside.verdict()["fault_tolerance"].outcome == "unknown"


def test_a_later_grant_is_a_pass_only_if_its_try_began_in_time() -> None:
    late = refusals(2, 1_100, refused_by=0).acquire("bob", "g2", 2_600, 2_610, ttl=10_000)
    assert late.verdict()["fault_tolerance"].outcome == "unknown"
    soon = refusals(2, 300, refused_by=0).acquire("bob", "g2", 1_000, 1_010, ttl=10_000)
    seen = soon.verdict()
    assert seen["fault_tolerance"].outcome == seen["deadlock_freedom"].outcome == "ok"
    assert "acquired again once, by tries that began within 970 ms" in seen["deadlock_freedom"].why


def test_a_lock_that_nobody_asked_for_in_time_is_no_pass_on_deadlock_freedom() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).release("alice", "g1", 20, 30)
    seen = builder.acquire("bob", "g2", 9_000, 9_010).verdict()["deadlock_freedom"]
    assert seen.outcome == "unknown"
    assert seen.why.startswith("no client tried for 9 s while 'k' was free (from 30 ms)")
    assert (
        builder.acquire("alice", "g3", 9_500, 9_510, "fail").verdict()["deadlock_freedom"].outcome
        == "unknown"
    )


def test_a_lock_that_was_held_to_the_end_passes_and_says_why() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10, ttl=10_000).acquire("bob", "b", 100, 110, "fail")
    seen = builder.verdict()["deadlock_freedom"]
    assert seen.outcome == "ok"
    assert "never free while a client asked for it in vain" in seen.why


def test_one_proof_among_idle_times_is_enough() -> None:
    builder = HistoryBuilder().acquire("alice", "g1", 0, 10).release("alice", "g1", 20, 30)
    builder.acquire("bob", "g2", 100, 110).release("bob", "g2", 120, 130).acquire("alice", "g3", 9_000, 9_010)
    assert builder.verdict()["deadlock_freedom"].outcome == "ok"


# -- what the lock says of its own attempt -------------------------------------------------------------------


def granted(*, old: str, fresh: str, **params: object) -> Watched:
    """Alice calls at 0, gets some nodes at 5, the others at 600, and says that her attempt began at 590."""
    builder = Watched(**params)
    reported: dict[str, Any] = {"attempt_ns": 590 * MS, "deadline_ns": 1_580 * MS, "token": "t"}
    builder.acquire("alice", "g1", 0, 610, claimed=970, **reported)
    builder.sets(old, "t", 5).sets(fresh, "t", 600)
    return builder.look("ABCDE".translate({ord(c): None for c in old + fresh}), 602, None)


def test_an_attempt_that_counts_earlier_votes_is_held_to_those() -> None:
    verdict = granted(old="AB", fresh="C").verdict()
    (finding,) = verdict.named("false-validity")
    assert finding.severity == "violation"
    assert finding.headline == "alice's acquire promised 572 ms more than its lease has"


@pytest.mark.parametrize("nodes", [5, None])
def test_an_early_vote_that_was_not_needed_accuses_nobody(nodes: int | None) -> None:
    """Nor does one in a cluster of unknown size, in which the others may have been enough."""
    verdict = granted(old="A", fresh="BCDE", nodes=nodes).verdict()
    assert verdict["lease_honesty"].outcome == "ok"


def test_earlier_votes_beside_a_fresh_majority_are_no_lie() -> None:
    assert not granted(old="AB", fresh="CDE").verdict().named("false-validity")


def test_a_token_that_was_undone_and_set_again_is_no_lie() -> None:
    builder = granted(old="", fresh="ABC").sets("AB", "t", 5).look("AB", 300, None, "DEL k", ran=299)
    assert not builder.verdict().named("false-validity")


def test_a_lock_of_one_node_is_not_held_to_a_majority() -> None:
    assert granted(old="", fresh="A").verdict()["lease_honesty"].outcome == "ok"


def test_a_node_whose_clock_was_moved_proves_nothing() -> None:
    assert granted(old="A", fresh="BC").verdict().named("false-validity")
    builder = granted(old="A", fresh="BC").fault("jump", 300, ["A"])
    assert not builder.verdict().named("false-validity")


def test_success_after_the_lease_is_no_validity_below_zero() -> None:
    builder = HistoryBuilder(single_attempt=True).acquire("alice", "g", 0, 9_600, claimed=-8_591)
    (finding,) = builder.verdict().named("false-validity")
    assert finding.headline == "alice's acquire returned success 8.6 s after its lease was over"
    assert "of validity" not in finding.why


# -- the order of grants -------------------------------------------------------------------------------------


def overtaken(*, watched: bool, fences: bool = True) -> Watched:
    """Alice asks first and draws fence 2; Bob gets 3 and is done; only then do nodes have Alice's token."""
    builder = Watched(lock_fences=fences)
    reported: list[dict[str, Any]] = [{"fence": 3}, {"fence": 2}] if fences else [{}, {}]
    builder.acquire("bob", "b", 10, 20, token="b", **reported[0]).release("bob", "b", 40, 45)
    builder.acquire("alice", "a", 0, 80, token="a", **reported[1])
    if watched:
        builder.sets("ABC", "b", 15).look("DE", 16, None).look("ABC", 50, None, "DEL k", ran=44)
        builder.sets("ABC", "a", 70).look("DE", 71, None)
    return builder


def test_a_fence_drawn_before_the_grant_goes_backwards() -> None:
    (finding,) = overtaken(watched=True).verdict().named("fence-order")
    assert finding.headline == "alice was granted 'k' with fence 2 after bob had got fence 3"
    assert finding.clients == ("bob", "alice")


def test_a_stale_write_is_seen_once_the_grants_are_in_order() -> None:
    builder = overtaken(watched=True, fences=False)
    builder.write("alice", "a", 90, 95, 0, 1).write("bob", "b", 100, 105, 0, 2)
    assert "unfenced-write" in names(builder.verdict())


def test_where_either_order_is_possible_nothing_is_said_of_fences() -> None:
    verdict = overtaken(watched=False).verdict()
    assert not verdict.named("fence-order")
    assert verdict["fencing"].outcome == "unknown"
    assert "either grant may have begun first" in verdict["fencing"].why


def test_where_either_order_is_possible_nothing_is_said_of_a_late_write() -> None:
    builder = overtaken(watched=False, fences=False)
    assert builder.verdict()["fencing"].outcome == "absent"
    builder.write("alice", "a", 90, 95, 0, 1).write("bob", "b", 100, 105, 0, 2)
    seen = builder.verdict()["fencing"]
    assert (seen.outcome, "unfenced-write" in names(builder.verdict())) == ("unknown", False)


def test_grants_of_a_contended_lock_that_grow_as_they_return_pass() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 20, fence=1).release("alice", "a", 30, 35)
    builder.acquire("bob", "b", 10, 50, fence=2)
    assert builder.verdict()["fencing"].outcome == "ok"


# -- belief --------------------------------------------------------------------------------------------------


def believed(builder: HistoryBuilder) -> list[tuple[float, float]]:
    segments = Evidence(builder.history()).believed
    pairs = zip(segments.start_ns.tolist(), segments.end_ns.tolist(), strict=True)
    return [(start / MS, end / MS) for start, end in sorted(pairs)]


def held(
    builder: HistoryBuilder, call: float, back: float, answer: str, claimed: float | None = None
) -> HistoryBuilder:
    reported: dict[str, Any] = {} if claimed is None else {"claimed_ns": round(claimed * MS)}
    return builder.op("alice", "held", call, back, grant_id="g", value=answer, **reported)


def test_a_client_that_says_held_after_a_failed_extension_believes_on() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10, claimed=900)
    assert believed(builder.extend("alice", "g", 100, 110, "fail")) == [(10, 110)]
    assert believed(held(builder, 200, 210, "yes")) == [(10, 910)]
    assert believed(held(builder, 300, 310, "no")) == [(10, 310)]


def test_a_client_that_says_held_after_its_deadline_believes_on() -> None:
    builder = held(HistoryBuilder().acquire("alice", "g", 0, 10, claimed=900), 1_500, 1_510, "yes")
    assert believed(builder) == [(10, 1_510)]
    assert believed(held(builder, 2_000, 2_010, "yes", claimed=500)) == [(10, 2_510)]
    assert believed(builder.release("alice", "g", 2_100, 2_110)) == [(10, 2_100)]


def test_what_a_client_believes_after_a_failed_extension_counts() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10, claimed=900)
    builder.extend("alice", "g", 100, 110, "fail", value="yes")
    assert believed(builder) == [(10, 910)]
    assert believed(builder.extend("alice", "g", 200, 210, "fail", value="no")) == [(10, 210)]


def test_answers_after_a_release_are_no_belief() -> None:
    builder = HistoryBuilder().acquire("alice", "g", 0, 10, claimed=900).release("alice", "g", 50, 60)
    assert believed(held(builder, 200, 210, "yes")) == [(10, 50)]


# -- causes --------------------------------------------------------------------------------------------------


def overlapping(carol: str = "ABC") -> Watched:
    """Bob holds from 20 on; Carol is granted at 120, by some nodes."""
    builder = Watched().acquire("bob", "b", 10, 20, token="b").sets("ABC", "b", 15).look("DE", 16, None)
    builder.acquire("carol", "c", 110, 120, token="c").sets(carol, "c", 115)
    return builder


def test_an_overlap_names_the_command_and_whose_it_was() -> None:
    builder = (
        overlapping()
        .acquire("alice", "a", 0, 5, ttl=5)
        .op("alice", "release", 70, 95, "info", grant_id="a", error="timeout")
    )
    (finding,) = builder.look("ABC", 91, None, "DEL k", ran=90).verdict().named("overlap")
    cause = finding.cause
    assert cause is not None
    assert (cause.kind, cause.actor, cause.nodes, cause.command) == (
        "command",
        "alice",
        ("A", "B", "C"),
        "DEL k",
    )
    assert (cause.offset_ns, finding.headline) == (90 * MS, "bob and carol both held 'k' for at least 890 ms")
    assert finding.evidence[1].startswith(
        "cause: alice's DEL deleted the key on A, B and C at 0.09 s (event "
    )
    assert builder.events()[cause.event].f == "key-deleted"


@pytest.mark.parametrize(
    ("did", "commands"),
    [
        ("deleted", ("DEL k", "unlink k", "GETDEL k")),
        ("overwrote", ("SET k x", "GETSET k x", "PSETEX k 5 x", "SETEX k 5 x")),
        ("set the time to live of", ("EXPIRE k 1", "PEXPIRE k 1", "PEXPIREAT k 1")),
        ("renamed", ("RENAME k l",)),
        ("changed", ("XADD k", "RESTORE k")),
    ],
)
def test_what_a_command_did_is_told_in_words(did: str, commands: tuple[str, ...]) -> None:
    for words in commands:
        (finding,) = overlapping().look("ABC", 91, None, words, ran=90).verdict().named("overlap")
        name = words.partition(" ")[0].upper()
        assert f"cause: a {name} {did} the key on A, B and C at 0.08 s" in finding.evidence[1]


def test_the_arguments_of_a_script_tell_whose_its_commands_were() -> None:
    builder = overlapping().acquire("alice", "a", 0, 5, ttl=5, token="a")
    builder.look("ABC", 91, None, "EVALSHA 1 k a", "DEL k", ran=90)
    (finding,) = builder.verdict().named("overlap")
    assert finding.cause is not None
    assert finding.cause.actor == "alice"


def test_a_key_may_be_deleted_before_its_holder_knows_of_the_grant() -> None:
    builder = overlapping().acquire("alice", "a", 0, 5, ttl=5).release("alice", "a", 12, 25)
    (finding,) = builder.look("ABC", 18, None, "DEL k", ran=17.5).verdict().named("overlap")
    assert finding.cause is not None
    assert (finding.cause.kind, finding.cause.actor) == ("command", "alice")


def test_an_overlap_names_the_clock_that_was_moved() -> None:
    builder = overlapping("CDE").fault("jump", 60, ["C"], breaks="bounded clock error")
    (finding,) = builder.look("C", 80, None).verdict().named("overlap")
    assert finding.cause is not None
    assert (finding.cause.kind, finding.cause.nodes) == ("clock", ("C",))
    assert builder.events()[finding.cause.event].f == "jump"


def test_a_clock_that_had_jumped_before_is_no_cause() -> None:
    builder = overlapping("CDE").fault("jump", 1, ["C"], breaks="bounded clock error")
    (finding,) = builder.look("C", 80, None).verdict().named("overlap")
    assert finding.cause is None


def test_an_overlap_names_a_node_that_went_down() -> None:
    builder = overlapping("CDE").fault("power_cut", 60, ["C"], until=70).look("C", 80, None)
    (finding,) = builder.verdict().named("overlap")
    assert finding.cause is not None
    assert finding.cause.text.startswith("C lost the key in a power cut at 0.05 s (event ")


REMOVED = "the key was removed from C by the nemesis at 0.05 s (event "


@pytest.mark.parametrize("commands", [(), ("UNLINK k",)])
def test_an_overlap_names_a_key_that_the_nemesis_removed(commands: tuple[str, ...]) -> None:
    builder = overlapping("CDE").fault("evict", 60, ["C"], until=62).look("C", 62, None, *commands, ran=60)
    (finding,) = builder.verdict().named("overlap")
    assert finding.cause is not None
    assert (finding.cause.kind, finding.cause.actor, finding.cause.nodes) == ("node", "C", ("C",))
    assert finding.cause.text.startswith(REMOVED)


def test_an_unlink_of_a_client_is_not_the_nemesis() -> None:
    builder = overlapping("CDE").fault("evict", 20, ["C"], until=22).fault("evict", 60, ["B"], until=62)
    (finding,) = builder.look("C", 62, None, "UNLINK k", ran=60).verdict().named("overlap")
    assert finding.cause is not None
    assert finding.cause.kind == "command"


def test_an_overlap_says_that_a_grant_never_had_a_majority() -> None:
    (finding,) = overlapping("DE").look("ABC", 118, "b", left=897).verdict().named("overlap")
    assert finding.cause is not None
    assert (finding.cause.kind, finding.cause.actor, finding.cause.nodes) == (
        "minority",
        "carol",
        ("D", "E"),
    )


def test_nothing_seen_is_no_cause_and_a_cause_is_in_the_json_form() -> None:
    builder = HistoryBuilder().acquire("alice", "a", 0, 10).acquire("bob", "b", 20, 30)
    (finding,) = builder.verdict().named("overlap")
    assert finding.cause is None
    seen = overlapping("DE").look("ABC", 118, "b", left=897).verdict()
    (overlap,) = (finding for finding in seen.findings if finding.name == "overlap")
    assert overlap.cause is not None
    reported = seen.to_dict()["properties"]["mutual_exclusion"]["findings"]
    assert [finding["cause"] for finding in reported] == [overlap.cause.to_dict()]
