"""What is known of a lock before a run begins; a driver is started once, to be asked."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.drivers import is_driver
from lab.errors import LabError
from lab.locks import lock_class, margin_ns, told_where
from lab.locks.base import Options
from lab.locks.lease_options import NS_PER_MS

if TYPE_CHECKING:
    from lab.drivers.place import Place


@dataclass(frozen=True, slots=True)
class LockProperties:
    """What a run must know of its lock.

    ``name`` is what clients know it by. ``margin_ns`` is kept below the TTL (the checker's δ).
    ``single_attempt``: an acquire asks each node at most once, so that its lease counts from the call.
    ``node_key`` is the name under which the lock of ``{key}`` lies on the nodes. ``versions`` is what is
    under test, by name. ``extends``: it can extend a lease.
    """

    name: str
    margin_ns: int
    hands_out_fences: bool
    single_attempt: bool = False
    node_key: str = "{key}"
    versions: Mapping[str, str] = field(default_factory=dict)
    extends: bool = True


def properties_of(name: str, ttl_ns: int, options: Options, place: Place) -> LockProperties:
    """Look a lock up and check its options, before anything else is started.

    ``place`` is where a driver would run: it is asked there.

    Raises:
        LabError: an unknown lock, an unknown option or a bad value; or a driver that is not installed, does
            not start, does not keep to the protocol, or cannot do what is asked of it.
    """
    if not is_driver(name):
        own = lock_class(name)
        margin = margin_ns(name, ttl_ns, options)
        return LockProperties(name, margin, own.hands_out_fences, extends=bool(getattr(own, "extends", True)))
    from lab.locks.driver import answer_within_ns, passed_on  # only a driver needs processes and messages

    with told_where():
        answer_within_ns(options)
    words = place.launch(name)
    hello = place.hello(name, passed_on(options))
    if ttl_ns % (hello.ttl_step_ms * NS_PER_MS):
        raise LabError(
            f"a TTL of {ttl_ns / NS_PER_MS:g} ms, for {hello.lib}",
            where="lock.ttl",
            expected=f"a multiple of {hello.ttl_step_ms} ms: that is how this library counts",
        )
    return LockProperties(
        # A space makes it a command line, whatever it is called.
        shlex.join(words) + " ",
        margin_ns=0,
        hands_out_fences=hello.can("fence"),
        single_attempt=hello.can("single-attempt"),
        node_key=hello.node_key,
        versions={hello.lib: hello.version},
        extends=hello.can("extend"),
    )
