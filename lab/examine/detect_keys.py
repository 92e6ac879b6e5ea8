"""Causes that show in what commands did to keys: whose was deleted, replaced or prolonged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from checker.words import listed
from lab.examine.detect_requests import set_after_undo
from lab.examine.detector import NOUNS, Cause, grouped, purpose, said, who, whose
from lab.examine.evidence import MS_NS, NEVER, Evidence, Operation
from lab.search.trial import KEY
from lab.search.watch import Executed

LOOKING: Final = ("GET", "HGET", "HEXISTS", "HGETALL")
"""Commands that read what is compared."""
CONDITIONS: Final = ("IFEQ", "IFNE", "IFDEQ", "IFDNE")
"""Words of a command that make it depend on the value of its key."""
COMPARING: Final = ("DELIFEQ",)
"""Commands that always do."""
AT_ONCE_MS: Final = 10
"""A key that is given no more time than this is as good as deleted."""


def deletes_others(evidence: Evidence) -> Iterator[Cause]:
    """A command that deletes a value that only other clients, or an earlier grant, have set."""
    hits: list[tuple[Executed, str]] = []
    for entry in evidence.outcome.commands:
        for key, old, new in entry.changes():
            if old is None or new is not None or not _is_lock(key, old):
                continue
            owners = evidence.writers.get(old, set())
            if owners and (entry.client not in owners or _is_of_another_attempt(evidence, entry, old)):
                hits.append((entry, ", ".join(sorted(owners))))
        hits += [(entry, owner) for owner in _expired_by(evidence, entry)]
    for entry, owner, nodes in grouped(evidence, hits):
        own = " own earlier" if owner == entry.client else ""
        seen = (
            f"{whose(entry.client)} {purpose(evidence, entry)} at {evidence.at(entry.time_ns)} deleted "
            f"{whose(owner)}{own} key on {listed(nodes)}: "
        )
        if _compared(evidence, entry):
            token = "the token of that lease" if own else f"{whose(owner)} token"
            seen += f"it sent {token} to compare the key with"
            yield Cause("others-token", seen, entry)
        else:
            yield Cause("deletes-others-key", seen + how_it_looked(evidence, entry), entry)


def how_it_looked(evidence: Evidence, entry: Executed) -> str:
    """A command, and what was seen of a look at the value of its key before it."""
    if condition := next((word for word in entry.words[2:] if word.upper() in CONDITIONS), None):
        return f"{said(entry)} with {condition.upper()}, given the value that was there"
    looks = _looks_before(evidence, entry)
    if entry.in_script and any(each.sent is entry.sent for each in looks):
        return f"{said(entry)} that looks at the value, and goes on though it is that of another lease"
    if looks:
        last = looks[-1]
        return (
            f"{said(entry)}, {_ms(entry.time_ns - last.time_ns)} after a {last.name} by the same operation: "
            "the key may be another one by then"
        )
    return f"{said(entry)} without a look at the value"


def _looks_before(evidence: Evidence, entry: Executed) -> list[Executed]:
    """The looks at the value of a command's key on its node, before it and by the same operation."""
    operation = evidence.operation_of(entry)
    keys = {key for key, old, new in entry.changes()} or {*entry.words[1:2]}
    found = []
    for each in evidence.outcome.commands:
        if each is entry:
            break
        same = (each.node, each.client) == (entry.node, entry.client)
        looks = same and each.name in LOOKING and bool(keys & {*each.words[1:2]})
        near = each.sent is entry.sent or (operation is not None and evidence.operation_of(each) is operation)
        if looks and near:
            found.append(each)
    return found


def _ms(span_ns: int) -> str:
    return f"{span_ns / MS_NS:.1f} ms"


def _compared(evidence: Evidence, entry: Executed) -> bool:
    """Whether it was given a value to compare the key with, and that value was there.

    By its own condition, or by a script that looked at the value, which is among what the client had sent.
    """
    there = {key: value for key, (value, _) in entry.before.items()}
    if entry.name in COMPARING or any(word.upper() in CONDITIONS for word in entry.words[2:]):
        return bool({*there.values()} & {*entry.words[2:]})
    if not entry.in_script or entry.sent is None:
        return False
    looked = {
        word
        for each in evidence.outcome.commands
        if each.sent is entry.sent and each.in_script and each.name in LOOKING
        for word in each.words[1:2]
    }
    return any(key in looked and value in entry.sent.words for key, value in there.items())


