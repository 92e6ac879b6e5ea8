"""What the lock used and its nodes do not have: then the run says nothing about the lock.

A simulated node tells by itself; such a run ends at once. Of real servers this is seen in two ways: a command
with an option that only a later version knows shows in what was observed of the lock's key, and the error for
an unknown command names it. The table of known commands decides, and not the words of an error: a command
that no server has is the lock's own mistake. An unknown command whose error the lock hides is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from checker.history.history import History
from lab.redis_model.known import Use, options_used, use_of
from lab.servers import Server

NOT_SIMULATED: Final = "not simulated"
"""The value of the event with which such a run ends."""
_UNKNOWN = re.compile(r"unknown command [`']([A-Za-z][A-Za-z0-9._-]*)[`']")


def lacking(history: History, server: Server | None) -> Iterator[str]:
    """Yield each thing that the lock used and the nodes lack, as a sentence; ``server`` is what they are."""
    for record in history.lab:
        if record.f == "abort" and record.value == NOT_SIMULATED:
            yield record.error or NOT_SIMULATED
    if server is None:
        return
    found: dict[str, None] = {}
    for use in _used(history):
        if use.since and not use.is_in(server) and not use.opens:
            found[f"the lock uses {use.name}, which needs {use.needs}; the nodes are {server.words}"] = None
    yield from found


def _used(history: History) -> Iterator[Use]:
    """What certainly was not executed as it was meant, if the server lacks it."""
    aborted = (record.error or "" for record in history.lab if record.f == "abort")
    for error in (*history.ops.names.error, *aborted):  # a lock may have failed while it was warmed up
        for name in _UNKNOWN.findall(error):
            use = use_of([name.encode()])
            if use is not None:
                yield use
    for event in history.nodes:
        value = event.value
        commands = value.get("commands", ()) if isinstance(value, dict) else ()
        for command in commands:
            for _, use in options_used(command["command"].encode().split()):
                yield use
