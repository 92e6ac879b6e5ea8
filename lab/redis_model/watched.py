"""What a Sentinel knows of one server, and its two connections to it.

Times are milliseconds of the Sentinel's wall clock; 0: it has not happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import hiredis

from lab.redis_model.reply import pack
from lab.redis_model.session import Argument, as_bytes

Kind = Literal["master", "slave", "sentinel"]
Flag = Literal[
    "s_down",
    "o_down",
    "master_down",
    "failover_in_progress",
    "promoted",
    "reconf_sent",
    "reconf_inprog",
    "reconf_done",
    "force_failover",
]
_BEFORE_KIND: Final[tuple[Flag, ...]] = ("s_down", "o_down")
_AFTER_KIND: Final[tuple[Flag, ...]] = (
    "master_down",
    "failover_in_progress",
    "promoted",
    "reconf_sent",
    "reconf_inprog",
    "reconf_done",
    "force_failover",
)
HELLO: Final = "__sentinel__:hello"
"""The channel of hello messages."""
PARALLEL_SYNCS: Final = 1
"""How many replicas are told to follow a new master at once."""
PRIORITY: Final = 100
"""The replica-priority of a server that is not told another one."""


class Conversation:
    """A connection to a server: what is sent is answered in order. It keeps what is sent before it is open.

    ``lost`` is called when it ended from the other side, or could not be made; ``heard`` with what comes
    without being asked for, on a connection that listens to channels; ``settle`` after all that came at once.
    """

    def __init__(
        self,
        settle: Callable[[], None],
        lost: Callable[[], None],
        heard: Callable[[Any], None] | None = None,
    ) -> None:
        self._settle, self._lost, self._heard = settle, lost, heard
        self._unsent: list[bytes] = []
        self._waiting: deque[Callable[[Any], None]] = deque()
        self._replies = hiredis.Reader()
        self._send: Callable[[bytes], None] | None = None
        self._closed: Callable[[], None] | None = None
        self._is_open = True

    @property
    def pending(self) -> int:
        """How many commands are not answered."""
        return len(self._waiting)

    def ask(self, *words: Argument, then: Callable[[Any], None] | None = None) -> None:
        """Send a command; ``then`` takes its answer."""
        if self._heard is None:
            self._waiting.append(then or _ignore)
        data = pack(as_bytes(words))
        if self._send is None:
            self._unsent.append(data)
        else:
            self._send(data)

    def opened(self, send: Callable[[bytes], None], closed: Callable[[], None] | None) -> Conversation:
        """The connection is there; ``closed`` tells the other side that this one ended it."""
        if not self._is_open:
            if closed is not None:
                closed()
            return self
        self._send, self._closed = send, closed
        unsent, self._unsent = self._unsent, []
        if unsent:
            send(b"".join(unsent))
        return self

    def feed(self, data: bytes) -> None:
        """Take bytes from the server."""
        self._replies.feed(data)
        while self._is_open and (reply := self._replies.gets()) is not False:
            if self._heard is not None:
                self._heard(reply)
            elif self._waiting:
                self._waiting.popleft()(reply)
        self._settle()

    def close(self) -> None:
        """The connection is lost, or could not be made."""
        if self._is_open:
            self._is_open = False
            self._lost()

    def end(self) -> None:
        """End it from this side."""
        if self._is_open:
            self._is_open = False
            if self._closed is not None:
                self._closed()


def _ignore(_: Any) -> None:
    """An answer of which nothing follows."""


@dataclass(slots=True)
class Connections:
    """The connections to one server, and what came over them."""

    made_ms: int
    commands: Conversation | None = None
    commands_since_ms: int = 0
    messages: Conversation | None = None
    """Where it listens for the hello messages of other Sentinels; it has none to a Sentinel."""
    messages_since_ms: int = 0
    message_ms: int = 0
    """When the last message came."""
    is_whole: bool = False
    """Whether every connection is there, as far as is known."""
    tried_ms: int = 0
    unanswered_ms: int = field(init=False)
    """When the first PING was sent that is not answered; 0: all are. At first the time of creation."""
    ping_ms: int = 0
    available_ms: int = field(init=False)
    """When it last answered a PING well."""
    answered_ms: int = field(init=False)
    """When it last answered a PING at all."""

    def __post_init__(self) -> None:
        self.unanswered_ms = self.available_ms = self.answered_ms = self.made_ms

    def end(self) -> None:
        """End both."""
        for conversation in (self.commands, self.messages):
            if conversation is not None:
                conversation.end()
        self.commands = self.messages = None
        self.is_whole = False


@dataclass(slots=True, eq=False)
class Watched:
    """The master, one of its replicas, or another Sentinel."""

    kind: Kind
    host: str
    port: int
    made_ms: int
    run_id: str = ""
    flags: set[Flag] = field(default_factory=set)
    links: Connections = field(init=False)
    published_ms: int = field(init=False)
    """When a hello message was last published on it."""
    hello_ms: int = field(init=False)
    """When this Sentinel last published one."""
    opinion_ms: int = field(init=False)
    """When this Sentinel last said whether it holds the master to be down."""
    leader: str = ""
    """Whom this Sentinel has voted for; of a master, whom the watching Sentinel has voted for."""
    leader_epoch: int = 0
    down_since_ms: int = 0
    """Since when it was held to be down, last time; also when it is up again."""
    agreed_since_ms: int = 0
    """The same, by a quorum."""
    info_ms: int = 0
    role: Kind = field(init=False)
    """What it said last that it is."""
    role_since_ms: int = field(init=False)
    link_down_ms: int = 0
    """For how long a replica has not heard its master, as it said last."""
    priority: int = PRIORITY
    offset: int = 0
    follows: tuple[str, int] = ("", 0)
    follows_since_ms: int = field(init=False)
    hears_master: bool = False
    reconfigured_ms: int = 0
    """When a replica was told to follow the promoted one."""

    def __post_init__(self) -> None:
        now_ms = self.made_ms
        self.links = Connections(now_ms)
        self.published_ms = self.hello_ms = self.opinion_ms = now_ms
        self.role, self.role_since_ms, self.follows_since_ms = self.kind, now_ms, now_ms

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self.host, self.port

    @property
    def is_down(self) -> bool:
        """Whether it is held to be down, by this Sentinel or by a quorum."""
        return bool(self.flags & {"s_down", "o_down"})

    @property
    def shown_flags(self) -> str:
        """Its flags as Sentinel shows them."""
        disconnected = () if self.links.is_whole else ("disconnected",)
        before = (flag for flag in _BEFORE_KIND if flag in self.flags)
        after = (flag for flag in _AFTER_KIND if flag in self.flags)
        return ",".join([*before, self.kind, *disconnected, *after])

    def was_up_for(self, wait_ms: int, now_ms: int) -> bool:
        """Whether it was not found to be down for so long."""
        since_ms = max(self.down_since_ms, self.agreed_since_ms)
        return since_ms == 0 or now_ms - since_ms > wait_ms
