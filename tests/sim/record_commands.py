"""Renews the table of known commands from a real server: `python -m tests.sim.record_commands PORT`.

What the server at this port of the loopback interface says in COMMAND DOCS replaces the part of its product.
Ask the newest version of each product: it names the version since which each command and option is there.
"""

from __future__ import annotations

import json
import socket
import sys
from typing import Any

import hiredis

from lab.redis_model.known import TABLE

PATIENCE_S = 20.0


class _Asker:
    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._reader = hiredis.Reader(encoding="utf-8", errors="replace")

    def __call__(self, *words: Any) -> Any:
        self._socket.sendall(hiredis.pack_command(words))
        while (reply := self._reader.gets()) is False:
            self._reader.feed(self._socket.recv(1 << 20))
        return reply


def _pairs(flat: list[Any]) -> dict[str, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))


def _options(arguments: list[list[Any]], since: str, into: dict[str, str]) -> None:
    """Collect the words of a command's syntax, each with the version since which it is there."""
    for flat in arguments:
        argument = _pairs(flat)
        added = argument.get("since", since)
        if argument.get("token"):
            for word in argument["token"].upper().split():
                into.setdefault(word, added)
        _options(argument.get("arguments", []), added, into)


def _before_options(arguments: list[list[Any]]) -> int:
    """Count the leading arguments that are never a word of the syntax: a key, a value."""
    count = 0
    for flat in arguments:
        argument = _pairs(flat)
        flags = argument.get("flags", [])
        plain = not argument.get("token") and not argument.get("arguments")
        if not plain or "optional" in flags or "multiple" in flags:
            break
        count += 1
    return count


def _rows(documented: list[Any], into: dict[str, list[Any]]) -> None:
    for name, flat in _pairs(documented).items():
        about = _pairs(flat)
        arguments = about.get("arguments", [])
        options: dict[str, str] = {}
        _options(arguments, about["since"], options)
        row: list[Any] = [about["since"], about["group"]]
        if options:
            row += [_before_options(arguments), options]
        into[name.lower()] = row
        _rows(about.get("subcommands", []), into)


def main() -> int:
    """Ask the server and write the table."""
    ask = _Asker(int(sys.argv[1]))
    server = dict(line.split(":", 1) for line in ask("INFO", "server").splitlines() if ":" in line)
    product = "valkey" if "valkey_version" in server else "redis"
    rows: dict[str, list[Any]] = {}
    _rows(ask("COMMAND", "DOCS"), rows)
    table = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.is_file() else {}
    table[product] = {"version": server[f"{product}_version"], "commands": dict(sorted(rows.items()))}
    products = []
    for name, about in sorted(table.items()):
        lines = ",\n".join(
            f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in about["commands"].items()
        )
        products.append(f'"{name}": {{"version": "{about["version"]}", "commands": {{\n{lines}\n}}}}')
    TABLE.write_text("{" + ",\n".join(products) + "}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
