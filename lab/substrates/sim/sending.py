"""Noticing that a client is about to send commands to nodes, and stopping it there.

What a client sends in one instant is one *sending*: a lock that asks five nodes at once has one, a lock that
asks one after the other has five. A client that is paused at a sending has sent nothing of it, and one that
was killed sends nothing any more; one that is paused at its call still sends what follows in that instant.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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
    """Called before the first message of each sending, which one of them may ``hold``."""
    targets: list[list[str]] = field(default_factory=list)
    """To which nodes each sending went, in the order in which they were sent to."""
    times_ns: list[int] = field(default_factory=list)
    """When each of them was, by the world's time."""
    on_request: Callable[[str, Arrival, tuple[Any, ...]], None] | None = None
    """Told of each message and its node before it is sent, if that is wanted."""
    _held: bool = False
    """Whether nothing leaves until ``go_on``."""
    _kept: list[tuple[Callable[..., None], tuple[Any, ...]]] = field(default_factory=list)

    def watch(self, pipe: Pipe, node: str) -> None:
        """Notice what is sent to a node through this pipe."""
        carry = pipe.carry

        def noticed(lane: Lane, size: int, arrives: Arrival, arguments: tuple[Any, ...]) -> None:
            if getattr(arrives, "__name__", "") == "_hang_up":
                carry(lane, size, arrives, arguments)
                return
            now_ns = self.host.world.now_ns
            if self.on_request is not None:
                self.on_request(node, arrives, arguments)
            if not self.times_ns or self.times_ns[-1] != now_ns:
                self.times_ns.append(now_ns)
                self.targets.append([])
                for begins in self.begins:
                    begins()
            if node not in self.targets[-1]:
                self.targets[-1].append(node)
            if self.host.down:
                return
            if self._held:
                self._kept.append((carry, (lane, size, arrives, arguments)))
                return
            carry(lane, size, arrives, arguments)

        pipe.carry = noticed  # type: ignore[method-assign]

    def hold(self) -> None:
        """Let nothing of this sending leave until ``go_on``."""
        self._held = True

    def go_on(self) -> None:
        """What was held leaves now; if the client was paused meanwhile, when it goes on, or never."""
        if self.host.paused and not self.host.down:
            return
        self._held = False
        kept, self._kept = self._kept, []
        for carry, arguments in kept if not self.host.down else ():
            carry(*arguments)
