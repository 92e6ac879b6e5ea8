"""Whatever the text: a valid scenario or a LabError, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lab.errors import LabError
from lab.scenario.load import LoadedScenario, load_text
from lab.scenario.registry import steps
from tests.fuzzing import examples
from tests.shipped import TEXTS

SHIPPED = list(TEXTS.values())
PIECES = (
    *(
        "[",
        "]",
        "{",
        "}",
        ": ",
        "- ",
        "\n",
        "  ",
        "\t",
        "? ",
        "#",
        "'",
        '"',
        "|",
        ">",
        "~",
        "null",
        "1e999",
        ".nan",
        "0x",
    ),
    *(
        "&a ",
        "*a",
        "<<: *a",
        "!",
        "!!int ",
        "\\U00110000",
        "%YAML 9",
        "---",
        "...",
        "\x85",
        "\u2028",
        "\ud800",
    ),
)
bounded = settings(deadline=None, max_examples=examples(250), suppress_health_check=[HealthCheck.too_slow])

words = st.one_of(
    st.text(max_size=8), st.sampled_from([*steps(), "all", "alice", "A", "10s", "SET", "gone", "alice works"])
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=8,
)


def check_shown(error: LabError) -> None:
    assert error.where is not None
    assert error.where.startswith(("s.yaml", "--set "))
    assert error.expected
    rendered = error.render()
    assert rendered.replace("\n", "").isprintable()
    rendered.encode()


def load(text: str, *overrides: str) -> LoadedScenario | None:
    """The scenario, or None for a LabError that is fit to be shown; anything else fails the test."""
    try:
        loaded = load_text(text, "s.yaml", overrides)
    except LabError as error:
        check_shown(error)
        return None
    assert load_text(loaded.text, "again.yaml").scenario == loaded.scenario
    return loaded


@bounded
@given(st.text())
@example("\ufeff")
@example("a: \ud800")
@example("%YAML " + "9" * 5000 + ".1\n--- a")
@example("? ? ? a")
@example("!!map [a]: b")
def test_random_text(text: str) -> None:
    assert load(text) is None


@bounded
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=40).map("".join))
def test_random_yaml(text: str) -> None:
    assert load(text) is None


@bounded
@given(st.sampled_from(SHIPPED), st.data())
def test_shipped_scenarios_with_random_edits(text: str, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        gone = data.draw(st.integers(0, 20))
        text = (
            text[:at] + data.draw(st.one_of(st.sampled_from(PIECES), st.text(max_size=4))) + text[at + gone :]
        )
    load(text)


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


@pytest.mark.full
@bounded
@given(st.sampled_from(SHIPPED), st.data())
def test_shipped_scenarios_with_a_value_replaced(text: str, data: st.DataObject) -> None:
    tree = {"root": yaml.safe_load(text)}
    *path, last = ("root", *data.draw(st.sampled_from(places(tree["root"]))))
    inner: Any = tree
    for part in path:
        inner = inner[part]
    inner[last] = data.draw(values)
    load(yaml.safe_dump(tree["root"], allow_unicode=True))


@bounded
@given(
    st.sampled_from(SHIPPED),
    st.one_of(
        st.text(max_size=20),
        st.builds(
            "{}={}".format,
            st.lists(
                st.sampled_from(
                    ["lock", ".", "ttl", "steps", "[0]", "[9]", "clients", "alice", "1", "do", "why"]
                ),
                max_size=6,
            ).map("".join),
            st.one_of(st.sampled_from(PIECES), st.text(max_size=10)),
        ),
    ),
)
def test_random_overrides(text: str, override: str) -> None:
    load(text, override)


def test_the_shipped_scenarios_do_load() -> None:
    assert all(load(text) for text in SHIPPED)
