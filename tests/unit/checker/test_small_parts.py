"""The small values that all share: public names, errors, words for durations, outcomes, completeness."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

import checker
from checker.errors import HistoryError
from checker.history.completeness import Completeness, compared, least, stated
from checker.history.evidence import Evidence
from checker.verdict import Outcome, Property, Severity, judge, worst
from checker.words import in_words, instant, listed
from tests.unit.checker.builder import HistoryBuilder

MS = 1_000_000


def test_every_public_name_is_there() -> None:
    assert sorted(checker.__all__) == sorted(checker._HOME)
    for name in checker.__all__:
        found = getattr(checker, name)
        assert name == "IMPOSSIBLE" or found.__name__ == name
    with pytest.raises(AttributeError, match="module 'checker' has no attribute 'nothing'"):
        _ = checker.nothing


@pytest.mark.parametrize(
    ("ns", "words", "least"),
    [
        *[(0, "0 ms", "0 ms"), (1, "0 ms", "0 ms"), (999, "0.001 ms", "0 ms")],
        *[(49_999, "0.050 ms", "0.049 ms"), (50_000, "0.1 ms", "0 ms"), (449_999, "0.4 ms", "0.4 ms")],
        *[(9_940_000, "9.9 ms", "9.9 ms"), (9_990_000, "10 ms", "9.9 ms"), (10 * MS, "10 ms", "10 ms")],
        *[(-10 * MS, "−10 ms", "−10 ms"), (999_600_000, "1000 ms", "999 ms"), (1000 * MS, "1 s", "1 s")],
        *[(1960 * MS, "2 s", "1.9 s"), (59_960 * MS, "60 s", "59.9 s"), (60_000 * MS, "60 s", "60 s")],
        *[(61_600 * MS, "62 s", "61 s"), (-1500 * MS, "−1.5 s", "−1.5 s")],
    ],
)
def test_durations_in_words(ns: int, words: str, least: str) -> None:
    assert in_words(ns).replace("0.000 ms", "0 ms") == words
    assert in_words(ns, at_least=True).replace("0.000 ms", "0 ms") == least


def test_instants_and_lists_in_words() -> None:
    stamps = (0, 1, 49_999_999, 50 * MS, -49_999_999, -50 * MS, 10_190 * MS)
    assert [instant(ns) for ns in stamps] == [
        *("0.00 s", "0.000 ms", "50 ms", "0.05 s", "−50 ms", "-0.05 s", "10.19 s")
    ]
    assert [listed("A"), listed("AB"), listed("ABC"), listed("AB", "or")] == [
        *("A", "A and B", "A, B and C", "A or B")
    ]


def test_an_error_says_where_and_what_to_do() -> None:
    full = HistoryError("bad", file="h", line=3, field="f", hint="do")
    assert str(full) == "h:3: field 'f': bad\nhint: do"
    assert str(full.at(file="x", line=9)) == str(full)
    assert str(HistoryError("bad")) == "bad"
    assert str(HistoryError("bad").at(file="x", line=0)) == "x:0: bad"
    assert str(HistoryError("bad", line=0).at(line=5)) == "0: bad"
    assert str(HistoryError("bad", field="f", hint="do").at(file="x")) == "x: field 'f': bad\nhint: do"


def test_the_worst_outcome() -> None:
    ok, absent, unknown, violated = Outcome.OK, Outcome.ABSENT, Outcome.UNKNOWN, Outcome.VIOLATED
    assert [
        worst([]),
        worst([ok]),
        worst([ok, absent]),
        worst([absent, unknown]),
        worst([violated, unknown]),
    ] == [*(unknown, ok, absent, unknown, violated)]


def test_the_verdict_on_a_property() -> None:
    quiet = judge(Property.FENCING, [], otherwise=Outcome.ABSENT, why="none")
    assert (quiet.outcome, quiet.why, quiet.violations) == (Outcome.ABSENT, "none", ())
    assert judge(Property.FENCING, [], why="fine").outcome is Outcome.OK
    findings = [
        checker.Finding("note", Property.FENCING, Severity.WARNING, "a note"),
        checker.Finding("bad", Property.FENCING, Severity.VIOLATION, "it is bad"),
    ]
    warned = judge(Property.FENCING, findings[:1], why="fine")
    assert (warned.outcome, warned.why, warned.violations) == (Outcome.OK, "fine", ())
    loud = judge(Property.FENCING, findings, why="fine")
    assert (loud.outcome, loud.why, loud.violations) == (Outcome.VIOLATED, "it is bad", (findings[1],))


def test_count_and_digest_at_the_end_of_a_file() -> None:
    whole, counted, unknown = Completeness.WHOLE, Completeness.COUNTED, Completeness.NOT_KNOWN
    assert least(whole, counted) is least(counted, whole) is counted
    assert least(unknown, counted) is least(whole, unknown) is unknown
    assert least(whole, whole) is whole
    assert compared("footer", 3, 3, "d", "d") == (whole, [])
    assert compared("footer", 3, 3, None, "d") == (counted, [])
    assert compared("end", 3, 4, None, "d") == (unknown, ["the end counts 3 events, the file holds 4"])
    assert compared("end", 3, 4, "d", "d") == (unknown, ["the end counts 3 events, the file holds 4"])
    for total, why in ((3, "saw d, expected e"), (4, "the end counts 3 events, the file holds 4")):
        with pytest.raises(HistoryError) as caught:
            compared("end", 3, total, "e", "d")
        assert str(caught.value) == (
            f"field 'digest': the record was changed after it was written: {why}\n"
            "hint: get the file once more; without its end what is left can be judged, but never as ok"
        )
    assert stated(hashlib.sha256(b"")) == f"sha256:{hashlib.sha256(b'').hexdigest()}"


def test_the_model_that_claims_least() -> None:
    def likely(builder: HistoryBuilder) -> str:
        return Evidence(builder.history()).model

    def locks(*reported: dict[str, Any], asked: tuple[dict[str, Any], ...] = ({}, {})) -> HistoryBuilder:
        builder = HistoryBuilder()
        for number, (one, more) in enumerate(zip(reported, asked, strict=False)):
            builder.op(f"a{number}", "acquire", 2 * number, 2 * number + 1, asked=more, **one)
        return builder

    assert likely(locks({}, {})) == "mutex"
    assert likely(locks({"grant_id": "g"}, {})) == "lease"
    assert likely(locks({}, {}, asked=({"ttl_ns": 5}, {}))) == "lease"
    assert likely(locks({}, {}, asked=({}, {"ttl_ns": 5}))) == "lease"
    assert likely(HistoryBuilder()) == "lease"
    assert likely(HistoryBuilder().op("a", "release", 0, 1)) == "lease"
    for f, value in (("read", None), ("write", 1), ("cas", [1, 2])):
        assert likely(HistoryBuilder().op("a", f, 0, 1, asked={"value": value})) == "cas-register"
    assert likely(HistoryBuilder().op("a", "read", 0, 1, version_read=1)) == "lease"
    assert likely(HistoryBuilder().op("a", "write", 0, 1, asked={"value": 1}, version_written=1)) == "lease"
    assert likely(HistoryBuilder().op("a", "read", 0, 1).op("a", "release", 2, 3)) == "lease"
    assert likely(locks({}).op("b", "read", 5, 6)) == "mutex"
    assert likely(HistoryBuilder(model="semaphore", permits=1).op("a", "acquire", 0, 1)) == "semaphore"
