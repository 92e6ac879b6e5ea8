"""The page on recording: its worker as three processes on a real Redis, whose defect is found; a control."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.lab_process import ROOT
from tests.local.conftest import RealNode

PAGE = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)(?: (\w+)=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [match.groups() for match in BLOCK.finditer(PAGE)]
KEY = "invoice-7"
WORKER = f"""
import os, sys
import redis
import invoices
if sys.argv[2] == "control":
    from give_back import give_back
else:
    give_back = invoices.give_back
server = redis.Redis(port=int(sys.argv[1]))
for line in sys.stdin:
    word, *more = line.split()
    if word == "take":
        grant, token = invoices.take(server, {KEY!r}, int(more[0]))
        print("taken" if grant else "refused", flush=True)
    elif word == "give":
        give_back(server, grant, token)
        print("given", flush=True)
    elif word == "die":
        give_back(server, grant, token)
        os.kill(os.getpid(), 9)
"""


@dataclass
class Worker:
    """A process that takes and gives back as it is told."""

    process: Process

    async def tell(self, words: str) -> str:
        """Have it do something; what it says to that, nothing if it died."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{words}\n".encode())
        return (await self.process.stdout.readline()).decode().strip()

    async def end(self) -> None:
        """Let it come to its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        await self.process.wait()


@asynccontextmanager
async def workers(directory: Path, node: RealNode, which: str) -> AsyncIterator[list[Worker]]:
    """Three of them, of the page's worker or its control."""
    for language, _, _, text in BLOCKS:
        if language == "python" and text.startswith("# "):
            (directory / text.split()[1].rstrip(":")).write_text(text)
    arguments = [sys.executable, "-c", WORKER, str(node.address.port), which]
    started = [
        await asyncio.create_subprocess_exec(*arguments, cwd=directory, stdin=PIPE, stdout=PIPE)
        for _ in range(3)
    ]
    try:
        yield [Worker(process) for process in started]
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def one_is_late(a: Worker, b: Worker, c: Worker, node: RealNode) -> str:
    """The first holder gives back what is the second's by then; what the third gets after that."""
    assert await a.tell("take 300") == "taken"
    while await node.get(KEY) is not None:
        await asyncio.sleep(0.02)
    assert await b.tell("take 60000") == "taken"
    assert await a.tell("give") == "given"
    third = await c.tell("take 60000")
    await asyncio.sleep(0.3)  # so that the example is one in which something lasts
    assert await b.tell("give") == "given"
    return third


async def check(directory: Path, line: str) -> tuple[int | None, str, str]:
    """Run a command line of the page as a shell does."""
    line = line.replace("lab ", f"{shlex.quote(sys.executable)} -m lab ", 1)
    done = await asyncio.create_subprocess_exec(
        "bash", "-c", line, cwd=directory, stdout=PIPE, stderr=PIPE, env={"PYTHONPATH": str(ROOT)}
    )
    out, err = await done.communicate()
    return done.returncode, out.decode(), err.decode()


def violations(out: str) -> list[dict[str, Any]]:
    """What a verdict as JSON says is violated."""
    verdict = json.loads(out)
    found = [f for p in verdict["properties"].values() for f in p["findings"]]
    return [finding for finding in found if finding["severity"] == "violation"]


async def test_a_release_that_deletes_whatever_is_there_is_found(
    nodes: list[RealNode], tmp_path: Path
) -> None:
    async with workers(tmp_path, nodes[0], "worker") as (a, b, c):
        assert await one_is_late(a, b, c, nodes[0]) == "taken"
        assert await c.tell("give") == "given"
        names = {f"{path.stem}" for path in (tmp_path / "recorded").glob("*.jsonl")}
        pids = [worker.process.pid for worker in (a, b, c)]
        for worker in (a, b, c):
            await worker.end()
    assert len(names) == 3
    (commands,) = (text for language, _, _, text in BLOCKS if language == "sh" and "recorded/" in text)
    for line in commands.splitlines():
        code, out, err = await check(tmp_path, line)
        assert (code, err) == (0 if "--save" in line else 1, ""), line + out
        assert ("overlap" in out) == ("--save" not in line)
    for file in ("recorded/*.jsonl", "joined.jsonl"):
        code, out, _ = await check(tmp_path, f"lab check {file} --json")
        (overlap,) = violations(out)
        assert overlap["name"] == "overlap"
        assert overlap["key"] == KEY
        second, third = (next(n for n in names if f"-{pid}-" in n) for pid in pids[1:])
        assert overlap["clients"] == [second, third]


