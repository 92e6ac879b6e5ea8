"""Reads the contract and plays its cases on one arm; what comes out can be compared and stored."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.sim.redis_arms import Arm, Shown, SimArm, Wire, ask, fields

HERE = Path(__file__).parent
RECORDED = HERE / "recorded" / "redis-7.0.15.json"
"""What a real Redis 7.0.15 answered; `python -m tests.sim.record` writes it."""
_HEADER = re.compile(r"== (?P<name>.+?)(?: since (?P<since>\d+\.\d+))?")
_MONITORED = re.compile(r"\+\d+\.\d{6} \[0 (?:(?P<lua>lua)|[^]]+)\] ")


@dataclass(frozen=True)
class Case:
    """Some lines, and the version from which on they are answered this way."""

    name: str
    since: tuple[int, ...]
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return self.name


def read_cases() -> list[Case]:
    """All cases of the contract, in order."""
    cases: list[Case] = []
    for path in (HERE / "contract.txt", HERE / "contract_scripts.txt"):
        for block in path.read_text(encoding="utf-8").split("\n\n"):
            lines = [line for line in block.splitlines() if line and not line.startswith("# ")]
            if not lines or lines[0].startswith("#"):
                continue
            header = _HEADER.fullmatch(lines[0])
            assert header is not None, f"a case begins with == and its name, not with {lines[0]!r}"
            since = tuple(int(part) for part in (header["since"] or "6.2").split("."))
            cases.append(Case(header["name"], since, tuple(lines[1:])))
    return cases


CASES = read_cases()


def recorded() -> dict[str, list[Shown]]:
    """What the reference answered, by case."""
    reported: dict[str, list[Shown]] = json.loads(RECORDED.read_text(encoding="utf-8"))
    return reported


class Player:
    """Plays one case on one arm."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm
        self._wires: dict[str, Wire] = {}

    def play(self, case: Case) -> list[Shown]:
        """Return an answer for each line that has one."""
        answers: list[Shown] = []
        for line in case.lines:
            try:
                answers += self._line(line)
            except (TimeoutError, ValueError) as error:
                raise AssertionError(f"{case.name}: {line}: {error!r}") from error
        return answers

    def _line(self, line: str) -> list[Shown]:
        if line.startswith("@jump "):
            self._arm.jump(int(line.removeprefix("@jump ")))
            return []
        if line == "@round":
            if isinstance(self._arm, SimArm):
                self._arm.pass_ms(100)
            return []
        mark, rest = "", line
        if line.startswith("~"):
            mark, _, rest = line.partition(" ")
            if mark in ("~ttl", "~info", "~calls"):
                limit, _, rest = rest.partition(" ")
                mark = f"{mark} {limit}"
        return [normalised(mark, self._answer(rest))]

    def _answer(self, line: str) -> Shown:
        number = "1"
        if re.match(r"\d[<>]", line):
            number, direction, line = line[0], line[1], line[2:].lstrip()
            if direction == "<":
                return self._wire(number).read()
        wire = self._wire(number)
        if line.startswith("!"):
            wire.write(line.lstrip("!").encode("latin-1").decode("unicode_escape").encode("latin-1"))
            return None if line.startswith("!!") else wire.read()
        return ask(wire, *shlex.split(line))

    def _wire(self, number: str) -> Wire:
        if number not in self._wires:
            self._wires[number] = self._arm.connect()
        return self._wires[number]


def normalised(mark: str, reply: Shown) -> Shown:
    """Take out what time and chance decide."""
    kind, _, more = mark.partition(" ")
    if kind == "~ttl":
        left = int(str(reply)[1:])
        return "left" if 0 < left <= int(more) else reply
    if kind == "~sorted":
        items = reply if isinstance(reply, list) else [reply]
        return sorted(map(str, items))
    if kind == "~shape":
        return _shape(reply)
    if kind == "~info":
        reported = fields(reply)
        return {name: reported.get(name) for name in more.split(",")}
    if kind == "~calls":
        return fields(reply)[more].partition(",")[0]
    if kind == "~line":
        return _MONITORED.sub(lambda match: f"[{match['lua'] or 'client'}] ", str(reply))
    return reply


def _shape(reply: Shown) -> Any:
    if isinstance(reply, list):
        return [_shape(item) for item in reply]
    if isinstance(reply, dict):
        return {
            kind: [str(item) if index % 2 == 0 else "…" for index, item in enumerate(items)]
            for kind, items in reply.items()
        }
    return str(reply)[:1]
