"""From the location in a pydantic error to a place in the file and the path of a key."""

from __future__ import annotations

from dataclasses import dataclass

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from lab.scenario.problems import Loc, key_path
from lab.scenario.yaml_tree import OneLine, position


@dataclass(frozen=True)
class Place:
    """A place in a source."""

    value: Node
    """The value there."""
    key: Node | None
    """The key before it; None in a list and at the top."""
    path: str
    """The path of the key, like "steps[2].cut.nodes"; empty at the top."""

    def where(self, *, at_key: bool = False) -> str:
        """The place as "file:line:column, key `path`"; `at_key` points to the key instead of its value."""
        node = self.key if at_key and self.key is not None else self.value
        here = position(node)
        source = node.start_mark.name
        if isinstance(source, OneLine) and self.path == key_path(source.path):
            return here  # the option names the key already
        return f"{here}, key `{self.path}`" if self.path else here


def locate(root: Node, loc: Loc) -> Place:
    """The place in the tree that a pydantic location means.

    Parts that the tree doesn't have are skipped: tags of unions, names of fields that only the model has, and
    missing keys, for which the place is the mapping in which they are missing.
    """
    place = Place(root, None, "")
    walked: Loc = ()
    for part in loc:
        step = _child(place.value, part)
        if step is not None:
            key, value, part = step
            walked = (*walked, part)
            place = Place(value, key, key_path(walked))
    return place


def _child(node: Node, part: str | int) -> tuple[Node | None, Node, str | int] | None:
    """The key, the value and the name of one child of `node`, if it has it."""
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.value == part:
                return key, value, part
    elif isinstance(node, SequenceNode):
        if isinstance(part, int):
            return (None, node.value[part], part) if part < len(node.value) else None
        # A list of names that the model keeps as a mapping: the name stands for its place.
        for at, item in enumerate(node.value):
            if isinstance(item, ScalarNode) and item.value == part:
                return None, item, at
    return None
