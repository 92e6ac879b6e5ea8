"""Which steps of a lock's code a trial takes, and which lines no trial executed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from msgspec.structs import replace

from lab.errors import UnknownOutcome
from lab.examine import command
from lab.examine.command import Asked, examine, executed
from lab.examine.examination import Examination
from lab.examine.kinds import Kind
from lab.examine.programs import PROGRAMS, Setting
from lab.examine.result import Part
from lab.faults.jump import Jump
from lab.scenario.triggers import at_start
from lab.search.branches import NAME, NO_SOURCE, OF_DRIVERS, TAKEN, LockCode, noted
from lab.search.faults import timed_fault
from lab.search.loop import Budget, OutOfTime
from lab.search.runner import Outcome, run_trial, trials
from lab.search.trial import Round, Trial
from tests.unit.search import rare, rare_words

pytestmark = pytest.mark.usefixtures("_patched")

LOCK = "tests.unit.search.rare:GivesUp"
S_NS = 10**9


def line_of(words: str, module: ModuleType = rare) -> int:
    """The line of the source that holds these words for the first time."""
    lines = Path(str(module.__file__)).read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if words in line)


def late(times: int, lock: str = LOCK, seed: int = 0) -> Trial:
    """Alice extends so often when her lease is over, then takes the lock and releases it; without a fault."""
    rounds = (*(Round(0, 12 * S_NS, 1) for _ in range(times)), Round(0, S_NS))
    return Setting(lock, {}, 1).with_clients({"alice": rounds}, seed=seed, demand=False)


def never(code: LockCode, taken: frozenset[int]) -> list[tuple[str, int, int, str]]:
    found = executed(code, set(taken)).never
    return [(Path(each.file).name, each.first, each.last, each.what) for each in found]


def test_what_was_not_executed_is_told_with_its_branch() -> None:
    with noted(LOCK) as code, trials():
        none, once, twice = (run_trial(late(times)).branches for times in range(3))
    decides, again = line_of("if self._failed < 2"), line_of("if times", rare_words)
    deletes = line_of("deleted = await")
    gives_up = ("rare.py", deletes, deletes + 1, "the branch where `self._failed < 2` is false")
    assert never(code, none) == [
        gives_up,
        ("rare.py", line_of("try:"), line_of("raise LeaseLost"), "GivesUp.extend is never called"),
        ("rare_words.py", again, again + 2, "words_of is never called"),
    ]
    assert never(code, once) == [
        gives_up,
        ("rare_words.py", again + 1, again + 1, "the branch `if times > 1`"),
    ]
    assert never(code, once | twice) == []
    assert never(code, twice)[0] == ("rare.py", decides + 1, decides + 1, "the branch `if self._failed < 2`")
    counts = executed(code, set(once))
    assert (counts.lines, counts.lines_executed) == (11, 8)


def test_branches_of_every_kind_are_told() -> None:
    forks, choose, each = rare.Forks(["127.0.0.1:1"]), line_of("def choose"), line_of("def each")
    match, loop = line_of("match what"), line_of("for word in")
    with noted("tests.unit.search.rare:Forks") as code:

        def left() -> list[tuple[int, int, str]]:
            """What is left of two of its functions."""
            found = [words[1:] for words in never(code, frozenset(TAKEN))]
            return [words for words in found if words[0] > each or choose < words[0] < line_of("def opened")]

        TAKEN.clear()
        assert (forks.choose(0), forks.each([])) == ("none", [])
        after = (match + 5, line_of("self.closed()"), f"what follows line {match}")
        assert left() == [
            (match + 4, match + 4, "the branch `case int()`"),
            after,
            (loop + 1, line_of("found.append"), f"the loop of line {loop}"),
        ]
        assert (forks.choose(1), forks.each([""])) == ("number", [])
        inner = line_of("def kept") + 1
        assert left() == [
            after,
            (inner + 3, inner + 3, "the branch `if word`"),
            (inner, inner, "Forks.each.kept is never called"),
        ]
        assert (forks.choose("a"), forks.choose([]), forks.each(["a"])) == ("a", "no word", ["a"])
        assert left() == []


@pytest.mark.parametrize("lock", ["redlock", "single", "mutant:watchdog-keeps-first-token", LOCK])
def test_trials_are_the_same_with_notes(lock: str) -> None:
    made = [Setting(lock, {}, 3).trial(program, seed=3) for program in PROGRAMS[:4]]

    def outcomes() -> list[Outcome]:
        with trials():
            return [run_trial(trial) for trial in made]

    alone = outcomes()
    with noted(lock):
        one, again = outcomes(), outcomes()
    assert all(each.branches for each in one)
    assert not any(each.branches for each in (*alone, *outcomes()))
    assert [each.branches for each in one] == [each.branches for each in again]
    assert [(each.digest(), each.covered) for each in one] == [
        (each.digest(), each.covered) for each in alone
    ]


def test_the_code_of_a_lock_is_its_own_and_what_lies_beside_it() -> None:
    with noted(LOCK) as code:
        assert {each.function for each in code.steps} == {"GivesUp.extend", "GivesUp._give_back", "words_of"}
    with noted("mutant:bare-del") as code:
        files = {Path(each.file).name for each in code.steps}
        assert files == {"releases.py", "redlock.py", "leased.py"}
        own = {each.function for each in code.steps if Path(each.file).name == "releases.py"}
        assert own == {"BareDel.release_report"}
    with noted("driver:redlock-py") as code:
        assert code == LockCode(why_not=OF_DRIVERS)


def test_after_it_the_code_is_as_before() -> None:
    before = rare.GivesUp.extend.__code__
    with noted("tests.unit.search.rare:Raises"), trials():
        assert rare.GivesUp.extend.__code__ is not before
        with pytest.raises(UnknownOutcome):
            run_trial(late(1, "tests.unit.search.rare:Raises"))
    assert rare.GivesUp.extend.__code__ is before
    assert not hasattr(rare, NAME)


def test_a_source_that_is_not_what_runs_is_not_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = tmp_path / "rare.py"
    for text in (None, "", "def", Path(str(rare.__file__)).read_text().replace("2", "3").replace("1", "4")):
        if text is not None:
            changed.write_text(text)
        monkeypatch.setattr(rare, "__file__", str(changed))
        with noted(LOCK) as code:
            assert code == LockCode(why_not=NO_SOURCE)


def test_a_trial_that_takes_a_new_branch_is_kept() -> None:
    with noted(LOCK), trials():
        one = Examination(Kind(False), {}, Budget(3600))
        reached = []
        tried = [late(0), late(1), late(1, seed=1), late(2), late(2, seed=1)]
        for trial in tried:
            one.try_all(Part("a part", "of a test"), [trial])
            reached.append(one.progress.reached)
    assert one.kept == [tried[0], tried[1], tried[3]]
    assert 0 < reached[0] < reached[1] == reached[2] < reached[3] == reached[4]


def test_drawn_schedules_are_made_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    jump = timed_fault(Jump, at_start(), nodes=("A",), by_ns=S_NS)
    finite = [replace(late(1), faults=(jump,)), late(2), late(2, seed=1)]
    given: list[list[Trial]] = []

    def draws(_setting: Setting, _random: Random, kept: list[Trial]) -> Iterator[Trial]:
        given.append(kept)
        yield finite[1]
        raise OutOfTime

    monkeypatch.setattr(command, "parts", lambda *_, **__: iter([(Part("a part", "of a test"), finite)]))
    monkeypatch.setattr(command, "PROGRAMS", ())
    monkeypatch.setattr(command, "drawn", draws)
    monkeypatch.setattr(command, "situations", lambda *_: iter(()))
    found = examine(Asked(LOCK, "3600s", jobs=1))
    assert given == [[finite[1]]]
    assert (found.executed.lines, found.executed.lines_executed, found.executed.never) == (11, 11, ())
