"""A model of one's own: judged by search, alone and from the command line, and told what is wrong with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from checker.errors import HistoryError
from checker.linearizability.custom import (
    IMPOSSIBLE,
    CustomModel,
    Operation,
    check_model,
    load_model,
    operations_of,
)
from tests.unit.checker.builder import HistoryBuilder

MODEL = """
from checker.linearizability.custom import IMPOSSIBLE, CustomModel

class Register(CustomModel):
    def init(self):
        return 0

    def step(self, state, operation):
        if operation.f == "write":
            return operation.input
        return state if operation.output == state else IMPOSSIBLE
"""


class Stack(CustomModel):
    """A stack of which `read` takes the top: an observer by name that changes the state."""

    def init(self) -> tuple[int, ...]:
        return ()

    def step(self, state: tuple[int, ...], operation: Operation) -> Any:
        if operation.f == "push":
            return (*state, operation.input)
        return state[:-1] if state and state[-1] == operation.output else IMPOSSIBLE


def op(
    process: str,
    f: str,
    called: int,
    returned: int | None,
    input: Any = None,
    output: Any = None,
    key: Any = 0,
) -> Operation:
    return Operation(process, f, called, returned, input, output, key)


def test_an_order_is_found_or_there_is_none() -> None:
    pushes = [op("a", "push", 0, 1, 1), op("b", "push", 2, 9, 2)]
    (ok,) = check_model([*pushes, op("c", "read", 3, 8, output=2)], Stack())
    assert (ok.outcome, ok.order) == ("ok", (0, 1, 2))
    (wrong,) = check_model([*pushes, op("c", "read", 10, 11, output=1)], Stack())
    assert (wrong.outcome, wrong.blocked) == ("violated", 2)


def test_an_operation_called_read_may_change_the_state() -> None:
    twice = [op("a", "push", 0, 1, 1), op("b", "read", 2, 3, output=1), op("c", "read", 4, 5, output=1)]
    assert [r.outcome for r in check_model(twice, Stack())] == ["violated"]


def test_unknown_outcomes_may_have_happened_or_not() -> None:
    maybe = op("a", "push", 0, None, 1)
    assert check_model([maybe, op("b", "read", 5, 6, output=1)], Stack())[0].outcome == "ok"
    assert check_model([maybe], Stack())[0].outcome == "ok"


def test_objects_are_judged_apart() -> None:
    some = [op("a", "push", 0, 1, 1, key="x"), op("b", "read", 2, 3, output=1, key="y")]
    assert {r.partition: r.outcome for r in check_model(some, Stack())} == {"x": "ok", "y": "violated"}


def test_a_spent_budget_is_unknown() -> None:
    many = [op(f"p{i}", "push", 0, 100, i) for i in range(12)] + [op("z", "read", 0, 200, output=99)]
    assert check_model(many, Stack(), budget_steps=50)[0].outcome == "unknown"


def test_operations_that_share_an_instant_are_concurrent() -> None:
    some = [op("b", "read", 1, 2, output=1), op("a", "push", 0, 1, 1)]
    assert check_model(some, Stack())[0].outcome == "ok"
    late = [op("b", "read", 0, 1, output=1), op("a", "push", 1, 2, 1)]
    assert check_model(late, Stack())[0].outcome == "ok"


def test_an_exception_of_the_model_is_named() -> None:
    class Broken(Stack):
        def step(self, state: Any, operation: Operation) -> Any:
            raise KeyError("nothing")

    with pytest.raises(HistoryError, match=r"Broken\.step raised KeyError"):
        check_model([op("a", "push", 0, 1, 1)], Broken())


def test_recorded_histories_become_operations() -> None:
    history = HistoryBuilder().op("alice", "write", 0, 1, value="x").op("bob", "read", 2, 3, "fail").history()
    (write,) = operations_of(history)
    assert (write.f, write.input, write.process, write.returned) == ("write", "x", "alice", 1_000_000)
    assert [o.status for o in operations_of(history, failed=True)] == ["ok", "fail"]


@pytest.mark.parametrize("name", ["nowhere:Model", "json", "json:nothing", "json:dumps"])
def test_what_is_no_model_is_bad_input(name: str) -> None:
    with pytest.raises(HistoryError) as error:
        load_model(name)
    assert error.value.field == "model"


def test_the_command_line_takes_a_model(tmp_path: Path) -> None:
    (tmp_path / "my_models.py").write_text(MODEL)
    for value, code in ((1, 0), (2, 1)):
        builder = HistoryBuilder().op("alice", "write", 0, 1, value=1).op("bob", "read", 2, 3, value=value)
        path = tmp_path / f"{value}.jsonl"
        path.write_bytes(builder.text())
        command = [sys.executable, "-m", "checker", str(path), "--model", "my_models:Register"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == code, done
        assert ("not-linearizable" in done.stdout) == (code == 1)


def test_a_read_that_changes_nothing_at_first_may_be_needed_later() -> None:
    class Countdown(CustomModel):
        def init(self) -> int:
            return 0

        def step(self, state: int, operation: Operation) -> Any:
            if operation.f == "add":
                return state + 1
            return max(state - 1, 0) if operation.f == "read" else state if state == 0 else IMPOSSIBLE

    some = [op("a", "read", 0, 10), op("b", "add", 1, 5), op("c", "is zero", 11, 12)]
    assert check_model(some, Countdown())[0].outcome == "ok"
