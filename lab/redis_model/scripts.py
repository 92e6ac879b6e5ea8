"""Lua scripts: one Lua 5.1 for all simulated servers, sealed off, with compiled scripts kept.

A script sees what ``prelude.lua`` gives it and nothing of Python, of the file system or of the machine's
time; its random numbers come from the server's own. A script is atomic here as there: nothing else runs
meanwhile, and the clock stands still.

Not there: ``cmsgpack``, ``struct``, ``os``, what sets up ``cjson``, ``redis.setresp(3)``, functions, and
BUSY with SCRIPT KILL: a real server answers others so while a script has run for longer than
``busy-reply-threshold`` (5 s), and here no script takes time. One that does ``MILLION_STEPS_MAX`` million
steps, or ``CALLS_MAX`` commands, is ended. Whatever uses these is told to ``RedisModel.on_missing``.

Source: Redis 7.0, the documentation of EVAL and the Lua API reference.
"""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Callable, Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from lupa import lua51

from lab.redis_model.guards import write_refusal_in_script
from lab.redis_model.known import version_of
from lab.redis_model.numbers import argument_text, writes_short_floats
from lab.redis_model.registry import NoSuchCommand
from lab.redis_model.reply import ErrorReply, RedisError, Reply, Score, Status, Verbatim
from lab.servers import Server

if TYPE_CHECKING:
    from lab.redis_model.model import RedisModel

MILLION_STEPS_MAX: Final = 20
_BYTES: Final = {bytes}
CALLS_MAX: Final = 50_000
"""So many commands may be in one run of a script."""
IN_SCRIPTS_SINCE_7_2: Final = frozenset({"blpop", "brpop"})
"""Allowed in scripts of Redis 7.2 and every Valkey, where they never wait."""


@functools.lru_cache(maxsize=1024)
def digest(source: bytes) -> bytes:
    """Return the name under which EVALSHA finds a script."""
    return hashlib.sha1(source, usedforsecurity=False).hexdigest().encode()


def no_script(server: Server) -> str:
    """Return what is said about a script that is not there."""
    return "NOSCRIPT No matching script." + (" Please use EVAL." if server.product == "redis" else "")


class _Fault(AttributeError):
    """Something that failed in a script, mostly a command; its text is the error."""


class _Misuse(_Fault):
    """A function of a library was not used right; scripts see the text."""


