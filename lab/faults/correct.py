"""``correct``: a wall clock is set right. The receipt is that it shows the time of this machine."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from lab.faults.base import Receipt, Target, machine, ms
from lab.faults.clock import reading_after
from lab.faults.machine import MachineStep
from lab.faults.nemesis import End, Nemesis, returned
from lab.scenario.step_base import AllOrOne
from lab.substrates.base import ClockReading, Cluster

SLACK_NS: Final = 5_000_000
"""How much a correct clock may differ from this machine's, beyond the uncertainty of the reading."""
COARSE_NS: Final = 160_000_000
"""A step that even readings of a machine that is down or paused are certain enough to show."""


class Correct(AllOrOne, MachineStep, End):
    """Set the wall clock right: drift and strobing end, jumps are undone. `all` means every clock."""

    KEY = "correct"
    EXAMPLE = "{node: C}, or all"
    WHOSE = "whose clock"
    SAYS = "sets right {}"
    TURN = 3

    def check_machine(self) -> None:
        """Without a machine, all clocks are meant."""
        if not self.everything:
            super().check_machine()

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        """Set the clock right, or every clock that is wrong."""
        wrong = [f for f in nemesis.lasting(self.KEY) if self.everything or f.target.ends == (self.name,)]
        receipts: dict[str, Receipt] = {}
        for fault in wrong:
            (name,) = fault.target.ends
            target = Target(f"clock of {name}", (name,))
            # One correction ends all faults of one clock.
            action = (
                partial(returned, receipts[name])
                if name in receipts
                else partial(correct_clock, name, nemesis.cluster)
            )
            receipts[name] = await nemesis.close(fault, self.KEY, target, action)
        words = ", ".join(f"the clock of {name}" for name in receipts) or "no clock, since none was wrong"
        return words, all(receipt.confirmed for receipt in receipts.values())

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        """Set every clock right."""
        await cls().end(nemesis)


async def correct_clock(name: str, cluster: Cluster) -> Receipt:
    """Set a clock right; confirmed when it shows the time of this machine."""
    hit = machine(name, cluster)
    before = await hit.read_clock()
    await hit.correct_clock()
    after = await reading_after(hit, max(abs(before.offset_ns), COARSE_NS), right)
    evidence: dict[str, Any] = {
        "offset_before_ms": ms(before.offset_ns),
        "offset_after_ms": ms(after.offset_ns),
    }
    return Receipt(right(after), evidence)


def right(clock: ClockReading) -> bool:
    """Whether it shows the time of this machine."""
    return abs(clock.offset_ns) <= clock.uncertainty_ns + SLACK_NS
