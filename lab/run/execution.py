"""One run of one scenario, from the request to the verdict; the only module that combines all packages.

1 load, choose the substrate, draw the seed · 2 bring the cluster up and prove it healthy · 3 start the
clients · 4 play the steps · 5 heal, final reads · 6 tear down, always · 7 check. The history is complete on
disk before the checker reads it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from checker.history.history import PHASE, STEPS
from lab.analysis.assumptions import EPSILON_NS, RHO
from lab.analysis.lacking import NOT_SIMULATED
from lab.client_protocol import Setup
from lab.drivers import is_driver
from lab.drivers.place import place_on
from lab.errors import LabError, LockFailed, UnknownOutcome
from lab.faults.base import Tolerance
from lab.faults.links import LinkStep
from lab.faults.nemesis import Nemesis
from lab.locks import is_own, refuse_alone, service_of
from lab.locks.heartbeat import STALL_NS, beat_for, watch_for_stalls
from lab.processes import allow_open_files
from lab.run.directory import RunDirectory
from lab.run.events import Listener, OnEvent, RunEvent
from lab.run.failover_watch import FailoverWatch
from lab.run.final_reads import final_reads
from lab.run.kept import keep_up
from lab.run.lock_properties import LockProperties, properties_of
from lab.run.machine_clock import MachineClock
from lab.run.observer import Observer
from lab.run.recorder import Recorder
from lab.run.request import Plan
from lab.run.steps import Player, needed_of, needs
from lab.run.tracks import TrackPlayer
from lab.run.workload import WorkloadPlayer
from lab.scenario.draw import schedule
from lab.scenario.model import Cluster as ScenarioCluster
from lab.scenario.model import Scenario
from lab.scenario.step_base import StepModel
from lab.scenario.steps import Acquire
from lab.substrates import is_simulated, key_prefix, substrate
from lab.substrates.base import STORE, Capability, Cluster
from lab.substrates.cleanup import sweep
from lab.substrates.plan import ClusterPlan, SentinelPlan
from lab.substrates.refusals import lacking, refusal

if TYPE_CHECKING:
    from lab.run.result import RunResult


NS_PER_MS = 1_000_000
_SILENT = Listener().event
STARTS_AT_ONCE: Final = 4
"""So many real clients connect and warm their lock up at once: many more would miss their time limits."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A finished run: its directory, the versions of what ran, and the reason if it was aborted."""

    directory: RunDirectory
    versions: dict[str, str]
    aborted: str | None


