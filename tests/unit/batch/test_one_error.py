"""What several tasks raised, as one error: the first of the lab's, and nothing else is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.batch.cores import on_cores, one_error
from lab.batch.dask import on_cluster
from lab.batch.task import Task
from lab.errors import LabError, UnknownOutcome

FIRST, SECOND = LabError("the first"), UnknownOutcome("the second")
TASK = cast(Task, None)


@pytest.mark.parametrize(
    "group",
    [
        ExceptionGroup("one", [FIRST]),
        ExceptionGroup("two", [FIRST, SECOND]),
        ExceptionGroup("in another", [ExceptionGroup("inner", [FIRST]), SECOND]),
    ],
)
def test_of_several_lab_errors_the_first_is_raised(group: ExceptionGroup[LabError]) -> None:
    with pytest.raises(LabError) as caught, one_error():
        raise group
    assert caught.value is FIRST
    assert caught.value.__suppress_context__, "it is shown without the group"


@pytest.mark.parametrize(
    "group",
    [
        ExceptionGroup("a defect", [FIRST, ValueError("a defect of the lab")]),
        ExceptionGroup("a defect comes first", [OSError("no space left"), FIRST]),
        ExceptionGroup("in another", [FIRST, ExceptionGroup("inner", [SECOND, KeyError("a")])]),
        ExceptionGroup("no error of the lab", [ValueError("a"), KeyError("b")]),
        BaseExceptionGroup("an end", [FIRST, KeyboardInterrupt()]),
    ],
)
def test_with_anything_else_among_them_all_are_raised(group: BaseExceptionGroup[BaseException]) -> None:
    raised = group.exceptions
    with pytest.raises(BaseExceptionGroup) as caught, one_error():
        raise group
    assert caught.value is group
    assert caught.value.exceptions == raised


@pytest.mark.parametrize("error", [FIRST, ValueError("a"), KeyboardInterrupt(), asyncio.CancelledError()])
def test_what_comes_alone_is_raised_as_it_is(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, one_error():
        raise error
    assert caught.value is error


def test_tasks_that_are_cancelled_by_an_error_add_nothing_to_it() -> None:
    async def wait() -> None:
        await asyncio.sleep(60)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise SECOND

    async def all_of_them() -> None:
        with one_error():
            async with asyncio.TaskGroup() as group:
                for each in (wait(), fail(), wait()):
                    group.create_task(each)

    with pytest.raises(UnknownOutcome) as caught:
        asyncio.run(all_of_them())
    assert caught.value is SECOND


async def fails(*_: object) -> None:
    raise FIRST


def raised(running: Coroutine[Any, Any, None]) -> BaseException:
    with pytest.raises(LabError) as caught:
        asyncio.run(running)
    return caught.value


def test_what_a_core_raises_comes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.batch.cores._Cores.serve", fails)
    assert raised(on_cores(TASK, range(4), lambda _: None, jobs=2)) is FIRST


def test_what_the_cluster_raises_comes_alone_and_its_client_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[bool] = []

    async def close() -> None:
        closed.append(True)

    async def connected(*_: object) -> SimpleNamespace:
        return SimpleNamespace(close=close)

    async def threads(*_: object) -> int:
        return 2

    for name, instead in (("_dask", lambda: None), ("_connected", connected), ("_threads", threads)):
        monkeypatch.setattr(f"lab.batch.dask.{name}", instead)
    monkeypatch.setattr("lab.batch.dask._Pieces.serve", fails)
    assert raised(on_cluster(TASK, range(40), lambda _: None, address="nowhere")) is FIRST
    assert closed == [True]
