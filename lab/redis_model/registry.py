"""The table of commands: what each is called, how many arguments it takes, where it is allowed."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from lab.redis_model.known import command_use, option_versions, version_of
from lab.redis_model.reply import RedisError, Reply
from lab.servers import Server

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel
    from lab.redis_model.session import Session

Handler = Callable[["RedisModel", "Session", list[bytes]], Reply]


@dataclass(frozen=True, slots=True, eq=False)
class Command:
    """One command, or one subcommand.

    ``arity`` counts the name (and the subcommand's); a negative one is a least number. ``writes`` keeps it
    from replicas and, with ``propagates``, brings it to files and replicas when it changed something.
    """

    name: str
    run: Handler
    arity: int
    writes: bool = False
    propagates: bool = True
    in_scripts: bool = True
    in_transactions: bool = True
    shown: bool = True
    """Whether MONITOR shows it."""
    while_subscribed: bool = False
    """Whether a RESP2 connection that listens to channels may still send it."""
    options: frozenset[str] = frozenset()
    """The words of its syntax that are simulated, of whichever version."""
    children: dict[bytes, Command] = field(default_factory=dict)

    def fits(self, count: int) -> bool:
        """Tell whether so many arguments, the name among them, are right."""
        return count == self.arity if self.arity > 0 else count >= -self.arity


COMMANDS: dict[bytes, Command] = {}
"""All that are simulated, of whichever server, by name in lower and in upper case."""


def command(name: str, arity: int, options: str = "", **more: Any) -> Callable[[Handler], Handler]:
    """Put a handler into the table, with the options it understands; ``more`` are fields of ``Command``."""

    def register(handler: Handler) -> Handler:
        made = Command(name, handler, arity, options=frozenset(options.split()), **more)
        COMMANDS[name.encode()] = COMMANDS[name.upper().encode()] = made
        return handler

    return register


def subcommand(
    parent: str, name: str, arity: int, options: str = "", **more: Any
) -> Callable[[Handler], Handler]:
    """Put a handler into the table as a subcommand."""
    if parent.encode() not in COMMANDS:
        command(parent, -2)(_parent_only)
    children = COMMANDS[parent.encode()].children

    def register(handler: Handler) -> Handler:
        children[name.encode()] = Command(
            f"{parent}|{name}", handler, arity, options=frozenset(options.split()), **more
        )
        return handler

    return register


def _parent_only(server: RedisModel, session: Session, args: list[bytes]) -> Reply:
    raise AssertionError("a command with subcommands does nothing itself")


class NoSuchCommand(RedisError):
    """The server has no such command, or it is not simulated."""


class Commands(dict[bytes, Command]):
    """The commands of one server that are simulated, by name in lower and in upper case."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.options: dict[str, frozenset[bytes]] = {}
        """By command: the options that this server has and that are simulated."""
        for name, found in COMMANDS.items():
            children = {key: each for key, each in found.children.items() if self._take(each)}
            if found.children:
                found = replace(found, children=children)
            if self._take(found):
                self[name] = found

    def _take(self, found: Command) -> bool:
        use = command_use(found.name)
        if use is None or not use.is_in(self.server):
            return False
        has = option_versions(found.name, self.server) & found.options
        self.options[found.name] = frozenset(option.encode() for option in has)
        return True


commands_of = functools.cache(Commands)
"""The commands of a server."""


def is_before_7(server: Server) -> bool:
    """Whether this is a Redis before 7.0, which has other words and replicates durations."""
    return server.product == "redis" and version_of(server) < (7, 0)


def find(commands: Commands, args: list[bytes]) -> Command:
    """Return the command that is meant. Raises ``RedisError`` if none is, or its arguments do not fit."""
    found = commands.get(args[0]) or commands.get(args[0].lower())
    if found is None:
        raise NoSuchCommand(unknown(args, commands.server))
    if found.children and len(args) > 1:
        child = found.children.get(args[1].lower())
        if child is None:
            raise NoSuchCommand(_unknown_subcommand(found, args, commands.server))
        found = child
    if not found.fits(len(args)):
        if "|" in found.name and is_before_7(commands.server):
            raise RedisError(_unknown_subcommand(commands[args[0].lower()], args, commands.server))
        raise RedisError(wrong_count(found.name))
    return found


def unknown(args: list[bytes], server: Server) -> str:
    """Return what is said about a command that does not exist."""
    name = args[0][:128].decode(errors="replace")
    if len(args) == 1 and server.product == "redis" and version_of(server) >= (8, 6):
        return f"ERR unknown command '{name}'"
    quote, between = ("`", ", ") if is_before_7(server) else ("'", " ")
    shown = ""
    for argument in args[1:]:
        if len(shown) >= 128:
            break
        shown += f"{quote}{argument[: 128 - len(shown)].decode(errors='replace')}{quote}{between}"
    return f"ERR unknown command {quote}{name}{quote}, with args beginning with: {shown}"


def _unknown_subcommand(command: Command, args: list[bytes], server: Server) -> str:
    name = args[1][:128].decode(errors="replace")
    what = "unknown subcommand"
    if is_before_7(server):
        what = "Unknown subcommand or wrong number of arguments for"
    return f"ERR {what} '{name}'. Try {command.name.upper()} HELP."


def wrong_count(name: str) -> str:
    """Return what is said about a wrong number of arguments."""
    return f"ERR wrong number of arguments for '{name}' command"
