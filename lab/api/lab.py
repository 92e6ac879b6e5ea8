"""The lab as a library: what the command line can do, and a cluster to break from Python.

::

    from lab import Lab

    result = Lab().run("partition-clockjump", lock="my_lock:Hasty")
    assert result.outcomes["mutual_exclusion"] == "ok", result.explain()

    with Lab().cluster(lock="redlock", ttl="2s") as cluster:
        cluster.do("alice acquires")
        cluster.inject(cut={"client": "bob", "nodes": ["A", "B"]})
        cluster.do("bob acquires")
    assert cluster.result.as_expected

Each call is a process of its own (``python -m lab``), with the ``sys.path`` of the caller, so that a lock of
yours is found there: the caller's clocks, threads and signals stay as they are, and so do its exit codes.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lab.api.live.cluster import LiveCluster
from lab.api.live.ending import end_lab
from lab.api.live.protocol import Begin
from lab.api.result import LabResult
from lab.errors import ExitCode, LabError, UnknownOutcome

__all__ = ["Lab", "LabResult", "LiveCluster"]

LockName = str | type
Settings = Mapping[str, Any] | Sequence[str]


class Lab:
    """The lab, with what all its runs have in common.

    Args:
        out: where directories of runs are made.
        on: the substrate: auto, docker, local or sim.
        cwd: where commands are run; by default here. Files are looked for from there.
    """

    def __init__(
        self, out: str | Path = "reports", *, on: str = "auto", cwd: str | Path | None = None
    ) -> None:
        self.cwd = Path.cwd() if cwd is None else Path(cwd).resolve()
        self.out = (self.cwd / out).resolve()
        self.on = on

    def run(
        self,
        scenario: str | Path,
        *,
        lock: LockName | None = None,
        seed: int | None = None,
        set: Settings = (),
        expect: Mapping[str, Any] | None = None,
        on: str | None = None,
        picture: bool = False,
    ) -> LabResult:
        """Run one scenario, as ``lab run`` does.

        Args:
            scenario: its name, or a YAML file.
            lock: the lock under test: a name, ``package.module:Class``, or the class itself.
            seed: of every random choice; drawn if absent.
            set: overrides, as a mapping ``{"lock.ttl": "2s"}`` or as ``--set`` takes them.
            expect: what must come out of it, in place of what the scenario says.
            on: another substrate than the lab's own.
            picture: whether it is drawn even if it comes out as expected.

        Raises:
            LabError: bad input, or the lab ended without a verdict.
        """
        overrides = [*_settings(set), *([f"expect={_json(expect)}"] if expect else [])]
        words = ["run", str(scenario), "--on", on or self.on, "--out", str(self.out), "--json"]
        words += ["--picture", "always" if picture else "unexpected"]
        words += ["--lock", _lock_name(lock)] if lock is not None else []
        seed = secrets.randbelow(2**31) if seed is None else seed
        words += ["--seed", str(seed)]
        words += [word for override in overrides for word in ("--set", override)]
        code, out, err = self._call(words, lock)
        told = _decoded(out)
        if told is None:
            raise _error(code, err)
        made = self.out.glob(f"{told['scenario']}-*-{seed}*")
        directory = next(path for path in made if _kept(path) == out)
        return LabResult(code, directory, str(told.get("repeat") or ""))

    def check(self, target: str | Path) -> LabResult:
        """Check a stored run once more, as ``lab check`` does. Raises ``LabError``."""
        directory = (self.cwd / target).resolve()
        directory = directory.parent if directory.is_file() else directory
        code, out, err = self._call(["check", str(directory), "--json"])
        if _decoded(out) is None:
            raise _error(code, err)
        return LabResult(code, directory)

    def scenarios(self) -> list[dict[str, Any]]:
        """The scenarios that come with the lab, as ``lab list --json`` has them."""
        code, out, err = self._call(["list", "--json"])
        if code:
            raise _error(code, err)
        found: list[dict[str, Any]] = msgspec.json.decode(out)
        return found

    def command(self, *words: str) -> tuple[int, Any]:
        """Any other command with ``--json``: its exit code, and what it printed.

        ``lab.command("suite", "locks.yaml")``, ``lab.command("search", "--lock", "my_lock:Hasty")``,
        ``lab.command("campaign", "healthy", "--seeds", "0:100")``, ``verdicts``, ``selftest``, ``doctor`` …

        Raises:
            LabError: bad input, or it ended without a word.
        """
        code, out, err = self._call([*words, "--json"])
        if code == ExitCode.USAGE or not out.strip():
            raise _error(code, err)
        return code, msgspec.json.decode(out)

    def cluster(
        self,
        *,
        lock: LockName = "redlock",
        ttl: str = "10s",
        options: Mapping[str, Any] | None = None,
        clients: Iterable[str] = ("alice", "bob"),
        nodes: int = 5,
        expect: Mapping[str, Any] | None = None,
        scenario: Mapping[str, Any] | None = None,
        seed: int = 0,
        on: str | None = None,
    ) -> LiveCluster:
        """A cluster to be told, step by step, what happens; use it with ``with``.

        Args:
            lock: the lock under test: a name, ``package.module:Class``, or the class itself.
            ttl: of each lease, with its unit.
            options: of the lock, as in a scenario.
            clients: their names.
            nodes: how many.
            expect: what must come out; by default, that nothing is violated.
            scenario: anything else that a scenario may say: ``{"store": {"fencing": True}}``.
            seed: of every random choice.
            on: another substrate than the lab's own; real ones only.
        """
        about: dict[str, Any] = {
            "title": "A story told from Python",
            "source": "a test",
            "why": "Told step by step by the program that asked for it.",
            "clients": list(clients),
            **(scenario or {}),
        }
        about["lock"] = {"name": _lock_name(lock), "ttl": ttl, "options": dict(options or {})}
        about["cluster"] = {**about.get("cluster", {}), "nodes": nodes}
        about["expect"] = dict(expect or {"mutual_exclusion": "ok"})
        begin = Begin(about, on or self.on, str(self.out), seed)
        return LiveCluster(begin, self.cwd, _environment(lock))

    def _call(self, words: Sequence[str], lock: LockName | None = None) -> tuple[int, bytes, str]:
        """Run a command to its end: exit code, stdout, stderr."""
        process = subprocess.Popen(
            [sys.executable, "-m", "lab", *words],
            cwd=self.cwd,
            env=_environment(lock),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C reaches it from here, once
        )
        try:
            out, err = process.communicate()
        except BaseException:
            end_lab(process)
            raise
        return process.returncode, out, err.decode(errors="replace")


def _environment(lock: LockName | None) -> dict[str, str]:
    """The caller's environment, in which a lab imports what the caller can import."""
    path = [str(Path(entry or ".").resolve()) for entry in sys.path]
    if isinstance(lock, type):
        file = getattr(sys.modules.get(lock.__module__), "__file__", None)
        depth = lock.__module__.count(".")
        path += [str(Path(file).resolve().parents[depth])] if file else []
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}


