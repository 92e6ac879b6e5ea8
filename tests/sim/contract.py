"""Reads the contract and plays its cases on one arm; what comes out can be compared and stored."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.redis_model.known import Version, parse_version, version_of
from lab.servers import Server
from tests.sim.redis_arms import Arm, Shown, SimArm, Wire, ask, fields

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
"""What real servers answered, a file each; `python -m tests.sim.record` writes one."""
FILES = (
    "contract.txt",
    "contract_scripts.txt",
    "contract_collections.txt",
    "contract_versions.txt",
    "contract_streams.txt",
)
_HEADER = re.compile(r"== (?P<name>.+?)(?: since (?P<since>\d.+|(?:redis|valkey) .+))?")
_SINCE = re.compile(r"(?:(redis|valkey) )?(\d+\.\d+)")
_MONITORED = re.compile(r"\+\d+\.\d{6} \[0 (?:(?P<lua>lua)|[^]]+)\] ")


@dataclass(frozen=True)
class Case:
    """Some lines, and by product the version from which on they are answered this way."""

    name: str
    since: Mapping[str, Version]
    lines: tuple[str, ...]

    def is_for(self, server: Server) -> bool:
        """Whether this server is to answer it in these words."""
        since = self.since.get(server.product)
        return since is not None and since <= version_of(server)

    def __str__(self) -> str:
        return self.name


def read_cases() -> list[Case]:
    """All cases of the contract, in order."""
    cases: list[Case] = []
    for file in FILES:
        for block in (HERE / file).read_text(encoding="utf-8").split("\n\n"):
            lines = [line for line in block.splitlines() if line and not line.startswith("# ")]
            if not lines or lines[0].startswith("#"):
                continue
            header = _HEADER.fullmatch(lines[0])
            assert header is not None, f"a case begins with == and its name, not with {lines[0]!r}"
            pairs = _SINCE.findall(header["since"] or "6.2")
            since = {product or "redis": parse_version(version) for product, version in pairs}
            cases.append(Case(header["name"], since, tuple(lines[1:])))
    return cases


CASES = read_cases()


def recorded() -> dict[Server, dict[str, list[Shown]]]:
    """What real servers answered, by server and case."""
    return {
        Server.parse(path.stem.replace("-", "@")): json.loads(path.read_text(encoding="utf-8"))
        for path in sorted(RECORDED.glob("*.json"))
    }


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
