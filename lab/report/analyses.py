"""One page for each library: what it is, how it was tested, what was found, and what a user can do.

Facts are from the registry of drivers, the scenarios and the matrices in the gallery, whose histories on real
servers the pictures show. What people add is in ``docs/analyses/notes.yaml``: whether it is a defect or a
limit that the library states, and the advice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Literal

import msgspec

from checker.formats.whole import write_whole
from lab.drivers import PREFIX
from lab.drivers.registry import Row, rows
from lab.errors import LabError
from lab.paths import scenario_dir
from lab.report import examined
from lab.report.record import kept_in, read_kept
from lab.report.tables import markdown_table
from lab.report.words import expected_words
from lab.scenario.files import library_names, shipped
from lab.scenario.load import LoadedScenario, load_scenario

NOTES: Final = "notes.yaml"
PICTURES: Final = "pictures"
"""The directory of the pictures, beside the pages."""
HARM: Final[Mapping[str, str]] = {
    "overlap": "two clients hold the lock",
    "lost-update": "an update is lost",
    "unfenced-write": "a write of an earlier holder is accepted",
    "stale-write": "a write of an earlier holder is accepted",
    "fence-order": "fences do not grow",
    "continuity-loss": "the lock was somebody else's in between",
    "false-validity": "the client is promised more than it has",
    "leak": "the lock stays taken although no client holds it",
    "unavailable": "nobody gets the lock though a majority is up",
}
"""What findings mean for a user, the gravest first."""
SAFETY: Final = frozenset(name for name in HARM if name not in ("leak", "unavailable"))
KINDS: Final = {"defect": "a defect", "limit": "a limit", "none": "no defect"}
HOW: Final = """\
Each library is installed unmodified, in the version that the table names, into an environment of its own,
and used as its users use it: a [driver](../../lab/drivers/PROTOCOL.md) calls it, and adds nothing. `lab
test driver:NAME` looks for defects in thousands of schedules on simulated Redis in virtual time, with the
library as a real process. What it finds, or what reading the source suggests, becomes a scenario with a
control, which differs from it in nothing but the decisive fault. Both run on real Redis behind a real
Toxiproxy in real time, twenty times where the table gives a number.

A *defect* breaks what the library, or the algorithm that it names, promises. A *limit* is stated by the
library or shared by all locks of its kind. Nothing of this says that a library has no other defects, and
nothing was reported upstream from here. [What `lab test` came to](examined.md) names those in which it found
nothing, and says what was tried."""


class Noted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What people say of a scenario about a library."""

    kind: Literal["defect", "limit", "none"]
    advice: str


class Kept(msgspec.Struct, frozen=True):
    """What the gallery has of a scenario: how often it came out as it says, and the history of one run."""

    as_expected: str
    history: Path | None


def noted(directory: Path) -> dict[str, Noted]:
    """What is said of each scenario. Raises ``LabError``: the file is damaged, or lacks a scenario."""
    path = directory / NOTES
    try:
        found = msgspec.yaml.decode(path.read_bytes(), type=dict[str, Noted])
    except (OSError, msgspec.MsgspecError) as error:
        raise LabError(f"the notes cannot be read: {error}", where=str(path)) from error
    told = {name for name in library_names() if not load_scenario(name).scenario.control_of}
    if strange := sorted(told ^ set(found)):
        raise LabError(
            f"{', '.join(strange)}: a note without a scenario about a library, or the other way around",
            where=str(path),
            expected="one note for each scenario about a library, its controls aside",
        )
    return found


def analyses(directory: Path, gallery: Path | None, note: str) -> dict[str, str]:
    """All pages by the name of their file, and their index. Raises ``LabError``: see ``noted``."""
    notes, kept = noted(directory), _kept(gallery)
    by_library: dict[str, list[LoadedScenario]] = {}
    for name in notes:
        one = load_scenario(name)
        by_library.setdefault(one.scenario.lock.name.removeprefix(PREFIX), []).append(one)
    pages = {
        f"{name}.md": _page(name, rows()[name], by_library[name], notes, kept, note)
        for name in sorted(by_library)
    }
    pages["README.md"] = _index(by_library, notes, note)
    pages[examined.PAGE] = examined.page(examined.current(examined.read_kept(directory)), note)
    return pages


