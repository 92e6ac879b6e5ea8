"""Suite files: what is in them, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.batch.choose import last_codes, only, repeated, shard, since_failure
from lab.batch.engine import Batch
from lab.batch.item import Plan
from lab.batch.plan import Selection
from lab.batch.row import Row
from lab.batch.suite_plan import load_suite
from lab.errors import LabError
from lab.scenario.files import names
from lab.scenario.library import summaries
from tests.fuzzing import examples

GOOD = """
title: a suite
cases:
  - scenarios: [healthy, partition-minority]
    locks: [redlock, redlock-sequential]
    on: [sim, local]
  - scenarios: partition-clockjump
    controls: true
    on: sim
    set: [lock.ttl=3s]
    repeat: 3
  - scenarios: two-minorities
    locks: mutant:quorum-off-by-one
    on: sim
    expect: {mutual_exclusion: violated, findings: [overlap]}
"""


def loaded(directory: Path, text: str) -> Plan:
    file = directory / "mine.yaml"
    file.write_text(text)
    return load_suite(file)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return loaded(tmp_path_factory.mktemp("good"), GOOD)


def test_a_case_is_a_product(suite: Plan) -> None:
    assert (suite.name, suite.title) == ("mine", "a suite")
    ids = [item.id for item in suite.items]
    assert ids[:4] == [
        "healthy/redlock/sim",
        "healthy/redlock/local",
        "healthy/redlock-sequential/sim",
        "healthy/redlock-sequential/local",
    ]
    assert len(ids) == 8 + 2 + 1
    jump, control, mutant = suite.items[8:]
    assert (jump.repeat, control.scenario) == (3, "partition-clockjump-control")
    assert jump.settings == ("lock.ttl=3s",)
    assert mutant.settings == (
        "expect={findings: [overlap], mutual_exclusion: violated}",
        "lock.name=mutant:quorum-off-by-one",
    )


def test_the_same_line_twice_is_two_entries(tmp_path: Path) -> None:
    twice = "title: t\ncases:\n  - {scenarios: healthy, on: sim}\n  - {scenarios: healthy, on: sim}\n"
    assert [item.id for item in loaded(tmp_path, twice).items] == [
        "healthy/redlock/sim",
        "healthy/redlock/sim#2",
    ]


def test_a_scenario_of_ones_own_lies_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lab.scenario.load import load_scenario

    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "own.yaml").write_text(load_scenario("healthy").text)
    monkeypatch.chdir(tmp_path)
    suite = loaded(tmp_path / "deep", "title: t\ncases:\n  - {scenarios: own.yaml, on: sim}\n")
    assert suite.items[0].id == "own/redlock/sim"
    load_scenario(suite.items[0].scenario)


def test_the_suite_that_comes_with_the_lab() -> None:
    suite = load_suite()
    simulated = {item.scenario for item in suite.items if item.on == "sim"}
    assert set(names()) <= simulated
    assert any(item.on == "auto" for item in suite.items)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["the suite is empty", "mine.yaml", "--show"]),
        ("- a", ["no mapping", "mine.yaml:1:1"]),
        ("title: t\ncases: []", ["the list of cases is empty", "mine.yaml:2"]),
        ("cases:\n  - scenarios: healthy", ['"title" is missing', "what the suite is for"]),
        ("title: t\ncases:\n  - scenario: healthy", ["mine.yaml:3:5", "cases[0].scenario", '"scenarios"']),
        ("title: t\ncases:\n  - scenarios: healty", ["mine.yaml:3:5", '"healthy"']),
        ("title: t\ncases:\n  - {scenarios: healthy, locks: redlok}", ["redlok", "'redlock'", "mine.yaml:3"]),
        ("title: t\ncases:\n  - {scenarios: healthy, on: simm}", ["simm", '"sim"', "cases[0].on"]),
        ("title: t\ncases:\n  - {scenarios: healthy, repeat: 0}", ["1 or more", "cases[0].repeat"]),
        ("title: t\ncases:\n  - {scenarios: healthy, repeat: two}", ["a whole number"]),
        ("title: t\ncases:\n  - {scenarios: healthy, set: [lock.tll=2s]}", ["tll", '"ttl"']),
        ("title: t\ncases:\n  - {scenarios: []}", ["the list is empty"]),
        ("title: t\ncases:\n  - {scenarios: healthy, expect: {fencing: maybe}}", ["cases[0].expect.fencing"]),
        (
            "title: t\ncases:\n  - {scenarios: healthy, controls: true, expect: {fencing: ok}}",
            ["either controls or expect", "cases[0].controls"],
        ),
        ("title: t\ncases:\n  - [healthy]", ["a mapping"]),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, words: list[str]) -> None:
    with pytest.raises(LabError) as caught:
        loaded(tmp_path, text)
    reported = caught.value.render()
    assert caught.value.exit_code == 2
    for word in words:
        assert word in reported, reported


pieces = st.sampled_from(
    ["title", "cases", "scenarios", "locks", "on", "sim", "healthy", "all", "repeat", "expect", "set", "x=1"]
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), pieces, st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(pieces, inner, max_size=4)),
    max_leaves=10,
)


suites = st.fixed_dictionaries({"title": st.just("t"), "cases": st.lists(values, max_size=2)})


@settings(deadline=None, max_examples=examples(150), suppress_health_check=list(HealthCheck))
@given(st.one_of(values, suites))
def test_whatever_the_file_says_it_is_a_suite_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, value: object
) -> None:
    import yaml

    directory = tmp_path_factory.mktemp("fuzz")
    refused: LabError | None = None
    try:
        assert loaded(directory, yaml.safe_dump(value, allow_unicode=True)).items
    except LabError as error:
        refused = error
    if refused is not None:
        assert refused.exit_code == 2
        assert refused.where
        refused.render().encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The file of a suite to which something happened."""
    data = bytearray(GOOD.encode())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        piece = draw(st.one_of(st.binary(max_size=4), st.sampled_from(PIECES)))
        data[at : at + draw(st.integers(0, 8))] = piece
    return bytes(data)


