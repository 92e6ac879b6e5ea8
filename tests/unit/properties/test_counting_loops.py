"""What semaphores and read-write locks have given at each instant, against plain loops."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from checker import check
from checker.errors import HistoryError
from checker.history.evidence import Evidence
from checker.history.operations import MISSING, NEVER, NONE, F, Status
from checker.properties.counting import ROOM, guaranteed_holds, levels, refused_with_room, weights
from tests.unit.checker.builder import MS, HistoryBuilder

MARGINS = {"rho": 0.0, "delta_ns": 2 * MS, "epsilon_ns": MS, "refusals": ["taken"]}


def drawn(number: int) -> HistoryBuilder:
    """A lock of which grants have no names, or some; what is released may be more than was taken."""
    random = Random(number)
    shared = random.random() < 0.4
    model = (
        {"model": "read-write-lock"}
        if shared
        else {"model": "semaphore", "permits": random.choice((1, 2, 3))}
    )
    made = HistoryBuilder(**{**MARGINS, **model, "delta_ns": random.choice((0, 2)) * MS})
    wants: tuple[Any, ...] = ("read", "read", "write", None) if shared else (1, 1, 2, None)
    for at in range(random.choice((2, 4, 6, 9))):
        call, who, key = random.randrange(20), random.choice(("alice", "alice", "bob")), random.choice("kkl")
        back, name = call + random.randrange(4), {"grant_id": f"g{at}"} if random.random() < 0.2 else {}
        asked = {"value": random.choice(wants), "ttl_ns": random.choice((None, None, 5 * MS))}
        kind = random.choice(("ok", "ok", "ok", "info", "fail"))
        error: dict[str, Any] = {"error": random.choice(("taken", "timeout"))} if kind == "fail" else {}
        if random.random() < 0.6:
            made.op(f"{who}/{at}", "acquire", call, back, kind, asked=asked, key=key, **name, **error)
        else:
            made.op(f"{who}/{at}", "release", call, back, kind, key=key, **error)
    return made


class Loops:
    """The windows of `counting`, one client and key after the other."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence, self.ops = evidence, evidence.history.ops
        self.weight = weights(evidence).tolist()

    def bare(self, kind: F, *outcomes: Status) -> list[list[int]]:
        """The rows without grants, by client and key."""
        rows = [r for r in self.ops.rows(kind).tolist() if self.ops.grant[r] == NONE]
        groups = sorted({self.group(r) for r in range(len(self.ops))})
        return [[r for r in rows if self.group(r) == g and self.ops.status[r] in outcomes] for g in groups]

    def group(self, row: int) -> tuple[int, int]:
        return int(self.ops.client[row]), int(self.ops.key[row])

    def holds(self) -> list[tuple[int, int, int, int]]:
        """Row, weight, begin and end of what was taken without a name."""
        ops, params, found = self.ops, self.evidence.params, []
        groups = zip(
            self.bare(F.ACQUIRE, Status.OK),
            self.bare(F.RELEASE, Status.OK, Status.INFO),
            self.bare(F.ACQUIRE, Status.INFO),
            strict=True,
        )
        for taken, back, unsure in groups:
            taken.sort(key=lambda r: int(ops.return_ns[r]))
            back.sort(key=lambda r: int(ops.call_ns[r]))
            ends = [int(ops.call_ns[r]) for r in back] + [NEVER] * len(taken)
            doubtful = bool(unsure)
            for at, row in enumerate(taken):
                doubtful |= ends[at] < ops.return_ns[row]
                doubtful |= at + 1 < len(taken) and ends[at] > ops.call_ns[taken[at + 1]]
            open_ends = self.evidence.open_ends(np.array(taken, np.int64))[0].tolist()
            for at, row in enumerate(taken):
                lease = int(ops.ttl_ns[row])
                over = NEVER if lease == MISSING else int(ops.call_ns[row]) + lease - params.delta_ns
                weight = min(self.weight[r] for r in taken) if doubtful else self.weight[row]
                begin = int(ops.return_ns[row]) + params.epsilon_ns
                end = min(ends[at], over, open_ends[at]) - params.epsilon_ns
                if begin < end:
                    found.append((row, weight, begin, end))
        return found


