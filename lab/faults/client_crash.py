"""``client_crash``: a client is killed and does not come back; what it was doing has no end.

The receipt is that none of its processes is left.
"""

from __future__ import annotations

from typing import ClassVar

from lab.faults.base import Ending, Receipt, Target, Tolerance
from lab.scenario.step_machine import ClientCrash
from lab.substrates.base import Capability, Cluster


class ClientCrashFault:
    """A client that is killed."""

    f: ClassVar[str] = "client_crash"
    ended_by: ClassVar[Ending] = "nothing"

    def needs(self, step: ClientCrash) -> Capability:
        """Clients that can be killed."""
        return Capability.KILL_CLIENTS

    def target(self, step: ClientCrash, cluster: Cluster) -> Target:
        """The client."""
        return Target(step.client, (step.client,))

    def breaks(self, step: ClientCrash, tolerance: Tolerance) -> str | None:
        """Break nothing: clients do crash, and a lease is there for that."""
        return None

    async def inject(self, step: ClientCrash, cluster: Cluster) -> Receipt:
        """Kill its process group and look for survivors."""
        client = cluster.clients[step.client]
        before = client.states()
        await client.kill()
        after = client.states()
        evidence = {
            "processes_before": len(before),
            "processes_after": len(after),
            "process": "still there" if client.alive else "gone",
        }
        return Receipt(bool(before) and not after and not client.alive, evidence)
