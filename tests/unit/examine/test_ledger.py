"""The ledger of a trial: who owns what, which rule is broken, and whether repairing that is enough."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from lab.examine.ledger.book import OTHERS, OWN, Breach, Call, Entry, Lease, Ledger, Lies, Slot
from lab.examine.ledger.breaches import (
    BESIDE,
    CLAIMS,
    KEPT_TOO_LONG,
    LEAVES,
    OWN_KEYS,
    READS_WALL_CLOCK,
    RESIDUE,
    breach_of,
)
from lab.examine.ledger.cause import cause_of
from lab.examine.ledger.finders import seen
from lab.examine.ledger.keeping import keep
from lab.examine.ledger.naming import CATALOGUE, UNKNOWN, Pattern, causes_of, name_of
from lab.examine.ledger.rules import FAILS, IS_LATE, breaches
from lab.examine.ledger.words import tell
from lab.examine.programs import ALICE, BOB, PROGRAMS, S_NS, Setting
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.delay import Delay
from lab.faults.jump import Jump
from lab.locks.base import Indeterminate
from lab.locks.base import Lease as Told
from lab.locks.driver import NO_ANSWER
from lab.locks.redlock import Redlock
from lab.scenario.triggers import at_start, on
from lab.search.command import OPTIONS
from lab.search.faults import timed_fault
from lab.search.runner import run_trial, trials
from lab.search.trial import Round, Trial
from lab.search.watch import Executed, State
from tests.locks_to_test.in_collections import OnePermit
from tests.locks_to_test.plain import Plain

pytestmark = pytest.mark.usefixtures("_patched")
MS_NS = 10**6


@pytest.fixture(autouse=True)
def _trials() -> Iterator[None]:
    with trials():
        yield


def late(lock: str) -> Trial:
    """Alice gives the lock back when her lease is over and Bob holds it."""
    clients: dict[str, tuple[Round, ...]] = {
        ALICE: (Round(0, 13 * S_NS),),
        BOB: (Round(11 * S_NS, 3 * S_NS),),
    }
    return Setting(lock, OPTIONS, 1).with_clients(clients, ())


def names(trial: Trial) -> dict[str, list[str]]:
    """The causes of each finding of a trial."""
    return {finding: [cause.kind for cause in causes_of(trial, finding)] for finding in seen(keep(trial))}


class RenewsLater(Plain):
    """A task of its acquire prolongs whatever lies under the key, for as long as it runs."""

    async def acquire(self, key: str, ttl_ns: int) -> Told:
        lease = await super().acquire(key, ttl_ns)
        self.task = asyncio.ensure_future(self._renew(lease))
        return lease

    async def _renew(self, lease: Told) -> None:
        while True:
            await asyncio.sleep(3)
            await self._call("PEXPIRE", lease.key, lease.ttl_ns // MS_NS)


def test_an_effect_on_another_clients_key_breaks_the_first_rule_and_repairing_it_is_enough() -> None:
    trial = late("mutant:bare-del")
    shown, kept = cause_of(trial, "overlap")
    assert shown is not None
    assert shown.by_intervention
    assert shown.found.kind == Breach(OWN_KEYS, "release", "delete", OTHERS)
    repaired = keep(trial, frozenset((shown.found.kind,)))
    assert "overlap" in seen(kept)
    assert "overlap" not in seen(repaired)
    assert any(entry.undone for entry in repaired.ledger.entries)


def test_a_repair_of_another_kind_changes_nothing() -> None:
    trial = late("mutant:bare-del")
    other = keep(trial, frozenset((Breach(OWN_KEYS, "extend", "delete", OTHERS),)))
    assert seen(other).keys() == seen(keep(trial)).keys()
    assert other.outcome.digest() == keep(trial).outcome.digest()


def test_keeping_a_ledger_changes_nothing() -> None:
    for lock in ("redlock", "mutant:bare-del", "tests.locks_to_test.watchdog:Watchdog"):
        for program in PROGRAMS[:4]:
            trial = Setting(lock, OPTIONS, 3).trial(program)
            assert keep(trial).outcome.events == run_trial(trial).events


def test_a_finding_that_is_not_there_has_no_cause() -> None:
    for lock in ("single", "mutant:bare-del"):
        shown, kept = cause_of(late(lock), "leak")
        assert "leak" not in seen(kept)
        assert shown is None
        assert causes_of(late(lock), "leak") == []


def test_the_owner_of_a_key_is_who_created_it_whatever_its_value_is() -> None:
    found = names(late("mutant:token-reused"))
    assert found
    assert {causes[0] for causes in found.values()} == {"same-token"}, found


def test_what_a_task_sends_belongs_to_the_call_that_made_it() -> None:
    trial = late(f"{__name__}:RenewsLater")
    kept = keep(trial)
    renewing = [entry for entry in kept.ledger.entries if entry.name == "PEXPIRE" and entry.client == ALICE]
    assert len(renewing) > 2
    assert {entry.call.f for entry in renewing if entry.call is not None} == {"acquire"}
    assert {entry.call.lease.grant_id for entry in renewing if entry.call is not None} == {"alice-1"}
    assert all(entry.call is not None for entry in renewing)


def test_what_is_undone_does_not_come_back_with_the_nodes_file() -> None:
    """Bob's key that a repair has kept is there after a crash, too."""
    trial = late("mutant:bare-del")
    crash = timed_fault(
        Crash, on(ALICE, "release invoke", after_ns=100 * MS_NS), nodes=("A",), lasts_ns=100 * MS_NS
    )
    trial = replace(trial, faults=(crash,))
    kind = Breach(OWN_KEYS, "release", "delete", OTHERS)
    before, after = (
        [each for each in keep(trial, repairs).ledger.entries if each.client == BOB and each.effects]
        for repairs in (frozenset[Breach](), frozenset((kind,)))
    )
    assert [effect.what for entry in before for effect in entry.effects][:2] == ["create", "create"]
    assert [effect.what for entry in after for effect in entry.effects][:2] == ["create", "delete"]


