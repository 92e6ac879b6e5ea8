"""Belief compared with key presence, in sentences."""

from __future__ import annotations

from typing import Final

from checker.words import in_words, instant
from lab.analysis.belief import CrossCheck, Held
from lab.analysis.key_presence import Loss

SHOWN_MAX: Final = 4
"""How many grants that differ are listed; all are in verdict.json."""


def belief_lines(check: CrossCheck) -> list[tuple[str, str]]:
    """Pairs of a word and a sentence: grants that differ, that are not known, and that agree."""
    if check.missing:
        return [("not known", check.missing)]
    differing = sorted((held for held in check.held if held.differs), key=lambda held: -held.sure_ns)
    unsure = [held for held in check.held if not held.differs and not held.agrees]
    lines = [("DIFFER", _differing(check, held)) for held in differing[:SHOWN_MAX]]
    if len(differing) > SHOWN_MAX:
        lines.append(("DIFFER", f"{len(differing) - SHOWN_MAX} more: see verdict.json"))
    if unsure:
        worst = max(unsure, key=lambda held: held.possible_ns)
        head = f"{len(unsure)} of {len(check.held)} grants, the longest: " if len(unsure) > 1 else ""
        lines.append(("not known", head + _unsure(check, worst)))
    lines += [("not known", f"{_grants(count)} {why}") for count, why in _unobserved(check) if count]
    agreeing = len(check.held) - len(differing) - len(unsure)
    if agreeing:
        these = f"{agreeing} of {len(check.held)} grants" if agreeing < len(check.held) else _all(agreeing)
        lines.append(("agree", f"the token of {these} was on {_where(check)} during its belief windows"))
    return lines


def _unobserved(check: CrossCheck) -> list[tuple[int, str]]:
    """How many grants could not be observed on the nodes, and why."""
    return [
        (check.unobserved, "of other keys than the observed one"),
        (check.without_token, "without a token in the history"),
        (check.shared_token, "with a token that other grants have too"),
    ]


def _grants(count: int) -> str:
    return "1 grant" if count == 1 else f"{count} grants"


def _all(count: int) -> str:
    return "the one grant" if count == 1 else f"each of {count} grants"


def _where(check: CrossCheck) -> str:
    """The nodes with a token, as text; if the lock uses a single node of several, which that is."""
    if check.needed > 1 or check.nodes == 1:
        return _enough(check)
    which = check.only_on[0] if len(check.only_on) == 1 else "one node"
    return f"{which} only, of {check.nodes} nodes,"


def _enough(check: CrossCheck) -> str:
    if check.needed == 1:
        return "its node"
    return f"{check.needed} of {check.nodes} nodes"


def _differing(check: CrossCheck, held: Held) -> str:
    least, most = check.ms(held.first_ns), check.ms(held.last_ns)
    lacking = "a majority" if check.needed > 1 else "it"
    lasted = _range(in_words(held.sure_ns), in_words(held.possible_ns))
    without = f"{lasted} of belief without {lacking}"
    if held.most < check.needed:
        presence = f"the token was at no time known to be on {_enough(check)}"
    else:
        presence = f"the token was on {_enough(check)} only until {_range(_at(least), _at(most))}"
    return f"{_believed(check, held)}, but {presence}{_why(held)}: {without}"


def _unsure(check: CrossCheck, held: Held) -> str:
    return (
        f"{_believed(check, held)}; whether the token was on {_enough(check)} is not known for "
        f"{in_words(held.possible_ns)}, from {_at(check.ms(held.first_ns))} on{_why(held)}"
    )


def _believed(check: CrossCheck, held: Held) -> str:
    last = held.believed[-1].end_ns
    ending = ", the end of the steps" if last == check.end_ns else ""
    start, end = _at(check.ms(held.believed[0].start_ns)), _at(check.ms(last))
    return f"{held.client} believed in {held.grant_id} from {start} to {end}{ending}"


def _why(held: Held) -> str:
    """Which nodes lost the token during the belief windows, and why."""
    if not held.losses:
        return ""
    return " (" + "; ".join(dict.fromkeys(_lost(loss) for loss in held.losses)) + ")"


def _lost(loss: Loss) -> str:
    return f"{loss.node}: {loss.why}"


def _range(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _at(since_start_ms: float | None) -> str:
    return "?" if since_start_ms is None else instant(round(since_start_ms * 1e6))
