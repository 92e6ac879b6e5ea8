"""Writes down what a real server answers to the contract: `python -m tests.sim.record redis@6.2`."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from tests.sim.contract import CASES, RECORDED, Player
from tests.sim.redis_arms import RealArm, ask, real_arm


def fresh(arm: RealArm) -> RealArm:
    """The server as if it had just started: no keys, no scripts, no connections, the right time."""
    arm.hang_up()
    arm.clock.correct()
    wire = arm.connect()
    for line in ("FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT"):
        assert ask(wire, *line.split()) == "+OK"
    arm.hang_up()
    return arm


def main() -> int:
    """Play every case on a real server, the default if none is named."""
    named = sys.argv[1] if len(sys.argv) > 1 else "redis-server"
    with tempfile.TemporaryDirectory() as directory, real_arm(Path(directory) / "real", server=named) as arm:
        server = arm.server
        reported = {case.name: Player(fresh(arm)).play(case) for case in CASES if case.is_for(server)}
    RECORDED.mkdir(exist_ok=True)
    path = RECORDED / f"{str(server).replace('@', '-')}.json"
    path.write_text(json.dumps(reported, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
