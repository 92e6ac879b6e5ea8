"""Tiny lock histories by the thousand: played on a model, hence right, then bent so that some are not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from checker.history.operations import NEVER
from checker.linearizability.columns import ACQUIRE, KIND_NAMES, NO_FENCE, REFUSED, RELEASE, OpColumns
from checker.linearizability.model import IMPOSSIBLE, Model, Op
from tests.op_columns import op_columns


@dataclass(slots=True)
class Draft:
    """One operation while it is being made up; positions are indices into the list of events."""

    kind: int
    process: int
    fence: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Shape:
    """What the histories of one family look like."""

    ops: int = 8
    processes: int = 4
    owned: bool = True  # processes are well-behaved: silent after an unknown outcome
    fenced: bool = False
    release: float = 0.65  # how often a holder releases rather than acquires again
    unknown: float = 0.15
    refused: float = 0.4


History = tuple[
    list[Draft], list[int]
]  # the operations, and the events: 2*op for a call, 2*op + 1 for a return


def columns_of(history: History) -> OpColumns:
    """The history as the algorithms take it."""
    drafts, events = history
    called = [0] * len(drafts)
    returned = [NEVER] * len(drafts)
    for position, event in enumerate(events):
        if event & 1:
            returned[event >> 1] = position
        else:
            called[event >> 1] = position
    return op_columns(
        [d.kind for d in drafts],
        [d.process for d in drafts],
        called,
        returned,
        fence=[d.fence for d in drafts],
    )


def play(random: Random, model: Model, shape: Shape) -> History:
    """A history that the model allows: every operation takes effect on it between call and return."""
    drafts: list[Draft] = []
    events: list[int] = []
    state = model.init
    pending: dict[int, int] = {}  # process -> op
    effective: set[int] = set()
    depth: dict[int, int] = {}
    names = list(range(shape.processes))
    retired = 0
    fence = 0
    target = random.randint(2, shape.ops)
    for _ in range(12 * shape.ops):
        slot = random.randrange(shape.processes)
        process = names[slot]
        at = pending.get(process)
        if at is None:
            if len(drafts) < target:
                held = depth.get(process, 0) > 0
                release = random.random() < (shape.release if held else 0.5 if not shape.owned else 0.08)
                pending[process] = len(drafts)
                events.append(2 * len(drafts))
                drafts.append(Draft(RELEASE if release else ACQUIRE, process, NO_FENCE, True))
            continue
        draft = drafts[at]
        if random.random() < shape.unknown:
            _forget(draft)
            del pending[process]
            retired += 1
            names[slot] = shape.processes + retired
            continue
        if at in effective:
            events.append(2 * at + 1)
            del pending[process]
            continue
        if draft.kind == ACQUIRE and shape.fenced and random.random() < 0.9:
            repeats = depth.get(process, 0) > 0 and random.random() < 0.6
            draft.fence = fence if repeats else fence + random.randint(1, 2)
        after = model.step(state, Op(at, KIND_NAMES[draft.kind], process, 0, 0, None, draft.fence))
        if after is not IMPOSSIBLE:
            state = after
            effective.add(at)
            depth[process] = depth.get(process, 0) + (1 if draft.kind == ACQUIRE else -1)
            fence = max(fence, draft.fence)
        elif draft.kind == ACQUIRE and random.random() < shape.refused:
            refusal = replace(draft, kind=REFUSED, fence=NO_FENCE)
            if model.step(state, Op(at, KIND_NAMES[REFUSED], process, 0, 0)) is not IMPOSSIBLE:
                drafts[at] = refusal
                effective.add(at)
    for at in pending.values():
        _forget(drafts[at])
    return drafts, events


def _forget(draft: Draft) -> None:
    """Nobody knows how it ended: not even that it was refused, nor which fence it got."""
    draft.certain, draft.fence = False, NO_FENCE
    if draft.kind == REFUSED:
        draft.kind = ACQUIRE


def scatter(random: Random, shape: Shape) -> History:
    """Operations without any sense, each process still doing one at a time."""
    drafts: list[Draft] = []
    events: list[int] = []
    pending: dict[int, int] = {}
    names = list(range(shape.processes))
    retired = 0
    acquired: set[int] = set()
    target = random.randint(2, shape.ops)
    while len(drafts) < target or pending:
        slot = random.randrange(shape.processes)
        process = names[slot]
        if process not in pending:
            if len(drafts) < target:
                held = process in acquired or not shape.owned
                kind = random.choices((ACQUIRE, RELEASE, REFUSED), (4, 4 if held else 1, 1))[0]
                if kind == ACQUIRE:
                    acquired.add(process)
                fence = random.randint(1, 6) if shape.fenced and kind == ACQUIRE else NO_FENCE
                pending[process] = len(drafts)
                events.append(2 * len(drafts))
                drafts.append(Draft(kind, process, fence, True))
            continue
        at = pending.pop(process)
        if drafts[at].kind != REFUSED and random.random() < shape.unknown:
            _forget(drafts[at])
            retired += 1
            names[slot] = shape.processes + retired
        else:
            events.append(2 * at + 1)
    return drafts, events


def bend(random: Random, history: History, shape: Shape) -> History:
    """The history with one thing changed; unchanged where the change would leave the family."""
    drafts, events = [replace(d) for d in history[0]], list(history[1])
    if not drafts:
        return history
    at = random.randrange(len(drafts))
    draft = drafts[at]
    choice = random.randrange(7)
    if choice <= 1 and events:
        event = events.pop(random.randrange(len(events)))
        events.insert(random.randint(0, len(events)), event)
    elif choice == 2:
        draft.kind = random.choice((ACQUIRE, RELEASE, REFUSED))
    elif choice == 3:
        draft.process = random.choice(drafts).process
    elif choice == 4 and draft.certain:
        _forget(draft)
        if 2 * at + 1 in events:
            events.remove(2 * at + 1)
    elif choice == 6:
        refused = [d for d in drafts if d.kind == REFUSED]
        if refused:
            random.choice(refused).kind = ACQUIRE
    elif choice == 5 and shape.fenced:
        draft.fence = random.randint(1, 6)
    if draft.kind != ACQUIRE or not draft.certain:
        draft.fence = NO_FENCE
    return (drafts, events) if well_formed((drafts, events), shape) else history


def well_formed(history: History, shape: Shape) -> bool:
    """Whether calls precede returns and, if owned, each process does one thing at a time and retires."""
    drafts, events = history
    called: set[int] = set()
    busy: dict[int, int] = {}
    for event in events:
        at = event >> 1
        process = drafts[at].process
        if event & 1:
            if at not in called or (shape.owned and busy.pop(process, None) != at):
                return False
        else:
            if shape.owned and process in busy:
                return False
            busy[process] = at
            called.add(at)
    return all(
        d.certain == (2 * i + 1 in events) and (d.certain or d.kind != REFUSED) for i, d in enumerate(drafts)
    )


def draw(random: Random, model: Model, shape: Shape) -> OpColumns:
    """One history: a quarter right by construction, half bent, a quarter without sense."""
    kind = random.random()
    if kind > 0.75:
        return columns_of(scatter(random, shape))
    history = play(random, model, shape)
    if kind > 0.25:
        for _ in range(random.randint(1, 4)):
            history = bend(random, history, shape)
    return columns_of(history)