class Lua:
    """The interpreter. It runs one script at a time, for the server in ``_model``."""

    def __init__(self) -> None:
        self._compiled: dict[bytes, Any] = {}
        self._model: RedisModel | None = None
        self._may_write = True
        self._bug: BaseException | None = None
        self._calls = self._dirty = 0
        self._seen: Server | None = None
        """As what server scripts see themselves now."""
        self._runtime = lua51.LuaRuntime(
            encoding=None,
            unpack_returned_tuples=True,
            register_eval=False,
            register_builtins=False,
            attribute_filter=_nothing,
        )
        prelude = resources.files("lab.redis_model").joinpath("prelude.lua").read_bytes()
        made = self._runtime.execute(
            prelude,
            self._call,
            self._pcall,
            self._explain,
            self._random,
            _sha1hex,
            self._missing,
            self._endless,
            self._decode,
            self._bits,
            MILLION_STEPS_MAX,
        )
        self._compile, self._run, self._item, *told = made
        self._status, self._error, self._appear, self._stop, self._line, *told = told
        self._caller, self._decoded = told

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
        self._model, self._may_write, self._calls, self._dirty = model, may_write, 0, model.keys.dirty
        if model.limits.hold and source.startswith(b"#!"):
            model.miss("a script with flags on a server with limits")
        if model.server != self._seen:
            self._seen = model.server
            self._appear(
                model.server.product.encode(), model.version.encode(), *map(int, model.version.split("."))
            )
        answer = self._run(script, len(keys), *keys, *args)
        if self._bug is not None:
            bug, self._bug = self._bug, None
            raise bug
        kind = type(answer)
        if kind is int or kind is bytes or answer is None:
            return answer  # type: ignore[no-any-return]
        if kind is tuple and answer[0] == b"raised":
            _, text, where, line, raised = answer
            message = text.decode("utf-8", "surrogateescape")
            if model.is_before_7:
                message = _before_7(message, f"{(where or b'').decode()}:{line}", raised)
                message = f"ERR Error running script (call to f_{digest(source).decode()}): {message}"
            elif where is not None:
                name = "" if _is_valkey(model, (9, 1)) else f"{digest(source).decode()}, "
                message += f" script: {name}on {where.decode()}:{line}."
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
        text = str(raised).encode("utf-8", "surrogateescape")
        return text if isinstance(raised, _Misuse) else self._error(text)

    def _misuse(self, why: str) -> _Misuse:
        """What to raise, with the line of the script as Lua tells it."""
        line = self._caller()
        return _Misuse(f"user_script:{line}: {why}" if line else why)

    def _decode(self, *arguments: Any) -> Any:
        """``cjson.decode``."""
        where = "bad argument #1 to 'decode'"
        if len(arguments) != 1:
            raise self._misuse(f"{where} (expected 1 argument)")
        (text,) = arguments
        if isinstance(text, int | float) and not isinstance(text, bool):
            text = f"{text:.14g}".encode()
        if not isinstance(text, bytes):
            raise self._misuse(f"{where} (string expected, got {_type_of(text)})")
        fine, found = self._decoded(text)
        if not fine:
            raise self._misuse(found.decode("utf-8", "surrogateescape"))
        return found

    def _bits(self, name: bytes) -> Callable[..., int | bytes]:
        """The function of the bit library with this name."""
        least = 2 if b"shift" in name or name in (b"rol", b"ror") else 1

        def function(*arguments: Any) -> int | bytes:
            numbers = []
            for at in range(max(least, len(arguments))):
                given = arguments[at : at + 1]
                number = _number(given[0]) if given else None
                if number is None:
                    seen = _type_of(given[0]) if given else "no value"
                    what = f"bad argument #{at + 1} to '{name.decode()}'"
                    raise self._misuse(f"{what} (number expected, got {seen})")
                numbers.append(number)
            return _of_bits(name, numbers)

        return function

    def _perform(self, arguments: tuple[Any, ...]) -> Reply:
        model = self._model
        assert model is not None
        is_valkey = _is_valkey(model)
        self._calls += 1
        if self._calls > CALLS_MAX:
            self._endless(b"%d commands" % CALLS_MAX)
        if not arguments:
            lib = "" if is_valkey else "redis lib "
            needed = "Please specify at least one argument for "
            return self._complaint(f"{needed}this {lib}call", f"{needed}redis.call()")
        args = list(arguments)
        if set(map(type, args)) != _BYTES:
            for at, argument in enumerate(args):
                kind = type(argument)
                if kind is int or kind is float:
                    args[at] = argument_text(model.server, argument)
                elif kind is not bytes:
                    whose = "C" if is_valkey else "Lua redis lib c"
                    kinds = "ommand arguments must be strings or integers"
                    return self._complaint(f"{whose}{kinds}", f"Lua redis() c{kinds}")
        command = model.commands.get(args[0])
        if command is None or command.children or not command.fits(len(args)):
            try:
                command = model.find(args)
            except NoSuchCommand:
                what = f"Unknown {'' if is_valkey else 'Redis '}command called from "
                return self._complaint(f"{what}script", f"{what}Lua script")
            except RedisError:
                what = f"Wrong number of args calling {'' if is_valkey else 'Redis '}command "
                return self._complaint(f"{what}from script", f"{what}From Lua script")
        since_7_2 = command.name in IN_SCRIPTS_SINCE_7_2 and writes_short_floats(model.server)
        if not (command.in_scripts or since_7_2):
            whose = "Valkey" if _is_valkey(model, (9, 0)) else "Redis"
            refused = f"This {whose} command is not allowed from script"
            return self._complaint(refused, f"{refused}s")
        # What has written may write more: a script is executed whole.
        unwritten = command.writes and model.guarded and model.keys.dirty == self._dirty
        if unwritten and (why := write_refusal_in_script(model, command)):
            return ErrorReply(why)
        if command.writes and not self._may_write:
            return ErrorReply("ERR Write commands are not allowed from read-only scripts.")
        return model.perform(model.script_session, command, args)

    def _complaint(self, text: str, before_7: str) -> ErrorReply:
        """Refuse a command for how a script calls it; before 7.0 the place stands where the code does now."""
        assert self._model is not None
        if self._model.is_before_7:
            return ErrorReply(f"@user_script: {self._line()}: {before_7}")
        return ErrorReply(f"ERR {text}")

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
        if isinstance(reply, Score | Verbatim):
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

    def _endless(self, bound: bytes) -> None:
        """A script runs too long for the simulation: end it. Raises ``_Fault``."""
        self._missing(b"a script that did not end within %b" % bound, in_real_time=True)

    def _missing(self, what: bytes, *, in_real_time: bool = False) -> None:
        """A script uses what is not simulated: end it. Raises ``_Fault``."""
        assert self._model is not None
        name = what.decode(errors="replace")
        self._model.miss(name, in_real_time=in_real_time)
        self._stop()
        raise _Fault(f"ERR {name} is not simulated; real servers have it")

    def _random(self) -> float:
        assert self._model is not None
        return self._model.random.random()


