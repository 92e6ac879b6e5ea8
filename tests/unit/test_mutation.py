"""The mutants that `tests.mutation` makes: which, where, and that a fork really runs them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import FunctionType

import pytest

from tests.mutation.forks import forked, replace
from tests.mutation.not_counted import NOT_COUNTED, counted, fits
from tests.mutation.operators import Mutant, mutants_of
from tests.mutation.sample import all_mutants, drawn, interval, scores

SOURCE = '''
"""A module."""

LIMIT: Final = 3
"""The most."""


def chosen(numbers: list[int], most: int = LIMIT) -> list[int]:
    """Some of them."""
    assert numbers
    found = [n for n in numbers if n < most and n]
    for n in numbers[1:]:
        if n == 7:
            continue
        found.append(min(n, most))
    return found
'''


def made(source: str = SOURCE) -> list[Mutant]:
    return list(mutants_of("checker/some.py", ast.parse(source)))


def test_every_operator_that_fits_is_applied() -> None:
    pairs = {(m.operator, m.before, m.after) for m in made()}
    assert pairs >= {
        ("comparison", "n < most", "n <= most"),
        ("comparison", "n < most", "n >= most"),
        ("boolean", "n < most and n", "n < most or n"),
        ("removed operand", "n < most and n", "n < most"),
        ("slice", "1:", ":"),
        ("constant", "7", "8"),
        ("comparison", "n == 7", "n != 7"),
        ("removed continue", "continue", "pass"),
        ("continue to break", "continue", "break"),
        ("min/max", "min", "max"),
        ("removed argument", "min(n, most)", "min(n)"),
        ("removed statement", "found.append(min(n, most))", "pass"),
        ("returned None", "return found", "return"),
    }
    assert not any("assert" in m.before or "module" in m.before for m in made())


def test_constants_of_a_module_can_be_put_in_place_and_defaults_cannot() -> None:
    limit = [m for m in made() if m.line == 4]
    assert {m.constants for m in limit} == {("LIMIT",)}
    assert all(m.in_place for m in made())
    default = made("def f(a=3): return a")
    assert [m.in_place for m in default] == [False, False, True]


def test_what_only_a_reader_sees_is_a_message() -> None:
    source = 'def f(n):\n    raise ValueError(f"saw {n + 1}", "two words", "word")'
    assert {
        m.before: m.message for m in made(source) if m.operator in ("constant", "message", "arithmetic")
    } == {
        "'saw '": True,
        "n + 1": True,
        "1": True,
        "'two words'": True,
        "'word'": False,
    }


def function(source: str) -> FunctionType:
    namespace: dict[str, FunctionType] = {}
    exec(compile(source, "some.py", "exec", dont_inherit=True), namespace)
    return namespace["f"]


def test_a_fork_runs_the_mutant_and_the_process_keeps_the_code() -> None:
    source = "def f(n):\n    return [m + 1 for m in range(n)]"
    f = function(source)
    tree = ast.parse(source)
    mutant = next(m for m in mutants_of("some.py", tree) if m.operator == "arithmetic")
    before, after = (compile(t, "some.py", "exec", dont_inherit=True) for t in (tree, mutant.applied(tree)))

    def run(say: Callable[[str], None]) -> int:
        assert replace(before, after, {f.__code__: [f]})
        say(str(f(3)))
        return 7

    assert forked(run, 60.0) == (7, "[-1, 0, 1]")
    assert f(3) == [1, 2, 3]


def test_a_mutant_that_does_not_end_is_ended() -> None:
    def run(say: Callable[[str], None]) -> int:
        while True:
            pass

    code, _ = forked(run, 0.2)
    assert code == -9


def test_a_sample_is_in_proportion_and_the_same_for_one_seed() -> None:
    mutants = {"a": made() * 3, "b": made()}
    sample = drawn(mutants, 20, 5)
    assert sample == drawn(mutants, 20, 5) != drawn(mutants, 20, 6)
    assert len(sample) == 20
    assert len(drawn(mutants, 10_000, 1)) == 4 * len(made())


def test_the_interval_of_a_share() -> None:
    assert interval(95, 100) == pytest.approx((0.888, 0.978), abs=0.001)
    assert interval(0, 0) == (0.0, 1.0)
    rows = [{"by": 1, "status": status} for status in ("killed", "timeout", "survived", "no test")]
    assert scores(rows, "by") == {"1": (2, 4)}


@pytest.mark.full
def test_every_entry_of_what_does_not_count_fits_a_mutant_and_most_mutants_count() -> None:
    mutants = all_mutants()
    stale = [e for e in NOT_COUNTED if not any(fits(e, mutant) for mutant in mutants[e.file])]
    assert stale == []
    left = sum(map(len, counted(mutants).values()))
    everything = sum(map(len, mutants.values()))
    assert everything * 0.98 < left < everything
    assert all(entry.why for entry in NOT_COUNTED)
