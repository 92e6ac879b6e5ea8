"""The counts of a campaign."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from checker import Outcome
from lab.batch.exit_code import worst
from lab.batch.rate import wilson
from lab.batch.row import Row
from lab.errors import ExitCode


@dataclass(slots=True)
class Tally:
    """Counts of results, independent of the order in which they come."""

    runs: int = 0
    judged: int = 0
    """How many of them were judged at all."""
    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    """Property → outcome → how many seeds."""
    violating: dict[str, list[int]] = field(default_factory=dict)
    """Property → the seeds that violate it."""
    found: dict[str, list[int]] = field(default_factory=dict)
    """Name of a violation → the seeds in which it was found."""
    unexpected: dict[int, Row] = field(default_factory=dict)
    unknown: dict[int, Row] = field(default_factory=dict)
    """Seeds without a known result, the lost ones included."""
    _digests: dict[int, str] = field(default_factory=dict)

    def add(self, result: Row) -> None:
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

    @property
    def exit_code(self) -> ExitCode:
        """0 only if every seed was as expected; a result that was not outweighs an unknown one."""
        unexpected = [ExitCode.UNEXPECTED] if self.unexpected else []
        unknown = [ExitCode.UNKNOWN] if self.unknown else []
        expected = [ExitCode.EXPECTED] if self.runs else []
        return worst([*unexpected, *unknown, *expected])

    def decided(self, name: str) -> int:
        """For how many seeds it is known whether this property was violated."""
        seen = self.outcomes.get(name, Counter())
        return seen.total() - seen[Outcome.UNKNOWN]

    @property
    def lost(self) -> list[int]:
        """The seeds whose processes died."""
        return sorted(seed for seed, result in self.unknown.items() if result.lost)

    @property
    def digest(self) -> str:
        """One hash of all histories: campaigns with the same digest recorded the same histories."""
        lines = "".join(f"{seed} {self._digests[seed]}\n" for seed in sorted(self._digests))
        return sha256(lines.encode()).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The tally as JSON, in an order that depends only on the results."""
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
