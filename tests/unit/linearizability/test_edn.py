"""EDN in and out: every form that Jepsen and Knossos write, and what is said about damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checker.errors import HistoryError
from checker.formats import edn, edn_ends, load, save
from checker.history.events import Event, Params
from checker.history.history import History
from checker.history.operations import NEVER, F, Status
from tests.fuzzing import examples


def only(text: str) -> Any:
    """The value of the only form in a text."""
    ((_, value),) = edn.forms(text)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-17", -17),
        ("12N", 12),
        ("1.5e3", 1500.0),
        ("2.50M", 2.5),
        (":a/b-c", "a/b-c"),
        ("sym", "sym"),
        (r'"a\"b\\c\n\u00e9"', 'a"b\\c\né'),
        (r"\a", "a"),
        (r"\newline", "\n"),
        (r"\u0041", "A"),
        ("{:a [1 (2 3) #{4}]}", {"a": (1, (2, 3), (4,))}),
        ("{[1 2] 3, {:x 1} 4}", {(1, 2): 3, (("x", 1),): 4}),
        ("{[{:x {:y 1}}] 4, nil 5}", {((("x", (("y", 1),)),),): 4, None: 5}),
        ("#jepsen.history.Op{:index 1}", {"index": 1}),
        ('#inst "1985-04-12"', "1985-04-12"),
        ("{:a #_ignored 1 #_#_2 3 :b 4}", {"a": 1, "b": 4}),
        ("{:a ^{:line 3} 1}", {"a": 1}),
        ("; all\n{:a 1} ; of it", {"a": 1}),
        ("{:a 1,,, :b 2}", {"a": 1, "b": 2}),
        ("{}", {}),
    ],
)
def test_reads(text: str, value: Any) -> None:
    assert only(text) == value


def test_a_vector_and_lines_hold_the_same_forms_and_each_knows_its_line() -> None:
    forms = ["{:a 1}", "{:a\n 2}", "{:a 3}"]
    lines = [(1, {"a": 1}), (2, {"a": 2}), (4, {"a": 3})]
    assert list(edn.forms("\n".join(forms))) == lines
    assert list(edn.forms("[" + "\n".join(forms) + "]")) == lines
    assert list(edn.forms("(" + "\n".join(forms) + ")")) == lines
    assert list(edn.forms("#_[{:a 0}]\n{:a 1}")) == [(2, {"a": 1})]


JEPSEN = """
{:process 0, :type :invoke, :f :acquire, :value nil, :time 10}
{:process :nemesis, :type :info, :f :start, :value {:n1 #{:n2}}, :time 11}
#jepsen.history.Op{:process 1, :type :invoke, :f :acquire, :value nil, :time 12, :index 2}
{:process 0, :type :ok, :f :acquire, :value nil, :time 13, :fence 4}
{:process 1, :type :info, :f :acquire, :value nil, :time 14, :error [:timeout "n1"]}
{:process 6, :type :invoke, :f :release, :time 15}
{:process 6, :type :fail, :f :release, :time 16, :error :not-held}
"""


def test_a_jepsen_history_becomes_operations() -> None:
    history = edn.parse(JEPSEN)
    ops = history.ops
    assert [ops.name("process", row) for row in range(3)] == ["0", "1", "6"]
    assert ops.f.tolist() == [F.ACQUIRE, F.ACQUIRE, F.RELEASE]
    assert ops.status.tolist() == [Status.OK, Status.INFO, Status.FAIL]
    assert ops.return_ns.tolist() == [13, NEVER, 16]
    assert ops.fence[0] == 4
    assert [ops.name("error", row) for row in (1, 2)] == ['[:timeout "n1"]', "not-held"]
    assert history.problems == ()


def test_registers_keep_pairs_and_scalars() -> None:
    text = """[{:process 0 :type :invoke :f :cas :value [1 nil]} {:process 0 :type :ok :f :cas :value [1 nil]}
               {:process 0 :type :invoke :f :write :value :kw} {:process 0 :type :info :f :write :value
               :timed-out} {:process 1 :type :invoke :f :cas :value [2 4]} {:process 1 :type :info :f :cas
               :value :timed-out}]"""
    ops = edn.parse(text).ops
    assert [ops.name("value", row) for row in (0, 2)] == [(1, None), (2, 4)]
    assert ops.call_ns.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("text", "line", "field", "said"),
    [
        ("{:type :invoke :f :read}", 1, ":process", "is absent"),
        ("\n{:process 0 :tpe :invoke :f :read}", 2, ":type", "did you mean :type by :tpe"),
        ("{:process 0 :type :invokes :f :read}", 1, ":type", "one of :invoke, :ok, :fail, :info"),
        ("{:process 0 :type :invoke :f :cas :value 3}", 1, ":value", "saw 3, expected a pair [old new]"),
        ("{:process 0 :type :invoke :f :read :time :soon}", 1, ":time", "Expected `int`"),
        ("{:process 0 :type :invoke :f :reed}", 1, "f", "did you mean 'read'"),
        ("{:process 0 :type :invoke :f :read}\n{:process 0 :type :ok :f :write}", 1, "f", "of another f"),
        ("{:process 0 :type :ok :f :read}", 1, "process", "never invoked"),
        ("[1 2]", 1, None, "saw 1, expected a map"),
        ("{:a 1}}", 1, None, ""),
        ("[{:a 1)]", 1, None, "saw ')', which closes nothing"),
        ("{:a}", 1, None, "a key and no value"),
    ],
)
def test_damage_is_told_with_its_place(text: str, line: int, field: str | None, said: str) -> None:
    with pytest.raises(HistoryError) as error:
        edn.parse(text)
    assert (error.value.line, said in str(error.value)) == (line, True), str(error.value)
    assert error.value.field == field or "{:a 1}}" in text


def test_the_file_is_named_too(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text("{:process 0 :type :invoke :f :reed}")
    with pytest.raises(HistoryError, match=r"history\.edn:1: field 'f'"):
        load(path)


@pytest.mark.parametrize("tail", ["{:process 1 :type", '{:process 1 :error "abc', "[{:process 1}"])
def test_a_last_form_cut_short_is_a_truncated_history(tail: str) -> None:
    whole = "{:process 0 :type :invoke :f :acquire}\n{:process 0 :type :ok :f :acquire}\n"
    if tail.startswith("["):
        whole, tail = "[" + whole, ""
    history = edn.parse(whole + tail)
    assert (len(history.ops), len(history.problems)) == (1, 1)
    assert "truncated" in history.problems[0]


texts = st.text(max_size=8)
names = st.from_regex(r"[a-z]{1,6}(/[2-9])?|[1-9][0-9]?", fullmatch=True).filter(
    lambda name: name not in ("nemesis", "lab", "node")
)
numbers = st.integers(-(2**62), 2**62)


COMPLETIONS: tuple[Literal["ok", "fail", "info"] | None, ...] = ("ok", "fail", "info", None)


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Well-formed events with every kind of field."""
    events: list[Event] = []
    keys = texts if draw(st.booleans()) else st.none()
    for process in draw(st.lists(names, max_size=5, unique=True)):
        f = draw(st.sampled_from(["acquire", "release", "read", "write", "cas"]))
        value: Any = [draw(numbers), draw(texts)] if f == "cas" else draw(st.none() | numbers | texts)
        common: dict[str, Any] = {"process": process, "f": f, "key": draw(keys)}
        events.append(Event(time_ns=len(events), type="invoke", value=value, **common))
        kind = draw(st.sampled_from(COMPLETIONS))
        if kind is not None:
            error = draw(texts) if kind != "ok" else None
            fence = draw(st.none() | numbers)
            events.append(
                Event(time_ns=len(events), type=kind, value=value, error=error, fence=fence, **common)
            )
    if draw(st.booleans()):
        receipt = {"before": draw(numbers), "after": [draw(texts), None, True, 1.5]}
        cut: dict[str, Any] = {"targets": ["A", "B"], "receipt": receipt, "value": {"x": [1]}}
        events.append(Event(time_ns=99, process="nemesis", type="info", f="cut", **cut))
        events.append(Event(time_ns=99, process="lab", type="ok", f="log", entries=[(1, "v", "g", None)]))
    for index, event in enumerate(events):
        event.index = index
    return events


@settings(max_examples=examples(200), deadline=None)
@given(events=histories(), epsilon_ns=st.integers(0, 10**9))
def test_what_is_written_is_read_again(
    events: list[Event], epsilon_ns: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("edn") / "history.edn"
    params = Params(rho=0.01, epsilon_ns=epsilon_ns, clients=["a"], model="owner-mutex", lock_fences=False)
    save(History.from_events(events, params), path)
    again = load(path)
    assert list(again.events()) == events
    assert again.params == params


def test_our_comment_without_parameters_is_an_error() -> None:
    with pytest.raises(HistoryError, match="no parameters"):
        edn.parse(edn_ends.HEADER + "{:rh 3}\n")
