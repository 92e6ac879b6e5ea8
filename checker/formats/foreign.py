"""Histories of other tools: their names, keys and values put into the terms of this checker.

A history without a header was not written here, so four things are looked for, and each is told in the
history's `notes`:

* Operations of other names. `Reading.names` maps them; without it `SYNONYMS` holds.
* Tuples of `jepsen.independent`, `[key value]`: each operation is on the object that its value names. A plain
  compare-and-set `[old new]` looks alike, and so do registers whose values are lists. Every *invocation*
  must have a key before values are taken apart, and nothing may contradict it; where some have one and
  others have none, it is not guessed (`HistoryError`), as the wrong guess accuses. One register of pairs
  that is taken for a register by first element is never accused for it: of the operations on pairs with one
  first element, reads see the last write.
* `[key old new]`, a compare-and-set that names its key.
* Fields in a map that is the value, such as `{:fence 2}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from checker.errors import HistoryError
from checker.history.events import ABSENT, RESERVED, STALL
from checker.history.operations import F_NAMES

SYNONYMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("lock", "try_lock", "trylock", "try_acquire"), "acquire"),
    **dict.fromkeys(("renew", "refresh", "keep_alive"), "extend"),
    "unlock": "release",
    "get": "read",
    "put": "write",
    **dict.fromkeys(("compare_and_set", "compare_and_swap"), "cas"),
}
"""Names of operations that mean the same everywhere, in lower case and with `_` for `-`."""
LIFTED: Final = frozenset(("fence", "token", "key", "grant_id", "ttl_ns", "claimed_ns", "deadline_ns"))
"""Fields that are taken out of a value that is a map."""
_DECIDE: Final = (
    "say --independent if the first element of each value is the key of an object of its own "
    "(jepsen.independent), --no-independent if it is not"
)
Form = dict[Any, Any]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a history of another tool is read.

    `names` maps names of operations to those of this checker. `independent` says whether values are pairs of
    `jepsen.independent`; None: whatever the history shows, if it shows it.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    independent: bool | None = None

    @property
    def stated(self) -> bool:
        """Whether anything is asked for, which only a history of another tool can take."""
        return bool(self.names) or self.independent is not None


AS_IT_IS: Final = Reading()
"""Nothing is asked for: names and keys are what the history shows."""


def require_foreign(reading: Reading) -> None:
    """Raises `HistoryError`: the history was written here, and needs no such reading."""
    if reading.stated:
        raise HistoryError(
            "saw a history with a header, whose names and keys are known",
            field="map" if reading.names else "independent",
            hint="leave --map, --independent and --no-independent out",
        )


def names_of(text: str) -> dict[str, str]:
    """A mapping from words such as `lock=acquire,renew=extend`.

    Raises:
        HistoryError: no such words, or a name that no operation has.
    """
    names: dict[str, str] = {}
    for part in text.split(","):
        name, equals, meant = (word.strip().lstrip(":") for word in part.partition("="))
        if not (name and equals) or meant not in F_NAMES:
            raise HistoryError(
                f"saw {part!r}, expected NAME=OPERATION, and an operation of {', '.join(F_NAMES)}",
                field="map",
                hint="for example --map lock=acquire,renew=extend",
            )
        names[name] = meant
    return names


def adapted_alone(form: Form, line: int, reading: Reading) -> Form:
    """One form of a history of which no more is known, in the terms of this checker.

    Raises:
        HistoryError: it is open whether its value holds a key.
    """
    alone = Reading(reading.names, reading.independent or False)
    ((found,), _) = adapted([(line, form)], alone)
    named = _renamed(form, reading.names)
    judged = _is_clients(form) and named.get("f") in F_NAMES
    if judged and reading.independent is None and keyed(named):
        raise undecided(f"saw the value {form['value']!r}", line)
    return found  # type: ignore[no-any-return]


def adapted(forms: Sequence[tuple[int, Any]], reading: Reading) -> tuple[list[Any], tuple[str, ...]]:
    """The forms of all events in the terms of this checker, and what was assumed for it.

    Forms are maps of kebab-cased or snake-cased fields with the lines on which they stand; lists in them are
    tuples. What is no map, and what is no client's, stays as it is.

    Raises:
        HistoryError: it is open whether values hold keys, or `reading` says what the history contradicts.
    """
    renamed = [_renamed(form, reading.names) if _is_clients(form) else form for _, form in forms]
    notes = list(_told(forms, renamed, reading.names))
    clients = [at for at, form in enumerate(renamed) if _is_clients(form) and form.get("f") in F_NAMES]
    lines = [line for line, _ in forms]
    independent = _independent(renamed, clients, lines, reading.independent)
    if independent and reading.independent is None:
        keys = {renamed[at]["value"][0] for at in clients if keyed(renamed[at])}
        notes.append(
            f"every value is a pair [key value], so each of the {len(keys)} keys is judged as an object of "
            "its own, as jepsen.independent does; --no-independent takes values as they are"
        )
    for at in clients:
        form = renamed[at]
        if independent and keyed(form):
            key, *rest = form["value"]
            form = form | {"key": key, "value": rest[0] if len(rest) == 1 else tuple(rest)}
        if form["f"] == "read" and form.get("type") == "ok" and form.get("value", ABSENT) is None:
            form = form | {"value": ABSENT}
        renamed[at] = _lifted(form)
    return renamed, tuple(notes)


def _is_clients(form: Any) -> bool:
    return isinstance(form, dict) and str(form.get("process")) not in RESERVED and form.get("f") != STALL


def _renamed(form: Form, names: Mapping[str, str]) -> Form:
    """The form with the name of its operation as this checker knows it."""
    f = form.get("f")
    if not isinstance(f, str):
        return form
    meant = names.get(str(f)) or (f if f in F_NAMES else SYNONYMS.get(f.lower().replace("-", "_")))
    return form if meant is None or meant == f else form | {"f": meant}


def _told(
    forms: Sequence[tuple[int, Any]], renamed: Sequence[Any], asked: Mapping[str, str]
) -> Iterator[str]:
    """Which names were taken for which without being asked to."""
    changed = Counter(
        (str(form["f"]), new["f"])
        for (_, form), new in zip(forms, renamed, strict=True)
        if new is not form and form["f"] not in asked
    )
    for (name, meant), count in changed.items():
        yield f"{name!r} is read as {meant!r} ({count} events); --map {name}=OPERATION decides otherwise"


def keyed(form: Form) -> bool:
    """Whether the value of an operation has the shape of a key and what is done with it."""
    value = form.get("value")
    if not isinstance(value, tuple) or not value or value[0] is None or isinstance(value[0], tuple | dict):
        return False
    if form["f"] != "cas":
        return len(value) == 2
    return len(value) == 3 or (len(value) == 2 and isinstance(value[1], tuple) and len(value[1]) == 2)


def _independent(forms: Sequence[Form], clients: Sequence[int], lines: list[int], asked: bool | None) -> bool:
    """Whether values are pairs of `jepsen.independent`; raises as `adapted`."""
    if asked is False or any(forms[at].get("key") is not None for at in clients):
        if asked:
            raise HistoryError(
                "saw operations that have a key, expected values of pairs",
                field="independent",
                hint="leave --independent out: the keys are there",
            )
        return False
    calls = [at for at in clients if forms[at].get("type") == "invoke"]
    bare = [at for at in calls if not keyed(forms[at])]
    if asked:
        if bare:
            raise undecided(
                f"saw the value {forms[bare[0]].get('value')!r}, expected a pair [key value]", lines[bare[0]]
            )
        return True
    if not calls or len(bare) == len(calls):
        return False
    answers = [at for at in clients if forms[at].get("value") is not None and not keyed(forms[at])]
    if bare or answers:
        at = (bare or answers)[0]
        other = next(at for at in calls if keyed(forms[at]))
        raise undecided(
            f"saw the value {forms[at].get('value')!r}, and {forms[other]['value']!r} on line "
            f"{lines[other]}, so whether values hold keys is not known",
            lines[at],
        )
    locks = [at for at in calls if forms[at]["f"] in ("acquire", "extend", "release")]
    users: dict[Any, set[str]] = {}
    for at in locks:
        users.setdefault(forms[at]["value"][0], set()).add(str(forms[at].get("process")))
    if len(users) > 1 and all(len(processes) == 1 for processes in users.values()):
        raise undecided(
            "values look like pairs [key value], but no two processes use the same key: whether these are "
            "keys is not known",
            lines[locks[0]],
        )
    return True


def undecided(problem: str, line: int) -> HistoryError:
    """The error for values that may hold keys, or not."""
    return HistoryError(problem, line=line, field="value", hint=_DECIDE)


def _lifted(form: Form) -> Form:
    """The form with the fields that stand in a map that is its value."""
    value = form.get("value")
    if not isinstance(value, dict):
        return form
    inside = {str(name).replace("-", "_"): (name, item) for name, item in value.items()}
    found = {name: item for name, (_, item) in inside.items() if name in LIFTED and item is not None}
    rest = {name: item for name, item in value.items() if str(name).replace("-", "_") not in found}
    known = {str(name).replace("-", "_") for name, item in form.items() if item is not None}
    fields = {name.replace("_", "-"): item for name, item in found.items() if name not in known}
    return form | fields | {"value": rest or None}
