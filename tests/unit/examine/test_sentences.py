"""What is said of a lock is what was seen of it: a lock for each sentence, and one it is not true of."""

from __future__ import annotations

import pytest

from lab.errors import ExitCode
from lab.examine.answer.narrative import LINES_MAX, narrate
from lab.examine.answer.words import headline
from lab.examine.ledger.finders import all_violations
from lab.examine.ledger.naming import causes_of
from lab.examine.programs import PROGRAMS, Setting
from lab.examine.violations.judge import RELEASE
from lab.locks.base import Lease, LeaseLost, NotAcquired
from lab.search.runner import run_trial, trials
from lab.search.trial import OptionValue, Round, Trial
from tests.known_bad.examined import examined
from tests.locks_to_test.plain import Plain

pytestmark = pytest.mark.usefixtures("_patched")

PLACE = "tests.locks_to_test.comparing:"
OPTIONS: dict[str, OptionValue] = {"node_timeout": "250ms", "retry_count": 1}
S_NS = 10**9


class NeverGrants(Plain):
    async def acquire(self, key: str, ttl_ns: int) -> Lease:
        await self._call("GET", key)
        raise NotAcquired(f"{key}: taken", [])


class RefusesRelease(Plain):
    async def release(self, lease: Lease) -> None:
        raise LeaseLost("not-held")


class ForgetsRelease(Plain):
    async def release(self, lease: Lease) -> None:
        await self._call("GET", lease.key)


def program(lock: str, name: str) -> Trial:
    return Setting(lock, OPTIONS, 1).trial(next(each for each in PROGRAMS if each.name == name))


def seen(trial: Trial, finding: str, kind: str) -> str:
    """What was seen of a cause of this kind; nothing if there is none."""
    with trials():
        causes = causes_of(trial, finding)
    return next((each.seen for each in causes if each.kind == kind), "")


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("Deletes", "(DEL): it does not compare whose the key is"),
        ("DeletesInScript", "(a script of DEL): it does not compare whose the key is"),
        (
            "ComparesNothingOfIt",
            "(a script of GET and DEL): it looks at the value, and goes on though it is another lease's",
        ),
        ("LooksApart", "(DEL): it compares nothing itself, and goes by a GET of 0.6 ms before"),
    ],
)
def test_how_a_command_looked_at_the_key_that_it_deleted(name: str, how: str) -> None:
    said = seen(program(PLACE + name, "late"), "overlap", "deletes-others-key")
    assert said.startswith("Alice's release of ")
    assert said.endswith(how)


@pytest.mark.parametrize(("name", "said"), [("WithoutExpiry", True), ("ExpiryFollows", False)])
def test_only_a_key_without_an_expiry_is_said_to_have_none(name: str, said: bool) -> None:
    words = seen(program(PLACE + name, "kept"), "leak", "no-expiry")
    no_end = "Alice's acquire of 0 ms gave its key on A no end for a lease of 5.00 s (SET NX)"
    assert words == (no_end if said else "")


@pytest.mark.parametrize(
    ("lock", "where"),
    [
        ("tests.locks_to_test.plain:Plain", "(its key is on A)"),
        (f"{PLACE}BytesForToken", "(its key is on A)"),
        (f"{PLACE}ShowsOtherToken", "(the key is on A, without its token)"),
    ],
)
def test_where_the_key_of_a_grant_is(lock: str, where: str) -> None:
    trial = Trial(lock, {"alice": (Round(0, S_NS, ends="keep"),)}, nodes=1)
    with trials():
        lines = narrate(trial, "overlap")
    assert f"Alice acquires: granted {where}" in lines[0]


def test_what_happened_is_told_in_a_few_lines_with_its_end() -> None:
    rounds = tuple(Round(S_NS // 10 * at, S_NS // 10, extends=at % 2) for at in range(12))
    trial = Trial("redlock", {"alice": rounds, "bob": (Round(S_NS // 20, S_NS // 50),)})
    with trials():
        lines = narrate(trial, "overlap")
        last = run_trial(trial).events[-1]
    assert len(lines) == LINES_MAX <= 15
    assert sum(line.startswith("… ") and line.endswith(" more lines …") for line in lines) == 1
    assert lines[-1].endswith("Alice releases")
    assert last["f"] == "release"


@pytest.mark.parametrize(
    ("lock", "says"),
    [
        ("RefusesRelease", "alice's release was refused, and left the key of its lease"),
        ("ForgetsRelease", "alice's release returned, and left the key of its lease"),
    ],
)
def test_a_release_that_never_works_is_a_violation(lock: str, says: str) -> None:
    with trials():
        found = all_violations(run_trial(program(f"{__name__}:{lock}", "contend")))
    assert found[RELEASE].headline == says


@pytest.mark.full
@pytest.mark.parametrize(
    ("lock", "cause", "finding", "words"),
    [
        ("NeverGrants", "refuses-free-lock", "unavailable", "; no client was ever granted the lock"),
        ("RefusesRelease", "leaves-keys", RELEASE, ""),
        ("ForgetsRelease", "leaves-keys", RELEASE, ""),
    ],
)
def test_what_never_works_is_a_defect(lock: str, cause: str, finding: str, words: str) -> None:
    found = examined(f"{__name__}:{lock}", 200)
    assert any(each.cause == cause and finding in each.findings for each in found.defects)
    assert found.exit_code == ExitCode.UNEXPECTED
    assert headline(found).endswith(f", compared with single{words}")


@pytest.mark.parametrize("lock", ["single", "tests.locks_to_test.plain:Plain", "redlock"])
@pytest.mark.parametrize("name", ["contend", "late", "kept", "released twice", "in turns"])
def test_and_what_does_is_none(lock: str, name: str) -> None:
    with trials():
        found = all_violations(run_trial(program(lock, name)))
    assert not {*found} & {RELEASE, "unavailable", "leak"}
