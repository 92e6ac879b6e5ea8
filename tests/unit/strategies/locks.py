"""A lock of one's own, as a user writes it, with a defect: it releases without looking whose key it is."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import ClassVar

from lab.locks.base import Lease
from lab.locks.broken.releases import BareDel
from lab.locks.lease_options import LeaseOptions


@dataclass(frozen=True, slots=True)
class MyOptions(LeaseOptions):
    """One option of its own."""

    patient: bool = False


class Mine(BareDel):
    """It also looks at the clock and at chance, as code does that knows of no lab."""

    name: ClassVar[str] = "mine"
    drawn: ClassVar[list[tuple[float, float]]] = []

    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        """Wait for a moment first."""
        Mine.drawn.append((random.random(), time.monotonic()))
        await asyncio.sleep(0.001)
        return await super().acquire(key, ttl_ns)
