"""Facts on nodes and acquires: who is asked, how many must agree, how often, and how long it takes."""

from __future__ import annotations

from itertools import pairwise

from checker.words import listed
from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.examine.profile.probes import (
    LONG_TTL_NS,
    NotShown,
    Probes,
    Profile,
    ending,
    first,
    granted,
    lock_key,
    took_ns,
)
from lab.examine.programs import ALICE, BOB, MS_NS, Setting
from lab.examine.violations.evidence import NEVER, Evidence, Operation, Request, milliseconds
from lab.search.runner import TrialRun
from lab.search.trial import Round, Trial


def nodes(probes: Probes, profile: Profile) -> str:
    """Which nodes are asked, in which order, one after the other or at once."""
    seen = probes.alone()
    acquire = first(seen, ALICE, "acquire")
    used = {request.node for request in seen.requests}
    profile.nodes_used = tuple(sorted(used))
    asked = list(dict.fromkeys(name for _, targets in seen.sendings(acquire) for name in targets))
    asked = [name for name in asked if name in used]
    if not asked:
        raise NotShown(f"nothing was sent to a node until the acquire {ending(acquire)}")
    profile.nodes_asked = len(asked)
    of = f"{len(asked)} of {probes.setting.nodes} nodes"
    if len(asked) == 1:
        return f"An acquire asks {of}: {asked[0]}."
    ways = [_way(seen, each) for each in seen.of(ALICE, "acquire")]
    each_time = (
        ", in this order each time" if len(set(map(str, ways))) == 1 else ", in another order each time"
    )
    if is_sequential(seen, acquire):
        return f"An acquire asks {of} one after the other: {', '.join(asked)}{each_time}."
    if ways[0][0] == asked:
        return f"An acquire asks {of} at once: {', '.join(asked)}."
    groups = "; ".join(", ".join(targets) for targets in ways[0])
    return f"An acquire asks {of} in several steps: {groups}."


def is_sequential(seen: Evidence, acquire: Operation) -> bool:
    """Whether an acquire asks one node at a time."""
    way = _way(seen, acquire)
    return len({name for targets in way for name in targets}) > 1 and all(len(each) == 1 for each in way)


def _way(seen: Evidence, acquire: Operation) -> list[list[str]]:
    return [targets for _, targets in seen.sendings(acquire)]


