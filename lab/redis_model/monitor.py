"""The lines that MONITOR prints."""

from __future__ import annotations

from collections.abc import Sequence

_SPECIAL = {ord("\\"): "\\\\", ord('"'): '\\"', 10: "\\n", 13: "\\r", 9: "\\t", 7: "\\a", 8: "\\b"}
_SHOWN = [_SPECIAL.get(code, chr(code) if 32 <= code < 127 else f"\\x{code:02x}") for code in range(256)]


def monitor_line(now_us: int, peer: str, args: Sequence[bytes]) -> bytes:
    """Return one line: time, database and sender, and each argument in quotes."""
    words = " ".join('"' + "".join([_SHOWN[code] for code in argument]) + '"' for argument in args)
    return f"+{now_us // 1_000_000}.{now_us % 1_000_000:06d} [0 {peer}] {words}\r\n".encode()