def proper(builder: HistoryBuilder) -> Evidence | None:
    try:
        return Evidence(builder.history())
    except HistoryError:
        return None


@pytest.mark.parametrize("first", range(0, 300, 100))
def test_what_was_held_for_certain(first: int) -> None:
    for number in range(first, first + 100):
        evidence = proper(drawn(number))
        if evidence is None:
            continue
        loops = Loops(evidence)
        holds = guaranteed_holds(evidence, weights(evidence))
        rows = list(
            zip(
                *(getattr(holds, name).tolist() for name in ("row", "weight", "start_ns", "end_ns")),
                strict=True,
            )
        )
        bare = [one for one in rows if evidence.history.ops.grant[one[0]] == NONE]
        assert sorted(bare) == sorted(loops.holds()), number
        assert holds.key.tolist() == evidence.ops.key[holds.row].tolist()
        for key, time_ns, level in zip(*(column.tolist() for column in levels(holds)), strict=True):
            over = [
                w for row, w, begin, end in rows if evidence.ops.key[row] == key and begin <= time_ns < end
            ]
            began = [w for row, w, begin, _ in rows if evidence.ops.key[row] == key and begin == time_ns]
            assert (
                sum(over) - sum(began)
                <= level
                <= sum(over)
                + sum(w for row, w, _, end in rows if evidence.ops.key[row] == key and end == time_ns)
            )


def test_weights_of_what_is_asked_for() -> None:
    def asked(value: Any, **model: Any) -> int:
        builder = (
            HistoryBuilder(**model)
            .op("alice", "release", 0, 1)
            .op("bob", "acquire", 2, 3, asked={"value": value})
        )
        return int(weights(Evidence(builder.history()))[1])

    assert [asked(value, model="semaphore", permits=3) for value in (None, 1, 7, ROOM)] == [1, 1, 7, ROOM]
    words = [asked(value, model="read-write-lock") for value in (None, "read", "write")]
    assert words == [ROOM, 1, ROOM]
    for value in (0, -1, "read", ROOM + 1):
        with pytest.raises(HistoryError, match=r"expected a positive number of permits \(event 2\)"):
            asked(value, model="semaphore", permits=3)
    for value in (1, "both", ""):
        with pytest.raises(HistoryError, match=r'expected "read" or "write" \(event 2\)'):
            asked(value, model="read-write-lock")


@pytest.mark.parametrize(
    ("permits", "fine"), [(None, False), (0, False), (1, True), (ROOM - 1, True), (ROOM, False)]
)
def test_how_many_permits_a_semaphore_may_have(permits: int | None, fine: bool) -> None:
    builder = HistoryBuilder(model="semaphore", permits=permits).acquire("alice", "g", 0, 1)
    if fine:
        assert builder.verdict()["mutual_exclusion"].outcome == "ok"
    else:
        with pytest.raises(HistoryError, match="expected a positive number"):
            check(builder.history())


# -- tries that were refused ---------------------------------------------------------------------------------


def refused(builder: HistoryBuilder) -> list[int]:
    """The events that called a try which was refused although there was room."""
    evidence = Evidence(builder.history())
    capacity = evidence.params.permits or ROOM
    found = refused_with_room(evidence, weights(evidence), capacity)
    return [finding.witnesses[0] for finding in found]


def tried(
    call: float, back: float, error: str = "taken", *, held: tuple[float, float] | None, **more: Any
) -> HistoryBuilder:
    """Alice tries from `call` to `back`; Bob may hold the lock from 8 until he has given it back."""
    builder = HistoryBuilder(**{**MARGINS, "model": "semaphore", "permits": 1, "epsilon_ns": 0, **more})
    if held is not None:
        builder.acquire("bob", "b", 8, 10, ttl=None).release("bob", "b", *held)
    return builder.op("alice", "acquire", call, back, "fail", error=error)


