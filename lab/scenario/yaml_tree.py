"""YAML as a tree of nodes with their positions, read safely and within bounds.

Scalars follow the core schema of YAML 1.2, so that `on`, `no`, `1:30` and `2016-02-08` stay text.
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml.composer import Composer
from yaml.nodes import Node
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from lab.errors import LabError
from lab.scenario.problems import Loc, printable, shown

DEPTH_MAX: Final = 50
"""How deep lists and mappings may be nested."""

NODES_MAX: Final = 20_000
"""How many values a document may hold, aliases counted as often as they are used."""

TAG: Final = "tag:yaml.org,2002:"
"""The prefix of the tags of YAML's own types."""

CORE: Final = {
    "null": (r"~|null|Null|NULL|", "~nN\0"),
    "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    "int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    "float": (
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
}
"""The types of plain scalars: the pattern, and the characters it may begin with (NUL: it is empty)."""


class OneLine(str):
    """The name of a source without lines: an option that sets one key."""

    path: Loc = ()
    """The key that the option sets."""


def add_core_schema(resolver: type[BaseResolver]) -> None:
    """Add the core schema of YAML 1.2 to a PyYAML resolver."""
    for name, (pattern, first) in CORE.items():
        firsts = ["" if char == "\0" else char for char in first]
        resolver.add_implicit_resolver(TAG + name, re.compile(f"(?:{pattern})$"), firsts)


class _Tree(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's reader up to the tree of nodes, bounded; nothing in it can build a Python object."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own way; the parent's must not be shared

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        """The next node; refuses documents that are too deep or too large."""
        self._depth += 1
        self._nodes += 1
        bound = f"{DEPTH_MAX} levels deep" if self._depth > DEPTH_MAX else f"{NODES_MAX} values"
        if self._depth > DEPTH_MAX or self._nodes > NODES_MAX:
            mark = self.get_mark()
            where = _place(self.name, mark.line, mark.column)
            raise LabError(f"this is more than {bound}", where=where, expected="a small document")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


add_core_schema(_Tree)


def compose(text: str, name: str) -> Node | None:
    """The tree of the only document in `text`, or None if there is none.

    `name` says where the text comes from, in every node's `start_mark` and in errors. Raises LabError if
    `text` isn't YAML.
    """
    try:
        tree = _Tree(text)
        tree.name = name
        return tree.get_single_node()
    except ReaderError as error:
        line, column = line_and_column(text, error.position)
        place = _place(name, line, column)
        char = (
            f"U+{ord(error.character):04X}" if isinstance(error.character, str) else f"{error.character:#x}"
        )
        raise LabError(
            f"the character {char} is not allowed in YAML", where=place, expected="printable text"
        ) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(error, text, name) from error
    except (ValueError, OverflowError) as error:
        # PyYAML on "\U00110000", or on a %YAML version of a thousand digits.
        seen = f"this is not valid YAML: {shown(str(error))[1:-1]}"
        raise LabError(seen, where=name, expected="YAML text") from error


def _syntax_error(error: yaml.MarkedYAMLError, text: str, name: str) -> LabError:
    what = printable(": ".join(filter(None, (error.context, error.problem))))
    seen = f"this is not valid YAML: {what or 'a syntax error'}"
    mark = error.problem_mark or error.context_mark
    if mark is None:
        return LabError(seen, where=name, expected="YAML text")
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    if line.strip():
        seen += f"\n{shown(line.strip())[1:-1]}"
    hint = None
    if error.context_mark is not None and error.context_mark.line < mark.line:
        began = error.context_mark
        hint = f"what is parsed there began at {_place(name, began.line, began.column)}"
    elif "\t" in line:
        hint = "indent with spaces, not with tabs"
    elif "mapping values" in what:
        hint = "a text with a colon in it needs quotes"
    return LabError(seen, where=_place(name, mark.line, mark.column), expected="YAML text", hint=hint)


def position(node: Node) -> str:
    """Where `node` begins, as "file:line:column"."""
    mark = node.start_mark
    return _place(mark.name, mark.line, mark.column)


def line_and_column(text: str, index: int) -> tuple[int, int]:
    """The line and the column, both from 0, of the character at `index`."""
    before = text[:index]
    return before.count("\n"), index - (before.rfind("\n") + 1)


def _place(name: str, line: int, column: int) -> str:
    return name if isinstance(name, OneLine) else f"{name}:{line + 1}:{column + 1}"
