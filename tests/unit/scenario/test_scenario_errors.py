"""Every mistake in a file is one error: what was seen, where, what was expected, the nearest right word."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from lab.errors import ExitCode, LabError
from lab.scenario.load import load_text

DATA = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))
STORY: str = DATA["story"]
MISTAKES: dict[str, dict[str, str]] = DATA["mistakes"]


def error(old: str, new: str) -> LabError:
    assert STORY.count(old) == 1, old
    with pytest.raises(LabError) as caught:
        load_text(STORY.replace(old, new), "s.yaml")
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


def test_the_story_itself_is_fine() -> None:
    assert load_text(STORY, "stories/s.yaml").name == "s"


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_explained(case: dict[str, str]) -> None:
    found = error(case["old"], case["new"])
    shown = {"seen": found.seen, "where": found.where, "expected": found.expected, "hint": found.hint}
    assert shown == {key: case.get(key) for key in shown}


def test_the_first_of_several_is_shown_and_the_rest_counted() -> None:
    found = error("  name: redlock\n  ttl: 10s", "  nam: redlock\n  ttl: 10")
    assert found.seen == 'unknown key "nam" (and 1 more problem)'
    found = error("      client: alice\n      nodes: [D, E]", "      client: alcie\n      nodes: [X, E, Y]")
    assert found.seen == 'unknown client "alcie" (and 2 more problems)'


def test_a_misspelt_key_is_shown_before_the_key_that_is_missing_for_it() -> None:
    found = error("title: A story", "titel: A story")
    assert found.seen == 'unknown key "titel" (and 1 more problem)'
    assert found.hint == 'did you mean "title"?'


def test_control_characters_never_reach_the_terminal() -> None:
    found = error("persistence: aof-always", 'persistence: "\\e[31m\\a"')
    assert found.seen == '"\\x1b[31m\\x07" is not possible here'
    assert found.render().replace("\n", "").isprintable()


def test_long_values_are_cut() -> None:
    assert error("persistence: aof-always", "persistence: " + "x" * 5000).seen == (
        f'"{"x" * 59}…" is not possible here'
    )


def test_a_block_of_text_is_not_mistaken_for_another_key() -> None:
    found = error("  - wait: 1s", "  - wait: |\n      soon\n")
    assert found.where == "s.yaml:21:11, key `steps[8].wait`"


def test_an_alias_is_blamed_where_its_value_stands() -> None:
    found = error(
        "  - jump: {node: C, by: +11s}\n  - hold: {client: bob, nodes: all}",
        "  - jump: &j {node: Z, by: +11s}\n  - jump: *j",
    )
    assert found.where == "s.yaml:15:21, key `steps[2].jump.node`"
    assert found.seen == 'unknown node "Z" (and 1 more problem)'
