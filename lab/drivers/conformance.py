"""Does a driver keep to the protocol? Asked of itself, and of real nodes, which know who holds what.

Two drivers are started, as two clients. What a *library* gets wrong is no concern here, except where nobody
could tell it from a driver that makes things up: a lock that is said to be held must be there.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.addresses import Address
from lab.channel import NodeError
from lab.drivers.environment import launch_of
from lab.drivers.look import Look, Looker
from lab.drivers.messages import ONE_OBJECT, DriverBroken, Extended, Failed, Granted, Hello
from lab.drivers.process import DriverProcess, OptionValues
from lab.errors import ExitCode, LabError
from lab.substrates.plan import ClusterPlan, SentinelPlan

TTL_MS: Final = 600_000
"""Longer than any check takes."""
ANSWER_S: Final = 60.0
"""How long a library may take to acquire a free lock, or to release one."""
PATIENCE_S: Final = 5.0
"""How long a library is waited for that may block until the lock is free."""
LOG_FIRST: Final = 20
LOG_LAST: Final = 40
"""How many lines of a driver's log are shown when something is wrong. Some runtimes put the error before a
long stack, others after it."""
CANCEL_AFTER_S: Final = 0.2
"""How long an acquire may wait before it is cancelled."""
NODES: Final = ("A", "B", "C", "D", "E")
CLIENTS: Final = ("alice", "bob")
WATCHED: Final = ClusterPlan(
    ("A", "B"),
    CLIENTS,
    "none",
    replicas={"B": "A"},
    sentinels=SentinelPlan(("S1", "S2", "S3"), quorum=2, down_after_ms=60_000, failover_timeout_ms=60_000),
)
"""For a driver that asks Sentinels: a busy machine is to bring about no failover."""


class Violation(Exception):
    """What is wrong, and what the protocol expects."""


class Skipped(Exception):
    """Why something was not checked."""


@dataclass(frozen=True, slots=True)
class Result:
    """One check: ``ok``, ``FAILED`` or ``skipped``, and what was seen."""

    title: str
    outcome: str
    detail: str = ""


@dataclass(slots=True)
class Report:
    """All checks of one driver."""

    driver: str
    results: list[Result] = field(default_factory=list)

    @property
    def exit_code(self) -> ExitCode:
        """0 only if nothing failed."""
        failed = any(result.outcome == "FAILED" for result in self.results)
        return ExitCode.UNEXPECTED if failed else ExitCode.EXPECTED

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "driver": self.driver,
            "conforms": self.exit_code == ExitCode.EXPECTED,
            "checks": [
                {"title": one.title, "outcome": one.outcome, "detail": one.detail} for one in self.results
            ],
        }


async def check_driver(
    command: str, options: OptionValues, say: Callable[[str], None], *, sentinels: bool = False
) -> Report:
    """Check the driver that ``command`` means (as ``--lock`` does), telling each result in a line.

    ``sentinels``: the nodes are a master and its replica, and Sentinels name the master.

    Raises:
        LabError: it cannot be started, or the nodes cannot.
    """
    words = launch_of(command)
    report = Report(command)
    with tempfile.TemporaryFile() as log:
        await _check(words, options, say, report, log.fileno(), sentinels=sentinels)
        if report.exit_code != ExitCode.EXPECTED:
            log.seek(0)
            for line in shown_of_log(log.read().decode(errors="replace").splitlines()):
                say(f"its log:  {line}")
    return report


def shown_of_log(lines: Sequence[str]) -> list[str]:
    """The first and the last lines of a log, all of it if it is short, and how many were left out between."""
    left_out = len(lines) - LOG_FIRST - LOG_LAST
    if left_out <= 0:
        return list(lines)
    return [*lines[:LOG_FIRST], f"({left_out} lines left out)", *lines[-LOG_LAST:]]


async def _check(
    words: Sequence[str],
    options: OptionValues,
    say: Callable[[str], None],
    report: Report,
    log: int,
    *,
    sentinels: bool,
) -> None:
    async with _servers(sentinels=sentinels) as servers:
        alice, bob = (
            DriverProcess(words, own_group=True, environment=servers.environments.get(name))
            for name in CLIENTS
        )
        checks = Checks(alice, bob, servers, options)
        try:
            await alice.start(errors_to=log)
            await bob.start(errors_to=log)
            for title, check in checks.all():
                result = await _outcome(title, check)
                report.results.append(result)
                say(_in_words(result))
                if result.outcome == "FAILED" and checks.is_hopeless:
                    say("the rest was not checked")
                    break
        finally:
            await asyncio.gather(alice.close(), bob.close())


async def _outcome(title: str, check: Callable[[], Awaitable[str]]) -> Result:
    try:
        return Result(title, "ok", await check())
    except Skipped as why:
        return Result(title, "skipped", str(why))
    except Violation as what:
        return Result(title, "FAILED", str(what))
    except LabError as error:
        return Result(title, "FAILED", error.render().removeprefix("error: "))
    except TimeoutError:
        return Result(title, "FAILED", f"no answer within {ANSWER_S:g} s; expected one, of whatever kind")


def _in_words(result: Result) -> str:
    detail = result.detail.replace("\n", "\n            ")
    return f"{result.outcome:<8}  {result.title}" + (f": {detail}" if detail else "")


@dataclass(frozen=True, slots=True)
class Servers:
    """What drivers are shown: who looks at the nodes, and by client its Sentinels and its environment."""

    looker: Looker
    nodes: Sequence[str]
    sentinels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@contextlib.asynccontextmanager
async def _servers(*, sentinels: bool) -> AsyncIterator[Servers]:
    """Nodes of Redis, as a run has them: five, or a master with its replica and Sentinels."""
    from lab.substrates.local.cluster import LocalCluster
    from lab.substrates.local.sentinels import SentinelCluster

    with tempfile.TemporaryDirectory(prefix="lock-lab-check-") as logs:
        run_id = f"check-{secrets.token_hex(4)}"
        cluster = (
            SentinelCluster(WATCHED, run_id, Path(logs))
            if sentinels
            else LocalCluster(ClusterPlan(NODES, (), "none"), run_id, Path(logs))
        )
        try:
            await cluster.up()
            asked = [node.address for node in cluster.nodes.values()][: 1 if sentinels else None]
            looker = Looker(asked)  # a replica has what its master has a moment later
            try:
                yield Servers(
                    looker,
                    _words(asked),
                    {
                        name: _words(cluster.link(name, one).address for one in cluster.sentinels)
                        for name in cluster.clients
                    },
                    {name: client.environment for name, client in cluster.clients.items()},
                )
            finally:
                await looker.close()
        finally:
            await cluster.down()


def _words(addresses: Iterable[Address]) -> list[str]:
    return [f"{each.host}:{each.port}" for each in addresses]


class Checks:
    """The checks, in the order in which they build on each other."""

    def __init__(
        self, alice: DriverProcess, bob: DriverProcess, servers: Servers, options: Mapping[str, Any]
    ) -> None:
        self._alice, self._bob = alice, bob
        self._servers = servers
        self._options = options
        self._key = f"check-{secrets.token_hex(4)}"
        self._hello: Hello | None = None
        self._lease: str | None = None
        self._rest: list[str] = []
        """The other permits of a semaphore that alice has."""
        self._waiting: asyncio.Task[Granted | Failed] | None = None
        self.is_hopeless = False

    def all(self) -> list[tuple[str, Callable[[], Awaitable[str]]]]:
        """What is checked, in words, and how."""
        return [
            ("says hello, with its library, version and capabilities", self.hello),
            ("opens its nodes", self.open),
            ("gets a free lock, which then lies on the nodes", self.acquire),
            ("a second client does not get it meanwhile", self.excluded),
            ("answers the clock while other commands are pending", self.clock),
            ("held: the library says so", self.held),
            ("extends the lease on the nodes", self.extend),
            ("an unknown lease is an error", self.unknown_lease),
            ("an unknown op is an error", self.unknown_op),
            ("releases, and the nodes have forgotten it", self.release),
            ("answers a second release of the same lease", self.release_again),
            ("gives a lease to each of two tasks", self.tasks),
            ("answers an acquire that is cancelled, and leaves nothing in its place", self.cancel),
            ("lets two readers in at once", self.readers),
            ("closes what it opened, and opens it again", self.close),
            ("one lock object serves leases that follow each other", self.one_object),
            ("the end of its input ends it, and releases nothing", self.end),
        ]

    async def hello(self) -> str:
        """Both must say the same."""
        self.is_hopeless = True
        self._hello = await self._alice.hello(self._options)
        await self._bob.hello(self._options)
        self._key = self._hello.key.replace("{}", self._key)
        return f"{self._hello.lib} {self._hello.version}; {', '.join(self._hello.caps) or 'no capabilities'}"

    async def open(self) -> str:
        """Both are shown the same nodes."""
        for name, driver in zip(CLIENTS, (self._alice, self._bob), strict=True):
            await self._open(driver, name, self._options)
        return ""

    async def _open(self, driver: DriverProcess, client: str, options: Mapping[str, Any]) -> None:
        servers = self._servers
        await driver.open(client, servers.nodes, options, servers.sentinels.get(client, ()))

    async def acquire(self) -> str:
        """Nobody has it yet, so it must work; and then it must be there."""
        answer = await self._alice.acquire(self._key, TTL_MS, ANSWER_S)
        if isinstance(answer, Failed):
            raise Violation(f"it said {answer.kind}: {answer.words}; expected a lease: nobody holds the lock")
        self._lease = answer.lease
        looks = await self._looks()
        there = [look for look in looks if look.there]
        if not there:
            raise Violation(
                f"it said that it holds {self._key!r}, but no node has anything under {self._node_key!r}; "
                "expected the lock on the nodes (is node_key right?)"
            )
        values = {look.value for look in there if look.value is not None}
        if answer.token is not None and values and values != {answer.token}:
            raise Violation(f"its token is {answer.token!r}, but the nodes hold {', '.join(sorted(values))}")
        self.is_hopeless = False
        lasts = max(look.left_ms or 0 for look in there)
        if lasts > TTL_MS + 1000:
            raise Violation(f"asked for {TTL_MS} ms, it set {lasts} ms on a node; expected what was asked")
        if self._can("validity") is (answer.claimed_ms is None):
            raise Violation(
                f"claimed_ms is {answer.claimed_ms}, and the capability validity "
                f"{'is' if self._can('validity') else 'is not'} there; expected that they agree"
            )
        if self._can("fence") is (answer.fence is None):
            raise Violation(f"fence is {answer.fence}; expected one if, and only if, fence is a capability")
        self._rest = await self._take_rest(self._alice)
        return f"on {len(there)} of {len(looks)} nodes"

    async def _take_rest(self, driver: DriverProcess) -> list[str]:
        """Take the other permits of a semaphore, so that none is left."""
        leases: list[str] = []
        permits = 1 if self._hello is None else self._hello.permits
        for number in range(2, permits + 1):
            answer = await driver.acquire(self._key, TTL_MS, ANSWER_S)
            if isinstance(answer, Failed):
                raise Violation(
                    f"it said {answer.kind} to permit {number}: {answer.words}; expected a lease: there are "
                    f"{permits} of them"
                )
            leases.append(answer.lease)
        return leases

    async def _release_all(self, driver: DriverProcess, leases: Sequence[str], whose: str) -> None:
        """Give these back. Raises ``Violation``."""
        for lease in leases:
            answer = await driver.release(lease, ANSWER_S)
            if isinstance(answer, Failed):
                raise Violation(f"it said {answer.kind}: {answer.words}; expected ok: {whose} holds the lock")

    async def excluded(self) -> str:
        """A library that waits for a lock may still be waiting; one that says yes had better have it."""
        self._waiting = asyncio.create_task(self._bob.acquire(self._key, TTL_MS))
        done, _ = await asyncio.wait([self._waiting], timeout=PATIENCE_S)
        if not done:
            return "it waits"
        answer, self._waiting = self._waiting.result(), None
        return self._refusal(answer)

    def _refusal(self, answer: Granted | Failed) -> str:
        """Why bob did not get it, while alice has it."""
        if isinstance(answer, Granted):
            raise Violation(
                f"bob was told that he holds {self._key!r} (lease {answer.lease!r}) while alice does; "
                "expected refused, or no answer yet"
            )
        return f"{answer.kind}: {answer.words}"

    async def clock(self) -> str:
        """Also while an acquire waits."""
        if not self._can("clock"):
            raise Skipped("it has no clock, so faults of a client's clock cannot be confirmed")
        for driver in (self._alice, self._bob):
            time = await driver.clock(ANSWER_S)
            if isinstance(time, Failed):
                raise Violation(f"{time.kind}: {time.words}; expected the time: it says that it has a clock")
        return "" if self._waiting is None or self._waiting.done() else "while an acquire waits"

    async def held(self) -> str:
        """Alice holds it."""
        if not self._can("held"):
            raise Skipped("it has no such question")
        answer = await self._alice.held(self._mine(), ANSWER_S)
        if isinstance(answer, Failed) or answer.held is False:
            raise Violation(f"it said {answer}; expected true: alice holds the lock")
        return ""

    async def extend(self) -> str:
        """The nodes must know."""
        if not self._can("extend"):
            raise Skipped("it has no extension")
        answer = await self._alice.extend(self._mine(), 2 * TTL_MS, ANSWER_S)
        if not isinstance(answer, Extended):
            raise Violation(
                f"it said {answer.kind}: {answer.words}; expected an extension: alice holds the lock"
            )
        ends = [look.left_ms for look in await self._looks() if look.there]
        if ends and all(left_ms is None for left_ms in ends):
            return "the nodes do not tell how long it lasts"
        lasts = max((left_ms or 0 for left_ms in ends), default=0)
        if not TTL_MS < lasts <= 2 * TTL_MS + 1000:
            raise Violation(
                f"asked for {2 * TTL_MS} ms from now, the key lasts {lasts} ms; expected what was asked"
            )
        return ""

    async def unknown_lease(self) -> str:
        """Nobody has a lease of that name."""
        answer = await self._alice.release("no-such-lease", ANSWER_S)
        return _must_be_an_error(answer, "a lease that it never gave")

    async def unknown_op(self) -> str:
        """There is no such command."""
        op: Any = "no-such-op"
        return _must_be_an_error(await self._alice.ask(op, {}, ANSWER_S), "an op that does not exist")

    async def release(self) -> str:
        """Bob, if he waits, has it then, and gives it back."""
        waiting = self._waiting  # who is woken at once has the lock before the release is answered
        if waiting is not None and waiting.done():
            self._refusal(waiting.result())
            waiting = None
        await self._release_all(self._alice, [self._mine(), *self._rest], "alice")
        if waiting is not None:
            async with asyncio.timeout(ANSWER_S):
                got = await waiting
            if isinstance(got, Granted):
                await self._bob.release(got.lease, ANSWER_S)
        left = [look.node for look in await self._looks() if look.there]
        if left:
            raise Violation(
                f"it said that it released, but the key is on {', '.join(left)}; expected nowhere"
            )
        return ""

    async def release_again(self) -> str:
        """What the library says to it is its own business."""
        answer = await self._alice.release(self._mine(), ANSWER_S)
        if not isinstance(answer, Failed):
            return "the library says ok"
        if answer.error == "UnknownLease":
            raise Skipped("it forgets what it released, so the library is not asked a second time")
        return f"{answer.kind}: {answer.words}"

    async def tasks(self) -> str:
        """Two keys of one client's, at the same time."""
        if not self._can("tasks"):
            raise Skipped("it does one thing after the other")
        keys = [f"{self._key}-{number}" for number in (1, 2)]
        answers = await asyncio.gather(*(self._alice.acquire(key, TTL_MS, ANSWER_S) for key in keys))
        leases = [answer.lease for answer in answers if isinstance(answer, Granted)]
        if len(set(leases)) < len(keys):
            said = ", ".join(each.words if isinstance(each, Failed) else each.lease for each in answers)
            raise Violation(
                f"it said {said}; expected two leases with names of their own: both keys are free"
            )
        for lease in leases:
            answer = await self._alice.release(lease, ANSWER_S)
            if isinstance(answer, Failed):
                raise Violation(f"it said {answer.kind}: {answer.words}; expected ok: alice holds both locks")
        return ""

    async def cancel(self) -> str:
        """Bob holds it; Alice asks, and is cancelled while she waits, if she waits."""
        if not self._can("cancel"):
            raise Skipped("it cannot: its users cannot either, or not by this driver")
        bobs = await self._bob.acquire(self._key, TTL_MS, ANSWER_S)
        if isinstance(bobs, Failed):
            raise Violation(f"it said {bobs.kind}: {bobs.words}; expected a lease: nobody holds the lock")
        all_bobs = [bobs.lease, *await self._take_rest(self._bob)]
        asks = asyncio.ensure_future(self._alice.acquire(self._key, TTL_MS, ANSWER_S))
        done, _ = await asyncio.wait([asks], timeout=CANCEL_AFTER_S)
        asks.cancel()
        await asyncio.wait([asks], timeout=ANSWER_S)
        if not asks.done():
            raise TimeoutError
        if not asks.cancelled() and isinstance(asks.result(), Granted):
            raise Violation("alice was told that she holds it, and bob as well; expected that she does not")
        await self._release_all(self._bob, all_bobs, "bob")
        left = [look.node for look in await self._looks() if look.there]
        if left:
            raise Violation(f"bob has released, but the key is on {', '.join(left)}; expected nowhere")
        return "it was refused before" if done else "while it waited"

    async def readers(self) -> str:
        """Nobody has it, so both get it, and both give it back."""
        if not self._can("read-write"):
            raise Skipped("its readers do not share it, or not by this driver")
        leases = []
        for driver, name in ((self._alice, "alice"), (self._bob, "bob")):
            answer = await driver.acquire(self._key, TTL_MS, ANSWER_S, mode="read")
            if isinstance(answer, Failed):
                raise Violation(
                    f"it said {answer.kind} to {name}: {answer.words}; expected a lease: only readers hold it"
                )
            leases.append((driver, answer.lease))
        for driver, lease in leases:
            released = await driver.release(lease, ANSWER_S)
            if isinstance(released, Failed):
                raise Violation(f"it said {released.kind}: {released.words}; expected ok: a reader holds it")
        return ""

    async def close(self) -> str:
        """As one that was started anew."""
        answer = await self._alice.close_library(ANSWER_S)
        if isinstance(answer, Failed):
            raise Skipped("it does not, and is started anew for each schedule")
        await self._open_anew(self._options)
        return ""

    async def one_object(self) -> str:
        """It is opened once more for that."""
        if not self._can("one-object"):
            raise Skipped("it makes a lock object for each lease, or none")
        answer = await self._alice.close_library(ANSWER_S)
        if isinstance(answer, Failed):
            raise Skipped("it cannot be opened anew")
        await self._open_anew({**self._options, ONE_OBJECT: True})
        return ""

    async def _open_anew(self, options: Mapping[str, Any]) -> None:
        """Open it again, and let it take the lock and give it back, twice."""
        await self._alice.hello(options)
        await self._open(self._alice, CLIENTS[0], options)
        for _ in range(2):
            answer = await self._alice.acquire(self._key, TTL_MS, ANSWER_S)
            if isinstance(answer, Failed):
                raise Violation(f"then it said {answer.kind}: {answer.words}; expected a lease: it is free")
            released = await self._alice.release(answer.lease, ANSWER_S)
            if isinstance(released, Failed):
                raise Violation(
                    f"then it said {released.kind}: {released.words}; expected ok: alice holds it"
                )

    async def end(self) -> str:
        """It holds a lock when its input ends."""
        answer = await self._bob.acquire(self._key, TTL_MS, ANSWER_S)
        if not await self._bob.close():
            raise Violation("it still ran 5 s after its input had ended; expected that it ends by itself")
        there = any(look.there for look in await self._looks())
        if isinstance(answer, Granted) and not there:
            raise Violation("the lock that it held is gone; expected that it releases nothing when it ends")
        return ""

    async def _looks(self) -> list[Look]:
        try:
            return await self._servers.looker.look(self._node_key)
        except NodeError as error:
            raise LabError(f"a node did not show its key: {error}") from error

    @property
    def _node_key(self) -> str:
        assert self._hello is not None
        return self._hello.node_key.replace("{key}", self._key)

    def _can(self, capability: str) -> bool:
        return self._hello is not None and self._hello.can(capability)

    def _mine(self) -> str:
        if self._lease is None:
            raise Skipped("it holds no lease")
        return self._lease


def _must_be_an_error(answer: object, to: str) -> str:
    if not isinstance(answer, Failed) or answer.kind != "error":
        raise Violation(f'it said {answer}; expected "kind":"error" to {to}')
    return f"{answer.error}"


__all__ = ["DriverBroken", "Report", "Result", "check_driver"]
