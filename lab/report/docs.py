"""A page per scenario and per finding, the claims, and an index of the gallery, written from the files:
``python -m lab.report.docs``.

The texts come from their sources: scenarios from their YAML files, findings from `lab.report.meanings` and
the docstring of the module in `checker` that decides them, claims from `lab/scenario/claims.yaml`,
implementations from the registry of drivers, runs from their verdicts.
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
from lab.report.record import matrix_sections, with_record
from lab.report.words import expected_words, verdict_words
from lab.scenario.claims import Claim, claim_rows, claims
from lab.scenario.files import consensus_names, defect_names, library_names, names, read, shipped
from lab.scenario.load import LoadedScenario, load_scenario

NOTE: Final = "<!-- Written by `lab.report.docs` from the files themselves: change those, not this page. -->"
GALLERY: Final = Path("reports", "gallery")


def pages(gallery: Path | None = None) -> dict[str, str]:
    """All pages, by their path below the directory of documents.

    Args:
        gallery: a directory of runs; pages link to a run of their scenario there, relative to the repository.

    Raises:
        LabError: a scenario can't be loaded.
    """
    every = (*names(), *defect_names(), *library_names(), *consensus_names())
    loaded = {name: load_scenario(name) for name in every}
    scenarios = {name: one for name, one in loaded.items() if not one.scenario.control_of}
    controls = {one.scenario.control_of: one for one in loaded.values() if one.scenario.control_of}
    shown = {run.name for run in runs(gallery)} if gallery else set()
    known = {claim.number: claim for claim in claims()}
    found = {"README.md": _index(scenarios)}
    found["claims.md"] = claims_page(claim_rows(), NOTE)
    found["implementations.md"] = implementations_page(rows(), scenarios, NOTE)
    for name, one in scenarios.items():
        found[f"scenarios/{name}.md"] = _scenario(one, controls.get(name), known, name in shown)
    for name, meaning in FINDINGS.items():
        found[f"findings/{name}.md"] = _finding(name, meaning, scenarios)
    return found


def runs(gallery: Path) -> list[Path]:
    """The runs in a gallery, by name."""
    return sorted(path.parent for path in gallery.glob("*/verdict.json"))


def gallery_index(gallery: Path) -> str:
    """The index of a gallery: each run with its picture, its verdict and its page."""
    lines = ["# Gallery", "", NOTE, ""]
    lines += [
        "Runs on real Redis behind a real Toxiproxy. Each directory holds the scenario, the whole history,",
        "the verdict, the picture for paper and the page `index.html`: download it, and open it from the",
        "disk. A test checks every history again, and that every page shows its results.",
        "",
        "| scenario | verdict | page |",
        "|---|---|---|",
    ]
    sections = []
    for run in runs(gallery):
        loaded, verdict = load_scenario(run / "scenario.yaml"), _verdict(run)
        title = _cell(loaded.scenario.title)
        lines.append(
            f"| [{run.name}](#{run.name}): {title} | {_cell(verdict)} | [page]({run.name}/index.html) |"
        )
        sections += ["", f"## {run.name}", "", f"{loaded.scenario.title}. {verdict.capitalize()}.", ""]
        sections.append(f"![The timeline of {run.name}]({run.name}/timeline.png)")
        if (run / "page.png").exists():
            sections += ["", f"[![The page of {run.name}]({run.name}/page.png)]({run.name}/index.html)"]
        sections += ["", f"[The scenario](../../docs/scenarios/{run.name}.md)"]
    return "\n".join([*lines, *sections, *matrix_sections(gallery)]) + "\n"


def _verdict(run: Path) -> str:
    """A stored verdict in a few words."""
    kept = msgspec.json.decode((run / "verdict.json").read_bytes(), type=dict[str, Any])
    properties = kept["verdict"]["properties"]
    found = [f["name"] for p in properties.values() for f in p["findings"] if f["severity"] == "violation"]
    return verdict_words({name: seen["outcome"] for name, seen in properties.items()}, found)


def _index(scenarios: Mapping[str, LoadedScenario]) -> str:
    groups = {
        "Scenarios": names(),
        "Scenarios that a correct lock passes, and one with a defect does not": defect_names(),
        "Scenarios about libraries": library_names(),
        "Scenarios about locks by consensus": consensus_names(),
    }
    lines = ["# Scenarios and findings", "", NOTE, ""]
    lines += [
        "[The argument about Redlock, claim by claim](claims.md), and",
        "[the implementations of Redlock, and what the lab does with each](implementations.md).",
        "[Real servers and libraries in virtual time](virtual-time.md): `--on virtual`.",
        "[Strategies and a state machine for Hypothesis](hypothesis.md).",
        "[Examining a lock of your own](testing-a-lock.md), [what that finds](examined.md) in broken ones.",
    ]
    for title, members in groups.items():
        lines += ["", f"## {title}", "", "| scenario | what happens | what is expected |", "|---|---|---|"]
        for name in (member for member in members if member in scenarios):
            one = scenarios[name].scenario
            cells = _cell(one.title), _cell(expected_words(one.expect))
            lines.append(f"| [{name}](scenarios/{name}.md) | {' | '.join(cells)} |")
    lines += ["", "## Properties that the checker decides", "", "| property | meaning |", "|---|---|"]
    lines += [f"| {str(name).replace('_', ' ')} | {p.promise} |" for name, p in PROMISES.items()]
    lines += ["", "## Findings", "", "| finding | in a few words | counts as |", "|---|---|---|"]
    lines += [f"| [{name}](findings/{name}.md) | {m.short} | {m.counts} |" for name, m in FINDINGS.items()]
    command = "lab suite --selftest"
    lines += ["", "## Broken locks", "", f"[Each, and what finds it](selftest.md): `{command} --full`."]
    lines += ["", "## Steps without effect on the verdict", ""]
    lines += [f"[Each of them, with a reason](selftest-scenarios.md): `{command} --scenarios`."]
    return "\n".join(lines) + "\n"


def _scenario(
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
        lines += [f"Expected findings: {links}.", ""]
    lines += ["```sh", *_commands(one), "```", ""]
    if shown:
        run = f"../../{GALLERY.as_posix()}/{one.name}"
        lines += [f"A run on real Redis ([its page]({run}/index.html)):", ""]
        lines += [f"![The timeline of a run]({run}/timeline.png)", ""]
    place = shipped(one.name).relative_to(scenario_dir())
    lines += [f"## scenarios/{place.as_posix()}", "", *_fenced(read(shipped(one.name)))]
    if control is not None:
        lines += ["", "## Its control", ""]
        lines += [f"{control.scenario.title}: {expected_words(control.scenario.expect)}.", ""]
        lines += _fenced(read(shipped(control.name)))
    return "\n".join(lines) + "\n"


def _commands(one: LoadedScenario) -> Iterator[str]:
    """The commands that run it; the simulation has neither published libraries nor other services."""
    lock = one.scenario.lock.name
    if is_driver(lock):
        yield f"lab drivers install {lock.removeprefix(PREFIX)}"
        yield f"lab run {one.name} --on local"
    elif one.scenario.cluster.service != "redis":
        yield f"lab run {one.name} --on local"
    else:
        yield f"lab run {one.name}"
        yield f"lab demo {one.name} --on sim"


def _finding(name: str, meaning: Meaning, scenarios: Mapping[str, LoadedScenario]) -> str:
    lines = [
        f"# {name}",
        "",
        NOTE,
        "",
        f"**{meaning.short[0].upper()}{meaning.short[1:]}**: {meaning.counts}.",
    ]
    lines += ["", meaning.text, ""]
    expecting = [one for one in scenarios.values() if name in (one.scenario.expect.findings or ())]
    if expecting:
        lines += ["## Scenarios that expect it", ""]
        lines += [f"- [{one.name}](../scenarios/{one.name}.md): {one.scenario.title}" for one in expecting]
        lines.append("")
    about = inspect.cleandoc(import_module(meaning.home).__doc__ or "")
    lines += [f"## How it is decided (`{meaning.home}`)", "", *_fenced(about, "text")]
    return "\n".join(lines) + "\n"


def _fenced(text: str, language: str = "yaml") -> list[str]:
    return [f"```{language}", text.rstrip("\n"), "```"]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_docs(out: Path, gallery: Path | None) -> list[Path]:
    """Write all pages below a directory, the gallery's index into it, the track record into docs/results.md.

    Pages of removed scenarios and findings are deleted.

    Raises:
        LabError: a scenario can't be loaded, or a matrix in the gallery is damaged.
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
    for directory in ("scenarios", "findings"):
        for path in (out / directory).glob("*.md"):
            if path not in found and NOTE in path.read_text(encoding="utf-8"):
                path.unlink()
    return list(found)


def main(words: list[str]) -> int:
    """Write the pages below the named directory, or ``docs``."""
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
