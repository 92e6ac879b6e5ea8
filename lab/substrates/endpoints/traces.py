"""What a run leaves on servers that are not the lab's, written down before it is made.

One file per run in the lab's state directory: the process of the lab, the proxies, and every key with the
place of its server. There is no user and no password in it. A run that ends removes all of it, and its file.
What a killed run left is removed by the next run on the same servers, which can log in there.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from lab.addresses import KEY_PREFIX, Endpoint
from lab.paths import state_dir, writable_dir
from lab.processes import started_at
from lab.substrates.run_files import boot_id


def _directory() -> Path:
    return state_dir() / "endpoints"


class Traces:
    """The file of a living run."""

    def __init__(self, run_id: str, proxy: str | None) -> None:
        self.path = writable_dir(_directory()) / f"{run_id}.jsonl"
        self._file: IO[str] = self.path.open("w")
        lab = {"pid": os.getpid(), "started_at": started_at(os.getpid()), "boot": boot_id()}
        self._write({**lab, "run": run_id, "proxy": proxy})

    def note(self, endpoint: Endpoint, key: str) -> None:
        """Write down a key, before it can be on the server."""
        self._write({"at": place_of(endpoint), "key": key})

    def close(self, *, forget: bool) -> None:
        """End, and ``forget`` what is removed."""
        self._file.close()
        if forget:
            self.path.unlink(missing_ok=True)

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()


def place_of(endpoint: Endpoint) -> str:
    """The place of its keys: host, port, database."""
    return f"{endpoint.place}/{endpoint.database}"


class Left:
    """What a killed run left: keys, by the place of their servers, and the proxies of its id."""

    def __init__(self, path: Path, head: dict[str, Any], keys: dict[str, list[str]]) -> None:
        self.path, self.keys = path, keys
        self.run_id: str = str(head.get("run", path.stem))
        self.proxy: str | None = head.get("proxy")
        self._head = head

    def removed(self, places: set[str]) -> None:
        """Forget what was on these servers, and the file if nothing is left."""
        for place in places:
            self.keys.pop(place, None)
        if not self.keys:
            self.path.unlink(missing_ok=True)
            return
        records = [{"at": at, "key": key} for at, keys in self.keys.items() for key in keys]
        self.path.write_text("".join(json.dumps(each) + "\n" for each in (self._head, *records)))


def left_behind() -> Iterator[Left]:
    """What runs left whose lab is gone."""
    for path in sorted(_directory().glob("*.jsonl")):
        head: dict[str, Any] = {}
        keys: dict[str, list[str]] = {}
        with contextlib.suppress(OSError):
            for line in path.read_text().splitlines():
                with contextlib.suppress(ValueError):  # the last line of a killed lab may be cut off
                    record = json.loads(line)
                    if "pid" in record:
                        head = record
                    elif str(record.get("key", "")).startswith(KEY_PREFIX):
                        keys.setdefault(record["at"], []).append(record["key"])
        alive = head.get("boot") == boot_id() and started_at(int(head.get("pid", -1))) == head.get(
            "started_at"
        )
        if head and not alive:
            yield Left(path, head, keys)
