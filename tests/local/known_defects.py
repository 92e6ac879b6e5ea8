"""Which known defects `lab test` finds again: ``python -m tests.local.known_defects [DRIVER …]``.

From the driver's name alone, each library is examined as ``lab test`` does it, until all its known defects
are found or the budget ends. known_defects.yaml says by what a defect is known. Printed are tables in
Markdown: what was found again, what was reported beside it, and what that took. The exit code is 0 if all
that were looked for are found, else 1. Libraries are examined one after the other; those that are not
installed, or cannot run in virtual time, are named, and count as not found if somebody asked for them.
What came of a library is kept below ``--out``; with ``--resume``, what is there is not measured again. With
``--confirm`` defects are written, replayed and run on real Redis afterwards, as ``lab test`` does it.

With ``--keep`` what came of them is also written to docs/analyses/examined.yaml, which a page is made of.

With ``--situations`` every situation of the directed part is run instead, and
lab/examine/schedules/situations.yaml is written: how many known defects each sort shows, and what it takes.
That decides in which order they come.
A table says how far each library's situations go until all is shown that they show, in turns and by rate; the
rates are then those of the *other* libraries.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from lab.api.examinations import finish
from lab.batch.executor import processor_s
from lab.cli.search_output import signals_interrupt
from lab.drivers import PREFIX
from lab.drivers.place import why_not_in_virtual_time
from lab.drivers.registry import row
from lab.errors import LabError, UnknownOutcome
from lab.examine.command import Asked, examine, situations_of
from lab.examine.examination import Progress, tried
from lab.examine.ledger.naming import causes_of
from lab.examine.result import Defect, Examined
from lab.examine.schedules.situations import MEASURED, Found, in_turns
from lab.report.examined import Kept, Tried, write_kept
from lab.scenario.load import load_scenario
from lab.search.loop import OutOfTime
from lab.search.trial import as_in_a_file, from_a_file
from lab.substrates.sim.errors import SimulationError

TABLE: Final = Path(__file__).with_suffix(".yaml")
OUT: Final = Path("reports/known-defects")
ANALYSES: Final = Path(__file__).parents[2] / "docs" / "analyses"
FIGURES: Final = ("seconds", "schedules", "variants", "real Redis")
KNOWN: Final = ("library", "runtime", "known defect", "found again as", *FIGURES)
NEW: Final = ("library", "cause", "finding", "what was seen", *FIGURES)
ORDER: Final = ("library", "situations", "defects", "in turns: after", "s", "by rate: after", "s")
TRIED: Final = ("library", "runtime", "schedules", "seconds", "processor seconds", "load", "ended")


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A known defect: its scenario, and what a defect that is reported must have to be the same one.

    ``causes`` are keys of ``lab.examine.causes``, ``findings`` names of findings: one of each is enough.
    ``seen`` is a regular expression that is looked for in what was seen of the cause.
    """

    scenario: str
    causes: tuple[str, ...]
    findings: tuple[str, ...]
    seen: str = ""

    @property
    def title(self) -> str:
        """What the defect is, in the words of the track record."""
        return load_scenario(self.scenario).scenario.title

    def is_found(self, defect: Defect) -> bool:
        """Whether this is it."""
        return (
            defect.cause in self.causes
            and not set(self.findings).isdisjoint(defect.findings)
            and re.search(self.seen, defect.seen) is not None
        )