def test_only_errors_that_say_so_are_refusals() -> None:
    assert refused(tried(2, 4, held=None)) == [0]
    assert refused(tried(2, 4, "timeout", held=None)) == []
    assert refused(tried(2, 4, held=None, refusals=[])) == []
    assert refused(tried(2, 4, held=None).op("carol", "release", 1, 3, "fail", error="taken")) == [1]


@pytest.mark.parametrize(
    ("call", "back", "fine"),
    [
        (1, 7, False),
        (1, 8, True),
        (1, 9, True),
        (12, 13, True),
        (19, 40, True),
        (30, 40, True),
        (31, 40, False),
    ],
)
def test_a_try_is_refused_rightly_while_another_may_hold_the_lock(
    call: float, back: float, fine: bool
) -> None:
    builder = tried(call, back, held=(20, 30))
    assert bool(refused(builder)) is not fine
    other = tried(call, back, held=(20, 30)).acquire("carol", "c", 0, 50, key="l")
    assert bool(refused(other)) is not fine
    two = tried(call, back, held=(20, 30), permits=2)
    assert refused(two)


def test_stamps_are_uncertain_on_both_sides() -> None:
    assert refused(tried(1, 5, held=(20, 30), epsilon_ns=MS))
    assert not refused(tried(1, 6, held=(20, 30), epsilon_ns=MS))
    assert not refused(tried(32, 40, held=(20, 30), epsilon_ns=MS))
    assert refused(tried(33, 40, held=(20, 30), epsilon_ns=MS))


def test_a_writer_that_waits_explains_why_a_reader_is_refused() -> None:
    reader = HistoryBuilder(**{**MARGINS, "model": "read-write-lock"})
    reader.op("alice", "acquire", 2, 4, "fail", asked={"value": "read"}, error="taken")
    assert refused(reader) == [0]
    reader.op("bob", "acquire", 1, 2, "fail", asked={"value": "write"}, error="taken")
    assert refused(reader) == [0], "bob, whom nobody kept from it"


@pytest.mark.parametrize(
    ("writers", "accused"),
    [
        ([(2, 4)], [0]),
        ([(2, 4), (4, 6)], []),
        ([(2, 4), (5, 6)], [0, 2]),
        ([(1, 9), (2, 3), (12, 13)], [4]),
    ],
)
def test_a_writer_is_no_reason_for_its_own_refusal(
    writers: list[tuple[float, float]], accused: list[int]
) -> None:
    builder = HistoryBuilder(**{**MARGINS, "model": "read-write-lock", "epsilon_ns": 0})
    for number, (call, back) in enumerate(writers):
        builder.op(f"w{number}", "acquire", call, back, "fail", asked={"value": "write"}, error="taken")
    tried_at = {int(e.time_ns): at for at, e in enumerate(builder.history().events()) if e.type == "invoke"}
    expected = [tried_at[int(writers[number // 2][0] * MS)] for number in accused]
    assert refused(builder) == expected


@pytest.mark.parametrize(
    ("outcome", "back", "explained"),
    [("ok", 30, False), ("info", 30, True), ("fail", 30, True), ("ok", 39, True)],
)
def test_what_was_given_back_without_a_name(outcome: str, back: float, explained: bool) -> None:
    builder = HistoryBuilder(**{**MARGINS, "model": "semaphore", "permits": 1, "epsilon_ns": 0})
    builder.op("bob", "acquire", 8, 10).op("bob", "release", 20, back, outcome)
    builder.op("alice", "acquire", 38, 45, "fail", error="taken")
    assert bool(refused(builder)) is not explained


def test_of_grants_without_names_that_weigh_differently_nothing_is_known() -> None:
    def gave_back(*weights: int) -> list[int]:
        builder = HistoryBuilder(**{**MARGINS, "model": "semaphore", "permits": 2, "epsilon_ns": 0})
        for at, weight in enumerate(weights):
            builder.op("bob", "acquire", 4 * at, 4 * at + 1, asked={"value": weight})
            builder.op("bob", "release", 4 * at + 2, 4 * at + 3)
        return refused(builder.op("alice", "acquire", 38, 45, "fail", error="taken"))

    assert gave_back(1, 1)
    assert gave_back(2, 2)
    assert not gave_back(1, 2)
