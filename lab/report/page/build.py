"""From the result of a run to the text of its page.

All texts go through the template's escaping or, as data for the pictures, through JSON without any `<`; the
scripts put them into the document as text. The page's content security policy forbids every other script and
every request.
"""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from checker.verdict import Outcome, Verdict
from lab.errors import ExitCode
from lab.report.belief import belief_lines
from lab.report.figures.views import Views, views_of
from lab.report.meanings import FINDINGS, PROMISES, headline
from lab.report.page.assets import asset, sha256, template
from lab.report.terminal import measure_lines
from lab.report.timeline import style
from lab.report.timeline.data import extract
from lab.report.timeline.marks import Scene, scene_of, when
from lab.report.timeline.model import Timeline
from lab.report.timeline.words import clean
from lab.run.result import RunResult

SCRIPTS = ("dom.js", "store.js", "timeline.js", "control.js", "plots.js")
_SIGNS = {"violated": "✗", "unknown": "?", "absent": "–", "ok": "✓"}
_TONES = 10
_FILES = (
    "scenario.yaml",
    "history.jsonl",
    "verdict.json",
    "schedule.json",
    "timeline.svg",
    "timeline.png",
    "logs",
)


def page(result: RunResult, directory: Path) -> str:
    """The whole page; it links to the files that exist in `directory`."""
    verdict, scenario = result.verdict, result.loaded.scenario
    timeline = extract(result.history, verdict, scenario.title)
    views, scene = views_of(result.history, verdict), scene_of(timeline)
    script = "\n".join(asset(name) for name in SCRIPTS)
    sheet = _style()
    return template("page.html.jinja").render(
        name=clean(result.name, 120),
        title=timeline.title,
        **_ending(result),
        properties=_properties(verdict),
        notes=timeline.notes,
        findings=_findings(timeline, scene),
        belief=belief_lines(result.belief) if result.belief else [],
        remarks=verdict.remarks,
        faults=[{**msgspec.to_builtins(fault), "when": when(fault.span)} for fault in timeline.faults],
        figures=_figures(views),
        measures=measure_lines(result.measures) if result.measures else [],
        why=[part for part in scenario.why.strip().split("\n\n") if part],
        source=scenario.source,
        repeat=result.repeat or f"lab run {shlex.quote(result.name)}",
        facts=_facts(result),
        nodes=clean(_nodes(result), 120),
        substrate=clean(result.environment.get("substrate", ""), 40),
        scenario=result.loaded.text,
        files=[name for name in _FILES if name == "verdict.json" or (directory / name).exists()],
        style=sheet,
        style_hash=sha256(sheet),
        data=_json({"scene": scene, "views": views}),
        script=script,
        script_hash=sha256(script),
    )


def preload() -> None:
    """Build what is the same on every page, before there is one to write."""
    template("page.html.jinja")
    _style()


@cache
def _style() -> str:
    """The style sheet with the clients' colours, which are those of the picture on paper."""
    rules = []
    for at in range(_TONES):
        tone = style.tone(at)
        rules.append(_tone_rule(f".tone{at}", tone))
        dark = f"--text: {tone.light}; --light: color-mix(in srgb, {tone.solid} 45%, var(--paper));"
        rules.append(f"@media screen and (prefers-color-scheme: dark) {{ .tone{at} {{ {dark} }} }}")
    rules.append(_tone_rule(".unowned", style.UNOWNED))
    rules.append(
        "@media screen and (prefers-color-scheme: dark) { .unowned { --text: #b5b5b5; --light: #444; } }"
    )
    rules.append("svg .name { fill: var(--text, var(--ink)); }\nsvg .name.unowned { fill: var(--ink); }")
    return "\n".join([asset("page.css"), *rules])


def _tone_rule(selector: str, tone: style.Tone) -> str:
    inside = f"--solid: {tone.solid}; --light: {tone.light}; --text: {tone.text}; --on: {tone.on_solid};"
    return f"{selector} {{ {inside} }}"


def _json(data: object) -> str:
    """JSON for a script element: nothing in it can end the element or begin a comment."""
    text = msgspec.json.encode(data).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _ending(result: RunResult) -> dict[str, Any]:
    """The result in two sentences: whether it was as expected, and what happened."""
    verdict, compared = result.verdict, result.comparison
    violated = any(seen.outcome is Outcome.VIOLATED for seen in verdict.properties.values())
    ending, status = {
        ExitCode.EXPECTED: ("As expected.", "bad" if violated else "fine"),
        ExitCode.UNEXPECTED: ("Not as expected.", "bad"),
    }.get(result.exit_code, ("Unknown: not everything that was expected could be decided.", "doubt"))
    return {
        "ending": ending,
        "headline": headline(verdict),
        "status": status,
        "mismatches": [f"expected {m.what}: {m.expected}; seen: {m.seen}" for m in compared.mismatches],
        "unknown": [clean(reason, 400) for reason in compared.unknown],
    }


def _properties(verdict: Verdict) -> list[dict[str, str]]:
    return [
        {
            "plain": PROMISES[name].promise,
            "name": str(name).replace("_", " "),
            "outcome": str(seen.outcome),
            "sign": _SIGNS[str(seen.outcome)],
            "why": clean(seen.why, 600),
        }
        for name, seen in verdict.properties.items()
    ]


def _findings(timeline: Timeline, scene: Scene) -> list[dict[str, Any]]:
    drawn = {name for mark in scene.marks for name in (*mark.findings, *mark.warnings)}
    return [
        {
            **msgspec.to_builtins(finding),
            "meaning": FINDINGS[finding.name].short if finding.name in FINDINGS else "",
            "shown": finding.name in drawn,
        }
        for finding in timeline.findings
    ]


def _figures(views: Views) -> list[dict[str, Any]]:
    rows = (
        ("graph", "What depends on what", views.graph.edges, views.graph.summary, ""),
        (
            "fencing",
            "Fencing tokens over time",
            views.fencing.points,
            views.fencing.summary,
            "Circle: granted; box: a write that was accepted; cross: a write that was rejected.",
        ),
        (
            "availability",
            "When the lock could be acquired",
            views.availability.rows,
            views.availability.summary,
            "Full: acquired; struck through: requested in vain; thin: no request.",
        ),
        (
            "latency",
            "How long each operation took",
            views.latency.points,
            views.latency.summary,
            "Circle: acquire or extend; triangle: release; box: write; hollow box: read; cross: refused.",
        ),
    )
    return [
        {"id": name, "title": title, "drawn": bool(drawn), "summary": summary, "key": key}
        for name, title, drawn, summary, key in rows
    ]


def _nodes(result: RunResult) -> str:
    """How many nodes, of which server."""
    count = result.loaded.scenario.cluster.nodes
    return f"{count} nodes of {result.servers}" if result.servers else f"{count} nodes"


def _facts(result: RunResult) -> str:
    """The seed, the lock, the nodes, the substrate and versions."""
    words = shlex.split(result.repeat or "")
    seed = words[words.index("--seed") + 1] if "--seed" in words[:-1] else None
    lock, cluster = result.loaded.scenario.lock, result.loaded.scenario.cluster
    facts = [f"seed {seed}"] if seed is not None else []
    facts += [f"lock {lock.name}", f"{_nodes(result)}, {cluster.keeping}"]
    facts += [f"{name} {version}" for name, version in result.environment.items() if name != "server"]
    return clean(" · ".join(facts), 600)
