"""Durations: exact, with units, and with errors that name the units."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.durations import (
    EXPECTED,
    MAX_NS,
    UNITS_NS,
    DurationError,
    format_duration,
    parse_duration_ns,
)


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("250ms", 250_000_000),
        ("10s", 10_000_000_000),
        ("+11s", 11_000_000_000),
        ("-60s", -60_000_000_000),
        ("1.5s", 1_500_000_000),
        ("2m", 120_000_000_000),
        ("100us", 100_000),
        ("100µs", 100_000),  # micro sign
        ("100μs", 100_000),  # Greek letter
        ("1h", 3_600_000_000_000),
        ("7ns", 7),
        ("0s", 0),
        ("-0s", 0),
        (" 5s ", 5_000_000_000),
        ("0.000000001s", 1),
        ("0.1s", 100_000_000),
        ("1.000000001s", 1_000_000_001),
        ("876000h", MAX_NS),
    ],
)
def test_durations_are_exact(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("10", "has no unit"),
        ("-1.5", "has no unit"),
        ("10 s", "has a space before its unit"),
        ("10sec", "has an unknown unit 'sec'"),
        ("10S", "has an unknown unit 'S'"),
        ("10d", "has an unknown unit 'd'"),
        ("s", "is not a duration"),
        ("soon", "is not a duration"),
        ("1e3s", "has an unknown unit 'e3s'"),
        ("--1s", "is not a duration"),
        (".5s", "is not a duration"),
        ("1.s", "has an unknown unit '.s'"),
        ("1s2s", "has an unknown unit 's2s'"),
        ("١s", "is not a duration"),  # digits of other scripts are no digits here
        ("10\x1b[31m", "has an unknown unit"),
        ("1.5ns", "has a fraction of a nanosecond"),
        ("0.0000000001s", "has a fraction of a nanosecond"),
        ("876001h", "is longer than a hundred years"),
        ("9" * 41 + "s", "is too long for a duration"),
    ],
)
def test_what_is_no_duration_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(DurationError) as caught:
        parse_duration_ns(text)
    assert str(caught.value) == complaint


def test_the_error_names_every_unit() -> None:
    words = EXPECTED.replace(",", "").split()
    assert set(UNITS_NS) <= set(words)


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0s"),
        (250_000_000, "250ms"),
        (1_500_000_000, "1.5s"),
        (60_000_000_000, "1m"),
        (90_000_000_000, "90s"),
        (5_400_000_000_000, "90m"),
        (100_000, "100us"),
        (-60_000_000_000, "-1m"),
        (10_000_000_000, "10s"),
        (1, "1ns"),
    ],
)
def test_the_shortest_text_is_written(duration_ns: int, text: str) -> None:
    assert format_duration(duration_ns) == text


def test_a_signed_duration_keeps_its_plus() -> None:
    assert [format_duration(by, signed=True) for by in (11_000_000_000, -1, 0)] == ["+11s", "-1ns", "0s"]


@given(st.integers(-MAX_NS, MAX_NS))
@example(MAX_NS)
def test_text_and_duration_are_inverse(duration_ns: int) -> None:
    assert parse_duration_ns(format_duration(duration_ns)) == duration_ns
    assert parse_duration_ns(format_duration(duration_ns, signed=True)) == duration_ns


@given(st.integers(1, 10**7), st.integers(0, 13))
def test_no_shorter_text_means_the_same(number: int, zeros: int) -> None:
    duration_ns = min(number * 10**zeros, MAX_NS)
    written = format_duration(duration_ns)
    for unit, digits in itertools.product(UNITS_NS, range(7)):
        scaled, rest = divmod(duration_ns * 10**digits, UNITS_NS[unit])
        if not rest:
            whole, fraction = divmod(scaled, 10**digits)
            other = f"{whole}.{fraction:0{digits}d}{unit}" if digits else f"{whole}{unit}"
            assert parse_duration_ns(other) == duration_ns
            assert len(other) >= len(written)


@given(st.text(max_size=12))
def test_any_text_is_a_duration_or_a_duration_error(text: str) -> None:
    with contextlib.suppress(DurationError):
        assert isinstance(parse_duration_ns(text), int)
