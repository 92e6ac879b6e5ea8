"""Lua scripts: one Lua 5.1 for all simulated servers, sealed off, with compiled scripts kept.

A script sees what ``prelude.lua`` gives it and nothing of Python, of the file system or of the machine's
time; its random numbers come from the server's own. A script is atomic here as there: nothing else runs
meanwhile, and the clock stands still.

Not there: ``cjson.decode``, ``cmsgpack``, ``struct``, ``bit``, ``redis.setresp(3)``, functions, and the five
seconds after which a real server lets others interrupt a script: one that does ``MILLION_STEPS_MAX`` million
steps fails instead.

Source: Redis 7.0, the documentation of EVAL and the Lua API reference.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from lupa import lua51

from lab.redis_model.guards import READ_ONLY
from lab.redis_model.registry import COMMANDS, find
from lab.redis_model.reply import ErrorReply, RedisError, Reply, Status, Verbatim

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel

MILLION_STEPS_MAX: Final = 20
_BYTES: Final = {bytes}
NO_SCRIPT: Final = "NOSCRIPT No matching script. Please use EVAL."


@functools.lru_cache(maxsize=1024)
def digest(source: bytes) -> bytes:
    """Return the name under which EVALSHA finds a script."""
    return hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()


class _Fault(AttributeError):
    """Something that failed in a script, mostly a command; its text is the error."""


class Lua:
    """The interpreter. It runs one script at a time, for the server in ``_model``."""

    def __init__(self) -> None:
        self._compiled: dict[bytes, Any] = {}
        self._model: RedisModel | None = None
        self._may_write = True
        self._bug: BaseException | None = None
        self._runtime = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_nothing,
        )
        prelude = resources.files("lab.redis_model").joinpath("prelude.lua").read_bytes()
        made = self._runtime.execute(
            prelude, self._call, self._pcall, self._explain, self._random, _sha1hex, MILLION_STEPS_MAX
        )
        self._compile, self._run, self._item, self._status, self._error = made

    def compile(self, source: bytes) -> Any:
        """Return a script ready to run. Raises ``RedisError`` if it does not compile."""
        found = self._compiled.get(source)
        if found is None:
            body = source
            if body.startswith(b"#!"):
                first, _, rest = body.partition(b"\n")
                if first.split()[0] != b"#!lua":
                    engine = first[2:].split()[0].decode(errors="replace") if first[2:].split() else ""
                    raise RedisError(f"ERR Unexpected engine in script shebang: {engine}")
                body = b"\n" + rest
            found = self._compile(body)
            if isinstance(found, tuple):
                complaint = found[1].decode(errors="replace")
                raise RedisError(f"ERR Error compiling script (new function): {complaint}")
            self._compiled[source] = found
        return found

    def run(
        self,
        model: RedisModel,
        source: bytes,
        keys: list[bytes],
        args: list[bytes],
        *,
        may_write: bool = True,
    ) -> Reply:
        """Run a script and return its answer. Raises ``RedisError`` if it does not compile."""
        script = self.compile(source)
        self._model, self._may_write = model, may_write
        answer = self._run(script, len(keys), *keys, *args)
        if self._bug is not None:
            bug, self._bug = self._bug, None
            raise bug
        kind = type(answer)
        if kind is int or kind is bytes or answer is None:
            return answer  # type: ignore[no-any-return]
        if kind is tuple and answer[0] == b"raised":
            _, text, where, line = answer
            message = text.decode("utf-8", "surrogateescape")
            if where is not None:
                message += f" script: {digest(source).decode()}, on {where.decode()}:{line}."
            return ErrorReply(message)
        return self._reply(answer)

    def _call(self, *arguments: Any) -> Any:
        """``redis.call``: run one command; an error is raised, for ``_explain``."""
        reply = self._perform(arguments)
        kind = type(reply)
        if kind is bytes or kind is int:
            return reply
        if kind is ErrorReply:
            raise _Fault(str(reply))
        return self._given(reply)

    def _pcall(self, *arguments: Any) -> Any:
        """``redis.pcall``: run one command; an error is returned."""
        return self._given(self._perform(arguments))

    def _explain(self, raised: BaseException) -> Any:
        """Say what was raised; what is no command's failure is a bug of ours, and raised again later."""
        if not isinstance(raised, _Fault):
            self._bug = raised
        return self._error(str(raised).encode("utf-8", "surrogateescape"))

    def _perform(self, arguments: tuple[Any, ...]) -> Reply:
        model = self._model
        assert model is not None
        if not arguments:
            return ErrorReply("ERR Please specify at least one argument for this redis lib call")
        args = list(arguments)
        if set(map(type, args)) != _BYTES:
            for at, argument in enumerate(args):
                kind = type(argument)
                if kind is int:
                    args[at] = b"%d" % argument
                elif kind is float:
                    args[at] = b"%.17g" % argument
                elif kind is not bytes:
                    return ErrorReply("ERR Lua redis lib command arguments must be strings or integers")
        command = COMMANDS.get(args[0])
        if command is None or command.children or not command.fits(len(args)):
            try:
                command = find(args)
            except RedisError as error:
                if "wrong number" in str(error):
                    return ErrorReply("ERR Wrong number of args calling Redis command from script")
                return ErrorReply("ERR Unknown Redis command called from script")
        if not command.in_scripts:
            return ErrorReply("ERR This Redis command is not allowed from script")
        if command.writes and model.guarded:
            return ErrorReply(READ_ONLY)
        if command.writes and not self._may_write:
            return ErrorReply("ERR Write commands are not allowed from read-only scripts.")
        return model.perform(model.script_session, command, args)

    def _given(self, reply: Reply) -> Any:
        """Turn a reply into what a script gets."""
        kind = type(reply)
        if kind is bytes or kind is int:
            return reply
        if reply is None:
            return False
        if isinstance(reply, ErrorReply):
            return self._error(reply.text.encode("utf-8", "surrogateescape"))
        if isinstance(reply, list):
            return self._runtime.table_from([self._given(item) for item in reply])
        if isinstance(reply, Status):
            return self._status(bytes(reply))
        if isinstance(reply, Verbatim):
            return bytes(reply)
        return False

    def _reply(self, answer: Any) -> Reply:
        """Turn what a script returned into a reply."""
        kind = type(answer)
        if kind is not tuple:
            if kind is float:
                return _truncated(answer)
            return 1 if answer is True else answer
        head, value = answer[0], answer[1]
        if head == b"status":
            return Status(value)
        if head == b"error":
            return ErrorReply(value.decode("utf-8", "surrogateescape"))
        if head == b"flat":
            return [None if item is False else self._reply(item) for item in answer[2:]]
        return [self._reply(self._item(answer[2], index)) for index in range(1, value + 1)]

    def _random(self) -> float:
        assert self._model is not None
        return self._model.random.random()


def _truncated(value: float) -> int:
    """Cut a number to 64 bits as a processor does."""
    return int(value) if -(2.0**63) <= value < 2.0**63 else -(2**63)


def _sha1hex(*arguments: Any) -> bytes:
    """``redis.sha1hex``."""
    if len(arguments) != 1:
        raise _Fault("ERR wrong number of arguments")
    return digest(arguments[0] if isinstance(arguments[0], bytes) else str(arguments[0]).encode())


def _nothing(*_: object) -> str:
    """Refuse any look into an object of Python's."""
    raise _Fault("ERR attempt to index a function value")
