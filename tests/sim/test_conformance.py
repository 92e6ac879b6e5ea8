"""One contract, two arms: the simulated node answers as a real server does, reply for reply.

What real servers of several versions answered is stored, so that the simulated node is held to it everywhere;
and the server at hand, whichever it is, is asked as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

import pytest

from lab.redis_model.model import COMPARED, modelled
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


def test_what_is_said_to_be_compared_is_recorded_and_so_is_the_default() -> None:
    said = {Server(product, version) for product, versions in COMPARED.items() for version in versions}
    assert said == set(KNOWN)
    assert DEFAULT in said


def test_a_version_without_its_third_number_is_the_one_that_was_compared() -> None:
    assert modelled("redis@6.2", "--server") == Server("redis", "6.2.14")
    assert modelled("redis@6.2.7", "--server").version == "6.2.7"
    assert modelled("redis@8.4", "--server").version == "8.4"
