"""The first value of a register: given in the header or on the command line, or settled by what was seen."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from checker import History, check, load, save
from checker.__main__ import main
from checker.history.events import Event, Params

CAS = "{:process 0, :type :invoke, :f :cas, :value [0 4]}\n{:process 0, :type :ok, :f :cas, :value [0 4]}\n"
NIL = (
    "{:process 0, :type :invoke, :f :cas, :value [nil 4]}\n{:process 0, :type :ok, :f :cas, :value [nil 4]}\n"
)
THREE = "{:process 0, :type :invoke, :f :read}\n{:process 0, :type :ok, :f :read, :value %s}\n"


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        (CAS, [], 0),
        (CAS, ["--initial", "nil"], 1),  # the first operation fails at once on a register that is absent
        (CAS, ["--initial", "0"], 0),
        (CAS, ["--initial", "1"], 1),
        (NIL, ["--initial", "null"], 0),
        (NIL, ["--initial", "4"], 1),
        (THREE % "3", ["--initial", "3"], 0),
        (THREE % "3", ["--initial", '"3"'], 1),
        (THREE % '"3"', ["--initial", '"3"'], 0),
        (THREE % '"a b"', ["--initial", "a b"], 0),
    ],
)
def test_the_first_value_decides(tmp_path: Path, text: str, options: list[str], code: int) -> None:
    path = tmp_path / "h.edn"
    path.write_text(text)
    assert main([str(path), *options]) == code


@pytest.mark.parametrize("suffix", [".jsonl", ".edn", ".parquet"])
@pytest.mark.parametrize("initial", [None, 0, "x", msgspec.UNSET])
def test_the_header_keeps_it(tmp_path: Path, suffix: str, initial: int | str | None) -> None:
    if suffix == ".parquet":
        pytest.importorskip("polars")
    events = [
        Event(time_ns=0, process="a", type="invoke", f="cas", value=[0, 4]),
        Event(time_ns=1, process="a", type="ok", f="cas", value=[0, 4]),
    ]
    path = tmp_path / f"h{suffix}"
    save(History.from_events(events, Params(initial=initial, model="cas-register")), path)
    again = load(path)
    assert again.params.initial == initial
    expected = "ok" if initial in (0, msgspec.UNSET) else "violated"
    assert check(again)["resource"].outcome == expected
