"""The error for a command that nodes never executed: what they executed instead, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

LOADING: Final = frozenset(
    {"EVAL", "EVALSHA", "SCRIPT", "FCALL", "FUNCTION", "HELLO", "AUTH", "SELECT", "COMMAND"}
)
"""Commands with which a library opens a connection, or loads its scripts."""
SHOWN_MAX: Final = 6
"""How many different commands are shown of each node."""
WARM_UP: Final = (
    "let the client work once before the first fault (- do: alice works), so that its connections and "
    "scripts are there"
)


class Executed(NamedTuple):
    """The commands that a node executed: on the lock's key; others, with their first argument."""

    on_key: Counter[str]
    others: Counter[str]


def executed_instead(wanted: str, key: str, executed: Mapping[str, Executed]) -> str:
    """What these nodes executed, and what to do.

    Args:
        wanted: the awaited command.
        key: the lock's key on the nodes.
        executed: what each of the nodes executed meanwhile.
    """
    lacking = {node: one for node, one in executed.items() if not one.on_key[wanted]} or dict(executed)
    seen = "; ".join(f"node {node} executed {_what(one, key)}" for node, one in lacking.items())
    return f"{seen}. {_advice(wanted, key, list(lacking.values()))}"


def _what(one: Executed, key: str) -> str:
    parts = [f"{_listed(one.on_key)} on {key!r}"] if one.on_key else []
    parts += [_listed(one.others)] if one.others else []
    return " and ".join(parts) or "no command of a client"


def _listed(counted: Counter[str]) -> str:
    shown = [
        name if often == 1 else f"{name} ({often} times)" for name, often in counted.most_common(SHOWN_MAX)
    ]
    rest = len(counted) - len(shown)
    return ", ".join(shown) + (f" and {rest} others" if rest else "")


def _advice(wanted: str, key: str, lacking: list[Executed]) -> str:
    on_key = set().union(*(one.on_key for one in lacking))
    others = set().union(*(one.others for one in lacking))
    elsewhere = sorted(name for name in others if name.startswith(f"{wanted} "))
    if wanted in on_key:
        return f"{wanted} was executed, but not so often: does the lock try again that often?"
    if on_key - LOADING:
        return (
            f"This lock does not use {wanted} here, so a scenario that waits for it cannot be run with it: "
            "wait for something else, or choose another scenario"
        )
    if elsewhere:
        return f"The lock's key is not {key!r} there: a driver states its name with node_key"
    if on_key or others:
        return f"The library connects, or loads its scripts, only now: {WARM_UP}"
    return f"Nothing was sent there; the library may connect only now: {WARM_UP}"