def _expired_by(evidence: Evidence, entry: Executed) -> Iterator[str]:
    """Whose keys this command of another client lets expire at once."""
    for key, (value, left_ms) in entry.after.items():
        before, owners = entry.before.get(key), evidence.writers.get(value, set())
        if before is None or before[0] != value or left_ms is None or not owners or entry.client in owners:
            continue
        if left_ms <= AT_ONCE_MS and (before[1] is None or before[1] > 10 * AT_ONCE_MS):
            yield ", ".join(sorted(owners))


def _is_of_another_attempt(evidence: Evidence, entry: Executed, value: str) -> bool:
    """Whether an acquire deletes what an earlier call of its client's had set."""
    operation = evidence.operation_of(entry)
    if operation is None or operation.f != "acquire":
        return False
    first = next(e for e in evidence.outcome.commands if any(new == value for _, _, new in e.changes()))
    return first.time_ns < operation.called_ns


def _is_lock(key: str, value: str) -> bool:
    return not value.lstrip("-").isdigit() or key == KEY


def overwrites(evidence: Evidence) -> Iterator[Cause]:
    """A command that replaces a value of another client, or of an earlier grant."""
    hits: list[tuple[Executed, str]] = []
    for entry in evidence.outcome.commands:
        for key, old, new in entry.changes():
            owners = evidence.writers.get(old or "", set())
            if not old or not new or not owners or _both_numbers(key, old, new):
                continue
            if entry.client not in owners or purpose(evidence, entry) == "acquire":
                hits.append((entry, ", ".join(sorted(owners))))
    for entry, owner, nodes in grouped(evidence, hits):
        why = purpose(evidence, entry)
        own = " own earlier" if owner == entry.client else ""
        seen = (
            f"{whose(entry.client)} {NOUNS.get(why, why)} at {evidence.at(entry.time_ns)} replaced "
            f"{whose(owner)}{own} key on {listed(nodes)}: {how_it_looked(evidence, entry)}"
        )
        yield Cause("extends-others-key" if why == "extend" else "overwrites-key", seen, entry)


def _both_numbers(key: str, old: str, new: str) -> bool:
    return key != KEY and old.isdigit() and new.isdigit()


def recreates(evidence: Evidence) -> Iterator[Cause]:
    """A key that is set in an extension where it was gone."""
    hits: list[tuple[Executed, str]] = []
    for entry in evidence.outcome.commands:
        if purpose(evidence, entry) == "extend":
            hits += [(entry, "") for _, old, new in entry.changes() if old is None and new is not None]
    for entry, _, nodes in grouped(evidence, hits):
        operation = evidence.operation_of(entry)
        if operation is not None and operation.f == "extend":
            seen = (
                f"{whose(entry.client)} extension at {evidence.at(entry.time_ns)} set the key anew on "
                f"{listed(nodes)}, where it was gone"
            )
            yield Cause("recreates-key", seen, entry)


def extends_others(evidence: Evidence) -> Iterator[Cause]:
    """A command that gives another client's key more time; or a refused acquire's, that of an earlier one."""
    hits: list[tuple[Executed, str]] = []
    for entry in evidence.outcome.commands:
        for key, (value, left_ms) in entry.after.items():
            before = entry.before.get(key)
            owners = evidence.writers.get(value, set())
            if before is None or before[0] != value or not owners:
                continue
            longer = before[1] is not None and (left_ms is None or left_ms > before[1])
            if longer and (entry.client not in owners or _is_refused_anew(evidence, entry, value)):
                hits.append((entry, ", ".join(sorted(owners))))
    for entry, owner, nodes in grouped(evidence, hits):
        why = purpose(evidence, entry)
        own = " own earlier" if owner == entry.client else ""
        seen = (
            f"{whose(entry.client)} {NOUNS.get(why, why)} at {evidence.at(entry.time_ns)} prolonged "
            f"{whose(owner)}{own} key on {listed(nodes)}: {how_it_looked(evidence, entry)}"
        )
        yield Cause("extends-others-key", seen, entry)


