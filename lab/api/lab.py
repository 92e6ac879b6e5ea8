"""The lab as a library: what the command line can do, and clusters driven from Python.

::

    from lab import Lab

    result = Lab().run("partition-clockjump", lock="my_lock:Hasty")
    assert result.outcomes["mutual_exclusion"] == "ok", result.explain()

    with Lab().cluster(lock="redlock", ttl="2s") as cluster:
        cluster.do("alice acquires")
        cluster.inject(cut={"client": "bob", "nodes": ["A", "B"]})
        cluster.do("bob acquires")
    assert cluster.result.as_expected

Runs take place in a process of their own (``lab.api.child``), with the caller's ``sys.path``, so that your
lock can be imported there: the caller's clocks, threads, event loop and signals are not changed.
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
from lab.locks import name_of
from lab.run.request import RunRequest
from lab.run.result import RunResult

if TYPE_CHECKING:
    from lab.api.searches import Searched
    from lab.batch.result import Result
    from lab.batch.tally import Tally
    from lab.examine.result import Examined
    from lab.report.files import Picture

__all__ = ["Lab", "LiveCluster", "RunResult"]

LockName = str | Callable[..., Any]
Settings = Mapping[str, Any] | Sequence[str]
T = TypeVar("T")


class Lab:
    """The lab, with the options that all its runs share.

    Args:
        out: where directories of runs are made.
        on: the substrate: auto, docker, local, sim or virtual.
        cwd: the working directory of runs, to which paths are relative; by default the current one.
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
    ) -> RunResult:
        """Run one scenario, as ``lab run`` does.

        Args:
            scenario: its name, or a YAML file.
            lock: the lock under test: a name, ``package.module:Class``, or the class itself.
            seed: of every random choice; drawn if absent.
            set: overrides, as a mapping ``{"lock.ttl": "2s"}`` or as ``--set`` takes them.
            expect: the expected outcome, in place of the scenario's.
            on: another substrate than the lab's own.
            picture: whether it is drawn even if the result is as expected.

        Raises:
            LabError: bad input, or the lab ended without a verdict.
        """
        overrides = (*_settings(set), *([f"expect={_json(expect)}"] if expect else []))
        name = None if lock is None else name_of(lock)
        request = RunRequest(str(scenario), overrides, name, seed, on or self.on, self.out)
        return self.call(carry_out, request, "always" if picture else "unexpected", lock=lock)

    def check(self, target: str | Path) -> RunResult:
        """Check a stored run again, as ``lab check`` does. Raises ``LabError``."""
        return runs.check(self.cwd / target).result

    def report(self, target: str | Path) -> Path:
        """Write the page of a stored run again, as ``lab report`` does. Raises ``LabError``."""
        return runs.page(self.cwd / target)

    def figure(self, target: str | Path, kind: str = "timeline", out: str | Path | None = None) -> Path:
        """Draw a figure of a stored run, as ``lab report --figure`` does. Raises ``LabError``."""
        return runs.figure(self.cwd / target, kind, None if out is None else self.cwd / out)

    def scenarios(
        self,
        *,
        libraries: bool = False,
        consensus: bool = False,
        sentinel: bool = False,
        cluster: bool = False,
    ) -> list[dict[str, Any]]:
        """The scenarios that come with the lab, as in ``lab list --json``."""
        from lab.api.scenarios import summaries

        servers = {"consensus": consensus, "sentinel": sentinel, "cluster": cluster}
        wanted = {"libraries": libraries, **servers}
        about = next((word for word, is_wanted in wanted.items() if is_wanted), None)
        found: list[dict[str, Any]] = msgspec.to_builtins(summaries(about))
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
        for_lock: LockName | None = None,
        like: str | None = None,
    ) -> Result:
        """Run many, as ``lab suite`` does: a suite's file, or scenarios, each with its control.

        Args:
            what: the file, or names and files of scenarios; the lab's own suite if empty.
            jobs: how many real runs at once; the number of cores if absent.
            repeat: how often each is run.
            only: patterns of items, as ``--only`` takes them.
            matrix: as a survey of locks, which has no expected outcomes.
            seed: of the first run of each; drawn if absent.
            on: a substrate in place of what the file says.
            for_lock: the scenarios that apply to this lock instead, with what is expected of its kind.
            like: the lab's own lock of that kind: single, redlock or redlock-fenced; found if absent.

        Raises:
            LabError: bad input, or a result cannot be written.
        """
        from lab.api import suites

        wanted = tuple(map(str, what))
        name = None if for_lock is None else name_of(for_lock)
        chosen = suites.Selection(
            wanted, on=on, survey=matrix, only=tuple(only), repeat=repeat, for_lock=name
        )
        return self.call(suites.suite, chosen, self.out, jobs, seed, like, lock=for_lock)

    def campaign(
        self,
        scenario: str | Path | None = None,
        *,
        seeds: str,
        lock: LockName | None = None,
        set: Settings = (),
        jobs: int | None = None,
        **drawn: Any,
    ) -> Tally:
        """Simulate one scenario, or drawn schedules against a lock, over many seeds, as ``lab campaign``.

        Seeds with a result are not run again. Arguments are those of the command, ``drawn`` its options
        about drawn schedules: ``faults="safe"``, ``nodes=3``, ``ttl="2s"`` … Raises ``LabError``.
        """
        from lab.api import campaigns

        name = None if lock is None else name_of(lock)
        given = None if scenario is None else str(scenario)
        asked = (given, seeds, name, campaigns.Drawn(tuple(_settings(set)), **drawn), jobs, self.out)
        return self.call(campaigns.campaign, *asked, lock=lock)

    def search(
        self, lock: LockName, find: str = "overlap", *, set: Settings = (), **options: Any
    ) -> Searched:
        """Search for a schedule that breaks a lock, as ``lab search`` does.

        Args:
            lock: a name, ``package.module:Class``, or the class itself.
            find: the finding that is searched for.
            set: overrides, as ``run`` takes them, of ``lock.ttl``, ``lock.options.…``, ``cluster.nodes`` …
            options: the others of ``lab search``: ``budget="20s"``, ``faults="cut,jump"``, ``seed=1`` …

        Raises:
            LabError: an impossible option.
        """
        from lab.api import searches

        about = {name: options.pop(name) for name in searches.DRAWN if name in options}
        drawn = searches.Drawn(tuple(_settings(set)), **about)
        out = options.pop("out", self.out / f"found-{find}-{options.get('seed', 0)}.yaml")
        asked = searches.Asked(name_of(lock), find, drawn=drawn, out=self.cwd / out, **options)
        return self.call(searches.search, asked, lock=lock)

    def test(
        self,
        lock: LockName,
        *,
        budget: str = "120s",
        seed: int = 0,
        nodes: int = 5,
        replicas: int = 0,
        sentinels: int = 0,
        options: Mapping[str, str | int | float | bool] | None = None,
        repeat: int = 3,
        jobs: int | None = None,
        key: str = "",
        strict: bool = False,
        schedules: int | None = None,
        out: str | Path | None = None,
    ) -> Examined:
        """Examine a lock against the reference of its kind, as ``lab test`` does.

        Args:
            lock: a name, ``package.module:Class``, or the class itself.
            budget: how long to try schedules, with its unit.
            seed: of everything that is drawn.
            nodes: how many.
            replicas: how many the lock's one master has, in place of ``nodes``.
            sentinels: how many watch that master, and promote a replica.
            options: of the lock.
            repeat: how often a driver's defects are run on real Redis.
            jobs: how many processes run schedules; the number of cores if absent.
            key: the pattern of keys, like ``order:{}``, in place of the lock's own.
            strict: whether the exit code is 1 also with a finding that is not certain to be a defect.
            schedules: how many are tried at most, within the budget.
            out: where the page and the scenarios of defects are written; by default
                ``test-LOCK-SEED`` below the lab's ``out``.

        Returns:
            its defects, the known limits of its kind, and what was tried. Those of a driver are run on real
            Redis as well, after the budget.

        Raises:
            LabError: no such lock, one that cannot be simulated, or an impossible argument.
        """
        from lab.api import examinations

        name = name_of(lock)
        chosen = tuple((options or {}).items())
        more: dict[str, Any] = {"keys": key, "strict": strict, "schedules": schedules}
        more |= {"replicas": replicas, "sentinels": sentinels}
        asked = examinations.Asked(name, budget, seed, nodes, chosen, repeat, jobs, **more)
        below = self.out / examinations.directory_for(name, seed).name
        directory = below if out is None else self.cwd / out
        return self.call(examinations.test, asked, directory, asked.command, lock=lock)

    def call(self, function: Callable[..., T], *arguments: Any, lock: LockName | None = None) -> T:
        """Call any function of the lab's modules in a process of its own.

        Args:
            function: of a module; its arguments and what it returns are pickled.
            lock: a class that must be importable there.

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
        """A cluster that is driven step by step; use it with ``with``.

        Args:
            lock: the lock under test: a name, ``package.module:Class``, or the class itself.
            ttl: of each lease, with its unit.
            options: of the lock, as in a scenario.
            clients: their names.
            nodes: how many.
            expect: the expected outcome; by default, that nothing is violated.
            scenario: other keys of a scenario: ``{"store": {"fencing": True}}``.
            seed: of every random choice.
            on: another substrate than the lab's own; real ones only.
        """
        about: dict[str, Any] = {
            "title": "Steps played from Python",
            "source": "a test",
            "why": "Played step by step by a Python program.",
            "clients": list(clients),
            **(scenario or {}),
        }
        about["lock"] = {"name": name_of(lock), "ttl": ttl, "options": dict(options or {})}
        about["cluster"] = {**about.get("cluster", {}), "nodes": nodes}
        about["expect"] = dict(expect or {"mutual_exclusion": "ok"})
        begin = Begin(about, on or self.on, str(self.out), seed)
        return LiveCluster(begin, self.cwd, environment_for(lock))


def carry_out(request: RunRequest, picture: Picture) -> RunResult:
    """``Lab.run`` in the child process."""
    return runs.run(request, picture=picture).result


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _settings(settings: Settings) -> list[str]:
    if isinstance(settings, Mapping):
        return [
            f"{key}={value if isinstance(value, str) else _json(value)}" for key, value in settings.items()
        ]
    return list(settings)
