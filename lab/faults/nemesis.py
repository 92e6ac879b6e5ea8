"""Injects faults and writes down that it did: invoke, then ok with a receipt, or fail without one.

Faults that last are kept open until they are ended. An end that covers only part of a fault ends it and opens
it again for the rest, so that the history says exactly what was broken when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, Final

from lab.durations import format_duration
from lab.errors import UnknownOutcome
from lab.faults import FAULTS
from lab.faults.base import Ending, Open, Receipt, Target, Tolerance, node_names
from lab.faults.clock import correct_clock
from lab.faults.down import AT_ONCE, Delay, restart
from lab.faults.links import far_ends, heal_links, near_end
from lab.faults.pause import resume
from lab.run.recorder import Recorder
from lab.scenario.step_base import StepModel
from lab.scenario.step_link import Heal
from lab.scenario.step_machine import ClientCrash, Correct, Restart, Resume
from lab.substrates.base import Cluster

Action = Callable[[], Awaitable[Receipt]]
LASTING: Final = ("heal", "resume", "correct", "restart")


class Nemesis:
    """The one who breaks things, and mends them."""

    def __init__(self, cluster: Cluster, recorder: Recorder, tolerance: Tolerance) -> None:
        self._cluster = cluster
        self._recorder = recorder
        self._tolerance = tolerance
        self._count = 0
        self._open: list[Open] = []
        self._returning: dict[str, asyncio.Task[Receipt]] = {}
        self._hurry = asyncio.Event()

    async def inject(self, step: StepModel) -> tuple[str, Receipt]:
        """Inject the fault of a step; return it in words, with its receipt."""
        fault = FAULTS[type(step)]
        target = fault.target(step, self._cluster)
        if fault.ended_by != "restart":
            return target.words, await self._inject(step)
        # Nodes come back one by one, so each of them has a fault of its own.
        alone = [step.model_copy(update={"nodes": (name,)}) for name in target.ends]
        receipts = await asyncio.gather(*(self._inject(one) for one in alone))
        evidence = {name: value for receipt in receipts for name, value in receipt.evidence.items()}
        return target.words, Receipt(all(receipt.confirmed for receipt in receipts), evidence)

    async def _inject(self, step: StepModel) -> Receipt:
        fault = FAULTS[type(step)]
        target, breaks = fault.target(step, self._cluster), fault.breaks(step, self._tolerance)
        fault_id, receipt = await self._record(
            fault.f, target, breaks, partial(fault.inject, step, self._cluster)
        )
        if isinstance(step, ClientCrash):
            # What was killed does not stand still any more, and can't go on.
            self._open = [f for f in self._open if f.ended_by != "resume" or f.target.ends != target.ends]
        if fault.ended_by in LASTING:
            self._open.append(Open(fault_id, fault.f, fault.ended_by, target, breaks, receipt.evidence))
        elif fault.ended_by == "itself" and receipt.confirmed:
            await self._record("heal", target, None, partial(_again, receipt), heals=fault_id)
        return receipt

    async def heal(self, step: Heal) -> tuple[str, bool]:
        """End what is done to links; return what was healed in words and whether every receipt came.

        All links are healed at once, whoever's they are: what is held is let go together, and no client's
        packets arrive while another's wait for receipts.
        """
        ends = None if step.everything else far_ends(step, self._cluster)
        healed: list[tuple[Open, Target]] = []
        for fault in self._of("heal"):
            near = fault.target.near or ""
            now = tuple(end for end in fault.target.ends if ends is None or end in ends)
            if now and (step.everything or near == near_end(step)):
                healed.append((fault, Target(f"{near} ⇄ {','.join(now)}", now, near)))
        receipts = await asyncio.gather(
            *(
                self._end(
                    fault, "heal", target, partial(heal_links, target.near or "", target.ends, self._cluster)
                )
                for fault, target in healed
            )
        )
        words = dict.fromkeys(target.words for _, target in healed)
        return "; ".join(words) or "nothing was broken", all(receipt.confirmed for receipt in receipts)

    async def resume(self, step: Resume) -> tuple[str, Receipt]:
        """Let what is paused go on."""
        target = Target(step.name, (step.name,))
        paused = [fault for fault in self._of("resume") if fault.target.ends == target.ends]
        action = partial(resume, step.name, self._cluster)
        if paused:
            return step.name, await self._end(paused[-1], "resume", target, action)
        return step.name, (await self._record("resume", target, None, action))[1]

    async def correct(self, step: Correct) -> tuple[str, bool]:
        """Set clocks right; return whose in words, and whether every receipt came."""
        wrong = [f for f in self._of("correct") if step.everything or f.target.ends == (step.name,)]
        receipts: dict[str, Receipt] = {}
        for fault in wrong:
            (name,) = fault.target.ends
            target = Target(f"clock of {name}", (name,))
            # One correction ends all that is wrong with one clock.
            action = (
                partial(_again, receipts[name])
                if name in receipts
                else partial(correct_clock, name, self._cluster)
            )
            receipts[name] = await self._end(fault, "correct", target, action)
        words = ", ".join(f"the clock of {name}" for name in receipts) or "no clock, since none was wrong"
        return words, all(receipt.confirmed for receipt in receipts.values())

    async def restart(self, step: Restart) -> tuple[str, bool]:
        """Start nodes again, or see to it that they start later; words, and whether the receipts came.

        A delayed start goes on beside the story; ``until_up`` waits for it.
        """
        names = node_names(step.nodes, self._cluster)
        down = [fault for fault in self._of("restart") if fault.target.ends[0] in names]
        down.sort(key=lambda fault: names.index(fault.target.ends[0]))
        words = f"node {', '.join(fault.target.ends[0] for fault in down)}" if down else "no node"
        if step.after_ns:
            for fault in down:
                self._returning[fault.target.ends[0]] = asyncio.create_task(
                    self._bring_back(fault, Delay(step.after_ns, step.clock, step.by))
                )
            await asyncio.sleep(0)  # so that each has written down that it begins
            whose = "its own" if step.by is None else f"{step.by}'s"
            clock = "clock" if step.clock == "wall" else f"{step.clock} clock"
            return f"{words} in {format_duration(step.after_ns)} by {whose} {clock}", bool(down)
        receipts = await asyncio.gather(*(self._bring_back(fault, AT_ONCE) for fault in down))
        return words, bool(down) and all(receipt.confirmed for receipt in receipts)

    async def until_up(self, names: Iterable[str], timeout_s: float) -> bool:
        """Wait until each of these nodes is up; False: it did not come back in time."""
        returning = [self._returning[name] for name in names if name in self._returning]
        if returning:
            await asyncio.wait(returning, timeout=timeout_s)
        return all(task.done() and task.result().confirmed for task in returning)

    async def heal_everything(self) -> None:
        """End whatever still lasts, so that what follows sees a whole cluster; used when a story is over.

        Nodes that are down come back as well, and those with a delay at once; killed clients stay dead.
        """
        self._hurry.set()
        await asyncio.gather(*self._returning.values())
        await asyncio.gather(*(self._bring_back(fault, AT_ONCE) for fault in self._of("restart")))
        for fault in self._of("resume"):
            (name,) = fault.target.ends
            await self.resume(Resume(node=name) if name in self._cluster.nodes else Resume(client=name))
        await self.correct(Correct())
        await self.heal(Heal())

    async def abandon(self) -> None:
        """Stop what goes on beside the story; used when a run ends early."""
        for task in self._returning.values():
            task.cancel()
        await asyncio.gather(*self._returning.values(), return_exceptions=True)

    async def _bring_back(self, fault: Open, delay: Delay) -> Receipt:
        (name,) = fault.target.ends
        self._open.remove(fault)  # from now on it is somebody's task to end it
        action = partial(restart, fault.target.ends, delay, fault.evidence, self._hurry, self._cluster)
        return await self._end(fault, "restart", Target(f"node {name}", (name,)), action)

    def _of(self, ended_by: Ending) -> list[Open]:
        return [fault for fault in self._open if fault.ended_by == ended_by]

    async def _end(self, fault: Open, f: str, target: Target, action: Action) -> Receipt:
        """End a fault for the target's ends; it lasts on, under another id, for those that are left."""
        _, receipt = await self._record(f, target, None, action, heals=fault.fault_id)
        if fault in self._open:
            self._open.remove(fault)
        rest = tuple(end for end in fault.target.ends if end not in target.ends)
        if rest:
            words = fault.target.words.replace(",".join(fault.target.ends), ",".join(rest))
            left = Target(words, rest, fault.target.near)
            fault_id, _ = await self._record(fault.f, left, fault.breaks, partial(_told, fault.fault_id))
            self._open.append(Open(fault_id, fault.f, fault.ended_by, left, fault.breaks, fault.evidence))
        return receipt

    async def _record(
        self, f: str, target: Target, breaks: str | None, action: Action, heals: str | None = None
    ) -> tuple[str, Receipt]:
        self._count += 1
        fault_id = f"{f}-{self._count}"
        about: dict[str, Any] = {
            "fault_id": fault_id,
            "target": target.words,
            "targets": list(target.names),
            "breaks": breaks,
            "heals": heals,
        }
        self._recorder.write("nemesis", "invoke", f, **about)
        try:
            receipt = await action()
        except UnknownOutcome as error:
            self._recorder.write("nemesis", "fail", f, **about, error=error.seen)
            raise
        kind = "ok" if receipt.confirmed else "fail"
        self._recorder.write("nemesis", kind, f, **about, receipt=dict(receipt.evidence))
        return fault_id, receipt


async def _told(fault_id: str) -> Receipt:
    return Receipt(True, {"continues": fault_id})


async def _again(receipt: Receipt) -> Receipt:
    return receipt
