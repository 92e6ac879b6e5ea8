"""``lab test`` without its printing: what is asked for, and the whole of an examination."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from msgspec.structs import replace
from yaml.error import Mark
from yaml.nodes import MappingNode

from lab.drivers import is_driver
from lab.drivers.ordinary import without_master
from lab.drivers.place import check_servers_of_replays, servers_of_trials
from lab.drivers.shapes import shape_of
from lab.durations import DurationError, parse_duration_ns
from lab.errors import LabError, NotModelled, UnknownOutcome
from lab.examine.defects import arranged
from lab.examine.examination import Examination, Progress, tried
from lab.examine.kinds import Kind
from lab.examine.ledger.finders import all_violations
from lab.examine.profile.learn import learn
from lab.examine.profile.probes import Profile
from lab.examine.programs import PROGRAMS, S_NS, Program, Setting
from lab.examine.result import Examined, Lines, LockExecuted, Part
from lab.examine.schedules.plan import DRAWN, DRAWN_KINDS, LONG, Doubles, drawn, parts
from lab.examine.schedules.reentrant import ASKS, is_reentrant, reentrance
from lab.examine.schedules.situations import SITUATIONS, situations, sorts
from lab.locks import capacity_of, check_options, lock_class, margin_ns, refuse_alone
from lab.locks.base import OptionError
from lab.redis_model.model import modelled
from lab.scenario.overrides import apply
from lab.scenario.yaml_data import plain
from lab.scenario.yaml_tree import TAG
from lab.search.branches import LockCode, Step, noted
from lab.search.command import OPTIONS, options_for
from lab.search.faults import is_a
from lab.search.loop import LAG, Budget, OutOfTime
from lab.search.runner import run_trial, trials
from lab.search.space import must_run_in_virtual_time
from lab.search.trial import OptionValue, Trial
from lab.search.workers import Workers

KEEPS: Final = 1 / 6
"""The share of the budget in which defects are written as scenarios, and replayed."""
REAL: Final = 1 / 4
"""The share of the budget in which a driver's defects are run on real Redis."""


OF_COMMAND_LINE: Final = {
    **{
        name: f"--{name}"
        for name in ("nodes", "replicas", "sentinels", "schedules", "repeat", "jobs", "server", "dask")
    },
    "keys": "--key",
    "strict": "--strict",
}
"""The options of ``lab test`` that are given only where they are not as usual, by the argument."""


@dataclass(frozen=True)
class Asked:
    """The arguments of ``lab test``, as they were given; durations with their units."""

    lock: str
    budget: str = "120s"
    seed: int = 0
    nodes: int = 5
    """How many independent nodes there are, for a lock that uses several."""
    options: tuple[tuple[str, OptionValue], ...] = ()
    repeat: int = 3
    """How often each defect of a driver is run on real Redis."""
    jobs: int | None = None
    """How many processes run trials; as many as there are cores if None."""
    server: str = ""
    """The product and version that nodes show, ``redis@8.4``; the newest if it is empty."""
    keys: str = ""
    """The pattern of keys, like ``order:{}``, in place of the lock's own."""
    strict: bool = False
    """Whether what is not decided is a failure, too."""
    dask: str = ""
    """The scheduler of a Dask cluster that runs trials, beside this process."""
    replicas: int = 0
    """How many replicas the lock's one master has; 0: nodes are independent."""
    sentinels: int = 0
    """How many Sentinels watch that master, and promote one of its replicas."""
    schedules: int | None = None
    """How many schedules are tried at most; the same ones however fast the machine is."""

    @property
    def command(self) -> str:
        """The command line that asks for the same."""
        usual = Asked(self.lock)
        words = ["lab", "test", self.lock, "--budget", self.budget, "--seed", str(self.seed)]
        for name, option in OF_COMMAND_LINE.items():
            value = getattr(self, name)
            if value != getattr(usual, name):
                words += [option] if value is True else [option, str(value)]
        for name, value in self.options:
            words += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        return shlex.join(words)

    @property
    def budget_s(self) -> float:
        """The budget. Raises ``LabError``."""
        return _seconds(self.budget)

    @property
    def runs_on_real(self) -> bool:
        """Whether defects are run on real Redis: those of drivers are, if they are to be run at all."""
        return self.repeat > 0 and is_driver(self.lock)


