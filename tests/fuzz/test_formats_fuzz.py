"""Whatever a file holds: a history that can be checked, or one error; and half a history is never a pass."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from checker import History, HistoryError, Outcome, check, load, save
from checker.formats import FORMATS
from checker.history.completeness import Completeness
from tests.fuzzing import examples

GOLDEN = sorted((Path(__file__).resolve().parents[1] / "golden").glob("*.jsonl"))
LOG = b"""INFO  jepsen.util - 0\t:invoke\t:read\tnil
INFO  jepsen.util - 0\t:ok\t:read\t3
INFO  jepsen.util - 1\t:invoke\t:cas\t[3 0]
INFO  jepsen.util - 1\t:fail\t:cas\t[3 0]
INFO  jepsen.util - 2\t:info\t:write\t:timed-out
"""
PIECES = (
    *(b"[", b"]", b"{", b"}", b"(", b")", b'"', b"\\", b":", b",", b"\n", b"\r\n", b" ", b"\0", b"\xff"),
    *(
        b"null",
        b"nil",
        b"NaN",
        b"1e999",
        b"1e308",
        b"-1",
        b"9" * 30,
        b"9" * 5000,
        b"9223372036854775807",
        b"-9223372036854775808",
        b"4611686018427387904",
        b"true",
        b'"\\ud800"',
        b"#_",
        b"^",
    ),
    *(
        b"[" * 2000,
        b"#{",
        b"{:a " * 2000,
        b'{"a":' * 2000,
        b"; history 1 ",
        b'{"history":1}',
        b'{"end":true}',
        b"PAR1",
    ),
    *(
        b'"ok"',
        b'"invoke"',
        b'"acquire"',
        b'"lab"',
        b":process",
        b":type :ok",
        b"\xef\xbb\xbf",
        b"\x1f\x8b\x08",
    ),
)
SUFFIXES = (".jsonl", ".edn", ".parquet")
RARE = (b"[", b"{", b'"', b"(")

fuzzed = settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))


@cache
def seeds() -> dict[str, list[bytes]]:
    """Whole files of each format, from histories that are known."""
    histories = [load(path) for path in GOLDEN]
    found: dict[str, list[bytes]] = {"jsonl": [path.read_bytes() for path in GOLDEN], "jepsen-log": [LOG]}
    with tempfile.TemporaryDirectory() as place:
        for name in ("edn", "parquet"):
            found[name] = []
            for history in histories:
                file = Path(place, f"h{FORMATS[name].suffixes[0]}")
                try:
                    save(history, file)
                except HistoryError:  # polars is not installed
                    break
                found[name].append(file.read_bytes())
    return found


def kept(history: History) -> History:
    """The same history, whose file may go away."""
    events = list(history.events())
    return replace(history, source=lambda: events)


@cache
def written() -> dict[str, list[tuple[bytes, History]]]:
    """Whole files with count and digest, and what they hold."""
    found: dict[str, list[tuple[bytes, History]]] = {}
    with tempfile.TemporaryDirectory() as place:
        for suffix in SUFFIXES:
            found[suffix] = []
            for path in GOLDEN[:20]:
                file = Path(place, f"h{suffix}")
                try:
                    save(replace(load(path), complete=Completeness.WHOLE), file)
                except HistoryError:  # polars is not installed
                    break
                found[suffix].append((file.read_bytes(), kept(load(file))))
    return found


@st.composite
def damaged(draw: st.DrawFn, format: str) -> bytes:
    """A file of the format to which something happened."""
    data = bytearray(draw(st.sampled_from(seeds()[format] or [b""])))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        to = min(len(data), at + draw(st.sampled_from([0, 0, 1, 1, 2, 5, 20, 100])))
        piece = draw(
            st.one_of(st.sampled_from(PIECES), st.binary(max_size=6), st.just(bytes(data[at:to] * 2)))
        )
        data[at:to] = piece
    return bytes(data)


def read(data: bytes, suffix: str) -> History | None:
    """The history, checked as well; None for the one error. Anything else fails the test."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, f"h{suffix}")
        file.write_bytes(data)
        try:
            history = load(file)
            verdict = check(history)
            assert not [one.why for one in verdict.properties.values() if "the check crashed" in one.why]
        except HistoryError as error:
            reported = str(error)
        else:
            return kept(history)
    reported.encode()
    assert str(file) in reported
    return None


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_to_what_was_written_is_never_a_pass(suffix: str) -> None:
    """Several damages at once, in places that are drawn; a single one in every place is tried elsewhere."""
    if not written()[suffix]:
        pytest.skip("polars is not installed")

    @fuzzed
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        whole, original = data.draw(st.sampled_from(written()[suffix]))
        changed = bytearray(whole)
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, max(0, len(changed) - 1)))  # nothing may be left
            to = data.draw(st.sampled_from([at, at + 1, at + 2, at + 40, len(changed)]))
            changed[at:to] = data.draw(st.binary(max_size=2))
        history = read(bytes(changed), suffix)
        if history is None or history.complete is not Completeness.WHOLE:
            return
        if not history.problems:
            assert list(history.events()) == list(original.events())
            assert history.params == original.params

    holds()


@pytest.mark.parametrize("format", FORMATS)
def test_damaged_files(format: str) -> None:
    if not seeds()[format]:
        pytest.skip("polars is not installed")

    @fuzzed
    @given(damaged(format))
    def holds(data: bytes) -> None:
        read(data, FORMATS[format].suffixes[0])

    holds()


@fuzzed
@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(PIECES), max_size=12).map(b"".join)))
@example(b'{"time_ns":0,"process":"a","type":"info","f":"x","value":' + b"[" * 5000)
@example(b"{:process 0, :type :invoke, :f :write, :value " + b"[" * 5000 + b"]" * 5000 + b"}")
@example(b"INFO  jepsen.util - 0\t:invoke\t:write\t} {:w 5")
def test_any_bytes_under_any_name(data: bytes) -> None:
    for suffix in (".jsonl", ".edn", ".log", ".parquet", ".gz", ""):
        read(data, suffix)


@fuzzed
@given(st.sampled_from(GOLDEN), st.data())
def test_half_a_history_is_no_pass(path: Path, data: st.DataObject) -> None:
    whole = path.read_bytes().rstrip()
    cut = data.draw(st.integers(0, len(whole) - 1))
    history = read(whole[:cut], ".jsonl")
    if history is not None and b'"history"' in whole[:cut]:
        outcomes = {seen.outcome for seen in check(history).properties.values()}
        assert not outcomes & {Outcome.OK, Outcome.ABSENT}


NUMBER = re.compile(
    rb'"(?:(?:time|ttl|claimed|attempt|deadline|start|duration)_ns|fence|version_\w+)":(-?\d+)'
)
EXTREMES = (2**63 - 1, -(2**63), 2**62, 2**62 - 1, 2**61, -(2**62), 2**60, 2**53, 10**18, 0, -1)


@fuzzed
@given(st.sampled_from(GOLDEN), st.data())
def test_extreme_numbers_crash_no_check(path: Path, data: st.DataObject) -> None:
    """They are refused, or computed with: `read` looks for checks that crashed."""
    text = path.read_bytes()
    for _ in range(data.draw(st.integers(1, 3))):
        found = data.draw(st.sampled_from(list(NUMBER.finditer(text))))
        number = str(data.draw(st.sampled_from(EXTREMES))).encode()
        text = text[: found.start(1)] + number + text[found.end(1) :]
    read(text, ".jsonl")
