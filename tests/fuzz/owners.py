"""Small lock histories as clients record them: new process names after an info, with grant ids or without.

Each is judged twice: by the checker, from events, and by brute force, which is told who owns what.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Literal

from checker.history.events import Event
from checker.history.history import History
from checker.history.operations import NEVER
from checker.linearizability import Assumptions, check_linearizability
from checker.linearizability.columns import NO_FENCE
from checker.linearizability.model import IMPOSSIBLE, Op, owner_mutex
from tests.fuzz import brute

Kind = Literal["acquire", "release", "refused acquire"]


@dataclass(slots=True)
class Draft:
    """One operation while it is made up. `owner` is whose lock it is about, `grant` which grant it names."""

    kind: Kind
    client: int
    owner: int
    process: str
    grant: str | None
    certain: bool = True
    fence: int = NO_FENCE


@dataclass(slots=True)
class Drawn:
    """Operations, and their events in order: `(op, False)` for a call, `(op, True)` for a return."""

    drafts: list[Draft] = field(default_factory=list)
    events: list[tuple[int, bool]] = field(default_factory=list)

    def ops(self) -> list[Op]:
        """What brute force reads, by owner."""
        called = {op: at for at, (op, back) in enumerate(self.events) if not back}
        returned = {op: at for at, (op, back) in enumerate(self.events) if back}
        return [
            Op(i, d.kind, d.owner, called[i], returned[i] if d.certain else NEVER, None, d.fence)
            for i, d in enumerate(self.drafts)
            if d.certain or d.kind != "refused acquire"
        ]

    def history(self, *, numbered: bool = False) -> History:
        """What the checker reads; `numbered`: as Jepsen records it, without clients, under new numbers."""
        events = []
        clients = 1 + max(draft.client for draft in self.drafts)
        for at, (op, back) in enumerate(self.events):
            draft = self.drafts[op]
            refused = draft.kind == "refused acquire"
            type_: Literal["invoke", "ok", "fail", "info"] = "invoke"
            if back:
                type_ = "info" if not draft.certain else "fail" if refused else "ok"
            process = draft.process
            if numbered:
                process = str(draft.client + clients * int(process.partition("/")[2] or 0))
            fence = draft.fence if type_ == "ok" and draft.fence != NO_FENCE else None
            events.append(
                Event(
                    time_ns=at,
                    process=process,
                    client=None if numbered else chr(ord("a") + draft.client),
                    type=type_,
                    f="release" if draft.kind == "release" else "acquire",
                    key="k",
                    grant_id=draft.grant,
                    fence=fence,
                    error="held" if type_ == "fail" else None,
                )
            )
        return History.from_events(events)


def draw(random: Random, depth: int, fenced: bool, *, ops: int = 7, clients: int = 3) -> Drawn:
    """A history that the model allows, often bent afterwards."""
    model, drawn = owner_mutex(depth, fenced=fenced), Drawn()
    state, fence = model.init, 0
    named = random.random() < 0.7
    lives, pending, effective = [0] * clients, dict[int, int](), set[int]()
    ghosts: list[int] = []
    grants: list[list[str]] = [[] for _ in range(clients)]

    def takes_effect(at: int) -> bool:
        nonlocal state, fence
        draft = drawn.drafts[at]
        if draft.kind == "acquire" and fenced and draft.fence == NO_FENCE and random.random() < 0.8:
            draft.fence = fence + 1
        after = model.step(state, Op(at, draft.kind, draft.owner, 0, 0, None, draft.fence))
        if after is IMPOSSIBLE:
            return False
        state, fence = after, max(fence, draft.fence)
        return True

    for _ in range(12 * ops):
        client = random.randrange(clients)
        at = pending.get(client)
        ghosts = [ghost for ghost in ghosts if random.random() < 0.7 or not takes_effect(ghost)]
        if at is None:
            if len(drawn.drafts) < ops:
                pending[client] = len(drawn.drafts)
                drawn.events.append((len(drawn.drafts), False))
                drawn.drafts.append(_asked(random, client, lives[client], grants, named, len(drawn.drafts)))
            continue
        draft = drawn.drafts[at]
        if random.random() < 0.15:
            draft.certain = False
            draft.kind = "acquire" if draft.kind == "refused acquire" else draft.kind
            if at not in effective:
                ghosts.append(at)
        elif at not in effective:
            if takes_effect(at):
                effective.add(at)
            elif draft.kind == "acquire" and random.random() < 0.3:
                draft.kind, draft.fence = "refused acquire", NO_FENCE
            continue
        drawn.events.append((at, True))
        del pending[client]
        lives[client] += not draft.certain
    _finish(drawn, pending)
    if random.random() < 0.6:
        _bend(random, drawn)
    return drawn


def _asked(
    random: Random, client: int, life: int, grants: list[list[str]], named: bool, number: int
) -> Draft:
    name = chr(ord("a") + client)  # one with a number at its end may go on under another number
    process = f"{name}/{life}" if life else name
    mine = grants[client]
    if random.random() < (0.6 if mine else 0.05):
        if not named or not mine:
            return Draft("release", client, client, process, None)
        others = [(g, c) for c, some in enumerate(grants) for g in some]
        grant, owner = (mine[-1], client) if random.random() < 0.8 else random.choice(others)
        return Draft("release", client, owner, process, grant)
    mine.append(f"g{number}")
    return Draft("acquire", client, client, process, mine[-1] if named else None)


def _finish(drawn: Drawn, pending: dict[int, int]) -> None:
    """What is still under way never returned. Nobody was told the fence of an acquire of unknown outcome."""
    for at in pending.values():
        drawn.drafts[at].certain = False
        if drawn.drafts[at].kind == "refused acquire":
            drawn.drafts[at].kind = "acquire"
    for draft in drawn.drafts:
        if not draft.certain:
            draft.fence = NO_FENCE


def _bend(random: Random, drawn: Drawn) -> None:
    """One or two things changed, and every process still does one thing at a time."""
    for _ in range(random.randint(1, 2)):
        at = random.randrange(len(drawn.drafts))
        draft = drawn.drafts[at]
        if random.random() < 0.5 and draft.certain:
            draft.kind = "acquire" if draft.kind == "refused acquire" else draft.kind
            if draft.fence != NO_FENCE:
                draft.fence = random.randint(1, 5)
            continue
        one = random.randrange(len(drawn.events))
        op, _ = drawn.events[one]
        low = max((i for i in range(one) if _same(drawn, i, op)), default=-1)
        high = min(
            (i for i in range(one + 1, len(drawn.events)) if _same(drawn, i, op)), default=len(drawn.events)
        )
        to = random.randint(low + 1, high - 1)
        drawn.events.insert(to, drawn.events.pop(one))


def _same(drawn: Drawn, event: int, op: int) -> bool:
    return drawn.drafts[drawn.events[event][0]].client == drawn.drafts[op].client


def judged(drawn: Drawn, depth: int, fenced: bool, *, numbered: bool = False) -> tuple[str, str]:
    """The checker's answer and that of brute force, which always knows the clients."""
    model = {(1, False): "owner-mutex", (1, True): "fenced-mutex"}.get((depth, fenced))
    model = model or ("reentrant-fenced-mutex" if fenced else "reentrant-mutex")
    results = check_linearizability(
        drawn.history(numbered=numbered).ops, model, assume=Assumptions(depth=depth, refusals=("held",))
    )
    right = brute.possible(drawn.ops(), brute.owned_rule(depth, fenced), brute.OWNED_START)
    return results[0].outcome if results else "ok", "ok" if right else "violated"
