"""A cluster that is kept up after its run, to be looked at and reached by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from lab.errors import LabError, UnknownOutcome
from lab.run.events import OnEvent, RunEvent
from lab.substrates import ENDPOINTS, SUBSTRATES, is_simulated
from lab.substrates.base import STORE, Cluster
from lab.substrates.kept import marked


def refuse_keeping(substrate: str) -> None:
    """Refuse a substrate on which there is nothing to keep. Raises ``LabError``."""
    if is_simulated(substrate) or substrate == ENDPOINTS:
        others = [name for name in SUBSTRATES if not is_simulated(name)]
        raise LabError(
            f"nothing can be kept up on {substrate}",
            where="--on",
            expected=f"{' or '.join(others)}, where the lab starts servers that can be reached by hand",
        )


async def keep_up(cluster: Cluster, run_id: str, on_event: OnEvent) -> None:
    """Keep the servers up, and the links to them, until a signal or ``lab down``.

    The clients end first: what somebody does to the servers by hand is none of the run's, so nothing of it
    may get into the history, as it would when a lock extends its lease in the background.
    """
    for client in cluster.clients.values():
        if client.alive:
            with contextlib.suppress(UnknownOutcome):
                await client.kill()
    for line in _places(cluster):
        on_event(RunEvent("lab", line, "plain"))
    task = asyncio.current_task()
    assert task is not None
    with marked(run_id):
        try:
            if not cluster.failed.done():
                on_event(RunEvent("lab", await asyncio.shield(cluster.failed), "info"))
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            task.uncancel()


def _places(cluster: Cluster) -> Iterator[str]:
    yield "kept up until Ctrl-C, or `lab down` in another terminal; the clients have ended:"
    for name, server in {**cluster.nodes, **cluster.sentinels, STORE: cluster.store_node}.items():
        links = {client: cluster.link(client, name).address for client in cluster.clients}
        behind = "".join(f", {client}'s link {place.host}:{place.port}" for client, place in links.items())
        yield f"{name}: {server.address.host}:{server.address.port}{behind}"
