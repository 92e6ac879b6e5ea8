"""What several tasks raised, as one error: the first of the lab's, and nothing else is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from lab.batch.dask import on_cluster
from lab.batch.engine import one_error
from lab.batch.executor import Executor, Rules, Worker
from lab.batch.seeds import run_seeds
from lab.errors import LabError, UnknownOutcome
from tests.sim.campaign_tasks import Plain

FIRST, SECOND = LabError("the first"), UnknownOutcome("the second")


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


def fails(*_: object) -> list[object]:
    raise FIRST


def raised(running: Coroutine[Any, Any, None]) -> BaseException:
    with pytest.raises(LabError) as caught:
        asyncio.run(running)
    return caught.value


class Elsewhere:
    """A place whose workers are never asked for."""

    size = 4

    def __init__(self, *_: object) -> None:
        self.closed = False
        elsewhere.append(self)

    def start(self, work: bytes, rules: Rules, *, forked: bool) -> Worker:
        raise OSError("nothing can be started here")

    def close(self) -> None:
        self.closed = True


elsewhere: list[Elsewhere] = []


def test_what_workers_raise_comes_alone_and_their_place_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Executor, "receive", fails)
    place = Elsewhere()
    assert raised(run_seeds(Plain(), range(4), lambda _: None, jobs=2, place=place)) is FIRST
    assert place.closed


def test_what_the_cluster_raises_comes_alone_and_its_client_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lab.batch.dask.Cluster", Elsewhere)
    monkeypatch.setattr(Executor, "receive", fails)
    assert raised(on_cluster(Plain(), range(40), lambda _: None, address="nowhere")) is FIRST
    assert elsewhere[-1].closed


def test_where_no_worker_can_be_started_that_is_the_error() -> None:
    running = run_seeds(Plain(), range(4), lambda _: None, jobs=2, place=Elsewhere())
    assert "no process could be started: OSError: nothing can be started here" in str(raised(running))
