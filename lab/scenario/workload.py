"""The alternative to steps: clients that loop on their own, and faults drawn from the run's seed.

The models only; `lab.scenario.draw` turns them and a seed into a schedule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from lab.durations import PATTERN, UNITS_NS, DurationError, format_duration, parse_duration_ns
from lab.scenario.fault_step import Drawing, FaultStep
from lab.scenario.problems import Loc, choice, kind, problem, problems, unknown_word
from lab.scenario.registry import FromRegistry, fault_steps, steps
from lab.scenario.step_base import StepModel
from lab.scenario.types import CLIENT_NAME, NODE_NAMES, DurationNs, Int, Model, PositiveNs

KEYS_MAX: Final = 1000

TARGET_FIELDS: Final = ("client", "nodes", "node", "store", "from")
"""Fields of a step that an entry sets with `clients`, `nodes` and `store`."""
OWN_NAMES: Final[Mapping[str, str]] = {"period": "every"}
"""Fields of a step whose name an entry uses for something else."""

ClientsWord = Literal["one", "all", "holder"]
NodesWord = Literal["one", "minority", "majority", "all"]
CLIENT_WORDS: Final = ("one", "all", "holder")
NODE_WORDS: Final = ("one", "minority", "majority", "all")


def _range(value: Any) -> tuple[int, int]:
    """A duration above 0s, or a list of two of them, the shorter first."""
    ends = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(ends) != 2 or not all(isinstance(end, str) for end in ends):
        raise problem(f"{kind(value)} is no range", "a duration like 1s, or two like [200ms, 3s]")
    try:
        least_ns, most_ns = (parse_duration_ns(end) for end in ends)
    except DurationError as error:
        raise problem(f"a duration here {error}", "a duration like 1s, or two like [200ms, 3s]") from error
    if not 0 < least_ns <= most_ns:
        raise problem("this range is empty or not above 0s", "the shorter duration first, like [200ms, 3s]")
    return least_ns, most_ns


def _range_text(range_ns: tuple[int, int]) -> str | list[str]:
    least, most = (format_duration(end_ns) for end_ns in range_ns)
    return least if least == most else [least, most]


_DURATION_SCHEMA: Final = {"type": "string", "pattern": rf"^\+?{PATTERN}$"}

RangeNs = Annotated[
    tuple[int, int],
    BeforeValidator(_range),
    PlainSerializer(_range_text),
    WithJsonSchema(
        {"anyOf": [_DURATION_SCHEMA, {"type": "array", "items": _DURATION_SCHEMA, "minItems": 2}]}
    ),
]
"""Least and most, in integer nanoseconds > 0; written as one duration, or as a list of two."""


def _targets(words: tuple[str, ...], what: str) -> BeforeValidator:
    """A validator for one of the words, or a list of names, at least one and none twice."""

    def parse(value: Any) -> Any:
        if isinstance(value, str) and value in words:
            return value
        names = [value] if isinstance(value, str) else value
        expected = f"{choice(words)}, or a list of {what}s"
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise problem(f"{kind(value)} names no {what}s", expected)
        if not names or len(set(names)) < len(names):
            raise problem(f"the list of {what}s is empty or names one twice", expected)
        return tuple(names)

    return BeforeValidator(parse)


def _targets_schema(words: tuple[str, ...], name: dict[str, Any]) -> WithJsonSchema:
    names = {"type": "array", "items": name, "minItems": 1, "uniqueItems": True}
    return WithJsonSchema({"anyOf": [{"enum": list(words)}, name, names]})


Clients = Annotated[
    ClientsWord | tuple[str, ...],
    _targets(CLIENT_WORDS, "client"),
    _targets_schema(CLIENT_WORDS, {"type": "string", "pattern": f"^{CLIENT_NAME}$"}),
]
TargetNodes = Annotated[
    NodesWord | tuple[str, ...],
    _targets(NODE_WORDS, "node"),
    _targets_schema(NODE_WORDS, {"enum": list(NODE_NAMES)}),
]


def _drawable() -> Any:
    """The type of a field that names a fault which a workload can draw."""
    return Literal[tuple(key for key, step in fault_steps().items() if step.DRAWN is not None)]


DrawnFault = Annotated[str, FromRegistry(_drawable)]


class Workload(Model):
    """What every client repeats: acquire, read, compute, check, write, release, think."""

    duration_ns: PositiveNs = Field(default=10 * UNITS_NS["s"], alias="duration")
    """How long the clients work; each then ends the round that it is in."""
    keys: Annotated[Int, Field(ge=1, le=KEYS_MAX)] = 1
    """How many keys: one is the key itself, several are key-1, key-2… A client draws one for each round."""
    think_time_ns: DurationNs = Field(default=20 * UNITS_NS["ms"], alias="think_time")
    """The mean pause between two rounds; exponential, drawn by each client from the seed."""
    hold_time_ns: DurationNs = Field(default=10 * UNITS_NS["ms"], alias="hold_time")
    """The mean time of a client's computing, between its read and its check; exponential as well."""
    operations: Annotated[Int, Field(ge=1)] | None = None
    """How many rounds a client does at most; without it, as many as fit."""

    def key_names(self, key: str) -> tuple[str, ...]:
        """The keys of the run, given the scenario's."""
        return (key,) if self.keys == 1 else tuple(f"{key}-{at}" for at in range(1, self.keys + 1))


