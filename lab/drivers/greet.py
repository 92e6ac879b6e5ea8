"""Asking a driver who it is before a run: here, or as a program in the container in which it is to run.

``python -m lab.drivers.greet QUESTION`` prints one ``Said`` as a JSON line.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from lab.drivers.messages import Hello
from lab.drivers.process import DriverProcess, OptionValues
from lab.errors import LabError


class Question(msgspec.Struct, frozen=True):
    """How the driver is started, and the options that it is to take."""

    words: tuple[str, ...]
    options: dict[str, str | int | float | bool]


class Trouble(NamedTuple):
    """A ``LabError``, to be raised anew elsewhere."""

    seen: str
    where: str | None
    expected: str | None
    hint: str | None


class Said(msgspec.Struct, frozen=True):
    """What came of it: one of the two."""

    hello: Hello | None = None
    trouble: Trouble | None = None


async def greet(words: Sequence[str], options: OptionValues) -> Hello:
    """Start a driver, ask it who it is, and end it.

    Raises:
        LabError: it does not start, does not answer, or does not want these options.
    """
    driver = DriverProcess(words, own_group=True)
    await driver.start()
    try:
        return await driver.hello(options)
    finally:
        await driver.close()


def main(question: str) -> None:
    """Ask, and print what came of it."""
    asked = msgspec.json.decode(question, type=Question)
    try:
        said = Said(hello=asyncio.run(greet(asked.words, asked.options)))
    except LabError as error:
        said = Said(trouble=Trouble(error.seen, error.where, error.expected, error.hint))
    sys.stdout.buffer.write(msgspec.json.encode(said) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