def draw_pictures(directory: Path, gallery: Path, *, anew: bool = False) -> list[Path]:
    """Draw what happened in each scenario about a library, from its kept history; those missing, or all.

    Raises:
        LabError: see ``noted``.
        HistoryError: a kept history is damaged.
    """
    drawn, kept = [], _kept(gallery)
    for name in noted(directory):
        path, one = directory / PICTURES / f"{name}.svg", kept.get(name)
        if one is None or one.history is None or (path.is_file() and not anew):
            continue
        from checker import check, load  # with matplotlib below they take half a second to import
        from lab.report.timeline.data import extract
        from lab.report.timeline.draw import picture

        history = load(one.history)
        title = load_scenario(name).scenario.title
        path.parent.mkdir(exist_ok=True)
        write_whole(path, picture(extract(history, check(history), title), ("svg",))["svg"])
        drawn.append(path)
    return drawn


def _kept(gallery: Path | None) -> dict[str, Kept]:
    """What came of each scenario on real servers."""
    found = {}
    for directory in kept_in(gallery) if gallery else ():
        for cell in read_kept(directory)["cells"]:
            if cell["own"]:
                file = (cell.get("history") or {}).get("file")
                words = f"{cell['as_expected']} of {cell['runs']}"
                found[cell["scenario"]] = Kept(words, directory / file if file else None)
    return found


def _page(
    name: str,
    row: Row,
    scenarios: list[LoadedScenario],
    notes: Mapping[str, Noted],
    kept: Mapping[str, Kept],
    note: str,
) -> str:
    facts = {
        "library": row.library,
        "version": f"{row.version} ({row.registry})",
        "language": row.language,
        "licence": row.licence,
        "what it is": row.what,
        "nodes": "as many as it is given" if row.nodes is None else f"the first {row.nodes}",
        "driver": f"`{PREFIX}{name}` (`lab drivers install {name}`)",
    }
    lines = [
        f"# {row.library} {row.version}",
        "",
        note,
        "",
        markdown_table(("", ""), facts.items()).rstrip("\n"),
    ]
    lines += ["", "[How libraries are tested, and what the words mean](README.md)."]
    for one in scenarios:
        lines += ["", f"## {one.scenario.title}", "", *_finding(one, notes[one.name], kept)]
    return "\n".join(lines) + "\n"


def _finding(one: LoadedScenario, noted: Noted, kept: Mapping[str, Kept]) -> Iterator[str]:
    file = shipped(one.name).relative_to(scenario_dir()).as_posix()
    control = next(
        (each for each in library_names() if load_scenario(each).scenario.control_of == one.name), ""
    )
    harm = _harm(one)
    table: dict[str, str] = {
        "what it is": KINDS[noted.kind] + (f": {harm[0]}" if harm else ""),
        "cause": one.scenario.source,
        "scenario": f"[{one.name}](../../scenarios/{file}), with the control {control or 'of another one'}",
        "expected": expected_words(one.scenario.expect),
        "on real Redis": f"{kept[one.name].as_expected} as expected; the control "
        f"{kept[control].as_expected if control in kept else 'as well'}"
        if one.name in kept
        else "as expected, and the control as well; not counted yet",
        "again": f"`lab run {one.name} --on local`",
        "what to do": noted.advice,
    }
    yield " ".join(one.scenario.why.split())
    yield ""
    if one.name in kept and kept[one.name].history is not None:
        yield f"![What happened on real Redis]({PICTURES}/{one.name}.svg)"
        yield ""
    yield markdown_table(("", ""), table.items()).rstrip("\n")


def _harm(one: LoadedScenario) -> list[str]:
    found = set(one.scenario.expect.findings or ())
    return list(dict.fromkeys(words for name, words in HARM.items() if name in found))


def _index(by_library: Mapping[str, list[LoadedScenario]], notes: Mapping[str, Noted], note: str) -> str:
    found: list[tuple[str, ...]] = []
    passed: list[tuple[str, ...]] = []
    for name, scenarios in sorted(by_library.items()):
        row = rows()[name]
        link = f"[{row.library}]({name}.md)"
        for one in scenarios:
            kind, harm = notes[one.name].kind, _harm(one)
            grave = "safety" if SAFETY & set(one.scenario.expect.findings or ()) else "availability"
            if kind == "none":
                passed.append((link, row.version, one.scenario.title))
            else:
                found.append(
                    (
                        link,
                        row.version,
                        one.scenario.title,
                        kind,
                        grave,
                        harm[0] if harm else "operations are refused",
                    )
                )
    lines = ["# Analyses of libraries", "", note, "", HOW, "", "## Found", ""]
    lines.append(
        markdown_table(("library", "version", "what was seen", "kind", "about", "harm"), found).rstrip("\n")
    )
    lines += ["", "## Done right", "", "Scenarios in which other libraries fail, and these do not:", ""]
    lines.append(markdown_table(("library", "version", "what was seen"), passed).rstrip("\n"))
    return "\n".join(lines) + "\n"
