"""Whatever the command line: one error with exit code 2, and never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.cli.app import call
from lab.errors import LabError
from tests.fuzzing import examples

texts = st.text(max_size=12).map(lambda text: text.replace("\0", ""))
nonsense = texts.map(lambda text: "zz" + text.replace("/", "").strip())
"""No scenario, no lock and no file is called so."""
numbers = st.one_of(texts, st.integers().map(str), st.floats().map(str))
options = st.one_of(
    st.tuples(st.just("--set"), st.one_of(texts, texts.map(lambda text: f"lock.ttl={text}"))),
    st.tuples(st.sampled_from(["--seed", "--jobs", "--repeat"]), numbers),
    st.tuples(st.sampled_from(["--on", "--out", "--lock", "--picture"]), texts),
    st.tuples(st.sampled_from(["--json", "--resume", "--since-failure", "--full", "-x", "--", ""])),
)
more = st.lists(options, max_size=3).map(lambda found: [word for option in found for word in option])


def line(*words: str | st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """These words, of which one is nonsense, and some options."""
    made = [word if isinstance(word, st.SearchStrategy) else st.just(word) for word in words]
    return st.tuples(st.tuples(*made), more).map(lambda both: [*both[0], *both[1]])


lines = st.one_of(
    line("run", nonsense),
    line("check", nonsense),
    line("list", nonsense),
    line("show", nonsense),
    line("suite", nonsense),
    line("campaign", nonsense, "--seeds", numbers),
    line("search", "--lock", nonsense),
    line("test", nonsense, "--budget", numbers),
    line("test", "--replay", nonsense.map(lambda text: f"{text}.json")),
    line("suite", nonsense.map(lambda text: f"{text}.yaml")),
    line("suite", "--shard", nonsense),
    line("suite", "--matrix", nonsense.map(lambda text: f"{text}.yaml")),
    line("suite", "--resume", nonsense),
    line("suite", "--selftest", "--only", nonsense),
    line("images", nonsense),
    line(nonsense),
)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    path = list(sys.path)
    yield
    sys.path[:] = path


@pytest.mark.full
@settings(deadline=None, max_examples=examples(200), suppress_health_check=list(HealthCheck))
@given(lines)
def test_nonsense_is_told_as_such(words: list[str]) -> None:
    code = 2
    try:
        code = call(words)
    except LabError as error:
        code = error.exit_code
        error.render().encode()
    assert code in (0, 2)  # 0: some option asked for help
    assert not list(Path.cwd().iterdir())
