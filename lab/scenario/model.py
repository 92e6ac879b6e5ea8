"""The scenario: a cluster, a lock, clients, steps or a workload, and the expected outcome."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal, Self, cast, get_args

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic_core import PydanticCustomError

from lab.addresses import ENDPOINT_FORM, PASSWORD_VARIABLE, Address, Endpoint, Endpoints, TlsFiles
from lab.durations import UNITS_NS, short_duration
from lab.scenario.anchors import Anchor, HeldDown, NodesUp
from lab.scenario.directives import NO_EVICTION, Config
from lab.scenario.impossible import ClusterShape, impossible
from lab.scenario.outcomes import Operations, unfit
from lab.scenario.problems import Loc, choice, kind, problem, problems, shown, unknown_word
from lab.scenario.step_base import StepModel
from lab.scenario.steps import AnyStep, Operation, Until, references
from lab.scenario.tracks import Timed, Tracks, misfits
from lab.scenario.types import (
    NODE_NAMES,
    SENTINEL_NAMES,
    Bool,
    DeclaredClient,
    DurationNs,
    Int,
    KeyName,
    Model,
    Nodes,
    PositiveNs,
    Text,
    key_name,
)
from lab.scenario.workload import FaultPlan, Workload, unknown_names
from lab.servers import (
    DEFAULT_SAVE,
    RANGE_PATTERN,
    SERVERS_OF_REDIS,
    Server,
    ServerRange,
    ServerSettings,
    save_points,
    save_text,
)

Outcome = Literal["ok", "violated", "unknown"]
"""The outcome of a check."""

FencingOutcome = Literal["ok", "violated", "unknown", "absent"]
"""The outcome of the check of fencing; `absent`: no fence, and nothing that one would have rejected."""

Property = Literal[
    "mutual_exclusion", "lease_honesty", "fencing", "resource", "deadlock_freedom", "fault_tolerance"
]
"""What the checker decides about a run."""

PROPERTIES: Final[tuple[Property, ...]] = get_args(Property)

FindingName = Literal[
    "overlap",
    "belief-overlap",
    "possible-overlap",
    "over-capacity",
    "false-validity",
    "continuity-loss",
    "stale-use",
    "unfenced-write",
    "stale-write",
    "fence-order",
    "fence-breach",
    "lost-update",
    "cycle",
    "not-linearizable",
    "leak",
    "unavailable",
]
"""What the checker can find in a history."""

_PORT_MIN, _PORT_END = 1024, 65536
_OPTION_NAME = r"[a-z][a-z0-9_]{0,63}"


def _scalar(value: Any) -> Any:
    if not isinstance(value, str | bool | int | float):
        raise problem(f"{kind(value)} can't be an option", "a text, a number or true or false")
    if isinstance(value, float) and not math.isfinite(value):
        raise problem(f"{kind(value)} can't be an option", "a finite number")
    return value


def _fencing(value: Any) -> Any:
    if value != "all" and not isinstance(value, bool):
        raise problem(f"{kind(value)} does not say what is fenced", "true (writes), all (reads too) or false")
    return value


def _option_name(name: str) -> str:
    if not re.fullmatch(_OPTION_NAME, name):
        raise problem(f"{shown(name)} can't name an option", "small letters, digits and underscores")
    return name


def _server_range(text: str) -> str:
    try:
        ServerRange.parse(text)
    except ValueError:
        seen = f"{shown(text)} is no range of versions of a server"
        expected = f'"redis < 7.0", "redis >= 7.0" or "valkey"; servers: {choice(SERVERS_OF_REDIS)}'
        raise problem(seen, expected) from None
    return text


ServerRangeText = Annotated[
    str, AfterValidator(_server_range), Field(json_schema_extra={"pattern": f"^{RANGE_PATTERN}$"})
]
"""Versions of a server: `redis < 7.0`."""


def _pattern(pattern: str) -> str:
    if pattern.count("{}") != 1:
        raise problem(
            f"{shown(pattern)} can't be the pattern of keys", "a text with {} in it once, like order:{}"
        )
    return key_name(pattern)


KeyPattern = Annotated[str, AfterValidator(_pattern), Field(json_schema_extra={"pattern": r"^\S*\{\}\S*$"})]
NodeLetter = Annotated[str, Field(json_schema_extra={"pattern": "^[A-Z]$"})]
"""The name of a node where the cluster is described."""
OptionName = Annotated[
    str, AfterValidator(_option_name), Field(json_schema_extra={"pattern": f"^{_OPTION_NAME}$"})
]
Option = Annotated[bool | int | float | str, BeforeValidator(_scalar)]
"""The value of a lock's option; durations stay text, for the lock to parse."""


