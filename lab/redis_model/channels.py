"""Channels: who listens, and the events of keys that are published on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.redis_model.patterns import matches
from lab.redis_model.reply import Push, RedisError

if TYPE_CHECKING:
    from lab.redis_model.session import Session

_KINDS = "g$lshzxetdnm"
_ALL = "g$lshzxetd"


class Channels:
    """Who listens to which channel or pattern, in the order in which they came."""

    def __init__(self) -> None:
        self.listeners: dict[bytes, dict[Session, None]] = {}
        self.patterns: dict[bytes, dict[Session, None]] = {}
        self.events = ""
        """Which kinds of key events are published: the letters of notify-keyspace-events."""

    def publish(self, channel: bytes, message: bytes) -> int:
        """Send a message; return to how many it goes."""
        count = 0
        for session in self.listeners.get(channel, ()):
            session.send(Push([b"message", channel, message]))
            count += 1
        for pattern, sessions in self.patterns.items():
            if matches(pattern, channel):
                for session in sessions:
                    session.send(Push([b"pmessage", pattern, channel, message]))
                    count += 1
        return count

    def notify(self, kind: str, event: bytes, key: bytes) -> None:
        """Publish what happened to a key, if that kind of event is wanted."""
        if kind not in self.events:
            return
        if "K" in self.events:
            self.publish(b"__keyspace@0__:" + key, event)
        if "E" in self.events:
            self.publish(b"__keyevent@0__:" + event, key)

    def want(self, letters: str) -> None:
        """Set which events are wanted. Raises ``RedisError`` for letters that mean nothing."""
        if any(letter not in _KINDS + "AKE" for letter in letters):
            raise RedisError(
                "ERR CONFIG SET failed (possibly related to argument 'notify-keyspace-events') - "
                "Invalid event class character. Use 'Ag$lshzxeKEtmdn'."
            )
        kinds = [letter for letter in _KINDS if letter in letters or ("A" in letters and letter in _ALL)]
        self.events = "".join(kinds) + "".join(letter for letter in "KE" if letter in letters)

    def wanted(self) -> str:
        """Return the letters as CONFIG GET shows them."""
        kinds = self.events
        if all(letter in kinds for letter in _ALL):
            rest = "".join(letter for letter in kinds if letter not in _ALL and letter not in "KE")
            return "A" + "".join(letter for letter in "KE" if letter in kinds) + rest
        return kinds