PIECES = [
    b"[" * 500,
    b"&a ",
    b"*a",
    b"<<: *a",
    b"!!python/object:os.system ",
    b"\x1f\x8b\x08",
    b"\0",
    b"\xff",
    b"? ",
    b"9" * 5000,
]


@settings(deadline=None, max_examples=examples(60), suppress_health_check=list(HealthCheck))
@given(st.one_of(damaged(), st.binary(max_size=100)))
def test_whatever_bytes_the_file_has_it_is_a_suite_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = tmp_path_factory.mktemp("fuzz") / "mine.yaml"
    file.write_bytes(data)
    refused: LabError | None = None
    try:
        assert load_suite(file).items
    except LabError as error:
        refused = error
    if refused is not None:
        assert refused.exit_code == 2
        assert "mine.yaml" in (refused.where or "")
        refused.render().encode()


def plan(directory: Path) -> Plan:
    return loaded(directory, GOOD)


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = """
title: a suite
cases:
  - scenarios: [helthy, partition-minority]
    locks: [redlok, single]
    on: simm
  - scenarios: healthy
    controls: true
    expect: {mutual_exclusion: ok}
  - scenarios: late-release
    set: [lock.tll=3s, clients=nobody]
"""
    with pytest.raises(LabError) as caught:
        loaded(tmp_path, text)
    found = [caught.value, *caught.value.others]
    assert [each.seen for each in found] == [
        'unknown substrate "simm"',
        'no scenario is called "helthy"',
        "the lock 'redlok'",
        "expect is given, but a control has its own expectation",
        '"nobody" does not list clients',
        'unknown key "tll"',
    ]
    assert all("mine.yaml" in str(each.where) for each in found)
    assert caught.value.render().count("error: ") == len(found)
    with pytest.raises(LabError) as caught:
        loaded(tmp_path, "titel: a suite\ncases:\n  - {scenarios: healthy, repeet: 3, on: []}\n")
    assert [each.seen for each in (caught.value, *caught.value.others)] == [
        'unknown key "titel"',
        'unknown key "repeet"',
        "the list is empty",
        'the key "title" is missing',
    ]