def test_an_end_that_a_repair_gives_a_key_is_in_the_nodes_file_as_well() -> None:
    """The key that never expires is there after a crash; with an end it expires all the same."""
    crash = timed_fault(Crash, on(ALICE, "granted", after_ns=S_NS), nodes=("A",), lasts_ns=100 * MS_NS)
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS, ends="keep"),)}
    trial = Setting("mutant:set-without-expiry", OPTIONS, 1).with_clients(clients, (crash,))
    shown, kept = cause_of(trial, "leak")
    assert "leak" in seen(kept)
    assert shown is not None
    assert shown.found.kind == Breach(RESIDUE, "acquire", KEPT_TOO_LONG)
    assert shown.by_intervention


def test_a_lease_that_is_renewed_when_it_is_over_is_named_so() -> None:
    """Its client keeps it, and counts on it no more."""
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS, ends="keep"),)}
    trial = Setting(f"{__name__}:RenewsLater", OPTIONS, 1).with_clients(clients, ())
    found = names(trial)
    assert "unavailable" in found
    assert found["unavailable"][0] == "renews-unasked"


def test_a_wall_clock_is_to_blame_if_with_the_true_time_nothing_is_wrong() -> None:
    jump = timed_fault(Jump, on(ALICE, "granted", 1, S_NS), ALICE, by_ns=-20 * S_NS)
    trial = replace(late("mutant:believes-by-wall-clock"), faults=(jump,))
    found = {finding: cause_of(trial, finding)[0] for finding in seen(keep(trial))}
    assert found
    assert {shown and shown.found.kind for shown in found.values()} == {READS_WALL_CLOCK}


