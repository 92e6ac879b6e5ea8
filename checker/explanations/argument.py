"""The argument behind a finding, in the steps of a proof: because …, however …, a contradiction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from checker.explanations.witness import shortest_witness, witness_rows
from checker.history.evidence import Evidence
from checker.history.history import History
from checker.history.operations import MISSING, NEVER, F, Status
from checker.verdict import Finding, Severity, Verdict
from checker.words import in_words


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a finding holds.

    `operations` are the sentences of the witness's operations that the argument needs, in order of their
    calls; `size` is the number of operations in the shortest witness, `of` how many the history has.
    `because`, `however` and `contradiction` are the argument.
    """

    finding: Finding
    size: int
    of: int
    operations: tuple[str, ...]
    because: tuple[str, ...]
    however: str
    contradiction: str

    def lines(self) -> Iterator[str]:
        """For people: one line each, without indentation."""
        name, key = self.finding.name, self.finding.key
        yield f"{name} on {key!r}: {self.size} of {self.of} operations suffice to show it"
        yield from (f"  {line}" for line in self.operations)
        for at, line in enumerate(self.because):
            yield f"{'because' if at == 0 else '    and'} {line}"
        yield f"however {self.however}"
        yield f"a contradiction: {self.contradiction}"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "finding": self.finding.name,
            "key": self.finding.key,
            "operations_in_witness": self.size,
            "operations_in_history": self.of,
            "operations": list(self.operations),
            "because": list(self.because),
            "however": self.however,
            "contradiction": self.contradiction,
        }


def explanations(history: History, verdict: Verdict, model: str | None = None) -> Iterator[Explanation]:
    """Explain every violation and warning of a verdict, in its order."""
    for finding in verdict.findings:
        if finding.severity is not Severity.INFORMATION:
            yield explain(history, finding, model)


def explain(history: History, finding: Finding, model: str | None = None) -> Explanation:
    """Find the shortest witness of a finding of this history, and argue from it."""
    witness = shortest_witness(history, finding, model)
    evidence = Evidence(witness, model or Evidence(history).model)
    rows = witness_rows(evidence, finding).tolist()
    argue = ARGUMENTS.get(finding.name, _plain)
    because, however, contradiction = argue(evidence, finding, rows)
    return Explanation(
        finding=finding,
        size=len(witness.ops),
        of=len(history.ops),
        operations=tuple(operation(evidence, row) for row in rows),
        because=tuple(because),
        however=however,
        contradiction=contradiction,
    )


def operation(evidence: Evidence, row: int) -> str:
    """One operation in words: who asked what, when, and what came back."""
    ops = evidence.ops
    status = Status(int(ops.status[row]))
    back = int(ops.return_ns[row])
    ended = {Status.OK: "ok", Status.FAIL: "failed", Status.INFO: "unknown"}[status]
    until = f"{ended} at {_at(evidence, back)}" if back < NEVER else "outcome unknown"
    events = "–".join(str(e) for e in dict.fromkeys((evidence.invocation(row), evidence.completion(row))))
    facts = [
        f"{name} {value}"
        for name, value in (
            ("fence", int(ops.fence[row])),
            ("read version", int(ops.version_read[row])),
            ("wrote version", int(ops.version_written[row])),
        )
        if value != MISSING
    ]
    if ops.ttl_ns[row] != MISSING:
        facts.append(f"TTL {in_words(int(ops.ttl_ns[row]))}")
    what = F(int(ops.f[row])).name.lower()
    more = f", {', '.join(facts)}" if facts else ""
    called = _at(evidence, ops.call_ns[row])
    return f"[{events}] {evidence.client(row)} {what}: called at {called}, {until}{more}"


def _at(evidence: Evidence, time_ns: int) -> str:
    """A stamp since time zero of the history, as exact as an argument about order needs it."""
    return f"{f'{(int(time_ns) - evidence.history.zero_ns) / 1e6:.3f}'.rstrip('0').rstrip('.')} ms"


Argument = tuple[list[str], str, str]