def examine(asked: Asked, on_progress: Callable[[Progress], None] = lambda progress: None) -> Examined:
    """Examine a lock.

    Raises:
        LabError: no such lock, or it cannot be simulated, or an argument that cannot be; or it uses what
            simulated nodes lack.
        SimulationError: the lock reached out of the simulation: a thread, a real socket.
    """
    budget_s = asked.budget_s
    if asked.server:
        modelled(asked.server, "--server")
        check_servers_of_replays(asked.lock, asked.server)
    must_run_in_virtual_time(asked.lock)
    refuse_alone(
        asked.lock,
        "lab test",
        "sentinels" if asked.sentinels else "",
        hint=f"`lab test {asked.lock} --replicas 2 --sentinels 3` examines a lock that asks Sentinels, and "
        "with --replicas 2 alone one that asks the nodes themselves which of them is the master (ROLE)",
    )
    _check_sentinels(asked)
    if asked.replicas and capacity_of(asked.lock).read_write:
        raise LabError(
            f"--replicas {asked.replicas} of {asked.lock}, a read-write lock",
            where="--replicas",
            expected="no replicas",
            hint="there is no reference for a read-write lock on a master with replicas",
        )
    lock_class(asked.lock)
    options = {**options_for(asked.lock), **dict(asked.options)}
    notes = partial(noted, asked.lock)
    with notes() as code, closing(Workers(tried, asked.jobs, notes, dask=asked.dask)) as workers, trials():
        budget = Budget(budget_s, workers.busiest_s)
        on_progress(Progress(stage="asking the lock what it is"))
        try:
            profile, options = _learned(asked, options, budget.check)
        except OutOfTime:
            profile = Profile(Kind(False, capacity=capacity_of(asked.lock)))
        if asked.replicas:
            profile.kind = dataclasses.replace(
                profile.kind, quorum=False, replicated=True, watched=asked.sentinels > 0
            )
        kind = profile.kind
        of_reference = {**OPTIONS, **kind.reference_options}
        margin_ns(kind.reference, 10 * S_NS, of_reference)
        setting = _setting_for(asked, profile, options)
        after = KEEPS + (REAL if asked.runs_on_real else 0.0)
        examination = Examination(
            kind,
            of_reference,
            budget,
            on_progress=on_progress,
            workers=workers,
            after=after,
            schedules=asked.schedules,
        )
        examination.ttl_step_ns = profile.ttl_step_ns
        interrupted = False
        try:
            examination.check_time()
            _run(examination, setting, profile, Random(asked.seed))
        except OutOfTime:
            pass
        except NotModelled as error:
            if not examination.defects:
                raise
            profile.not_tried.append(f"schedules after the first in which {error.seen}")
        except KeyboardInterrupt:
            interrupted = True
        return _examined(asked, profile, examination, code, budget, interrupted)


def _check_sentinels(asked: Asked) -> None:
    """Raises ``LabError``: there is nothing that Sentinels could promote, or nobody could ask them."""
    if asked.sentinels and not asked.replicas:
        raise LabError(
            f"--sentinels {asked.sentinels} without a replica that they could promote",
            where="--sentinels",
            expected="--replicas as well",
            hint=f"lab test {asked.lock} --replicas 2 --sentinels {asked.sentinels}",
        )
    shape = shape_of(asked.lock) if asked.sentinels else None
    if shape is not None and (why := without_master(shape)) is not None:
        raise LabError(
            f"the lock {asked.lock} {why}",
            where="--sentinels",
            expected="a lock that is given its client: Sentinel(…).master_for(…) is passed to it",
        )