def test_what_was_undone_too_early_is_no_excuse_and_what_could_not_arrive_is_one() -> None:
    """A key stays: the undoing overtook the SET, or was lost on its way."""
    slow = timed_fault(
        Delay, on(ALICE, "acquire invoke", 2), ALICE, ("A",), S_NS * 5 // 6, S_NS // 200, direction="requests"
    )
    lost = timed_fault(Cut, on(ALICE, "acquire invoke", 2, S_NS // 5000), ALICE, ("A",))
    excused = {}
    for name, fault in (("overtaken", slow), ("lost", lost)):
        setting = Setting("mutant:undo-overtakes-set", OPTIONS, 1).with_ttl(20 * S_NS)
        kept = keep(setting.with_clients({ALICE: (Round(0, S_NS),)}, (fault,)))
        left = [each for each in breaches(kept) if each.kind[:3] == (RESIDUE, "acquire", LEAVES)]
        excused[name] = {each.excused for each in left}
    assert excused == {"overtaken": {False}, "lost": {True}}


def lease(client: str, *, until_ns: int = 10 * S_NS) -> Lease:
    return Lease(client, f"{client}-1", "r", 10 * S_NS, 0, token=client, state="held", until_ns=until_ns)


def entry(
    ledger: Ledger,
    whose: Lease,
    f: str,
    time_ns: int,
    now: dict[Slot, Lies],
    inner: tuple[Executed, ...] = (),
) -> list[Breach | None]:
    """What a command does to a node, and which rules that breaks; ``inner``: what a script called."""
    call = Call(whose.client, f, whose, time_ns, 10 * S_NS, {})
    made = Entry(time_ns, "A", whose.client, ("EVAL",), call, None, inner)
    ledger.see(made, now)
    return [breach_of(made, effect, ledger) for effect in made.effects]


def lies(value: str, until_ns: int) -> Lies:
    return Lies(value, until_ns // MS_NS, until_ns)


ALICES, BOBS = Slot("r", "alice"), Slot("r", "bob")


def test_each_field_of_a_hash_has_an_owner() -> None:
    """Two readers share a key: each may prolong it, and takes away its own field only."""
    ledger, alice, bob = Ledger(("A",), 1), lease(ALICE), lease(BOB, until_ns=12 * S_NS)
    assert entry(ledger, alice, "acquire", 0, {ALICES: lies("1", 10 * S_NS)}) == [None]
    both = {ALICES: lies("1", 12 * S_NS), BOBS: lies("1", 12 * S_NS)}
    beside = Breach(OWN_KEYS, "acquire", "create", BESIDE)
    assert entry(ledger, bob, "acquire", 2 * S_NS, both) == [None, beside]
    assert ledger.owned["A"][ALICES].lease is alice
    assert entry(ledger, alice, "release", 3 * S_NS, {BOBS: lies("1", 12 * S_NS)}) == [None]
    assert entry(ledger, alice, "release", 4 * S_NS, {}) == [Breach(OWN_KEYS, "release", "delete", OTHERS)]


def test_who_has_no_field_of_its_own_may_not_prolong_the_key() -> None:
    ledger, alice, bob = Ledger(("A",), 1), lease(ALICE), lease(BOB)
    entry(ledger, alice, "acquire", 0, {ALICES: lies("1", 10 * S_NS)})
    prolonged = entry(ledger, bob, "acquire", 2 * S_NS, {ALICES: lies("1", 12 * S_NS)})
    assert prolonged == [Breach(OWN_KEYS, "acquire", "prolong", OTHERS)]


@pytest.mark.parametrize("own", [True, False])
def test_who_has_had_a_field_in_the_same_script_may_prolong_the_key(own: bool) -> None:
    """As one who is granted at once and leaves no place in the line; not one whose script sets nothing."""
    ledger, alice, bob = Ledger(("A",), 1), lease(ALICE), lease(BOB)
    entry(ledger, alice, "acquire", 0, {ALICES: lies("1", 10 * S_NS)})
    there: State = {"r": ("alice", 10)}
    both: State = {"r": ("alice bob", 10)}
    of_script: list[tuple[tuple[str, ...], State, State]] = [(("PEXPIRE", "r", "12000"), there, there)]
    if own:
        of_script = [
            (("HSET", "r", "bob", "1"), there, both),
            *of_script,
            (("HDEL", "r", "bob"), both, there),
        ]
    inner = tuple(Executed(2 * S_NS, "A", BOB, words, True, before, now) for words, before, now in of_script)
    prolonged = entry(ledger, bob, "acquire", 2 * S_NS, {ALICES: lies("1", 12 * S_NS)}, inner)
    assert prolonged == [None if own else Breach(OWN_KEYS, "acquire", "prolong", OTHERS)]


def test_who_replaces_a_value_owns_it_and_who_prolongs_it_does_not() -> None:
    ledger, alice, bob, key = Ledger(("A",), 1), lease(ALICE), lease(BOB), Slot("r")
    entry(ledger, alice, "acquire", 0, {key: lies("alice", 10 * S_NS)})
    entry(ledger, bob, "extend", S_NS, {key: lies("alice", 11 * S_NS)})
    assert ledger.owned["A"][key].lease is alice
    entry(ledger, bob, "acquire", 2 * S_NS, {key: lies("bob", 12 * S_NS)})
    assert ledger.owned["A"][key].lease is bob


def test_an_acquire_that_waits_for_a_lock_that_is_held_is_not_late() -> None:
    """Blocking waits for Bob's lease, and is granted then."""
    clients: dict[str, tuple[Round, ...]] = {BOB: (Round(0, 9 * S_NS),), ALICE: (Round(S_NS, S_NS),)}
    kept = keep(Setting("tests.locks_to_test.unusual:Blocking", OPTIONS, 1).with_clients(clients, ()))
    late_calls = [each for each in breaches(kept) if each.kind.effect == IS_LATE]
    assert [each.excused for each in late_calls] == [True]


class AsksFirst(OnePermit):
    """Sets a key for a millisecond, to see what the node can do; the lease is an element of another."""

    name = "asks-first"

    async def _take(self, key: str, token: str, ttl_ns: int) -> Any:
        await self._call("SET", "can-you", "1", "PX", 1)
        await asyncio.sleep(0.005)
        return await super()._take(key, token, ttl_ns)


def test_a_key_that_is_over_before_the_grant_is_no_key_of_the_lease() -> None:
    """What it has is its element in a sorted set, as without that key."""
    kept = [
        [
            claim.kept_ns - claim.call.called_ns > S_NS
            for claim in keep(late(lock)).ledger.claims
            if claim.call.f == "acquire"
        ]
        for lock in ("tests.locks_to_test.in_collections:OnePermit", f"{__name__}:AsksFirst")
    ]
    assert all(each and all(each) for each in kept)


class AsksWhenItExtends(OnePermit):
    """Sees only when it extends what the node can do, by a key that is gone at once."""

    name = "asks-when-it-extends"

    async def _prolong(self, lease: Told, ttl_ns: int) -> Any:
        await self._call("SET", "can-you", "1", "PX", 1)
        return await super()._prolong(lease, ttl_ns)


def test_a_key_that_an_extension_sets_is_no_key_of_a_lease_that_has_none() -> None:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 3 * S_NS, extends=1),)}
    kept = keep(Setting(f"{__name__}:AsksWhenItExtends", OPTIONS, 1).with_clients(clients, ()))
    claims = [claim for claim in kept.ledger.claims if claim.call.f == "extend"]
    assert [claim.kept_ns - claim.call.called_ns > S_NS for claim in claims] == [True]
    assert [each.kind for each in breaches(kept) if each.kind.rule == CLAIMS] == []


