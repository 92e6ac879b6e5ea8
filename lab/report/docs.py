"""A page per story and per finding, the claims, and an index of the gallery, written from the files:
``python -m lab.report.docs``.

Nothing is said here that stands elsewhere: stories are told by their YAML files, findings by
`lab.report.meanings` and by the docstring of the module in `checker` that decides them, claims by
`lab/scenario/claims.yaml`, implementations by the registry of drivers, runs by their verdicts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import msgspec

from lab.drivers import PREFIX, is_driver
from lab.drivers.registry import rows
from lab.errors import ExitCode, LabError
from lab.paths import scenario_dir
from lab.report.arguments import claims_page, implementations_page
from lab.report.meanings import FINDINGS, PROMISES, Meaning
from lab.report.record import matrix_section, with_record
from lab.report.words import expected_words, verdict_words
from lab.scenario.claims import Claim, claim_rows, claims
from lab.scenario.files import consensus_names, library_names, names, shipped
from lab.scenario.library import text_of
from lab.scenario.load import LoadedScenario, load_scenario

NOTE: Final = "<!-- Written by `lab.report.docs` from the files themselves: change those, not this page. -->"
GALLERY: Final = Path("reports", "gallery")


def pages(gallery: Path | None = None) -> dict[str, str]:
    """All pages, by their path below the directory of documents.

    Args:
        gallery: a directory of runs; pages link to a run of their story there, seen from the repository.

    Raises:
        LabError: a scenario can't be loaded.
    """
    every = (*names(), *library_names(), *consensus_names())
    loaded = {name: load_scenario(name) for name in every}
    stories = {name: one for name, one in loaded.items() if not one.scenario.control_of}
    controls = {one.scenario.control_of: one for one in loaded.values() if one.scenario.control_of}
    shown = {run.name for run in runs(gallery)} if gallery else set()
    known = {claim.number: claim for claim in claims()}
    found = {"README.md": _index(stories)}
    found["claims.md"] = claims_page(claim_rows(), NOTE)
    found["implementations.md"] = implementations_page(rows(), stories, NOTE)
    for name, one in stories.items():
        found[f"scenarios/{name}.md"] = _story(one, controls.get(name), known, name in shown)
    for name, meaning in FINDINGS.items():
        found[f"findings/{name}.md"] = _finding(name, meaning, stories)
    return found


def runs(gallery: Path) -> list[Path]:
    """The runs in a gallery, by name."""
    return sorted(path.parent for path in gallery.glob("*/verdict.json"))


def gallery_index(gallery: Path) -> str:
    """The index of a gallery: each run with its picture, its verdict and its page."""
    lines = ["# Gallery", "", NOTE, ""]
    lines += [
        "Runs on real Redis behind a real Toxiproxy. Each directory holds the scenario, the whole history,",
        "the verdict, the picture for paper and `index.html`, the page to look at: download it, and open it",
        "from the disk. A test checks every history again, and what every page shows of it.",
        "",
        "| story | verdict | page |",
        "|---|---|---|",
    ]
    told = []
    for run in runs(gallery):
        loaded, verdict = load_scenario(run / "scenario.yaml"), _verdict(run)
        title = _cell(loaded.scenario.title)
        lines.append(
            f"| [{run.name}](#{run.name}): {title} | {_cell(verdict)} | [page]({run.name}/index.html) |"
        )
        told += ["", f"## {run.name}", "", f"{loaded.scenario.title}. {verdict.capitalize()}.", ""]
        told.append(f"![The timeline of {run.name}]({run.name}/timeline.png)")
        if (run / "page.png").exists():
            told += ["", f"[![The page of {run.name}]({run.name}/page.png)]({run.name}/index.html)"]
        told += ["", f"[What the story is about](../../docs/scenarios/{run.name}.md)"]
    return "\n".join([*lines, *told, *matrix_section(gallery)]) + "\n"


def _verdict(run: Path) -> str:
    """A stored verdict in a few words."""
    kept = msgspec.json.decode((run / "verdict.json").read_bytes(), type=dict[str, Any])
    properties = kept["verdict"]["properties"]
    found = [f["name"] for p in properties.values() for f in p["findings"] if f["severity"] == "violation"]
    return verdict_words({name: seen["outcome"] for name, seen in properties.items()}, found)


def _index(stories: Mapping[str, LoadedScenario]) -> str:
    groups = {
        "Stories": names(),
        "Stories about libraries": library_names(),
        "Stories about locks by consensus": consensus_names(),
    }
    lines = ["# Stories and findings", "", NOTE, ""]
    lines += [
        "[The argument about Redlock, claim by claim](claims.md), and",
        "[the implementations of Redlock, and what the lab does with each](implementations.md).",
    ]
    for title, members in groups.items():
        lines += ["", f"## {title}", "", "| story | what happens | what is expected |", "|---|---|---|"]
        for name in (member for member in members if member in stories):
            one = stories[name].scenario
            told = _cell(one.title), _cell(expected_words(one.expect))
            lines.append(f"| [{name}](scenarios/{name}.md) | {' | '.join(told)} |")
    lines += ["", "## What the checker promises to notice", "", "| property | the promise |", "|---|---|"]
    lines += [f"| {str(name).replace('_', ' ')} | {p.promise} |" for name, p in PROMISES.items()]
    lines += ["", "## Findings", "", "| finding | in a few words | counts as |", "|---|---|---|"]
    lines += [f"| [{name}](findings/{name}.md) | {m.short} | {m.counts} |" for name, m in FINDINGS.items()]
    command = "lab suite --selftest"
    lines += ["", "## Broken locks", "", f"[Each, and what caught it](selftest.md): `{command} --full`."]
    lines += ["", "## What can go from the stories", ""]
    lines += [
        f"[Each step that nothing notices, with a reason](selftest-scenarios.md): `{command} --scenarios`."
    ]
    return "\n".join(lines) + "\n"


def _story(
    one: LoadedScenario, control: LoadedScenario | None, known: Mapping[int, Claim], shown: bool
) -> str:
    scenario = one.scenario
    lines = [f"# {one.name}", "", NOTE, "", f"**{scenario.title}**", "", scenario.why.strip(), ""]
    lines += [f"Source: {scenario.source}", ""]
    if scenario.claims:
        lines += ["It tests these claims about Redlock:", ""]
        lines += [f"- {n} ({known[n].who}): {known[n].claim}" for n in scenario.claims]
        lines.append("")
    lines += [f"Expected: {expected_words(scenario.expect)}.", ""]
    if scenario.expect.findings:
        links = ", ".join(f"[{name}](../findings/{name}.md)" for name in scenario.expect.findings)
        lines += [f"Findings that must be seen: {links}.", ""]
    lines += ["```sh", *_commands(one), "```", ""]
    if shown:
        run = f"../../{GALLERY.as_posix()}/{one.name}"
        lines += [f"A run on real Redis ([its page]({run}/index.html)):", ""]
        lines += [f"![The timeline of a run]({run}/timeline.png)", ""]
    place = shipped(one.name).relative_to(scenario_dir())
    lines += [f"## scenarios/{place.as_posix()}", "", *_fenced(text_of(one.name))]
    if control is not None:
        lines += ["", "## Its control", ""]
        lines += [f"{control.scenario.title}: {expected_words(control.scenario.expect)}.", ""]
        lines += _fenced(text_of(control.name))
    return "\n".join(lines) + "\n"


def _commands(one: LoadedScenario) -> Iterator[str]:
    """What to type to see it; the simulation has neither other people's libraries nor other services."""
    lock = one.scenario.lock.name
    if is_driver(lock):
        yield f"lab drivers install {lock.removeprefix(PREFIX)}"
        yield f"lab run {one.name} --on local"
    elif one.scenario.cluster.service != "redis":
        yield f"lab run {one.name} --on local"
    else:
        yield f"lab run {one.name}"
        yield f"lab demo {one.name} --on sim"


