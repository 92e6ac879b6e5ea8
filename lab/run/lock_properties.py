"""The properties of a lock that a run needs before it begins; a driver is started once and asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.drivers import is_driver
from lab.errors import LabError
from lab.locks import capacity_of, check_options, key_pattern, lock_class, margin_ns, option_errors
from lab.locks.base import Options, usual_margin_ns
from lab.locks.capacity import ONE_HOLDER, Capacity
from lab.locks.lease_options import NS_PER_MS

if TYPE_CHECKING:
    from lab.drivers.place import Place


@dataclass(frozen=True, slots=True)
class LockProperties:
    """Properties of a lock.

    ``name`` is its name for clients. ``margin_ns`` is kept below the TTL (the checker's δ).
    ``single_attempt``: an acquire asks each node at most once, so that its lease counts from the call.
    ``capacity``: how many may hold it at once.
    ``node_key`` is the name of the lock of ``{key}`` on the nodes. ``versions`` are those of the libraries
    under test, by name. ``extends``: it can extend a lease. ``key`` is the pattern of its keys.
    """

    name: str
    margin_ns: int
    hands_out_fences: bool
    single_attempt: bool = False
    node_key: str = "{key}"
    versions: Mapping[str, str] = field(default_factory=dict)
    extends: bool = True
    key: str = "{}"
    capacity: Capacity = ONE_HOLDER


def properties_of(name: str, ttl_ns: int, options: Options, place: Place) -> LockProperties:
    """Look up a lock and check its options, before anything else is started.

    ``place`` is where a driver runs.

    Raises:
        LabError: an unknown lock, an unknown option or a bad value; or a driver that is not installed, does
            not start, violates the protocol, or lacks a capability.
    """
    if not is_driver(name):
        own = lock_class(name)
        check_options(name, ttl_ns, options)
        return LockProperties(
            name,
            margin_ns(name, ttl_ns, options),
            own.hands_out_fences,
            node_key=str(getattr(own, "node_keys", "{key}")),
            extends=bool(getattr(own, "extends", True)),
            key=key_pattern(own),
            capacity=capacity_of(name),
        )
    from lab.locks.driver import (  # only a driver needs processes and messages
        answer_within_ns,
        capacity_said,
        passed_on,
    )

    with option_errors():
        answer_within_ns(options)
    words = place.launch(name)
    hello = place.hello(name, passed_on(options))
    if ttl_ns % (hello.ttl_step_ms * NS_PER_MS):
        raise LabError(
            f"a TTL of {ttl_ns / NS_PER_MS:g} ms, for {hello.lib}",
            where="lock.ttl",
            expected=f"a multiple of {hello.ttl_step_ms} ms, the resolution of this library",
        )
    return LockProperties(
        # With a space in it, the name is always taken for a command line.
        shlex.join(words) + " ",
        # What a library claims has its margin; one that claims nothing leaves that to its client.
        margin_ns=0 if hello.can("validity") else usual_margin_ns(ttl_ns),
        hands_out_fences=hello.can("fence"),
        single_attempt=hello.can("single-attempt"),
        node_key=hello.node_key,
        versions={hello.lib: hello.version},
        extends=hello.can("extend"),
        key=hello.key,
        capacity=capacity_said(hello),
    )