def _run(examination: Examination, setting: Setting, profile: Profile, random: Random) -> None:
    """The directed part, the other finite ones, then drawn schedules and pairs of faults in turns.

    Raises ``OutOfTime``.
    """
    setting = dataclasses.replace(setting, reentrant=is_reentrant(setting))
    programs = _programs(profile, setting)
    again = reentrance(setting)
    profile.nested = again.setting
    if again.doubt is not None:
        for finding in all_violations(run_trial(again.doubt)):
            examination.leave_open(finding, ASKS, again.doubt)
    if setting.replicated and setting.nodes == 2:
        profile.not_tried.append(
            "whether the lock is served after a failover: without the old master one of two nodes is up, and "
            "no majority; --replicas 2 tries that"
        )
    if setting.sentinels:
        profile.not_tried.append("a Sentinel that dies, stands still or is cut off from the other Sentinels")
    finite = parts(setting, profile, programs, random)
    _try_situations(examination, setting, profile, programs)
    planned = list(finite)
    # Of a driver, a real process, the budget may end before any part is through; the long ones share it, too.
    in_turn = planned if is_driver(setting.lock) else [each for each in planned if each[0].name in LONG]
    for part, found in planned:
        if not any(part is other for other, _ in in_turn):
            examination.try_all(part, found)
    examination.try_in_turn(in_turn)
    kept = [setting.trial(program) for program in programs]
    kept += [
        each
        for each in examination.kept
        if not each.tracks and all(is_a(fault, *DRAWN_KINDS) for fault in each.faults)
    ]
    part = Part(DRAWN, "operations, faults and moments at random, guided by new states and branches")
    twos = [Doubles(setting.trial(program), program) for program in programs[:2]]
    examination.parts += [part, *(each.part for each in twos)]
    source = drawn(setting, random, kept)
    reached = examination.progress.reached
    for of, job in examination.try_each(_in_turns(part, source, twos), LAG):
        if of is part and examination.progress.reached > reached:
            kept.append(job.argument)
        reached = examination.progress.reached


def _in_turns(part: Part, source: Iterator[Trial], twos: list[Doubles]) -> Iterator[tuple[Part, Trial]]:
    """Drawn trials without end, and after every other one a pair of faults, as long as there are any."""
    for drawn_so_far, trial in enumerate(source, 1):
        yield part, trial
        pairs = next((each for each in twos if each.has_next()), None)
        if pairs is not None and drawn_so_far % 2 == 0:
            yield pairs.part, pairs.next()


def _try_situations(
    examination: Examination, setting: Setting, profile: Profile, programs: tuple[Program, ...]
) -> None:
    """The directed part; which situations there are depends on what the lock sends, so that is seen first."""
    part = Part(SITUATIONS, "the directed part: each kind once, what tells most first")
    found = []
    for trial in situations(setting, profile, programs):
        found.append(replace(trial, closely=True))
        examination.check_time()
    examination.try_directed(part, found)


def _examined(
    asked: Asked,
    profile: Profile,
    examination: Examination,
    code: LockCode,
    budget: Budget,
    interrupted: bool,
) -> Examined:
    kind: Kind = profile.kind
    return Examined(
        asked.lock,
        kind.words,
        kind.promise,
        kind.reference,
        profile.facts,
        arranged(examination.defects),
        tuple(examination.limits.values()),
        tuple(examination.parts),
        tuple(profile.not_tried),
        len(examination.progress.covered),
        asked.seed,
        examination.progress.schedules,
        round(budget.real_s, 1),
        interrupted,
        tuple(examination.undecided.values()),
        executed(code, examination.progress.branches),
        examination.why_fewer,
        servers_of_trials(asked.server),
        examination.directed,
        examination.progress.grants,
        tuple(examination.failed),
        budget.seconds,
        round(budget.spent_s, 1),
        asked.strict,
    )


def _setting_for(asked: Asked, profile: Profile, options: dict[str, OptionValue]) -> Setting:
    """The setting of all schedules, once it is known what the lock is."""
    kind = profile.kind
    setting = dataclasses.replace(
        _setting(asked, options),
        fences=kind.fenced,
        observed=kind.observed,
        ttl_step_ns=profile.ttl_step_ns,
        can=profile.can,
        capacity=kind.capacity,
    )
    if not kind.replicated:
        several = kind.quorum or profile.uses > 0
        setting = dataclasses.replace(setting, nodes=asked.nodes if several else 1, uses=profile.uses)
    return setting.with_ttl(setting.ttl_ns)


@contextmanager
def situations_of(asked: Asked) -> Iterator[dict[str, Iterator[Trial]]]:
    """The situations of a lock by their sort, to be run inside. Raises what ``examine`` does."""
    lock_class(asked.lock)
    with trials():
        profile, options = _learned(asked, {**options_for(asked.lock), **dict(asked.options)}, _never)
        setting = _setting_for(asked, profile, options)
        setting = dataclasses.replace(setting, reentrant=is_reentrant(setting))
        yield sorts(setting, profile, _programs(profile, setting))


