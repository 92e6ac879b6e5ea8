"""The index of scenarios, the findings, the claims, and the gallery's index: ``python -m lab.report.docs``.

Pictures in the analyses of libraries are drawn where they are missing; ``--pictures`` draws all of them anew.

The texts come from their sources: scenarios from their YAML files, findings from `lab.report.meanings`,
claims from `lab/scenario/claims.yaml`, implementations from the registry of drivers, runs from their
verdicts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from checker.formats.whole import write_whole
from lab.drivers.registry import rows
from lab.errors import ExitCode, LabError
from lab.report.analyses import NOTES, analyses, draw_pictures
from lab.report.arguments import claims_page, implementations_page, scenario_link
from lab.report.meanings import FINDINGS, PROMISES
from lab.report.record import matrix_sections, with_record
from lab.report.servers import with_servers
from lab.report.tables import markdown_table
from lab.report.words import expected_words, verdict_words
from lab.scenario.claims import claim_rows
from lab.scenario.files import (
    cluster_names,
    consensus_names,
    defect_names,
    every_name,
    library_names,
    names,
    sentinel_names,
)
from lab.scenario.load import LoadedScenario, load_scenario

NOTE: Final = "<!-- Written by `lab.report.docs` from the files themselves: change those, not this page. -->"
GALLERY: Final = Path("reports", "gallery")
PICTURES: Final = "--pictures"
ANALYSES: Final = "analyses"
"""The directory of pages about libraries."""
SCENARIOS: Final = """\
A scenario is a file. Its `source` says who claims it and where, its `why` what a reader learns from it.
`lab list NAME` prints it, `lab run NAME` runs it, `lab demo NAME --on sim` shows it step by step. Beside
each stands its control, `NAME-control.yaml`: the same scenario without the decisive fault, which must come
out clean. Those about libraries need the library (`lab drivers install NAME`, with the name in the file's
`lock`), those about locks by consensus need their servers; neither runs on `sim`. Those about Redis Cluster
run on `local` and `docker`.
[findings.md](findings.md) says what the findings mean, [claims.md](claims.md) has the claims by number,
[results.md](results.md) how often each came out as expected."""
GROUPS: Final[Mapping[str, Callable[[], Iterable[str]]]] = {
    "About locks and their assumptions": names,
    "Defects: a correct lock passes, one with the defect does not": defect_names,
    "About libraries": library_names,
    "About locks by consensus": consensus_names,
    "About Redis Sentinel": sentinel_names,
    "About Redis Cluster": cluster_names,
}
"""The groups of scenarios, each with what lists its names."""


def pages(gallery: Path | None = None, out: Path | None = None) -> dict[str, str]:
    """All pages, by their name in the directory of documents.

    Args:
        out: that directory; the analyses of libraries are among them if their notes are there.
        gallery: a directory of runs; pages link to a run of their scenario there, relative to the repository.

    Raises:
        LabError: a scenario can't be loaded.
    """
    loaded = {name: load_scenario(name) for name in every_name()}
    scenarios = {name: one for name, one in loaded.items() if not one.scenario.control_of}
    shown = {run.name for run in runs(gallery)} if gallery else set()
    found = {
        "scenarios.md": _scenarios(scenarios, shown),
        "findings.md": _findings(scenarios),
        "claims.md": claims_page(claim_rows(), NOTE),
        "implementations.md": implementations_page(rows(), scenarios, NOTE),
    }
    if out is not None and (out / ANALYSES / NOTES).is_file():
        of_libraries = analyses(out / ANALYSES, gallery, NOTE)
        found |= {f"{ANALYSES}/{name}": text for name, text in of_libraries.items()}
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
        sections += ["", f"[The scenario](../../scenarios/{run.name}.yaml)"]
    return "\n".join([*lines, *sections, *matrix_sections(gallery)]) + "\n"


def _verdict(run: Path) -> str:
    """A stored verdict in a few words."""
    kept = msgspec.json.decode((run / "verdict.json").read_bytes(), type=dict[str, Any])
    properties = kept["verdict"]["properties"]
    found = [f["name"] for p in properties.values() for f in p["findings"] if f["severity"] == "violation"]
    return verdict_words({name: seen["outcome"] for name, seen in properties.items()}, found)


def _scenarios(scenarios: Mapping[str, LoadedScenario], shown: Collection[str]) -> str:
    lines = ["# Scenarios", "", NOTE, "", SCENARIOS]
    for title, members in GROUPS.items():
        lines += ["", f"## {title}", ""]
        body = []
        for name in (member for member in members() if member in scenarios):
            one = scenarios[name].scenario
            run = f" ([a run](../{GALLERY.as_posix()}/README.md#{name}))" if name in shown else ""
            numbers = ", ".join(f"[{n}](claims.md#claim-{n})" for n in one.claims)
            body.append(
                (f"{scenario_link(name)}{run}", one.title, expected_words(one.expect), numbers or "–")
            )
        lines.append(markdown_table(("scenario", "what happens", "expected", "claims"), body).rstrip("\n"))
    return "\n".join(lines) + "\n"


def _findings(scenarios: Mapping[str, LoadedScenario]) -> str:
    lines = ["# Properties and findings", "", NOTE, ""]
    lines += ["What the checker decides; [checker.md](checker.md) has the definitions and the proofs.", ""]
    properties = ((str(name).replace("_", " "), one.promise) for name, one in PROMISES.items())
    lines += [markdown_table(("property", "meaning"), properties).rstrip("\n")]
    for name, meaning in FINDINGS.items():
        module = Path(*meaning.home.split(".")).with_suffix(".py").as_posix()
        counts = f"It {'' if meaning.counts.startswith('violates') else 'is '}{meaning.counts}."
        lines += ["", f"## {name}", "", meaning.text, ""]
        lines += [f"{counts} How it is decided: [`{meaning.home}`](../{module})."]
        expecting = [one for one in scenarios if name in (scenarios[one].scenario.expect.findings or ())]
        if expecting:
            lines += ["", f"Scenarios that expect it: {', '.join(map(scenario_link, expecting))}."]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def write_docs(out: Path, gallery: Path | None, *, pictures_anew: bool = False) -> list[Path]:
    """Write all pages below a directory, the gallery's index, the tables in docs/results.md and servers.md.

    And the pictures of the analyses: those that are missing, or with ``pictures_anew`` all.

    Raises:
        LabError: a scenario can't be loaded, or a matrix in the gallery is damaged.
        OSError: a file cannot be written.
    """
    found = {out / name: text for name, text in pages(gallery, out).items()}
    if gallery:
        found[gallery / "README.md"] = gallery_index(gallery)
        docs = gallery.parents[1] / "docs"
        for page, marked in (("results.md", with_record), ("servers.md", with_servers)):
            if (docs / page).is_file():
                found[docs / page] = marked((docs / page).read_text(encoding="utf-8"), gallery)
    for path, text in found.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)
    drawn = []
    if gallery and (out / ANALYSES / NOTES).is_file():
        drawn = draw_pictures(out / ANALYSES, gallery, anew=pictures_anew)
    return [*found, *drawn]


def main(words: list[str]) -> int:
    """Write the pages below the named directory, or ``docs``."""
    named = [word for word in words if word != PICTURES]
    out = Path(named[0] if named else "docs")
    try:
        written = write_docs(out, GALLERY if GALLERY.is_dir() else None, pictures_anew=PICTURES in words)
    except (LabError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.USAGE
    sys.stdout.write(f"{len(written)} pages below {out}\n")
    return ExitCode.EXPECTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
