"""One contract, two arms: the simulated node answers as a real server does, reply for reply.

What a Redis 7.0.15 answered is stored, so that the simulated node is held to it everywhere; and the server at
hand, whichever it is, is asked as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import pytest

from tests.sim.contract import CASES, Case, Player, recorded
from tests.sim.record import fresh
from tests.sim.redis_arms import RealArm, Shown, SimArm, real_arm


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealArm]:
    with real_arm(tmp_path_factory.mktemp("contract") / "real") as arm:
        yield arm


def differences(case: Case, simulated: list[Shown], reference: list[Shown]) -> list[str]:
    """What differs, line by line."""
    spoken = [line for line in case.lines if not line.startswith("@")]
    rows = zip_longest(spoken, simulated, reference)
    return [
        f"{line}\n  simulated {ours!r}\n  real      {theirs!r}\n"
        for line, ours, theirs in rows
        if ours != theirs
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_simulated_node_answers_as_the_reference_did(case: Case) -> None:
    reported = differences(case, Player(SimArm()).play(case), recorded()[case.name])
    assert not reported, "\n" + "".join(reported)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_simulated_node_answers_as_the_server_at_hand_does(case: Case, real: RealArm) -> None:
    if real.version < case.since:
        pytest.skip(f"redis-server {'.'.join(map(str, real.version))} says it in other words")
    reported = differences(case, Player(SimArm()).play(case), Player(fresh(real)).play(case))
    assert not reported, "\n" + "".join(reported)


def test_no_case_is_left_out_of_the_record() -> None:
    assert list(recorded()) == [case.name for case in CASES]
