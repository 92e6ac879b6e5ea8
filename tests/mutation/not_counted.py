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
_ZIPS: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    ("formats/chunks", ("helpers, shares[1:]",)),
    ("formats/edn", ("keys, items[1::2]",)),
    (
        "formats/parquet_table",
        ("COLUMNS, threads.map(lambda name: _column(pl, path, name, trusted), COLUMNS)",),
    ),
    ("formats/scan", ("NUMBER_COLUMNS, self._numbers",)),
    ("history/accesses", ("*found",)),
    (
        "history/pairing",
        (
            "names, _each(merged, names, calls.size)",
            "_FIELDS, zip(*map(_ROW, events), strict=True) if n else [()] * len(_FIELDS)",
            "*map(_ROW, events)",
        ),
    ),
    ("history/renaming", ("alone.tolist(), of",)),
    ("linearizability/adapter", ("rows.tolist(), called.tolist(), returned.tolist()",)),
    ("linearizability/check", ("chosen.key.tolist(), lock_ops(chosen)",)),
    ("linearizability/model", ("columns.row.tolist(), kinds, *(column.tolist() for column in lists)",)),
    ("properties/counting", ("clients, holds.weight[same].tolist()",)),
    ("properties/cycles", ("graph.source.tolist(), graph.target.tolist(), graph.kind.tolist()",)),
    (
        "properties/deadlock_freedom",
        (
            "free.key.tolist(), free.start_ns.tolist(), free.end_ns.tolist()",
            "inside.tolist(), calls[1:]",
        ),
    ),
    ("properties/linearizable", ("*added",)),
    ("properties/mutual_exclusion", ("found.first.tolist(), found.second.tolist()",)),
    (
        "properties/resource",
        (
            "found.first.tolist(), found.second.tolist(), found.kind",
            "(a, b), wrote, (one, two)",
            "steps, sentences",
        ),
    ),
    ("properties/waits", ("circle, [*circle[1:], circle[0]]",)),
)
"""By file, the columns that are walked through together."""
_BLOCK: Final = "the size of a piece of work; the pieces together are the same"
_GROWTH: Final = "how much room is made ahead; what is in it is the same"

