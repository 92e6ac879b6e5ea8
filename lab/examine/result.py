"""What an examination came to, as values and as data for programs, and where it is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from lab.errors import ExitCode
from lab.examine.violations.judge import labels
from lab.report.page import PAGE
from lab.scenario.tracks import Timed
from lab.search.faults import every_fault
from lab.search.origin import Place
from lab.search.trial import Trial, as_in_a_file, from_a_file

NO_TIME: Final = "the budget ended before it was looked into"
"""Why a finding is not decided that there was no time for."""


class OnReal(msgspec.Struct, frozen=True):
    """What came of a defect's scenario on real Redis, in real time.

    It came out as it says in ``reproduced`` of ``judged`` runs; ``unknown`` came to no verdict. ``why_not``
    says why there were no more of them.
    """

    reproduced: int = 0
    judged: int = 0
    unknown: int = 0
    why_not: str = ""
    differ: str = ""
    """Of which version the simulated nodes were, and the real ones, if these are not the same."""


USED_AS: Final = "used as"
"""The answer of a profile that says how an ordinary lock is used."""


class Defect(msgspec.Struct, frozen=True):
    """One defect: its cause, what it leads to, and the smallest trial in which it does.

    ``cause`` is a name of ``lab.examine.ledger.naming``, ``seen`` what was seen of it in the trial.
    ``findings`` are the checker's names for what it leads to, the first of them is that of ``headline`` and
    ``evidence``. ``reproduced`` of ``variants`` trials with other latencies showed it as well;
    ``reference_lost`` of them did with the reference. ``part`` is what was tried when it was found, after
    ``schedules`` and ``seconds`` of processor time, of the lab and its drivers. ``scenario`` is the path
    of its file, if it can be written as one, and ``replays`` says how often that was reproduced; else
    ``trial_file`` is the path of the trial as JSON, and ``replays`` may say why. ``lab test --replay`` takes
    both. ``happened`` says
    what happens in the trial, up to the violation. ``smallest``: nothing can be taken away from the trial;
    else the budget ended while it was made smaller. ``real`` is None if it was not to be run on real Redis.
    ``places`` are the calls in the lock's code that led to the act that is the cause, the outermost first, as
    far as they are known. ``also_fits`` are other causes that the trial shows as well, less telling ones.
    ``consequence_of`` is the number of the defect, counted from 1, that goes back to the same act; 0: it is
    one of its own. ``rule`` is the rule that the cause breaks (``lab.examine.ledger.breaches``);
    ``by_intervention``: the violation goes away when that breach is repaired.
    """

    cause: str
    seen: str
    findings: tuple[str, ...]
    headline: str
    evidence: tuple[str, ...]
    trial: Trial
    reproduced: int
    variants: int
    reference_lost: int
    part: str
    schedules: int
    seconds: float
    scenario: str | None = None
    replays: str = ""
    trial_file: str | None = None
    happened: tuple[str, ...] = ()
    smallest: bool = True
    real: OnReal | None = None
    places: tuple[Place, ...] = ()
    also_fits: tuple[str, ...] = ()
    consequence_of: int = 0
    rule: str = ""
    by_intervention: bool = False

    @property
    def faults(self) -> tuple[Timed, ...]:
        """What the nemesis does in its trial."""
        return every_fault(self.trial)

    @property
    def broken_assumptions(self) -> tuple[str, ...]:
        """What of its trial leaves the assumptions of the lock's kind."""
        return tuple(sorted(labels(self.trial)))


class Limit(msgspec.Struct, frozen=True):
    """A finding that the reference has as well once an assumption is broken, and how often it was seen."""

    finding: str
    assumption: str
    times: int
    headline: str
    trial: Trial


class Undecided(msgspec.Struct, frozen=True):
    """What was seen and counts neither as a defect nor as a limit, why, and in how many schedules.

    ``trial`` is the shortest of them, ``trial_file`` the path of its file as JSON, which
    ``lab test --replay`` takes; None before it is written.
    """

    finding: str
    why: str
    times: int
    trial: Trial
    trial_file: str | None = None


class Part(msgspec.Struct):
    """One part of what is tried: how many schedules of how many, and whether that were all there are."""

    name: str
    about: str
    tried: int = 0
    of: int | None = None

    @property
    def exhausted(self) -> bool:
        """Whether all of a finite space was tried."""
        return self.of is not None and self.tried >= self.of


class Lines(msgspec.Struct, frozen=True):
    """Lines of a lock's code that were not executed, the ``first`` to the ``last``.

    ``what``: which branch it is, or what these lines follow.
    """

    file: str
    first: int
    last: int
    what: str


