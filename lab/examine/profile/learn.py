"""What a lock is, learned by asking it: watched trials without faults, and with simple ones."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Final

from lab.drivers import PREFIX, is_driver
from lab.drivers.shapes import is_of_permits, shape_of
from lab.errors import LabError, UnknownOutcome
from lab.examine.kinds import Kind
from lab.examine.profile import about_leases as leases
from lab.examine.profile import about_nodes as nodes
from lab.examine.profile import about_releases as releases
from lab.examine.profile.probes import NOT_SHOWN, Ask, NotShown, Probes, Profile, first
from lab.examine.programs import ALICE, BOB, Setting
from lab.examine.result import USED_AS
from lab.examine.violations.evidence import Evidence
from lab.faults.jump import Jump
from lab.locks import lock_class
from lab.locks.base import BaseLock
from lab.scenario.triggers import on
from lab.search.faults import timed_fault
from lab.search.trial import KEY, Round

FACTS: Final[tuple[tuple[str, Ask], ...]] = (
    ("nodes", nodes.nodes),
    ("equal addresses", nodes.equal_addresses),
    ("quorum", nodes.quorum),
    ("silent nodes", nodes.silence),
    ("acquire", leases.taking),
    ("held lock", nodes.blocking),
    ("tries", nodes.tries),
    ("after a refusal", nodes.undoing),
    ("token", leases.tokens),
    ("expiry", leases.expiry),
    ("other leases", leases.granularity),
    ("validity", leases.validity),
    ("after the lease", leases.belief),
    ("extension", leases.extension),
    ("extended lease", leases.extended_validity),
    ("extensions", leases.extension_limit),
    ("extension quorum", leases.extension_quorum),
    ("late extension", leases.late_extension),
    ("watchdog", leases.watchdog),
    ("release", releases.release),
    ("late release", releases.late_release),
    ("fences", releases.fences),
    ("scripts", releases.scripts),
    ("clock", leases.clocks),
    ("errors", releases.errors),
)
"""What is asked, in this order: some answers build on earlier ones, the last two on all trials."""


ASKED_AGAIN: Final = 12
"""How often a client asks for a lock whose holder is gone, four times in each lease."""
KEY_NAMES: Final = (KEY, *(f"order-{number}" for number in range(1, 6)))
"""Keys by which a lock that spreads its keys over the nodes is seen to do so."""


OF_DRIVERS: Final = frozenset(("cancel", "tasks", "one-object"))
"""What a driver may say that it can do, and schedules make use of."""
CANNOT: Final = {
    "cancel": "cancelled attempts: this driver has no `cancel`",
    "tasks": "two tasks of one client at once: this driver does not say that it can",
    "close": "a lock object that is closed and opened again: a driver forgets its leases then",
}
"""What is not tried, by what a client cannot do."""


def learn(setting: Setting, check: Callable[[], None] = lambda: None) -> Profile:
    """Ask the lock of this setting what it is; only inside ``trials``, and the same each time.

    What a probe did not show is no fact but "not shown", with the reason, which ``not_tried`` repeats.
    ``check`` is called before each trial, and may raise ``OutOfTime``.

    Raises:
        LabError: no such lock, or options that it does not have; or it uses what simulated nodes lack.
        UnknownOutcome: a driver that does not work, whatever it is asked.
        SimulationError: the lock reached out of the simulation.
    """
    probes = Probes(setting, check)
    _must_work(probes)
    with contextlib.suppress(NotShown):
        said = probes.alone().outcome
        capacity = said.capacity or setting.capacity
        probes.setting = dataclasses.replace(
            probes.setting, ttl_step_ns=said.ttl_step_ns, capacity=capacity
        ).with_ttl(setting.ttl_ns)
    profile = Profile(_kind(probes), ttl_step_ns=probes.setting.ttl_step_ns, can=_abilities(probes))
    profile.not_tried += [words for what, words in CANNOT.items() if what not in profile.can]
    if (option := _option_of_permits(setting)) is not None:
        profile.not_tried.append(
            f"more than one holder: it has an option {option}; if that is how many clients may hold it at "
            "once, `permits` in its class says so"
        )
    if (shape := shape_of(setting.lock)) is not None:
        profile.facts[USED_AS] = shape.words()
    of_readers = [("readers", leases.sharing)] if profile.kind.capacity.read_write else []
    for about, ask in (*FACTS, *of_readers):
        try:
            profile.facts[about] = ask(probes, profile)
        except NotShown as why:
            profile.facts[about] = f"{NOT_SHOWN}: {why}"
            profile.not_tried.append(f"{about}: {why}")
    with contextlib.suppress(NotShown):
        profile.uses = _used_for_a_key(probes)
    profile.trials = probes.trials + len(probes.broken)
    return profile


def _option_of_permits(setting: Setting) -> str | None:
    """An option of a class that may be how many clients hold the lock at once, where nothing is said of that.

    Of an ordinary lock that is asked before.
    """
    own = lock_class(setting.lock)
    says_so = any("permits" in vars(each) for each in own.__mro__ if each is not BaseLock)
    if says_so or is_driver(setting.lock):
        return None
    options = getattr(own, "OPTIONS", None)
    names = list(options) if isinstance(options, dict) else []
    return next((each for each in names if is_of_permits(each)), None)


def _abilities(probes: Probes) -> frozenset[str]:
    """What a client can do; a driver says it when it is asked for its library."""
    if not is_driver(probes.setting.lock):
        return probes.setting.can
    with contextlib.suppress(NotShown):
        return frozenset(probes.alone().outcome.abilities) & OF_DRIVERS
    return frozenset()


def _used_for_a_key(probes: Probes) -> int:
    """How many nodes the lock uses for a key, if it uses others for other keys; else 0.

    A lock that always leaves out the same nodes is another thing: it forgoes them.
    """
    if probes.setting.nodes == 1:
        return 0
    asked = [probes.asked_for(name) for name in KEY_NAMES]
    counts = {len(nodes) for nodes in asked}
    return counts.pop() if len(set(asked)) > 1 and len(counts) == 1 else 0


def _must_work(probes: Probes) -> None:
    """A lock that fails whenever it is asked, though it is free, would be asked in vain for all that follows.

    A driver that says nothing is one; a lock in Python that only says nothing is asked on: it hangs.
    """
    lock = probes.setting.lock
    asked = None
    with contextlib.suppress(NotShown):
        asked = probes.alone().of(ALICE, "acquire")
    if asked is None and probes.broken:
        raise probes.broken[0]
    if asked is None or any(each.how in ("ok", "fail") for each in asked):
        return
    expected = "an acquire that is granted or refused, on nodes that nothing is wrong with"
    if is_driver(lock):
        said = [each.error for each in probes.failures]
        said = said or [str(each.event.get("error", "")) for each in asked]
        why = said[0] if said else "it ends, or says nothing, before it is asked for a lock"
        hint = None if lock.startswith(PREFIX) else f"what does it say by itself? {lock} < /dev/null"
        raise UnknownOutcome(f"the driver does not work: {why}", where=lock, expected=expected, hint=hint)
    failed = next((each for each in probes.failures if each.f == "acquire"), None)
    if failed is not None:
        raise UnknownOutcome(f"the lock does not work: {failed.error}", where=failed.where, expected=expected)


def _kind(probes: Probes) -> Kind:
    """Its kind, by how many nodes it used, what its grant came with, and what its class says of itself.

    Raises ``LabError``: a semaphore, or a read-write lock, that asks several nodes.
    """
    capacity = probes.setting.capacity
    own = lock_class(probes.setting.lock)
    fenced, announces = False, bool(getattr(own, "announces_token", False))
    try:
        seen = probes.alone()
        used = {request.node for request in seen.requests}
        granted = first(seen, ALICE, "acquire")
        states = granted.how != "ok" or granted.event.get("claimed_ns") is not None
        fenced = granted.event.get("fence") is not None
        sequential = nodes.is_sequential(seen, granted)
    except NotShown:
        return Kind(False, fenced, announces, capacity=capacity)
    if not capacity.of_one and len(used) > 1:
        raise LabError(
            f"{capacity.words} that asks {len(used)} nodes",
            where=probes.setting.lock,
            expected=f"{'a read-write lock' if capacity.read_write else 'a semaphore'} on one node",
            hint="there is no reference for a read-write lock on several nodes"
            if capacity.read_write
            else "each node has room for all permits, so clients that have a majority each may be more: no "
            "semaphore of this kind keeps its promise, and none is a reference",
        )
    observed = len(used) == 1 and capacity.of_one and _is_observed(next(iter(used)), probes, seen)
    shape = shape_of(probes.setting.lock)
    tells = shape is None or bool(shape.owned) or not shape.renews
    return Kind(
        len(used) > 1,
        fenced,
        announces,
        sequential,
        observed,
        states,
        capacity=capacity,
        tells_loss=tells,
    )


def _is_observed(node: str, probes: Probes, seen: Evidence) -> bool:
    """Whether the key of a grant never expires, and is replaced all the same when its holder is gone.

    Not if the node's clock decides when: a jump of that ends the lease, as that of a key that expires.
    """
    grant = first(seen, ALICE, "acquire")
    kept = [
        left_ms
        for node in seen.outcome.trial.node_names
        for _, left_ms in seen.locks_at(node, grant.ended_ns).values()
    ]
    if not kept or any(left_ms is not None for left_ms in kept):
        return False
    ttl_ns = probes.setting.ttl_ns
    asks = tuple(Round(ttl_ns // 4, 0) for _ in range(ASKED_AGAIN))
    with contextlib.suppress(NotShown):
        gone = probes.see({ALICE: (Round(0, 0, ends="keep"),), BOB: asks}, longer=2)
        if any(each.how == "ok" for each in gone.of(BOB, "acquire")):
            return not _ends_by_clock_of(node, probes)
    return False


def _ends_by_clock_of(node: str, probes: Probes) -> bool:
    """Whether another client is granted a held lock, and soon, after the node's clock has jumped."""
    ttl_ns = probes.setting.ttl_ns
    jump = timed_fault(Jump, on(ALICE, "granted"), nodes=(node,), by_ns=2 * ttl_ns)
    with contextlib.suppress(NotShown):
        jumped = probes.see({ALICE: (Round(0, 0, ends="keep"),), BOB: (Round(ttl_ns // 4, 0),)}, (jump,))
        return any(
            each.how == "ok" and each.ended_ns - each.called_ns < ttl_ns // 2
            for each in jumped.of(BOB, "acquire")
        )
    return False
