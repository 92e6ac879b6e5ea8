"""A state machine for Hypothesis: clients use a lock step by step while links, clients and nodes fail."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, ClassVar, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from hypothesis.strategies import SearchStrategy

from lab.api.strategies.drawing import SEED_MAX, Faults, kinds_of, ttl_ns_of
from lab.api.strategies.running import Ran, Violated, message_of, simulated, undisturbed
from lab.client_protocol import Verb
from lab.durations import format_duration, parse_duration_ns
from lab.examine.violations.judge import violations
from lab.faults.base import Fault
from lab.faults.client_crash import ClientCrash
from lab.faults.crash import Crash
from lab.faults.cut import Cut
from lab.faults.hold import Hold
from lab.faults.jump import Jump
from lab.faults.links import LinkFault
from lab.faults.pause import Pause
from lab.faults.reset import Reset
from lab.locks import check_options, lock_class, name_of
from lab.search.faults import Kind
from lab.search.space import must_run_in_virtual_time
from lab.search.stepped import CRITICAL, SteppedClient, SteppedRun
from lab.search.trial import CLIENTS, OptionValue, Trial

Rule = TypeVar("Rule", bound=Callable[..., Any])
PATIENCE: Final = 2
"""In TTLs: how long a rule waits for its operation; after that it goes on beside the next rules."""
BRIEFLY: Final = "20ms"
SAFE: Final[tuple[Kind, ...]] = (Cut, Reset, Crash)
"""What ``faults = "safe"`` means here, where a fault lasts until another rule ends it."""


def _of(what: str) -> SearchStrategy[Any]:
    """One of what the machine has of something now."""
    return st.runner().flatmap(lambda machine: st.sampled_from(getattr(machine, what)()))


def _can(what: str, *kinds: Kind) -> Callable[[Rule], Rule]:
    """Whether there is something of it now, and faults of these kinds are wanted."""
    return precondition(lambda machine: bool(getattr(machine, what)()) and set(kinds) <= set(machine.kinds))


class LockMachine(RuleBasedStateMachine):
    """Clients acquire, extend, write and release, time passes, and faults come and go.

    After each rule the history so far is judged; a violation fails the test. Subclass it, say which lock, and
    hand its ``TestCase`` to pytest or unittest::

        class MyLockMachine(LockMachine):
            lock = "my_package.my_module:MyLock"

        TestMyLock = MyLockMachine.TestCase
    """

    lock: ClassVar[str | Callable[..., Any]] = "redlock"
    """The lock under test: a name, ``package.module:Class``, or the class itself."""
    clients: ClassVar[int] = 2
    nodes: ClassVar[int] = 5
    ttl: ClassVar[str] = "5s"
    options: ClassVar[dict[str, OptionValue]] = {}
    faults: ClassVar[Faults] = "safe"
    """"safe" (links are cut, connections broken, nodes crash and keep their data), "all", or kinds."""
    allow: ClassVar[tuple[str, ...]] = ()
    """Findings that do not fail the test."""

    cluster: SteppedRun
    """The cluster; it is there once ``begin`` was called."""

    def __init__(self) -> None:
        super().__init__()
        self._stack = ExitStack()
        self._stack.enter_context(simulated())
        self.kinds = SAFE if self.faults == "safe" else kinds_of(self.faults)
        self.history: Ran | None = None
        """The history so far, and what is wrong in it."""

    @initialize(seed=st.integers(0, SEED_MAX))
    def begin(self, seed: int) -> None:
        """Start the nodes and connect the clients; ``seed`` draws latencies and tokens."""
        name, ttl_ns = name_of(self.lock), ttl_ns_of(self.ttl)
        must_run_in_virtual_time(name)
        check_options(name, ttl_ns, self.options)
        self._trial = Trial(
            name,
            dict.fromkeys(CLIENTS[: self.clients], ()),
            nodes=self.nodes,
            ttl_ns=ttl_ns,
            options=dict(self.options),
            store_fences=bool(lock_class(name).hands_out_fences),
            seed=seed,
            horizon_ns=0,
        )
        with undisturbed():
            self.cluster = SteppedRun(self._trial)
        self._stack.callback(self.cluster.close)

    @_can("idle")
    @rule(client=_of("idle"))
    def acquire(self, client: str) -> None:
        """A client without a lease asks for the lock."""
        self.do(client, "acquire")

    @_can("holders")
    @rule(client=_of("holders"))
    def extend(self, client: str) -> None:
        """A client asks for more time, whether its lease is over or not."""
        self.do(client, "extend")

    @_can("holders")
    @rule(client=_of("holders"))
    def write(self, client: str) -> None:
        """A client reads the resource, checks its lease, and writes if it still holds the lock."""
        self.do(client, *CRITICAL)

    @_can("holders")
    @rule(client=_of("holders"))
    def release(self, client: str) -> None:
        """A client gives the lock back, whether its lease is over or not."""
        self.do(client, "release")

    @rule(by=_of("times"))
    def wait(self, by: str) -> None:
        """Time passes: a moment, a part of a lease, a whole lease."""
        with undisturbed():
            self.cluster.wait(parse_duration_ns(by))

    @_can("undisturbed", Cut)
    @rule(
        client=_of("undisturbed"),
        nodes=_of("subsets"),
        direction=st.sampled_from(("both", "requests", "replies")),
    )
    def cut(self, client: str, nodes: str, direction: Any) -> None:
        """What a client and some nodes send each other is lost, both ways or one way."""
        self.strike(Cut(client=client, nodes=tuple(nodes), direction=direction))

    @_can("undisturbed", Hold)
    @rule(client=_of("undisturbed"), nodes=_of("subsets"), direction=st.sampled_from(("replies", "requests")))
    def hold(self, client: str, nodes: str, direction: Any) -> None:
        """What a client and some nodes send each other is held up in the network."""
        self.strike(Hold(client=client, nodes=tuple(nodes), direction=direction))

    @_can("living", Reset)
    @rule(client=_of("living"), nodes=_of("subsets"))
    def reset(self, client: str, nodes: str) -> None:
        """The connections of a client to some nodes break."""
        self.strike(Reset(client=client, nodes=tuple(nodes)))

    @_can("disturbed")
    @rule(client=_of("disturbed"))
    def heal(self, client: str) -> None:
        """All links of a client work again, and what was held arrives."""
        self._end(lambda fault: isinstance(fault, LinkFault) and fault.client == client)

    @_can("running", Pause)
    @rule(client=_of("running"))
    def pause(self, client: str) -> None:
        """A client stands still."""
        self.strike(Pause(client=client))

    @_can("paused")
    @rule(client=_of("paused"))
    def resume(self, client: str) -> None:
        """A client goes on."""
        self._end(lambda fault: isinstance(fault, Pause) and fault.client == client)

    @_can("living", ClientCrash)
    @rule(client=_of("living"))
    def kill(self, client: str) -> None:
        """A client dies."""
        self.strike(ClientCrash(client=client))

    @_can("spare", Crash)
    @rule(node=_of("spare"))
    def crash(self, node: str) -> None:
        """A node goes down; what it has synced is kept."""
        self.strike(Crash(nodes=(node,)))

    @_can("down")
    @rule(node=_of("down"))
    def restart(self, node: str) -> None:
        """A node comes back."""
        self._end(lambda fault: isinstance(fault, Crash) and fault.nodes == (node,))

    @_can("up", Jump)
    @rule(node=_of("up"), by=st.sampled_from(("+6s", "-6s", "+1s")))
    def jump(self, node: str, by: str) -> None:
        """A node's clock jumps."""
        self.strike(Jump(node=node, by=by))

    @invariant()
    def nothing_is_violated(self) -> None:
        """Nothing is violated in the history so far. Raises ``Violated``."""
        outcome = self.cluster.outcome()
        self.history = Ran(outcome, violations(outcome))
        count = {name: one for name, one in self.history.violations.items() if name not in self.allow}
        if count:
            raise Violated(f"{self._trial.lock} violates {', '.join(count)}\n{message_of(count)}", count)

    def teardown(self) -> None:
        """Stop everything; this process is as it was before."""
        self._stack.close()

    # What rules are made of; those of a subclass may use it as well

    def do(self, client: str, *verbs: Verb) -> None:
        """Let a client do something, one after the other, and time pass until that is over, for two TTLs."""
        with undisturbed():
            self.cluster.start(client, *verbs)
            self.cluster.finish(client, PATIENCE * self._trial.ttl_ns)

    def strike(self, fault: Fault) -> None:
        """Inject a fault of ``lab.faults`` now, until ``heal``, ``resume`` or ``restart``."""
        with undisturbed():
            self.cluster.strike(fault)

    def _end(self, ends: Any) -> None:
        with undisturbed():
            for lasting in [each for each in self.cluster.lasting if ends(each.fault)]:
                self.cluster.end(lasting)

    def idle(self) -> list[str]:
        """The clients that can act and have no lease."""
        return [name for name, one in self._clients().items() if one.free and not one.holds]

    def holders(self) -> list[str]:
        """The clients that can act and have a lease, over or not."""
        return [name for name, one in self._clients().items() if one.free and one.holds]

    def living(self) -> list[str]:
        """The clients that were not killed."""
        return [name for name, one in self._clients().items() if not one.crashed]

    def running(self) -> list[str]:
        """The clients that were neither killed nor paused."""
        return [name for name in self.living() if not self._clients()[name].paused]

    def paused(self) -> list[str]:
        """The clients that are paused."""
        return [name for name in self.living() if self._clients()[name].paused]

    def disturbed(self) -> list[str]:
        """The clients with links that are cut or held."""
        lasting = (each.fault for each in self.cluster.lasting)
        return sorted({fault.client for fault in lasting if isinstance(fault, LinkFault) and fault.client})

    def undisturbed(self) -> list[str]:
        """The clients that were not killed and whose links all work."""
        disturbed = self.disturbed()
        return [name for name in self.living() if name not in disturbed]

    def down(self) -> list[str]:
        """The nodes that are down."""
        lasting = (each.fault for each in self.cluster.lasting)
        return sorted({fault.nodes[0] for fault in lasting if isinstance(fault, Crash)})

    def up(self) -> list[str]:
        """The nodes that are up."""
        return [name for name in self._trial.node_names if name not in self.down()]

    def spare(self) -> list[str]:
        """The nodes that may go down: the others are a majority without them. Of one or two nodes, each."""
        return self.up() if len(self.down()) < max(1, (self.nodes - 1) // 2) else []

    def times(self) -> list[str]:
        """How long a wait may last."""
        return [BRIEFLY, *(format_duration(self._trial.ttl_ns * tenths // 10) for tenths in (4, 10))]

    def subsets(self) -> list[str]:
        """Sets of nodes, as words of their letters: single ones, then neighbours, then all."""
        every = "".join(self._trial.node_names)
        size = len(every)
        found = [(every * 2)[at : at + width] for width in range(1, size) for at in range(size)]
        return [*dict.fromkeys("".join(sorted(each)) for each in found), every]

    def _clients(self) -> dict[str, SteppedClient]:
        return self.cluster.clients_by_name