def _lock_name(lock: LockName) -> str:
    return f"{lock.__module__}:{lock.__qualname__}" if isinstance(lock, type) else lock


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _settings(settings: Settings) -> list[str]:
    if isinstance(settings, Mapping):
        return [
            f"{key}={value if isinstance(value, str) else _json(value)}" for key, value in settings.items()
        ]
    return list(settings)


def _kept(directory: Path) -> bytes | None:
    """What a run kept as its verdict, which is also what it printed."""
    with contextlib.suppress(OSError):
        return (directory / "verdict.json").read_bytes()
    return None


def _decoded(out: bytes) -> dict[str, Any] | None:
    with contextlib.suppress(msgspec.DecodeError):
        return msgspec.json.decode(out, type=dict[str, Any])
    return None


def _error(code: int, err: str) -> LabError:
    """What a lab that ended without a result says on stderr, as an exception."""
    fields: dict[str, str] = {}
    for line in err.splitlines():
        name, colon, text = line.strip().partition(": ")
        if colon and name in ("error", "where", "expected", "hint"):
            fields[name] = text
    seen = fields.pop("error", None) or (err.strip().splitlines() or ["no word"])[-1]
    kind = LabError if code == ExitCode.USAGE else UnknownOutcome
    return kind(seen, **{name: fields[name] for name in ("where", "expected", "hint") if name in fields})
