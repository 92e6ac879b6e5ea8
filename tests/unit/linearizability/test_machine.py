"""What compiled loops take from the machine is what the interpreted ones compute."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest

from checker.formats.kernel import lowest, word
from checker.linearizability import compiled, machine
from checker.linearizability.compiled import compiled_kernel


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile anew: nothing from an earlier run, nothing left for a later one."""
    pytest.importorskip("numba")
    monkeypatch.setattr(compiled, "_cache_directory", lambda: None)
    caches: Any = (machine.intrinsics, compiled_kernel)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def _both(data: Any, bits: Any, words: Any, places: Any) -> None:
    for at in range(len(words)):
        words[at] = word(data, at)
    for at in range(len(bits)):
        places[at] = lowest(bits[at])


def test_words_and_the_lowest_bit_of_the_machine() -> None:
    random = Random(1)
    data = np.frombuffer(bytes(random.randrange(256) for _ in range(80)), np.uint8)
    bits = np.array([1 << n for n in range(63)] + [random.randrange(1, 2**62) for _ in range(40)], np.int64)
    words, places = np.zeros(72, np.int64), np.zeros(bits.size, np.int64)
    compiled_kernel(_both, *machine.intrinsics(), inline=True)(data, bits, words, places)
    assert words.tolist() == [word(data.tobytes(), at) for at in range(72)]
    assert places.tolist() == [lowest(number) for number in bits.tolist()]
