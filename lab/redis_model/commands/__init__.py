"""The commands, by what they are for; importing this fills the table in ``registry``."""

from __future__ import annotations

from lab.redis_model.commands import (
    administration,
    bitmaps,
    collections,
    connection,
    expiry,
    keys,
    lists,
    publishing,
    replicas,
    scripting,
    sets,
    sorted_sets,
    streams,
    strings,
    transactions,
)

__all__ = [
    "administration",
    "bitmaps",
    "collections",
    "connection",
    "expiry",
    "keys",
    "lists",
    "publishing",
    "replicas",
    "scripting",
    "sets",
    "sorted_sets",
    "streams",
    "strings",
    "transactions",
]