def _or_list(schema: dict[str, Any]) -> None:
    """Adds the short form, a list of names, to the JSON schema of the clients."""
    mapping = {key: schema.pop(key) for key in ("type", "patternProperties", "minProperties")}
    name = {"type": "string", "pattern": next(iter(mapping["patternProperties"]))}
    names = {"type": "array", "items": name, "minItems": 1, "uniqueItems": True}
    schema["anyOf"] = [names, {**mapping, "additionalProperties": False}]


def _closed(schema: dict[str, Any]) -> None:
    schema["additionalProperties"] = False


def _steps_or_workload(schema: dict[str, Any]) -> None:
    """Says in the JSON schema what `_has_steps_or_workload` checks."""
    schema["oneOf"] = [{"required": [word]} for word in ("steps", "tracks", "workload")]


_SERVER: Final = r"^((redis|valkey|redict)@[0-9]+\.[0-9]+(\.[0-9]+)?|image:\S+|.*/.*)$"


def _server(text: str) -> str:
    if re.match(_SERVER, text) is None:
        expected = "redis@8.2 or valkey@8.1, for example, the path of a program, or image:NAME for docker"
        raise problem(f"{shown(text)} is no server", expected)
    return text


_SAVE: Final = r"^[1-9][0-9]* [1-9][0-9]*( [1-9][0-9]* [1-9][0-9]*)*$"


def _save(text: str) -> str:
    try:
        return save_text(save_points(text))
    except ValueError:
        expected = f'pairs of seconds and changes, such as "{save_text(DEFAULT_SAVE)}"'
        raise problem(f"{shown(text)} has no save points", expected) from None


_ENDPOINT: Final = r"^rediss?://[^:@/]*(@[^@/]+)?(:[0-9]+)?(/[0-9]*)?$"


def _endpoint(url: str) -> str:
    try:
        Endpoint.parse(url)
    except ValueError as error:
        # The text itself may have a password, and is not shown.
        seen = f"this can't be an endpoint: {error}"
        raise problem(seen, ENDPOINT_FORM, f"${PASSWORD_VARIABLE} has the password") from None
    return url


def _place(text: str) -> str:
    try:
        Address.parse(text)
    except ValueError:
        raise problem(f"{shown(text)} is no address", "HOST:PORT") from None
    return text


class Tls(Model):
    """How endpoints are trusted, and the lab by them. Paths of PEM files, from where the lab is started."""

    ca: Text | None = None
    """The certificate authorities; without it those of this machine."""
    certificate: Text | None = None
    """The client's certificate, if the servers ask for one."""
    key: Text | None = None
    """The key of that certificate, if it is not in the same file."""
    name: Text | None = None
    """The name in the servers' certificates, if it is not the host of the endpoint."""


_FOR_OWN_SERVERS: Final = (
    *("service", "save", "base_port", "server", "replicas", "config", "sentinels", "quorum", "sharded"),
)
"""The keys of a cluster that say how servers are started."""
_OF_ENDPOINTS: Final = ("endpoints", "tls", "proxy")
_OF_SENTINELS: Final = frozenset(("sentinels", "quorum", "down_after", "failover_timeout"))
"""The keys of a cluster that say something of Sentinels."""
_OF_SHARDS: Final = frozenset(("sharded", "node_timeout"))
"""The keys of a cluster that say something of a Redis Cluster."""
_LEAST_MASTERS: Final = 3
"""With fewer masters than that, those that are left when one fails are no majority."""


