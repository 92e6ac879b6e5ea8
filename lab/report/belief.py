"""Belief against truth, in sentences."""

from __future__ import annotations

from typing import Final

from checker.words import in_words, instant
from lab.analysis.belief import CrossCheck, Held
from lab.analysis.key_presence import Loss

SHOWN_MAX: Final = 4
"""How many grants that part are told one by one; more stand in verdict.json."""


def belief_lines(check: CrossCheck) -> list[tuple[str, str]]:
    """Pairs of a word and a sentence: grants that part, that are not known, and that agree."""
    if check.missing:
        return [("not known", check.missing)]
    parting = sorted((held for held in check.held if held.parts), key=lambda held: -held.sure_ns)
    unsure = [held for held in check.held if not held.parts and not held.agrees]
    lines = [("PART", _parted(check, held)) for held in parting[:SHOWN_MAX]]
    if len(parting) > SHOWN_MAX:
        lines.append(("PART", f"{len(parting) - SHOWN_MAX} more: see verdict.json"))
    if unsure:
        worst = max(unsure, key=lambda held: held.possible_ns)
        head = f"{len(unsure)} of {len(check.held)} grants, the longest: " if len(unsure) > 1 else ""
        lines.append(("not known", head + _unsure(check, worst)))
    lines += [("not known", f"{_grants(count)} {why}") for count, why in _unwatched(check) if count]
    agreeing = len(check.held) - len(parting) - len(unsure)
    if agreeing:
        these = f"{agreeing} of {len(check.held)} grants" if agreeing < len(check.held) else _all(agreeing)
        lines.append(
            ("agree", f"{these} lay on {_where(check)} all the while that the client believed in it")
        )
    return lines


def _unwatched(check: CrossCheck) -> list[tuple[int, str]]:
    """How many grants could not be looked for on the nodes, and why."""
    return [
        (check.unwatched, "of other keys than the one watched"),
        (
            check.without_token,
            "of which the client does not tell the token, so that no node can be asked for it",
        ),
        (check.shared_token, "of a token that other grants have too"),
    ]


def _grants(count: int) -> str:
    return "1 grant" if count == 1 else f"{count} grants"


def _all(count: int) -> str:
    return "the one grant" if count == 1 else f"each of {count} grants"


def _where(check: CrossCheck) -> str:
    """Where a grant lay that was believed in; of one that asked a single node of several, which that was."""
    if check.needed > 1 or check.nodes == 1:
        return _enough(check)
    which = check.only_on[0] if len(check.only_on) == 1 else "one node"
    return f"{which} only, of {check.nodes} nodes,"


def _enough(check: CrossCheck) -> str:
    if check.needed == 1:
        return "its node"
    return f"{check.needed} of {check.nodes} nodes"


def _parted(check: CrossCheck, held: Held) -> str:
    least, most = check.ms(held.first_ns), check.ms(held.last_ns)
    lacking = "a majority" if check.needed > 1 else "it"
    without = f"{_lasted(held.sure_ns, held.possible_ns)} of belief without {lacking}"
    if held.most < check.needed:
        truth = f"of no moment is it known that the token lay on {_enough(check)}"
    else:
        truth = f"the token lay on {_enough(check)} only until {_between(least, most)}"
    return f"{_believed(check, held)}, but {truth}{_why(held)}: {without}"


def _unsure(check: CrossCheck, held: Held) -> str:
    return (
        f"{_believed(check, held)}; whether the token lay on {_enough(check)} all the while is not known for "
        f"{in_words(held.possible_ns)}, from {_at(check.ms(held.first_ns))} on{_why(held)}"
    )


def _believed(check: CrossCheck, held: Held) -> str:
    last = held.believed[-1].end_ns
    story = ", where the story ended" if last == check.end_ns else ""
    start, end = _at(check.ms(held.believed[0].start_ns)), _at(check.ms(last))
    return f"{held.client} believed in {held.grant_id} from {start} to {end}{story}"


def _why(held: Held) -> str:
    """Which nodes lost the token meanwhile, and why."""
    if not held.losses:
        return ""
    return " (" + "; ".join(dict.fromkeys(_lost(loss) for loss in held.losses)) + ")"


def _lost(loss: Loss) -> str:
    return f"{loss.node}: {loss.why}"


def _between(least: float | None, most: float | None) -> str:
    return _range(_at(least), _at(most))


def _lasted(least_ns: int, most_ns: int) -> str:
    return _range(in_words(least_ns), in_words(most_ns))


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _at(since_start_ms: float | None) -> str:
    return "?" if since_start_ms is None else instant(round(since_start_ms * 1e6))
