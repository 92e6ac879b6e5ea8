"""Every mistake in a file is one error: what was seen, where, what was expected, the nearest right word."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import yaml

from lab.errors import ExitCode, LabError
from lab.scenario.load import load_text

DATA = yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text(encoding="utf-8"))
SCENARIO: str = DATA["scenario"]
MISTAKES: dict[str, dict[str, str]] = DATA["mistakes"]


def error(old: str, new: str) -> LabError:
    assert SCENARIO.count(old) == 1, old
    with pytest.raises(LabError) as caught:
        load_text(SCENARIO.replace(old, new), "s.yaml")
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


def test_the_scenario_itself_is_fine() -> None:
    assert load_text(SCENARIO, "scenarios/s.yaml").name == "s"


@pytest.mark.parametrize("case", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_explained(case: dict[str, str]) -> None:
    found = error(case["old"], case["new"])
    shown = {"seen": found.seen, "where": found.where, "expected": found.expected, "hint": found.hint}
    assert shown == {key: case.get(key) for key in shown}


def seen_of(found: LabError) -> list[str]:
    """What is wrong, all of it, in the order in which it is shown."""
    return [each.seen for each in (found, *found.others)]


def test_all_problems_are_shown_in_the_order_of_the_file() -> None:
    found = error("  name: redlock\n  ttl: 10s", "  nam: redlock\n  ttl: 10")
    assert seen_of(found) == ['unknown key "nam"', "the number 10 has no unit"]
    assert found.render().splitlines() == [
        'error: unknown key "nam"',
        "  where: s.yaml:6:3, key `lock.nam`",
        "  expected: name, ttl, options or key",
        '  hint: did you mean "name"?',
        "error: the number 10 has no unit",
        "  where: s.yaml:7:8, key `lock.ttl`",
        "  expected: a number with one of the units ns, us, ms, s, m, h, like 250ms, 1.5s or 2m",
        "  hint: write 10s for seconds or 10ms for milliseconds",
    ]
    found = error("      client: alice\n      nodes: [D, E]", "      client: alcie\n      nodes: [X, E, Y]")
    assert seen_of(found) == ['unknown client "alcie"', 'unknown node "X"', 'unknown node "Y"']


def test_a_list_of_steps_that_are_all_wrong_is_not_called_empty() -> None:
    steps = SCENARIO[SCENARIO.index("steps:") : SCENARIO.index("expect:")]
    assert seen_of(error(steps, "steps:\n  - jmp: {node: C, by: +11s}\n")) == ['unknown step "jmp"']
    two = "steps:\n  - jump: {node: C, by: eleven}\n  - wait: soon\n"
    assert seen_of(error(steps, two)) == ['"eleven" is not a duration', '"soon" is not a duration']
    assert seen_of(error(steps, "steps: []\n")) == ["a list with nothing in it"]


def test_all_problems_survive_the_way_from_another_process() -> None:
    found = error("  name: redlock\n  ttl: 10s", "  nam: redlock\n  ttl: 10")
    assert pickle.loads(pickle.dumps(found)).render() == found.render()


def test_a_misspelt_key_is_shown_before_the_key_that_is_missing_for_it() -> None:
    found = error("title: A scenario", "titel: A scenario")
    assert seen_of(found) == ['unknown key "titel"', 'the key "title" is missing']
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
    assert seen_of(found) == ['unknown node "Z"', 'unknown node "Z"']