class Cluster(Model):
    """The nodes of the run, named A, B, C…"""

    nodes: Annotated[Int, Field(ge=1, le=len(NODE_NAMES))] = 5
    """How many nodes."""
    service: Literal["redis", "etcd", "zookeeper", "postgres"] = "redis"
    """What kind of servers they are: independent Redis nodes, one etcd, one ZooKeeper, or a Postgres."""
    persistence: Literal["none", "rdb", "aof-everysec", "aof-always"] = "aof-always"
    """What a node keeps on disk: nothing, snapshots, or every write, synced each second or before its reply.

    `rdb` is what Redis does by default: a snapshot at save points, and when it is shut down.
    """
    save: Annotated[str, AfterValidator(_save), Field(json_schema_extra={"pattern": _SAVE})] | None = None
    """With `rdb`, when snapshots are written: "SECONDS CHANGES …"; as in Redis, "3600 1 300 100 60 10000"."""
    base_port: Annotated[Int, Field(ge=_PORT_MIN, lt=_PORT_END)] | None = None
    """Fixed ports, base_port for A, base_port + 1 for B and so on, then the store; without it free ones."""
    server: Annotated[str, AfterValidator(_server), Field(json_schema_extra={"pattern": _SERVER})] | None = (
        None
    )
    """Which server they are: `redis@8.2`, `valkey@8.1`, a program's path, `image:NAME`; see `--server`."""
    replicas: Mapping[NodeLetter, NodeLetter] = Field(default_factory=dict, json_schema_extra=_closed)
    """Which nodes are asynchronous replicas, of which masters: `{B: A}`. Without it all are independent."""
    config: Config = Field(default_factory=dict, json_schema_extra=_closed)
    """Directives of redis.conf for the nodes: `{min-replicas-to-write: 1, maxmemory: 8mb}`."""
    sentinels: Annotated[Int, Field(ge=0, le=len(SENTINEL_NAMES))] = 0
    """How many Redis Sentinels, named S1, S2, S3…, watch the master and promote a replica when it fails."""
    quorum: Annotated[Int, Field(ge=1)] | None = None
    """How many Sentinels must agree that the master is down; without it a majority of them."""
    down_after_ns: PositiveNs = Field(default=UNITS_NS["s"], alias="down_after")
    """How long a server may give no answer before a Sentinel holds it to be down."""
    failover_timeout_ns: PositiveNs = Field(default=4 * UNITS_NS["s"], alias="failover_timeout")
    """Sentinel's `failover-timeout`: after twice this time a failover that failed is tried again."""
    sharded: Bool = False
    """Whether the nodes are one Redis Cluster: those that are no replicas share the slots, in order."""
    node_timeout_ns: PositiveNs = Field(default=UNITS_NS["s"], alias="node_timeout")
    """Redis Cluster's `cluster-node-timeout`: how long a node may give no answer until it is held down."""
    endpoints: tuple[
        Annotated[str, AfterValidator(_endpoint), Field(json_schema_extra={"pattern": _ENDPOINT})], ...
    ] = ()
    """Servers that exist, as nodes A, B, C…: `rediss://USER@HOST:PORT`, without a password."""
    tls: Tls = Tls()
    """Certificates for endpoints by `rediss://`."""
    proxy: Annotated[str, AfterValidator(_place)] | None = None
    """The API of a Toxiproxy that exists, HOST:PORT, for the links to endpoints; else the lab starts one."""

    @model_validator(mode="before")
    @classmethod
    def _as_many_nodes_as_endpoints(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and isinstance(given.get("endpoints"), list | tuple):
            return {"nodes": len(given["endpoints"]), **given} if given["endpoints"] else given
        return given

    @model_validator(mode="after")
    def _endpoints_have_their_shape(self) -> Self:
        if not self.endpoints:
            for key in ("tls", "proxy"):
                if key in self.model_fields_set:
                    raise problem(f"{key} is for endpoints, and there are none", "endpoints: [rediss://…]")
            return self
        if self.nodes != len(self.endpoints):
            seen = f"there are {self.nodes} nodes and {len(self.endpoints)} endpoints"
            raise problem(seen, "one endpoint for each node", f"--set cluster.nodes={len(self.endpoints)}")
        if len(set(self.endpoints)) < len(self.endpoints):
            raise problem("one endpoint is listed twice", "each server once")
        for key in _FOR_OWN_SERVERS:
            if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True):
                raise problem(f"{key} is for servers that the lab starts, and these exist", f"no {key}")
        return self

    @model_validator(mode="after")
    def _ports_exist(self) -> Self:
        # The store comes after the last node.
        if self.base_port is not None and self.base_port + self.nodes >= _PORT_END:
            last = self.base_port + self.nodes
            raise problem(f"the store would get port {last}", f"ports up to {_PORT_END - 1}")
        return self

    @model_validator(mode="after")
    def _replicas_have_masters(self) -> Self:
        for replica, master in self.replicas.items():
            for name in (replica, master):
                if name not in self.node_names:
                    raise problem(f"{name} is none of the {self.nodes} nodes", choice(self.node_names))
            if master in self.replicas:
                seen = f"{master} can't be the master of {replica}: it is a replica itself"
                raise problem(seen, "replicas of nodes that are none")
        return self

    @model_validator(mode="after")
    def _saves_snapshots(self) -> Self:
        if self.save is not None and self.persistence != "rdb":
            raise problem(f"with persistence {self.persistence} there are no save points", "persistence: rdb")
        return self

    @model_validator(mode="after")
    def _syncs_fit(self) -> Self:
        if "appendfsync" in self.config and self.persistence != "aof-everysec":
            seen = f"appendfsync: no with persistence {self.persistence}"
            raise problem(seen, "persistence: aof-everysec, whose file is then synced by the system alone")
        return self

    @model_validator(mode="after")
    def _shards_have_masters(self) -> Self:
        if not self.sharded:
            if "node_timeout_ns" in self.model_fields_set:
                raise problem("node_timeout is there without a Redis Cluster", "sharded: true")
            return self
        if self.sentinels:
            raise problem(
                "Sentinels watch a Redis Cluster", "sharded or sentinels", "its nodes do it themselves"
            )
        self._in_ms("node_timeout_ns")
        if (masters := self.nodes - len(self.replicas)) < _LEAST_MASTERS:
            seen = f"a Redis Cluster of {masters} masters cannot agree that one has failed"
            raise problem(seen, "3 masters or more, like nodes: 6 and replicas: {D: A, E: B, F: C}")
        return self

    @model_validator(mode="after")
    def _sentinels_have_something_to_watch(self) -> Self:
        if not self.sentinels:
            for key in ("quorum", "down_after_ns", "failover_timeout_ns"):
                if key in self.model_fields_set:
                    name = type(self).model_fields[key].alias or key
                    raise problem(f"{name} is there without Sentinels", "sentinels: 3")
            return self
        if self.quorum is not None and self.quorum > self.sentinels:
            seen = f"a quorum of {self.quorum} can't be reached by {self.sentinels} Sentinels"
            raise problem(seen, f"1 to {self.sentinels}", "a majority is usual")
        self._in_ms("down_after_ns", "failover_timeout_ns")
        masters = set(self.node_names) - set(self.replicas)
        if len(masters) != 1:
            seen = f"Sentinels watch one master, and here {', '.join(sorted(masters))} are masters"
            if not self.replicas:
                seen = "Sentinels are there, and no node is a replica that they could promote"
            raise problem(seen, "replicas of one node, like replicas: {B: A, C: A}")
        return self

    def _in_ms(self, *keys: str) -> None:
        """Raises a problem if one of these times is not in the unit of the servers."""
        for key in keys:
            if (given_ns := getattr(self, key)) % UNITS_NS["ms"]:
                name = type(self).model_fields[key].alias or key
                raise problem(
                    f"{name} is {short_duration(given_ns)}", "whole milliseconds: the servers' unit"
                )

    @model_validator(mode="after")
    def _service_has_its_shape(self) -> Self:
        if self.service == "redis":
            return self
        of_redis = (
            "replicas",
            "sentinels",
            "sharded",
            "base_port",
            "persistence",
            "server",
            "save",
            "config",
        )
        for key in of_redis:
            if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True):
                raise problem(f"{key} is for Redis nodes, and these are {self.service}", f"no {key}")
        if self.service == "postgres" and self.nodes != 1:
            raise problem(f"{self.nodes} nodes of postgres", "nodes: 1", "one database, without replicas")
        if self.service != "postgres" and self.nodes < 3:
            seen = f"{self.nodes} nodes of {self.service} tolerate no failure"
            raise problem(seen, "3 nodes or more")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        optional = (
            (self.sentinels, _OF_SENTINELS),
            (self.sharded, _OF_SHARDS),
            (self.endpoints, _OF_ENDPOINTS),
        )
        unused = {key for there, keys in optional if not there for key in keys}
        return {key: value for key, value in dumped.items() if key not in unused}

    @property
    def node_names(self) -> tuple[str, ...]:
        """The names of the nodes, in order."""
        return NODE_NAMES[: self.nodes]

    @property
    def existing(self) -> Endpoints | None:
        """The servers that exist, if the nodes are such."""
        if not self.endpoints:
            return None
        tls = TlsFiles(**{name: text or "" for name, text in self.tls.model_dump().items()})
        return Endpoints(tuple(map(Endpoint.parse, self.endpoints)), tls, self.proxy or "")

    @property
    def keeping(self) -> str:
        """What its nodes keep, for people."""
        return "persistence not known" if self.endpoints else self.persistence

    @property
    def evicts(self) -> bool:
        """Whether the nodes evict keys when their memory is full."""
        return self.config.get("maxmemory-policy", NO_EVICTION) != NO_EVICTION

    @property
    def settings(self) -> ServerSettings:
        """How the nodes are set up: save points with persistence `rdb` only, and directives."""
        points = () if self.persistence != "rdb" else save_points(self.save) if self.save else DEFAULT_SAVE
        return ServerSettings(points, tuple(self.config.items()))

    @property
    def around(self) -> str:
        """What tells clients which node to ask, as locks name it: "sentinels", "cluster", or nothing."""
        return "sentinels" if self.sentinels else "cluster" if self.sharded else ""

    @property
    def sentinel_names(self) -> tuple[str, ...]:
        """The names of the Sentinels, in order."""
        return SENTINEL_NAMES[: self.sentinels]

    @property
    def server_names(self) -> tuple[str, ...]:
        """The names of the nodes and of the Sentinels."""
        return (*self.node_names, *self.sentinel_names)

    @property
    def needed_quorum(self) -> int:
        """How many Sentinels must agree that the master is down."""
        return self.quorum or self.sentinels // 2 + 1


