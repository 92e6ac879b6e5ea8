"""`python -m checker FILE…`: one verdict per property, why, and the events that prove it.

Several files are recordings of one application (`checker.formats.together`), and judged as one history.

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
    from checker.formats.foreign import Reading
    from checker.history.history import History

EXIT: Final = {Outcome.OK: 0, Outcome.ABSENT: 0, Outcome.VIOLATED: 1, Outcome.UNKNOWN: 3}
EXIT_BAD_INPUT: Final = 2
_NOT_LIVE: Final = ("explain", "depth", "initial", "permits", "max_size", "save")
"""Options that change nothing of what is judged while a history is written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Check one history and print the verdict; returns the exit code."""
    parser = _parser()
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given) if "--" in given else parser.parse_intermixed_args(given)
    if options.follow:
        return _followed(options)
    from checker.decide import check, properties
    from checker.explanations import explanations
    from checker.formats import save
    from checker.linearizability.custom import load_model

    try:
        only = None if options.only is None else properties(_words(options.only))
        own = options.model is not None and ":" in options.model
        if own and only is not None:
            raise HistoryError("by a model of your own nothing else is judged", field="only")
        history = _history(options)
        for note in history.notes:
            sys.stderr.write(f"note: {note}\n")
        if options.save is not None:
            save(history, options.save)
            return 0
        verdict = check(history, model=load_model(options.model) if own else options.model, only=only)
        reasons = [] if own or not options.explain else list(explanations(history, verdict, options.model))
    except HistoryError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_BAD_INPUT
    except MemoryError:
        sys.stderr.write(
            f"error: {_title(options.files)}: does not fit into memory\nhint: allow less with --max-size\n"
        )
        return EXIT_BAD_INPUT
    if options.json:
        import json

        data = verdict.to_dict()
        if options.explain:
            data["explanations"] = [reason.to_dict() for reason in reasons]
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")
    else:
        blocks = [lines(_title(options.files), verdict), *(reason.lines() for reason in reasons)]
        sys.stdout.write("\n\n".join("\n".join(block) for block in blocks) + "\n")
    return EXIT[verdict.outcome]


def _followed(options: argparse.Namespace) -> int:
    """Judge a history while it is written; options that have no effect then are refused."""
    from checker.live.command import follow

    try:
        for name in _NOT_LIVE:
            if getattr(options, name) not in (None, False):
                raise HistoryError(
                    f"--{name.replace('_', '-')} has no effect with --follow",
                    hint="leave it out, or check the whole file when it is written, without --follow",
                )
        if options.format not in (None, "jsonl"):
            raise HistoryError(f"saw {options.format!r}: only JSON lines can be followed", field="format")
        reading, clock_error_ns = _reading(options), _clock_error_ns(options)
    except HistoryError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_BAD_INPUT
    only = None if options.only is None else _words(options.only)
    return follow(
        options.files,
        as_json=options.json,
        model=options.model,
        only=only,
        reading=reading,
        clock_error_ns=clock_error_ns,
    )


def _title(files: Sequence[str]) -> str:
    """What the files are called together."""
    return files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def _history(options: argparse.Namespace) -> History:
    """The history that is asked for, under the assumptions of the command line."""
    from msgspec import structs

    from checker.formats import load
    from checker.formats.foreign import require_foreign
    from checker.formats.text import size_of
    from checker.formats.together import load_recordings

    max_size = None if options.max_size is None else size_of(options.max_size)
    clock_error_ns, reading = _clock_error_ns(options), _reading(options)
    history = None
    if len(options.files) == 1:
        history = load(options.files[0], options.format, max_size=max_size, reading=reading)
    elif options.format not in (None, "jsonl"):
        raise HistoryError(f"saw {options.format!r}: recordings are JSON lines", field="format")
    if history is None or history.recorder is not None or clock_error_ns is not None:
        require_foreign(reading)
        history = load_recordings(options.files, clock_error_ns=clock_error_ns, max_size=max_size)
    given = {name: value for name in ("depth", "permits") if (value := getattr(options, name)) is not None}
    if options.initial is not None:
        given["initial"] = _value(options.initial)
    return history.with_params(structs.replace(history.params, **given)) if given else history


def _clock_error_ns(options: argparse.Namespace) -> int | None:
    """The bound on the error of the hosts' clocks, None if it is not given."""
    given: float | None = options.clock_error_ms
    if given is not None and not 0 <= given <= 1e9:
        raise HistoryError(f"saw {given}, expected 0 to 1e9 milliseconds", field="clock_error_ms")
    return None if given is None else round(given * 1e6)


def _reading(options: argparse.Namespace) -> Reading:
    """How the history of another tool is to be read."""
    from checker.formats.foreign import Reading, names_of

    names = {} if options.map is None else names_of(options.map)
    return Reading(names, options.independent)


def _words(text: str) -> list[str]:
    """The words of a list, apart by commas; `-` counts as `_`."""
    return [word.strip().replace("-", "_") for word in text.split(",")]


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
    read = "a recorded history (.jsonl, .json, .parquet, .edn, .log, Jepsen's history.txt; text also as .gz)"
    several = "; several of lab.record are judged as one"
    parser.add_argument("files", metavar="FILE", nargs="+", help=read + several)
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    why = "argue for each finding from the fewest operations that show it"
    parser.add_argument("--explain", action="store_true", help=why)
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="judge by this model instead of the header's; package.module:Class for one of your own",
    )
    parser.add_argument("--depth", metavar="K", type=int, help="how often a reentrant lock may be taken")
    parser.add_argument("--permits", metavar="N", type=int, help="how many permits a semaphore has")
    some = "judge these properties alone, such as mutual_exclusion,fencing"
    parser.add_argument("--only", metavar="PROPERTIES", help=some)
    initial = "first value of every register: an integer, a string, or nil"
    parser.add_argument("--initial", metavar="VALUE", help=initial)
    clocks = (
        "every host's wall clock was right within so many milliseconds (default: what its recording says)"
    )
    parser.add_argument("--clock-error-ms", metavar="MS", type=float, help=clocks)
    size = "read at most so much uncompressed text, such as 2GiB (default: 8GiB; compressed 1GiB; EDN 256MiB)"
    parser.add_argument("--max-size", metavar="SIZE", help=size)
    other = "convert instead: write the history to OTHER (.jsonl, .edn, .parquet) and judge nothing"
    parser.add_argument("--save", metavar="OTHER", help=other)
    live = "judge a history while it is written (.jsonl, - for standard input): says what is violated at once"
    parser.add_argument("--follow", action="store_true", help=live)
    parser.add_argument("--format", metavar="FORMAT", help="read the file as this format")
    names = "names of operations in the file, such as lock=acquire,renew=extend"
    parser.add_argument("--map", metavar="NAME=OPERATION,…", help=names)
    pairs = (
        "values are pairs [key value] of jepsen.independent, or are not (default: told by the whole history)"
    )
    parser.add_argument("--independent", action=argparse.BooleanOptionalAction, default=None, help=pairs)
    return parser


def lines(name: str, verdict: Verdict) -> Iterator[str]:
    """The verdict for people."""
    ok = any(property.outcome is Outcome.OK for property in verdict.properties.values())
    yield f"{name}: {Outcome.OK if ok and verdict.outcome is Outcome.ABSENT else verdict.outcome}"
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
