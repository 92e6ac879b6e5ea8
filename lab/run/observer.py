"""Observation of the nodes: which node held the lock's key, with which token, and since when.

Each node is watched past every link, with MONITOR and a connection of the lab's own. MONITOR's stamps follow
the node's clock, which a fault may move, so everything is stamped with the recorder's. The observations are
for anchors, pictures and cross-checks, never for a verdict.

The ``value`` of an event on a key says how exact it is, all on the recorder's clock. ``look`` numbers the
observations of a node, each made between ``asked_ns`` and ``answered_ns``. ``commands`` caused it, if any:
the ``command``; ``seen_ns``; between which two instants it ran by the node's own stamp, ``ran_ns`` (right
while its clock is); the last observation that it certainly came ``after`` (0: none). ``key-touched`` lists
commands without an observation after them. ``ran_on``, with ``node-up``: the same process ran meanwhile,
and only the connections to it had ended. ``passed``, when watching ends, is the last observation before
which no command was missed.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.addresses import Address
from lab.channel import Channel, NodeError
from lab.run.executed_instead import LOADING, Executed
from lab.run.monitor import Monitor
from lab.run.recorder import Recorder
from lab.scenario.anchors import NOT_SEEN
from lab.substrates.asked import MISSING, OF_ANOTHER_TYPE, OWN_KEY

OBSERVE_TIMEOUT_S = 2.0
"""How long a node may take to answer an observation; a paused one never does."""
RETRY_S = 0.005
RETRY_MAX_S = 0.1
"""The longest pause between two tries to reach a node that stays away, while nobody waits for it."""
CATCH_UP_S = 1.0
"""How long a watch waits at its end for commands that MONITOR has not shown yet."""
OWN_COMMANDS = frozenset(NOT_SEEN)
EXECUTED_MAX = 10_000
"""How many commands are kept for anchors: more than steps need, bounded for long workloads."""
OTHERS_MAX = 1_000
"""How many commands that are not on the key are kept, for the error of an anchor that is never observed."""
NOT_A_CLIENTS = OWN_COMMANDS | {
    *("DBSIZE", "PUBLISH", "REPLICAOF", "CONFIG", "SHUTDOWN", "DEBUG", "REPLCONF"),
    *("CLUSTER", "READONLY", "ASKING"),
}
"""Commands that the lab itself sends too, so that they are not known to be a client's."""
SCRIPTS = frozenset({"EVAL", "EVALSHA", "FCALL"})
SHOWN_MAX = 200
"""How many characters of a command are kept."""
ELSEWHERE = ("MOVED ", "ASK ")
"""How the errors of a node of a Redis Cluster begin if another node serves the slot of the key, or has it."""
MARK = "look-"
"""The argument of the last command of each observation, which shows in MONITOR what came before it."""


@dataclass(frozen=True, slots=True)
class KeyState:
    """The observed key of a node: whether it is there, its nanoseconds left, and whether it is a string."""

    there: bool
    left_ns: int | None = None
    is_string: bool = True


