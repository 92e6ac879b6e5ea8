"""One contract, two arms: the simulated node answers as a real server does, reply for reply.

What real servers of several versions answered is stored, so that the simulated node is held to it everywhere;
and the server at hand, whichever it is, is asked as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import pytest

from lab.redis_model.model import MODELLED
from lab.servers import DEFAULT, Server
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


KNOWN = recorded()


@pytest.mark.parametrize(
    ("server", "case"),
    [(server, case) for server in KNOWN for case in CASES if case.is_for(server)],
    ids=str,
)
def test_the_simulated_node_answers_as_that_server_did(server: Server, case: Case) -> None:
    reported = differences(case, Player(SimArm(server=server)).play(case), KNOWN[server][case.name])
    assert not reported, "\n" + "".join(reported)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_simulated_node_answers_as_the_server_at_hand_does(case: Case, real: RealArm) -> None:
    if not case.is_for(real.server):
        pytest.skip(f"{real.server.words} says it in other words")
    simulated = Player(SimArm(server=real.server)).play(case)
    reported = differences(case, simulated, Player(fresh(real)).play(case))
    assert not reported, "\n" + "".join(reported)


@pytest.mark.parametrize("server", KNOWN, ids=str)
def test_no_case_is_left_out_of_the_record(server: Server) -> None:
    assert list(KNOWN[server]) == [case.name for case in CASES if case.is_for(server)]


def test_the_newest_and_the_oldest_of_each_product_and_the_default_are_recorded() -> None:
    wanted = [(product, version) for product, ends in MODELLED.items() for version in ends]
    here = {(each.product, ".".join(map(str, each.number[:2]))) for each in KNOWN}
    assert {("redis", DEFAULT.version[:3]), *wanted} <= here
