"""The defects of a driver on real Redis: what is run, how long, and what is said of it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from lab.batch.item import Item
from lab.batch.row import Row
from lab.errors import ExitCode, LabError
from lab.examine.answer import on_real
from lab.examine.answer.junit import junit
from lab.examine.answer.on_real import run_on_real
from lab.examine.answer.page import to_html
from lab.examine.answer.words import defect_words
from lab.examine.command import Asked
from lab.examine.result import RESULT, Kept, decode
from lab.substrates.interruption import Interrupted
from tests.unit.examine.test_output import defect, examined, printed

DRIVER = Asked("driver:some", "20s")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was run, with which seed; the name of a scenario says what comes of it."""
    seen: list[tuple[str, int]] = []

    async def run_one(item: Item, seed: int, out: Path) -> Row:
        name = Path(item.scenario).stem
        if name == "never" or (name == "slow" and seed):
            await asyncio.sleep(2)
        seen.append((name, seed))
        if name == "refused":
            return Row(seed, ExitCode.USAGE, reasons=("local cannot do that",))
        if name == "rare" and seed:
            return Row(seed, ExitCode.UNKNOWN, reasons=("a node died",)) if seed == 1 else Row(seed, 1)
        return Row(seed)

    monkeypatch.setattr("lab.search.confirm.run_one", run_one)
    monkeypatch.setattr(on_real, "choose", lambda on: (on, ""))
    return seen


def confirmed(
    tmp_path: Path, *names: str | None, asked: Asked = DRIVER, limit_s: float = 60.0, **more: Any
) -> list[str]:
    """What is said of defects with scenarios of these names."""
    defects = [defect(scenario=None if name is None else f"{name}.yaml") for name in names]
    kept = Kept(examined(*defects, **more), tmp_path)
    run_on_real(kept, asked, limit_s)
    return [defect_words(each, "redlock").confirmed for each in kept.examined.defects]


def test_runs_on_real_redis_are_counted(tmp_path: Path, ran: list[tuple[str, int]]) -> None:
    assert confirmed(tmp_path, "sure", "rare", None, "refused") == [
        "confirmed on real Redis: 3 of 3 runs",
        "confirmed on real Redis: 1 of 2 runs, 1 without a verdict (a node died)",
        "not confirmed on real Redis: it is kept as a trial, no scenario",
        "not confirmed on real Redis: local cannot do that",
    ]
    assert [seed for _, seed in ran] == [0, 0, 0, 1, 1, 1, 2, 2, 2], "each once before any is run again"
    stored = decode((tmp_path / RESULT).read_bytes())
    assert [each.real.reproduced for each in stored.defects if each.real is not None] == [3, 1, 0, 0]
    said = "confirmed on real Redis: 3 of 3 runs"
    assert said in to_html(Kept(stored, tmp_path))
    assert said in printed(stored, width=100)
    assert said in junit(stored).decode()


def test_runs_end_with_the_time_for_them(
    tmp_path: Path, ran: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on_real, "SHORTEST_S", 0.2)
    assert confirmed(tmp_path, "slow", limit_s=0.2) == [
        "confirmed on real Redis: 1 of 1 run (there was no time for more)"
    ]
    assert confirmed(tmp_path, "never", limit_s=0.2) == [
        "not confirmed on real Redis: there was no time for a run"
    ]


def test_no_run_is_begun_that_cannot_end(tmp_path: Path, ran: list[tuple[str, int]]) -> None:
    assert confirmed(tmp_path, "sure", limit_s=4.0) == [
        "not confirmed on real Redis: there was no time for a run"
    ]
    assert ran == []


@pytest.mark.parametrize("asked", [Asked("redlock"), Asked("driver:some", repeat=0)])
def test_a_lock_of_the_labs_own_process_is_not_run_and_none_is_if_nobody_asks(
    asked: Asked, tmp_path: Path, ran: list[tuple[str, int]]
) -> None:
    assert confirmed(tmp_path, "sure", asked=asked) == [""]
    assert ran == []


def test_an_interruption_keeps_what_was_found(
    tmp_path: Path, ran: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def execute(work: Coroutine[Any, Any, Any]) -> None:
        work.close()
        raise Interrupted

    monkeypatch.setattr(on_real, "execute", execute)
    assert confirmed(tmp_path, "sure") == ["not confirmed on real Redis: it was interrupted"]
    stored = decode((tmp_path / RESULT).read_bytes())
    assert (stored.interrupted, len(stored.defects)) == (True, 1)


def test_where_real_redis_cannot_run_the_reason_is_said(
    tmp_path: Path, ran: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose(on: str) -> None:
        raise LabError("no toxiproxy-server")

    monkeypatch.setattr(on_real, "choose", choose)
    assert confirmed(tmp_path, "sure") == [
        "not confirmed on real Redis: it cannot run here: no toxiproxy-server"
    ]
    assert ran == []
