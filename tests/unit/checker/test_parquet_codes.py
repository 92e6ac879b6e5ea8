"""Codes of the strings in a Parquet file: in order of first sight, whatever their hashes are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checker.formats.parquet_table import _codes, first_rows
from checker.history.operations import NONE
from checker.history.pairing import Interner

HASHES = st.one_of(
    st.integers(0, 3), st.integers(2**64 - 3, 2**64 - 1), st.sampled_from([1 << n for n in range(64)])
)


@given(st.lists(HASHES, max_size=60))
def test_each_row_finds_the_first_with_its_hash(hashes: list[int]) -> None:
    found = first_rows(np.array(hashes, np.uint64))
    assert found.tolist() == [hashes.index(one) for one in hashes]


def test_hashes_of_which_only_the_low_bits_differ_are_found_in_a_few_tables() -> None:
    """By the same bits again and again it would take as many tables as there are hashes: hours."""
    hashes = np.arange(100_000, dtype=np.uint64)
    assert first_rows(hashes).tolist() == hashes.tolist()


def interned(texts: Sequence[str | None]) -> tuple[list[int], list[str]]:
    interner = Interner()
    codes = [interner[text] for text in texts]
    return codes, interner.names()


@given(st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "b", "\0", "é", "x" * 40])), max_size=30))
def test_codes_are_in_order_of_first_sight(texts: list[str | None]) -> None:
    pl = pytest.importorskip("polars")
    codes, names = _codes(pl, pl.Series(texts, dtype=pl.String))
    assert (codes.tolist(), names.to_list()) == interned(texts)


@pytest.mark.parametrize("bad", [1, 3])
def test_strings_with_one_hash_are_told_apart(bad: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pl = pytest.importorskip("polars")
    hashed, seeds = pl.Series.hash, []

    def poor(series: object, seed: int) -> object:
        seeds.append(seed)
        return pl.Series([7] * 5, dtype=pl.UInt64) if seed < bad else hashed(series, seed)

    monkeypatch.setattr(pl.Series, "hash", poor)
    texts = ["b", None, "a", "b", "c"]
    codes, names = _codes(pl, pl.Series(texts, dtype=pl.String))
    assert (codes.tolist(), names.to_list()) == ([0, NONE, 1, 0, 2], ["b", "a", "c"])
    assert seeds == list(range(bad + 1))