def _never() -> None:
    """No time is up."""


def _programs(profile: Profile, setting: Setting) -> tuple[Program, ...]:
    """The programs that a lock can run."""
    return tuple(
        each
        for each in PROGRAMS
        if (profile.extends or not each.extends) and not (setting.reentrant and each.takes_it_again)
    )


def _setting(asked: Asked, options: dict[str, OptionValue]) -> Setting:
    """The setting in which a lock is asked what it is. A lock on a master with replicas uses that alone."""
    places = {
        "nodes": asked.replicas + 1,
        "uses": 1,
        "replicated": True,
        "sentinels": asked.sentinels,
    }
    own: dict[str, Any] = places if asked.replicas else {"nodes": asked.nodes}
    capacity = capacity_of(asked.lock)
    return Setting(asked.lock, options, server=asked.server, keys=asked.keys, capacity=capacity, **own)


def _learned(
    asked: Asked, options: dict[str, OptionValue], check: Callable[[], None]
) -> tuple[Profile, dict[str, OptionValue]]:
    """What the lock is, and the options that it was made with: only those asked for if it has no others.

    Raises what ``learn`` raises.
    """
    try:
        return learn(_setting(asked, options), check), options
    except UnknownOutcome as error:
        if not isinstance(error.__cause__, OptionError) or options == dict(asked.options):
            raise
    options = dict(asked.options)
    return learn(_setting(asked, options), check), options


def _seconds(text: str) -> float:
    try:
        return parse_duration_ns(text) / S_NS
    except DurationError as error:
        raise LabError(f"{text!r} {error}", where="--budget", expected="a duration like 120s") from error


TTL_NS = 10_000_000_000
"""With which lease options are checked."""


def parse_options(lock: str, settings: Iterable[str]) -> tuple[tuple[str, OptionValue], ...]:
    """The options of a lock in ``key=value`` texts, typed as in a scenario, and checked by the lock.

    Raises:
        LabError: no ``key=value``, an option that the lock does not have, or a value that it does not take.
    """
    given = list(settings)
    if not given:
        return ()
    mark = Mark("--set", 0, 0, 0, None, 0)
    values: dict[str, Any] = plain(apply(MappingNode(f"{TAG}map", [], mark, mark), given))
    for name, value in values.items():
        if not isinstance(value, str | int | float | bool):
            raise LabError(
                f"--set {name}: no single value",
                where=f"--set {name}",
                expected="an option of the lock, like node_timeout=100ms",
                hint="TTLs and nodes are drawn; --nodes says how many nodes there are"
                if name in ("lock", "cluster")
                else None,
            )
    must_run_in_virtual_time(lock)
    check_options(lock, TTL_NS, values)
    return tuple(values.items())


def executed(code: LockCode, taken: set[int]) -> LockExecuted:
    """What the numbers of the steps that were taken say about the code of a lock."""
    runs: list[list[Step]] = []
    goes_on = False
    for number, step in enumerate(code.steps):
        if number in taken:
            goes_on = False
        elif goes_on and _is_within(step, runs[-1][0]):
            runs[-1].append(step)
        else:
            runs.append([step])
            goes_on = True
    runs.sort(key=lambda run: run[0].first)  # functions that were never called come last
    lines = {(step.file, step.line) for step in code.steps}
    done = {(step.file, step.line) for number, step in enumerate(code.steps) if number in taken}
    return LockExecuted(len(lines), len(done), tuple(map(_as_lines, runs)), code.why_not)


def _is_within(step: Step, first: Step) -> bool:
    """Whether it is in the same block as this one, or in one inside of that."""
    in_function = step.file == first.file and f"{step.function}.".startswith(f"{first.function}.")
    return in_function and step.depth >= first.depth


def _as_lines(run: list[Step]) -> Lines:
    lines = [step.line for step in run if not step.passes] or [run[0].line]
    return Lines(_shown(run[0].file), min(lines), max(lines), run[0].why)


def _shown(file: str) -> str:
    """A path as the user would write it: from the directory where they are, if it is below that."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else path.name
