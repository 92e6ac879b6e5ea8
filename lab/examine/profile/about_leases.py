"""Facts on leases: tokens, expiry, what is claimed of them, clocks, extension, watchdogs."""

from __future__ import annotations

from typing import Any, Final

from checker.words import listed
from lab.examine.profile.about_nodes import taken_by, tries_of
from lab.examine.profile.probes import (
    EXTENSIONS,
    NOT_SHOWN,
    Ask,
    NotShown,
    Probes,
    Profile,
    ending,
    first,
    granted,
    lock_key,
)
from lab.examine.programs import ALICE, BOB, MS_NS
from lab.examine.violations.evidence import Evidence, Operation, Request, milliseconds

TTLS_MS: Final = (1500, 1234, 700)
"""Leases with fractions of a second, and below one."""
HOURS_NS: Final = 7_200_000 * MS_NS
NOISE_NS: Final = 2 * MS_NS
"""By how much two measurements may differ that only other latencies tell apart."""


def sharing(probes: Probes, profile: Profile) -> str:
    """Whether readers share a read-write lock. One that lets in one at a time breaks no promise."""
    seen = probes.shared()
    alice, bob = granted(seen), first(seen, BOB, "acquire")
    released = [each.called_ns for each in seen.of(ALICE, "release")]
    if bob.how == "ok" and bob.ended_ns < min(released, default=bob.ended_ns + 1) and alice.how == "ok":
        return "Two readers held the lock at once."
    profile.not_tried.append("readers that share the lock: a second one did not get it beside the first")
    return "A reader did not get the lock while another one held it."


def taking(probes: Probes, profile: Profile) -> str:
    """By which requests the lock is taken, and whether its key has an end from the first moment on."""
    seen = probes.alone()
    key = lock_key(seen)
    asked = seen.during(granted(seen))
    forms = list(dict.fromkeys(request.form for request in asked))
    sentence = f"An acquire sends {listed(forms)}, for the key {key!r}"
    left = {each.node: each.after[key][1] for each in asked if key in each.wrote()}
    ends = [each for each in asked if each.node in left and key in each.after and each.after[key][1]]
    if all(each is not None for each in left.values()):
        return f"{sentence}."
    if ends:
        return f"{sentence}; between them the key has no expiry."
    return f"{sentence}, which never expires."


def expiry(probes: Probes, profile: Profile) -> str:
    """How long nodes keep the key of a lease."""
    ttl_ns = probes.setting.ttl_ns
    left = _kept_ms(probes.alone())
    ttl_ms = ttl_ns // MS_NS
    if left is None:
        return f"Keys of a lease of {ttl_ms} ms have no expiry."
    return f"Keys of a lease of {ttl_ms} ms are kept for {left} ms."


def granularity(probes: Probes, profile: Profile) -> str:
    """What becomes of leases with fractions of a second, and of one below a second."""
    kept, exact, shown = [], True, 0
    last = NotShown("no lease was tried")
    for ttl_ms in TTLS_MS:
        try:
            left = _kept_ms(probes.short(ttl_ms * MS_NS))
        except NotShown as why:
            kept.append(f"of {ttl_ms} ms: {why}")
            exact, last = False, why
            continue
        shown += 1
        exact = exact and left == ttl_ms
        kept.append(f"of {ttl_ms} ms {'without end' if left is None else f'for {left} ms'}")
    if not shown:
        raise last
    return f"Keys of leases {listed(kept)}{': to the millisecond' if exact else ''}."


def _kept_ms(seen: Evidence) -> int | None:
    """How long nodes keep the key after Alice's first acquire; None: it has no expiry."""
    key, acquire = lock_key(seen), granted(seen)
    kept = [
        each.after[key][1] for each in seen.during(acquire) if key in each.wrote() or _prolongs(each, key)
    ]
    ends = [left for left in kept if left is not None]
    return max(ends) if ends else None


def _prolongs(request: Request, key: str) -> bool:
    """Whether a request made a key last longer, or gave it an end."""
    if key not in request.before or key not in request.after:
        return False
    before, after = request.before[key][1], request.after[key][1]
    return after is not None and (before is None or after > before)


def validity(probes: Probes, profile: Profile) -> str:
    """How much of the lease is left for the client, and from when on that is counted.

    A margin is what nodes keep the keys for beyond that.
    """
    acquire = granted(probes.alone())
    ttl_ns = probes.setting.ttl_ns
    claimed_ns, kept_ms = _claimed_ns(acquire), _kept_ms(probes.alone())
    margin_ns = (ttl_ns if kept_ms is None else kept_ms * MS_NS) - claimed_ns
    sentence = (
        f"A lease of {milliseconds(ttl_ns)} ends for its client {milliseconds(claimed_ns)} after the call: "
        f"{_margin(margin_ns)}"
    )
    later_ns = _claimed_ns(granted(probes.slow())) - claimed_ns
    if abs(later_ns) <= NOISE_NS:
        return f"{sentence}, and it is counted from before the requests."
    since = "counted from the replies" if later_ns > 0 else "shorter by more than the requests took"
    return f"{sentence}; with slower replies it ends {milliseconds(abs(later_ns))} later: it is {since}."


