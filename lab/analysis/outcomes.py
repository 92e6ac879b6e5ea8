"""How each operation of the steps ended, read from the history, and compared with `expect.operations`.

The actions of the steps and the operations in the history are matched client by client, in order: a client
does one thing at a time. An operation that was skipped, since no lease was held, is not in the history: it is
recognised because the client's next operation is another one. The output of the run is not used.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from checker.history.history import History
from checker.history.operations import NONE, F, Status
from lab.client_protocol import Point
from lab.scenario.actions import Action, Verb
from lab.scenario.model import Scenario
from lab.scenario.outcomes import OperationOutcome, actions, expected_words
from lab.scenario.step_base import StepModel

_KINDS: Final[dict[Verb, F]] = {
    "acquires": F.ACQUIRE,
    "extends": F.EXTEND,
    "reads": F.READ,
    "checks": F.HELD,
    "writes": F.WRITE,
    "releases": F.RELEASE,
}
_SECTION: Final = (F.ACQUIRE, F.READ, F.HELD, F.WRITE, F.RELEASE)
"""The operations of `works`, in order; some may be missing."""
_BEFORE: Final[dict[Point, int]] = {
    "between-setnx-and-expire": 0,
    "before-announce": 0,
    "acquired": 1,
    "read": 2,
    "before-write": 3,
    "written": 4,
    "before-release": 4,
}
"""How many operations of a section are over when a client stops at a point."""
_WORDS: Final[dict[int, OperationOutcome]] = {Status.OK: "ok", Status.FAIL: "refused", Status.INFO: "unknown"}


class Ended(NamedTuple):
    """How an operation ended, and the error that the history has; empty without one."""

    outcome: OperationOutcome
    error: str = ""

    def names(self, reason: str) -> bool:
        """Whether the error has this word, or these words."""
        return re.search(rf"(?<!\w){re.escape(reason)}(?!\w)", self.error) is not None


class _Client:
    """One client's operations that are not matched yet, and how many of its section are."""

    def __init__(self) -> None:
        self.ops: deque[tuple[F, Ended]] = deque()
        self.done = len(_SECTION)

    def take(self, kind: F) -> Iterator[Ended]:
        """How the next operation ended, if it is of this kind."""
        if self.ops and self.ops[0][0] == kind:
            yield self.ops.popleft()[1]

    def ended(self, action: Action) -> Ended:
        """How an action ended: as its first operation that did not succeed."""
        if action.verb in _KINDS:
            found = list(self.take(_KINDS[action.verb]))
        else:
            first = 0 if action.verb == "works" else self.done
            self.done = len(_SECTION) if action.until is None else max(first, _BEFORE[action.until])
            found = [one for kind in _SECTION[first : self.done] for one in self.take(kind)]
        return next((one for one in found if one.outcome != "ok"), Ended("ok" if found else "skipped"))


def outcomes(history: History, steps: Sequence[StepModel]) -> list[tuple[str, OperationOutcome]]:
    """The outcome of each action, in the order of the steps."""
    return [(text, ended.outcome) for text, ended in _ends(history, steps)]


def _ends(history: History, steps: Sequence[StepModel]) -> list[tuple[str, Ended]]:
    clients: defaultdict[str, _Client] = defaultdict(_Client)
    ops = history.ops
    for row in range(len(ops)):
        client, process = ops.names.client[ops.client[row]], ops.names.process[ops.process[row]]
        suffix = process.removeprefix(client).removeprefix("/")
        if suffix and not suffix.isdigit():
            continue  # "alice/renewal of alice-1": a renewal in the background is no operation of the steps
        value = ops.names.value[ops.value[row]] if ops.value[row] != NONE else None
        word = "refused" if ops.f[row] == F.HELD and value == "no" else _WORDS[int(ops.status[row])]
        error = ops.names.error[ops.error[row]] if ops.error[row] != NONE else ""
        clients[client].ops.append((F(int(ops.f[row])), Ended(word, error)))
    return [(str(action), clients[action.client].ended(action)) for action in actions(steps)]


def unlike(history: History, scenario: Scenario) -> Iterator[tuple[str, str, str]]:
    """Each operation that ended otherwise than expected: which, what was expected, what was seen."""
    wanted = scenario.expect.operations
    if not wanted:
        return
    seen: defaultdict[str, list[Ended]] = defaultdict(list)
    for text, ended in _ends(history, scenario.steps):
        seen[text].append(ended)
    for text, expected in wanted.items():
        ends = seen[text]
        each = expected if isinstance(expected, tuple) else (expected,) * len(ends)
        for number, (one, ended) in enumerate(zip(each, ends, strict=True), start=1):
            which = f"{text} ({number} of {len(ends)})" if len(ends) > 1 else text
            outcome, reason = expected_words(one)
            if outcome != ended.outcome:
                yield which, outcome, ended.outcome
            elif reason and not ended.names(reason):
                yield which, f"{outcome}: {reason}", f"{outcome}: {ended.error or 'no reason recorded'}"
