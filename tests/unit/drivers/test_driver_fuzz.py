"""Whatever a driver prints: a message, or one error that names it; no traceback, no lease for nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lab.addresses import Address
from lab.drivers.messages import Answer, DriverBroken, Failed, Granted, Lost, Op, read_line
from lab.drivers.process import DriverProcess
from lab.errors import LabError
from lab.locks.base import Indeterminate, LeaseLost, NotAcquired, Surroundings
from lab.locks.driver import driver_class
from tests.fuzzing import examples

ASKED: dict[int, Op] = {1: "hello", 2: "open", 3: "acquire", 4: "extend", 5: "held", 6: "release", 7: "clock"}
HELLO = {"id": 1, "ok": True, "lib": "x", "version": "1", "caps": ["extend", "held"]}
GOOD: dict[Op, dict[str, Any]] = {
    "hello": HELLO,
    "open": {"id": 2, "ok": True},
    "acquire": {"id": 3, "ok": True, "lease": "h", "token": "t", "claimed_ms": 9.5, "fence": 1},
    "extend": {"id": 4, "ok": True, "claimed_ms": 9.5},
    "held": {"id": 5, "ok": True, "held": True},
    "release": {"id": 6, "ok": True},
    "clock": {"id": 7, "ok": True, "wall_ms": 1.7e12},
}
REFUSED = {"ok": False, "kind": "refused", "error": "E", "message": "m", "silent": True}
SCRIPTED = 'exec 3<"$0"; while read -r _; do read -r line <&3 || exit 1; printf "%s\\n" "$line"; done'
"""A driver in four words of shell: it answers each command with the next line of a file."""

fuzzed = settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
processes = settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))

raw = st.one_of(
    st.binary(max_size=80),
    st.sampled_from(
        [
            b"",
            b"\n",
            b"\0",
            b"\xff\xfe",
            b"[" * 5000,
            b'{"id":' * 3000,
            b"NaN",
            b"-",
            b"9" * 5000,
            b"x" * (1 << 20),
        ]
    ),
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.sampled_from(
        [0, -1, 3, 2**31, 2**53, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30, 1e308, -1e308, 9e12, 1e13]
    ),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["h", "refused", "error", "{key}", "lost", "\ud800", "\0"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def answers(draw: st.DrawFn, op: Op) -> bytes:
    """One line: an answer to this command, good or with something wrong in it."""
    message = dict(draw(st.sampled_from([GOOD[op], {"id": GOOD[op]["id"], **REFUSED}])))
    for name in draw(
        st.lists(st.sampled_from([*message, "event", "lease", "x", "node_key", "ttl_step_ms"]), max_size=2)
    ):
        message[name] = draw(values)
    if draw(st.integers(0, 3)) == 0:
        message.pop(draw(st.sampled_from(sorted(message))))
    line = json.dumps(message, ensure_ascii=draw(st.booleans())).encode(errors="replace")
    cut = draw(st.sampled_from([None, None, None, 1, 5, -1]))
    return line[:cut].replace(b"\n", b" ")


lines = st.one_of(raw, *map(answers, ASKED.values()))


def is_grant(line: bytes, number: int) -> bool:
    """Whether this line says, whoever reads it, that a lease was granted."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return (
        isinstance(message, dict)
        and (message.get("id"), message.get("ok")) == (number, True)
        and isinstance(message.get("lease"), str)
        and message["lease"] != ""
    )


@fuzzed
@given(lines, st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b""]))
@example(b"[" * 100_000, b"\n")
@example(b'{"id":3,"ok":true,"lease":"h","claimed_ms":1e308}', b"\n")
def test_a_line_is_a_message_or_one_error(line: bytes, end: bytes) -> None:
    heard: object = None
    refused: DriverBroken | None = None
    try:
        heard = read_line("./mine", line + end, ASKED)
    except DriverBroken as error:
        refused = error
    if refused is not None:
        assert refused.where == "driver './mine'"
        assert refused.expected
        assert len(refused.render().encode()) < 3000
    assert heard is None or isinstance(heard, Answer | Lost)
    if isinstance(heard, Answer):
        assert isinstance(heard.what, Failed) == (json.loads(line)["ok"] is False)
        assert not isinstance(heard.what, Granted) or is_grant(line, 3)
        msgspec.json.encode(heard)


async def reported(command: Sequence[str]) -> LabError | None:
    """What comes of saying hello to this driver; nothing else may come of it, and nothing may be left."""
    driver = DriverProcess(command)
    await driver.start(errors_to=asyncio.subprocess.DEVNULL)
    error: LabError | None = None
    try:
        async with asyncio.timeout(120):
            await driver.hello({})
    except LabError as seen:
        error = seen
    listener = driver._listener
    await driver.close()
    assert not driver.running
    assert listener is not None
    assert listener.cancelled() or listener.exception() is None
    return error


@processes
@given(st.lists(lines, max_size=3), st.sampled_from([b"\n", b""]), st.booleans())
@example([b"[" * 100_000], b"\n", False)
@example([b"x" * (1 << 21)], b"\n", True)
def test_a_driver_that_says_anything_and_ends(
    tmp_path_factory: pytest.TempPathFactory, said: list[bytes], end: bytes, loud: bool
) -> None:
    file = tmp_path_factory.mktemp("driver") / "says"
    file.write_bytes(b"\n".join(said) + end)
    error = asyncio.run(
        reported(["sh", "-c", 'tee /dev/stderr < "$0"', str(file)] if loud else ["cat", str(file)])
    )
    if error is not None:
        error.render().encode()
        assert str(file) in error.render()


async def lived(file: Path) -> tuple[bool, LabError | None]:
    """What comes of a client's life with this driver: whether it got a lease, and the error that ended it."""
    lock = driver_class(f"sh -c '{SCRIPTED}' {file}").build(
        [Address("A", "127.0.0.1", 1)], {}, Surroundings(), "alice"
    )
    granted = False
    try:
        async with asyncio.timeout(120):
            await lock.open()
            lease = await lock.acquire("k", 10**10)
            granted = True
            msgspec.json.encode(lease.claim(0))
            lease = await lock.extend(lease, 10**10)
            msgspec.json.encode(lease.claim(0))
            await lock.held(lease)
            await lock.release(lease)
    except LabError as error:
        error.render().encode()
        return granted, error
    except (NotAcquired, Indeterminate, LeaseLost) as no:
        str(no).encode()
    finally:
        await lock.close()
    return granted, None


@processes
@given(st.tuples(*(answers(op) for op in ("open", "acquire", "extend", "held", "release"))))
@example((b'{"id":2,"ok":true}', b'{"id":3,"ok":true,"lease":"h","claimed_ms":1e308}', b"", b"", b""))
def test_a_client_gets_a_lease_only_from_a_driver_that_says_so(
    tmp_path_factory: pytest.TempPathFactory, said: tuple[bytes, ...]
) -> None:
    file = tmp_path_factory.mktemp("driver") / "answers"
    file.write_bytes(b"\n".join([json.dumps(HELLO).encode(), *said]) + b"\n")
    granted, error = asyncio.run(lived(file))
    assert granted <= is_grant(said[1], 3)
    assert error is None or str(file) in error.render()
