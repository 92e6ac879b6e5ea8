"""A trial that was kept as JSON: read, checked, and run again, which comes to the same to the last event."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec
from pydantic import ValidationError

from lab.errors import LabError, did_you_mean
from lab.faults.base import Fault
from lab.locks import check_options
from lab.scenario.explain import first_problem
from lab.scenario.problems import key_path
from lab.scenario.steps import references
from lab.scenario.tracks import Timed
from lab.scenario.triggers import START
from lab.search.as_tracks import unfit
from lab.search.runner import Outcome, Wire, run_trial, trials
from lab.search.space import must_run_in_virtual_time
from lab.search.trial import START_NS, Round, Trial, decode

MARK: Final = "# The trial that this tells:\n# "
"""What stands before a trial at the end of the scenario that was made of it."""
NODES_MAX: Final = 26
Wrong = tuple[str, str, str]
"""What is wrong with a trial: where, what was seen, what was expected."""


def replay(text: bytes | str, name: str, wire: Wire = "direct", *, watch: bool = False) -> Outcome:
    """Run a trial again.

    Args:
        text: the trial, as ``Trial.key`` writes it, or a scenario that was made of one.
        name: the file that it comes from, for errors.
        wire: how requests reach the nodes; a trial comes out the same on the wire on which it was found.
        watch: see ``run_trial``.

    Raises:
        LabError: it is no trial, or one that cannot be: with the file and the key.
    """
    trial = trial_of(text, name)
    with trials(wire):
        return run_trial(trial, wire, watch=watch)


def read_trial(path: Path) -> Trial:
    """The trial in a file: JSON, or a scenario that was made of one. Raises ``LabError``."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise LabError(f"cannot read it: {error.strerror}", where=str(path)) from error
    return trial_of(text, str(path))


def trial_of(text: bytes | str, name: str) -> Trial:
    """The trial that this text says. Raises ``LabError``."""
    data = text if isinstance(text, bytes) else text.encode()
    _, mark, at_the_end = data.partition(MARK.encode())
    try:
        trial = decode(at_the_end if mark else data)
    except msgspec.ValidationError as error:
        seen, _, place = str(error).partition(" - at ")
        where = f"{name}, key {place.strip('`').removeprefix('$.')}" if place else name
        if isinstance(error.__cause__, ValidationError):
            raise first_problem(error.__cause__, Timed, where) from error
        raise LabError(seen, where=where, expected=_fields(place), hint=_hint(seen)) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        expected = "a trial as JSON, as `lab search` keeps it, or a scenario that was made of one"
        raise LabError(f"this is no JSON: {error}", where=name, expected=expected) from error
    must_be_possible(trial, name)
    must_run_in_virtual_time(trial.lock)
    check_options(trial.lock, trial.ttl_ns, trial.options)  # a lock that there is, with options that it has
    return trial


def must_be_possible(trial: Trial, name: str) -> None:
    """Refuse a trial with clients, nodes or durations that cannot be.

    Args:
        trial: the trial.
        name: where it comes from, for the error.

    Raises:
        LabError: what cannot be, with the key in the trial.
    """
    for where, seen, expected in _wrong(trial):
        raise LabError(seen, where=f"{name}, key {where}", expected=expected)


def _fields(place: str) -> str:
    """The keys that may stand at a place in a trial."""
    kind = Round if "clients" in place else Trial
    return f"the keys {', '.join(kind.__struct_fields__)}"


def _hint(seen: str) -> str | None:
    unknown = re.search(r"unknown field `(.*)`", seen)
    known = {name for kind in (Trial, Round) for name in kind.__struct_fields__}
    near = did_you_mean(unknown[1], sorted(known)) if unknown else None
    return f"did you mean {near!r}?" if near else None


def _wrong(trial: Trial) -> Iterator[Wrong]:
    """Everything in a trial that cannot be, though its types are right."""
    if not 1 <= trial.nodes <= NODES_MAX:
        yield "nodes", f"{trial.nodes} nodes", f"1 to {NODES_MAX}"
    if not trial.clients:
        yield "clients", "no client", "one at least"
    for key in ("ttl_ns", "horizon_ns"):
        if getattr(trial, key) <= 0:
            yield key, f"{getattr(trial, key)} ns", "more than 0"
    if trial.demand_ns < 0:
        yield "demand_ns", f"{trial.demand_ns} ns", "0 or more"
    for name, rounds in trial.clients.items():
        for at, each in enumerate(rounds):
            for key in ("think_ns", "hold_ns", "extends", "cancel_ns", "ttl_ns", "extend_ttl_ns"):
                if getattr(each, key) < 0:
                    yield f"clients.{name}[{at}].{key}", str(getattr(each, key)), "0 or more"
    for at, fault in enumerate(trial.faults):
        for where, seen, expected in _wrong_in(fault, trial):
            yield f"faults[{at}].{where}", seen, expected
    for loc, error in unfit(trial):
        context = error.context or {}
        yield key_path(("tracks", *loc)), str(context.get("seen")), str(context.get("expected"))


def _wrong_in(fault: Timed, trial: Trial) -> Iterator[Wrong]:
    if not isinstance(fault.step, Fault):
        yield fault.step.KEY, f"a {fault.step.KEY}", "a fault"
        return
    known = {"client": tuple(trial.clients), "node": trial.node_names}
    for to, loc, word in references(fault):
        if word not in known[to]:
            yield key_path((fault.step.KEY, *loc[1:])), f"the {to} {word!r}", f"one of {', '.join(known[to])}"
    at = fault.at
    if at is None or at.default or at.anchor is not None:
        yield f"{fault.step.KEY}.at", "no event", "the start, or an event of a client"
    elif at.track not in (START, *trial.clients):
        yield f"{fault.step.KEY}.at", f"an event of {at.track!r}", f"one of {', '.join(trial.clients)}"
    elif at.after_ns < -START_NS:
        yield f"{fault.step.KEY}.at", f"{at.after_ns} ns", f"{-START_NS} or more"