class FaultPlan(Model):
    """One kind of fault, repeatedly: how often, how long, on what. Other keys are fields of its step."""

    model_config = ConfigDict(extra="allow")

    fault: DrawnFault
    """Which fault: the key of its step."""
    every_ns: PositiveNs | None = Field(default=None, alias="every")
    """The mean time from one to the next; exponential, from a tenth of it to four times as long."""
    during: DrawnFault | None = None
    """Instead of `every`: once during each fault of this other kind, as soon as that has taken effect."""
    lasts_ns: RangeNs | None = Field(default=None, alias="lasts")
    """How long each lasts before it is ended, or a range. A jump or a drift without it stays to the end."""
    clients: Clients | None = None
    """On which clients: one, all, the holder of the lock, or names."""
    nodes: TargetNodes | None = None
    """On which nodes: one, a minority, a majority, all, or names."""
    store: Literal[True] | None = None
    """On the clients' links to the store, instead of those to nodes."""

    @property
    def step(self) -> type[FaultStep]:
        """The step that injects it."""
        return fault_steps()[self.fault]

    @property
    def drawing(self) -> Drawing:
        """How it is drawn."""
        drawing = self.step.DRAWN
        assert drawing is not None
        return drawing

    @property
    def hits_nodes(self) -> bool:
        """Whether nodes are drawn for it."""
        match self.drawing.hits:
            case "machine":
                return self.nodes is not None or (self.drawing.nodes_first and self.clients is None)
            case "links":
                return not self.store
            case hits:
                return hits == "nodes"

    @property
    def hits_clients(self) -> bool:
        """Whether clients are drawn for it."""
        hits = self.drawing.hits
        return hits in ("links", "client") or (hits == "machine" and not self.hits_nodes)

    @property
    def others(self) -> dict[str, Any]:
        """The fields of the step that stand in the entry as they are, ranges included."""
        return {OWN_NAMES.get(name, name): value for name, value in (self.__pydantic_extra__ or {}).items()}

    @model_validator(mode="after")
    def _fits_its_step(self) -> Self:
        found = [(loc, error, None) for loc, error in self._misfits()]
        if found:
            raise problems(type(self).__name__, found)
        clients = ("a",) if self.hits_clients else ()
        nodes = ("A",) if self.hits_nodes else ()
        for at in (0, 1):
            self.begin(clients, nodes, {name: end_of(value, at) for name, value in self.others.items()})
        return self

    def _misfits(self) -> Iterator[tuple[Loc, PydanticCustomError]]:
        own = {name: word for word, name in OWN_NAMES.items()}
        fields = [info.alias or name for name, info in self.step.model_fields.items()]
        hits = self.drawing.hits
        free = [own.get(name, name) for name in fields if name not in TARGET_FIELDS]
        for name in self.__pydantic_extra__ or {}:
            if name not in free:
                entry = ("fault", "every", "during", "lasts", "clients", "nodes", "store")
                yield (name,), unknown_word("key", name, [*entry, *free])
        if (self.every_ns is None) == (self.during is None):
            seen = "neither every nor during is" if self.during is None else "both every and during are"
            yield (), problem(f"{seen} there", "every: the mean time between two, or during: a fault")
        lasts = self.step.ENDED_BY is not None
        if self.lasts_ns is None and lasts and not self.drawing.may_stay:
            expected = f"lasts: how long each {self.fault} lasts, like 1s or [200ms, 3s]"
            yield (), problem("the key lasts is missing", expected)
        if self.lasts_ns is not None and not lasts:
            yield ("lasts",), problem(f"a {self.fault} does not last", "no such key here")
        if self.clients is not None and hits == "nodes":
            yield ("clients",), problem(f"a {self.fault} hits nodes, not clients", "nodes")
        if self.nodes is not None and hits == "client":
            yield ("nodes",), problem(f"a {self.fault} hits clients, not nodes", "clients")
        if self.nodes is not None and self.clients is not None and hits == "machine":
            yield ("nodes",), problem("both clients and nodes are named", "one of them")
        if self.store and (hits != "links" or self.nodes is not None):
            seen = "both nodes and the store are named" if self.nodes else f"a {self.fault} has no link"
            yield ("store",), problem(seen, "nodes, or a fault on links to the store")

    def begin(
        self, clients: tuple[str, ...], nodes: tuple[str, ...], others: Mapping[str, Any]
    ) -> tuple[StepModel, ...]:
        """The steps that inject it on these clients and nodes. Raises pydantic's `ValidationError`."""
        return tuple(
            self.step.model_validate({self.fault: {**others, **body}})
            for body in self._bodies(clients, nodes)
        )

    def end(self, clients: tuple[str, ...], nodes: tuple[str, ...]) -> tuple[StepModel, ...]:
        """The steps that end it."""
        word = self.step.ENDED_BY
        if word is None:
            return ()
        return tuple(steps()[word].model_validate({word: body}) for body in self._bodies(clients, nodes))

    def _bodies(self, clients: tuple[str, ...], nodes: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        """The targets as fields of steps: one step per client or machine, but one for all crashed nodes."""
        if self.drawing.hits == "nodes":
            yield {"nodes": list(nodes)}
        elif self.drawing.hits == "links":
            end: dict[str, Any] = {"store": True} if self.store else {"nodes": list(nodes)}
            yield from ({"client": client, **end} for client in clients)
        else:
            yield from ({"client": client} for client in clients)
            yield from ({"node": node} for node in nodes)


def is_range(value: Any) -> bool:
    """Whether a field of an entry is a range of durations."""
    return isinstance(value, list | tuple) and len(value) == 2 and all(_is_duration(end) for end in value)


def _is_duration(value: Any) -> bool:
    try:
        return isinstance(value, str) and parse_duration_ns(value) is not None
    except DurationError:
        return False


def end_of(value: Any, at: int) -> Any:
    """One end of a range; any other value as it is."""
    return value[at] if is_range(value) else value


def unknown_names(
    plans: tuple[FaultPlan, ...], clients: tuple[str, ...], nodes: tuple[str, ...]
) -> Iterator[tuple[Loc, PydanticCustomError, object]]:
    """Every name of a client, a node or another fault in the entries that the scenario does not have."""
    lasting = [plan.fault for plan in plans if plan.every_ns is not None and plan.lasts_ns is not None]
    for at, plan in enumerate(plans):
        if plan.during is not None and plan.during not in lasting:
            others = choice(lasting) if lasting else "there is none"
            expected = f"a fault of this list that has every and lasts: {others}"
            yield (at, "during"), problem(f"no {plan.during} lasts here", expected), plan.during
        for word, named, known in (("clients", plan.clients, clients), ("nodes", plan.nodes, nodes)):
            for name in named if isinstance(named, tuple) else ():
                if name not in known:
                    yield (at, word), unknown_word(word[:-1], name, known), name
