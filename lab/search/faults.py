"""The faults of trials: the kinds that are drawn, and how a program says one, with its trigger and its end.

They are the steps of ``lab.faults``, as actions of a track: what a scenario says in its file.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from lab.faults.base import Fault
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.down import DownFault
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.machine import MachineStep
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.faults.reset import Reset
from lab.scenario.steps import Acquire, Extend, Release
from lab.scenario.tracks import Timed
from lab.scenario.triggers import Trigger, after
from lab.search.trial import Trial
from lab.substrates.base import Direction

Kind: TypeAlias = type[Fault]
KINDS: Final[tuple[Kind, ...]] = (
    Cut,
    Hold,
    Delay,
    Pause,
    Jump,
    Crash,
    PowerCut,
    Drift,
    Reset,
    ClientCrash,
)
CLASSIC_KINDS: Final[tuple[Kind, ...]] = (Cut, Hold, Delay, Pause, Jump, Crash, PowerCut)
"""What a search draws unless it is asked for more: few kinds, each of which breaks some lock by itself."""
BY_NAME: Final = {kind.KEY: kind for kind in KINDS}
FOR_GOOD: Final = 0
"""As a duration: it does not end."""
CALLS: Final = tuple((step.KEY, "invoke") for step in (Acquire, Extend, Release))
"""Where a client that is paused has done what it does in that instant: it has sent its requests."""
GRANTED: Final = (Acquire.KEY, "ok")


def beyond_classic(kinds: Iterable[Kind]) -> bool:
    """Whether some of these kinds are not classic: then clients do all that they can, too."""
    return not set(kinds) <= set(CLASSIC_KINDS)


def timed_fault(
    kind: Kind,
    at: Trigger,
    client: str = "",
    nodes: tuple[str, ...] = (),
    by_ns: int = 0,
    lasts_ns: int = FOR_GOOD,
    direction: Direction = "both",
    *,
    ppm: int = 0,
    refused: bool = False,
    error: str = "",
) -> Timed:
    """A fault as an action: whom it hits, from when on, how much, and for how long.

    Args:
        kind: what happens; of the other arguments it has those that its step has.
        at: when it strikes. A client that is paused at a call of its own has sent its requests by then.
        client: whose links, clock or process it hits.
        nodes: which nodes, or whose links to them; of a clock or a process that of one node.
        by_ns: by how much a clock jumps, or a link is slower.
        lasts_ns: when it ends after that; some end by themselves.
        direction: which packets a cut, a hold or a delay hits.
        ppm: how much faster a clock runs.
        refused: whether a cut refuses connections, in place of losing what is sent.
        error: what nodes answer, by its first word.
    """
    usual, of_machine = _usual(kind)
    given: dict[str, Any] = {
        "client": (client or None) if of_machine else client,
        "node": nodes[0] if of_machine and not client else None,
        "nodes": nodes,
        "direction": direction,
        "by_ns": by_ns,
        "ppm": ppm,
        "mode": "refused" if refused else "blackhole",
        "error": error,
    }
    step = kind.model_construct(**usual | {name: value for name, value in given.items() if name in usual})
    until = after(lasts_ns) if kind.ENDED_BY is not None else None
    return Timed.model_construct(step=step, at=_sent_by_then(step, at), until=until)


@functools.cache
def _usual(kind: Kind) -> tuple[dict[str, Any], bool]:
    """The fields of a kind's step as by default, and whether it hits one machine."""
    fields = {name: info.get_default() for name, info in kind.model_fields.items()}
    return fields, issubclass(kind, MachineStep)


def _sent_by_then(step: Fault, at: Trigger) -> Trigger:
    if (
        isinstance(step, Pause)
        and step.client == at.track
        and not at.after_ns
        and (at.operation, at.outcome) in (*CALLS, GRANTED)
    ):
        return at.model_copy(update={"after_ns": 1})
    return at


def lasting(fault: Timed, lasts_ns: int) -> Timed:
    """The same fault for so long."""
    if fault.until is not None and fault.until.default and fault.until.after_ns == lasts_ns:
        return fault
    return fault.model_copy(update={"until": after(lasts_ns)})


def moved(fault: Timed, at: Trigger) -> Timed:
    """The same fault at another time."""
    assert isinstance(fault.step, Fault)
    return fault.model_copy(update={"at": _sent_by_then(fault.step, at)})


def with_fields(fault: Timed, **fields: Any) -> Timed:
    """The same fault with other values of its step's fields."""
    return fault.model_copy(update={"step": fault.step.model_copy(update=fields)})


def fault_of(timed: Timed) -> Fault:
    """The step of an action that is a fault."""
    assert isinstance(timed.step, Fault)
    return timed.step


def client_of(fault: Timed) -> str:
    """The client that it hits; empty if it hits none."""
    return getattr(fault.step, "client", None) or ""


def nodes_of(fault: Timed) -> tuple[str, ...]:
    """The nodes that it names."""
    return fault_of(fault).nodes_named


def is_a(timed: Timed, *kinds: type[Any]) -> bool:
    """Whether an action is one of these faults, or of a class that these extend."""
    return isinstance(timed.step, kinds)


def by_machine(fault: Timed) -> tuple[Timed, ...]:
    """A fault that takes several nodes down as one for each; any other as it is.

    Each node has a receipt of its own, and comes back by itself.
    """
    step = fault.step
    if not isinstance(step, DownFault) or len(step.nodes) <= 1 or step.nodes == "all":
        return (fault,)
    return tuple(with_fields(fault, nodes=(node,)) for node in step.nodes)


def in_machines(faults: Iterable[Timed]) -> Iterator[Timed]:
    """The faults, those that take several nodes down as one for each."""
    for fault in faults:
        yield from by_machine(fault)


def every_fault(trial: Trial) -> tuple[Timed, ...]:
    """The faults of a trial, also those of its tracks."""
    in_tracks = (timed for track in trial.tracks.values() for timed in track)
    return (*trial.faults, *(timed for timed in in_tracks if isinstance(timed.step, Fault)))
