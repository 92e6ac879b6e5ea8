"""The doctor: what it concludes from what it finds, and how it says so."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from rich.console import Console

from lab import tools
from lab.api import doctor
from lab.api.doctor import Diagnosis
from lab.errors import ExitCode, LabError
from lab.faults.base import all_faults
from lab.tools import NAMES, Found, Missing

Have = Callable[..., None]


@pytest.fixture(autouse=True)
def no_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no-socket")


@pytest.fixture
def have(monkeypatch: pytest.MonkeyPatch) -> Have:
    """`have("redis-server", …)`: those tools are found, the others missing; shims are not really tried."""

    def these(*names: str, refused: dict[str, str] | None = None) -> None:
        def find(tool: str) -> Found | Missing:
            if tool in names:
                return Found(Path("/cached") / tool, "1.2.3", "cache")
            hint = f"apt-get install {tool}" if tool in tools.SERVICES else "lab setup"
            return Missing(f"{tool} is nowhere", hint, (refused or {}).get(tool))

        def preload_row(shim: Found | Missing) -> doctor.Row:
            status: doctor.Status = "ok" if isinstance(shim, Found) else "missing"
            return doctor.Row("LD_PRELOAD", status, None, None, None, "the shims to act")

        monkeypatch.setattr(tools, "find", find)
        monkeypatch.setattr(doctor, "_preload_row", preload_row)

    return these


def shown(diagnosis: Diagnosis, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, no_color=True)
    doctor.render(diagnosis, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def usable(diagnosis: Diagnosis) -> set[str]:
    return {fault.name for fault in diagnosis.faults if fault.available}


def test_everything_is_here(have: Have) -> None:
    have(*NAMES)
    diagnosis = doctor.diagnose()
    assert diagnosis.exit_code == ExitCode.EXPECTED
    assert usable(diagnosis) == {fault.name for fault in diagnosis.faults}
    assert diagnosis.command is None
    assert "lab setup" not in shown(diagnosis)


def test_servers_that_are_not_provided_are_no_lack_and_name_their_command(have: Have) -> None:
    have(*NAMES, "etcd")
    diagnosis = doctor.diagnose()
    rows = {row.item: row for row in diagnosis.rows}
    assert rows["etcd"].status == "ok"
    assert rows["zookeeper"].status == "missing"
    assert "zookeeper is nowhere: apt-get install zookeeper" in shown(diagnosis)
    assert diagnosis.command is None


@pytest.mark.parametrize("lacking", ["redis-server", "toxiproxy-server"])
def test_no_local_runs_without_its_programs(have: Have, lacking: str) -> None:
    have(*(name for name in NAMES if name != lacking))
    diagnosis = doctor.diagnose()
    assert diagnosis.exit_code == ExitCode.UNKNOWN
    assert usable(diagnosis) == set()
    text = shown(diagnosis)
    assert f"local runs:  not available (lacking: {lacking})" in text
    assert f"{lacking} is nowhere" in text
    assert text.count("lab setup") == 1


def test_without_shims_only_their_faults_are_lacking(have: Have) -> None:
    have("redis-server", "toxiproxy-server", "sync-shim")
    diagnosis = doctor.diagnose()
    assert diagnosis.exit_code == ExitCode.EXPECTED
    lacking = {fault.name: fault.lacks for fault in diagnosis.faults if not fault.available}
    assert lacking == {
        **dict.fromkeys(("jump", "drift", "strobe"), ("clock-shim", "LD_PRELOAD")),
        **dict.fromkeys(("power_cut", "stall_disk"), ("LD_PRELOAD",)),
    }
    assert diagnosis.command == "lab setup"


def test_an_old_one_is_called_old(have: Have) -> None:
    have("toxiproxy-server", refused={"redis-server": "5.0.7"})
    row = next(row for row in doctor.diagnose().rows if row.item == "redis-server")
    assert (row.status, row.version) == ("old", "5.0.7")


def test_words_carry_everything(have: Have) -> None:
    have("redis-server")
    text = shown(doctor.diagnose(), width=80)
    assert "\x1b" not in text
    assert re.search(r"^redis-server +ok +1\.2\.3 +cache", text, re.MULTILINE)
    assert re.search(r"^toxiproxy-server +missing", text, re.MULTILINE)
    assert all(len(line) <= 80 for line in text.splitlines())


def test_markup_in_a_reason_is_only_text(monkeypatch: pytest.MonkeyPatch, have: Have) -> None:
    have(*NAMES)
    diagnosis = doctor.diagnose(("error: [bold]not bold[/bold] [/]",))
    assert "[bold]not bold[/bold] [/]" in shown(diagnosis)


def test_json_form(have: Have) -> None:
    have("redis-server")
    form = json.loads(json.dumps(doctor.diagnose(("error: x",)).to_dict()))
    assert set(form) == {"rows", "substrates", "faults", "failures", "command", "exit_code"}
    assert form["exit_code"] == 3
    assert form["failures"] == ["error: x"]
    assert {row["item"] for row in form["rows"]} >= set(NAMES)
    assert form["substrates"][0] == {"name": "local", "available": False, "lacks": ["toxiproxy-server"]}


def test_setup_goes_on_after_a_failure(monkeypatch: pytest.MonkeyPatch, have: Have) -> None:
    have("redis-server", "clock-shim", "sync-shim")
    asked: list[str] = []

    def provide(tool: str, progress: Callable[[str], None]) -> Found:
        asked.append(tool)
        if tool == "toxiproxy-server":
            raise LabError("no way to get it")
        return Found(Path("/x"), "1", "cache")

    monkeypatch.setattr(tools, "provide", provide)
    said: list[str] = []
    diagnosis = doctor.setup(said.append)
    assert asked == list(NAMES)
    assert diagnosis.failures == ("error: no way to get it",)
    assert diagnosis.exit_code == ExitCode.UNKNOWN
    assert "error: no way to get it" in shown(diagnosis)
    assert "redis-server 1 (cache)" in said


def test_setup_says_once_that_the_cache_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    diagnosis = doctor.setup(lambda _: None)
    assert len(diagnosis.failures) == 1
    assert "cannot be written" in diagnosis.failures[0]
    assert diagnosis.exit_code == ExitCode.UNKNOWN


def test_a_child_really_sees_the_shifted_clock() -> None:
    shim = tools.find("clock-shim")
    if isinstance(shim, Missing):
        pytest.skip(f"{shim.reason}: run `lab setup`")
    assert doctor._preload_row(shim).status == "ok"


def test_a_preload_without_effect_is_seen(tmp_path: Path) -> None:
    row = doctor._preload_row(Found(tmp_path / "no.so", "1", "cache"))  # ld.so complains and goes on
    assert row.status == "missing"
    assert "does not see the shifted clock" in (row.reason or "")


def engine(diagnosis: Diagnosis) -> doctor.Row:
    return next(row for row in diagnosis.rows if row.item == "docker engine")


def test_no_engine(have: Have) -> None:
    have(*NAMES)
    diagnosis = doctor.diagnose()
    assert engine(diagnosis).status == "missing"
    assert "no docker engine: there is no socket" in (engine(diagnosis).reason or "")
    assert [each.available for each in diagnosis.substrates] == [True, False, True, True]


def test_the_doctor_knows_every_fault_the_lab_has_and_no_other() -> None:
    assert {fault.name for fault in doctor.diagnose().faults} == {fault.KEY for fault in all_faults()}


def test_the_simulation_needs_its_lua(have: Have, monkeypatch: pytest.MonkeyPatch) -> None:
    have()
    assert "sim runs:    available" in shown(doctor.diagnose())

    def not_installed(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "version", not_installed)
    text = shown(doctor.diagnose())
    assert "sim runs:    not available (lacking: lupa)" in text
    assert "the Python package lupa is not installed" in text
