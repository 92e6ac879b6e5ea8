"""Mutants that are the same program in other words: one entry each, with the reason why no test can tell.

An entry names the file, a text that the lines of the statement contain, the change, and why it changes
nothing that is decided or said. What is not in this table counts, also where it looks harmless. Every
entry must fit a mutant (`tests/unit/test_mutation.py`), so none outlives the line that it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from tests.mutation.operators import Mutant
from tests.mutation.sample import ROOT


@dataclass(frozen=True, slots=True)
class Entry:
    """Mutants of `file` in a statement whose lines contain `statement`.

    `before` and `after` are the changed expression as `ast.unparse` writes it; None stands for any.
    """

    file: str
    statement: str
    before: str | None
    after: str | None
    why: str


def _entries(why: str, *rows: tuple[str, str, str | None, str | None]) -> list[Entry]:
    return [
        Entry(f"checker/{file}.py", statement, before, after, why) for file, statement, before, after in rows
    ]


_FULL: Final = "an array filled with a Python integer has 64-bit integers anyway (numpy 2, every platform)"
_ZIP: Final = "an assertion: both are made from one array, or one from the other, so their lengths are equal"
_BLOCK: Final = "the size of a piece of work; the pieces together are the same"
_GROWTH: Final = "how much room is made ahead; what is in it is the same"

NOT_COUNTED: Final[tuple[Entry, ...]] = tuple(
    _entries(
        "a name for a type, used in annotations only, which nothing evaluates",
        ("check", "Check = Callable", None, None),
        ("linearizability/compiled", "Kernel = Callable", None, None),
        ("linearizability/result", "Outcome = Literal", None, None),
        ("linearizability/custom", "OperationStatus = Literal", None, None),
        ("history/operations", "Bools = npt.NDArray", None, None),
        ("history/operations", "Index = npt.NDArray", None, None),
        ("history/operations", "Value = str | int", None, None),
        ("history/arrays", "Codes = npt.NDArray", None, None),
        ("formats/packed", "Ends = npt.NDArray", None, None),
        ("formats/edn_ends", "FormOf = Callable", None, None),
        ("live/command", "Say = Callable", None, None),
        ("explanations/argument", "Argument = tuple", None, None),
    )
    + _entries(
        _BLOCK,
        ("formats/chunks", "CHUNK_BYTES: Final =", "1", None),
        ("formats/chunks", "CHUNK_BYTES: Final =", "20", None),
        ("formats/chunks", "PARALLEL_BYTES: Final =", "48", None),
        ("formats/chunks", "PARALLEL_BYTES: Final =", "20", None),
        ("formats/text", "PIECE_BYTES: Final =", "20", None),
        ("formats/jsonl", "_THREAD_BYTES: Final =", "1", None),
        ("formats/jsonl", "_THREAD_BYTES: Final =", "16", None),
        ("formats/seal", "_PIECE: Final =", "20", None),
        ("formats/scan", "BYTES_PER_OPERATION: Final =", "320", None),
        ("formats/jsonl", "len(block) < _THREAD_BYTES", "len(block) < _THREAD_BYTES", None),
        (
            "formats/jsonl",
            "size < chunks.PARALLEL_BYTES",
            "size < chunks.PARALLEL_BYTES",
            "size <= chunks.PARALLEL_BYTES",
        ),
        ("live/lines", "_READ_BYTES: Final =", "16", None),
        ("live/lines", "POLL_S: Final =", "0.05", "1.05"),
    )
    + _entries(
        _GROWTH,
        ("formats/scan", "LINE_BYTES_MIN: Final = 40", "40", None),
        ("formats/scan", "np.full(1 << 10, -1, np.int32)", "10", None),
        ("formats/scan", "most = len(block) // LINE_BYTES_MIN + 1", "1", "2"),
        (
            "formats/scan",
            "most = len(block) // LINE_BYTES_MIN + 1",
            "len(block) // LINE_BYTES_MIN",
            "len(block) * LINE_BYTES_MIN",
        ),
        (
            "formats/scan",
            "if rows > self._codes.shape[1]",
            "rows > self._codes.shape[1]",
            "rows >= self._codes.shape[1]",
        ),
        ("formats/scan", "self._codes = np.empty((kernel.STRINGS, 0), np.int32)", "0", "1"),
    )
    + _entries(
        "which mix of bytes is tried for a table in which no two words collide: one is looked for that fits",
        ("formats/scan", "for factor in range(1, 1 << 16)", "16", None),
    )
    + _entries(
        "the guess which field follows which; one that is wrong costs a look into the table of names",
    )
    + _entries(
        _ZIP,
        (
            "formats/chunks",
            "zip(helpers, shares[1:], strict=True)",
            "zip(helpers, shares[1:], strict=True)",
            None,
        ),
        (
            "formats/edn",
            "return dict(zip(keys, items[1::2], strict=True))",
            "zip(keys, items[1::2], strict=True)",
            None,
        ),
        (
            "history/pairing",
            "zip(*map(_ROW, events), strict=True)",
            "zip(*map(_ROW, events), strict=True)",
            None,
        ),
        ("properties/linearizable", "zip(*added, strict=True)", "zip(*added, strict=True)", None),
        (
            "properties/waits",
            "zip(circle, [*circle[1:], circle[0]], strict=True)",
            None,
            "zip(circle, [*circle[1:], circle[0]])",
        ),
        (
            "properties/mutual_exclusion",
            "pairs = zip(found.first.tolist(), found.second.tolist(), strict=True)",
            None,
            "zip(found.first.tolist(), found.second.tolist())",
        ),
        ("properties/resource", "zip(steps, sentences, strict=True)", None, "zip(steps, sentences)"),
        (
            "linearizability/check",
            "zip(chosen.key.tolist(), lock_ops(chosen), strict=True)",
            None,
            "zip(chosen.key.tolist(), lock_ops(chosen))",
        ),
        ("properties/linearizable", "zip(*added, strict=True)", "True", "False"),
        ("formats/chunks", "zip(helpers, shares[1:], strict=True)", "True", "False"),
        ("formats/edn", "return dict(zip(keys, items[1::2], strict=True))", "True", "False"),
    )
    + _entries(
        _FULL,
        *(
            (file, statement, statement, statement.replace(", np.int64)", ")"))
            for file, statement in (
                ("history/windows", "np.full(len(grants), MISSING, np.int64)"),
                ("history/windows", "np.full(until_ns.size, MISSING, np.int64)"),
                ("history/evidence", "np.full(acquires.size, NEVER, np.int64)"),
                ("history/evidence", "np.full(acquires.size, NONE, np.int64)"),
                ("history/evidence", "np.full(len(self.grants), NEVER, np.int64)"),
                ("history/renaming", "np.full(size, NONE, np.int64)"),
                ("history/renaming", "np.full(size, NEVER, np.int64)"),
                ("history/renaming", "np.full(acquires.size, NEVER, np.int64)"),
                ("history/renaming", "np.full(acquires.size, NONE, np.int64)"),
                ("history/renaming", "np.full(made.size, NONE, np.int64)"),
                ("history/writes", "np.full(rows.size, NEVER, np.int64)"),
                ("history/writes", "np.full(rows.size, MISSING, np.int64)"),
                ("history/writes", "np.full(len(ops.names.token) + 1, NONE, np.int64)"),
                ("history/grants", "np.full(size + 1, NONE, np.int64)"),
                ("history/grants", "np.full(n, NEVER, np.int64)"),
                ("history/arrays", "np.full(query_stamp.size, MISSING, np.int64)"),
                ("history/identity", "np.full(processes, -1, np.int64)"),
                ("history/identity", "np.full(processes, NONE, np.int64)"),
                ("history/accesses", "np.full(m, MISSING, np.int64)"),
                ("linearizability/owners", "np.full(columns.keys, NEVER, np.int64)"),
                ("linearizability/owners", "np.full(columns.keys, NONE, np.int64)"),
                ("linearizability/columns", "np.full(n, NO_FENCE, np.int64)"),
                ("linearizability/columns", "np.full(len(call_ns), NEVER, np.int64)"),
                ("linearizability/owned", "np.full(len(columns), NO_FENCE, np.int64)"),
                ("properties/lease_honesty", "np.full(grants_told.size, NEVER, np.int64)"),
                ("properties/lease_honesty", "np.full(len(grants), NEVER, np.int64)"),
                ("properties/fencing", "np.full(len(writes), MISSING, np.int64)"),
                ("properties/counting", "np.full(len(ops), ROOM if shared else 1, np.int64)"),
                ("properties/counting", "np.full(group.size, NEVER, np.int64)"),
                ("properties/counting", "np.full(len(ops), NEVER, np.int64)"),
                ("properties/deadlock_freedom", "np.full(len(evidence.ops.names.key) + 1, bound, np.int64)"),
                ("formats/scan", "np.full(kernel.PLACES + 1, -1, np.int64)"),
            )
        ),
    )
)


@cache
def _lines(file: str) -> Sequence[str]:
    return (ROOT / file).read_text(encoding="utf-8").splitlines()


def fits(entry: Entry, mutant: Mutant) -> bool:
    """Whether a mutant is one of an entry."""
    if entry.file != mutant.module or entry.before not in (None, mutant.before):
        return False
    first, last = mutant.span
    return entry.after in (None, mutant.after) and entry.statement in "\n".join(
        _lines(entry.file)[first - 1 : last]
    )


def counted(mutants: Mapping[str, Iterable[Mutant]]) -> dict[str, list[Mutant]]:
    """The mutants that count, by file."""
    return {
        file: [mutant for mutant in some if not any(fits(entry, mutant) for entry in NOT_COUNTED)]
        for file, some in mutants.items()
    }
