"""A fault is one file: a new one that is only put among the others is run, drawn, shown and listed."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
import yaml

FREEZE = '''
"""``freeze`` and ``thaw``: nodes that stand still together."""

from __future__ import annotations

from lab.faults.base import Fault, Receipt, Target, named, node_names
from lab.faults.nemesis import End, Nemesis
from lab.scenario.fault_step import Drawing, Sign
from lab.scenario.types import Nodes
from lab.substrates.base import Capability, Cluster


class Freeze(Fault):
    """Nodes stand still together, until they thaw."""

    KEY = "freeze"
    EXAMPLE = "{nodes: [A, B]}"
    NEEDS = Capability.PAUSE_NODES
    BREAKS = "bounded process pauses"
    ENDED_BY = "thaw"
    DRAWN = Drawing("nodes", stops=True)
    SIGN = Sign("pause")
    TOOLS = ("ice-machine",)

    nodes: Nodes
    """The nodes that stand still."""

    @property
    def clause(self) -> str:
        return f"{named(self.nodes)} freeze"

    def target(self, cluster: Cluster) -> Target:
        names = node_names(self.nodes, cluster)
        return Target(f"frozen {', '.join(names)}", names)

    async def inject(self, cluster: Cluster) -> Receipt:
        nodes = [cluster.nodes[name] for name in node_names(self.nodes, cluster)]
        for node in nodes:
            await node.pause()
        states = {node.name: "".join(node.states().values()) for node in nodes}
        return Receipt(set(states.values()) == {"T"}, {"states": states})


class Thaw(End):
    """Let everything that is frozen go on."""

    KEY = "thaw"
    EXAMPLE = "{nodes: all}"
    SAYS = "thaws {}"

    nodes: Nodes
    """The nodes that go on."""

    async def end(self, nemesis: Nemesis) -> tuple[str, bool]:
        receipts = {}
        for fault in nemesis.lasting(self.KEY):
            async def action() -> Receipt:
                for name in fault.target.ends:
                    await nemesis.cluster.nodes[name].resume()
                return Receipt(True, {})
            receipts[fault.target.words] = await nemesis.close(fault, self.KEY, fault.target, action)
        return ", ".join(receipts), all(receipt.confirmed for receipt in receipts.values())

    @classmethod
    async def end_all(cls, nemesis: Nemesis) -> None:
        await cls(nodes="all").end(nemesis)
'''
HEAD: dict[str, Any] = {"title": "t", "source": "s", "why": "w", "clients": ["alice"]}
SCENARIO = {
    **HEAD,
    "expect": {"mutual_exclusion": "ok", "operations": {"alice acquires": "ok"}},
    "steps": [
        {"do": "alice acquires"},
        {"freeze": {"nodes": ["D", "E"]}},
        {"wait": "100ms"},
        {"do": "alice extends"},
        {"thaw": {"nodes": "all"}},
        {"do": "alice releases"},
    ],
}
DRAWN = {
    **HEAD,
    "expect": {"mutual_exclusion": "ok"},
    "workload": {"duration": "3s"},
    "faults": [{"fault": "freeze", "every": "500ms", "lasts": "100ms", "nodes": "one"}],
}
TRY = """
import contextlib, json, sys
from pathlib import Path

import lab.faults

lab.faults.__path__.append(sys.argv[1])  # the file is there, and nothing else is done

from checker import check
from checker.formats import load
from lab.api.doctor import diagnose, render
from lab.cli.app import call
from lab.errors import LabError
from lab.report.timeline.data import extract
from lab.scenario.load import load_text
from lab.scenario.schema import json_schema

def run(name):
    with contextlib.redirect_stdout(sys.stderr):
        code = call(["run", f"{name}.yaml", *"--on sim --seed 1 --picture never --out".split(), name])
    (path,) = Path(name).rglob("history.jsonl")
    return code, path

shown = {}
shown["code"], path = run("scenario")
shown["events"] = [json.loads(line) for line in path.read_text().splitlines()]
history = load(path)
scenario = extract(history, check(history), "scenario")
shown["signs"] = {node.name: [pause.kind for pause in node.pauses] for node in scenario.nodes}
shown["listed"] = [fault.name for fault in scenario.faults]
shown["drawn_code"], path = run("drawn")
shown["drawn"] = [json.loads(line) for line in path.read_text().splitlines()]
shown["doctor"] = {fault.name: list(fault.lacks) for fault in diagnose().faults}
shown["schema"] = "freeze" in json.dumps(json_schema())
try:
    load_text(Path("scenario.yaml").read_text().replace("freeze:", "freese:"), "s.yaml")
except LabError as error:
    shown["hint"] = error.hint
print(json.dumps(shown))
"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("freeze")
    more = place / "more"
    more.mkdir()
    (more / "freeze.py").write_text(FREEZE)
    for name, scenario in (("scenario", SCENARIO), ("drawn", DRAWN)):
        (place / f"{name}.yaml").write_text(yaml.safe_dump(scenario, sort_keys=False))
    ran = subprocess.run(
        [sys.executable, "-c", TRY, str(more)], cwd=place, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def nemesis(events: list[dict[str, Any]], kind: str) -> list[tuple[str, list[str]]]:
    return [(e["f"], e["targets"]) for e in events if e.get("process") == "nemesis" and e.get("type") == kind]


def test_it_is_a_step_of_a_scenario_with_a_receipt_and_an_end(shown: dict[str, Any]) -> None:
    assert shown["code"] == 0
    assert nemesis(shown["events"], "ok") == [("freeze", ["D", "E"]), ("thaw", ["D", "E"])]
    (injected,) = [e for e in shown["events"] if e.get("f") == "freeze" and e["type"] == "ok"]
    assert injected["receipt"] == {"states": {"D": "T", "E": "T"}}
    assert injected["breaks"] == "bounded process pauses"


def test_a_workload_draws_it(shown: dict[str, Any]) -> None:
    assert shown["drawn_code"] == 0
    done = nemesis(shown["drawn"], "ok")
    assert len(done) >= 4
    assert {f for f, _ in done} == {"freeze", "thaw"}
    assert not nemesis(shown["drawn"], "fail")


def test_it_has_its_sign_in_the_picture(shown: dict[str, Any]) -> None:
    assert shown["listed"] == ["freeze"]
    assert shown["signs"] == {"A": [], "B": [], "C": [], "D": ["pause"], "E": ["pause"]}


def test_the_doctor_lists_it(shown: dict[str, Any]) -> None:
    assert shown["doctor"]["freeze"][-1:] == ["ice-machine"]
    assert "ice-machine" not in shown["doctor"]["pause"]


def test_its_key_is_known_to_the_schema_and_to_the_hints(shown: dict[str, Any]) -> None:
    assert shown["schema"]
    assert shown["hint"] == 'did you mean "freeze"?'