class Lock(Model):
    """The lock under test."""

    name: Text = "redlock"
    """Which lock."""
    ttl_ns: PositiveNs = Field(default=10 * UNITS_NS["s"], alias="ttl")
    """How long a lease lasts unless it is extended."""
    options: Mapping[OptionName, Option] = Field(default_factory=dict, json_schema_extra=_closed)
    """Passed to the lock as they are, like `node_timeout: 50ms` or `retry_count: 3`; the lock parses them."""
    key: KeyPattern | None = None
    """The pattern of its keys, like `order:{}`, if the lock does not say it itself and needs one."""


class Store(Model):
    """The store behind the lock, which holds the resource."""

    fencing: Annotated[Bool | Literal["all"], BeforeValidator(_fencing)] = False
    """Whether the store checks fences: if so, it rejects a write whose fence is below one it has seen.

    `true` means on writes only; `all` means on every access: a read must show its fence too, is rejected if
    that is below one the store has seen, and is otherwise remembered like that of a write.
    """


class Client(Model):
    """How a client behaves in its critical section."""

    check_before_write: Bool = True
    """Whether `works` asks, just before it writes, if the lease is still valid."""


class Presupposes(Model):
    """What the steps take for granted of any lock, beside the operations that they name."""

    refuses_within_ns: PositiveNs | None = Field(default=None, alias="refuses_within")
    """An acquire of a lock that another client holds is refused within this time: it does not wait for it."""
    asks_at_once: Bool = False
    """A lock on several nodes asks all of them before one has answered."""


