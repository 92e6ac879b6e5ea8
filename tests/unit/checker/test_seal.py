"""The digest inside a Parquet file: where it stands, what it is of, which files have none."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from checker.formats.seal import _MARK, BLANK, footer_of, is_sealed, seal

MARKED = _MARK + BLANK.encode()


def parquet(footer: bytes, body: bytes = b"body") -> bytes:
    """The frame of a Parquet file."""
    return b"PAR1" + body + footer + struct.pack("<I", len(footer)) + b"PAR1"


@pytest.mark.parametrize("body", [b"", b"body", b"x" * (1 << 20), b"y" * (2 << 20) + b"z"])
def test_a_sealed_file_tells_any_changed_byte(tmp_path: Path, body: bytes) -> None:
    path = tmp_path / "h.parquet"
    blank = parquet(b"some " + MARKED + b" more", body)
    path.write_bytes(blank)
    assert is_sealed(path) is False
    seal(path)
    whole = path.read_bytes()
    assert is_sealed(path) is True
    at = whole.index(_MARK) + len(_MARK)
    assert whole[at : at + 64].decode() == hashlib.sha256(blank).hexdigest()
    assert whole[:at] + BLANK.encode() + whole[at + 64 :] == blank
    for place in {4, at - len(_MARK) - 1, at, at + 63, at + 64, len(whole) // 2}:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert is_sealed(path) is False, place
    path.write_bytes(whole)
    with pytest.raises(ValueError, match=f"no place for the digest in {path}"):
        seal(path)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"PAR1",
        b"PAR1\0\0\0\0PAR1",
        parquet(b"no mark"),
        parquet(b"two " + MARKED + MARKED),
        parquet(b"none", body=MARKED),
        parquet(MARKED)[:-1] + b"2",
        parquet(MARKED)[4:-8] + b"\xff\0\0\0" + b"PAR2",
        b"PAR1" + struct.pack("<I", 0)[:3] + b"PAR1",
    ],
)
def test_a_file_without_one_place_for_it_has_none(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "h.parquet"
    path.write_bytes(data)
    assert is_sealed(path) is None
    if data:
        with pytest.raises(ValueError, match="no place"):
            seal(path)


def test_a_mark_without_room_for_the_digits_is_none(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    for missing in (0, 1, 13):
        footer = _MARK + b"0" * (64 - 8 - missing)
        path.write_bytes(b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1")
        assert is_sealed(path) is (None if missing else False), missing


def test_a_footer_that_is_longer_than_the_file_is_searched_from_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    path.write_bytes(MARKED + struct.pack("<I", 10_000) + b"PAR1")
    assert is_sealed(path) is False


def test_the_shortest_file_with_a_mark_at_its_begin(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    path.write_bytes(MARKED + struct.pack("<I", len(MARKED)) + b"PAR1")
    assert is_sealed(path) is False
    path.write_bytes(b"." + MARKED + struct.pack("<I", len(MARKED) - 1) + b"PAR1")
    assert is_sealed(path) is None, "it begins before the footer"


@pytest.mark.parametrize(
    ("data", "footer"),
    [
        (parquet(b"foot"), b"foot"),
        (parquet(b"", b""), b""),
        (parquet(b"foot", b""), b"foot"),
        (b"PAR1foot" + struct.pack("<I", 5) + b"PAR1", None),
        (b"PAR1foot" + struct.pack("<I", 3) + b"PAR1", b"oot"),
        (b"PAR1\0\0\0PAR1", None),
        (b"PAR2foot" + struct.pack("<I", 4) + b"PAR1", None),
        (b"PAR1foot" + struct.pack("<I", 4) + b"PAR2", None),
        (b"", None),
    ],
)
def test_the_footer_of_a_file(tmp_path: Path, data: bytes, footer: bytes | None) -> None:
    (tmp_path / "h.parquet").write_bytes(data)
    assert footer_of(tmp_path / "h.parquet") == footer
