"""A client that was killed holds no session any more, however the record says that it was killed."""

from __future__ import annotations

from typing import Any

import pytest

from checker import Event, History, Params, check
from checker.formats import edn
from checker.history.evidence import Evidence, is_kill

MS = 1_000_000
NEMESIS = "nemesis"


def events(*nemesis: Event, named: bool, model: str = "owner-mutex") -> History:
    """Alice is granted the lock and never releases it; Bob is granted it at 100 ms."""

    def of(who: str, kind: str, at: int) -> Event:
        grant: dict[str, Any] = {"grant_id": who} if named else {}
        return Event(time_ns=at * MS, process=who, type=kind, f="acquire", key="k", **grant)  # type: ignore[arg-type]

    found = [
        of("alice", "invoke", 0),
        of("alice", "ok", 10),
        *nemesis,
        of("bob", "invoke", 90),
        of("bob", "ok", 100),
    ]
    return History.from_events(found, Params(model=model, permits=1))  # type: ignore[arg-type]


def pair(f: str, **target: Any) -> tuple[Event, Event]:
    receipt: dict[str, Any] = {"receipt": {"processes": 0}}
    return (
        Event(time_ns=50 * MS, process=NEMESIS, type="invoke", f=f, **target),
        Event(time_ns=60 * MS, process=NEMESIS, type="ok", f=f, **target, **receipt),
    )


def alone(f: str, **target: Any) -> tuple[Event]:
    return (Event(time_ns=50 * MS, process=NEMESIS, type="info", f=f, **target),)


TOLD = {
    "a fault of the lab": pair("client_crash", targets=["alice"]),
    "a kill": pair("kill", targets=["alice"]),
    "one target": pair("crash", target="alice"),
    "as Jepsen writes it": alone("kill", value="alice"),
    "a list": alone("crash-clients", value=["carol", "alice"]),
    "a map": alone("kill", value={"alice": "killed"}),
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("model", ["owner-mutex", "mutex", "reentrant-mutex", "semaphore", "lease"])
@pytest.mark.parametrize("told", TOLD)
def test_a_session_ends_with_its_client(told: str, model: str, named: bool) -> None:
    verdict = check(events(*TOLD[told], named=named, model=model))
    assert verdict["mutual_exclusion"].outcome == "ok", verdict["mutual_exclusion"].why


@pytest.mark.parametrize(
    "nemesis",
    [
        (),
        alone("kill", value="carol"),
        alone("kill", value=["n1", "n2"]),
        alone("pause", value="alice"),
        alone("skill", value="alice"),
        pair("crash", targets=["n1"]),
    ],
)
@pytest.mark.parametrize("model", ["owner-mutex", "mutex", "semaphore"])
def test_another_fault_or_target_ends_nothing(nemesis: tuple[Event, ...], model: str) -> None:
    assert check(events(*nemesis, named=False, model=model))["mutual_exclusion"].outcome == "violated"


def test_a_lease_does_not_end_with_its_client() -> None:
    history = events(*TOLD["a kill"], named=True, model="lease")
    leases = [
        Event(
            time_ns=e.time_ns,
            process=e.process,
            type=e.type,
            f=e.f,
            key=e.key,
            grant_id=e.grant_id,
            ttl_ns=10**9,
        )
        if e.process != NEMESIS
        else e
        for e in history.events()
    ]
    assert check(History.from_events(leases, history.params))["mutual_exclusion"].outcome == "violated"


def test_a_kill_of_nobody_known_is_no_client_s_death() -> None:
    assert Evidence(events(*TOLD["a map"], named=True)).killed == [(0, 50 * MS)]
    assert Evidence(events(*pair("kill", targets=["alice"]), named=True)).killed == [(0, 50 * MS)]
    assert [is_kill(f) for f in ("kill", "client-crash", "crash_client", "power-cut", "restart")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_a_process_of_jepsen_is_a_client() -> None:
    text = """
    {:type :invoke, :f :acquire, :process 0, :time 1}
    {:type :ok, :f :acquire, :process 0, :time 2}
    {:type :info, :f :kill, :process :nemesis, :value 0, :time 3}
    {:type :invoke, :f :acquire, :process 1, :time 4}
    {:type :ok, :f :acquire, :process 1, :time 5}"""
    assert check(edn.parse(text), model="owner-mutex")["mutual_exclusion"].outcome == "ok"
    other = text.replace(":value 0", ":value 1")
    assert check(edn.parse(other), model="owner-mutex")["mutual_exclusion"].outcome == "violated"
