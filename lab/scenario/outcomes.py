"""What a scenario expects of single operations, `expect.operations`: an action's sentence, and its outcome.

An action that happens several times has a list of outcomes in their order, or one word for all of them.
Instead of `refused` or `unknown` a mapping may say why as well: `{bob acquires: {refused: NOREPLICAS}}` is
met if that word is in the error that the history has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from lab.client_protocol import POINTS_BEFORE_GRANT
from lab.scenario.actions import Action
from lab.scenario.problems import Loc, choice, kind, nearest, problem, shown
from lab.scenario.step_base import StepModel
from lab.scenario.steps import Do, Start

OperationOutcome = Literal["ok", "refused", "unknown", "skipped"]
"""How an operation ended: done; certainly without effect; not known; not sent, since no lease was held."""

OUTCOMES: Final[tuple[OperationOutcome, ...]] = get_args(OperationOutcome)
WITH_REASON: Final = ("refused", "unknown")
"""Outcomes that have an error in the history."""
_EXPECTED: Final = f"{choice(OUTCOMES)}, or a list of them for an action that happens several times"
_REASON: Final = "a word of the error, such as {refused: NOREPLICAS}"


def _sentence(text: str) -> str:
    return str(Action.model_validate(text))


def _outcomes(value: Any) -> Any:
    """Checks one outcome, or a list of them."""
    listed = value if isinstance(value, list | tuple) else [value]
    if not listed:
        raise problem("the list of outcomes is empty", _EXPECTED)
    for one in listed:
        if isinstance(one, Mapping):
            _check_reason(one)
        elif one not in OUTCOMES:
            hint = nearest(one, OUTCOMES) if isinstance(one, str) else None
            raise problem(f"{kind(one)} is not the outcome of an operation", _EXPECTED, hint)
    return tuple(listed) if isinstance(value, list | tuple) else value


def _check_reason(outcome: Mapping[Any, Any]) -> None:
    words = list(outcome)
    if len(words) != 1:
        seen = f"{choice(map(shown, words))} are two outcomes" if words else "a mapping with nothing in it"
        raise problem(seen.replace(" or ", " and "), _REASON)
    if words[0] not in WITH_REASON:
        hint = nearest(words[0], WITH_REASON)
        raise problem(f"{kind(words[0])} is no outcome with a reason", choice(WITH_REASON), hint)
    reason = outcome[words[0]]
    if not isinstance(reason, str) or not reason.strip():
        raise problem(f"{kind(reason)} is no reason", _REASON)


_WORDS: Final = [
    {"enum": list(OUTCOMES)},
    *(
        {
            "type": "object",
            "properties": {outcome: {"type": "string"}},
            "required": [outcome],
            "additionalProperties": False,
        }
        for outcome in WITH_REASON
    ),
]

Sentence = Annotated[
    str,
    AfterValidator(_sentence),
    Field(json_schema_extra={"pattern": Action.model_json_schema()["pattern"]}),
]
"""An action as the steps say it: "bob acquires"."""

ExpectedOutcome = OperationOutcome | Mapping[Literal["refused", "unknown"], str]
"""An outcome, or one with its reason."""
ExpectedOutcomes = Annotated[
    ExpectedOutcome | tuple[ExpectedOutcome, ...],
    BeforeValidator(_outcomes),
    WithJsonSchema({"anyOf": [*_WORDS, {"type": "array", "items": {"anyOf": _WORDS}, "minItems": 1}]}),
]
"""The outcome of an action, or of each time that it happens."""

Operations = Mapping[Sentence, ExpectedOutcomes]


def expected_words(expected: ExpectedOutcome) -> tuple[OperationOutcome, str]:
    """An expected outcome, and the reason that it must have; empty if none is asked for."""
    if isinstance(expected, str):
        return expected, ""
    ((outcome, reason),) = expected.items()
    return outcome, reason


def actions(steps: Sequence[StepModel]) -> Iterator[Action]:
    """Every action of the steps, in order."""
    for step in steps:
        if isinstance(step, Do):
            yield from step.actions
        elif isinstance(step, Start):
            yield step.action


def unfit(
    operations: Mapping[str, Any], steps: Sequence[StepModel]
) -> Iterator[tuple[Loc, PydanticCustomError, object]]:
    """What is expected of actions that the steps do not have, or not so often: where, why, the action."""
    done = [str(action) for action in actions(steps)]
    for text, outcomes in operations.items():
        loc: Loc = ("operations", text)
        times = done.count(text)
        point = Action.model_validate(text).until
        if not steps:
            seen = "a workload does not say which operations there will be"
            yield (*loc, "[key]"), problem(seen, "operations of steps"), text
        elif not times:
            known = choice(map(shown, dict.fromkeys(done))) if done else "an action of the steps"
            yield (*loc, "[key]"), problem(f"no step says {shown(text)}", known, nearest(text, done)), text
        elif point in POINTS_BEFORE_GRANT:
            seen = f"at {point} the client has no answer to its acquire yet"
            yield (*loc, "[key]"), problem(seen, "the outcome of what it continues with"), text
        elif isinstance(outcomes, tuple) and len(outcomes) != times:
            seen = f"{len(outcomes)} outcomes of {shown(text)}, which happens {_times(times)}"
            expected = "one word for each time, in their order" if times > 1 else "one word"
            yield loc, problem(seen, expected), outcomes


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