class NodeWatch:
    """Watches one key on one node, also while the node goes down and comes back."""

    def __init__(
        self,
        node: Address,
        key: str,
        recorder: Recorder,
        notify: Callable[[], None],
        node_key: str,
        *,
        cut_off: bool = False,
        sharded: bool = False,
        monitored: bool = True,
    ) -> None:
        self._cut_off, self._sharded, self._monitored = cut_off, sharded, monitored
        self._run_id = ""
        self.node = node.name
        self._key = key
        self._node_key = node_key
        self._recorder = recorder
        self._notify = notify
        self._channel = Channel(node, connect_timeout_s=2.0, stale_after_s=10.0, client_name="lab-truth")
        self._monitor = Monitor(node)
        self._task: asyncio.Task[None] | None = None
        self._connections = 0
        self._numbers = itertools.count(1)
        self._asked = 0  # the last observation that was begun
        self._passed = 0  # the last observation whose mark MONITOR has shown
        self._own: Counter[str] = Counter()
        """Commands of the lab that clients send, too, and that MONITOR has still to show."""
        self._pending: list[dict[str, Any]] = []
        self._due = asyncio.Event()
        self._awaited = asyncio.Event()
        self.listening = asyncio.Event()
        """Set while every command of the node is seen."""
        self.executed: deque[tuple[int, str]] = deque(maxlen=EXECUTED_MAX)
        """(time_ns, command) of the last commands on the key, oldest first."""
        self.others: deque[tuple[int, str]] = deque(maxlen=OTHERS_MAX)
        """(time_ns, command, first argument) of the last commands of clients that are not on the key."""
        self.token: str | None = None
        """The last observed value of the key; None if it was not there."""

    async def start(self) -> None:
        """Connect and begin to listen."""
        await self._channel.connect()
        if not self._monitored:
            self.listening.set()
            return
        self._task = asyncio.create_task(self._watch())
        await self.until_listening()

    async def until_listening(self) -> None:
        """Wait until every command of the node is seen, and meanwhile try often to reach it."""
        if not self.listening.is_set():
            self._awaited.set()
            await self.listening.wait()

    async def stop(self) -> None:
        """Stop listening, if possible after all commands before the last observation, and disconnect."""
        if not self._monitored:
            await self._channel.close()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CATCH_UP_S):
                while self.listening.is_set() and self._passed < self._asked:
                    await asyncio.sleep(RETRY_S)
        if self.listening.is_set():
            self._record("node-left", None, value={"passed": self._passed})
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._channel.close()

    async def observe(self, commands: Sequence[dict[str, Any]] = ()) -> KeyState | None:
        """Read the key and record it; None if the node is paused, or not ready.

        A node that is down counts as one without the key. ``commands`` caused the observation, if any.
        """
        seen_ns = int(commands[0]["seen_ns"]) if commands else None
        number, asked_ns = next(self._numbers), self._recorder.now_ns()
        self._asked = number
        answered = False
        try:
            async with asyncio.timeout(OBSERVE_TIMEOUT_S):
                value, left_ms = await self._look(number)
            answered = True
        except (TimeoutError, NodeError) as error:
            if str(error).startswith(OF_ANOTHER_TYPE):
                return await self._observe_other_type()
            down = isinstance(error, NodeError) and not self.listening.is_set()
            if self._cut_off:  # a connection that ended says nothing of the key
                down = down and str(error).startswith("cannot connect")
            return KeyState(there=False) if down else None
        finally:
            if commands and not answered:
                self._record("key-touched", seen_ns, value={"commands": list(commands)})
        token = value.decode(errors="replace") if isinstance(value, bytes) and left_ms != MISSING else None
        left_ns = int(left_ms) * 1_000_000 if token is not None and left_ms >= 0 else None
        f = "key-observed" if token == self.token else "key-set" if token is not None else "key-deleted"
        self._record(
            f,
            seen_ns,
            token=token if token is not None else self.token if f == "key-deleted" else None,
            ttl_left_ns=left_ns,
            value={
                "look": number,
                "asked_ns": asked_ns,
                "answered_ns": self._recorder.now_ns(),
                **({"commands": list(commands)} if commands else {}),
            },
        )
        self.token = token
        return KeyState(token is not None, left_ns)

    async def _look(self, number: int) -> tuple[Any, Any]:
        """What the node answers to GET and PTTL. Raises ``NodeError``.

        ``asyncio.gather`` would raise that also if it is cancelled at the same time, and nobody would be.
        """
        looks: list[tuple[str, ...]] = [("GET", self._node_key), ("PTTL", self._node_key)]
        if self._sharded:  # what a replica has, and a master that a slot is being moved to
            looks = [("READONLY",), *(words for look in looks for words in (("ASKING",), look))]
        asked = [self._channel.post(*words) for words in (*looks, ("PING", f"{MARK}{number}"))]
        try:
            await asyncio.wait(asked)
        finally:
            for reply in asked:
                reply.cancel()
        errors = [error for error in (reply.exception() for reply in asked) if error is not None]
        if errors and all(str(error).startswith(ELSEWHERE) for error in errors):
            return None, MISSING
        if errors:
            raise errors[0]
        value, left_ms = (
            reply.result() for reply, words in zip(asked, looks, strict=False) if len(words) > 1
        )
        return value, left_ms

    async def _observe_other_type(self) -> KeyState | None:
        """Whether a key is there that is no string: whose it is, it does not say."""
        try:
            async with asyncio.timeout(OBSERVE_TIMEOUT_S):
                left_ms = await self._channel.call("PTTL", self._node_key)
        except (TimeoutError, NodeError):
            return None
        left = int(left_ms) if isinstance(left_ms, int) else -1
        return KeyState(left != MISSING, left * 1_000_000 if left >= 0 else None, is_string=False)

    async def fields(self) -> str | None:
        """What the key holds if it is a hash, as text that can be compared; None of any other kind."""
        try:
            async with asyncio.timeout(OBSERVE_TIMEOUT_S):
                if await self._ask_as_clients_do("TYPE") not in ("hash", b"hash"):
                    return None
                found = await self._ask_as_clients_do("HGETALL")
        except (TimeoutError, NodeError):
            return None
        return repr(sorted(zip(found[::2], found[1::2], strict=True)))

    async def _ask_as_clients_do(self, command: str) -> Any:
        """Ask about the key with a command that clients send, too: MONITOR is to show one more of them."""
        self._own[command] += 1
        return await self._channel.call(command, self._node_key)

    def _record(self, f: str, time_ns: int | None, **fields: Any) -> None:
        if not self._monitored:  # between two looks anything may have happened, so they show no presence
            return
        key = None if f.startswith("node-") else self._key
        self._recorder.write("node", "info", f, time_ns=time_ns, node=self.node, key=key, **fields)

    def _noted(self, words: Sequence[str], stamp_s: float) -> dict[str, Any]:
        """A command, when it was seen, and bounds of when it ran."""
        before_ns = self._recorder.now_ns()
        age_ns = time.time_ns() - round(stamp_s * 1e9)
        seen_ns = self._recorder.now_ns()
        # The commands of a script follow on their own; its source is left out, its arguments have the token.
        kept = [words[0], *words[2:]] if words[0].upper() in SCRIPTS else words
        shown = " ".join(kept)[:SHOWN_MAX]
        ran_ns = [before_ns - age_ns, seen_ns - age_ns]
        return {"command": shown, "seen_ns": seen_ns, "ran_ns": ran_ns, "after": self._passed}

    async def _watch(self) -> None:
        """Listen; when the connection ends record it, and listen again when the node is back."""
        pause_s = RETRY_S
        while True:
            with contextlib.suppress(OSError, NodeError):
                await self._listen()
            if self.listening.is_set():
                self.listening.clear()
                self._awaited.clear()
                self.token = None
                self._record("node-down", None, value={"passed": self._passed})
                self._notify()
                pause_s = RETRY_S
            if self._awaited.is_set():
                await asyncio.sleep(RETRY_S)
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._awaited.wait()
            pause_s = min(2 * pause_s, RETRY_MAX_S)

    async def _listen(self) -> None:
        async with self._monitor as monitor:
            await self._channel.call("PING")  # an error while it still loads its data
            returns = bool(self._connections)
            self._connections += 1
            self._own.clear()
            self.listening.set()
            before, self._run_id = self._run_id, await self._which_run()
            if returns:
                ran_on = bool(before) and before == self._run_id
                self._record("node-up", None, value={"ran_on": True} if ran_on else None)
                await self.observe()
            self._notify()
            observing = asyncio.create_task(self._observe_when_due())
            try:
                while True:
                    self._take_note(*await monitor.next())
            finally:
                observing.cancel()
                await asyncio.gather(observing, return_exceptions=True)
                if self._pending:
                    self._record("key-touched", None, value={"commands": self._pending})
                    self._pending = []

    async def _which_run(self) -> str:
        """The run id of the server, where its connections may end although it runs on; otherwise empty."""
        if not self._cut_off:
            return ""
        lines = (await self._channel.call("INFO", "server")).decode().splitlines()
        return next((line.partition(":")[2] for line in lines if line.startswith("run_id:")), "")

    def _take_note(self, stamp_s: float, words: list[str]) -> None:
        # "EVALSHA <script> 1 <key> …": the key is a separate word in every command on it.
        name = words[0].upper() if words else ""
        if name == "PING" and words[-1].startswith(MARK):
            self._passed = int(words[-1].removeprefix(MARK))
        if self._node_key not in words:
            if name and name not in NOT_A_CLIENTS and OWN_KEY not in words:
                about = name if name in LOADING else " ".join([name, *words[1:2]])[:SHOWN_MAX]
                self.others.append((self._recorder.now_ns(), about))
            return
        if name in OWN_COMMANDS:
            return
        if self._own[name]:
            self._own[name] -= 1
            return
        self._pending.append(self._noted(words, stamp_s))
        self.executed.append((self._pending[-1]["seen_ns"], name))
        self._due.set()
        self._notify()

    async def _observe_when_due(self) -> None:
        """Observe once after all commands on the key since the last time: one by one would lag behind."""
        while True:
            await self._due.wait()
            self._due.clear()
            commands, self._pending = self._pending, []
            await self.observe(commands)
            self._notify()


