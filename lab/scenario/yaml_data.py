"""From a tree of YAML nodes to plain data, bounded in size, without tags or duplicate keys."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lab.errors import LabError
from lab.scenario.problems import key_path, shown
from lab.scenario.yaml_tree import CORE, NODES_MAX, TAG, position

_NUMBER_LENGTH_MAX: Final = 60


def plain(root: Node) -> Any:
    """The data in the tree: dictionaries with text as keys, lists, text, numbers, booleans and None.

    Raises LabError for a key that is given twice or is no text, a tag that isn't one of the core schema's, a
    number that is none, and aliases that contain themselves or multiply beyond `NODES_MAX` values.
    """
    return _Builder().build(root)


class _Builder:
    """Walks the tree; knows the path of the node it is at."""

    def __init__(self) -> None:
        self._path: list[str | int] = []
        self._open: set[int] = set()
        self._visited = 0

    def build(self, node: Node) -> Any:
        """The data of `node`."""
        self._visited += 1
        if self._visited > NODES_MAX:
            raise self._error(node, f"aliases make this more than {NODES_MAX} values", "a small document")
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            raise self._error(node, "an alias contains itself", "no cycle")
        self._open.add(id(node))
        built = self._mapping(node) if isinstance(node, MappingNode) else self._sequence(node)
        self._open.remove(id(node))
        return built

    def _child(self, node: Node, name: str | int) -> Any:
        self._path.append(name)
        built = self.build(node)
        self._path.pop()
        return built

    def _sequence(self, node: Node) -> list[Any]:
        if not isinstance(node, SequenceNode) or node.tag != f"{TAG}seq":
            raise self._bad_tag(node)
        return [self._child(child, at) for at, child in enumerate(node.value)]

    def _mapping(self, node: MappingNode) -> dict[str, Any]:
        if node.tag != f"{TAG}map":
            raise self._bad_tag(node)
        built: dict[str, Any] = {}
        first: dict[str, Node] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                raise self._error(key_node, "a list or a mapping is used as a key", "a name")
            self._scalar(key_node)  # refuses tags; the key is what stands there, also for `1` and `true`
            key: str = key_node.value
            if key in built:
                hint = f"it is given first at {position(first[key])}; remove one of them"
                self._path.append(key)
                raise self._error(
                    key_node, f"the key {shown(key)} is given twice", "each key once in a mapping", hint
                )
            first[key] = key_node
            built[key] = self._child(value_node, key)
        return built

    def _scalar(self, node: ScalarNode) -> str | int | float | bool | None:
        text: str = node.value
        match node.tag.removeprefix(TAG):
            case "str":
                return text
            case "null":
                return None
            case "bool" | "int" | "float" as name:
                if re.fullmatch(CORE[name][0], text) and len(text) <= _NUMBER_LENGTH_MAX:
                    return _READERS[name](text)
                what = f"a {name} of at most {_NUMBER_LENGTH_MAX} characters"
                raise self._error(node, f"{shown(text)} can't be read as {name}", what)
        raise self._bad_tag(node)

    def _bad_tag(self, node: Node) -> LabError:
        tag = shown(node.tag.removeprefix(TAG))
        expected = "plain text, numbers, lists and mappings"
        return self._error(node, f"the tag {tag} is not allowed", expected, "remove the tag")

    def _error(self, node: Node, seen: str, expected: str, hint: str | None = None) -> LabError:
        path = key_path(tuple(self._path))
        where = f"{position(node)}, key `{path}`" if path else position(node)
        return LabError(seen, where=where, expected=expected, hint=hint)


def _bool(text: str) -> bool:
    return text.lower() == "true"


def _int(text: str) -> int:
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _float(text: str) -> float:
    folded = text.lower()
    if folded.endswith(".inf"):
        return -math.inf if folded.startswith("-") else math.inf
    return math.nan if folded == ".nan" else float(text)


_READERS: Final = {"bool": _bool, "int": _int, "float": _float}