async def test_a_release_that_compares_is_clean(nodes: list[RealNode], tmp_path: Path) -> None:
    async with workers(tmp_path, nodes[0], "control") as (a, b, c):
        assert await one_is_late(a, b, c, nodes[0]) == "refused"
        assert await c.tell("take 60000") == "taken"
        assert await c.tell("give") == "given"
        for worker in (a, b, c):
            await worker.end()
    code, out, err = await check(tmp_path, "lab check recorded/*.jsonl")
    assert (code, err) == (0, ""), out
    assert "unknown" not in out
    code, out, err = await check(tmp_path, "lab check --follow recorded/*.jsonl")
    assert (code, err) == (0, ""), out


async def test_a_process_that_is_killed_leaves_a_gap_and_no_lie(
    nodes: list[RealNode], tmp_path: Path
) -> None:
    async with workers(tmp_path, nodes[0], "control") as (a, b, c):
        assert await a.tell("take 60000") == "taken"
        while not any(b'"ok"' in path.read_bytes() for path in (tmp_path / "recorded").glob("*.jsonl")):
            await asyncio.sleep(0.01)  # until its acquire is on record
        assert await a.tell("die") == ""  # it gives the lock back; whether that is on record is open
        assert await a.process.wait() == -signal.SIGKILL
        assert await b.tell("take 60000") == "taken"
        assert await b.tell("give") == "given"
        await b.end()
        await c.end()
    code, out, _ = await check(tmp_path, "lab check recorded/*.jsonl --json")
    assert code == 3
    assert violations(out) == []
    assert "it was killed, or its file is still being written" in out


@pytest.mark.full
async def test_a_violation_is_told_while_the_processes_go_on(nodes: list[RealNode], tmp_path: Path) -> None:
    async with workers(tmp_path, nodes[0], "worker") as (a, b, c):
        for worker in (a, b, c):  # each has a file
            assert await worker.tell("take 60000") == "taken"
            assert await worker.tell("give") == "given"
        while len(list((tmp_path / "recorded").glob("*.jsonl"))) < 3:
            await asyncio.sleep(0.01)
        files = [str(path) for path in (tmp_path / "recorded").glob("*.jsonl")]
        follow = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "lab", "check", "--follow", *files), cwd=ROOT, stdout=PIPE
        )
        assert follow.stdout is not None
        assert await one_is_late(a, b, c, nodes[0]) == "taken"
        line = (await follow.stdout.readline()).decode()
        assert "violation overlap" in line  # nobody has ended, and the third still holds it
        for worker in (a, b, c):
            await worker.end()
        rest = (await follow.stdout.read()).decode()
        assert await follow.wait() == 1, rest


@pytest.mark.parametrize("line", [text.strip() for _, option, _, text in BLOCKS if option == "exit"])
async def test_the_files_of_other_languages(line: str, tmp_path: Path) -> None:
    for _, option, value, text in BLOCKS:
        if option == "file":
            (tmp_path / value).write_text(text)
    (code,) = (int(value) for _, option, value, text in BLOCKS if option == "exit" and text.strip() == line)
    ended, out, err = await check(tmp_path, line)
    assert (ended, err) == (code, ""), out
    assert "a@web-1 and b@web-2 both held 'invoice-7'" in out
    wide, out, _ = await check(tmp_path, line.replace("check", "check --clock-error-ms 3000"))
    assert wide == 3
    assert "violated if the clocks of all hosts are right" in out
