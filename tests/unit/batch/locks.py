"""A lock with few options."""

from __future__ import annotations

from typing import ClassVar

from lab.locks.base import OptionError, Options
from lab.locks.redlock import Redlock


class Strict(Redlock):
    """A Redlock that takes no option but its time-out."""

    name: ClassVar[str] = "strict"

    @classmethod
    def margin_ns(cls, ttl_ns: int, options: Options) -> int:
        """Refuse all others."""
        for option in options:
            if option != "node_timeout":
                raise OptionError(option, "an unknown option", "node_timeout", ["node_timeout"])
        return super().margin_ns(ttl_ns, options)
