"""What all checks share about one history: grants, accepted writes, pauses, and the words to tell them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, Final, TypeVar

import numpy as np

from checker.history.arrays import plus
from checker.history.attribution import Attribution, Forgotten
from checker.history.events import LAB, NEMESIS, Params
from checker.history.grants import Grants, grants_of, unnamed_releases, with_grants
from checker.history.history import History
from checker.history.masks import every, positions, some
from checker.history.operations import I64, MISSING, NEVER, NONE, F, Index, Operations, Status
from checker.history.renaming import Renaming, in_doubt, open_ends, renaming
from checker.history.sightings import Sightings
from checker.history.windows import Answers, Segments, believed, guaranteed
from checker.history.writes import Writes, accepted_writes, based_on
from checker.verdict import Cause, Finding, Property, Severity
from checker.words import instant

T = TypeVar("T")
KEPT_MAX: Final = 100_000
"""Up to so many operations, all that was derived of a history is kept; beyond, memory counts for more."""
LISTED_MAX: Final = 10
"""How many findings of one name a verdict lists; `count` in the details tells how many there are."""
PAUSES: Final = frozenset(("pause", "stop"))
KILLS: Final = frozenset(("kill", "killed", "crash", "crashed"))
"""Words in the name of a fault after which its targets are dead."""


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start_ns` to `end_ns`, `NEVER` if it does not end."""

    start_ns: int
    end_ns: int


