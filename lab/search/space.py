"""What schedules are drawn from, as a command line says it: ``lab search`` and ``lab campaign`` alike."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeVar

import msgspec
import yaml
from pydantic import Field, ValidationError

from lab.durations import UNITS_NS, DurationError, format_duration, parse_duration_ns
from lab.errors import LabError, did_you_mean
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.hold import Hold
from lab.faults.power_cut import PowerCut
from lab.locks import check_options, refuse_alone
from lab.redis_model.model import modelled
from lab.scenario.explain import explain
from lab.scenario.model import Option, OptionName
from lab.scenario.overrides import apply
from lab.scenario.types import Bool, Int, Model, PositiveNs
from lab.scenario.yaml_data import plain
from lab.scenario.yaml_tree import compose
from lab.search.draw import PERSISTENCES, STRATEGIES, Space, Strategy
from lab.search.faults import BY_NAME, CLASSIC_KINDS, KINDS, Kind, beyond_classic
from lab.search.runner import WIRES, Wire
from lab.search.trial import CLIENTS, OptionValue

T = TypeVar("T", bound=str)

WITHIN_ASSUMPTIONS: Final[tuple[Kind, ...]] = (Cut, Hold, Delay, Crash, PowerCut)
"""Faults that leave the assumptions of Redlock alone as long as nodes sync before they answer.

No clock jumps, no client is paused, and nothing that was acknowledged is forgotten.
"""
NODES_MAX: Final = 9
TTL_MIN_NS: Final = 100 * UNITS_NS["ms"]
HORIZON_TTLS: Final = 3
"""How long a trial may go on, in TTLs."""
ANY: Final = "any"
"""As persistence: drawn as well."""
DEFAULT: Final = Space("")
"""What is drawn from unless something else is said."""


@dataclass(frozen=True)
class Drawn:
    """The options about drawn schedules, as they were given; None: the default.

    ``set`` overrides keys as in a scenario: ``lock.ttl``, ``lock.options.…``, ``cluster.nodes``,
    ``cluster.persistence`` and ``store.fencing``. ``ttl`` has its unit; ``faults`` names kinds with commas,
    or is ``all``, ``safe``, or ``classic``, as if it is absent. With a kind beyond the classic ones clients
    do all that they can, instead of plain rounds.
    """

    set: tuple[str, ...] = ()
    ttl: str | None = None
    nodes: int | None = None
    clients: int | None = None
    faults: str | None = None
    persistence: str | None = None
    strategy: str | None = None
    wire: str | None = None
    server: str | None = None
    """What nodes are; the newest that is modelled if None."""

    def given(self) -> Iterator[str]:
        """The options that were given, as words, but for those that a scenario may be given as well."""
        for name, value in vars(self).items():
            if name not in ("set", "server") and value is not None:
                yield f"--{name}"

    def how(self) -> tuple[Strategy, Wire]:
        """How it is drawn and run. Raises ``LabError``: there is no such strategy or wire."""
        strategy = one_of("--strategy", self.strategy or STRATEGIES[0], STRATEGIES)
        return strategy, one_of("--wire", self.wire or WIRES[0], WIRES)


NOTHING_SAID: Final = Drawn()
"""All as it is by default."""


class _Cluster(Model):
    nodes: Int
    """How many nodes."""
    persistence: Literal["none", "aof-everysec", "aof-always", "any"]
    """What nodes keep; any: drawn as well."""


class _Lock(Model):
    ttl_ns: PositiveNs = Field(alias="ttl")
    """The lock's TTL."""
    options: Mapping[OptionName, Option] = Field(default_factory=dict)
    """Passed to the lock."""


class _Store(Model):
    fencing: Bool
    """Whether the store checks fences."""


class _Settings(Model):
    """What ``--set`` may change of a space: keys as in a scenario."""

    lock: _Lock
    """The lock."""
    cluster: _Cluster
    """The nodes."""
    store: _Store
    """The store."""


def space_of(lock: str, drawn: Drawn, options: Mapping[str, OptionValue] | None = None) -> Space:
    """The space that these options ask for.

    Args:
        lock: the lock under test.
        drawn: what was asked for.
        options: of the lock, where ``--set`` names no other ones.

    Raises:
        LabError: there is no such lock, it cannot be simulated, or an option cannot be.
    """
    must_run_in_virtual_time(lock)
    refuse_alone(lock, "--lock")
    if drawn.server:
        modelled(drawn.server, "--server")
    settings, place = _settings(drawn, options or {})
    ttl_ns, nodes = settings.lock.ttl_ns, settings.cluster.nodes
    clients = DEFAULT.clients if drawn.clients is None else drawn.clients
    if ttl_ns < TTL_MIN_NS:
        raise LabError(
            f"a TTL of {format_duration(ttl_ns)}", where=place["lock.ttl"], expected="100ms or more"
        )
    if not 1 <= nodes <= NODES_MAX:
        raise LabError(f"{nodes} nodes", where=place["cluster.nodes"], expected=f"1 to {NODES_MAX}")
    if not 2 <= clients <= len(CLIENTS):
        raise LabError(f"{clients} clients", where="--clients", expected=f"2 to {len(CLIENTS)}")
    from lab.drivers import is_driver

    kept = settings.cluster.persistence
    kinds = parse_kinds(drawn.faults or "classic")
    space = Space(
        lock,
        dict(settings.lock.options),
        ttl_ns,
        nodes,
        clients,
        None if kept == "any" else kept,
        kinds,
        settings.store.fencing,
        HORIZON_TTLS * ttl_ns,
        all_operations=beyond_classic(kinds),
        cancels=not is_driver(lock),  # some can, but none is asked for that here
        server=drawn.server or "",
    )
    check_options(lock, ttl_ns, space.options)  # is there such a lock, and does it take these options?
    return space


