"""Which mutants are tried, what is known of each test, and what came out: the files between the processes."""

from __future__ import annotations

import ast
import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.mutation.operators import Mutant, mutants_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Task:
    """What a process is to do, handed on in the environment."""

    kind: str
    out: str
    shard: int
    shards: int
    profiles: str = ""
    sample: str = ""
    seconds: float = 0.0
    cold: bool = False

    @staticmethod
    def read() -> Task:
        """The task of this process."""
        return Task(**json.loads(os.environ["MUTATION_TASK"]))

    def environment(self) -> dict[str, str]:
        """The environment of a process that is to do it."""
        return dict(os.environ) | {"MUTATION_TASK": json.dumps(asdict(self))}


@dataclass(frozen=True)
class Profile:
    """What a test executes of the checker, its processor time, whether it starts processes or compiles."""

    name: str
    seconds: float
    lines: Mapping[str, frozenset[int]]
    starts: bool
    compiles: bool


@dataclass(frozen=True)
class Result:
    """What became of a mutant: killed, timeout (counts as killed), survived, no test (counts as survived)."""

    status: str
    killer: str = ""

    def line(self, mutant: Mutant, **more: Any) -> dict[str, Any]:
        """What is written down."""
        return {
            "name": mutant.name,
            "module": mutant.module,
            "line": mutant.line,
            "operator": mutant.operator,
            "before": mutant.before,
            "after": mutant.after,
            "message": mutant.message,
            "status": self.status,
            "killer": self.killer,
        } | more


def module_name(file: str) -> str:
    """The dotted name of a file of Python."""
    name = file.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def all_mutants(*rooms: str) -> dict[str, list[Mutant]]:
    """All mutants of the files of the checker whose path begins with one of these, by file."""
    found = {}
    for path in sorted((ROOT / "checker").rglob("*.py")):
        file = str(path.relative_to(ROOT))
        if not rooms or file.startswith(rooms):
            found[file] = list(mutants_of(file, ast.parse(path.read_text(encoding="utf-8"))))
    return found


def drawn(mutants: Mapping[str, Sequence[Mutant]], count: int, seed: int) -> list[Mutant]:
    """So many of them, each file in proportion to what it has, in an order that is as random."""
    chance = random.Random(seed)
    total = sum(map(len, mutants.values()))
    chosen: list[Mutant] = []
    carried = 0.0
    for found in mutants.values():
        share = len(found) * min(count, total) / total + carried
        carried = share - math.floor(share + 1e-9)
        chosen += chance.sample(found, math.floor(share + 1e-9))
    chance.shuffle(chosen)
    return chosen


def mutants_in(sample: str) -> list[Mutant]:
    """The mutants whose names a file holds, one a line. Raises `KeyError`: the source has changed since."""
    names = Path(sample).read_text(encoding="utf-8").splitlines()
    known = {m.name: m for found in all_mutants(*{n.split(":", 1)[0] for n in names}).values() for m in found}
    return [known[name] for name in names]


def profiles(file: str) -> list[Profile]:
    """What is known of the tests."""
    rows = lines_of(file)
    return [
        Profile(
            row["name"],
            row["seconds"],
            {module: frozenset(lines) for module, lines in row["lines"].items()},
            row["starts"],
            row["compiles"],
        )
        for row in rows
    ]


def lines_of(file: str) -> list[dict[str, Any]]:
    """The objects that a file of JSON Lines holds."""
    with Path(file).open(encoding="utf-8") as text:
        return [json.loads(line) for line in text]


def interval(killed: int, tried: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; for a sample in proportion to its strata it is a little too wide."""
    if not tried:
        return 0.0, 1.0
    share, spread = killed / tried, z * z / tried
    middle = (share + spread / 2) / (1 + spread)
    half = z * math.sqrt(share * (1 - share) / tried + spread / tried / 4) / (1 + spread)
    return middle - half, middle + half


def scores(rows: Iterable[Mapping[str, Any]], by: str) -> dict[str, tuple[int, int]]:
    """Killed and tried, by a field of the rows."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        counts[str(row[by])][0] += row["status"] in ("killed", "timeout")
        counts[str(row[by])][1] += 1
    return {name: (killed, tried) for name, (killed, tried) in sorted(counts.items())}
