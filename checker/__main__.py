"""`python -m checker FILE`: one verdict per property, why, and the events that prove it.

Exit codes: 0 everything ok (or no fence offered and none needed), 1 something violated, 2 bad input,
3 something unknown and nothing violated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from checker.errors import HistoryError
from checker.verdict import Outcome, Verdict

EXIT: Final = {Outcome.OK: 0, Outcome.ABSENT: 0, Outcome.VIOLATED: 1, Outcome.UNKNOWN: 3}
EXIT_BAD_INPUT: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one history and print the verdict; returns the exit code."""
    options = _parser().parse_args(arguments)
    from msgspec import structs

    from checker.check import check
    from checker.custom import load_model
    from checker.explanations import explanations
    from checker.formats import load

    try:
        history = load(options.file, options.format)
        if options.depth is not None:
            history = history.with_params(structs.replace(history.params, depth=options.depth))
        own = options.model is not None and ":" in options.model
        verdict = check(history, model=load_model(options.model) if own else options.model)
        reasons = [] if own or not options.explain else list(explanations(history, verdict, options.model))
    except HistoryError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_BAD_INPUT
    if options.json:
        import json

        told = verdict.to_dict()
        if options.explain:
            told["explanations"] = [reason.to_dict() for reason in reasons]
        sys.stdout.write(json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    else:
        blocks = [lines(options.file, verdict), *(reason.lines() for reason in reasons)]
        sys.stdout.write("\n\n".join("\n".join(block) for block in blocks) + "\n")
    return EXIT[verdict.outcome]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m checker", description="Decide whether a distributed lock kept its promise."
    )
    read = "a recorded history (.jsonl, .parquet, .edn, .log; text also as .gz)"
    parser.add_argument("file", metavar="FILE", help=read)
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    why = "argue for each finding from the fewest operations that show it"
    parser.add_argument("--explain", action="store_true", help=why)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="judge by this model instead of the header's; package.module:Class for one of your own",
    )
    parser.add_argument("--depth", metavar="K", type=int, help="how often a reentrant lock may be taken")
    parser.add_argument("--format", metavar="FORMAT", help="read the file as this format")
    return parser


def lines(name: str, verdict: Verdict) -> Iterator[str]:
    """The verdict for people."""
    yield f"{name}: {verdict.outcome}"
    for reason in verdict.unknown_reasons:
        yield f"  unknown because: {reason}"
    for remark in verdict.remarks:
        yield f"  note: {remark}"
    for title, property in verdict.properties.items():
        said = property.violations[0].headline if property.violations else ""
        yield f"  {title:<17} {property.outcome:<9} {said or property.why}"
        for finding in property.findings:
            events = ", ".join(map(str, finding.witnesses))
            count = finding.details.get("count")
            more = f" (one of {count})" if count and count > 1 else ""
            said = finding.headline or finding.why
            yield f"      {finding.severity} {finding.name}{more}, events {events}: {said}"
            for line in finding.evidence:
                yield f"          {line}"
            if finding.broken_assumption:
                yield f"          {finding.broken_assumption}"


if __name__ == "__main__":
    sys.exit(main())
