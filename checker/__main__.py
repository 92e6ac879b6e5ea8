"""`python -m checker FILE`: one verdict per property, why, and the events that prove it.

Exit codes: 0 everything ok (or no fence offered and none needed), 1 something violated, 2 bad input (also a
file that cannot be read, or is too large), 3 something unknown and nothing violated.

`python -m checker FILE --save OTHER` converts instead of judging: OTHER has the format of its suffix, and its
completeness is that of FILE.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from checker.errors import HistoryError
from checker.verdict import Outcome, Verdict

if TYPE_CHECKING:
    from checker.history.history import History

EXIT: Final = {Outcome.OK: 0, Outcome.ABSENT: 0, Outcome.VIOLATED: 1, Outcome.UNKNOWN: 3}
EXIT_BAD_INPUT: Final = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one history and print the verdict; returns the exit code."""
    options = _parser().parse_args(arguments)
    if options.follow:
        from checker.live.command import follow

        return follow(options.file, as_json=options.json)
    from checker.check import check
    from checker.explanations import explanations
    from checker.formats import save
    from checker.linearizability.custom import load_model

    try:
        history = _history(options)
        if options.save is not None:
            save(history, options.save)
            return 0
        own = options.model is not None and ":" in options.model
        verdict = check(history, model=load_model(options.model) if own else options.model)
        reasons = [] if own or not options.explain else list(explanations(history, verdict, options.model))
    except HistoryError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_BAD_INPUT
    except MemoryError:
        sys.stderr.write(
            f"error: {options.file}: does not fit into memory\nhint: allow less with --max-size\n"
        )
        return EXIT_BAD_INPUT
    if options.json:
        import json

        data = verdict.to_dict()
        if options.explain:
            data["explanations"] = [reason.to_dict() for reason in reasons]
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    else:
        blocks = [lines(options.file, verdict), *(reason.lines() for reason in reasons)]
        sys.stdout.write("\n\n".join("\n".join(block) for block in blocks) + "\n")
    return EXIT[verdict.outcome]


def _history(options: argparse.Namespace) -> History:
    """The history that is asked for, under the assumptions of the command line."""
    from msgspec import structs

    from checker.formats import load
    from checker.formats.text import size_of

    max_size = None if options.max_size is None else size_of(options.max_size)
    history = load(options.file, options.format, max_size=max_size)
    given = {}
    if options.depth is not None:
        given["depth"] = options.depth
    if options.initial is not None:
        given["initial"] = _value(options.initial)
    return history.with_params(structs.replace(history.params, **given)) if given else history


def _value(text: str) -> str | int | None:
    """The value of a register: an integer, nil or null for none, a string with or without quotes."""
    if text in ("nil", "null"):
        return None
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    try:
        return int(text)
    except ValueError:
        return text


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
    initial = "first value of every register: an integer, a string, or nil"
    parser.add_argument("--initial", metavar="VALUE", help=initial)
    size = "read at most so much uncompressed text, such as 2GiB (default: 8GiB; compressed 1GiB; EDN 256MiB)"
    parser.add_argument("--max-size", metavar="SIZE", help=size)
    other = "convert instead: write the history to OTHER (.jsonl, .edn, .parquet) and judge nothing"
    parser.add_argument("--save", metavar="OTHER", help=other)
    live = "judge a history while it is written (.jsonl, - for standard input): says what is violated at once"
    parser.add_argument("--follow", action="store_true", help=live)
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