def _margin(margin_ns: int) -> str:
    if abs(margin_ns) < MS_NS // 10:
        return "no margin is kept"
    return f"{milliseconds(margin_ns)} are kept as a margin" if margin_ns > 0 else "longer than nodes keep it"


def _claimed_ns(acquire: Operation) -> int:
    """How long after its call a lease ends, as the lock says. Raises ``NotShown``."""
    claimed_ns = acquire.event.get("claimed_ns")
    if claimed_ns is None:
        raise NotShown("the lock does not say how long a lease is valid")
    return int(claimed_ns) + acquire.ended_ns - acquire.called_ns


def tokens(probes: Probes, profile: Profile) -> str:
    """What gets a token of its own: each try, each acquire, each client, or nothing."""
    seen = probes.in_turns()
    tokens = [each.event.get("token") for each in (*seen.of(ALICE, "acquire"), *seen.of(BOB, "acquire"))]
    if len(tokens) < 3 or any(each is None for each in tokens):
        raise NotShown("not every acquire of two clients was granted with a token")
    one, two, other = tokens
    is_shared = other in (one, two)
    if one == two:
        if is_shared:
            return f"Every acquire of every client has the same token, {one!r}."
        return "Each client has one token for all of its acquires."
    asked = _tokens_tried(probes, seen, one)
    each = "try" if len(asked) > 1 and len(set(asked)) == len(asked) else "acquire"
    of_tries = " for all of its tries" if len(asked) > 1 and each == "acquire" else ""
    if is_shared:
        return f"Each {each} has a token of its own{of_tries}, and two clients make the same ones."
    return f"Each {each} has a token of its own{of_tries}; two clients had different ones."


def _tokens_tried(probes: Probes, seen: Evidence, token: Any) -> list[str]:
    """The tokens of the tries of a refused acquire, by default options; none if they are not sent."""
    what = taken_by(seen)
    words = next(each for each in seen.during(granted(seen)) if each.what == what).sent.words
    if token not in words:
        return []
    refused = probes.held_by_default() or probes.held()
    asked = tries_of(refused, first(refused, BOB, "acquire"), what)
    return [each.sent.words[words.index(token)] for each in asked if len(each.sent.words) == len(words)]