def _is_refused_anew(evidence: Evidence, entry: Executed, value: str) -> bool:
    """Whether an acquire that is refused sent a command, and the value of the key is of an earlier call."""
    since_ns = entry.time_ns if entry.sent is None else entry.sent.since_ns
    operation = evidence.operation_at(entry.client, since_ns)
    refused = operation is not None and operation.f == "acquire" and operation.how == "fail"
    return refused and _is_of_another_attempt(evidence, entry, value)


def same_token(evidence: Evidence) -> Iterator[Cause]:
    """One value that two clients set, or tried to set."""
    for value, clients in evidence.writers.items():
        both = clients | {c for c in evidence.tried.get(value, ()) if c}
        if len(both) > 1 and not value.isdigit() and _was_tried_by_all(evidence, value, both):
            seen = f"{listed(sorted(map(who, both)))} use the same value {value[:24]!r} for the key"
            yield Cause("same-token", seen)
    yield from _set_again(evidence)
    numbers = [value for value, clients in evidence.writers.items() if len(clients) > 1 and value.isdigit()]
    for value in numbers:
        if _sets_key_to(evidence, value):
            yield Cause("same-token", f"several clients set the key to the same value {value!r}")


def _set_again(evidence: Evidence) -> Iterator[Cause]:
    """Tries of one client that set the same value, where what was to delete one's key deletes the other's."""
    first: dict[tuple[str, tuple[str, ...]], Executed] = {}
    for entry in evidence.outcome.commands:
        if entry.in_script or entry.name not in ("SET", "SETNX") or purpose(evidence, entry) != "acquire":
            continue
        earlier = first.setdefault((entry.node, entry.words), entry)
        if earlier is not entry and _deletes_for_another(evidence, entry):
            tries = " and ".join(evidence.at(each.time_ns) for each in (earlier, entry))
            value = entry.words[2][:24]
            seen = f"{whose(entry.client)} tries at {tries} set the same value {value!r}"
            yield Cause("same-token", seen, earlier)


def _deletes_for_another(evidence: Evidence, again: Executed) -> bool:
    """Whether a key whose value was set again was deleted by what belongs to another try than the key."""
    value, setting = again.words[2], again
    for entry in evidence.of_node(again.node):
        changed = [(old, new) for _, old, new in entry.changes() if value in (old, new)]
        if any(new == value for _, new in changed):
            setting = entry
        elif changed and entry.client == again.client:
            by, of = evidence.operation_of(entry), evidence.operation_of(setting)
            if entry.sent_ns < setting.sent_ns or (by and of and by.grant_id != of.grant_id):
                return True
    return False


def _was_tried_by_all(evidence: Evidence, value: str, clients: set[str]) -> bool:
    """Whether each of them sent it in a command that sets a key, and not in one that only compares it."""
    setters = {
        entry.client
        for entry in evidence.outcome.commands
        if value in entry.words[2:3] and entry.name in ("SET", "SETNX", "GETSET", "HSETNX", "HSET")
    } | {
        entry.client
        for entry in evidence.outcome.commands
        if not entry.in_script
        and value in entry.words
        and entry.name in ("EVAL", "EVALSHA")
        and purpose(evidence, entry) == "acquire"
    }
    return clients <= setters or len(setters) > 1


def _sets_key_to(evidence: Evidence, value: str) -> bool:
    clients = {
        entry.client
        for entry in evidence.outcome.commands
        if any(key == KEY and new == value for key, _, new in entry.changes())
    }
    return len(clients) > 1


def ends_early(evidence: Evidence) -> Iterator[Cause]:
    """A key that its own client's command deletes, or shortens, while its lease lasts."""
    hits: list[tuple[Executed, str]] = []
    for grant in evidence.grants():
        release = evidence.release_of(grant.grant_id)
        until_ns = min(release.called_ns if release is not None else NEVER, evidence.until_ns(grant))
        for entry in evidence.outcome.commands:
            if entry.client == grant.client and grant.ended_ns <= entry.time_ns < until_ns - 5 * MS_NS:
                hits += [
                    (entry, grant.grant_id)
                    for key, old, new in entry.changes()
                    if old is not None and new is None and grant.client in evidence.writers.get(old, ())
                ]
    for entry, _, nodes in grouped(evidence, hits):
        seen = (
            f"{who(entry.client)} gave its own key away on {listed(nodes)} at {evidence.at(entry.time_ns)} "
            f"({said(entry)}) while its lease lasted"
        )
        yield Cause("ends-lease-early", seen, entry)


