"""Hypothesis strategies for schedules and faults. The simplest come first, so that is what is shrunk to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from lab.api import prepared
from lab.durations import DurationError, parse_duration_ns
from lab.errors import LabError, did_you_mean
from lab.faults.clock import ClockFault
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.down import DownFault
from lab.faults.drift import Drift
from lab.faults.hold import Hold
from lab.faults.links import ConnectionsFault
from lab.faults.pause import Pause
from lab.faults.power_cut import PowerCut
from lab.faults.reset import Reset
from lab.locks import check_options, lock_class, name_of
from lab.redis_model.persistence import Persistence
from lab.scenario.tracks import Timed
from lab.scenario.triggers import SENDS, START, Trigger, at_start, on
from lab.scenario.types import NODE_NAMES
from lab.search.draw import PERSISTENCES
from lab.search.faults import BY_NAME, FOR_GOOD, KINDS, Kind, timed_fault
from lab.search.space import must_run_in_virtual_time
from lab.search.trial import CLIENTS, Ending, OptionValue, Round, Trial
from lab.substrates.base import Direction

MS_NS: Final = 1_000_000
S_NS: Final = 1_000 * MS_NS
NODES_MAX: Final = 9
TTL_MIN_NS: Final = 100 * MS_NS
SEED_MAX: Final = 999

Faults = Literal["safe", "all"] | Sequence[str]
Options = Mapping[str, OptionValue]

SAFE_KINDS: Final = tuple(kind.KEY for kind in (Cut, Reset, Delay, Hold, Crash, PowerCut, Drift))
"""Kinds of faults that a correct lock bears: nodes keep what they have synced, delays stay below a tenth of
the TTL, and clocks run at most 0.8 % too fast or too slow."""
EVENTS: Final = (
    START,
    "acquire invoke",
    "granted",
    "write invoke",
    "release invoke",
    "extend invoke",
    SENDS,
)
DRIFTS_PPM: Final = (8_000, -8_000)
FAR_DRIFTS_PPM: Final = (*DRIFTS_PPM, 200_000, -200_000)


def schedules(
    lock: str | Callable[..., Any] = "redlock",
    *,
    clients: int = 2,
    nodes: int = 5,
    ttl: str = "5s",
    faults: Faults = "safe",
    max_faults: int = 4,
    rounds: int = 3,
    options: Options | SearchStrategy[dict[str, OptionValue]] | None = None,
    persistence: Persistence | None = "aof-always",
    fencing: bool | None = None,
) -> SearchStrategy[Trial]:
    """Schedules: what each client does with the lock, the faults, and the seed of all latencies.

    Args:
        lock: the lock under test: a name, ``package.module:Class``, or the class itself.
        clients: how many, 1 to 4: alice, bob, carol and dave.
        nodes: how many Redis nodes there are, 1 to 9.
        ttl: of each lease, with its unit; 100ms or more.
        faults: "safe": only what a correct lock bears (see ``SAFE_KINDS``); "all": every kind, of every size;
            or kinds by name, of every size.
        max_faults: how many faults there are at most.
        rounds: how many critical sections each client goes through at most.
        options: of the lock, as in a scenario; or a strategy, such as ``lock_options(lock)``.
        persistence: what the nodes keep of what they write; None: that is drawn.
        fencing: whether the store checks fencing tokens; by default where the lock hands them out.

    Raises:
        LabError: an argument that cannot be, or an unknown lock.
    """
    name, ttl_ns, names = name_of(lock), ttl_ns_of(ttl), _names(clients)
    must_run_in_virtual_time(name)
    _must_be("nodes", nodes, 1, NODES_MAX)
    _must_be("rounds", rounds, 1)
    _must_be("max_faults", max_faults, 0)
    if not kinds_of(faults):
        faults, max_faults = "safe", 0
    if options is None or isinstance(options, Mapping):
        check_options(name, ttl_ns, options or {})  # a lock that there is, and options that it has
        options = st.just(dict(options or {}))
    persistences = PERSISTENCES if persistence is None else (persistence,)
    return _schedules(
        Trial(
            name,
            {},
            nodes=nodes,
            ttl_ns=ttl_ns,
            store_fences=bool(lock_class(name).hands_out_fences) if fencing is None else fencing,
            horizon_ns=7 * ttl_ns + 8 * S_NS,
            demand_ns=3 * ttl_ns + 4 * S_NS,
        ),
        st.fixed_dictionaries(
            {each: st.lists(_rounds(ttl_ns), min_size=1, max_size=rounds) for each in names}
        ),
        st.lists(_faults(names, nodes, ttl_ns, faults), max_size=max_faults),
        options,
        st.sampled_from(sorted(persistences, key=("aof-always", *PERSISTENCES).index)),
    )


def faults(
    kinds: Faults = "safe", *, clients: int = 2, nodes: int = 5, ttl: str = "5s"
) -> SearchStrategy[Timed]:
    """One fault: its kind, when it strikes, whom, and for how long. Arguments: those of ``schedules``.

    Raises:
        LabError: an argument that cannot be.
    """
    _must_be("nodes", nodes, 1, NODES_MAX)
    return _faults(_names(clients), nodes, ttl_ns_of(ttl), kinds)


@st.composite
def _schedules(
    draw: DrawFn,
    blank: Trial,
    clients: SearchStrategy[dict[str, list[Round]]],
    faults: SearchStrategy[list[Timed]],
    options: SearchStrategy[dict[str, OptionValue]],
    persistences: SearchStrategy[Persistence],
) -> Trial:
    prepared.prepare()  # here it does not count against the deadline of an example
    drawn = draw(clients)  # in an order of its own
    return Trial(
        blank.lock,
        {client: tuple(drawn[client]) for client in CLIENTS if client in drawn},
        tuple(draw(faults)),
        nodes=blank.nodes,
        persistence=draw(persistences),
        ttl_ns=blank.ttl_ns,
        options=draw(options),
        store_fences=blank.store_fences,
        seed=draw(st.integers(0, SEED_MAX)),
        horizon_ns=blank.horizon_ns,
        demand_ns=blank.demand_ns,
    )


@st.composite
def _rounds(draw: DrawFn, ttl_ns: int) -> Round:
    thinks = (0, 20 * MS_NS, 300 * MS_NS, 2 * S_NS, ttl_ns * 11 // 10)
    holds = (ttl_ns // 100, ttl_ns * 3 // 10, ttl_ns * 9 // 10, ttl_ns * 12 // 10)
    longer = (ttl_ns * 15 // 10, ttl_ns * 24 // 10)
    endings: tuple[Ending, ...] = ("release", "release", "release", "keep", "twice")
    think_ns = draw(st.sampled_from(thinks))
    extends = draw(st.sampled_from((0, 0, 0, 1, 2)))
    hold_ns = draw(st.sampled_from((*holds, *longer) if extends else holds))
    ends = draw(st.sampled_from(endings))
    return Round(think_ns, hold_ns, extends, ends, draw(st.sampled_from((0, 0, 0, 0, 0, 300_000, 2 * MS_NS))))


def _faults(names: Sequence[str], nodes: int, ttl_ns: int, faults: Faults) -> SearchStrategy[Timed]:
    """Faults of these kinds, at places that there are."""
    safe = faults == "safe"
    kinds = kinds_of(faults)
    if not kinds:
        raise _bad("faults", "no kind", "at least one of " + ", ".join(BY_NAME))
    every = NODE_NAMES[:nodes]
    return st.one_of([_strategy_of(kind)(kind, tuple(names), every, ttl_ns, safe) for kind in kinds])


def _strategy_of(kind: Kind) -> Callable[..., SearchStrategy[Timed]]:
    """What draws the faults of a kind."""
    if issubclass(kind, ConnectionsFault):
        return _on_links
    if issubclass(kind, ClockFault):
        return _on_clocks
    return _on_nodes if issubclass(kind, DownFault) else _on_clients


@st.composite
def _on_links(
    draw: DrawFn, kind: Kind, names: tuple[str, ...], every: tuple[str, ...], ttl_ns: int, safe: bool
) -> Timed:
    when, client = draw(_whens(names)), draw(st.sampled_from(names))
    nodes = draw(_some(every))
    if issubclass(kind, Reset):
        return timed_fault(kind, when, client, nodes)
    if issubclass(kind, Cut):
        ways: tuple[Direction, ...] = ("both", "requests", "replies")
        direction = draw(st.sampled_from(ways))
        return timed_fault(kind, when, client, nodes, 0, draw(_lengths(ttl_ns)), direction)
    short_ns = ttl_ns // 10
    lasts = st.sampled_from((short_ns // 4, short_ns)) if safe else _lengths(ttl_ns)
    if issubclass(kind, Hold):
        return timed_fault(
            kind, when, client, nodes, 0, draw(lasts), draw(st.sampled_from(("replies", "requests")))
        )
    sizes = (short_ns // 4, short_ns) if safe else (20 * MS_NS, 200 * MS_NS, S_NS)
    return timed_fault(kind, when, client, nodes, draw(st.sampled_from(sizes)), draw(lasts))


@st.composite
def _on_nodes(
    draw: DrawFn, kind: Kind, names: tuple[str, ...], every: tuple[str, ...], ttl_ns: int, _: bool
) -> Timed:
    when, node = draw(_whens(names)), draw(st.sampled_from(every))
    return timed_fault(kind, when, nodes=(node,), lasts_ns=draw(_lengths(ttl_ns)))


@st.composite
def _on_clients(
    draw: DrawFn, kind: Kind, names: tuple[str, ...], _: tuple[str, ...], ttl_ns: int, __: bool
) -> Timed:
    when, client = draw(_whens(names)), draw(st.sampled_from(names))
    lasts_ns = draw(_lengths(ttl_ns)) if issubclass(kind, Pause) else FOR_GOOD
    return timed_fault(kind, when, client, lasts_ns=lasts_ns)


@st.composite
def _on_clocks(
    draw: DrawFn, kind: Kind, names: tuple[str, ...], every: tuple[str, ...], ttl_ns: int, safe: bool
) -> Timed:
    """A clock of a node, or the wall clock of a client."""
    when, whose = draw(_whens(names)), draw(st.sampled_from((*every, *names)))
    client, nodes = (whose, ()) if whose in names else ("", (whose,))
    if issubclass(kind, Drift):
        rates = DRIFTS_PPM if safe else FAR_DRIFTS_PPM
        return timed_fault(kind, when, client, nodes, ppm=draw(st.sampled_from(rates)))
    past_ns = ttl_ns + S_NS
    by_ns = draw(st.sampled_from((past_ns, 2 * ttl_ns, ttl_ns // 2, -ttl_ns, -past_ns)))
    return timed_fault(kind, when, client, nodes, by_ns=by_ns)


@st.composite
def _whens(draw: DrawFn, names: tuple[str, ...]) -> Trigger:
    event = draw(st.sampled_from(EVENTS))
    after_ns = draw(st.sampled_from((0, 0, 200_000, 20 * MS_NS, S_NS, 4 * S_NS)))
    if event == START:
        return at_start(after_ns)
    return on(draw(st.sampled_from(names)), event, draw(st.integers(1, 3)), after_ns)


@st.composite
def _some(draw: DrawFn, every: tuple[str, ...]) -> tuple[str, ...]:
    """Some nodes: a minority of neighbours, as they cross from one majority to another, or any."""
    count = len(every)
    minority = max(1, (count - 1) // 2)
    width = draw(st.sampled_from((1, minority, max(1, count - 1), 0)))
    if not width:
        mask = draw(st.integers(1, (1 << count) - 1))
        return tuple(name for place, name in enumerate(every) if mask >> place & 1)
    first = draw(st.integers(0, count - 1))
    return tuple(sorted(every[(first + step) % count] for step in range(width)))


def _lengths(ttl_ns: int) -> SearchStrategy[int]:
    """How long a fault lasts; the simplest: for good."""
    return st.sampled_from((FOR_GOOD, 100 * MS_NS, S_NS, ttl_ns // 2, ttl_ns + S_NS))


def kinds_of(faults: Faults) -> tuple[Kind, ...]:
    """The kinds of faults that are meant. Raises ``LabError`` for one that there is not."""
    if isinstance(faults, str):
        if faults not in ("safe", "all"):
            raise _bad("faults", repr(faults), '"safe", "all", or a list of kinds')
        return tuple(BY_NAME[name] for name in SAFE_KINDS) if faults == "safe" else KINDS
    for name in faults:
        if name not in BY_NAME:
            near = did_you_mean(name, BY_NAME)
            expected = "some of " + ", ".join(BY_NAME)
            raise _bad("faults", repr(name), expected, near and f"did you mean {near!r}?")
    return tuple(BY_NAME[name] for name in faults)


def ttl_ns_of(ttl: str) -> int:
    """A TTL in nanoseconds. Raises ``LabError`` for what is no duration, or below 100ms."""
    try:
        ttl_ns = parse_duration_ns(ttl)
    except DurationError as error:
        raise _bad("ttl", f"{ttl!r} {error}", "a duration like 5s") from error
    if ttl_ns < TTL_MIN_NS:
        raise _bad("ttl", f"a TTL of {ttl}", "100ms or more")
    return ttl_ns


def _names(clients: int) -> tuple[str, ...]:
    _must_be("clients", clients, 1, len(CLIENTS))
    return CLIENTS[:clients]


def _must_be(where: str, value: Any, least: int, most: int | None = None) -> None:
    if not isinstance(value, int) or value < least or (most is not None and value > most):
        raise _bad(where, repr(value), f"{least} or more" if most is None else f"{least} to {most}")


def _bad(where: str, seen: str, expected: str, hint: str | None = None) -> LabError:
    return LabError(seen=seen, where=where, expected=expected, hint=hint)
