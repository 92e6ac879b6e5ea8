"""What a program and its live cluster say to each other: JSON lines over stdin and stdout.

The first line says what the cluster is (``Begin``); each further line is a step of a scenario, as JSON, and
is answered with one line when it is done (``Answer``). An empty line ends the story: heal, final reads, tear
down, check. The end of the input before that is an interruption.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Begin(msgspec.Struct, frozen=True):
    """A scenario without steps, the substrate, where the run's directory is made, and the seed."""

    scenario: dict[str, Any]
    on: str
    out: str
    seed: int


class Said(msgspec.Struct, frozen=True):
    """One line of the narration: who acted, what happened, and how it went.

    ``mood`` is ok, fail, info or skipped for what a client did, and fault or plain for everything else.
    """

    actor: str
    text: str
    mood: str


class Problem(msgspec.Struct, frozen=True):
    """A ``LabError``, on its way to the caller."""

    seen: str
    where: str | None
    expected: str | None
    hint: str | None
    exit_code: int


class Answer(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came of a line; ``directory`` and ``exit_code`` are those of the run, in the last answer."""

    said: list[Said] = []
    error: Problem | None = None
    directory: str | None = None
    exit_code: int = 0