class ExpectedOn(Model):
    """The expected outcome of the run, or what differs in it on some servers."""

    mutual_exclusion: Outcome | None = None
    """No two clients hold the lock at the same time."""
    lease_honesty: Outcome | None = None
    """The lock reports no validity to a client that the nodes do not grant."""
    fencing: FencingOutcome | None = None
    """No write of an older grant is accepted after one of a newer grant."""
    resource: Outcome | None = None
    """No update of the resource is lost."""
    deadlock_freedom: Outcome | None = None
    """A lock that nobody holds can be acquired."""
    fault_tolerance: Outcome | None = None
    """The lock can be acquired while a majority of the nodes is up and reachable."""
    findings: tuple[FindingName, ...] | None = None
    """Findings that must be among those of the checker."""
    either: tuple[Property, ...] = ()
    """Properties that may be violated or not, depending on timing."""
    operations: Annotated[Operations, Field(min_length=1, json_schema_extra=_closed)] | None = None
    """How operations must end, as the steps say them: `{bob acquires: refused, alice extends: [ok, ok]}`."""


class Expect(ExpectedOn):
    """The expected outcome of the run: at least one property."""

    server: (
        Annotated[Mapping[ServerRangeText, ExpectedOn], Field(min_length=1, json_schema_extra=_closed)] | None
    ) = None
    """What differs on some servers, `{"redis < 7.0": {resource: ok}}`; the first range that fits counts."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not self.outcomes:
            raise problem("no property is expected", f"at least one of {', '.join(PROPERTIES)}")
        for name in self.either:
            if name in self.outcomes:
                raise problem(f"{name} has an expected outcome and is in `either`", "one of them")
        for differing in (self.server or {}).values():
            self.with_differing(differing)
        return self

    def on(self, server: Server) -> Expect:
        """The expectation on this server, without what differs on others."""
        for versions, differing in (self.server or {}).items():
            if server in ServerRange.parse(versions):
                return self.with_differing(differing)
        return self.model_copy(update={"server": None})

    def with_differing(self, differing: ExpectedOn) -> Expect:
        """Return this expectation with what differs; of the operations, those that are named."""
        given = {name: getattr(differing, name) for name in differing.model_fields_set}
        changed = {name: value for name, value in given.items() if value is not None}
        # A property whose outcome differs is no longer one that may come out either way.
        changed["either"] = differing.either or tuple(name for name in self.either if name not in changed)
        if differing.operations is not None:
            changed["operations"] = {**(self.operations or {}), **differing.operations}
        own = {name: getattr(self, name) for name in self.model_fields_set}
        return Expect.model_validate({**own, **changed, "server": None})

    @property
    def outcomes(self) -> dict[Property, FencingOutcome]:
        """The expected outcome of each property that is named, in the order of `PROPERTIES`."""
        named = {name: getattr(self, name) for name in PROPERTIES}
        return cast(
            dict[Property, FencingOutcome],
            {name: value for name, value in named.items() if value is not None},
        )


class Scenario(Model):
    """Steps, or a seeded workload, and the expected outcome."""

    model_config = ConfigDict(json_schema_extra=_steps_or_workload)

    title: Text
    """One line: what happens."""
    source: Text
    """Who claims that it happens, and where."""
    why: Text
    """What a reader should learn from it."""
    control_of: Text | None = None
    """The scenario whose control this is: the same without the decisive fault, and clean."""
    claims: tuple[Annotated[Int, Field(ge=1)], ...] = ()
    """Numbers of the claims that the scenario tests."""
    cluster: Cluster = Cluster()
    """The nodes."""
    lock: Lock = Lock()
    """The lock."""
    store: Store = Store()
    """The store."""
    clients: Annotated[Mapping[DeclaredClient, Client], Field(min_length=1, json_schema_extra=_or_list)]
    """The clients: a list of names, or a mapping from names to how they behave."""
    key: KeyName = "resource"
    """The key of the lock, and the name of the resource."""
    steps: Annotated[tuple[AnyStep, ...], Field(min_length=1)] = ()
    """What happens, in order: the short form; either this, or tracks, or a workload."""
    tracks: Tracks = Field(default_factory=dict, json_schema_extra=_closed)
    """What happens, in the long form: tracks of actions, each of which waits for an event."""
    workload: Workload | None = None
    """What the clients do on their own, instead of steps."""
    faults: tuple[FaultPlan, ...] = ()
    """The faults that are drawn during a workload."""
    expect: Expect
    """The expected outcome."""
    warm_up: Bool = True
    """Whether each client acquires and releases a key of its own once before the first step, unrecorded."""
    presupposes: Presupposes = Presupposes()
    """What a lock must do for the steps to mean anything; `lab suite --for` skips the scenario for others."""
    grace_ns: DurationNs = Field(default=UNITS_NS["s"], alias="grace")
    """How much longer than a TTL a free lock may stay unobtainable before that counts as a leak."""
    unavailable_after_ns: PositiveNs | None = Field(default=None, alias="unavailable_after")
    """How long demand may stay unserved, while a majority is up, before the lock counts as unavailable."""

    @field_validator("clients", mode="before")
    @classmethod
    def _listed_clients(cls, value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: {} if body is None else body for name, body in value.items()}
        if not isinstance(value, list | tuple):
            raise problem(f"{kind(value)} does not list clients", "a list such as [alice, bob], or a mapping")
        if not value:
            raise problem("the list of clients is empty", "at least one client, like [alice]")
        found: list[tuple[Loc, Any, object]] = []
        for at, name in enumerate(value):
            if not isinstance(name, str):
                found.append(((at,), problem(f"{kind(name)} is not a name", "a name such as alice"), name))
            elif name in value[:at]:
                found.append(
                    ((at,), problem(f"client {shown(name)} is listed twice", "each client once"), name)
                )
        if found:
            raise problems(cls.__name__, found)
        return {name: {} for name in value}

    @field_validator("steps", mode="after")
    @classmethod
    def _are_possible(cls, steps: tuple[AnyStep, ...], info: ValidationInfo) -> tuple[AnyStep, ...]:
        if not {"clients", "cluster"} <= info.data.keys():
            return steps  # these have errors of their own
        cluster: Cluster = info.data["cluster"]
        known = {"client": tuple(info.data["clients"]), "node": cluster.server_names}
        found: list[tuple[Loc, Any, object]] = [
            ((at, step.KEY, *loc), unknown_word(to, name, known[to]), name)
            for at, step in enumerate(steps)
            for to, loc, name in references(step)
            if name not in known[to]
        ]
        if not found:
            placed = (((at,), step) for at, step in enumerate(steps))
            found = list(_alien_to_sentinels(placed, cluster.sentinel_names))
        if not found:
            shape = ClusterShape.of(cluster)
            found = [(loc, error, None) for loc, error in impossible(steps, shape)]
        if found:
            raise problems(cls.__name__, found)
        return steps

    @field_validator("tracks", mode="after")
    @classmethod
    def _tracks_fit(cls, tracks: Tracks, info: ValidationInfo) -> Tracks:
        if not {"clients", "cluster"} <= info.data.keys():
            return tracks  # these have errors of their own
        cluster: Cluster = info.data["cluster"]
        found = list(misfits(tracks, tuple(info.data["clients"]), cluster.server_names))
        placed = (((name, at), one.step) for name, track in tracks.items() for at, one in enumerate(track))
        found += _alien_to_sentinels(placed, cluster.sentinel_names)
        if found := found + list(_before_the_start(tracks)):
            raise problems(cls.__name__, found)
        return tracks

    @field_validator("faults", mode="after")
    @classmethod
    def _targets_exist(cls, plans: tuple[FaultPlan, ...], info: ValidationInfo) -> tuple[FaultPlan, ...]:
        if {"clients", "cluster"} <= info.data.keys():
            clients, nodes = tuple(info.data["clients"]), info.data["cluster"].node_names
            if found := list(unknown_names(plans, clients, nodes)):
                raise problems(cls.__name__, found)
        return plans

    @field_validator("expect", mode="after")
    @classmethod
    def _operations_happen(cls, expect: Expect, info: ValidationInfo) -> Expect:
        if "steps" not in info.data:
            return expect
        found = list(unfit(expect.operations or {}, info.data["steps"]))
        for versions, differing in (expect.server or {}).items():
            wrong = unfit(differing.operations or {}, info.data["steps"])
            found += [(("server", versions, *loc), error, seen) for loc, error, seen in wrong]
        if found:
            raise problems(cls.__name__, found)
        return expect

    @model_validator(mode="after")
    def _has_steps_or_workload(self) -> Self:
        given = [word for word in ("steps", "tracks", "workload") if getattr(self, word)]
        if len(given) != 1:
            seen = f"{' and '.join(given)} are" if given else "neither steps nor tracks nor a workload is"
            raise problem(f"{seen} there", "one of them: steps, tracks, or a workload")
        if self.faults and self.workload is None:
            raise problem("faults are drawn during a workload only", "a workload, or faults as steps")
        return self

    @model_serializer(mode="wrap")
    def _without_what_is_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        if self.presupposes == Presupposes():
            del dumped["presupposes"]
        return {k: v for k, v in dumped.items() if v or k not in ("steps", "tracks", "workload", "faults")}

    @property
    def every_step(self) -> tuple[StepModel, ...]:
        """All steps, or the actions of all tracks."""
        return self.steps or tuple(one.step for one in self.every_timed)

    @property
    def every_timed(self) -> tuple[Timed, ...]:
        """All actions of all tracks, with their triggers."""
        return tuple(one for timed in self.tracks.values() for one in timed)

    @property
    def every_anchor(self) -> tuple[Anchor, ...]:
        """All events on nodes that something waits for."""
        awaited = (step.anchor for step in self.steps if isinstance(step, Until))
        return (*awaited, *(anchor for one in self.every_timed for anchor in one.anchors))

    def on(self, server: Server | None) -> Scenario:
        """The scenario with what is expected on this server; unchanged if it is not known."""
        if server is None or self.expect.server is None:
            return self
        return self.model_copy(update={"expect": self.expect.on(server)})

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of the run: that of the lock, the others that its clients name, or all of a workload."""
        if self.workload is not None:
            return self.workload.key_names(self.key)
        named = (step.key for step in self.every_step if isinstance(step, Operation) and step.key is not None)
        return tuple(dict.fromkeys((self.key, *named)))

    def resolve(self, nodes: Nodes) -> tuple[str, ...]:
        """The names of a set of nodes: "all" written out."""
        return self.cluster.node_names if nodes == "all" else nodes


def _alien_to_sentinels(
    placed: Iterable[tuple[Loc, StepModel]], sentinels: tuple[str, ...]
) -> Iterator[tuple[Loc, PydanticCustomError, object]]:
    """Refuse what can't be done to a Sentinel, which keeps no keys."""
    for place, step in placed:
        anchor = step.anchor if isinstance(step, Until) else None
        for _, loc, name in references(step):
            fits = step.FITS_SENTINELS or isinstance(anchor, HeldDown | NodesUp) or loc[-2:-1] == ("by",)
            if name in sentinels and not fits:
                seen = f"{name} is a Sentinel, and {step.KEY} is for nodes"
                yield (*place, step.KEY, *loc), problem(seen, "A, B, C…"), name


def _before_the_start(tracks: Tracks) -> Iterator[tuple[Loc, PydanticCustomError, object]]:
    """Refuse actions before the start: the clients of a run have opened their locks by then."""
    for name, track in tracks.items():
        for at, timed in enumerate(track):
            if timed.at is not None and timed.at.after_ns < 0:
                seen = f"it begins {short_duration(-timed.at.after_ns)} before the start"
                yield (name, at, timed.step.KEY, "at"), problem(seen, "a time after the start"), None