class LockExecuted(msgspec.Struct, frozen=True):
    """How many lines of a lock's code were executed, and which never; ``why_not``: why none are known."""

    lines: int = 0
    lines_executed: int = 0
    never: tuple[Lines, ...] = ()
    why_not: str = ""


class Directed(msgspec.Struct, frozen=True):
    """How much of the directed part was run, and how long all of it takes on this machine.

    ``of`` is None if the budget ended before its schedules were known. ``budget_s`` is what all of it takes
    of a budget, ``seconds`` in real time at the present load; 0 if nothing of it was run.
    """

    tried: int = 0
    of: int | None = None
    budget_s: float = 0.0
    seconds: float = 0.0

    @property
    def finished(self) -> bool:
        """Whether it was run to its end."""
        return self.of is not None and self.tried >= self.of


class Examined(msgspec.Struct, frozen=True):
    """The result of ``lab test``.

    ``seconds`` is the real time that it took, ``spent_s`` what of its budget of ``budget_s``. ``grants``:
    how often a client was granted the lock. ``failed``: why schedules could not be run, or findings not be
    looked into, for another reason than the budget. ``why_fewer`` says why fewer processes ran trials than
    was asked for; nothing if all did. ``servers`` names product and version of the nodes. ``strict``: what is
    not decided is a failure, too.
    """

    lock: str
    kind: str
    promise: str
    reference: str
    profile: dict[str, str]
    defects: tuple[Defect, ...]
    limits: tuple[Limit, ...]
    parts: tuple[Part, ...]
    not_tried: tuple[str, ...]
    covered: int
    seed: int
    schedules: int
    seconds: float
    interrupted: bool = False
    undecided: tuple[Undecided, ...] = ()
    executed: LockExecuted = LockExecuted()
    why_fewer: str = ""
    servers: str = ""
    directed: Directed = Directed()
    grants: int = 0
    failed: tuple[str, ...] = ()
    budget_s: float = 0.0
    spent_s: float = 0.0
    strict: bool = False

    @property
    def bugs(self) -> tuple[Defect, ...]:
        """The defects without those that are consequences of others."""
        return tuple(each for each in self.defects if not each.consequence_of)

    def consequences(self, number: int) -> tuple[Defect, ...]:
        """The consequences of a defect."""
        return tuple(each for each in self.defects if each.consequence_of == number)

    @property
    def exit_code(self) -> ExitCode:
        """1 with a defect, 0 if there is none and the directed part was run to its end, else 3.

        If it is to be strict, 1 also with a finding that is not certain to be a defect.
        """
        if self.defects or (self.strict and self.undecided):
            return ExitCode.UNEXPECTED
        return ExitCode.UNKNOWN if self.why_unknown else ExitCode.EXPECTED

    @property
    def why_unknown(self) -> str:
        """Why an examination without a defect says nothing of the lock, in words; nothing if it does."""
        if self.interrupted:
            return "it was interrupted"
        if not self.schedules:
            return "no schedule was tried"
        if not self.directed.finished:
            of = "" if self.directed.of is None else f" of {self.directed.of:,}"
            return f"only {self.directed.tried:,}{of} situations of its directed part were tried"
        if not self.grants:
            return "no client was granted the lock in any schedule"
        if self.failed:
            return self.failed[0]
        late = next((each for each in self.undecided if each.why == NO_TIME), None)
        return "" if late is None else f"{late.finding!r} was seen, and {NO_TIME}"

    def to_json(self) -> bytes:
        """All of it, for programs."""
        data: dict[str, Any] = msgspec.to_builtins(self, enc_hook=as_in_a_file)
        for part, each in zip(data["parts"], self.parts, strict=True):
            part["exhausted"] = each.exhausted
        for defect, found in zip(data["defects"], self.defects, strict=True):
            defect["broken_assumptions"] = list(found.broken_assumptions)
        data["exit_code"] = int(self.exit_code)
        data["why_unknown"] = self.why_unknown
        return msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"


def decode(text: bytes | str) -> Examined:
    """The result that ``Examined.to_json`` has written. Raises ``msgspec.DecodeError``."""
    return msgspec.json.decode(text, type=Examined, dec_hook=from_a_file)


RESULT: Final = "result.json"


@dataclass
class Kept:
    """The result with the paths of its files, and pictures as PNG by the numbers of defects."""

    examined: Examined
    directory: Path
    pictures: dict[int, bytes] = field(default_factory=dict)

    @property
    def page(self) -> Path:
        """The page's file."""
        return self.directory / PAGE


def directory_for(lock: str, seed: int) -> Path:
    """Where the files are if nothing else is asked for."""
    plain = "".join(char if char.isalnum() or char in "._-" else "-" for char in lock)
    return Path("reports") / f"test-{plain}-{seed}"
