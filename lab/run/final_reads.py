"""The store's own record at the end of a run, written to the history by the lab.

Three events of the process ``lab`` for each key:

``read``      ``version_read`` and ``value``: what the store holds.
``log``       ``entries``: every accepted write, oldest first, as [version, value, grant id, fence].
``executed``  ``value``: every write and announcement that the store executed, oldest first, as objects with
              ``f`` ("write" or "announce") and ``ran_ns`` (two instants on the recorder's clock, between
              which it was executed); for a write also ``grant_id``, ``value`` and ``version`` (absent: it was
              rejected), for an announcement ``token``. Older histories have no such event.

The store stamps with its own wall clock, in microseconds; ``ran_ns`` is right as long as that is the clock of
this machine and is not set. A user of it must compare it with call and return of the operation.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, Final

from lab.errors import UnknownOutcome
from lab.run.recorder import Recorder
from lab.store import Execution, StoreClient, StoreError

TIMEOUT_S: Final = 10.0


async def final_reads(host: str, port: int, keys: Iterable[str], recorder: Recorder) -> None:
    """Read from the store, past every link, its content and its logs; record the answers.

    Raises:
        UnknownOutcome: it does not answer.
    """
    try:
        async with StoreClient(host, port, checks_fences=False, timeout_s=TIMEOUT_S) as store:
            held = [
                (key, await store.read(key), await store.log(key), await store.executions(key))
                for key in keys
            ]
    except StoreError as error:
        raise UnknownOutcome(f"the store did not answer the final read: {error}") from error
    before_ns = recorder.now_ns()
    wall_ns = time.time_ns()
    after_ns = recorder.now_ns()
    for key, stored, log, executions in held:
        recorder.write("lab", "ok", "read", key=key, version_read=stored.version, value=stored.value)
        entries = [[entry.version, entry.value, entry.grant_id, entry.fence] for entry in log]
        recorder.write("lab", "ok", "log", key=key, entries=entries)
        executed = [_executed(one, before_ns - wall_ns, after_ns - wall_ns) for one in executions]
        recorder.write("lab", "ok", "executed", key=key, value=executed)


def _executed(one: Execution, least_ns: int, most_ns: int) -> dict[str, Any]:
    """One execution; the recorder's clock is between ``least_ns`` and ``most_ns`` ahead of the wall clock."""
    ran_ns = [one.at_us * 1000 + least_ns, (one.at_us + 1) * 1000 + most_ns]
    if one.verb == "announce":
        return {"f": one.verb, "token": one.whose, "ran_ns": ran_ns}
    about: dict[str, Any] = {"f": one.verb, "grant_id": one.whose, "value": one.value, "ran_ns": ran_ns}
    return {**about, "version": one.version} if one.version else about
