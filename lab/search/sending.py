"""Noticing that a client is about to send commands to nodes, and stopping it there.

What a client sends in one instant is one *sending*: a lock that asks five nodes at once has one, a lock that
asks one after the other has five. A client that is paused at a sending has sent nothing of it, and one that
was killed sends nothing any more; one that is paused at its call still sends what follows in that instant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.search.origin import Origins
from lab.substrates.sim.host import Host
from lab.substrates.sim.network import Arrival, Lane, Pipe


@dataclass
class Sendings:
    """The sendings of one client.

    Args:
        host: the client's machine.
    """

    host: Host
    begins: list[Callable[[], None]] = field(default_factory=list)
    """Called before the first message of each sending."""
    targets: list[list[str]] = field(default_factory=list)
    """To which nodes each sending went, in the order in which they were sent to."""
    times_ns: list[int] = field(default_factory=list)
    """When each of them was, by the world's time."""
    origins: Origins | None = None
    """Where it is noted what is sent, and from where, if that is wanted."""
    _stopped_ns: int = -1
    """When it was paused at a sending, if it was."""
    _kept: list[tuple[Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)

    def watch(self, pipe: Pipe, node: str) -> None:
        """Notice what is sent to a node through this pipe."""
        carry = pipe.carry

        def noticed(lane: Lane, size: int, arrives: Arrival, arguments: tuple[Any, ...]) -> None:
            if getattr(arrives, "__name__", "") == "_hang_up":
                carry(lane, size, arrives, arguments)
                return
            now_ns = self.host.world.now_ns
            if self.origins is not None:
                self._note(node, arrives, arguments)
            if not self.times_ns or self.times_ns[-1] != now_ns:
                self.times_ns.append(now_ns)
                self.targets.append([])
                stood_still = self.host.paused
                for begins in self.begins:
                    begins()
                if self.host.paused and not stood_still:
                    self._stopped_ns = now_ns
            if node not in self.targets[-1]:
                self.targets[-1].append(node)
            if self.host.down:
                return
            if self.host.paused and self._stopped_ns == now_ns:
                self._kept.append((carry, (lane, size, arrives, arguments)))
                return
            carry(lane, size, arrives, arguments)

        pipe.carry = noticed  # type: ignore[method-assign]

    def _note(self, node: str, arrives: Arrival, arguments: tuple[Any, ...]) -> None:
        """Note a request: a connection and a command, or bytes that a connection is told of."""
        assert self.origins is not None
        if len(arguments) > 1:
            self.origins.note(self.host.name, node, *arguments)
        else:
            self.origins.note(self.host.name, node, arrives.__self__, *arguments)  # type: ignore[attr-defined]

    def go_on(self) -> None:
        """The client is no longer paused: what it was about to send leaves now."""
        kept, self._kept = self._kept, []
        for carry, arguments in kept:
            carry(*arguments)