def _settings(drawn: Drawn, options: Mapping[str, OptionValue]) -> tuple[_Settings, dict[str, str]]:
    """The options and ``--set`` together, and which of them says what. Raises ``LabError``."""
    place = {"lock.ttl": "--ttl", "cluster.nodes": "--nodes", "cluster.persistence": "--persistence"}
    by_option = {
        "lock.ttl": drawn.ttl,
        "cluster.nodes": drawn.nodes,
        "cluster.persistence": drawn.persistence,
    }
    for setting in drawn.set:
        key = setting.partition("=")[0].strip()
        if by_option.get(key) is not None:
            raise LabError(f"{place[key]} together with --set {setting}", expected="either one or the other")
        if key in place:
            place[key] = f"--set {setting}"
    if drawn.ttl is not None:
        parse_duration("--ttl", drawn.ttl)
    if drawn.persistence is not None:
        one_of("--persistence", drawn.persistence, (*PERSISTENCES, ANY))
    data = {
        "lock": {"ttl": drawn.ttl or format_duration(DEFAULT.ttl_ns), "options": dict(options)},
        "cluster": {
            "nodes": DEFAULT.nodes if drawn.nodes is None else drawn.nodes,
            "persistence": drawn.persistence or DEFAULT.persistence,
        },
        "store": {"fencing": DEFAULT.store_fences},
    }
    root = compose(yaml.safe_dump(data), "the options")
    assert root is not None
    root = apply(root, drawn.set)
    try:
        return _Settings.model_validate(plain(root)), place
    except ValidationError as error:
        raise explain(error, root, _Settings) from error


def words_of(space: Space, strategy: Strategy, wire: Wire) -> list[str]:
    """The options that ask for this space, drawn from in this way: those that differ from the default."""
    words = ["--lock", space.lock, "--faults", ",".join(kind.KEY for kind in space.kinds), "--wire", wire]
    if strategy != STRATEGIES[0]:
        words += ["--strategy", strategy]
    if space.clients != DEFAULT.clients:
        words += ["--clients", str(space.clients)]
    if space.nodes != DEFAULT.nodes:
        words += ["--nodes", str(space.nodes)]
    if space.ttl_ns != DEFAULT.ttl_ns:
        words += ["--ttl", format_duration(space.ttl_ns)]
    if space.persistence != DEFAULT.persistence:
        words += ["--persistence", space.persistence or ANY]
    if space.server:
        words += ["--server", space.server]
    settings = {f"lock.options.{name}": value for name, value in space.options.items()}
    if space.store_fences:
        settings["store.fencing"] = True
    for key, value in settings.items():
        words += ["--set", f"{key}={_written(value)}"]
    return words


def _written(value: OptionValue) -> str:
    """A value as YAML, bare where that is read as the same."""
    bare = isinstance(value, str) and re.fullmatch(r"[\w./:-]+", value) and yaml.safe_load(value) == value
    return str(value) if bare else msgspec.json.encode(value).decode()


def parse_kinds(text: str) -> tuple[Kind, ...]:
    """The kinds of faults that ``text`` names, with commas; ``all``, ``classic`` or ``safe`` (see above).

    Raises:
        LabError: there is no such fault.
    """
    named_kinds = {"all": KINDS, "classic": CLASSIC_KINDS, "safe": WITHIN_ASSUMPTIONS}
    if text in named_kinds:
        return named_kinds[text]
    wanted = [part.strip() for part in text.split(",")]
    for part in wanted:
        if part not in BY_NAME:
            near = did_you_mean(part, BY_NAME)
            raise LabError(
                f"the fault {part!r}",
                where="--faults",
                expected=f"all, classic, safe, or some of {', '.join(BY_NAME)} with commas",
                hint=f"did you mean {near!r}?" if near else "safe leaves the assumptions of Redlock alone",
            )
    return tuple(kind for name, kind in BY_NAME.items() if name in wanted)


def must_run_in_virtual_time(lock: str) -> None:
    """Refuse a lock that cannot run in virtual time here. Raises ``LabError``."""
    from lab.drivers import is_driver
    from lab.drivers.place import why_not_in_virtual_time

    reason = why_not_in_virtual_time(lock)
    if reason is not None:
        raise LabError(
            f"the driver {lock!r} cannot be run in virtual time: {reason}"
            if is_driver(lock)
            else f"the lock {lock!r} cannot be simulated: {reason}",
            where="--lock",
            expected="a lock of the lab's, package.module:name, or a driver that is installed",
            hint=_in_file(lock) or "lab run SCENARIO --lock DRIVER --on local",
        )


def _in_file(lock: str) -> str | None:
    """What to write in place of the name of a file in Python, None if a lock's name is none."""
    file = Path(lock)
    if file.suffix != ".py" or not file.is_file():
        return None
    return f"a lock in it is {file.stem}:Class, with its directory on PYTHONPATH; a driver: 'python3 {lock}'"


def one_of(option: str, word: str, known: Sequence[T]) -> T:
    """The word that an option names. Raises ``LabError``: it is none of those that are known."""
    for each in known:
        if each == word:
            return each
    near = did_you_mean(word, known)
    raise LabError(
        f"{word!r}",
        where=option,
        expected="one of " + ", ".join(known),
        hint=f"did you mean {near!r}?" if near else None,
    )


def parse_duration(option: str, text: str) -> int:
    """A duration in nanoseconds. Raises ``LabError``."""
    try:
        return parse_duration_ns(text)
    except DurationError as error:
        raise LabError(f"{text!r} {error}", where=option, expected="a duration like 60s") from error


DRAWN: Final = tuple(field.name for field in dataclasses.fields(Drawn))
"""The names of the options about drawn schedules."""