def refused_by_own(evidence: Evidence) -> Iterator[Cause]:
    """A client whose key is there already, by a command of the same acquire that was not answered."""
    for operation, entry, first_ns in own_refusals(evidence):
        # What a script answers is not known here.
        met = "met" if entry.name.startswith("EVAL") else "was refused by"
        seen = (
            f"{whose(operation.client)} {entry.name} at {evidence.at(entry.time_ns)} {met} its own key on "
            f"{entry.node}, which it had set at {evidence.at(first_ns)}"
        )
        yield Cause("leaves-keys", seen, entry)


def refused_by_earlier_try(evidence: Evidence) -> Iterator[Cause]:
    """A try that is refused by the key of an earlier one of its acquire, which nothing was sent to undo.

    What was sent may have overtaken it, on another connection: that is no such key.
    """
    overtaken = {id(setting) for setting, _, _ in set_after_undo(evidence)}
    own: dict[tuple[str, int, str], tuple[Executed, str]] = {}
    for entry in evidence.outcome.commands:
        operation = evidence.operation_of(entry)  # it may be executed when the next one has begun
        if operation is None or operation.f != "acquire" or entry.in_script:
            continue
        where = (entry.client, operation.called_ns, entry.node)
        earlier, value = own.get(where, (None, ""))
        if earlier is not None and value in entry.words:
            del own[where]  # it compares
        elif earlier is not None and entry.name == earlier.name and _still_has(entry, value):
            seen = (
                f"{whose(entry.client)} {entry.name} at {evidence.at(entry.time_ns)} was refused on "
                f"{entry.node} by the key of its own try at {evidence.at(earlier.time_ns)}, and nothing "
                "was sent to undo that"
            )
            yield Cause("leaves-keys", seen)
        for _, old, new in entry.changes():
            if old is None and new is not None and new in entry.words and id(entry) not in overtaken:
                own[where] = entry, new


def _still_has(entry: Executed, value: str) -> bool:
    """Whether a command changed no key, and one of them has this value."""
    return not entry.changes() and any(there == value for there, _ in entry.before.values())


def own_refusals(evidence: Evidence) -> Iterator[tuple[Operation, Executed, int]]:
    """The acquires of which a command was repeated and met the key that it had set, and when that was."""
    first: dict[tuple[int, str, tuple[str, ...]], Executed] = {}
    for entry in evidence.outcome.commands:
        operation = evidence.operation_of(entry)
        if operation is None or operation.f != "acquire" or entry.in_script:
            continue
        earlier = first.setdefault((operation.called_ns, entry.node, entry.words), entry)
        there = {value for value, _ in entry.before.values()} - {
            value for value, _ in earlier.before.values()
        }
        # A command that names the key: a client's name, as HELLO sends it, may be a value as well.
        names_key = any(key in entry.words for key, (value, _) in entry.before.items() if value in there)
        if earlier is not entry and names_key and there & {*entry.words}:
            yield operation, entry, earlier.time_ns


def renews_after_release(evidence: Evidence) -> Iterator[Cause]:
    """A key that is set or prolonged for a client after its release had come back."""
    tokens = {grant.grant_id: grant.event.get("token") for grant in evidence.grants()}
    for release in evidence.operations:
        if release.f != "release" or release.how == "open":
            continue
        token = tokens.get(release.grant_id)
        later = [each.called_ns for each in evidence.operations if each.client == release.client]
        until_ns = min((at for at in later if at > release.called_ns), default=NEVER)
        for entry in evidence.outcome.commands:
            if entry.client != release.client or entry.time_ns - release.ended_ns <= MS_NS:
                continue
            longer = {
                value
                for key, (value, left) in entry.after.items()
                if left is not None and (entry.before.get(key, ("", 0))[1] or 0) + 1 < left
                if entry.client in evidence.writers.get(value, {entry.client})
            }
            asks_anew = any(
                each.f == "acquire"
                and each.client == release.client
                and each.called_ns <= entry.sent_ns <= each.ended_ns
                for each in evidence.operations
            )
            if not asks_anew and (token in longer or (longer and entry.time_ns < until_ns)):
                seen = (
                    f"{whose(entry.client)} {entry.name} at {evidence.at(entry.time_ns)} renewed the key "
                    f"on {entry.node} after its release had ended at {evidence.at(release.ended_ns)}"
                )
                yield Cause("renews-after-release", seen, entry)
