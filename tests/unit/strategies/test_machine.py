"""The state machine: it holds for a correct lock, finds broken ones, and does the same with the same seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from lab.api.strategies import LockMachine, Violated, simulated
from tests.fuzzing import examples


@pytest.fixture(autouse=True, scope="module")
def _simulated(_patched: None) -> Iterator[None]:
    with simulated():
        yield


class BareDel(LockMachine):
    lock = "mutant:bare-del"


class SetWithoutNx(LockMachine):
    lock = "mutant:set-without-nx"


class Everything(LockMachine):
    """All faults, and all that a lock cannot prevent then is allowed."""

    clients = 3
    faults = "all"
    allow = ("overlap", "stale-write", "unfenced-write", "lost-update", "cycle", "leak", "continuity-loss")


class Noting(LockMachine):
    """Notes the history of each run."""

    digests: ClassVar[list[str]] = []

    def teardown(self) -> None:
        """Note it."""
        if self.history is not None:
            self.digests.append(self.history.digest())
        super().teardown()


def play(machine: type[LockMachine], number: int) -> None:
    """Run it so often, with the same choices each time."""
    run_state_machine_as_test(machine, settings=settings(max_examples=number, deadline=None))


@pytest.mark.parametrize("machine", [LockMachine, Everything])
def test_redlock_holds_while_it_is_used_and_disturbed(machine: type[LockMachine]) -> None:
    done: Counter[tuple[str, str]] = Counter()

    class Counting(machine):  # type: ignore[valid-type, misc]
        def teardown(self) -> None:
            if self.history is not None:
                done.update((event["f"], event["type"]) for event in self.history.events)
            super().teardown()

    play(Counting, examples(50))
    for f in ("acquire", "extend", "write", "release", "cut", "heal", "reset", "crash"):
        assert done[f, "ok"] >= examples(5), done
    assert done["acquire", "fail"] >= examples(5), done


@pytest.mark.full
def test_a_lock_that_takes_what_is_taken_is_found_by_two_steps() -> None:
    with pytest.raises(Violated) as caught:
        play(SetWithoutNx, 100)
    assert "overlap: alice and bob both held 'resource'" in str(caught.value)
    steps = [note for note in caught.value.__notes__ if note.startswith("state.a")]
    assert steps == ["state.acquire(client='alice')", "state.acquire(client='bob')"]


def test_a_late_release_that_deletes_another_clients_key_is_seen() -> None:
    machine = BareDel()
    try:
        machine.begin(seed=0)
        machine.acquire("alice")
        machine.wait("5s")
        machine.acquire("bob")
        machine.release("alice")
        machine.nothing_is_violated()
        machine.acquire("alice")
        with pytest.raises(Violated, match="overlap"):
            machine.nothing_is_violated()
    finally:
        machine.teardown()


def tell(seed: int) -> str:
    """A history in which everything happens, as a hash."""
    machine = Everything()
    try:
        machine.begin(seed=seed)
        machine.cut("alice", "AB", "replies")
        machine.acquire("alice")
        machine.write("alice")
        assert machine.disturbed() == ["alice"]
        machine.heal("alice")
        machine.extend("alice")
        machine.pause("alice")
        assert (machine.paused(), machine.holders()) == (["alice"], [])
        machine.crash("C")
        assert machine.down() == ["C"]
        machine.wait("5s")
        machine.acquire("bob")
        machine.restart("C")
        machine.resume("alice")
        machine.hold("bob", "ABC", "requests")
        machine.reset("carol", "A")
        machine.release("bob")
        machine.release("alice")
        machine.jump("D", "+6s")
        machine.kill("carol")
        machine.wait("20ms")
        machine.nothing_is_violated()
        assert machine.history is not None
        assert (machine.disturbed(), machine.down(), machine.paused()) == (["bob"], [], [])
        done = {(event["f"], event["type"]) for event in machine.history.events}
        assert {("acquire", "ok"), ("write", "ok"), ("extend", "ok"), ("release", "fail")} <= done
        kinds = {event["f"] for event in machine.history.events if event["process"] == "nemesis"}
        ends = {"heal", "resume", "restart"}
        assert kinds == {"cut", "pause", "crash", "hold", "reset", "jump", "client_crash"} | ends
        assert not [e for e in machine.history.events if e["process"] == "nemesis" and e["type"] == "fail"]
        return machine.history.digest()
    finally:
        machine.teardown()


def test_the_same_seed_and_steps_give_the_same_history() -> None:
    assert tell(3) == tell(3)
    assert tell(3) != tell(4)


def test_two_searches_with_the_same_seed_give_the_same_histories() -> None:
    found = []
    for _ in range(2):
        Noting.digests = []
        play(Noting, 8)
        found.append(Noting.digests)
    assert found[0] == found[1]
    assert len(set(found[0])) > 4


def test_an_operation_that_does_not_end_goes_on_beside_the_others() -> None:
    """A paused client is not asked, and one that is in an operation neither."""
    machine = Everything()
    try:
        machine.begin(seed=0)
        machine.acquire("alice")
        machine.hold("alice", "ABCDE", "requests")
        machine.cluster.start("alice", "release")
        assert machine.idle() == ["bob", "carol"]
        machine.wait("1s")
        assert machine.idle() == ["alice", "bob", "carol"]
        machine.kill("bob")
        assert machine.idle() == ["alice", "carol"]
    finally:
        machine.teardown()
