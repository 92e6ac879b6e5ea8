"""EDN, the notation of Jepsen and Knossos: one map per line, or one vector of maps.

The reader is our own: a scan with one regular expression. The parser on PyPI (edn_format) builds a grammar
with PLY at import, reads slowly and keeps no positions, so it could not say on which line a history is
wrong.

Maps may be tagged (`#jepsen.history.Op{...}`); `:process`, `:type` and `:f` are required, `:time` (ns)
defaults to the position, and keys that we do not know are somebody else's business. Our own fields are
written in kebab case. Parameters travel in a comment on the first line, count and digest in one on the last
(`checker.formats.edn_ends`), which other tools skip.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from checker.errors import HistoryError
from checker.formats import edn_ends
from checker.formats.foreign import AS_IT_IS, Reading, adapted, require_foreign
from checker.formats.text import Text
from checker.formats.whole import whole_file
from checker.history.completeness import Completeness
from checker.history.events import RESERVED, Event, Params
from checker.history.history import History

_FIELDS: Final = {f.name.replace("_", "-"): f.name for f in msgspec.structs.fields(Event)} | {
    "time": "time_ns"
}
_NAMES: Final = {name: f":{key}" for key, name in _FIELDS.items() if key != "time-ns"}
Source = TypeVar("Source")
_TYPES: Final = ("invoke", "ok", "fail", "info")
# Fields that hold one scalar: most events have no others and need no conversion.
_SIMPLE: Final[dict[str, type]] = {
    f.name: kind
    for f in msgspec.structs.fields(Event)
    for kind in (int, str)
    if f.type in (kind, kind | None) or f.name == "type"
}

_TOKEN: Final = re.compile(
    r"""(?P<blank>(?:[\s,]+|;[^\n]*)+)
      | (?P<open>\#\{|[\[{(])
      | (?P<close>[\]})])
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<discard>\#_)
      | (?P<meta>\^)
      | (?P<tag>\#[A-Za-z][^\s,;"\[\]{}()\\]*)
      | (?P<char>\\(?:u[0-9A-Fa-f]{4}|[a-z]{2,}|.))
      | (?P<atom>[^\s,;"\[\]{}()\\]+)""",
    re.VERBOSE | re.DOTALL,
)
DEPTH_MAX: Final = 100
"""How deep forms may lie in each other."""
DIGITS_MAX: Final = 1000
"""Longer numbers are a mistake, and Python refuses to read very long ones."""
_CLOSES: Final = {"[": "]", "(": ")", "{": "}", "#{": "}"}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "\\": "\\"}
_CHARS: Final = {"newline": "\n", "space": " ", "tab": "\t", "return": "\r"}
_INTEGER: Final = re.compile(r"[+-]?\d+N?")
_DECIMAL: Final = re.compile(r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?M?")
_CONSTANTS: Final[dict[str, Any]] = {"nil": None, "true": True, "false": False}


class Keyword(str):
    """An EDN keyword or symbol by its name, without the colon."""

    __slots__ = ()


class Truncated(HistoryError):
    """The text ends inside a form, as a crash leaves it."""


def read(text: Text, reading: Reading = AS_IT_IS) -> History:
    """A history from a text; raises as `parse`, and for bytes that are no UTF-8."""
    return parse(text.decoded(), reading)


def parse(text: str, reading: Reading = AS_IT_IS) -> History:
    """A history from text in memory. A last form that is cut short is noted as a problem.

    Raises:
        HistoryError: any other damage, with line and field.
    """
    header = edn_ends.header(text, _form)
    trailer = edn_ends.trailer(text, header is not None, _form)
    if header is None:
        return foreign_history(_until_cut, text, reading)
    require_foreign(reading)
    problems: list[str] = []
    events: list[Event] = []
    lines: list[int] = []
    for line, form in _until_cut(text, problems):
        if gap := _gap(form, len(events), line):
            raise gap
        events.append(event_of(form, len(events), line))
        lines.append(line)
    complete = edn_ends.compared(header, trailer, len(events), problems)
    return _history(events, lines, header[0], problems=problems, complete=complete)


def _until_cut(text: str, problems: list[str]) -> Iterator[tuple[int, Any]]:
    """The forms of a text; that the last one is cut short is added to the problems."""
    try:
        yield from forms(text)
    except Truncated as error:
        problems.append(f"the history is truncated: {error.problem}")


def foreign_history(
    forms_of: Callable[[Source, list[str]], Iterable[tuple[int, Any]]], source: Source, reading: Reading
) -> History:
    """A history of another tool from its forms with their lines.

    `forms_of` yields them, and adds what it finds wrong with the record as a whole to the list of problems.
    Nothing says whether the record is complete.

    Raises:
        HistoryError: a form that is no event, or what `checker.formats.foreign.adapted` refuses.
    """
    problems: list[str] = []
    found = list(forms_of(source, problems))
    lines = [line for line, _ in found]
    gap = next((gap for at, (line, form) in enumerate(found) if (gap := _gap(form, at, line))), None)
    if gap is not None:
        problems.insert(0, f"line {gap.line}, :index: {gap.problem}")
    adapted_forms, notes = adapted(found, reading)
    events = [event_of(form, at, lines[at]) for at, form in enumerate(adapted_forms)]
    return _history(
        events, lines, None, problems=problems, complete=Completeness.NOT_KNOWN, notes=notes, has_header=False
    )


def _history(events: list[Event], lines: list[int], params: Params | None, **more: Any) -> History:
    """The history of these events; an error about one of them names its line."""
    try:
        return History.from_events(events, params, **more)
    except HistoryError as error:
        position = re.search(r"\(event (\d+)\)", error.problem)
        raise error.at(line=lines[int(position[1])] if position else None) from None


def _gap(form: Any, position: int, line: int) -> HistoryError | None:
    """The error for a map that counts itself as another event than the one it is."""
    index = form.get("index") if isinstance(form, dict) else None
    if index is None or index == position:
        return None
    return HistoryError(
        f"saw {written(index)}, expected {position}: events are missing or out of order",
        line=line,
        field=":index",
        hint=":index counts events from 0; leave it out if the file is not numbered",
    )


def save(history: History, path: Path) -> None:
    """Write a history as one map per line between two comments: its parameters, and count and digest.

    What was truncated stays without the last.
    """
    digest = hashlib.sha256()
    with whole_file(path) as file:

        def put(line: str) -> None:
            data = f"{line}\n".encode()
            digest.update(data)
            file.write(data)

        put(edn_ends.HEADER + written(edn_ends.header_of(history)))
        count = 0
        for count, event in enumerate(history.events(), 1):
            put(line_of(event, count - 1))
        if not history.problems:
            file.write(f"{edn_ends.TRAILER}{written(edn_ends.trailer_of(count, digest))}\n".encode())


def forms(text: str) -> Iterator[tuple[int, Any]]:
    """The line (1-based) and value of each form; a vector or list at the top stands for its elements.

    Vectors, lists and sets become tuples, maps become dicts, keywords and symbols `Keyword`; tags are
    dropped.

    Raises:
        Truncated: the text ends inside a form.
        HistoryError: text that is no EDN.
    """
    stack: list[tuple[str, list[Any], int]] = []
    skips: list[int] = []  # depths at which the next form is thrown away: after `#_`, and the note after `^`
    line, counted = 1, 0
    for kind, token, start in _tokens(text):
        if kind in ("discard", "meta"):
            skips.append(len(stack))
            continue
        if kind == "open":
            if len(stack) == DEPTH_MAX:
                raise HistoryError(f"this is more than {DEPTH_MAX} levels deep", line=_line(text, start))
            stack.append((token, [], start))
            continue
        value: Any
        if kind != "close":
            if len(token) > DIGITS_MAX and _INTEGER.fullmatch(token):
                raise HistoryError(f"a number of {len(token)} digits", line=_line(text, start))
            value = _atom(kind, token)
        elif not stack or _CLOSES[stack[-1][0]] != token:
            raise HistoryError(f"saw {token!r}, which closes nothing", line=_line(text, start))
        else:
            opened, items, start = stack.pop()
            if not stack and opened in "[(" and not skips:
                continue  # its elements were handed out one by one
            if opened == "{" and len(items) % 2:
                raise HistoryError("a map with a key and no value", line=_line(text, start))
            value = _map(items) if opened == "{" else tuple(items)
        if skips and skips[-1] == len(stack):
            skips.pop()
        elif not stack or (len(stack) == 1 and stack[0][0] in "[(" and not skips):
            line, counted = line + text.count("\n", counted, start), start
            yield line, value
        else:
            stack[-1][1].append(value)
    if stack:
        line = _line(text, stack[-1][2])
        raise Truncated(f"the form that starts on line {line} is not closed", line=line)


def first_form(text: str) -> tuple[Any, str]:
    """The first form of a text, and what follows it.

    Raises:
        HistoryError: the text does not begin with a form.
    """
    depth = 0
    for kind, _, start in _tokens(text):
        depth += (kind == "open") - (kind == "close")
        if depth == 0 and kind not in ("discard", "meta"):
            match = _TOKEN.match(text, start)
            assert match is not None
            return next(forms(f"{{:v {text[: match.end()]}}}"))[1]["v"], text[match.end() :]
    raise Truncated("there is no whole form")


def _tokens(text: str) -> Iterator[tuple[str, str, int]]:
    """Kind, text and position of every token that means something; tags mean nothing here."""
    position, end = 0, len(text)
    match = _TOKEN.match
    while position < end:
        found = match(text, position)
        if found is None:
            line = _line(text, position)
            raise Truncated(f"the string that starts on line {line} is not closed", line=line)
        kind = found.lastgroup or ""
        if kind not in ("blank", "tag"):
            yield kind, found[0], position
        position = found.end()


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1


def _map(items: list[Any]) -> dict[Any, Any]:
    keys = [key if isinstance(key, str | int) else _frozen(key) for key in items[::2]]
    return dict(zip(keys, items[1::2], strict=True))


def _frozen(key: Any) -> Any:
    """A key that can be hashed: a map as the tuple of its entries."""
    if isinstance(key, dict):
        return tuple((name, _frozen(value)) for name, value in key.items())
    return tuple(map(_frozen, key)) if isinstance(key, tuple) else key


def _atom(kind: str, token: str) -> Any:
    if kind == "string":
        return _whole(re.sub(r"\\(u[0-9A-Fa-f]{4}|.)", _unescaped, token[1:-1], flags=re.DOTALL))
    if kind == "char":
        name = token[1:]
        return _whole(chr(int(name[1:], 16))) if len(name) == 5 and name[0] == "u" else _CHARS.get(name, name)
    if token[0] == ":":
        return Keyword(token[1:])
    if token in _CONSTANTS:
        return _CONSTANTS[token]
    if _INTEGER.fullmatch(token):
        return int(token.rstrip("N"))
    if _DECIMAL.fullmatch(token):
        return float(token.rstrip("M"))
    return Keyword(token)


def _whole(text: str) -> str:
    """The text with its surrogates in pairs, as Java writes them, made characters; half of a pair is none."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)


def event_of(form: Any, position: int, line: int | None = None) -> Event:
    """One operation map as an event; `position` counts the events before it.

    Raises:
        HistoryError: no map, or a field that is absent or of the wrong kind.
    """
    if not isinstance(form, dict):
        raise HistoryError(
            f"saw {written(form)}, expected a map like {{:process 0, :type :invoke …}}", line=line
        )
    fields: dict[str, Any] = {"time_ns": position}
    for key, value in form.items():
        name = _FIELDS.get(key.replace("_", "-")) if isinstance(key, str) else None
        if name is not None and value is not None:
            fields[name] = value
    for name in ("process", "type", "f"):
        if name not in fields:
            near = get_close_matches(name, [str(key) for key in form], n=1)
            hint = f"did you mean :{name} by :{near[0]}?" if near else None
            raise HistoryError("is absent", line=line, field=f":{name}", hint=hint)
    fields["index"] = position
    fields["process"] = str(fields["process"])
    if fields["process"] not in RESERVED:
        _as_client(fields, line)
    for name in ("error", "key", "grant_id", "token", "node", "client", "target"):
        if name in fields and type(fields[name]) is not str:
            fields[name] = _text(fields[name])
    plain = {name: v if type(v) in (int, str) else _plain(v) for name, v in fields.items()}
    if plain["type"] in _TYPES and all(type(v) is _SIMPLE.get(n) for n, v in plain.items() if n != "value"):
        return Event(**plain)
    try:
        return msgspec.convert(plain, Event)
    except msgspec.ValidationError as error:
        raise _explained(error, line) from None


def _as_client(fields: dict[str, Any], line: int | None) -> None:
    """A client's value as a scalar, or a pair for a compare-and-set."""
    value = fields.get("value")
    if fields["f"] != "cas":
        if value is not None and type(value) not in (int, str):
            fields["value"] = _text(value)
        return
    if isinstance(value, tuple) and len(value) == 2:
        fields["value"] = [v if v is None or type(v) in (int, str) else _text(v) for v in value]
    elif fields["type"] == "invoke":
        raise HistoryError(f"saw {written(value)}, expected a pair [old new]", line=line, field=":value")
    else:
        fields.pop("value", None)


def _text(value: Any) -> str:
    """A value as the text by which it is compared: a keyword by its name, anything compound as it is
    written.
    """
    return str(value) if isinstance(value, str) else written(value)


def _plain(value: Any) -> Any:
    """Builtin types only: `Keyword` to str, tuples to lists."""
    if isinstance(value, dict):
        return {_text(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def _explained(error: msgspec.ValidationError, line: int | None) -> HistoryError:
    problem, _, path = str(error).partition(" - at `$.")
    name = re.split(r"[`.\[]", path)[0]
    hint = None
    if name == "type":
        hint = "one of :" + ", :".join(_TYPES)
    return HistoryError(problem, line=line, field=_NAMES.get(name, name or None), hint=hint)


def _form(text: str) -> Any:
    """The only form in a text, in builtin types. Raises `ValueError`: there is none, or more."""
    found = [form for _, form in forms(text)]
    if len(found) != 1:
        raise ValueError(f"saw {len(found)} forms, expected one map")
    return _plain(found[0])


def line_of(event: Event, index: int) -> str:
    """One event as a map, stamped with its position; process, type and f first, as Jepsen writes them."""
    process: Any = event.process
    if process in RESERVED:
        process = Keyword(process)
    elif process.isdecimal() and str(int(process)) == process:
        process = int(process)
    fields = msgspec.structs.asdict(event)
    head = {"type": Keyword(event.type), "f": Keyword(event.f), "value": event.value, "process": process}
    head |= {"time": event.time_ns, "index": index}
    rest = {
        name.replace("_", "-"): value
        for name, value in fields.items()
        if value is not None and name not in head and name != "time_ns"
    }
    return _written_map((Keyword(key), value) for key, value in (head | rest).items())


def written(value: Any) -> str:
    """A value as EDN; keys of a dict that are plain strings stay strings."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Keyword):
        return f":{value}"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
        return f'"{escaped}"'
    if isinstance(value, dict):
        return _written_map(value.items())
    if isinstance(value, list | tuple):
        return "[" + " ".join(map(written, value)) + "]"
    return repr(value)


def _written_map(items: Iterable[tuple[Any, Any]]) -> str:
    return "{" + ", ".join(f"{written(key)} {written(value)}" for key, value in items) + "}"
