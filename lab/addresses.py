"""Where something listens: a node, the store, or a proxy before one of them."""

from __future__ import annotations

import msgspec

SENTINEL_SERVICE = "mymaster"
"""The name under which Sentinels watch the master, and by which clients ask them for it."""


class Address(msgspec.Struct, frozen=True):
    """A name for messages, and the host and TCP port it is reached at."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port``; the text itself becomes the name.

        Raises:
            ValueError: the text has no port, or one that is no number.
        """
        host, colon, port = text.rpartition(":")
        if not (colon and host and port.isdigit()):
            raise ValueError(f"an address is host:port, not {text!r}")
        return cls(text, host.strip("[]"), int(port))
