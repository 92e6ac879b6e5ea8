"""Histories of other tools: what their names, keys and values are taken for, and what is not guessed."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from checker import HistoryError, check, load, save
from checker.__main__ import main
from checker.formats import edn, jepsen_log, jsonl
from checker.formats.foreign import AS_IT_IS, LIFTED, SYNONYMS, Reading, names_of
from checker.history.history import History
from checker.history.operations import F_NAMES
from checker.linearizability import check_linearizability

Operation = tuple[int, str, str, str]


def written(*operations: Operation) -> str:
    """Process, type, f and value of each, as Jepsen's EDN."""
    return "\n".join(
        f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}, :time {1_000_000 * at}}}"
        for at, (process, kind, f, value) in enumerate(operations)
    )


def outcome(text: str, reading: Reading = AS_IT_IS, **options: str) -> str:
    return str(check(edn.parse(text, reading), **options).outcome)


TWO_LOCKS = written(
    (0, "invoke", "acquire", "[7 nil]"),
    (0, "ok", "acquire", "[7 nil]"),
    (1, "invoke", "acquire", "[8 nil]"),
    (1, "ok", "acquire", "[8 nil]"),
    (0, "invoke", "release", "[7 nil]"),
    (0, "ok", "release", "[7 nil]"),
    (2, "invoke", "acquire", "[7 nil]"),
    (2, "ok", "acquire", "[7 nil]"),
)
ONE_OF_TWO_TWICE = TWO_LOCKS.replace("[8 nil]", "[7 nil]")
REGISTERS = written(
    (0, "invoke", "write", "[a 1]"),
    (0, "ok", "write", "[a 1]"),
    (1, "invoke", "write", "[b 2]"),
    (1, "ok", "write", "[b 2]"),
    (0, "invoke", "read", "[a nil]"),
    (0, "ok", "read", "[a 1]"),
    (1, "invoke", "cas", "[b [2 3]]"),
    (1, "ok", "cas", "[b [2 3]]"),
    (0, "invoke", "read", "[b nil]"),
    (0, "info", "read", "[b nil]"),
    (1, "invoke", "read", "[b nil]"),
    (1, "ok", "read", "[b 3]"),
)


# -- keys of jepsen.independent ------------------------------------------------------------------------------


def test_each_key_of_jepsen_independent_is_a_lock_of_its_own() -> None:
    history = edn.parse(TWO_LOCKS)
    assert {history.ops.name("key", row) for row in range(len(history.ops))} == {"7", "8"}
    assert [note.partition(",")[0] for note in history.notes] == ["every value is a pair [key value]"]
    for model in ("mutex", "owner-mutex"):
        assert check(history, model=model)["mutual_exclusion"].outcome == "ok"
        broken = check(edn.parse(ONE_OF_TWO_TWICE), model=model)
        assert broken["mutual_exclusion"].outcome == "violated"


def test_each_key_is_a_register_of_its_own() -> None:
    history = edn.parse(REGISTERS)
    assert [r.outcome for r in check_linearizability(history.ops, "cas-register")] == ["ok", "ok"]
    wrong = REGISTERS.replace(":f :read, :value [b 3]", ":f :read, :value [b 2]")
    assert outcome(wrong) == "violated"


def test_a_compare_and_set_may_stand_beside_its_key() -> None:
    flat = REGISTERS.replace("[b [2 3]]", "[b 2 3]")
    assert outcome(flat) == "ok"
    assert outcome(flat.replace(":f :read, :value [b 3]", ":f :read, :value [b 2]")) == "violated"
    alone = written((0, "invoke", "cas", "[k 1 2]"), (0, "ok", "cas", "[k 1 2]"))
    assert edn.parse(alone).ops.name("value", 0) == (1, 2)


def test_a_plain_compare_and_set_has_no_key() -> None:
    plain = written((0, "invoke", "cas", "[0 1]"), (0, "ok", "cas", "[0 1]"))
    history = edn.parse(plain)
    assert history.ops.name("value", 0) == (0, 1)
    assert history.ops.name("key", 0) is None
    assert history.notes == ()


def test_a_register_that_answers_lists_has_no_key() -> None:
    text = written((0, "invoke", "read", "nil"), (0, "ok", "read", "[1 2]"))
    assert edn.parse(text).ops.name("value", 0) == "[1 2]"