class Evidence:
    """A history prepared for the checks; everything is derived once, on first use.

    With `by_process` a release is of what its own process acquired last, unless the record says otherwise.
    """

    def __init__(self, history: History, model: str | None = None, *, by_process: bool = False) -> None:
        self.history = history
        self.by_process = by_process
        self.params: Params = history.params
        self.model: str = model or self.params.model or _likely_model(history.ops)
        self.ops: Operations = with_grants(history.ops)
        self.derived: dict[Callable[..., Any], Any] = {}
        """What the functions marked `derived` made of it."""

    @property
    def of_a_lock_alone(self) -> bool:
        """Whether the record is of a lock that protects nothing which is recorded.

        A lease that the lab recorded is expected to protect something: there it is a hole in the record.
        """
        if self.model == "lease" and self.history.has_header and not self.history.clocks:
            return False
        f = self.ops.f
        return not some((f == F.READ) | (f == F.WRITE) | (f == F.CAS))

    @property
    def nested(self) -> bool:
        """Whether one client may hold a key several times over."""
        return self.model.startswith("reentrant")

    @cached_property
    def _accepted(self) -> tuple[Writes, Grants]:
        grants = grants_of(self.ops, unnamed_releases(self.history.ops))
        return accepted_writes(self.history, self.ops, grants)

    @cached_property
    def renamed(self) -> Renaming | None:
        """Which processes may go on for the client of another, as far as the record leaves it open."""
        return renaming(self.history.ops)

    def open_ends(self, acquires: Index) -> tuple[I64, Index]:
        """`checker.history.renaming.open_ends` of some acquires; nothing with `by_process`."""
        if self.by_process:
            return np.full(acquires.size, NEVER, np.int64), np.full(acquires.size, NONE, np.int64)
        return open_ends(self.history.ops, self.ops, acquires)

    @cached_property
    def _open(self) -> tuple[I64, Index]:
        return self.open_ends(self.grants.row)

    @property
    def open_ns(self) -> I64:
        """From when on each grant may be gone though its process did not release it; `NEVER` if never."""
        return np.minimum(self._open[0], self.gap_ns)

    @cached_property
    def gap_ns(self) -> I64:
        """From when on it is not recorded what was done under each grant; `NEVER` if all is."""
        grants, ops = self.grants, self.ops
        begins = np.full(len(grants), NEVER, np.int64)
        for gap in self.history.gaps:
            begun = np.where(grants.held, grants.acquired_ns, grants.called_ns)
            affected = begun <= (gap.start_ns if gap.end_ns >= NEVER else gap.end_ns)
            if gap.clients is not None:
                codes = [code for code, name in enumerate(ops.names.client) if name in gap.clients]
                affected &= np.isin(grants.client, codes)
            begins[affected] = np.minimum(begins[affected], gap.start_ns)
        return begins

    def open_why(self) -> str | None:
        """Why it is open when a grant ended, although the record seems to say it; None if it is not."""
        by = self._open[1]
        by = by[by != NONE]
        return in_doubt(self.ops, self.renamed, int(by[0]), self.at) if by.size else None

    @property
    def writes(self) -> Writes:
        """The accepted writes."""
        return self._accepted[0]

    @cached_property
    def based_on(self) -> I64:
        """The version that each accepted write was based on, `MISSING` for blind writes."""
        return based_on(self.writes)

    @property
    def grants(self) -> Grants:
        """The grants, certain ones marked as held."""
        return self._accepted[1]

    @cached_property
    def sightings(self) -> Sightings:
        """What was seen of keys on the nodes."""
        return Sightings(self.history)

    @cached_property
    def began_ns(self) -> I64:
        """Before which instant each grant surely was not made, shape (number of grants,).

        The call of its acquire, or the instant before which a majority was not seen to have its token.
        """
        began = self.grants.called_ns.copy()
        if self.history.nodes:
            for g in positions(self.grants.held & (self.grants.token != NONE)).tolist():
                token, called_ns = str(self.ops.names.token[int(self.grants.token[g])]), int(began[g])
                made_ns = self.sightings.began_ns(self.key(int(self.grants.key[g])), token, called_ns)
                began[g] = min(made_ns, int(self.grants.acquired_ns[g]))
        return began

    @cached_property
    def guaranteed(self) -> Segments:
        """The segments of G; those without TTL end where a client was killed."""
        open_ends_ns = np.minimum(self.open_ns, self._given_up_ns())
        return guaranteed(self.grants, self.params, self._deaths_ns, open_ends_ns)

    @cached_property
    def believed(self) -> Segments:
        """The segments of B, cut where a client was killed."""
        ends_ns = np.minimum(self._deaths_ns, self.gap_ns)
        return believed(self.grants, self.params, ends_ns, self._answers())

    @cached_property
    def _deaths_ns(self) -> I64:
        """When the client of each grant was killed, at the earliest; `NEVER` if it was not."""
        ends = np.full(len(self.grants), NEVER, np.int64)
        for code, death_ns in self.killed:
            theirs = (self.grants.client == code) & (self.grants.called_ns <= death_ns)
            ends[theirs] = np.minimum(ends[theirs], death_ns)
        return ends

    @cached_property
    def killed(self) -> list[tuple[int, int]]:
        """Clients (codes) that the nemesis set out to kill, and when: since then each may have been dead.

        Nodes are no clients, so that only a kill or crash of a client counts. Other tools write no
        invocation of the nemesis and name the targets in the value.
        """
        faults = self.history.faults
        paired = {at for fault in faults for at in (fault.start_ns, fault.receipt_ns)}
        found = [(fault.f, fault.start_ns, fault.targets or (fault.target,)) for fault in faults]
        found = [kill for kill, fault in zip(found, faults, strict=True) if fault.heals is None]
        found += [
            (event.f, event.time_ns, tuple(_names(event.targets or event.target or event.value)))
            for _, event in self.history.others
            if event.process == NEMESIS and event.type != "invoke" and event.time_ns not in paired
        ]
        return [
            (code, time_ns)
            for f, time_ns, targets in found
            if is_kill(f)
            for code in self._client_codes(targets)
        ]

    def _given_up_ns(self) -> I64:
        """When each grant's client called an extension that failed and ended its belief, `NEVER` if none did.

        A lock may give back what it could not extend, if it says so. That counts where the client was told
        before its lease would have been over, and did not say afterwards that it holds the lock.
        """
        grants, said = self.grants, self._answers()
        given_up_ns = np.full(len(grants), NEVER, np.int64)
        if not (said.extends & ~said.yes).any():
            return given_up_ns
        extensions, deadline_ns = grants.extensions, plus(grants.called_ns, grants.ttl_ns)
        done = extensions.status == Status.OK
        until_ns = plus(extensions.call_ns[done], extensions.ttl_ns[done])
        np.maximum.at(deadline_ns, extensions.grant[done], until_ns)
        last_yes_ns = np.full(len(grants), MISSING, np.int64)
        np.maximum.at(last_yes_ns, said.grant[said.yes], said.returned_ns[said.yes])
        gone = said.extends & ~said.yes & (said.returned_ns < deadline_ns[said.grant])
        gone &= said.returned_ns > last_yes_ns[said.grant]
        np.minimum.at(given_up_ns, said.grant[gone], said.called_ns[gone])
        return given_up_ns

    def _answers(self) -> Answers:
        """What `held` answered, and what clients whose extension did not succeed still believed."""
        ops = self.ops
        extended = ops.rows(F.EXTEND)
        rows = np.concatenate([ops.rows(F.HELD, Status.OK), extended[ops.status[extended] != Status.OK]])
        grant = self.grants.of(ops.grant[rows])
        if not rows.size:
            return Answers(grant, rows < 0, rows < 0, rows, rows, rows)
        said = np.zeros(len(ops.names.value) + 1, np.bool_)  # of perhaps millions of values, few
        said[ops.value[rows]] = True
        codes = {str(ops.names.value[code]): code for code in positions(said[:-1]).tolist()}
        yes, no = (ops.value[rows] == codes.get(word, MISSING) for word in ("yes", "no"))
        known = (grant != NONE) & (yes | no)
        rows, grant, yes = rows[known], grant[known], yes[known]
        returned, claimed = np.minimum(ops.return_ns[rows], ops.info_ns[rows]), ops.claimed_ns[rows]
        until = returned + np.maximum(claimed, 0)  # an absent claim is negative
        return Answers(grant, ops.f[rows] == F.EXTEND, yes, ops.call_ns[rows], returned, until)

    def prepare(self) -> None:
        """Derive what most checks ask for, so that two at the same time need not both derive it."""
        for _ in (self._accepted, self._open, self.guaranteed):
            pass

    def forget_windows(self) -> None:
        """Free the memory of G and B (12 bytes per operation); they are computed again when asked for."""
        if len(self.ops) > KEPT_MAX:
            self.__dict__.pop("guaranteed", None)
            self.__dict__.pop("believed", None)

    def pauses(self) -> dict[str, list[Interval]]:
        """When the nemesis let somebody stand still, by name."""
        found: dict[str, list[Interval]] = {}
        for fault in self.history.faults:
            if fault.f in PAUSES and fault.heals is None:
                for name in fault.targets:
                    found.setdefault(name, []).append(Interval(fault.start_ns, fault.until_ns))
        return found

    def standstills(self, clients: Iterable[str]) -> list[Interval]:
        """When any of these (client names, or "lab") stood still: pauses by the nemesis and stalls."""
        names = set(clients)
        pauses = [interval for name, theirs in self.pauses().items() if name in names for interval in theirs]
        stalls = [Interval(s.start_ns, s.end_ns) for s in self.history.stalls if s.client in names]
        return sorted(pauses + stalls, key=lambda i: i.start_ns)

    def still_ns(self, rows: Index, end: I64) -> I64:
        """For how long, at most, the client of each operation or the lab stood still, from call to `end`."""
        total = np.zeros(rows.size, np.int64)
        call = self.ops.call_ns[rows]
        for code, name in enumerate(self.ops.names.client):
            theirs = self.ops.client[rows] == code
            if some(theirs):
                for interval in self.standstills((name, LAB)):
                    shared = np.minimum(interval.end_ns, end) - np.maximum(interval.start_ns, call)
                    total += np.where(theirs, np.maximum(shared, 0), 0)
        return total

    def _client_codes(self, names: Sequence[str]) -> list[int]:
        return [code for code, name in enumerate(self.ops.names.client) if name in names]

    # -- words --------------------------------------------------------------------------------------------

    def at(self, time_ns: int) -> str:
        """A stamp in words: seconds since time zero of the history."""
        return instant(int(time_ns) - self.history.zero_ns)

    def client(self, row: int) -> str:
        """The client of an operation."""
        return str(self.ops.name("client", row))

    def key(self, code: int) -> str | None:
        """The name of a key."""
        return None if code < 0 else self.ops.names.key[code]

    def holder(self, grant: int) -> str:
        """The client that got a grant."""
        return self.client(int(self.grants.row[grant]))

    def completion(self, row: int) -> int:
        """The event by which an operation is best pointed at: its completion, else its invocation."""
        done = int(self.ops.return_index[row])
        return done if done != NONE else int(self.ops.call_index[row])

    def invocation(self, row: int) -> int:
        """The event that invoked an operation."""
        return int(self.ops.call_index[row])

    def finding(
        self,
        name: str,
        property: Property,
        severity: Severity,
        why: str = "",
        *,
        key: int,
        headline: str = "",
        evidence: Sequence[str] = (),
        cause: Cause | None = None,
        witnesses: Iterable[int],
        clients: Iterable[str] = (),
        forgotten: Forgotten | None = None,
        **details: Any,
    ) -> Finding:
        """A finding on a key (by code); all but mere information name the assumption broken before.

        Either `why` is the whole sentence, or `headline` and the lines of `evidence` make it up. `forgotten`
        is what nodes must have forgotten, where the finding is that they did; `cause` is what was seen of it.
        """
        events = tuple(sorted(set(witnesses)))
        involved = tuple(dict.fromkeys(clients))
        broken = None
        if severity is not Severity.INFORMATION:
            broken = self._attribution.broken_assumption(events, involved, forgotten)
        return Finding(
            name=name,
            property=property,
            severity=severity,
            why=why or f"{headline}: {'; '.join(evidence)}",
            headline=headline or why,
            evidence=tuple(evidence),
            cause=cause,
            key=self.key(key),
            witnesses=events,
            details=details,
            clients=involved,
            broken_assumption=None if broken is None else broken[0],
            fault=None if broken is None else broken[1].index,
        )

    @cached_property
    def _attribution(self) -> Attribution:
        return Attribution(self.history, self.client_names, self.at)

    def forgotten(self, g: int, h: int) -> Forgotten:
        """What nodes must have forgotten of the earlier grant when they made the later one."""
        token = [self.ops.name("token", int(self.grants.row[grant])) for grant in (g, h)]
        return Forgotten(
            self.key(int(self.grants.key[g])),
            int(self.grants.called_ns[g]),
            int(self.grants.acquired_ns[h]),
            frozenset(token) - {None},
        )

    @cached_property
    def client_names(self) -> frozenset[str]:
        """All clients that the header or an operation names."""
        return frozenset((*self.params.clients, *self.ops.names.client))


