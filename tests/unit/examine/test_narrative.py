"""What happened, line by line, without what repeats itself."""

from __future__ import annotations

import pytest

from lab.examine.answer.narrative import LINES_MAX, cut, shortened


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("aab", ["0: a", "1: a", "2: b"]),
        ("baaab", ["0: b", "1: a", "2: a", "3: a", "4: b"]),
        ("baaaab", ["0: b", "1: a", "… the same 2 times more", "4: a", "5: b"]),
        ("aaaaabbbb", ["0: a", "… the same 3 times more", "4: a", "5: b", "… the same 2 times more", "8: b"]),
        ("", []),
    ],
)
def test_many_lines_in_a_row_with_the_same_words_are_one(words: str, shown: list[str]) -> None:
    assert shortened((str(at), each) for at, each in enumerate(words)) == shown


def test_what_happened_fits_and_keeps_its_beginning_and_its_end() -> None:
    lines = [str(at) for at in range(46)]
    shown = cut(lines)
    assert len(shown) == LINES_MAX == 15
    assert (shown[0], shown[7], shown[-1]) == ("0", "… 32 more lines …", "45")
    assert cut(lines[:15]) == tuple(lines[:15])