AMBIGUOUS = {
    "some invocations without a key": (REGISTERS.replace("[b nil]", "nil"), ":value [a 1]", 9),
    "an answer without its key": (REGISTERS.replace("[b 3]}", "3}").replace("[b 3],", "3,"), "", 12),
    "locks of which no two processes use one": (
        written(*((p, kind, "acquire", f"[{p} 1]") for p in (0, 1) for kind in ("invoke", "ok"))),
        "no two processes",
        1,
    ),
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_is_open_is_not_guessed(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, _, line = AMBIGUOUS[name]
    with pytest.raises(HistoryError) as error:
        edn.parse(text)
    assert error.value.line == line
    assert "--independent" in str(error.value.hint)
    path = tmp_path / "h.edn"
    path.write_text(text)
    assert main([str(path)]) == 2
    assert "--no-independent" in capsys.readouterr().err


def test_an_option_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "h.edn"
    path.write_text(TWO_LOCKS)
    assert main([str(path), "--model", "owner-mutex"]) == 0
    assert "note: every value is a pair" in capsys.readouterr().err
    assert main([str(path), "--model", "owner-mutex", "--independent"]) == 0
    assert capsys.readouterr().err == ""
    assert main([str(path), "--model", "owner-mutex", "--no-independent"]) == 1
    path.write_text(TWO_LOCKS.replace("[8 nil]", "nil"))
    assert main([str(path), "--independent"]) == 2
    assert "expected a pair [key value]" in capsys.readouterr().err


def test_one_register_of_pairs_is_not_accused_when_its_first_elements_are_taken_for_keys() -> None:
    """A register that holds pairs is right, whatever its operations are taken for."""
    for seed in range(200):
        random, held, lines = Random(seed), None, []
        for at in range(12):
            process = random.randrange(3)
            if held is None or random.random() < 0.5:
                f, held = "write", f"[{random.randrange(3)} {at}]"
            else:
                f = "read"
            asked = held if f == "write" else f"[{held[1]} nil]"
            lines += [(process, "invoke", f, asked), (process, "ok", f, held)]
        assert outcome(written(*lines)) == "ok"


def test_what_names_its_keys_is_left_as_it_is() -> None:
    text = TWO_LOCKS.replace(":value [7 nil]", ':key "k", :value "v"').replace(":value [8 nil]", ':key "l"')
    history = edn.parse(text)
    assert {history.ops.name("key", row) for row in range(len(history.ops))} == {"k", "l"}
    with pytest.raises(HistoryError, match="have a key"):
        edn.parse(text, Reading(independent=True))


@pytest.mark.parametrize("suffix", [".txt", ".log", ".json", ".jsonl"])
def test_every_format_of_other_tools_has_such_keys(suffix: str, tmp_path: Path) -> None:
    forms = [form for _, form in edn.forms(TWO_LOCKS)]
    if suffix in (".txt", ".log"):
        prefix = (
            "2025-06-23 13:09:52,409{GMT}\tINFO\t[jepsen worker 0] jepsen.util: " if suffix == ".log" else ""
        )
        text = "\n".join(
            f"{prefix}{f['process']}\t:{f['type']}\t:{f['f']}\t{edn.written(f['value'])}" for f in forms
        )
    else:
        lines = [json.dumps({str(name): value for name, value in form.items()}) for form in forms]
        text = f"[{','.join(lines)}]" if suffix == ".json" else "\n".join(lines)
    path = tmp_path / f"h{suffix}"
    path.write_text(text + "\n")
    history = load(path)
    assert check(history, model="owner-mutex")["mutual_exclusion"].outcome == "ok"
    assert {history.ops.name("key", row) for row in range(len(history.ops))} == {"7", "8"}
    plain = load(path, reading=Reading(independent=False))
    assert check(plain, model="mutex")["mutual_exclusion"].outcome == "violated"


# -- names and fields ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*SYNONYMS, "TRY-LOCK"])
def test_names_that_mean_the_same_are_known_and_said(name: str) -> None:
    meant = SYNONYMS[name.lower().replace("-", "_")]
    value = "[1 2]" if meant == "cas" else "1"
    history = edn.parse(written((0, "invoke", name, value), (0, "ok", name, value)))
    assert int(history.ops.f[0]) == F_NAMES[meant]
    (note,) = history.notes
    assert note.startswith(f"'{name}' is read as '{meant}' (2 events)")


def test_a_name_is_mapped_as_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = written((0, "invoke", "grab", "nil"), (0, "ok", "grab", "nil"))
    path = tmp_path / "h.edn"
    path.write_text(text)
    assert main([str(path)]) == 2
    assert main([str(path), "--map", "grab=acquire,lock=release"]) == 0
    assert "note" not in capsys.readouterr().err
    history = edn.parse(text.replace("grab", "lock"), Reading(names_of("lock=release")))
    assert int(history.ops.f[0]) == F_NAMES["release"]
    assert history.notes == ()


@pytest.mark.parametrize("words", ["", "grab", "grab=", "=acquire", "grab=take", "a=read,b"])
def test_a_mapping_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(HistoryError, match="expected NAME=OPERATION"):
        names_of(words)


def test_what_was_written_here_needs_no_such_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("h.jsonl", "h.edn"):
        path = tmp_path / name
        save(History.from_events(edn.parse(TWO_LOCKS).events()), path)
        for option in (["--map", "lock=acquire"], ["--independent"], ["--no-independent"]):
            assert main([str(path), *option]) == 2
            assert "a history with a header" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("written_as", "fence"), [("{:fence 2}", 2), ("{:fence 2, :node n1}", 2), ("5", None)]
)
def test_a_fence_inside_the_value_counts(written_as: str, fence: int | None) -> None:
    history = edn.parse(written((0, "invoke", "acquire", "nil"), (0, "ok", "acquire", written_as)))
    assert (int(history.ops.fence[0]) if fence else None) == fence


def test_fences_inside_values_are_judged() -> None:
    text = written(
        *(
            (process, kind, f, f"{{:fence {5 - process}}}" if (kind, f) == ("ok", "acquire") else "nil")
            for process in (0, 1)
            for f in ("acquire", "release")
            for kind in ("invoke", "ok")
        )
    )
    assert check(edn.parse(text), model="fenced-mutex")["mutual_exclusion"].outcome == "violated"
    assert "fence" in LIFTED


# -- JSON ----------------------------------------------------------------------------------------------------

ARRAY = (
    '[{"type":"invoke","f":"acquire","process":1,"time":1,"value":null},\n'
    ' {"type":"ok","f":"acquire","process":1,"time":2,"client":3}]'
)


def test_an_array_with_integers_for_processes_is_read(tmp_path: Path) -> None:
    for name in ("h.json", "h", "h.jsonl"):
        path = tmp_path / name
        path.write_text(ARRAY)
        history = load(path)
        assert (len(history.ops), history.ops.name("process", 0), history.end_ns) == (1, "1", 2)
    assert edn.parse("[{:process 1, :type :invoke, :f :read}]").ops.name("process", 0) == "1"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (ARRAY[:-1], None, "expected a JSON array"),
        (ARRAY.replace('"process":1,"time":2', '"process":2,"time":2'), 2, "never invoked"),
        (ARRAY.replace('"f":"acquire","process":1,"time":2', '"f":"grab","process":1,"time":2'), 2, "'grab'"),
        ("[1]", 1, "expected a map"),
    ],
)
def test_an_array_that_is_damaged_is_told_with_its_line(text: str, line: int | None, said: str) -> None:
    with pytest.raises(HistoryError, match=said) as error:
        jsonl.parse(text)
    assert error.value.line == line