def is_kill(f: str) -> bool:
    """Whether a fault kills its targets: `client_crash`, `kill`, `crash-client`, …"""
    return not KILLS.isdisjoint(re.split(r"\W|_", f.lower()))


def _names(value: Any) -> Iterator[str]:
    """The names in a value of the nemesis: a name, names in a list, or the keys of a map."""
    if isinstance(value, str | int):
        yield str(value)
    elif isinstance(value, list | tuple | dict):
        for one in value:
            yield from _names(one)


def derived(derive: Callable[[Evidence], T]) -> Callable[[Evidence], T]:
    """Mark what several checks ask for: of a history of at most `KEPT_MAX` operations it is made once.

    Nobody may change what it returns.
    """

    @wraps(derive)
    def of(evidence: Evidence) -> T:
        if derive in evidence.derived:
            return evidence.derived[derive]  # type: ignore[no-any-return]
        made = derive(evidence)
        if len(evidence.ops) <= KEPT_MAX:
            evidence.derived[derive] = made
        return made

    return of


def _likely_model(ops: Operations) -> str:
    """The model that claims least: a lock is taken for a lease if its grants are named or expire.

    Where nobody ever asks for a lock and accesses carry no versions, the history is that of a register.
    """
    acquires = ops.rows(F.ACQUIRE)
    if acquires.size:
        named = some(ops.grant[acquires] != NONE) or some(ops.ttl_ns[acquires] != MISSING)
        return "lease" if named else "mutex"
    accesses = (ops.f == F.READ) | (ops.f == F.WRITE) | (ops.f == F.CAS)
    versioned = (ops.version_read != MISSING) | (ops.version_written != MISSING)
    return "cas-register" if len(ops) and every(accesses) and not some(versioned) else "lease"


def limited(findings: list[Finding], count: int) -> list[Finding]:
    """The findings with the true number of such noted in each, if there are more than are listed."""
    if count <= len(findings):
        return findings
    return [replace(f, details={**f.details, "count": count}) for f in findings]


def latest(stamps: I64) -> int:
    """The last of some stamps that are not `NEVER`; `MISSING` if there is none."""
    return int(stamps[stamps < NEVER].max(initial=MISSING))
