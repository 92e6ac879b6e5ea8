"""Quotations are literal: what stands in typographic quotation marks stands in a source, word by word.

The sources are texts of others, kept outside of the repository; where they are absent, the tests are skipped.
The reply of Redlock's author is no such source: it is summarised, and never quoted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest
import yaml

from lab.scenario.claims import claims

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT.parent / "shared" / "seeds"
TITLES: Final = ("How to do distributed locking", "Distributed locks with Redis")
REPLY: Final = "'Is Redlock safe?'"
QUOTED: Final = re.compile(r"“([^”]+)”")
PLAIN: Final = str.maketrans({"“": '"', "”": '"', "’": "'", "‘": "'", "–": "-", "—": "-", "\u00a0": " "})
HEADS: Final = {
    "Kleppmann": "How to do distributed locking",
    "Redlock's page": "Safety and Liveness guarantees",
}
"""What tells the source of a name in `quoted` from the others."""


def plain(text: str) -> str:
    """Text with one kind of quotation marks and dashes, and single blanks, without a quotation's `>`."""
    return " ".join(re.sub(r"\n\s*[>#]", "\n", text).translate(PLAIN).split())


@cache
def sources() -> tuple[str, ...]:
    found = tuple(plain(path.read_text(encoding="utf-8")) for path in sorted(SOURCES.glob("*.txt")))
    if not found:
        pytest.skip(f"SKIPPED: no sources of quotations below {SOURCES}")
    return found


def literal(words: str) -> bool:
    """Whether a source has these words."""
    return any(plain(words) in source for source in sources())


def texts() -> Iterator[tuple[Path, str]]:
    """All texts that may quote: pages, scenarios, claims, the demo, notebooks, and docstrings."""
    for pattern in ("*.md", "docs/*.md", "scenarios/**/*.yaml", "lab/**/*.yaml", "lab/locks/**/*.py"):
        for path in sorted(ROOT.glob(pattern)):
            yield path, path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        yield path, "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def quotations() -> list[tuple[str, str]]:
    return [(path.name, words) for path, text in texts() for words in QUOTED.findall(text)]


def test_quotations_are_literal() -> None:
    found = quotations()
    assert {"README.md", "debate.md", "claims.md", "chaos.yaml", "1-the-critique.ipynb"} <= dict(found).keys()
    assert [one for one in found if not literal(one[1])] == []


def test_the_words_of_a_claim_are_those_of_whom_it_names() -> None:
    for claim in claims():
        assert set(claim.quoted) <= HEADS.keys(), claim.number
        for who, words in claim.quoted.items():
            assert who in claim.who
            own = [source for source in sources() if plain(HEADS[who]) in source]
            assert own
            assert all(any(plain(each) in source for source in own) for each in words), claim.number


def test_every_claim_of_the_two_sources_is_quoted() -> None:
    for claim in claims():
        named = {who for who in HEADS if who in claim.who}
        assert named == set(claim.quoted), claim.number


def test_one_changed_word_is_noticed() -> None:
    for where, words in {
        *quotations(),
        *((str(c.number), w) for c in claims() for q in c.quoted.values() for w in q),
    }:
        split = words.split()
        for at in range(len(split)):
            changed = " ".join([*split[:at], f"{split[at]}x", *split[at + 1 :]])
            assert not literal(changed), f"{where}: {changed}"


def test_sections_and_titles_are_named_as_in_their_source() -> None:
    for path in sorted((ROOT / "scenarios").rglob("*.yaml")):
        source = yaml.safe_load(path.read_text(encoding="utf-8"))["source"]
        for section in re.findall(r"section '([^']+)'", source):
            assert literal(section), f"{path.name}: {section}"
        for title in TITLES:
            named = re.findall(re.escape(title), source, re.IGNORECASE)
            assert set(named) <= {title}, path.name


def test_the_reply_is_summarised_and_never_quoted() -> None:
    for path in sorted((ROOT / "scenarios").rglob("*.yaml")):
        source = yaml.safe_load(path.read_text(encoding="utf-8"))["source"]
        assert source.count(REPLY) == source.count(f"{REPLY}, 2016 (summarised)"), path.name
        _, _, after = source.partition(REPLY)
        assert "“" not in after.partition(";")[0], path.name
    for claim in claims():
        assert ("author" in claim.who) == ("(summarised)" in claim.who), claim.number


def test_words_in_plain_quotation_marks_are_no_quotations() -> None:
    """In the texts about the argument, where a reader would take them for literal."""
    pages = {"debate.md", "claims.md", "1-the-critique.ipynb", "2-the-reply.ipynb"}
    for path, text in texts():
        if path.name in pages:
            assert re.findall(r'"[^"\n]{12,}"', text) == [], path.name