def clocks(probes: Probes, profile: Profile) -> str:
    """Whether the wall clock counts, in all trials so far, and for what."""
    if not probes.trials:
        raise NotShown("no trial could be run")
    if not probes.looked:
        return f"It never read the wall clock, in {probes.trials} trials."
    ttl_ns = probes.setting.ttl_ns
    moves = []
    usual = granted(probes.alone())
    before = granted(probes.clock_jumps(-HOURS_NS, "acquire invoke"))
    moves += [f"the {each}" for each in ("token", "fence") if before.event.get(each) != usual.event.get(each)]
    jumped = granted(probes.clock_jumps(-ttl_ns // 2, "acquire invoke", after_ns=MS_NS // 10))
    if abs(_claimed_ns(jumped) - _claimed_ns(usual)) > NOISE_NS:
        moves.append("how long a lease is said to be valid")
    held = first(probes.clock_jumps(ttl_ns * 2, "granted"), ALICE, "held")
    if held.event.get("value") == "no":
        moves.append("whether it is said to be held")
    counts = f"a jump of it moves {listed(moves)}" if moves else "a jump of it moved nothing that was shown"
    return f"It reads the wall clock: {counts}."


def extension(probes: Probes, profile: Profile) -> str:
    """Whether a lease can be extended, by which requests, and for how long the keys are kept then."""
    seen = probes.extended()
    granted(seen)
    once = first(seen, ALICE, "extend")
    asked = seen.during(once)
    profile.extends = once.how == "ok"
    if not profile.extends:
        return f"A lease cannot be extended: it {ending(once)}."
    if not asked:
        return "An extension sends nothing and succeeds."
    key = lock_key(seen)
    left = {each.node: each.after[key][1] for each in asked if _prolongs(each, key)}
    sentence = f"An extension sends {listed(dict.fromkeys(each.form for each in asked))}"
    cutting = {each.node for each in asked if key in each.before and each.after.get(key) != each.before[key]}
    if not left:
        if cutting:
            lasts = {each.after[key][1] or 0 for each in asked if key in each.after} or {0}
            return f"{sentence}, and keys are kept for {max(lasts)} ms after it on {_on(cutting, profile)}."
        return f"{sentence}, and no key is kept for longer."
    kept = sorted({value or 0 for value in left.values()})
    ms = str(kept[0]) if len(kept) == 1 else f"{kept[0]} to {kept[-1]}"
    return f"{sentence}, and keys are kept for {ms} ms from then on on {_on(set(left), profile)}."


def where_extended(ask: Ask) -> Ask:
    """The question, where a lease can be extended. Raises ``NotShown`` where that was not shown."""

    def asked(probes: Probes, profile: Profile) -> str:
        if profile.facts.get("extension", NOT_SHOWN).startswith(NOT_SHOWN):
            raise NotShown("whether a lease can be extended was not shown")
        return ask(probes, profile) if profile.extends else "None: a lease cannot be extended."

    return asked


@where_extended
def extended_validity(probes: Probes, profile: Profile) -> str:
    """How long an extended lease is said to be valid, and from when on that is counted."""
    ttl_ns = probes.setting.ttl_ns
    claimed_ns = _claimed_ns(first(probes.extended(), ALICE, "extend"))
    sentence = f"An extended lease ends for its client {milliseconds(claimed_ns)} after the call"
    if claimed_ns > ttl_ns + NOISE_NS:
        sentence += f": longer than the lease of {milliseconds(ttl_ns)}"
    slow = first(probes.slow(), ALICE, "extend")
    if slow.how != "ok":
        return f"{sentence}; with slower replies an extension {ending(slow)}."
    later_ns = _claimed_ns(slow) - claimed_ns
    if later_ns > NOISE_NS and claimed_ns <= ttl_ns + NOISE_NS:
        return f"{sentence}; with slower replies {milliseconds(later_ns)} later: counted from the replies."
    return f"{sentence}." if later_ns > NOISE_NS else f"{sentence}, counted from before the requests."


def belief(probes: Probes, profile: Profile) -> str:
    """What the lock says of a lease that is over."""
    seen = probes.late_release()
    granted(seen)
    value = first(seen, ALICE, "held").event.get("value")
    if value not in ("yes", "no"):
        raise NotShown("the lock did not say whether a lease was held that was over")
    held = "is still held" if value == "yes" else "is not held any more"
    return f"Asked 30 % of a lease after its end, it says that the lease {held}."


def _on(names: set[str], profile: Profile) -> str:
    return f"{len(names)} of {len(profile.nodes_used)} nodes"


@where_extended
def extension_limit(probes: Probes, profile: Profile) -> str:
    """How often one lease can be extended."""
    made = probes.extended().of(ALICE, "extend")
    good = next((at for at, each in enumerate(made) if each.how != "ok"), len(made))
    if good == len(made):
        return f"A lease was extended {good} times; no limit was seen."
    return f"A lease was extended {good} of {EXTENSIONS} times; the next extension {ending(made[good])}."


@where_extended
def extension_quorum(probes: Probes, profile: Profile) -> str:
    """How many nodes an extension needs, and how often it asks nodes that do not answer."""
    used = profile.must_use_nodes()
    cuts = [probes.extended_cut(used[len(used) - count :]) for count in range(len(used) + 1)]
    made = [(first(seen, ALICE, "extend"), seen) for seen in cuts]
    good = [count for count, (each, _) in enumerate(made) if each.how == "ok"]
    if not good:
        raise NotShown("an extension failed even with all nodes reached")
    least = len(used) - max(good)
    sentence = f"An extension needs {least} of {len(used)} nodes"
    last, seen = made[-1]
    if last.how == "ok":
        return f"{sentence}."
    targets = [name for _, names in seen.sendings(last) for name in names]
    times = max((targets.count(name) for name in used), default=0)
    sends = "sends to each once" if times == 1 else f"sends to each {times} times"
    return f"{sentence}; if none answers, it {sends} and {ending(last)}."


@where_extended
def late_extension(probes: Probes, profile: Profile) -> str:
    """What an extension does when the lease is over: to the next holder's key, and to a key that is gone."""
    seen = probes.extended_late(taken=True)
    granted(seen, BOB)
    late = first(seen, ALICE, "extend")
    asked = seen.during(late)
    key = lock_key(seen)
    theirs = seen.wrote_at(granted(seen, BOB), key)
    moved = sorted({each.node for each in asked if each.node in theirs and _prolongs(each, key)})
    if moved:
        return f"A late extension prolongs the next holder's key on {', '.join(moved)}, and {ending(late)}."
    alone = probes.extended_late(taken=False)
    again = first(alone, ALICE, "extend")
    made = sorted({each.node for each in alone.during(again) if key in each.wrote()})
    if made:
        return (
            f"A late extension takes the lock again on {', '.join(made)} if it is free, and {ending(again)}."
        )
    sends = "leaves the next holder's key alone" if asked else "sends nothing"
    return f"A late extension {sends}, and {ending(late)}."


def watchdog(probes: Probes, profile: Profile) -> str:
    """Whether keys are renewed while the client only computes."""
    seen = probes.idle()
    acquire = granted(seen)
    key, released = lock_key(seen), first(seen, ALICE, "release")
    renewing = [
        each
        for each in seen.requests
        if each.sent.client == ALICE
        and acquire.ended_ns < each.time_ns < released.called_ns
        and _prolongs(each, key)
        and key not in each.wrote()
    ]
    profile.watchdog = bool(renewing)
    if not renewing:
        return "None: nothing is renewed while the client computes for two and a half leases."
    times = sorted({each.time_ns for each in renewing if each.node == renewing[0].node})
    every = milliseconds((times[-1] - acquire.ended_ns) / len(times))
    return f"Keys are renewed by {renewing[0].form} about every {every}, {len(times)} times, unasked."