class KnownDefects(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole table: known defects by driver, and why the rest of the track record is not looked for.

    ``without_scenario``: by driver and cause, why what is reported of it cannot be shown on real Redis.
    """

    drivers: dict[str, tuple[Known, ...]]
    out_of_reach: dict[str, str]
    without_scenario: dict[str, dict[str, str]]


class Measured(msgspec.Struct):
    """What came of one library: when each defect was reported, by its cause, and what all took."""

    driver: str
    wanted: tuple[Known, ...]
    asked: Asked
    examined: Examined | None = None
    why_not: str = ""
    after: dict[str, tuple[float, int]] = msgspec.field(default_factory=dict)
    """In real time since the start, and after so many schedules."""
    stopped: bool = False
    """Whether it ended before the budget did, as all was found."""
    cpu_s: float = 0.0
    """Of the lab and its drivers."""
    load: float = 0.0
    """Of the machine at the end, averaged over a minute."""

    def place_of(self, known: Known) -> int | None:
        """The place of the defect that is a known one."""
        return next((at for at, each in enumerate(self.defects) if known.is_found(each)), None)

    @property
    def defects(self) -> tuple[Defect, ...]:
        """Those that were reported."""
        return self.examined.defects if self.examined else ()

    @property
    def missed(self) -> list[Known]:
        """The known defects that were not found."""
        return [each for each in self.wanted if self.place_of(each) is None]


def known_defects() -> KnownDefects:
    """Read the table."""
    return msgspec.yaml.decode(TABLE.read_bytes(), type=KnownDefects)


def measure(driver: str, wanted: tuple[Known, ...], asked: Asked) -> Measured:
    """Examine a library until all is found that is wanted, or the budget ends."""
    measured = Measured(driver, wanted, asked)
    measured.why_not = why_not_in_virtual_time(asked.lock) or ""
    if measured.why_not:
        return measured
    began_s, before_s = time.monotonic(), sum(os.times()[:4])

    def on_progress(at: Progress) -> None:
        for cause in (each.cause for each in at.found):
            if cause not in measured.after:
                measured.after[cause] = (time.monotonic() - began_s, at.schedules)
                note(f"{driver}: {measured.after[cause][0]:.0f} s, {at.schedules} schedules: {cause}")
        done = all(any(known.is_found(each) for each in at.found) for known in wanted)
        if wanted and done:
            measured.stopped = True
            raise OutOfTime

    try:
        measured.examined = examine(asked, on_progress)
    except (LabError, SimulationError) as error:
        measured.why_not = str(error).partition("\n")[0]
    now = (time.monotonic() - began_s, measured.examined.schedules if measured.examined else 0)
    measured.after = {each.cause: measured.after.get(each.cause, now) for each in measured.defects}
    measured.cpu_s, measured.load = sum(os.times()[:4]) - before_s, os.getloadavg()[0]
    return measured


class Shown(msgspec.Struct, frozen=True):
    """What came of one situation: its processor time, and the known defects that it shows."""

    seconds: float
    defects: tuple[str, ...]


def shown_by_situations(driver: str, wanted: tuple[Known, ...]) -> dict[str, list[Shown]]:
    """Run all situations of a library, and see which of them show its known defects."""
    found: dict[str, list[Shown]] = {}
    with situations_of(Asked(f"{PREFIX}{driver}")) as sorts:
        for sort, trials in sorts.items():
            found[sort] = []
            for trial in trials:
                before_s = processor_s()
                try:
                    names = sorted(tried(trial).violations)
                except UnknownOutcome:
                    names = []
                took_s, shown = processor_s() - before_s, set()
                for name in names:
                    looked_for = [each for each in wanted if name in each.findings]
                    if looked_for:
                        causes = {each.kind for each in causes_of(trial, name)}
                        shown |= {each.scenario for each in looked_for if not causes.isdisjoint(each.causes)}
                found[sort].append(Shown(round(took_s, 3), tuple(sorted(shown))))
    return found


def rates_of(measured: Iterable[dict[str, list[Shown]]]) -> dict[str, Found]:
    """What each sort has found in all of these libraries."""
    seconds: dict[str, float] = {}
    defects: dict[str, int] = {}
    for of_library in measured:
        for sort, shown in of_library.items():
            seconds[sort] = seconds.get(sort, 0.0) + sum(each.seconds for each in shown)
            defects[sort] = defects.get(sort, 0) + len({name for each in shown for name in each.defects})
    return {sort: Found(defects[sort], round(seconds[sort], 1)) for sort in seconds}


def until_all_s(shown: dict[str, list[Shown]], rates: dict[str, Found]) -> tuple[int, float]:
    """After how many situations, and how much processor time, all is shown that they show."""
    left = {name for each in shown.values() for one in each for name in one.defects}
    count, spent_s = 0, 0.0
    for one in in_turns({sort: iter(each) for sort, each in shown.items()}, rates):
        if not left:
            break
        count, spent_s = count + 1, spent_s + one.seconds
        left -= set(one.defects)
    return count, spent_s


def order_rows(measured: dict[str, dict[str, list[Shown]]]) -> Iterator[tuple[str, ...]]:
    """Each library's situations in turns, and by the rates of the other libraries, side by side."""
    for driver, shown in measured.items():
        others = rates_of(each for name, each in measured.items() if name != driver)
        of = sum(map(len, shown.values()))
        defects = len({name for each in shown.values() for one in each for name in one.defects})
        if defects:
            orders = (until_all_s(shown, {}), until_all_s(shown, others))
            cells = [cell for count, spent_s in orders for cell in (str(count), f"{spent_s:.1f}")]
            yield (driver, str(of), str(defects), *cells)


def confirm(measured: Measured, directory: Path) -> None:
    """Write its defects as scenarios, replay them, and run them on real Redis, as ``lab test`` does."""
    if measured.examined is not None:
        kept = finish(measured.examined, measured.asked, directory, command="lab test")
        measured.examined = kept.examined


def earlier(file: Path, wanted: tuple[Known, ...], asked: Asked) -> Measured | None:
    """What came of this library earlier, if the same was asked for, by what is known of it now."""
    if not file.is_file():
        return None
    measured = msgspec.json.decode(file.read_bytes(), type=Measured, dec_hook=from_a_file)
    measured.wanted = wanted
    return measured if measured.asked == asked else None


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    """A table in Markdown."""
    for cells in (columns, ("---",) * len(columns), *rows):
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def known_row(measured: Measured, known: Known) -> tuple[str, ...]:
    """A known defect, and what was found of it."""
    at = measured.place_of(known)
    head = (measured.driver, row(measured.driver).language, known.title)
    if at is None:
        return (*head, measured.why_not or "not found", "", "", "", "")
    return (*head, named(measured.defects[at]), *figures(measured, at))


def new_rows(measured: Measured) -> Iterator[tuple[str, ...]]:
    """The reported defects that are no known ones."""
    for at, defect in enumerate(measured.defects):
        if not any(known.is_found(defect) for known in measured.wanted):
            cells = (defect.cause, ", ".join(defect.findings), " ".join(defect.seen.split()))
            yield (measured.driver, *cells, *figures(measured, at))


def named(defect: Defect) -> str:
    """The cause of a defect, and what it leads to."""
    return f"{defect.cause} ({', '.join(defect.findings)})"


def figures(measured: Measured, at: int) -> tuple[str, str, str, str]:
    """After which seconds and schedules a defect was reported, how many variants and real runs show it."""
    defect, real = measured.defects[at], measured.defects[at].real
    seconds, schedules = measured.after[defect.cause]
    variants = f"{defect.reproduced} of {defect.variants}"
    runs = "" if real is None else f"{real.reproduced} of {real.judged}" if real.judged else real.why_not
    return f"{seconds:.0f}", str(schedules), variants, runs


def tried_row(measured: Measured) -> tuple[str, ...]:
    """What was tried of a library, and what it took."""
    head = (measured.driver, row(measured.driver).language)
    if measured.examined is None:
        return (*head, "0", "", "", "", measured.why_not)
    done = measured.examined
    ended = "all were found" if measured.stopped else "the budget ended"
    costs = (f"{done.seconds:.0f}", f"{measured.cpu_s:.0f}", f"{measured.load:.1f}")
    return (*head, str(done.schedules), *costs, ended)


def to_keep(measured: Measured) -> Kept | None:
    """What docs/analyses keeps of a library; None if it could not be examined."""
    done = measured.examined
    if done is None:
        return None
    missed = [each.scenario for each in measured.missed]
    new = [each for each in done.defects if not any(known.is_found(each) for known in measured.wanted)]
    return Kept(
        row(measured.driver).version,
        done.servers,
        done.seed,
        measured.asked.budget,
        done.schedules,
        round(done.seconds),
        round(measured.cpu_s),
        round(measured.load, 1),
        measured.stopped,
        tuple(each.cause for each in done.defects),
        tuple(each.scenario for each in measured.wanted if each.scenario not in missed),
        tuple(missed),
        len(done.undecided),
        tuple(Tried(part.name, part.tried, part.of or 0) for part in done.parts if part.tried),
        measured.asked.server,
        {
            each.cause: known_defects().without_scenario.get(measured.driver, {}).get(each.cause, "")
            for each in new
        },
    )


def asked_for(words: list[str] | None = None) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--budget", type=float, default=300.0, help="seconds for each library")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    parser.add_argument("--jobs", type=int, help="how many processes; as many as there are cores")
    parser.add_argument("--server", default="", help="what the nodes are, like redis@8.4")
    parser.add_argument("--out", type=Path, default=OUT, help="a directory for the results, as JSON")
    parser.add_argument("--confirm", action="store_true", help="run what is found on real Redis")
    parser.add_argument("--situations", action="store_true", help="measure the sorts of situations instead")
    parser.add_argument("--resume", action="store_true", help="take what is in this directory already")
    parser.add_argument("--keep", action="store_true", help="keep what came of them in docs/analyses")
    parser.add_argument("drivers", nargs="*", help="by default all that have known defects and are installed")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> int:
    """Print the tables; 0 if all known defects of the libraries that were examined are found."""
    asked = asked_for(words)
    known = known_defects().drivers
    if asked.situations:
        return measure_situations(asked.drivers or list(known), asked.out / "situations.json", asked.resume)
    measured = []
    for driver in asked.drivers or known:
        request = Asked(
            f"{PREFIX}{driver}", f"{asked.budget:g}s", asked.seed, jobs=asked.jobs, server=asked.server
        )
        file = asked.out / f"{driver}.json"
        wanted = known.get(driver, ())
        one = earlier(file, wanted, request) if asked.resume else None
        if one is None:
            note(f"{driver}: load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
            one = measure(driver, wanted, request)
        if asked.confirm and all(each.real is None for each in one.defects):
            confirm(one, asked.out / driver)
        asked.out.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.format(msgspec.json.encode(one, enc_hook=as_in_a_file)))
        measured.append(one)
        note(f"{driver}: {', '.join(tried_row(one)[2:])}")
    if asked.keep:
        write_kept(ANALYSES, {one.driver: kept for one in measured if (kept := to_keep(one)) is not None})
    for line in report(measured):
        sys.stdout.write(f"{line}\n")
    return int(any(one.missed for one in measured if asked.drivers or not one.why_not))


def measure_situations(drivers: Sequence[str], file: Path, resume: bool) -> int:
    """Run the situations of these libraries, write what their sorts find, and print a table; 0."""
    known, kind = known_defects().drivers, dict[str, dict[str, list[Shown]]]
    measured = msgspec.json.decode(file.read_bytes(), type=kind) if resume and file.is_file() else {}
    for driver in drivers:
        if driver in measured:
            continue
        if why_not := why_not_in_virtual_time(f"{PREFIX}{driver}"):
            note(f"{driver}: {why_not}")
            continue
        measured[driver] = shown_by_situations(driver, known[driver])
        note(f"{driver}: {sum(map(len, measured[driver].values()))} situations")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(msgspec.json.encode(measured))
    head = "# Written by `python -m tests.local.known_defects --situations`, read by situations.py.\n"
    rates = dict(sorted(rates_of(measured.values()).items()))
    MEASURED.write_bytes(head.encode() + msgspec.yaml.encode(rates))
    for line in table(ORDER, list(order_rows(measured))):
        sys.stdout.write(f"{line}\n")
    return 0


def report(measured: list[Measured]) -> Iterator[str]:
    """What was found again, what is new, and what was tried."""
    for title, columns, rows in (
        ("Known", KNOWN, [known_row(one, each) for one in measured for each in one.wanted]),
        ("New", NEW, [each for one in measured for each in new_rows(one)]),
        ("Tried", TRIED, [tried_row(one) for one in measured]),
    ):
        yield from ("", f"{title}:", "", *table(columns, rows))


def note(text: str) -> None:
    """Say on stderr how far it is."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    with signals_interrupt():  # so that no driver is left behind
        sys.exit(main())