NOT_COUNTED: Final[tuple[Entry, ...]] = tuple(
    _entries(
        "a name for a type, used in annotations only, which nothing evaluates",
        ("decide", "Check = Callable", None, None),
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
        ("formats/chunks", "if end - start < PARALLEL_BYTES or", "end - start", None),
        ("formats/chunks", "if end - start < PARALLEL_BYTES or", "end - start < PARALLEL_BYTES", None),
        ("history/pairing", "with ThreadPoolExecutor(2) as threads", "ThreadPoolExecutor(2)", None),
        ("history/pairing", "with ThreadPoolExecutor(2) as threads", "2", None),
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
    + [
        entry
        for file, pairs in _ZIPS
        for entry in _entries(
            _ZIP,
            (file, "strict=True", "True", "False"),
            *((file, "strict=True", f"zip({them}, strict=True)", f"zip({them})") for them in pairs),
        )
    ]
    + _entries(
        "a rank: only the order of the numbers counts",
        ("history/attribution", "return 2", "2", "3"),
    )
    + _entries(
        "any shift keeps the numbers of different pairs apart, as long as none is negative",
        ("history/arrays", "number: I64 = one.astype(np.int64) * width + other + 1", "1", "2"),
        ("history/arrays", "width = int(other.max(initial=-1)) + 2", "2", "3"),
    )
    + _entries(
        "a quicker way where it fits; the other one gives the same answer",
        ("history/arrays", "if _grows(values, group, None, strictly=False)", "False", "True"),
        ("history/pairing", "if used > known", "used > known", "used >= known"),
        ("history/operations", "_CODES: Final = [np.array(", "np.array(code, np.int8)", "np.array(code)"),
        ("properties/cycles", "if graph.nodes >= LARGE", "graph.nodes >= LARGE", None),
        ("linearizability/turns", "if self.columns.keys > 1", "self.columns.keys > 1", None),
        ("linearizability/columns", "if top <= 3 * size + 1024", "3", "4"),
        ("linearizability/columns", "if top <= 3 * size + 1024", "1024", None),
        (
            "linearizability/columns",
            "if top <= 3 * size + 1024",
            "top <= 3 * size + 1024",
            "top < 3 * size + 1024",
        ),
    )
    + _entries(
        "room for the code of what is absent, -1: in a longer table its place is the last as well",
        ("properties/deadlock_freedom", "np.full(len(evidence.ops.names.key) + 1, bound", "1", "2"),
        ("properties/deadlock_freedom", "np.zeros(len(ops.names.key) + 1, np.int64)", "1", "2"),
        ("decide", "np.zeros(len(ops.names.grant) + 1, bool)", "1", "2"),
        ("history/evidence", "np.zeros(len(ops.names.value) + 1, np.bool_)", "1", "2"),
        ("history/writes", "np.full(len(ops.names.token) + 1, NONE, np.int64)", "1", "2"),
        ("history/identity", "np.zeros(max(int(ops.grant.max(initial=NONE)), NONE) + 2", "2", "3"),
        ("history/identity", "np.full(max(int(ops.grant.max(initial=NONE)), NONE) + 2", "2", "3"),
        ("history/identity", "np.zeros(int(client.max(initial=NONE)) + 2, np.bool_)", "2", "3"),
    )
    + _entries(
        "an index so large is left to the decoder, which takes it alike",
        ("formats/scan", "not -(2**63) < (event.index or 0) < 2**62", "63", "62"),
        ("formats/scan", "not -(2**63) < (event.index or 0) < 2**62", "62", "61"),
    )
    + _entries(
        "how many there are, for room ahead",
        *(
            (file, before.replace("'", '"'), before, before.rpartition(", ")[0] + ")")
            for file, before in (
                ("formats/chunks", "np.fromiter(map(interner.__getitem__, names), np.int32, len(names))"),
                ("history/pairing", "np.fromiter(map(TYPES.__getitem__, fields['type']), np.int8, n)"),
                ("history/pairing", "np.fromiter(map(interner.__getitem__, values), np.int32, len(values))"),
                ("history/pairing", "np.fromiter(map(_KIND.__getitem__, kinds), np.int8, len(kinds))"),
                (
                    "history/pairing",
                    "np.fromiter(map(interner.__getitem__, strings), np.int32, len(strings))",
                ),
            )
        ),
    )
    + _entries(
        "a table of small numbers, in which wider ones do as well",
        ("formats/scan", "np.full(1 << 10, -1, np.int32)", "np.full(1 << 10, -1, np.int32)", None),
    )
    + _entries(
        "marks: 0 and 1 do as well as False and True",
        (
            "history/evidence",
            "np.zeros(len(ops.names.value) + 1, np.bool_)",
            "np.zeros(len(ops.names.value) + 1, np.bool_)",
            "np.zeros(len(ops.names.value) + 1)",
        ),
        (
            "properties/waiting",
            "known = np.zeros(keys, np.bool_)",
            "np.zeros(keys, np.bool_)",
            "np.zeros(keys)",
        ),
    )
    + _entries(
        "a filter ahead of the test itself, which leaves out what passes too much",
        (
            "properties/waits",
            "holding = (at > 0) & (reach",
            None,
            "(at > 0) | (reach[np.maximum(at - 1, 0)] > ops.call_ns[rows[mine]])",
        ),
    )
    + _entries(
        "which bits of a hash are looked at first; all of them are in turn",
        ("formats/parquet_table", "own, shift = hashes, 0", "0", "1"),
    )
    + _entries(
        "no grant has an empty name, nor none: this is for the type checker",
        ("live/judge", 'self._grants.get(name or "")', "name or ''", "name"),
        ("live/judge", 'self._grants.get(event.grant_id or "")', "event.grant_id or ''", "event.grant_id"),
    )
    + _entries(
        "more room than is used",
        ("formats/scan", "np.full((kernel.STATES, len(_FIELDS) + 1), NONE, np.int64)", "1", "2"),
    )
    + _entries(
        "no weight: any number that is not positive",
        ("properties/counting", "return {READ: 1, WRITE: ROOM}.get(value, 0)", "0", "-1"),
        ("properties/counting", "return value if isinstance(value, int) and not", "0", "-1"),
    )
    + _entries(
        "of a column that is one number repeated, two rows say what one says",
        ("history/history", "column = column[:1]", "1", "2"),
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
                ("history/accesses", "np.full(row.size, MISSING, np.int64)"),
                ("linearizability/owners", "np.full(columns.keys, NEVER, np.int64)"),
                ("linearizability/owners", "np.full(columns.keys, NONE, np.int64)"),
                ("linearizability/columns", "np.full(len(call_ns), NEVER, np.int64)"),
                ("linearizability/owned", "np.full(len(columns), NO_FENCE, np.int64)"),
                ("properties/lease_honesty", "np.full(told_grants.size, NEVER, np.int64)"),
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
