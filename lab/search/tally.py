"""What a campaign found: a file of results that survives whatever ends it, and the tally of them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from statistics import NormalDist
from typing import Any, Final

import msgspec

from checker import Outcome
from lab.batch.journal import LineFile
from lab.errors import ExitCode, LabError

FORMAT: Final = 1


class SeedResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one seed came to.

    ``outcomes`` says ok, violated, unknown or absent of each property that was decided, ``findings`` names
    the violations, each once; ``reasons`` say what was not as expected, or why nothing is known. ``digest``
    is the hash of the history. ``lost`` seeds ended the process that ran them, twice: they are tried again
    when the campaign is resumed.
    """

    seed: int
    exit_code: int = 0
    outcomes: dict[str, str] = {}
    findings: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    digest: str = ""
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval of a probability."""

    low: float
    high: float


def wilson(hits: int, trials: int, confidence: float = 0.95) -> Interval:
    """The score interval for a probability of which ``hits`` of ``trials`` independent trials were seen.

    Unlike the interval of the textbooks it holds what it promises for no hit at all, and for few trials.

    Source: Wilson, E. B. (1927), "Probable inference, the law of succession, and statistical inference",
    Journal of the American Statistical Association 22:209-212; recommended by Brown, Cai and DasGupta (2001),
    "Interval estimation for a binomial proportion", Statistical Science 16:101-133.

    Raises:
        ValueError: hits, trials or confidence are out of range.
    """
    if not 0 <= hits <= trials or not 0 < confidence < 1:
        raise ValueError(f"no such sample: {hits} of {trials} at {confidence}")
    if not trials:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = hits / trials
    scale = 1 + z * z / trials
    middle = (share + z * z / (2 * trials)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    low = 0.0 if hits == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if hits == trials else min(1.0, middle + half))


@dataclass(slots=True)
class Tally:
    """Counts of what was found. It does not depend on the order in which results come."""

    runs: int = 0
    judged: int = 0
    """How many of them came to a judgement at all."""
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    """Property → outcome → how many seeds."""
    violating: dict[str, list[int]] = field(default_factory=dict)
    """Property → the seeds that violate it."""
    found: dict[str, list[int]] = field(default_factory=dict)
    """Name of a violation → the seeds in which it was found."""
    unexpected: dict[int, SeedResult] = field(default_factory=dict)
    unknown: dict[int, SeedResult] = field(default_factory=dict)
    """Seeds about which nothing is known, the lost ones included."""
    _digests: dict[int, str] = field(default_factory=dict)

    def add(self, result: SeedResult) -> None:
        """Count one more seed."""
        self.runs += 1
        self.judged += bool(result.exit_code != ExitCode.UNKNOWN or result.outcomes or result.findings)
        for name, outcome in result.outcomes.items():
            self.outcomes.setdefault(name, Counter())[outcome] += 1
            if outcome == Outcome.VIOLATED:
                self.violating.setdefault(name, []).append(result.seed)
        for name in result.findings:
            self.found.setdefault(name, []).append(result.seed)
        if result.exit_code == ExitCode.UNEXPECTED:
            self.unexpected[result.seed] = result
        elif result.exit_code != ExitCode.EXPECTED:
            self.unknown[result.seed] = result
        self._digests[result.seed] = result.digest

    def decided(self, name: str) -> int:
        """In how many seeds it is known whether this property was violated."""
        seen = self.outcomes.get(name, Counter())
        return seen.total() - seen[Outcome.UNKNOWN]

    @property
    def lost(self) -> list[int]:
        """The seeds that ended the processes that ran them."""
        return sorted(seed for seed, result in self.unknown.items() if result.lost)

    @property
    def digest(self) -> str:
        """One hash of all histories: two campaigns that agree in it saw the same, to the byte."""
        told = "".join(f"{seed} {self._digests[seed]}\n" for seed in sorted(self._digests))
        return sha256(told.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The tally as JSON, in an order that depends on nothing but what was found."""
        return {
            "seeds": self.runs,
            "properties": {
                name: {
                    "outcomes": dict(sorted(self.outcomes[name].items())),
                    **self._share(len(self.violating.get(name, ())), self.decided(name)),
                    "first_seeds": sorted(self.violating.get(name, ()))[:5],
                }
                for name in sorted(self.outcomes)
            },
            "findings": {
                name: {
                    **self._share(len(self.found[name]), self.judged),
                    "first_seeds": sorted(self.found[name])[:5],
                }
                for name in sorted(self.found)
            },
            "unexpected": sorted(self.unexpected)[:100],
            "unexpected_count": len(self.unexpected),
            "unknown": {str(seed): list(self.unknown[seed].reasons) for seed in sorted(self.unknown)[:100]},
            "unknown_count": len(self.unknown),
            "lost": self.lost,
            "digest": self.digest,
        }

    @staticmethod
    def _share(hits: int, trials: int) -> dict[str, Any]:
        interval = wilson(hits, trials)
        return {
            "violated": hits,
            "of": trials,
            "share": hits / trials if trials else None,
            "wilson_95": [interval.low, interval.high],
        }


class _Header(msgspec.Struct, frozen=True):
    campaign: int
    identity: msgspec.Raw


class ResultFile(LineFile):
    """A file with a header and one result in each line, which a single campaign writes.

    Of several results for one seed the last one counts.
    """

    def __init__(self, path: Path, identity: bytes, *, resume: bool) -> None:
        """Open the file, or make it.

        Raises:
            LabError: it cannot be written; it has results and ``resume`` is not given; it belongs to another
                task, or to a campaign that is running; one of its lines is damaged.
        """
        self.results: dict[int, SeedResult] = {}
        super().__init__(path)
        try:
            if len(self.kept) > 1:
                self._read(self.kept, identity, resume=resume)
            else:  # nothing was ever found here
                self.truncate()
                self.write(_Header(FORMAT, msgspec.Raw(identity)))
        except BaseException:
            self._file.close()
            raise

    def _read(self, lines: list[bytes], identity: bytes, *, resume: bool) -> None:
        if not resume:
            raise LabError(
                f"there are results of {len(lines) - 1} seeds already",
                where=str(self.path),
                hint="--resume goes on with the missing seeds; --out chooses another directory",
            )
        read = 0
        try:
            header = msgspec.json.decode(lines[0], type=_Header)
            for read, line in enumerate(lines[1:], 1):  # noqa: B007 - the error says which one it was
                result = msgspec.json.decode(line, type=SeedResult)
                if not result.lost:
                    self.results[result.seed] = result
        except msgspec.DecodeError as error:
            raise LabError(
                f"this is no line of results: {error}",
                where=f"{self.path}:{read + 1}",
                hint="the file was changed: remove the line, or the file to begin anew",
            ) from error
        if bytes(header.identity) != identity or header.campaign != FORMAT:
            raise LabError(
                "these are the results of another task",
                where=f"{self.path}:1",
                expected="the same scenario, overrides, lock and faults, and the same code of the lab",
                hint="choose another directory with --out",
            )

    def append(self, result: SeedResult) -> None:
        """Write one result."""
        self.write(result)
        self.results[result.seed] = result