class Run:
    """One run of a scenario on a cluster of the chosen substrate."""

    def __init__(
        self, plan: Plan, on_event: OnEvent = _SILENT, meanwhile: Callable[[], None] | None = None
    ) -> None:
        self._plan = plan
        self._loaded = plan.loaded
        self._scenario: Scenario = plan.loaded.scenario
        self._report = on_event
        self._zero_ns: int | None = None
        self._meanwhile = meanwhile
        self._seconds: dict[str, float] = {}
        self._drawn = schedule(self._scenario, plan.seed)
        self._drift_ns = int(self._scenario.lock.ttl_ns * RHO)
        self._imports: threading.Thread | None = None
        self._properties: LockProperties
        self._prefix = ""
        self._keys: tuple[str, ...]
        """The keys that clients ask for: those of the scenario, as the lock's pattern has them."""

    def prepare(self) -> Callable[[], Coroutine[Any, Any, RecordedRun]]:
        """Make the run's directory; return the coroutine function that runs the scenario.

        Raises:
            LabError: bad input or a missing tool; nothing was run.
            asyncio.CancelledError: from the coroutine: interrupted; all is torn down, the history is kept.
        """
        scenario = self._scenario
        lock, place = scenario.lock, place_on(self._plan.substrate)
        self._properties = properties_of(lock.name, lock.ttl_ns, lock.options, place)
        if lock.key is not None:
            self._properties = replace(self._properties, key=lock.key)
        self._refuse_readers(scenario)
        self._refuse_impossible(scenario, self._every_step())
        for swept in sweep():
            self._on_event(RunEvent("lab", swept.sentence, "plain"))
        if not is_simulated(self._plan.substrate):
            # No daemon: an interpreter that ends while a thread imports NumPy may end by SIGSEGV.
            self._imports = threading.Thread(target=self._preload_reporting)
            self._imports.start()
        directory = RunDirectory.create(self._plan.out, self._loaded.name, self._plan.seed)
        self._prefix = key_prefix(self._plan.substrate, directory.run_id)
        self._keys = tuple(map(self._key, scenario.keys))
        self._refuse_keys_outside()
        directory.write_scenario(self._loaded.text)
        if self._scenario.workload is not None:
            directory.write_schedule([fault.to_dict() for fault in self._drawn])
        return partial(self._carry_out, directory)

    def _on_event(self, event: RunEvent) -> None:
        """Report an event, with its time."""
        at_ns = None if self._zero_ns is None else time.monotonic_ns() - self._zero_ns
        self._report(replace(event, at_ns=at_ns))

    def _key(self, name: str) -> str:
        """A name as the lock's pattern of keys has it."""
        return self._properties.key.replace("{}", f"{self._prefix}{name}")

    def _refuse_keys_outside(self) -> None:
        """Refuse a lock whose keys don't begin with the prefix of the run. Raises ``LabError``."""
        for key in self._keys:
            if not self._node_key(key).startswith(self._prefix):
                raise LabError(
                    f"the lock {self._scenario.lock.name} keeps its key as {self._node_key(key)}",
                    where=self._loaded.name,
                    expected=f"a key that begins with {self._prefix}",
                    hint="--on local runs it on servers of the lab's own, without --endpoints",
                )

    async def _carry_out(self, directory: RunDirectory) -> RecordedRun:
        recorder = Recorder(directory.path, self._params())
        cluster = self._cluster(directory, recorder)
        aborted: str | None = None
        try:
            aborted = await self._run_cluster(cluster, recorder)
            if self._plan.keep:
                await keep_up(cluster, directory.run_id, self._on_event)
        except LabError as error:
            seen = self._abort(error, cluster, recorder)
            if not isinstance(error, UnknownOutcome):
                raise
            aborted = error.render() if seen == error.seen else seen
        except asyncio.CancelledError:
            recorder.write("lab", "info", "abort", error="interrupted")
            raise
        finally:
            with self._timed("down"):
                await asyncio.shield(cluster.down())
            recorder.write("lab", "info", PHASE, value="down")
            recorder.finish()
        server = {} if cluster.server is None else {"server": str(cluster.server)}
        versions = {**server, **cluster.versions(), **self._properties.versions}
        return RecordedRun(directory, versions, aborted)

    def conclude(self, recorded: RecordedRun) -> RunResult:
        """Check the history, and write the verdict beside it. Raises ``LabError``: the history is damaged."""
        with self._timed("check"):
            from lab.run.result import RunResult  # the checker: imported while the cluster came up

            result = RunResult.of(
                recorded.directory,
                self._loaded,
                environment={"substrate": self._plan.substrate, **recorded.versions},
                timings_s=self._seconds,
                repeat=self._plan.repeat,
            )
        if recorded.aborted and not result.comparison.unknown:  # the history may have no event of it
            result = replace(result, comparison=replace(result.comparison, unknown=(recorded.aborted,)))
        result.write()
        return result

    @contextlib.contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        """Measure the time of this part of the run."""
        start = time.monotonic()
        try:
            yield
        finally:
            self._seconds[part] = time.monotonic() - start

    def _preload_reporting(self) -> None:
        """Import the checker while the cluster comes up and the processor is idle."""
        import_module("lab.run.result")
        if self._meanwhile is not None:
            self._meanwhile()

    async def _run_cluster(self, cluster: Cluster, recorder: Recorder) -> str | None:
        """Bring the cluster up and play the scenario; return why the run was aborted, if it was."""

        def stalled(start_ns: int, duration_ns: int) -> None:
            recorder.write("lab", "info", "stall", start_ns=start_ns, duration_ns=duration_ns)

        clock = MachineClock()
        watches = [asyncio.create_task(watch_for_stalls(stalled))]
        if not is_simulated(self._plan.substrate):
            watches.append(asyncio.create_task(clock.watch(cluster.failed)))
        observer: Observer | None = None
        try:
            recorder.write("lab", "info", PHASE, value="up")
            with self._timed("up"):
                await cluster.up()
                key = self._keys[0]
                watched = cluster.nodes.values() if self._scenario.cluster.service == "redis" else ()
                observer = Observer(
                    (node.address for node in watched),
                    key,
                    recorder,
                    self._node_key(key),
                    cut_off=bool(cluster.sentinels),
                    sharded=self._scenario.cluster.sharded,
                    monitored=Capability.SEE_COMMANDS in substrate(self._plan.substrate).capabilities,
                )
                await asyncio.gather(observer.start(), *self._client_starts(cluster, recorder))
                if self._imports is not None:  # an import holds up every other thread
                    await asyncio.to_thread(self._imports.join)
            self._zero_ns = recorder.now_ns()
            recorder.write("lab", "info", PHASE, value=STEPS, time_ns=self._zero_ns)
            self._on_event(RunEvent("lab", f"{_size(cluster)} up and healthy", "plain"))
            return await self._play_and_heal(cluster, observer, recorder, clock)
        finally:
            for watch in watches:
                watch.cancel()
            if observer is not None:
                await observer.stop()

    async def _play_and_heal(
        self, cluster: Cluster, observer: Observer, recorder: Recorder, clock: MachineClock
    ) -> str | None:
        nemesis = Nemesis(cluster, recorder, self._tolerance())
        player = Player(
            cluster,
            observer,
            nemesis,
            recorder,
            self._on_event,
            ttl_ns=self._scenario.lock.ttl_ns,
            slack_ns=self._drift_ns + 2 * EPSILON_NS,
            key_of=self._key,
        )
        watch = FailoverWatch(cluster, nemesis, recorder)
        watch.start()
        playing = asyncio.create_task(self._play(player, cluster, recorder))
        try:
            with self._timed("steps"):
                lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                recorder.on_loss = partial(lost.set_result, None)
                ends: set[asyncio.Future[None] | asyncio.Future[str]] = {playing, cluster.failed, lost}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    raise UnknownOutcome("the history can't be written any more")
                if cluster.failed.done():
                    raise UnknownOutcome(cluster.failed.result())
                await playing
            recorder.write("lab", "info", PHASE, value="heal")
            with self._timed("heal"):
                await observer.observe()  # before the faults end: corrected clocks would prolong the keys
                await nemesis.heal_everything()
                store = cluster.store_node.address
                await final_reads(store.host, store.port, self._keys, recorder)
            if cluster.failed.done():
                raise UnknownOutcome(cluster.failed.result())
            if set_meanwhile := clock.set_meanwhile():
                raise UnknownOutcome(set_meanwhile)
        except UnknownOutcome as error:
            seen = self._abort(error, cluster, recorder)
            self._on_event(RunEvent("lab", f"ABORTED: {seen}", "fail"))
            return seen
        finally:
            playing.cancel()
            await asyncio.gather(playing, return_exceptions=True)
            await watch.stop()
            await player.abandon()
        return None

    def _abort(self, error: LabError, cluster: Cluster, recorder: Recorder) -> str:
        """Record why the run ends here, and return it.

        If a process died, that explains other errors, but for that of the lock itself. What simulated nodes
        lack, and what servers of others must not be sent, comes before what the lock makes of it.
        """
        explained = cluster.not_simulated or cluster.forbidden
        own = isinstance(error, LockFailed) and not explained
        seen = cluster.failed.result() if cluster.failed.done() and not own else error.seen
        value = NOT_SIMULATED if cluster.not_simulated else _blamed(error)
        recorder.write("lab", "info", "abort", error=seen, value=value)
        return seen

    def _tolerance(self) -> Tolerance:
        """What the lock under test is assumed to tolerate: delays only if they are small against a lease."""
        return Tolerance(
            clock_error_ns=self._drift_ns,
            clock_rate=RHO,
            network_delay_ns=self._scenario.lock.ttl_ns // 10,
            persistence=self._scenario.cluster.persistence,
            evicts=self._scenario.cluster.evicts,
        )

    async def _play(self, player: Player, cluster: Cluster, recorder: Recorder) -> None:
        """Play the steps, the tracks, or the workload with the faults that were drawn for it."""
        if self._scenario.tracks:
            tracks = TrackPlayer(player, tuple(self._scenario.clients))
            for client in tracks.waits_for_sendings(self._scenario.tracks):
                tracks.hear_sendings(client, cluster.sendings_of(client))
            await tracks.play(self._scenario.tracks)
            return
        if self._scenario.workload is None:
            await player.play(self._scenario.steps)
            return
        workload = WorkloadPlayer(
            cluster,
            player,
            recorder,
            self._on_event,
            workload=self._scenario.workload,
            keys=self._keys,
            drawn=self._drawn,
        )
        await workload.play()

    def _client_starts(self, cluster: Cluster, recorder: Recorder) -> list[Any]:
        scenario = self._scenario
        simulated = is_simulated(self._plan.substrate)
        turns = contextlib.nullcontext() if simulated else asyncio.Semaphore(STARTS_AT_ONCE)
        return [
            _in_turn(
                turns,
                client.start,
                Setup(
                    client=name,
                    key=self._keys[0],
                    lock=self._properties.name,
                    ttl_ns=scenario.lock.ttl_ns,
                    options=dict(scenario.lock.options),
                    nodes=[cluster.link(name, node).address for node in cluster.nodes],
                    sentinels=[cluster.link(name, sentinel).address for sentinel in cluster.sentinels],
                    store=cluster.link(name, STORE).address,
                    checks_fences=bool(scenario.store.fencing),
                    fences_reads=scenario.store.fencing == "all",
                    check_before_write=scenario.clients[name].check_before_write,
                    log_path=str(recorder.client_log(name)),
                    beat_ns=beat_for(len(scenario.clients)),
                    seed=self._plan.seed,
                    warm_up=self._key(f"warm-up-{name}") if scenario.warm_up else None,
                ),
            )
            for name, client in cluster.clients.items()
        ]

    def _cluster(self, directory: RunDirectory, recorder: Recorder) -> Cluster:
        chosen, place = substrate(self._plan.substrate), place_on(self._plan.substrate)
        lock = self._scenario.lock.name
        plan = ClusterPlan(
            nodes=self._scenario.cluster.node_names,
            clients=tuple(self._scenario.clients),
            persistence=self._scenario.cluster.persistence,
            service=self._scenario.cluster.service,
            server=self._scenario.cluster.server or "",
            base_port=self._scenario.cluster.base_port,
            replicas=self._scenario.cluster.replicas,
            needs=self._needed(self._every_step()),
            client_logs=recorder.client_logs,
            code=None if is_own(lock) else Path.cwd(),
            client_image=place.client_image(lock) if is_driver(lock) else None,
            lock_keys=tuple(map(self._node_key, self._keys)),
            settings=self._scenario.cluster.settings,
            sentinels=_sentinels(self._scenario.cluster),
            node_timeout_ms=_node_timeout_ms(self._scenario.cluster),
            endpoints=self._scenario.cluster.existing,
        )
        return chosen.cluster(plan, directory.run_id, directory.logs)

    def _every_step(self) -> tuple[StepModel, ...]:
        """The steps of the scenario, and those of the faults that were drawn for a workload."""
        drawn = (step for fault in self._drawn for step in fault.every_step())
        return (*self._scenario.every_step, *drawn)

    def _node_key(self, key: str) -> str:
        """The name of a key on the nodes."""
        return self._properties.node_key.replace("{key}", key)

    def _needed(self, steps: Iterable[StepModel]) -> frozenset[Capability]:
        """The capabilities that the substrate must have."""
        return needs(steps, self._scenario.every_anchor) | needed_of(self._scenario)

    def _refuse_impossible(self, scenario: Scenario, steps: Iterable[StepModel]) -> None:
        """Refuse what the substrate, or this kind of nodes, cannot do. Raises ``LabError``."""
        steps, chosen = tuple(steps), substrate(self._plan.substrate)
        needed = needs(steps, scenario.every_anchor) | needed_of(scenario)
        if missing := needed - chosen.capabilities:
            raise LabError(
                f"the substrate {lacking(chosen.name, missing)}",
                where=self._loaded.name,
                hint="choose another substrate with --on",
            )
        files = chosen.open_files(len(scenario.cluster.node_names), len(scenario.clients))
        if (limit := allow_open_files(files)) is not None:
            raise LabError(
                f"this run needs {files} open files in one process, and the limit is {limit}",
                where=self._loaded.name,
                expected=f"a limit of {files} or more",
                hint=f"ulimit -n {files}, or fewer clients",
            )
        service, sharded = scenario.cluster.service, scenario.cluster.sharded
        asked = needs(step for step in steps if not (isinstance(step, LinkStep) and step.store))
        for capability in sorted(asked):
            why = refusal(service, capability, sharded=sharded)
            if why is not None:
                raise LabError(
                    f"nodes of {'a Redis Cluster' if sharded else service} cannot {capability}: {why}",
                    where=self._loaded.name,
                    hint="lab doctor lists the faults; on Redis nodes all of them can be used",
                )
        wanted = service_of(scenario.lock.name)
        if wanted != service:
            raise LabError(
                f"the lock {scenario.lock.name} needs nodes of {wanted}, and these are {service}",
                where=f"{self._loaded.name}, key `cluster.service`",
                expected=wanted,
                hint=f"--set cluster.service={wanted}, or another lock",
            )
        server, settings = scenario.cluster.server, scenario.cluster.settings
        refuse_alone(scenario.lock.name, f"{self._loaded.name}, key `cluster`", scenario.cluster.around)
        if service == "redis" and (lack := chosen.lacks(service, needed, server, settings)):
            raise LabError(lack, where=self._loaded.name, hint="lab doctor shows what this machine allows")

    def _refuse_readers(self, scenario: Scenario) -> None:
        """Refuse a mode of an acquire of a lock that readers do not share. Raises ``LabError``."""
        modes = (step.mode for step in scenario.every_step if isinstance(step, Acquire) and step.mode)
        mode = next(modes, None)
        if mode is not None and not self._properties.capacity.read_write:
            raise LabError(
                f"an acquire with mode: {mode} of {scenario.lock.name}, which is no read-write lock",
                where=self._loaded.name,
                expected="a lock that readers share: it says so by read_write, or in its settings",
                hint="--lock lab.locks.read_write:ReadWrite is one",
            )

    def _params(self) -> dict[str, Any]:
        scenario = self._scenario
        return {
            "rho": RHO,
            "delta_ns": self._properties.margin_ns,
            "epsilon_ns": EPSILON_NS,
            "store_fences": bool(scenario.store.fencing),
            "lock_fences": self._properties.hands_out_fences,
            "single_attempt": self._properties.single_attempt,
            "nodes": scenario.cluster.nodes,
            "grace_ns": scenario.grace_ns,
            "stall_ns": STALL_NS,
            "unavailable_ns": scenario.unavailable_after_ns,
            "clients": list(scenario.clients),
            **self._properties.capacity.params,
        }


async def _in_turn(
    turns: contextlib.AbstractAsyncContextManager[None],
    start: Callable[[Setup], Coroutine[Any, Any, None]],
    setup: Setup,
) -> None:
    async with turns:
        await start(setup)


def _sentinels(cluster: ScenarioCluster) -> SentinelPlan | None:
    """The Sentinels that are to be started; None: there are none."""
    if not cluster.sentinels:
        return None
    return SentinelPlan(
        cluster.sentinel_names,
        cluster.needed_quorum,
        cluster.down_after_ns // NS_PER_MS,
        cluster.failover_timeout_ns // NS_PER_MS,
    )


def _node_timeout_ms(cluster: ScenarioCluster) -> int | None:
    """The node timeout of the Redis Cluster; None: the nodes are none."""
    return cluster.node_timeout_ns // NS_PER_MS if cluster.sharded else None


def _blamed(error: LabError) -> str | None:
    """Who ended the run, if it was not the harness."""
    return "the lock" if isinstance(error, LockFailed) else None


def _size(cluster: Cluster) -> str:
    of = f" of {cluster.server.words}" if cluster.server is not None else ""
    return f"{len(cluster.nodes)} nodes{of}, the store, the proxy and {len(cluster.clients)} clients are"
