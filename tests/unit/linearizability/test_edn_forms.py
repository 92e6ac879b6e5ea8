"""EDN form by form: what each text is read as, and how each value is written."""

from __future__ import annotations

from typing import Any

import pytest

from checker.errors import HistoryError
from checker.formats import edn
from checker.formats.edn import Keyword, forms, written


@pytest.mark.parametrize(
    ("text", "values"),
    [
        *[("nil", [None]), ("true", [True]), ("false", [False]), (":a/b", [Keyword("a/b")])],
        *[("sym", [Keyword("sym")]), ("7", [7]), ("-7", [-7]), ("+7", [7]), ("7N", [7]), ("1.5", [1.5])],
        *[("2.", [2.0]), ("1e3", [1000.0]), ("1E-2M", [0.01]), ("1M", [1.0]), ("-", [Keyword("-")])],
        *[('"a b"', ["a b"]), (r'"\n\t\r\b\f\"\\"', ['\n\t\r\b\f"\\']), (r'"\u0041\q"', ["Aq"])],
        *[(r'"\ud83d\ude00"', ["\U0001f600"]), (r'"\ud83d"', ["\ufffd"])],
        *[(r"\newline \space \tab \return", ["\n", " ", "\t", "\r"]), (r"\a \u0041 \\", ["a", "A", "\\"])],
        *[(r"\u004", ["u", 4]), (r"\other", ["other"]), (r"\ud83d \uab12", ["\ufffd", "\uab12"])],
        *[("[1 2]", [1, 2]), ("(1 (2 3))", [1, (2, 3)]), ("{:a [1 {2 3}]}", [{"a": (1, {2: 3})}])],
        *[("{[1] 2, {3 4} 5}", [{(1,): 2, ((3, 4),): 5}]), ("{#{1} 2}", [{(1,): 2}]), ("#{1 2}", [(1, 2)])],
        *[("#inst 1", [1]), ("#a.b{:c 1}", [{"c": 1}]), ("#_ 1 2", [2]), ("#_ #_ 1 2 3", [3])],
        *[("^{:m 1} 2", [2]), ("[#_ 1 2]", [2]), ("#_ [1 2] 3", [3]), ("1 ; 2\n3,4", [1, 3, 4])],
        *[("", []), (" ,\n; x", []), ("{}", [{}]), ("[]", []), ("{:a}x", None), ("}", None)],
    ],
)
def test_a_text_is_read(text: str, values: list[Any] | None) -> None:
    if values is None:
        with pytest.raises(HistoryError):
            list(forms(text))
        return
    found = [value for _, value in forms(text)]
    assert found == values
    assert [type(value) for value in found] == [type(value) for value in values]


def test_forms_know_their_lines() -> None:
    text = "1\n[2\n\n3]\n; c\n{:a\n4} 5"
    assert list(forms(text)) == [(1, 1), (2, 2), (4, 3), (6, {"a": 4}), (7, 5)]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(None, "nil"), (True, "true"), (False, "false"), (7, "7"), (1.5, "1.5"), (Keyword("a"), ":a")],
        *[("a", '"a"'), ('a"\\\n\r\t', '"a\\"\\\\\\n\\r\t"'), ([1, "b"], '[1 "b"]'), ((1, 2), "[1 2]")],
        *[({"a": 1, Keyword("b"): None}, '{"a" 1, :b nil}'), ({}, "{}"), ([], "[]")],
    ],
)
def test_a_value_is_written(value: Any, text: str) -> None:
    assert written(value) == text


@pytest.mark.parametrize("name", ["error", "key", "grant_id", "token", "node", "client", "target"])
@pytest.mark.parametrize(("value", "reported"), [("7", "7"), ('"x"', "x"), (":a", "a"), ("[1 :a]", "[1 :a]")])
def test_what_is_a_name_is_text_whatever_it_was(name: str, value: str, reported: str) -> None:
    line = f"{{:process 0 :type :invoke :f :read :{name.replace('_', '-')} {value}}}"
    ((_, form),) = forms(line)
    assert getattr(edn.event_of(form, 0), name) == reported


def test_only_an_integer_may_be_too_long() -> None:
    longest = edn.DIGITS_MAX
    assert list(forms("1" * longest)) == [(1, int("1" * longest))]
    for fine in (":" + "a" * 2 * longest, "a" * 2 * longest, "0." + "1" * 2 * longest):
        assert len(list(forms(fine))) == 1
    with pytest.raises(HistoryError):
        list(forms("1" * (longest + 1)))


def test_only_one_form_is_a_form() -> None:
    assert edn._form('{:a [1 "b" :c]}') == {"a": [1, "b", "c"]}
    for text, count in (("", 0), ("1 2", 2)):
        with pytest.raises(ValueError, match=f"saw {count} forms, expected one map"):
            edn._form(text)
