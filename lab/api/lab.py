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

Runs take place in a process of their own (``lab.api.child``), with the ``sys.path`` of the caller, so that a
lock of yours is found there: the caller's clocks, threads, event loop and signals stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from lab.api import runs
from lab.api.child import Child, environment_for
from lab.api.live.cluster import Begin, LiveCluster
from lab.run.request import RunRequest
from lab.run.result import RunResult

if TYPE_CHECKING:
    from lab.api.many import Searched
    from lab.batch.result import Result
    from lab.batch.tally import Tally
    from lab.report.files import Picture

__all__ = ["Lab", "LiveCluster", "RunResult"]

LockName = str | type
Settings = Mapping[str, Any] | Sequence[str]
T = TypeVar("T")


class Lab:
    """The lab, with what all its runs have in common.

    Args:
        out: where directories of runs are made.
        on: the substrate: auto, docker, local or sim.
        cwd: where runs take place; by default here. Files are looked for from there.
    """

    def __init__(
        self, out: str | Path = "reports", *, on: str = "auto", cwd: str | Path | None = None
    ) -> None:
        self.cwd = Path.cwd() if cwd is None else Path(cwd).resolve()
        self.out = (self.cwd / out).resolve()
        self.on = on

    def request(
        self,
        scenario: str | Path,
        *,
        lock: LockName | None = None,
        seed: int | None = None,
        set: Settings = (),
        expect: Mapping[str, Any] | None = None,
        on: str | None = None,
    ) -> RunRequest:
        """What ``run`` asks for with these arguments."""
        overrides = (*_settings(set), *([f"expect={_json(expect)}"] if expect else []))
        name = None if lock is None else _lock_name(lock)
        return RunRequest(str(scenario), overrides, name, seed, on or self.on, self.out)

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
    ) -> RunResult:
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
        request = self.request(scenario, lock=lock, seed=seed, set=set, expect=expect, on=on)
        return self.call(carry_out, request, "always" if picture else "unexpected", lock=lock)

    def check(self, target: str | Path) -> RunResult:
        """Check a stored run once more, as ``lab check`` does. Raises ``LabError``."""
        return runs.check(self.cwd / target).result

    def report(self, target: str | Path) -> Path:
        """Write the page of a stored run once more, as ``lab report`` does. Raises ``LabError``."""
        return runs.page(self.cwd / target)

    def figure(self, target: str | Path, kind: str = "timeline", out: str | Path | None = None) -> Path:
        """Draw a figure of a stored run, as ``lab report --figure`` does. Raises ``LabError``."""
        return runs.figure(self.cwd / target, kind, None if out is None else self.cwd / out)

    def scenarios(self, *, libraries: bool = False, consensus: bool = False) -> list[dict[str, Any]]:
        """The scenarios that come with the lab, as ``lab list --json`` has them."""
        from lab.scenario.library import summaries

        found: list[dict[str, Any]] = msgspec.to_builtins(summaries(libraries=libraries, consensus=consensus))
        return found

    def suite(
        self,
        *what: str | Path,
        jobs: int | None = None,
        repeat: int = 1,
        only: Sequence[str] = (),
        matrix: bool = False,
        seed: int | None = None,
        on: str | None = None,
    ) -> Result:
        """Run many, as ``lab suite`` does: a suite's file, or scenarios, each with its control.

        Args:
            what: the file, or names and files of scenarios; the lab's own suite if empty.
            jobs: how many real runs at once; the number of cores if absent.
            repeat: how often each is run.
            only: patterns of items, as ``--only`` takes them.
            matrix: as a survey of locks, which expects nothing.
            seed: of the first run of each; drawn if absent.
            on: a substrate in place of what the file says.

        Raises:
            LabError: bad input, or a result cannot be kept.
        """
        from lab.api import many
        from lab.batch.plan import Selection

        wanted = tuple(map(str, what))
        chosen = Selection(wanted, on=on, survey=matrix, only=tuple(only), repeat=repeat)
        return self.call(many.suite, chosen, self.out, jobs, seed)

    def campaign(
        self,
        scenario: str | Path | None = None,
        *,
        seeds: str,
        lock: LockName | None = None,
        faults: str | None = None,
        set: Settings = (),
        jobs: int | None = None,
    ) -> Tally:
        """Simulate one scenario, or drawn schedules against a lock, over many seeds, as ``lab campaign``.

        What is known already is not run again. Arguments are those of the command. Raises ``LabError``.
        """
        from lab.api import many

        name = None if lock is None else _lock_name(lock)
        given = None if scenario is None else str(scenario)
        asked = (given, seeds, name, faults, tuple(_settings(set)), jobs, self.out)
        return self.call(many.campaign, *asked, lock=lock)

    def search(self, lock: LockName, find: str = "overlap", **options: Any) -> Searched:
        """Search for a schedule that breaks a lock, as ``lab search`` does.

        Args:
            lock: a name, ``package.module:Class``, or the class itself.
            find: the finding that is searched for.
            options: the others of ``lab search``: ``budget="20s"``, ``faults="cut,jump"``, ``seed=1`` …

        Raises:
            LabError: an option that cannot be.
        """
        from lab.api import many
        from lab.search.command import Asked

        out = options.pop("out", self.out / f"found-{find}-{options.get('seed', 0)}.yaml")
        asked = Asked(_lock_name(lock), find, out=self.cwd / out, **options)
        return self.call(many.search, asked, lock=lock)

    def call(self, function: Callable[..., T], *arguments: Any, lock: LockName | None = None) -> T:
        """Call any function of the lab's modules in a process of its own.

        Args:
            function: of a module; its arguments and what it returns are pickled.
            lock: a class that must be found there.

        Raises:
            LabError: as the function does.
        """
        with closing(Child(self.cwd, environment_for(lock))) as child:
            return child.call(function, *arguments)

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
        return LiveCluster(begin, self.cwd, environment_for(lock))


def carry_out(request: RunRequest, picture: Picture) -> RunResult:
    """What a child does for ``Lab.run``."""
    return runs.run(request, picture=picture).result


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