def test_lines_with_integers_for_processes_are_read() -> None:
    line = '{"type":"%s","f":"lock","process":1,"time_ns":%d}'
    lines = line % ("invoke", 1) + "\n" + line % ("ok", 2)
    history = jsonl.parse(lines)
    assert history.ops.name("process", 0) == "1"
    assert len(history.notes) == 1
    with pytest.raises(HistoryError, match="expected one of acquire") as error:
        jsonl.parse(lines.replace('"lock"', '"lokc"'))
    assert error.value.line == 1


# -- lines of Jepsen -----------------------------------------------------------------------------------------


def test_the_column_of_the_error_is_read() -> None:
    text = '0\t:invoke\t:write\t2\n0\t:info\t:write\t2\tindeterminate: "x\n'
    text += "1\t:invoke\t:read\tnil\n1\t:fail\t:read\tnil\t:t"
    ops = jepsen_log.parse(text).ops
    assert [ops.name("error", row) for row in (0, 1)] == ['indeterminate: "x', ":t"]
    assert [ops.name("value", row) for row in (0, 1)] == [2, None]


def test_a_map_over_several_lines_is_no_operation() -> None:
    text = "{:nodes 5\n :generator ({:type :info, :f :start}\n"
    text += "   {:type :invoke :f :read}\n :type :info, :f :stop)}\n"
    assert len(jepsen_log.parse(text + "0\t:invoke\t:read\tnil\n").ops) == 1


NIL = "0\t:invoke\t:read\tnil\n0\t:ok\t:read\t%s\n"
FAILED = "0\t:invoke\t:write\t3\n0\t:ok\t:write\t3\n0\t:invoke\t:cas\t[3 4]\n0\t:fail\t:cas\t[3 4]%s\n"
WROTE = "0\t:invoke\t:write\t3\n0\t:ok\t:write\t3\n"


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (NIL % "3", [], 0),
        (NIL % "3", ["--initial", "3"], 0),
        (NIL % "3", ["--initial", "nil"], 1),
        (NIL % "nil", [], 0),
        (NIL % "nil", ["--initial", "nil"], 0),
        (WROTE + NIL % "nil", [], 3),
        (WROTE + NIL % "nil", ["--initial", "nil"], 1),
        (WROTE + NIL % "4", [], 1),
        (FAILED % "", [], 3),
        (FAILED % "\t:timeout", [], 0),
    ],
)
@pytest.mark.parametrize("suffix", [".txt", ".log", ".edn"])
def test_what_nil_says_and_the_first_value_are_the_same_in_every_format(
    text: str, options: list[str], code: int, suffix: str, tmp_path: Path
) -> None:
    path = tmp_path / f"h{suffix}"
    if suffix == ".edn":
        if "fail" in text:
            pytest.skip("EDN has an :error, or says nothing")
        rows = [line.split("\t") for line in text.splitlines()]
        text = "\n".join(f"{{:process {p}, :type {kind}, :f {f}, :value {v}}}" for p, kind, f, v in rows)
    path.write_text(text)
    assert main([str(path), *options]) == code