def test_the_shards_are_the_whole(tmp_path: Path) -> None:
    whole = plan(tmp_path)
    for parts in (1, 2, 3, 5, 20):
        pieces = [shard(whole, f"{part}/{parts}").items for part in range(1, parts + 1)]
        assert sorted(item.id for piece in pieces for item in piece) == sorted(one.id for one in whole.items)
        assert max(map(len, pieces)) - min(map(len, pieces)) <= 1


@pytest.mark.parametrize("text", ["0/5", "6/5", "1/0", "1", "a/b", "1/2/3", "-1/2", ""])
def test_a_shard_that_is_none(text: str) -> None:
    with pytest.raises(LabError, match="PART/PARTS"):
        shard(Plan("p", "t", ()), text)


def test_only(tmp_path: Path) -> None:
    whole = plan(tmp_path)
    assert len(only(whole, ["healthy"]).items) == 4
    assert len(only(whole, ["redlock-sequential"]).items) == 4
    assert len(only(whole, ["*/redlock/local"]).items) == 2
    assert only(whole, []) == whole
    with pytest.raises(LabError) as caught:
        only(whole, ["healhty"])
    assert caught.value.hint == 'did you mean "healthy"?'


def ended(whole: Plan, out: Path, codes: dict[str, int]) -> None:
    """Leave what a batch leaves in which these items ended with these codes."""
    batch = Batch.begin(whole, out)
    for name, code in codes.items():
        batch.keep(Row(1, code, item=name))
    batch.close()


def test_since_failure(tmp_path: Path) -> None:
    whole = repeated(only(plan(tmp_path), ["healthy"]), 1)
    assert since_failure(whole, tmp_path) == whole, "nothing was ever run"
    first, second, third, fourth = (item.id for item in whole.items)
    ended(whole, tmp_path, {first: 1, second: 0, third: 0})
    assert last_codes(tmp_path, "mine") == {first: 1, second: 0, third: 0}
    assert [item.id for item in since_failure(whole, tmp_path).items] == [first, fourth]
    ended(whole, tmp_path, {first: 0, fourth: 0})
    assert since_failure(whole, tmp_path) == whole, "nothing failed"
    assert last_codes(tmp_path, "another") == {}
    (file,) = (path for path in tmp_path.glob("suite-*/runs.jsonl") if b'"exit_code":1' in path.read_bytes())
    file.write_bytes(file.read_bytes() + b'{"seed":1,"item":"')
    assert last_codes(tmp_path, "mine")[fourth] == 0, "a torn line costs nothing"


def test_an_item_of_which_runs_are_missing_is_run_again(tmp_path: Path) -> None:
    twice = repeated(only(plan(tmp_path), ["healthy/redlock/sim"]), 2)
    ended(twice, tmp_path, {twice.items[0].id: 0})
    assert last_codes(tmp_path, "mine") == {}


def test_repeated_multiplies(tmp_path: Path) -> None:
    assert [item.repeat for item in repeated(plan(tmp_path), 2).items[7:]] == [2, 6, 6, 2]


def test_a_scenario_is_run_with_its_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [item.name for item in Selection(("delayed-write", "delayed-write")).plan().items]
    assert names == ["delayed-write", "delayed-write-control"]
    alone = Selection(("delayed-write-control",)).plan()
    assert [item.name for item in alone.items] == ["delayed-write-control"]
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(GOOD)
    assert len(Selection(("mine.yaml",)).plan().items) == 11, "a suite"
    with pytest.raises(LabError, match="helthy"):
        Selection(("helthy",)).plan()
    with pytest.raises(LabError, match="somewhere"):
        Selection(("healthy",), on="somewhere").plan()


@pytest.mark.full
def test_all_scenarios_are_taken_with_their_controls() -> None:
    known = summaries()
    items = Selection(choice="library").plan().items
    assert {item.name for item in items} == {one.name for one in known}
    claims = {item.name for item in Selection(choice="claims").plan().items}
    assert {"partition-clockjump", "partition-clockjump-control", "etcd-pause-fenced"} <= claims


def test_libraries_that_are_not_installed_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path))
    made = Selection(choice="libraries", on="local").plan()
    assert made.items == ()
    assert ("driver:pottery", "it is not installed: lab drivers install pottery") in [
        (one.lock, one.reason) for one in made.skipped
    ]
