"""What happened, line by line, without what repeats itself."""

from __future__ import annotations

import pytest

from lab.examine.narrative import shortened


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