def _finding(name: str, meaning: Meaning, stories: Mapping[str, LoadedScenario]) -> str:
    lines = [
        f"# {name}",
        "",
        NOTE,
        "",
        f"**{meaning.short[0].upper()}{meaning.short[1:]}**: {meaning.counts}.",
    ]
    lines += ["", meaning.text, ""]
    expecting = list(_expecting(name, stories))
    if expecting:
        lines += ["## Stories in which it must be seen", ""]
        lines += [f"- [{story}](../scenarios/{story}.md): {title}" for story, title in expecting]
        lines.append("")
    told = inspect.cleandoc(import_module(meaning.home).__doc__ or "")
    lines += [f"## How it is decided (`{meaning.home}`)", "", *_fenced(told, "text")]
    return "\n".join(lines) + "\n"


def _expecting(name: str, stories: Mapping[str, LoadedScenario]) -> Iterator[tuple[str, str]]:
    for story, one in stories.items():
        if name in (one.scenario.expect.findings or ()):
            yield story, one.scenario.title


def _fenced(text: str, language: str = "yaml") -> list[str]:
    return [f"```{language}", text.rstrip("\n"), "```"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_docs(out: Path, gallery: Path | None) -> list[Path]:
    """Write all pages below a directory, the gallery's index into it, the track record into docs/results.md.

    Pages of nothing are removed.

    Raises:
        LabError: a scenario can't be loaded, or the matrix in the gallery is damaged.
        OSError: a file cannot be written.
    """
    found = {out / name: text for name, text in pages(gallery).items()}
    if gallery:
        found[gallery / "README.md"] = gallery_index(gallery)
        results = gallery.parents[1] / "docs" / "results.md"
        if results.is_file():
            found[results] = with_record(results.read_text(encoding="utf-8"), gallery)
    for path, text in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for room in ("scenarios", "findings"):
        for path in (out / room).glob("*.md"):
            if path not in found and NOTE in path.read_text(encoding="utf-8"):
                path.unlink()
    return list(found)


def main(words: list[str]) -> int:
    """Write the pages below the directory that is named, or ``docs``."""
    out = Path(words[0] if words else "docs")
    try:
        written = write_docs(out, GALLERY if GALLERY.is_dir() else None)
    except (LabError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.USAGE
    sys.stdout.write(f"{len(written)} pages below {out}\n")
    return ExitCode.EXPECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