class AsksOneMore(Redlock):
    """Sees what a node can do that it does not take the lock on, a while before."""

    async def acquire(self, key: str, ttl_ns: int) -> Told:
        await self._channels[-1].call("SET", "can-you", "1", "PX", 1)
        await asyncio.sleep(0.02)
        every, self._channels = self._channels, self._channels[:-1]
        try:
            return await super().acquire(key, ttl_ns)
        finally:
            self._channels = every


def test_what_is_gone_at_the_grant_does_not_tell_since_when_a_lease_is_certain() -> None:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    kept = keep(Setting(f"{__name__}:AsksOneMore", OPTIONS, 5).with_clients(clients, (), demand=False))
    (claim,) = (each for each in kept.ledger.claims if each.call.f == "acquire")
    assert claim.kept_ns - claim.call.called_ns > claim.call.ttl_ns + 15 * MS_NS


@pytest.mark.parametrize("has_keys", [True, False])
def test_an_extension_may_not_take_away_the_element_that_its_lease_is(has_keys: bool) -> None:
    """Of one that has a key as well, the element may be the place in a queue that it waited at."""
    ledger, alice, member = Ledger(("A",), 1), lease(ALICE), Slot("r", element="alice")
    entry(ledger, alice, "acquire", 0, {member: Lies("alice", 10_000, 10 * S_NS, score=10.0)})
    alice.has_keys = has_keys
    shorter = Lies("alice", 4_000, 4 * S_NS, score=4.0)
    breach = Breach(OWN_KEYS, "extend", "shorten", OWN)
    assert entry(ledger, alice, "extend", 2 * S_NS, {member: shorter}) == [breach]
    taken = entry(ledger, alice, "extend", 3 * S_NS, {})
    assert taken == [None if has_keys else Breach(OWN_KEYS, "extend", "delete", OWN)]


