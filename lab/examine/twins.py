"""A trial in which two of a lock's nodes have one address."""

from __future__ import annotations

from lab.addresses import Address
from lab.errors import UnknownOutcome
from lab.examine.programs import ALICE, MS_NS, Setting
from lab.examine.seen import Seen
from lab.search.runner import TrialRun
from lab.search.trial import Round, Trial


class _TwinRun(TrialRun):
    """A trial whose clients reach the second node under its own name at the first one's host and port."""

    def __init__(self, trial: Trial) -> None:
        super().__init__(trial, "direct", watch=True)
        first, second = trial.node_names[:2]
        for client in trial.clients:
            twin, link = self._cluster.link(client, first).address, self._cluster.link(client, second)
            link.address = Address(second, twin.host, twin.port)


def requests_to_twins(setting: Setting) -> int | None:
    """How often an acquire sends its first request, in the same words, to the node that is given for two.

    None if the acquire did not end, or could not be called.

    Raises:
        SimulationError: the lock reached out of the simulation.
    """
    trial = setting.with_clients({ALICE: (Round(0, MS_NS),)}, demand=False)
    try:
        seen = Seen(_TwinRun(trial).run())
    except UnknownOutcome:
        return None
    acquires = seen.of(ALICE, "acquire")
    if not acquires or acquires[0].how == "open":
        return None
    there = [each.sent.words for each in seen.during(acquires[0]) if each.node == trial.node_names[0]]
    return len([words for words in there if words == there[0]])