def _before_7(message: str, place: str, raised: bytes) -> str:
    """Tell what a script raised as Redis before 7.0 did; ``raised`` is its type in Lua."""
    if raised not in (b"userdata", b"string", b"number"):
        what = f"attempt to concatenate local 'err' (a {raised.decode()} value)"
        return f"@err_handler_def:9: err_handler_def:9: {what}"
    return f"{place}: {message if raised == b'userdata' else message.removeprefix('ERR ')}"


def _is_valkey(model: RedisModel, since: tuple[int, int] = (0, 0)) -> bool:
    return model.server.product == "valkey" and version_of(model.server) >= since


def _truncated(value: float) -> int:
    """Cut a number to 64 bits as a processor does."""
    return int(value) if -(2.0**63) <= value < 2.0**63 else -(2**63)


def _type_of(value: Any) -> str:
    """What Lua calls the type of a value."""
    if value is None:
        return "nil"
    names = {bool: "boolean", bytes: "string", int: "number", float: "number"}
    kind: bytes = lua51.lua_type(value) or b"userdata"
    return names.get(type(value)) or (kind.decode() if isinstance(kind, bytes) else str(kind))


def _number(value: Any) -> float | None:
    """A number, or a text that says one."""
    if isinstance(value, bytes):
        try:
            return float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _of_bits(name: bytes, numbers: Sequence[float]) -> int | bytes:
    """What a function of the bit library makes of numbers: of their lowest 32 bits, as a signed number."""
    words = [round(number) & 0xFFFFFFFF for number in numbers]
    first, by = words[0], words[1] % 32 if len(words) > 1 else 0
    if name == b"tohex":
        digits = round(numbers[1]) if len(numbers) > 1 else 8
        form = b"%08x" if digits >= 0 else b"%08X"
        return (form % first)[8 - min(8, abs(digits)) :]
    if name == b"bswap":
        found = int.from_bytes(first.to_bytes(4, "little"), "big")
    elif name == b"bnot":
        found = ~first
    elif name == b"lshift":
        found = first << by
    elif name == b"rshift":
        found = first >> by
    elif name == b"arshift":
        found = _signed(first) >> by
    elif name in (b"rol", b"ror"):
        by = by if name == b"rol" else -by % 32
        found = first << by | first >> 32 - by
    else:
        together = {b"band": operator.and_, b"bor": operator.or_, b"bxor": operator.xor}
        found = functools.reduce(together[name], words) if name in together else first
    return _signed(found & 0xFFFFFFFF)


def _signed(word: int) -> int:
    return word - (1 << 32) if word >> 31 else word


def _sha1hex(*arguments: Any) -> bytes:
    """``redis.sha1hex``."""
    if len(arguments) != 1:
        raise _Fault("ERR wrong number of arguments")
    return digest(arguments[0] if isinstance(arguments[0], bytes) else str(arguments[0]).encode())


def _nothing(*_: object) -> str:
    """Refuse any look into an object of Python's."""
    raise _Fault("ERR attempt to index a function value")
