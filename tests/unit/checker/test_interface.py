"""What a user may ask of the checker: properties, permits, models; and what is refused clearly."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import checker
from checker import Event, History, HistoryError, Params, Property, check
from checker.__main__ import main

MUTEX = "\n".join(
    f"{{:type :{kind}, :f :{f}, :value nil, :process {process}, :time {1_000_000 * at}}}"
    for at, (process, f, kind) in enumerate(
        (process, f, kind)
        for process in (0, 1, 2)
        for f in ("acquire", "release")
        for kind in ("invoke", "ok")
    )
)
"""A mutex as Jepsen records it: no TTL, nothing written."""


@pytest.fixture
def mutex(tmp_path: Path) -> Path:
    path = tmp_path / "mutex.edn"
    path.write_text(MUTEX)
    return path


def event(**fields: Any) -> Event:
    return Event(**{"time_ns": 0, "process": "a", "type": "invoke", "f": "acquire", **fields})


# -- the library ---------------------------------------------------------------------------------------------


def test_check_is_the_function() -> None:
    assert checker.check is check
    assert callable(check)
    assert "checker.check" not in sys.modules


@pytest.mark.parametrize("only", ["fencin", ["fencing", "mutual-exclusion"], [], [""]])
def test_a_property_that_does_not_exist_is_refused(only: Any) -> None:
    with pytest.raises(HistoryError, match="expected some of mutual_exclusion") as error:
        check(History.from_events([]), only=only)
    assert error.value.field == "only"


def test_only_what_is_asked_for_is_judged_and_what_is_not_promised_is_unknown() -> None:
    history = History.from_events([event()])
    assert list(check(history, only="fencing").properties) == [Property.FENCING]
    assert list(check(history, only=["resource", Property.FENCING]).properties) == ["fencing", "resource"]
    fairness = check(history, only=["fairness"])
    assert fairness.outcome == "unknown"
    assert "promises nothing of the kind" in fairness["fairness"].why


@pytest.mark.parametrize(
    ("fields", "field", "hint"),
    [
        ({"type": "INVOKE"}, "type", "did you mean 'invoke'?"),
        ({"type": "begin"}, "type", None),
        ({"process": 1.5}, "process", None),
        ({"process": None}, "process", None),
        ({"client": ["a"]}, "client", None),
        ({"f": "aquire"}, "f", "did you mean 'acquire'?"),
    ],
)
def test_a_field_of_the_wrong_kind_is_refused(fields: dict[str, Any], field: str, hint: str | None) -> None:
    with pytest.raises(HistoryError, match=r"event 1") as error:
        History.from_events([event(process="b"), event(**fields)])
    assert (error.value.field, error.value.hint) == (field, hint)


def test_integers_stand_for_processes_and_clients() -> None:
    history = History.from_events([event(process=3, client=7), event(process=3, type="ok", time_ns=1)])
    assert (history.ops.name("process", 0), history.ops.name("client", 0)) == ("3", "7")


def test_a_model_that_does_not_exist_is_refused() -> None:
    with pytest.raises(HistoryError, match="expected one of lease") as error:
        History.from_events([], Params(model="mutexx"))  # type: ignore[arg-type]
    assert (error.value.field, error.value.hint) == ("params.model", "did you mean 'mutex'?")


# -- what does not apply -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model", ["mutex", "owner-mutex", "reentrant-mutex", "fenced-mutex", "reentrant-fenced-mutex", None]
)
def test_a_correct_mutex_is_ok(model: str | None, mutex: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(mutex), *(["--model", model] if model else [])]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"{mutex}: ok\n")
    assert out.count("not applicable") == 2 + bool(model and "reentrant" in model)


def test_what_applies_and_was_not_shown_stays_unknown() -> None:
    leases = [event(ttl_ns=5, key="k"), event(type="ok", time_ns=1, key="k")]
    assert check(History.from_events(leases))["resource"].outcome == "unknown"
    tried = [
        event(),
        event(type="ok", time_ns=1),
        event(f="write", time_ns=2),
        event(f="write", type="fail", time_ns=3),
    ]
    assert check(History.from_events(tried), model="mutex")["resource"].outcome == "unknown"
    assert (
        check(History.from_events([event(), event(type="ok", time_ns=1)]), model="lease").outcome == "unknown"
    )


# -- the command ---------------------------------------------------------------------------------------------


def test_only_these_properties(mutex: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(mutex), "--only", "mutual-exclusion,fencing"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["mutual_exclusion", "fencing"]
    assert main([str(mutex), "--only", "mutual-exclusoin"]) == 2
    assert "did you mean 'mutual_exclusion'?" in capsys.readouterr().err
    assert main([str(mutex), "--only", "fencing", "--model", "a.b:C"]) == 2


def test_permits(tmp_path: Path) -> None:
    path = tmp_path / "h.edn"
    kinds = [(p, kind) for p in (0, 1, 2) for kind in ("invoke", "ok")]
    path.write_text("".join(f"{{:process {p}, :type :{kind}, :f :acquire}}\n" for p, kind in kinds))
    semaphore = [str(path), "--model", "semaphore"]
    assert main(semaphore) == 2
    assert main([*semaphore, "--permits", "0"]) == 2
    assert main([*semaphore, "--permits", "2"]) == 1
    assert main([*semaphore, "--permits", "3"]) == 0