def _plain(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    """For findings whose sentence is the argument."""
    blamed = "a client that minds its lease does not do so"
    if finding.severity is Severity.VIOLATION:
        blamed = f"no {finding.details.get('model', 'lock')} that keeps its promise answers so"
    return [f"{len(rows)} operations were recorded as above"], finding.why, blamed


def _span(evidence: Evidence, row: int) -> tuple[int, int]:
    """The guaranteed window of the grant of an acquire, (0, 0) if there is none."""
    grant = int(evidence.grants.of(evidence.ops.grant[[row]])[0])
    mine = evidence.guaranteed.grant == grant
    if not mine.any():
        return 0, 0
    return int(evidence.guaranteed.start_ns[mine].min()), int(evidence.guaranteed.end_ns[mine].max())


def _acquires(evidence: Evidence, rows: list[int]) -> list[int]:
    return [row for row in rows if evidence.ops.f[row] == F.ACQUIRE]


def _hold(evidence: Evidence, row: int) -> str:
    """Until when a grant was guaranteed, and why."""
    start, end = _span(evidence, row)
    who, ttl = evidence.client(row), int(evidence.ops.ttl_ns[row])
    if end >= NEVER - evidence.params.epsilon_ns:
        return f"{who} held it from {_at(evidence, start)} on, and never called release"
    lease = (
        ""
        if ttl == MISSING
        else f" (a lease of {in_words(ttl)}, counted from its call, on any clock within the bound)"
    )
    return f"{who} held it at least from {_at(evidence, start)} to {_at(evidence, end)}{lease}"


def _overlap(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    first, *others = sorted(_acquires(evidence, rows), key=lambda row: _span(evidence, row)[0])
    start = max(_span(evidence, row)[0] for row in (first, *others))
    however = " and ".join(_hold(evidence, row) for row in others)
    return (
        [_hold(evidence, first)],
        however,
        f"at {_at(evidence, start)} {finding.key!r} was held by both, and a lock has one holder at a time",
    )


def _over_capacity(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    *before, last = sorted(_acquires(evidence, rows), key=lambda row: _span(evidence, row)[0])
    capacity = finding.details.get("capacity")
    room = "readers and a writer exclude each other" if capacity is None else f"there are {capacity} permits"
    return (
        [_hold(evidence, row) for row in before],
        _hold(evidence, last),
        f"from {_at(evidence, _span(evidence, last)[0])} on all of them held {finding.key!r}, and {room}",
    )


def _ordered_grants(evidence: Evidence, finding: Finding, rows: list[int], what: str, rule: str) -> Argument:
    first, second = sorted(_acquires(evidence, rows), key=lambda row: int(evidence.ops.return_ns[row]))[:2]
    ops = evidence.ops
    a, b = evidence.client(first), evidence.client(second)
    old, new = int(ops.fence[first]), int(ops.fence[second])
    after = ops.call_ns[second] >= ops.return_ns[first]
    asked = f"{b} asked at {_at(evidence, ops.call_ns[second])}, {'after that' if after else 'meanwhile'}"
    return (
        [f"{a} had been granted {finding.key!r} with {what} {old} by {_at(evidence, ops.return_ns[first])}"],
        f"{asked}, and was given {what} {new}",
        rule,
    )


_FENCES_GROW: Final = (
    "a later grant has a greater fence, or the resource cannot tell which of two holders is the later one"
)


def _overtaken(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    ops = evidence.ops
    first, second = sorted(_acquires(evidence, rows), key=lambda row: int(ops.call_ns[row]))[:2]
    a, b = evidence.client(first), evidence.client(second)
    queued = in_words(evidence.params.fifo_ns or 0)
    return (
        [
            f"{a} asked at {_at(evidence, ops.call_ns[first])}, and a request is queued within {queued}",
            f"{b} asked at {_at(evidence, ops.call_ns[second])}, later than that",
        ],
        f"{b} was granted it by {_at(evidence, ops.return_ns[second])}, {a} not before then",
        "the lock promises to be granted in the order of the requests",
    )


def _late_write(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    ops = evidence.ops
    writes = [row for row in rows if ops.f[row] in (F.WRITE, F.CAS)]
    grants = _acquires(evidence, rows)
    because = [
        f"{evidence.client(row)} was granted {finding.key!r} by {_at(evidence, ops.return_ns[row])}"
        for row in sorted(grants, key=lambda row: int(ops.return_ns[row]))
    ]
    late = max(writes, key=lambda row: (evidence.client(row) == finding.clients[0], int(ops.call_ns[row])))
    newer = [row for row in writes if row != late]
    because += [
        f"{evidence.client(row)}'s write under the later grant was accepted by "
        f"{_at(evidence, ops.return_ns[row])}"
        for row in newer
    ]
    stop = (
        "a store that checks fences must refuse the smaller one"
        if finding.name == "fence-breach"
        else "no write of an earlier holder may follow a later holder's; a checked fence would stop it"
    )
    called = _at(evidence, ops.call_ns[late])
    however = f"{evidence.client(late)}'s write under the earlier grant, called at {called}, was accepted too"
    return because, however, stop


def _lost_update(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    a, b = finding.clients[0], finding.clients[-1]
    version = finding.details.get("version_read")
    return (
        [f"{a} read version {version} of {finding.key!r} and wrote a change of it, which was accepted"],
        f"{b} read version {version} as well, and its change of it was accepted too",
        f"one of the two changes was made without the other, and is lost: {finding.why}",
    )


def _cycle(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    edges = [edge["why"] for edge in finding.details.get("edges", ())]
    *because, last = edges or [finding.why]
    return because, last, "each of these comes before the next, and the last before the first"


def _false_validity(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    ops = evidence.ops
    row = rows[-1]
    who, ttl = evidence.client(row), int(finding.details.get("ttl_ns") or 0)
    grant = int(evidence.grants.of(ops.grant[[row]])[0])
    asked = row if ops.f[row] != F.HELD or grant < 0 else int(evidence.grants.row[grant])
    claimed = finding.details.get("claimed_ns")
    said = "that it holds the lock" if claimed is None else f"that {in_words(claimed)} are left"
    return (
        [f"a lease of {in_words(ttl)} asked for at {_at(evidence, ops.call_ns[asked])}, ends by itself"],
        f"the lock said to {who} at {_at(evidence, ops.return_ns[row])} {said}",
        f"that is {in_words(int(finding.details.get('excess_ns') or 0))} more than any node keeps the key",
    )


def _continuity_loss(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    ops = evidence.ops
    extends = [row for row in rows if ops.f[row] == F.EXTEND]
    other = [row for row in _acquires(evidence, rows) if evidence.client(row) == finding.clients[-1]]
    a, b = finding.clients[0], finding.clients[-1]
    when = _at(evidence, ops.return_ns[other[-1]]) if other else "that time"
    called = _at(evidence, ops.call_ns[extends[-1]]) if extends else "a later time"
    return (
        [f"{b} had been granted {finding.key!r} by {when}, so {a}'s lease was over before"],
        f"{a}'s extension, called at {called}, succeeded",
        "an extension prolongs a lease that is still held; this one took the lock anew under an old name",
    )


def _refused(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    tries = [row for row in rows if evidence.ops.status[row] == Status.FAIL] or rows
    first, last = tries[0], tries[-1]
    over = min(int(evidence.ops.return_ns[last]), evidence.history.end_ns)
    span = f"from {_at(evidence, evidence.ops.call_ns[first])} to {_at(evidence, over)}"
    free = {"refused-with-room": "there was room for it", "unavailable": "no grant was surely held"}
    seen = free.get(finding.name, "nobody can have held it")
    return (
        [f"{seen} {span}: every grant of {finding.key!r} until then is in this witness"],
        f"{' and '.join(dict.fromkeys(finding.clients))} asked, and did not get it",
        finding.why,
    )


def _late_return(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    row = rows[-1]
    wait, took = int(finding.details["wait_ns"]), int(finding.details["took_ns"])
    return (
        [
            f"{evidence.client(row)} asked at {_at(evidence, evidence.ops.call_ns[row])}, "
            f"to wait for {in_words(wait)} at most"
        ],
        f"the call lasted {in_words(took)}, and neither the client nor the lab stood still for that long",
        "a try with a time-out comes back in time",
    )


def _deadlock(evidence: Evidence, finding: Finding, rows: list[int]) -> Argument:
    over_ns = finding.details["start_offset_ns"] + finding.details["lasted_ns"]
    return (
        [f"each of {' and '.join(finding.clients)} held a lock and waited for another"],
        finding.why,
        f"none of them could go on before {_at(evidence, evidence.history.zero_ns + over_ns)}",
    )


ARGUMENTS: Final[dict[str, Callable[[Evidence, Finding, list[int]], Argument]]] = {
    "overlap": _overlap,
    "belief-overlap": _plain,
    "over-capacity": _over_capacity,
    "continuity-loss": _continuity_loss,
    "not-linearizable": _plain,
    "false-validity": _false_validity,
    "stale-use": _plain,
    "unfenced-write": _late_write,
    "stale-write": _late_write,
    "fence-breach": _late_write,
    "fence-order": partial(_ordered_grants, what="fence", rule=_FENCES_GROW),
    "lost-update": _lost_update,
    "cycle": _cycle,
    "leak": _refused,
    "unavailable": _refused,
    "refused-with-room": _refused,
    "shared-term": partial(_ordered_grants, what="term", rule="a term has one leader"),
    "term-order": partial(_ordered_grants, what="term", rule="a later election has a later term"),
    "overtaken": _overtaken,
    "late-return": _late_return,
    "deadlock": _deadlock,
}