class EndsLater(Plain):
    """Says that its leases end after their keys."""

    name = "ends-later"
    more_ns = 0

    async def acquire(self, key: str, ttl_ns: int) -> Told:
        return self._later(await super().acquire(key, ttl_ns))

    async def extend(self, lease: Told, ttl_ns: int) -> Told:
        return self._later(await super().extend(lease, ttl_ns))

    def _later(self, lease: Told) -> Told:
        return dataclasses.replace(lease, deadline_ns=(lease.attempt_ns or 0) + lease.ttl_ns + self.more_ns)


@pytest.mark.parametrize(("more_ns", "is_breach"), [(2 * MS_NS, False), (20 * MS_NS, True)])
def test_a_claim_that_is_no_more_than_rounded_breaks_no_rule(
    more_ns: int, is_breach: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EndsLater, "more_ns", more_ns)
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 3 * S_NS, extends=1),)}
    kept = keep(Setting(f"{__name__}:EndsLater", OPTIONS, 1).with_clients(clients, ()))
    found = {each.kind.call for each in breaches(kept) if each.kind.rule == CLAIMS}
    assert found == ({"acquire", "extend"} if is_breach else set())


class GivenUp(Plain):
    """As a driver that does not answer: the lab waits for a time, and then asks no more."""

    name = "given-up"

    async def acquire(self, key: str, ttl_ns: int) -> Told:
        await asyncio.sleep(30)
        raise Indeterminate(f"{NO_ANSWER} within 30 s")


def test_of_a_call_that_was_given_up_it_is_not_said_how_long_it_took() -> None:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    kept = keep(Setting(f"{__name__}:GivenUp", OPTIONS, 1).with_clients(clients, (), demand=False))
    said = [tell(kept, each).sentence for each in breaches(kept) if each.kind.effect == IS_LATE]
    assert said == ["Alice's acquire of 0 ms had no end within 30.00 s, and was given up; it asked no node"]


def test_a_number_without_an_end_is_no_lock() -> None:
    ledger, alice, bob = Ledger(("A",), 1), lease(ALICE), lease(BOB)
    counter = Slot("r:fence")
    assert entry(ledger, alice, "acquire", 0, {counter: Lies("1", None, 1 << 62)}) == [None]
    assert entry(ledger, bob, "acquire", 1, {counter: Lies("2", None, 1 << 62)}) == [None]
    assert ledger.kept_until_ns(alice, 2) == 0 or ledger.owned["A"][counter].lies.value == "2"


def test_the_pattern_that_says_most_names_a_breach() -> None:
    breach = Breach(OWN_KEYS, "release", "delete", OTHERS)
    assert Pattern(rule=OWN_KEYS).fit(breach, frozenset()) == 1
    assert Pattern(rule=OWN_KEYS, effect="delete").fit(breach, frozenset()) == 2
    assert Pattern(rule=OWN_KEYS, facts=("same token",)).fit(breach, frozenset(("same token",))) == 3
    assert Pattern(rule=OWN_KEYS, facts=("same token",)).fit(breach, frozenset()) == 0
    assert Pattern(rule=CLAIMS).fit(breach, frozenset()) == 0
    assert name_of(breach, ()) == "deletes-others-key"
    assert name_of(breach, ("same token",)) == "same-token"
    assert name_of(Breach("no such rule", "acquire", "x"), ()) == UNKNOWN
    assert UNKNOWN in CATALOGUE


def test_every_rule_has_a_name_for_what_nothing_else_fits() -> None:
    for rule in (OWN_KEYS, CLAIMS, RESIDUE):
        assert name_of(Breach(rule, "held", "something new"), ()) != UNKNOWN


def calls(ledger: Ledger, *told: tuple[str, str, str]) -> None:
    """Let a ledger hear of Alice's calls: the lease, what is called, and how it ends, with the token."""
    for number, (grant, f, how) in enumerate(told):
        about = {
            "client": ALICE,
            "process": ALICE,
            "f": f,
            "grant_id": grant,
            "key": "k",
            "ttl_ns": S_NS,
            "time_ns": number,
        }
        ledger.hear({**about, "type": "invoke"})
        if how:
            ledger.hear({**about, "type": "ok", "token": how})


