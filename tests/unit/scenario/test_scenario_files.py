"""What isn't YAML, or no scenario at all; and finding scenarios by path and by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import LabError
from lab.scenario import library
from lab.scenario.files import SIZE_MAX, find, ordinary_names, shipped
from lab.scenario.load import load_scenario, load_text

LONG = "9" * 61
MAPPING = "a mapping with title, source, why, clients, steps and expect"


def error_in(text: str) -> LabError:
    with pytest.raises(LabError) as caught:
        load_text(text, "s.yaml")
    return caught.value


@pytest.mark.parametrize(
    ("text", "seen", "where"),
    [
        ("", "the scenario is empty", "s.yaml"),
        ("# only a comment\n", "the scenario is empty", "s.yaml"),
        ("- do: alice works", "the scenario is a list", "s.yaml:1:1"),
        ("\n\nhealthy", "the scenario is a single value", "s.yaml:3:1"),
        ("null", "the scenario is a single value", "s.yaml:1:1"),
    ],
)
def test_what_is_no_mapping_is_refused(text: str, seen: str, where: str) -> None:
    found = error_in(text)
    assert (found.seen, found.where, found.expected) == (seen, where, MAPPING)
    assert found.hint == "`lab list healthy` prints a scenario to start from"


@pytest.mark.parametrize(
    ("text", "where", "parts", "hint"),
    [
        (
            "title: a: b",
            "s.yaml:1:9",
            ["mapping values are not allowed here", "title: a: b"],
            "a text with a colon in it needs quotes",
        ),
        (
            "title: x\nclients: [alice\nsteps: []",
            "s.yaml:3:6",
            ["while parsing a flow sequence", "expected ',' or ']'", "steps: []"],
            "what is parsed there began at s.yaml:2:10",
        ),
        (
            "lock:\n\tname: redlock",
            "s.yaml:2:1",
            ["cannot start any token", "name: redlock"],
            "indent with spaces, not with tabs",
        ),
        (
            "why: 'no end\n",
            "s.yaml:2:1",
            ["while scanning a quoted scalar"],
            "what is parsed there began at s.yaml:1:6",
        ),
        ("a: *nobody", "s.yaml:1:4", ["undefined alias", "a: *nobody"], None),
        (
            "a: 1\n---\nb: 2",
            "s.yaml:2:1",
            ["expected a single document", "---"],
            "what is parsed there began at s.yaml:1:1",
        ),
        ("a: 1\nb: \x07", "s.yaml:2:4", ["the character 0x7 is not allowed in YAML"], None),
        ('a: "\\U00110000"', "s.yaml", ["this is not valid YAML"], None),
    ],
)
def test_a_syntax_error_shows_line_and_text(
    text: str, where: str, parts: list[str], hint: str | None
) -> None:
    found = error_in(text)
    assert found.where == where
    assert all(part in found.seen for part in parts), found.seen
    assert found.hint == hint


@pytest.mark.parametrize(
    ("text", "seen", "where"),
    [
        (
            "title: !!python/name:os.system x",
            'the tag "python/name:os.system" is not allowed',
            "s.yaml:1:8, key `title`",
        ),
        ("!!python/name:os.system x: 1", 'the tag "python/name:os.system" is not allowed', "s.yaml:1:1"),
        ("title: !secret x", 'the tag "!secret" is not allowed', "s.yaml:1:8, key `title`"),
        ("steps: !!set {a, b}", 'the tag "set" is not allowed', "s.yaml:1:8, key `steps`"),
        ("title: !!binary aGk=", 'the tag "binary" is not allowed', "s.yaml:1:8, key `title`"),
        ("cluster: {nodes: !!int five}", '"five" can\'t be read as int', "s.yaml:1:18, key `cluster.nodes`"),
        (f"claims: [{LONG}]", f'"{LONG[:59]}…" can\'t be read as int', "s.yaml:1:10, key `claims[0]`"),
        ("cluster: {[nodes]: 5}", "a list or a mapping is used as a key", "s.yaml:1:11, key `cluster`"),
        ("steps: [{do: a, do: b}]", 'the key "do" is given twice', "s.yaml:1:17, key `steps[0].do`"),
        ("steps: &s [*s]", "an alias contains itself", "s.yaml:1:8, key `steps[0]`"),
    ],
)
def test_yaml_beyond_plain_data_is_refused(text: str, seen: str, where: str) -> None:
    found = error_in(text)
    assert (found.seen, found.where) == (seen, where)


def test_aliases_can_not_multiply() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]" for at in range(1, 12)]
    assert error_in("\n".join(lines)).seen == "aliases make this more than 20000 values"


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("a: " + "[" * 100_000, "50 levels deep"),
        ("- " * 100_000, "50 levels deep"),
        ("a: [" + "1," * 100_000, "20000 values"),
    ],
)
def test_documents_are_bounded(text: str, bound: str) -> None:
    assert error_in(text).seen == f"this is more than {bound}"


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(LabError) as caught:
        load_scenario("nowhere/scenario.yaml")
    assert caught.value.seen == "the scenario can't be read: No such file or directory"
    assert caught.value.where == "nowhere/scenario.yaml"
    assert caught.value.hint == "`lab list` shows the scenarios that come with the lab"


@pytest.mark.parametrize(
    ("content", "seen", "where"),
    [
        (b"title: \x00", "this is a binary file", "s.yaml"),
        (b"title: x\nwhy: \xff", "the byte 0xff is no UTF-8", "s.yaml:2"),
        (b"#" * (SIZE_MAX + 1), "the file is too large for a scenario", "s.yaml"),
    ],
)
def test_a_file_that_is_no_text(
    content: bytes, seen: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_bytes(content)
    with pytest.raises(LabError) as caught:
        load_scenario(tmp_path / "s.yaml")
    assert (caught.value.seen, caught.value.where) == (seen, where)


def test_a_directory_is_no_scenario(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="can't be read: Is a directory"):
        load_scenario(tmp_path)


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "bom.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + shipped("healthy").read_bytes())
    assert load_scenario(file).scenario == load_scenario("healthy").scenario


@pytest.mark.parametrize("name", ["a\0b.yaml", "a\nb.yaml", "x" * 5000 + ".yaml"])
def test_strange_paths_are_printable_errors(name: str) -> None:
    with pytest.raises(LabError) as caught:
        load_scenario(name)
    assert caught.value.where is not None
    assert caught.value.where.isprintable()


def test_an_unknown_name_offers_the_nearest() -> None:
    with pytest.raises(LabError) as caught:
        load_scenario("partition-clokjump")
    assert caught.value.seen == 'no scenario is called "partition-clokjump"'
    assert caught.value.expected == "the name of a scenario, or the path of a .yaml file"
    assert caught.value.hint is not None
    assert caught.value.hint.startswith('did you mean "partition-clockjump"')
    assert caught.value.hint.endswith("`lab list` shows all scenarios")


@pytest.mark.parametrize("name", ["", "zzz", "x" * 5000, "a\0b"])
def test_a_name_like_no_other_still_shows_the_way(name: str) -> None:
    with pytest.raises(LabError) as caught:
        find(name)
    assert caught.value.hint == "`lab list` shows all scenarios"


def test_a_file_comes_before_a_name_and_a_directory_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("healthy").mkdir()
    assert find("healthy").name == "healthy.yaml"
    Path("healthy").rmdir()
    Path("healthy").write_text("title: mine")
    assert find("healthy") == Path("healthy")


def test_the_library_lists_names_and_controls() -> None:
    summaries = {one.name: one for one in library.summaries()}
    assert tuple(summaries) == ordinary_names()
    assert {"late-set", "two-minorities", "partition-clockjump"} <= set(summaries)
    assert (summaries["late-set"].control, summaries["late-set"].control_of) == (None, None)
    summary = summaries["partition-clockjump"]
    assert (summary.control, summary.control_of) == ("partition-clockjump-control", None)
    assert summary.expected["mutual_exclusion"] == "violated"
    control = summaries["partition-clockjump-control"]
    assert (control.control, control.control_of) == (None, "partition-clockjump")
