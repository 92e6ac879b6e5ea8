"""What is kept of a matrix while it runs: its cells in the first line of a file, then one line per ended run.

So whatever ends the lab costs the runs that were going on, and no others; `--resume` goes on from there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from lab.batch.journal import LineFile
from lab.batch.matrix.model import Matrix, with_runs
from lab.batch.verdicts import OneRun
from lab.errors import LabError

FILE: Final = "runs.jsonl"
FORMAT: Final = 1


class _Header(msgspec.Struct, frozen=True):
    version: int
    matrix: Matrix


class _Line(msgspec.Struct, frozen=True):
    cell: str
    run: OneRun


class Journal:
    """The file of one matrix; ``matrix`` is what stands in it."""

    def __init__(self, file: LineFile, matrix: Matrix) -> None:
        self._file = file
        self.matrix = matrix

    @classmethod
    def begin(cls, directory: Path, matrix: Matrix) -> Journal:
        """Start the file of a matrix in a new directory. Raises ``LabError`` if it cannot be written."""
        journal = cls(LineFile(directory / FILE), matrix)
        journal._file.write(_Header(FORMAT, matrix))
        return journal

    @classmethod
    def resume(cls, directory: Path) -> Journal:
        """Open the file of a matrix that was begun.

        Raises:
            LabError: there is none, it is damaged, or another lab is writing it.
        """
        path = directory / FILE
        if not path.is_file():
            raise LabError(
                "there is no matrix to go on with",
                where=str(directory),
                expected=f"the directory of a matrix, with its {FILE}",
                hint="lab matrix tells the directory when it begins: reports/matrix-…",
            )
        file = LineFile(path)
        try:
            return cls(file, _read(path, file.kept))
        except BaseException:
            file.close()
            raise

    def append(self, cell: str, run: OneRun) -> None:
        """Write down a run that ended."""
        self._file.write(_Line(cell, run))

    def close(self) -> None:
        """Let others write."""
        self._file.close()


def _read(path: Path, lines: list[bytes]) -> Matrix:
    at = 0
    try:
        header = msgspec.json.decode(lines[0] if lines else b"", type=_Header)
        decoder = msgspec.json.Decoder(_Line)
        ended: list[_Line] = []
        for at, line in enumerate(lines[1:], 1):  # noqa: B007 - the error says which one it was
            ended.append(decoder.decode(line))
    except msgspec.DecodeError as error:
        raise LabError(
            f"this is no line of a matrix: {error}",
            where=f"{path}:{at + 1}",
            hint="the file was changed: remove the line, or begin a new matrix",
        ) from error
    if header.version != FORMAT:
        raise LabError(
            f"a matrix of format {header.version}",
            where=f"{path}:1",
            expected=f"format {FORMAT}",
            hint="begin a new matrix, or use the lab that began this one",
        )
    known = {cell.id for cell in header.matrix.cells}
    for at, one in enumerate(ended, 2):
        if one.cell not in known:
            raise LabError(f"a run of {one.cell!r}, which is no cell of this matrix", where=f"{path}:{at}")
    cells = with_runs(header.matrix.cells, ((one.cell, one.run) for one in ended))
    return msgspec.structs.replace(header.matrix, cells=cells)
