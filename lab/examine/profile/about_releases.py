"""Facts on releases, fencing tokens, scripts, and errors of the lock's own."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from checker.words import listed
from lab.examine.profile.probes import NotShown, Probes, Profile, ending, first, granted, lock_key
from lab.examine.programs import ALICE, BOB
from lab.examine.violations.evidence import NEVER, SCRIPTS, Evidence, Request
from lab.locks import lock_class

READS: Final = ("GET", "HGET", "HEXISTS", "GETDEL", "HMGET")
COUNTS: Final = ("INCR", "INCRBY", "HINCRBY", "INCRBYFLOAT")


def release(probes: Probes, profile: Profile) -> str:
    """By which requests a lease is released, on which nodes, and whether they look at the value."""
    seen = probes.alone()
    granted(seen)
    given_back = first(seen, ALICE, "release")
    key, asked = lock_key(seen), seen.during(given_back)
    until_ns = seen.next_call_ns(given_back)
    names = sorted(
        {node for each in seen.during(granted(seen)) for node in [each.node] if key in each.wrote()}
    )
    freed = {each.node for each in asked if key in each.deleted()}
    kept = [name for name in names if key in seen.state_at(name, until_ns - 1) and name not in freed]
    if not asked:
        return f"A release sends nothing, and {ending(given_back)}; keys are kept on {', '.join(kept)}."
    sent = listed(dict.fromkeys(each.form for each in asked))
    compares = _compares(asked, key)
    how = "after a look at the value" if compares else "without a look at the value"
    if compares and not any(each.sent.name in SCRIPTS for each in asked if key in each.deleted()):
        how = "after a look at the value in an earlier request,"
    if not freed:
        return f"A release sends {sent}, which deletes no key, and {ending(given_back)}."
    sentence = f"A release sends {sent}: it deletes the key {how} on {len(freed)} of {len(names)} nodes"
    return f"{sentence}, and not on {', '.join(kept)}." if kept else f"{sentence}."


def _compares(asked: list[Request], key: str) -> bool:
    """Whether the value was read before the key was deleted, on every node, by the same client."""
    for deleting in (each for each in asked if key in each.deleted()):
        earlier = [each for each in asked if each.node == deleting.node and each.time_ns <= deleting.time_ns]
        names = [command.name for each in earlier for command in each.commands if key in command.words]
        if not set(names) & set(READS):
            return False
    return True


def late_release(probes: Probes, profile: Profile) -> str:
    """What a release does when the lease is over and another client holds the lock."""
    seen = probes.late_release()
    granted(seen)
    granted(seen, BOB)
    late = first(seen, ALICE, "release")
    if first(seen, BOB, "acquire").ended_ns > late.called_ns:
        raise NotShown("no other client held the lock when the release came")
    key, asked = lock_key(seen), seen.during(late)
    if not asked:
        return f"A late release sends nothing, and {ending(late)}."
    theirs = seen.wrote_at(granted(seen, BOB), key)
    hit = sorted(
        {
            each.node
            for each in asked
            if key in each.deleted() and theirs.get(each.node) == each.before[key][0]
        }
    )
    if hit:
        return f"A late release deletes the next holder's key on {', '.join(hit)}, and {ending(late)}."
    return f"A late release leaves the next holder's key alone, and {ending(late)}."


def fences(probes: Probes, profile: Profile) -> str:
    """Where the numbers of grants come from, and when."""
    seen = probes.in_turns()
    grants = sorted(
        (each for client in (ALICE, BOB) for each in seen.of(client, "acquire") if each.how == "ok"),
        key=lambda each: each.ended_ns,
    )
    if not grants:
        raise NotShown("no acquire was granted")
    numbers = [each.event.get("fence") for each in grants]
    if all(each is None for each in numbers):
        if lock_class(probes.setting.lock).hands_out_fences:
            return "It is said to hand out fences, and grants came without one."
        return "None: grants come without a number."
    grown = [each for each in numbers if each is not None]
    grows = len(grown) == len(numbers) and all(a < b for a, b in pairwise(grown))
    order = f"grants in a row had {listed(str(each) for each in numbers)}"
    return f"{_source(seen)}; {order}{'' if grows else ', which do not grow'}."


def _source(seen: Evidence) -> str:
    """By which request a counter was raised on nodes, and on how many."""
    key, acquire = lock_key(seen), granted(seen)
    asked = seen.during(acquire)
    counting = [
        (request, command)
        for request in asked
        for command in request.commands
        if command.name in COUNTS or (command.name in ("SET", "HSET") and command.words[1] != key)
    ]
    if not counting:
        return "Fences do not come from a counter on the nodes"
    names = listed(dict.fromkeys(command.name for _, command in counting))
    where = len({request.node for request, _ in counting})
    together = all(key in request.wrote() for request, _ in counting)
    when = (
        "in the script that takes the lock" if together else "in a request after the one that takes the lock"
    )
    return f"Fences come from {names} on {where} nodes, {when}"


def scripts(probes: Probes, profile: Profile) -> str:
    """How scripts are sent, and what happens when a node has forgotten them."""
    seen = [probes.alone(), *([probes.extended()] if profile.extends else [])]
    granted(seen[0])
    names = {each.sent.name for one in seen for each in one.requests}
    used = [name for name in (*SCRIPTS, "SCRIPT", "FUNCTION") if name in names]
    if not used:
        return "None are sent."
    if not any(name.startswith("EVALSHA") for name in used):
        return f"Scripts are sent whole each time, by {listed(used)}."
    return f"Scripts are sent by {listed(used)}; {_when_forgotten(probes.restarted())}."


def _when_forgotten(seen: Evidence) -> str:
    """What becomes of a lease of Alice's after all nodes have forgotten the scripts."""
    missed = [each for each in seen.requests if each.sent.name.startswith("EVALSHA") and not each.called]
    how = listed(
        f"{each.f} {ending(each)}"
        for each in seen.operations
        if each.client == ALICE and each.f in ("acquire", "extend", "release") and each.grant_id == "alice-2"
    )
    if not missed:
        return f"after a restart of the nodes none was missing: {how}"
    since_ns = {each.node: each.time_ns for each in reversed(missed)}
    follows = {
        each.sent.name
        for each in seen.requests
        if each.sent.name in ("EVAL", "SCRIPT") and each.time_ns > since_ns.get(each.node, NEVER)
    }
    falls = f"it falls back to {listed(sorted(follows))}" if follows else "it has no fallback"
    return f"where nodes have forgotten them, {falls}: {how}"


def errors(probes: Probes, profile: Profile) -> str:
    """Exceptions that no lock may raise, in all trials so far."""
    broken = [each.seen for each in probes.broken]
    seen = list(dict.fromkeys((*broken, *(f"{each.f}: {each.error}" for each in probes.failures))))
    if not seen:
        return f"It raised nothing but lock errors, in {probes.trials} trials."
    more = f", and {len(seen) - 3} more" if len(seen) > 3 else ""
    ended = f"; {len(broken)} trials ended by that" if broken else ""
    return f"It raised what it must not: {'; '.join(seen[:3])}{more}{ended}."
