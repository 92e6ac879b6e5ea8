"""``client_crash``: a client is killed and does not come back. The receipt: none of its processes is left."""

from __future__ import annotations

from collections.abc import Iterator

from lab.faults.base import Fault, Receipt, Target
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.impossible import Found, StepState
from lab.scenario.types import ClientName
from lab.substrates.base import Capability, Cluster


class ClientCrash(Fault):
    """Kill a client (SIGKILL); it does not come back, and its operation never completes."""

    KEY = "client_crash"
    EXAMPLE = "{client: alice}"
    NEEDS = Capability.KILL_CLIENTS
    RULES_OUT = ("resume",)
    DRAWN = Drawing("client")
    SIGN = Sign("down")

    client: ClientName
    """The client that is killed."""

    @property
    def clause(self) -> str:
        """Whose process ends."""
        return f"{self.client.capitalize()}'s process dies"

    @property
    def kills(self) -> str | None:
        """The client."""
        return self.client

    def impossible(self, state: StepState) -> Iterator[Found]:
        """Refuse a client that was killed."""
        yield from state.unless_killed(self.client, ("client",))
        state.dead.add(self.client)
        state.busy.discard(self.client)

    def target(self, cluster: Cluster) -> Target:
        """The client."""
        return Target(self.client, (self.client,))

    async def inject(self, cluster: Cluster) -> Receipt:
        """Kill its process group and look for remaining processes."""
        client = cluster.clients[self.client]
        before = client.states()
        await client.kill()
        after = client.states()
        evidence = {
            "processes_before": len(before),
            "processes_after": len(after),
            "process": "still there" if client.alive else "gone",
        }
        return Receipt(bool(before) and not after and not client.alive, evidence)
