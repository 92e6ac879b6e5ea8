"""`--set key.path=value`: overrides from the command line, put into the tree before it is validated.

An override becomes a node like those of the file, with the option as its source; whatever is wrong with it is
then found, and explained, as if it stood in the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from yaml.error import Mark
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lab.errors import LabError
from lab.scenario.problems import Loc, choice, key_path, nearest, shown
from lab.scenario.yaml_tree import TAG, OneLine, compose

_FORM = "key.path=value, like lock.ttl=2s or steps[3].jump.by=+5s"
_PART = re.compile(r"(?:^|\.)([^.\[\]=]+)|\[([0-9]{1,6})\]")


def apply(root: Node, overrides: Iterable[str]) -> Node:
    """The tree with the `overrides` put into it, one after the other; `root` is left as it is.

    Raises LabError for an override that isn't `key.path=value`, whose value isn't YAML, or whose path leads
    to a place that can't be. A key that isn't known is left to the model.
    """
    for override in overrides:
        root = _Override(override).put(root)
    return root


class _Override:
    """One override: its path, its value, and its text for errors."""

    def __init__(self, override: str) -> None:
        path, equals, text = override.partition("=")
        self.where = f"--set {shown(override)[1:-1]}"
        if not equals:
            raise LabError(f"{shown(override)} has no value", where=self.where, expected=_FORM)
        self.parts = self._parse(path.strip())
        self.source = OneLine(self.where)
        self.source.path = self.parts
        self.mark = Mark(self.source, 0, 0, 0, None, 0)
        value = compose(text, self.source)
        self.value = value if value is not None else self._scalar("", "null")

    def _parse(self, path: str) -> Loc:
        matches = list(_PART.finditer(path))
        if not matches or "".join(match[0] for match in matches) != path:
            raise LabError(f"{shown(path)} is not the path of a key", where=self.where, expected=_FORM)
        return tuple(_index(match[1]) if match[1] is not None else int(match[2]) for match in matches)

    def put(self, root: Node) -> Node:
        """The tree with this override in it."""
        return self._put(root, 0)

    def _put(self, node: Node, depth: int) -> Node:
        """A copy of `node`, whose path is the first `depth` parts, with the value put into it."""
        if depth == len(self.parts):
            return self.value
        part = self.parts[depth]
        if isinstance(node, ScalarNode) and node.tag == f"{TAG}null":
            node = self._mapping([])  # `lock:` with nothing behind it
        if isinstance(node, SequenceNode) and self.parts[:depth] == ("clients",) and isinstance(part, str):
            node = self._mapping([(name, self._mapping([])) for name in node.value])
        if isinstance(node, MappingNode):
            return self._put_in_mapping(node, str(part), depth)
        if isinstance(node, SequenceNode):
            return self._put_in_list(node, part, depth)
        path = key_path(self.parts[:depth]) or "the scenario"
        raise LabError(f"{path} is one value and has no key {shown(part)}", where=self.where, expected=_FORM)

    def _put_in_mapping(self, node: MappingNode, name: str, depth: int) -> Node:
        pairs = list(node.value)
        names = [key.value if isinstance(key, ScalarNode) else None for key, _ in pairs]
        if name in names:
            at = names.index(name)
            last = depth + 1 == len(self.parts)
            pairs[at] = (
                self._scalar(name, "str") if last else pairs[at][0],
                self._put(pairs[at][1], depth + 1),
            )
        else:
            if depth == 2 and self.parts[0] == "steps" and pairs:
                raise self._other_step(names, name)
            pairs.append((self._scalar(name, "str"), self._put(self._mapping([]), depth + 1)))
        return MappingNode(node.tag, pairs, node.start_mark, node.end_mark, node.flow_style)

    def _put_in_list(self, node: SequenceNode, part: str | int, depth: int) -> Node:
        path = key_path(self.parts[:depth])
        if not isinstance(part, int) or part >= len(node.value):
            last = len(node.value) - 1
            seen = f"{path} is a list and has no item {shown(part)}"
            expected = f"a number from 0 to {last}" if last >= 0 else "a list with something in it"
            raise LabError(seen, where=self.where, expected=expected)
        items = list(node.value)
        items[part] = self._put(items[part], depth + 1)
        return SequenceNode(node.tag, items, node.start_mark, node.end_mark, node.flow_style)

    def _other_step(self, names: list[str | None], name: str) -> LabError:
        """The error for a second key in a step: it is of another kind, or the word is misspelt."""
        path = key_path(self.parts[:2])
        seen = f"{path} is a step {shown(names[0])}, not {shown(name)}"
        near = nearest(name, filter(None, names))
        hint = near or f"to replace the step: --set '{path}={{{name}: …}}'"
        return LabError(
            seen, where=self.where, expected=f"the key {choice([str(word) for word in names])}", hint=hint
        )

    def _scalar(self, text: str, kind: str) -> ScalarNode:
        return ScalarNode(f"{TAG}{kind}", text, self.mark, self.mark)

    def _mapping(self, pairs: list[tuple[Node, Node]]) -> MappingNode:
        return MappingNode(f"{TAG}map", pairs, self.mark, self.mark)


def _index(word: str) -> str | int:
    return int(word) if re.fullmatch(r"[0-9]{1,6}", word) else word
