"""Pages for tests: of runs in the gallery, of hand-written histories, and of texts that mean harm."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from checker import check
from checker.formats import load
from checker.history.history import History
from checker.verdict import Verdict
from lab.analysis.comparison import Comparison
from lab.run.result import RunResult
from lab.run.stored import read_run
from lab.scenario.load import LoadedScenario, load_scenario, load_text
from tests.unit.report.conftest import DATA

GALLERY = Path(__file__).resolve().parents[3] / "reports" / "gallery"
SCENARIOS = sorted(path.parent.name for path in GALLERY.glob("*/history.jsonl"))

SCRIPT = "</script><script>window.harmed=1</script>"
IMAGE = "\"'><img src=x onerror=harmed=1>"
COMMENT = "<!--<script>{{ 7*7 }}"


@dataclass(frozen=True, slots=True)
class Harm:
    """Where each of the texts stands that mean harm."""

    title: str = f"title {SCRIPT}"
    client: str = f"alice {IMAGE}"
    key: str = f"key {COMMENT}"
    target: str = f"C {SCRIPT}"


def stored(name: str) -> RunResult:
    """A run of the gallery."""
    return read_run(GALLERY / name)


def by_hand(history: History, verdict: Verdict) -> RunResult:
    """A history without a run, told as if it were one of `healthy`."""
    return _with(RunResult(Path(), "healthy", verdict), history, load_scenario("healthy"))


def _with(result: RunResult, history: History, loaded: LoadedScenario) -> RunResult:
    """The result of a run that has no directory."""
    result.__dict__.update(history=history, loaded=loaded)
    return result


def harmful(directory: Path) -> RunResult:
    """The hand-written scenario with texts that mean harm wherever a user, or a client, can write one."""
    harm = Harm()
    text = (DATA / "partition-clockjump.jsonl").read_text(encoding="utf-8")
    lines = [json.loads(line, object_hook=lambda part: _spoilt(part, harm)) for line in text.splitlines()]
    path = directory / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    history = load(path)
    scenario = load_scenario("partition-clockjump").text.replace(
        "title: A node's clock jumps while each client sees another majority",
        f"title: {json.dumps(harm.title)}",
    )
    loaded = load_text(scenario, "harmful.yaml")
    result = RunResult(
        directory,
        f"harmful {SCRIPT}",
        check(history),
        Comparison(unknown=(f"because {SCRIPT}",)),
        repeat=f"lab run '{SCRIPT}' --seed 7",
        environment={"substrate": SCRIPT},
    )
    return _with(result, history, loaded)


def _spoilt(part: dict[str, object], harm: Harm) -> dict[str, object]:
    """One JSON object with the names in it replaced."""
    spoilt = {}
    for name, value in part.items():
        if value == "alice":
            value = harm.client
        elif name == "clients" and isinstance(value, list):
            value = [harm.client if one == "alice" else one for one in value]
        elif name == "key":
            value = harm.key
        elif name == "target":
            value = harm.target
        spoilt[name] = value
    return spoilt
