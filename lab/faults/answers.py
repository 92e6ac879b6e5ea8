"""``answers``: nodes answer commands of a client with an error, and do not execute them, until it is healed.

Servers answer so while a script runs too long (BUSY), when their memory is full (OOM) or they can't save
(MISCONF), while they load their data (LOADING), as replicas (READONLY), without enough replicas (NOREPLICAS)
and in a cluster (MOVED, CLUSTERDOWN). The node itself works, and serves its other clients.

The receipt is that a command without arguments, which no server executes, is answered with the error through
the link, and with another one around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from lab.faults.base import (
    AROUND_TIMEOUT_S,
    Fault,
    Receipt,
    Target,
    all_at_once,
    answers,
    named,
    node_names,
    together,
)
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.problems import kind, problem
from lab.scenario.types import ClientName, Nodes
from lab.substrates.base import Capability, Cluster, Link
from lab.substrates.probe import error_reply

ERRORS: Final = {
    "BUSY": "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "MISCONF": "MISCONF Redis is configured to save RDB snapshots, but it can't persist to disk.",
    # Nothing listens there: a client that follows it is refused.
    "MOVED": "MOVED 866 127.0.0.1:1",
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY": "READONLY You can't write against a read only replica.",
}
"""What servers answer, by the first word."""
ALONE: Final = frozenset(
    ("FLUSHALL", "FLUSHDB", "SHUTDOWN", "FAILOVER", "SAVE", "BGSAVE", "BGREWRITEAOF", "SYNC")
)
"""Commands that do something without arguments, so that a probe must not send them."""
ANY_DATA: Final = "GET"
"""The command of the probe if all commands on data are answered with the error."""
_ERROR: Final = re.compile(r"[A-Z][A-Z0-9]*( [ -~]+)?")
_NAME: Final = {"type": "string", "pattern": "^[A-Za-z][A-Za-z.]*$"}
_COMMAND: Final = re.compile(r"[A-Z][A-Z.]*")


def _error(text: str) -> str:
    if not _ERROR.fullmatch(text):
        raise problem(
            f"{text!r} is no error reply",
            f"one of {', '.join(ERRORS)}, or a whole line such as ERR something went wrong",
        )
    return text


def _commands(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(one, str) for one in names):
        raise problem(f"{kind(value)} names no commands", "a list such as [EVAL, EVALSHA]")
    upper = tuple(dict.fromkeys(name.upper() for name in names))
    for name in upper:
        if not _COMMAND.fullmatch(name):
            raise problem(f"{name!r} is no command", "the first word of one, such as EVAL")
        if name in ALONE:
            seen = f"{name} does something without arguments, so no probe can show how it is answered"
            raise problem(seen, "commands that need arguments, such as EVAL")
    return upper


class Answers(Fault):
    """Let nodes answer commands of a client, or of all, with an error; they do not execute them."""

    KEY = "answers"
    EXAMPLE = "{nodes: [A], error: BUSY, to: [EVAL, EVALSHA]}"
    NEEDS = Capability.ANSWER_ERRORS
    ENDED_BY = "heal"
    DRAWN = Drawing("links")
    SIGN = Sign("link", "gets errors")

    client: ClientName | None = None
    """The client that gets the error; without it, every client."""
    nodes: Nodes
    """The nodes that answer so."""
    error: Annotated[str, AfterValidator(_error)]
    """The error: its first word, if it is one of the usual ones, or all of it."""
    to: Annotated[
        tuple[str, ...] | None,
        BeforeValidator(_commands),
        WithJsonSchema({"anyOf": [_NAME, {"type": "array", "items": _NAME, "minItems": 1}]}),
    ] = None
    """The commands that are answered so; without them, all that are about data."""

    @property
    def clause(self) -> str:
        """To whom, and with which error."""
        to = f" to {self.client.capitalize()}" if self.client else ""
        return f"{named(self.nodes)} answers{to} with {self.error}"

    @property
    def ended_clause(self) -> str:
        """It executes commands."""
        return f"{named(self.nodes)} executes commands again"

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse a client that was killed."""
        yield from state.unless_killed(self.client, ("client",))

    def target(self, cluster: Cluster) -> Target:
        """The client and the nodes, with the error as text."""
        ends = node_names(self.nodes, cluster)
        to = "" if self.to is None else f" to {', '.join(self.to)}"
        near = self.client or "all clients"
        return Target(f"{near} ← {self.error.partition(' ')[0]} of {','.join(ends)}{to}", ends, self.client)

    def parts(self, cluster: Cluster) -> tuple[Fault, ...]:
        """One for each client, since links are healed by client."""
        if self.client is not None:
            return ()
        return tuple(self.model_copy(update={"client": name}) for name in cluster.clients)

    async def inject(self, cluster: Cluster) -> Receipt:
        """Begin to answer so on every link, then ask each of them."""
        links = self.begin(cluster)
        shown = await all_at_once(self._is_answered(link, self.line, cluster) for link in links)
        return together(dict(zip(node_names(self.nodes, cluster), shown, strict=True)))

    @property
    def line(self) -> str:
        """The error reply, all of it."""
        return ERRORS.get(self.error, self.error)

    def begin(self, cluster: Cluster) -> list[Link]:
        """Answer so from now on; return the links on which that is so."""
        links = [cluster.link(self.client or "", name) for name in node_names(self.nodes, cluster)]
        for link in links:
            assert link.answering is not None, "the schedule's needs say so"
            link.answering.begin(self.line, None if self.to is None else frozenset(self.to))
        return links

    async def _is_answered(self, link: Link, error: str, cluster: Cluster) -> tuple[bool, dict[str, Any]]:
        node = cluster.nodes[link.target]
        if not await answers(node):  # a node that is down or paused answers nothing
            troubles = await link.troubles()
            return f"answers {error}" in troubles, {"probe_around_ms": None, "link": troubles}
        confirmed, through, around = True, "", ""
        for command in self.to or (ANY_DATA,):
            around = await error_reply(node.address, command, AROUND_TIMEOUT_S) or ""
            through = await error_reply(link.address, command, AROUND_TIMEOUT_S) or ""
            confirmed = confirmed and through == error and around not in ("", error)
        return confirmed, {"through_link": through.partition(" ")[0], "around": around.partition(" ")[0]}