class _TwinRun(TrialRun):
    """A trial whose clients reach the second node under its own name at the first one's host and port."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial, "direct", watch=True)
        first, second = trial.node_names[:2]
        for client in trial.clients:
            twin, link = self._cluster.link(client, first).address, self._cluster.link(client, second)
            link.address = Address(second, twin.host, twin.port)


def _requests_to_twins(setting: Setting) -> int | None:
    """How often an acquire sends its first request, in the same words, to the node that is given for two.

    None if the acquire did not end, or could not be called.

    Raises:
        SimulationError: the lock reached out of the simulation.
    """
    trial = setting.with_clients({ALICE: (Round(0, MS_NS),)}, demand=False)
    try:
        seen = Evidence(_TwinRun(trial).run())
    except UnknownOutcome:
        return None
    acquires = seen.of(ALICE, "acquire")
    if not acquires or acquires[0].how == "open":
        return None
    there = [each.sent.words for each in seen.during(acquires[0]) if each.node == trial.node_names[0]]
    return len([words for words in there if words == there[0]])


def equal_addresses(probes: Probes, profile: Profile) -> str:
    """Whether an address that is given twice counts as two nodes."""
    if not profile.nodes_asked:
        raise NotShown("no acquire asked a node")
    if profile.nodes_asked < 2:
        return "It asks one node."
    asked = _requests_to_twins(probes.setting)
    if asked is None:
        raise NotShown("an acquire on nodes of which two have one address did not end, or failed")
    if asked == 0:
        raise NotShown("the address that was given twice was not asked")
    if asked == 1:
        return "An address that is given twice is asked once."
    return f"An address that is given twice is taken for two nodes: it is asked {asked} times."


def quorum(probes: Probes, profile: Profile) -> str:
    """How many nodes must be reached."""
    used = profile.must_use_nodes()
    if len(used) == 1 or len(used) < probes.setting.nodes:
        return _quorum_of_some(probes, profile)
    counts = [count for count in (len(used), len(used) - 1) if count > 0]
    least_of = {count: _least(probes, used[:count], count) for count in counts}
    needs = listed(f"{each} of {count}" for count, each in least_of.items())
    if all(each == count // 2 + 1 for count, each in least_of.items()):
        return f"An acquire needs {needs} nodes: a majority."
    if all(each == count for count, each in least_of.items()):
        return f"An acquire needs {needs} nodes: all of them."
    if least_of[len(used)] == 0:
        return f"An acquire is granted with no node reached ({needs})."
    if any(each * 2 <= count for count, each in least_of.items()):
        return f"An acquire needs {needs} nodes: less than a majority."
    return f"An acquire needs {needs} nodes."


def _quorum_of_some(probes: Probes, profile: Profile) -> str:
    """The same for a lock that does not use all nodes; it may turn to others when those are silent."""
    turns_to: list[str] = []
    while True:
        used = profile.nodes_used
        cut = probes.cut(used)
        more = {request.node for request in cut.requests if request.sent.client == ALICE} - set(used)
        if not more:
            break
        turns_to += sorted(more)
        profile.nodes_used = (*used, *sorted(more))
    least = _least(probes, used, None)
    if least == 0:
        return "An acquire is granted with no node reached."
    of = f"{least} of the {len(used)} nodes that it uses" if len(used) > 1 else "the one node that it uses"
    others = "" if len(used) == probes.setting.nodes else ", and none of the others"
    turning = f"; it turns to {listed(turns_to)} if the first ones are silent" if turns_to else ""
    return f"An acquire needs {of}{others}{turning}."


def _least(probes: Probes, used: tuple[str, ...], count: int | None) -> int:
    """With how few of the nodes that a lock uses it is granted.

    Raises:
        NotShown: it was not granted at all; or, with silent nodes, it took so long that the lease, and not
            the votes, may have been the reason.
    """
    acquires = [
        first(probes.cut(used[len(used) - cut :], count), ALICE, "acquire") for cut in range(len(used) + 1)
    ]
    granted_without = [cut for cut, acquire in enumerate(acquires) if acquire.how == "ok"]
    if not granted_without:
        raise NotShown(f"no acquire was granted, not even with all of {len(used)} nodes reached")
    silent = max(granted_without) + 1
    least = len(used) - max(granted_without)
    if least > len(used) // 2 + 1:
        took = took_ns(acquires[silent])
        ttl_ns = probes.setting.ttl_ns
        if took is None or took > ttl_ns // 2:
            longer = first(probes.cut(used[len(used) - silent :], count, LONG_TTL_NS), ALICE, "acquire")
            if longer.how == "ok" or took_ns(longer) is None:
                lasts = "does not end" if took is None else f"takes {milliseconds(took)}"
                raise NotShown(
                    f"with {silent} of {len(used)} nodes silent an acquire {lasts}, too long for a lease of "
                    f"{milliseconds(ttl_ns)} whatever the votes are"
                )
    return least


def silence(probes: Probes, profile: Profile) -> str:
    """How long an acquire takes if one node, or all nodes, cannot be reached."""
    used = profile.must_use_nodes()
    none, one, every = (
        first(probes.cut(used[len(used) - count :]), ALICE, "acquire") for count in (0, 1, len(used))
    )
    profile.gives_up_ns = took_ns(every)
    usual_ns, took = took_ns(none), took_ns(one)
    if one.how == "ok" and usual_ns is not None and took is not None:
        profile.waits_ns = max(0, took - usual_ns)
    sentence = f"An acquire {_lasts(none)}"
    if len(used) > 1:
        sentence += f"; with {used[-1]} silent it {_lasts(one)}"
    return f"{sentence}; with {'all nodes' if len(used) > 1 else used[0]} silent it {_gives_up(every)}."


def _lasts(acquire: Operation) -> str:
    took = took_ns(acquire)
    if took is None:
        return "does not end"
    return f"takes {milliseconds(took)}" + ("" if acquire.how == "ok" else f", and {ending(acquire)}")


def _gives_up(acquire: Operation) -> str:
    took = took_ns(acquire)
    if took is None:
        return "does not give up"
    if acquire.how == "ok":
        return f"is granted after {milliseconds(took)}"
    outcome = "" if acquire.how == "fail" else ", with an unknown outcome"
    return f"gives up after {milliseconds(took)}{outcome}"


def taken_by(seen: Evidence) -> tuple[str, ...]:
    """The sort of request by which Alice takes the lock. Raises ``NotShown``."""
    acquire = granted(seen)
    asked = seen.during(acquire)
    writing = [request for request in asked if request.wrote()]
    if not writing:
        raise NotShown("the acquire wrote no text and no hash on any node")
    return writing[0].what


def tries_of(seen: Evidence, acquire: Operation, what: tuple[str, ...]) -> list[Request]:
    """The requests of this sort in an acquire, at the node that had most of them."""
    asked = [request for request in seen.during(acquire) if request.what == what]
    by_node = {
        name: [each for each in asked if each.node == name] for name in sorted({r.node for r in asked})
    }
    return max(by_node.values(), key=len, default=[])


def blocking(probes: Probes, profile: Profile) -> str:
    """What an acquire does while another client holds the lock."""
    seen = probes.held()
    granted(seen)
    theirs = first(seen, BOB, "acquire")
    freed = first(seen, ALICE, "release")
    took = took_ns(theirs)
    if theirs.how == "ok" and theirs.ended_ns < freed.called_ns:
        return "An acquire was granted while another client held the lock."
    if theirs.how == "info":
        raise NotShown(f"an acquire of a held lock {ending(theirs)}")
    if theirs.how == "fail":
        profile.blocking = False
        return f"An acquire of a held lock is refused after {milliseconds(took or 0)}."
    profile.blocking = True
    if took is None:
        return "An acquire of a held lock waits, and did not end when the lock was free."
    sentence = (
        f"An acquire of a held lock waits; it was granted {milliseconds(theirs.ended_ns - freed.called_ns)}"
    )
    return f"{sentence} after the release{_patience(probes)}."


def _patience(probes: Probes) -> str:
    """How long an acquire waits for a lock that is held for long."""
    seen = probes.held_for_long()
    theirs, freed = first(seen, BOB, "acquire"), first(seen, ALICE, "release")
    if theirs.how == "fail":
        return f", and refused after {milliseconds(took_ns(theirs) or 0)} if it is held for longer"
    waited = min(theirs.ended_ns, freed.called_ns) - theirs.called_ns
    return f"; where the lock was held for longer, it waited for {milliseconds(waited)}"


def tries(probes: Probes, profile: Profile) -> str:
    """How often an acquire of a held lock asks, and at which distance."""
    what = taken_by(probes.alone())
    own = _tries(probes.held(), what)
    profile.tries = None if profile.blocking else len(own) or None
    if not own:
        raise NotShown("an acquire of a held lock did not ask as the granted one had asked")
    options = probes.setting.options
    if profile.blocking:
        return f"An acquire of a held lock asks again and again, {_apart(own)} apart."
    if not options:
        return f"An acquire of a held lock asks {_times(own)}."
    by_default = probes.held_by_default()
    if by_default is None:
        return f"An acquire of a held lock asks {_times(own)}, with the options given."
    default = _tries(by_default, what)
    if len(default) == len(own):
        return f"An acquire of a held lock asks {_times(own)}, by default as well."
    given = ", ".join(f"{name}={value}" for name, value in options.items())
    return f"An acquire of a held lock asks {_times(default)}; {_times(own)} with {given}."


def _tries(seen: Evidence, what: tuple[str, ...]) -> list[Request]:
    return tries_of(seen, first(seen, BOB, "acquire"), what)


def _times(asked: list[Request]) -> str:
    if len(asked) == 1:
        return "once"
    return f"{len(asked)} times, {_apart(asked)} apart"


def _apart(asked: list[Request]) -> str:
    gaps = [later.time_ns - earlier.time_ns for earlier, later in pairwise(asked)]
    if len(gaps) > 3:
        return f"{milliseconds(min(gaps))} to {milliseconds(max(gaps))}"
    return listed(milliseconds(gap) for gap in gaps) if gaps else "nothing"


def undoing(probes: Probes, profile: Profile) -> str:
    """What is done after a refused try, and what it does to the key of who holds the lock."""
    what = taken_by(probes.alone())
    seen = probes.held()
    theirs = first(seen, BOB, "acquire")
    if theirs.how == "ok" or theirs.ended_ns == NEVER:
        raise NotShown("no acquire was refused")
    after = [request for request in seen.during(theirs) if request.what != what]
    if not after:
        return "A refused acquire sends nothing afterwards."
    where = {request.node for request in after}
    sentence = (
        f"A refused acquire sends {after[-1].form} to {len(where)} of {probes.setting.nodes} nodes afterwards"
    )
    key = lock_key(seen)
    holders = seen.wrote_at(granted(seen), key)
    hit = sorted(
        {
            request.node
            for request in after
            if key in request.deleted() and holders.get(request.node) == request.before[key][0]
        }
    )
    return f"{sentence}, which deletes the holder's key on {', '.join(hit)}." if hit else f"{sentence}."