def test_a_command_of_a_driver_belongs_to_the_lease_whose_token_it_names() -> None:
    ledger = Ledger(("A",), 1)
    calls(ledger, ("1", "acquire", "one"), ("1", "release", "one"), ("2", "acquire", "two"))
    of_first, of_last = ledger.call_for(ALICE, ("DEL", "one")), ledger.call_for(ALICE, ("GET", "k"))
    assert of_first is not None
    assert of_last is not None
    assert (of_first.f, of_first.lease.grant_id) == ("release", "1")
    assert (of_last.f, of_last.lease.grant_id) == ("acquire", "2")


def test_what_takes_a_key_is_of_the_acquire_that_goes_on_in_the_background() -> None:
    for after in ("release", "held"):
        ledger = Ledger(("A",), 1)
        calls(ledger, ("1", "acquire", "one"), ("1", after, ""))
        takes, looks = (ledger.call_for(ALICE, (name, "k", "one")) for name in ("SET", "EVALSHA"))
        assert takes is not None
        assert looks is not None
        assert (takes.f, looks.f) == ("acquire", after)


def test_a_token_that_is_used_again_names_no_lease() -> None:
    ledger = Ledger(("A",), 1)
    calls(ledger, ("1", "acquire", "host"), ("1", "release", "host"), ("2", "acquire", ""))
    takes, deletes = (
        ledger.call_for(ALICE, ("SET", "k", "host")),
        ledger.call_for(ALICE, ("DEL", "k", "host")),
    )
    assert takes is not None
    assert deletes is not None
    assert takes.lease.grant_id == "2"
    assert deletes.lease.grant_id == "1"
    again = Ledger(("A",), 1)
    calls(again, ("1", "acquire", "host"), ("1", "release", "host"), ("2", "acquire", "host"))
    later = again.call_for(ALICE, ("DEL", "k", "host"))
    assert later is not None
    assert later.lease.grant_id == "2"


def test_a_key_that_is_kept_for_less_than_an_unstated_claim_is_the_cause() -> None:
    program = next(each for each in PROGRAMS if each.name == "contend")
    wrong = Setting("tests.locks_to_test.ordinary.with_asyncio:WrongUnit", {}, 1).trial(program)
    assert causes_of(wrong, "overlap")[0].kind == "wrong-expiry"


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lock_is_free_if_a_majority_of_the_nodes_that_it_uses_for_the_key_is(lost: int) -> None:
    """Of the three that it uses two cannot be reached: then it was not free, though three of five can be."""
    sharded = Setting("tests.locks_to_test.styles:Sharded", {}, 5, uses=3)
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, S_NS),)}
    alone = keep(sharded.with_clients(clients, (), demand=False))
    used = sorted({sent.node for call in alone.ledger.calls for sent in call.sent})
    assert len(used) == 3
    away = tuple(timed_fault(Crash, at_start(), nodes=(node,)) for node in used[:lost])
    kept = keep(sharded.with_clients(clients, away, demand=False))
    (call,) = (each for each in kept.ledger.calls if each.f == "acquire")
    assert kept.ledger.nodes_for(call) == set(used)
    assert call.how == ("ok" if lost == 1 else "fail")
    assert not [found for found in breaches(kept) if found.kind.effect == FAILS]


def test_a_shorter_extension_that_nodes_need_not_keep_is_one_that_counts_wrong() -> None:
    """The key lasts for longer already, so that no node changes anything: what is wrong is the claim."""
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 1 * S_NS, extends=1, extend_ttl_ns=1 * S_NS),)}
    setting = Setting("mutant:extension-adds-up", OPTIONS, 3).with_ttl(5 * S_NS)
    assert names(setting.with_clients(clients, ())) == {"false-validity": ["late-extension-deadline"]}


def test_a_refused_extension_is_no_cause_of_what_is_wrong_without_it_as_well() -> None:
    clients: dict[str, tuple[Round, ...]] = {ALICE: (Round(0, 13 * S_NS, extends=1),)}
    setting = Setting("mutant:believes-for-ever", OPTIONS, 3).with_ttl(5 * S_NS)
    assert names(setting.with_clients(clients, ()))["false-validity"] == ["ignores-deadline"]