class Observer:
    """Watches the lock's key on all nodes; ``node_key`` is its name there.

    ``cut_off``: somebody may end connections to nodes that run on, as Sentinel does in a failover.
    ``sharded``: the nodes are a Redis Cluster. One that does not serve the slot of the key, and replicates
    nobody who does, has no key.
    Nodes that are not ``monitored`` are looked at when an anchor asks for it, and nothing of it is recorded.
    """

    def __init__(
        self,
        nodes: Iterable[Address],
        key: str,
        recorder: Recorder,
        node_key: str | None = None,
        *,
        cut_off: bool = False,
        sharded: bool = False,
        monitored: bool = True,
    ) -> None:
        self.node_key = node_key or key
        self._changed = asyncio.Event()
        self.watches = {
            node.name: NodeWatch(
                node,
                key,
                recorder,
                self._changed.set,
                self.node_key,
                cut_off=cut_off,
                sharded=sharded,
                monitored=monitored,
            )
            for node in nodes
        }

    async def start(self) -> None:
        """Begin to watch every node."""
        await asyncio.gather(*(watch.start() for watch in self.watches.values()))

    async def stop(self) -> None:
        """Stop watching."""
        await asyncio.gather(*(watch.stop() for watch in self.watches.values()))

    async def observe(self, nodes: Iterable[str] | None = None) -> None:
        """Observe the key on these nodes (all by default), if they are watched."""
        await asyncio.gather(
            *(self.watches[node].observe() for node in (nodes or self.watches) if node in self.watches)
        )

    async def token(self, node: str) -> str | None:
        """Observe the key on a node; return its value, None if it is not there."""
        watch = self.watches[node]
        state = await watch.observe()
        if state is None or not state.there:
            return None
        return watch.token if state.is_string else await watch.fields()

    async def until_watching(self, nodes: Iterable[str], timeout_s: float) -> bool:
        """Wait until all of these that are watched show their commands (again); False: not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(
                    *(self.watches[node].until_listening() for node in nodes if node in self.watches)
                )
        except TimeoutError:
            return False
        return True

    async def until_executed(
        self, nodes: Iterable[str], command: str, since_ns: int, timeout_s: float, *, times: int = 1
    ) -> bool:
        """Wait until each node executed ``command`` on the key so often after ``since_ns``.

        False: that did not happen in time.
        """
        waited_for = list(nodes)

        def all_seen() -> bool:
            return all(
                sum(name == command and at > since_ns for at, name in self.watches[node].executed) >= times
                for node in waited_for
            )

        try:
            async with asyncio.timeout(timeout_s):
                while not all_seen():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def executed_since(self, nodes: Iterable[str], since_ns: int) -> dict[str, Executed]:
        """What each of these nodes executed after ``since_ns``, as far as it is kept."""
        return {
            node: Executed(
                Counter(name for at, name in self.watches[node].executed if at > since_ns),
                Counter(name for at, name in self.watches[node].others if at > since_ns),
            )
            for node in nodes
        }

    async def until_gone(self, nodes: Iterable[str], timeout_s: float) -> bool:
        """Wait until the key is on none of these nodes any more; False: it stayed."""

        async def gone(watch: NodeWatch) -> None:
            while (state := await watch.observe()) is None or state.there:
                left_s = 0.0 if state is None or state.left_ns is None else state.left_ns / 1e9
                await asyncio.sleep(max(0.002, min(left_s, 0.25)))

        try:
            async with asyncio.timeout(timeout_s):
                await asyncio.gather(*(gone(self.watches[node]) for node in nodes))
        except TimeoutError:
            return False
        return True
