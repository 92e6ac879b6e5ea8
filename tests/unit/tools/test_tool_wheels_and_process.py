"""Programs out of wheels, and subprocesses that end."""

from __future__ import annotations

import importlib.util
import io
import os
import sys
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest

from lab.drivers import environment, registry
from lab.errors import LabError
from lab.tools import wheels
from lab.tools.model import SourceFailed
from lab.tools.process import build_timeout_s, run

SH = "/bin/sh"


def make_wheel(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        program = zipfile.ZipInfo("pkg/bin/program")
        program.external_attr = 0o100755 << 16
        archive.writestr(program, "run")
        archive.writestr("pkg/readme", "text")
        archive.writestr("../outside", "evil")
    return path


def test_unpack_keeps_the_executable_bit(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "a.whl")
    unpacked = wheels.unpack(wheel, tmp_path / "out", lambda name: name.startswith("pkg/"))
    assert [path.name for path in unpacked] == ["program", "readme"]
    assert os.access(unpacked[0], os.X_OK)
    assert not unpacked[1].stat().st_mode & 0o111


def test_unpack_stays_inside(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "a.whl")
    wheels.unpack(wheel, tmp_path / "out", lambda _: True)
    assert not (tmp_path / "outside").exists()


def test_unpack_of_nothing_or_of_rubbish(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "a.whl")
    with pytest.raises(SourceFailed, match=r"a\.whl does not hold"):
        wheels.unpack(wheel, tmp_path / "out", lambda _: False)
    wheel.write_bytes(b"not a zip file")
    with pytest.raises(SourceFailed, match="could not be unpacked"):
        wheels.unpack(wheel, tmp_path / "out", lambda _: True)


def test_an_interpreter_without_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SourceFailed, match="has no pip"):
        wheels.download("x==1", tmp_path, lambda _: None)


def test_a_wheel_from_a_local_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """pip itself, on a directory of wheels: no network."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    with zipfile.ZipFile(shelf / "thing-1.0-cp311-cp311-manylinux_2_17_x86_64.whl", "w") as archive:
        archive.writestr("thing/bin/thing", "run")
        archive.writestr("thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1.0\n")
        archive.writestr("thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    target = tmp_path / "target"
    target.mkdir()
    interpreter = ("--python-version=3.11", "--implementation=cp", "--abi=cp311")
    tags = (*interpreter, "--platform=manylinux_2_17_x86_64")
    assert wheels.download("thing==1.0", target, lambda _: None, tags=tags).name.startswith("thing-1.0-")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(SourceFailed, match="No matching distribution"):
        wheels.download("thing==2.0", empty, lambda _: None, tags=tags)


@pytest.mark.full
def test_what_has_no_wheel_for_the_other_interpreter_is_built_if_it_fits_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A library as a source only, and what it needs as wheels: one for that interpreter, one for ours."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    ours = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}"
    for tag, text in (("cp39-cp39-manylinux2014_x86_64", "theirs"), (f"{ours}-linux_x86_64", "ours")):
        with zipfile.ZipFile(shelf / f"fast-1.0-{tag}.whl", "w") as archive:
            archive.writestr("fast.py", text)
            archive.writestr(
                "fast-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: fast\nVersion: 1.0\n"
            )
            archive.writestr("fast-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            archive.writestr("fast-1.0.dist-info/RECORD", "")
    backend = (
        "import zipfile, os\n"
        "def build_wheel(directory, *_):\n"
        "    name = 'slow-1.0-py3-none-any.whl'\n"
        "    with zipfile.ZipFile(os.path.join(directory, name), 'w') as archive:\n"
        "        archive.writestr('slow.py', 'built')\n"
        "        archive.writestr('slow-1.0.dist-info/METADATA',\n"
        "            'Metadata-Version: 2.1\\nName: slow\\nVersion: 1.0\\nRequires-Dist: fast==1.0\\n')\n"
        "        archive.writestr('slow-1.0.dist-info/WHEEL',\n"
        "            'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')\n"
        "        archive.writestr('slow-1.0.dist-info/RECORD', '')\n"
        "    return name\n"
    )
    project = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    with tarfile.open(shelf / "slow-1.0.tar.gz", "w:gz") as archive:
        for name, text in (
            ("backend.py", backend),
            ("pyproject.toml", project),
            ("PKG-INFO", "Metadata-Version: 2.1\nName: slow\nVersion: 1.0\n"),
        ):
            member = tarfile.TarInfo(f"slow-1.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    interpreter = ("--python-version=3.9", "--implementation=cp", "--abi=cp39", "--abi=none")
    tags = (*interpreter, "--platform=manylinux2014_x86_64")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    wheels.install(["slow==1.0"], tmp_path / "site", scratch, tags=tags)
    assert (tmp_path / "site" / "slow.py").read_text() == "built"
    assert (tmp_path / "site" / "fast.py").read_text() == "theirs"
    with pytest.raises(SourceFailed, match="No matching distribution"):
        wheels.install(["slow==2.0"], tmp_path / "site", scratch, tags=tags)


def test_run_gives_output_or_the_reason(tmp_path: Path) -> None:
    assert run([SH, "-c", "echo out; echo err >&2"], timeout_s=60) == "out\nerr"
    assert run([SH, "-c", "echo $X"], timeout_s=60, env={"X": "laid over"}) == "laid over"
    assert run([SH, "-c", "pwd"], timeout_s=60, cwd=tmp_path) == str(tmp_path)
    with pytest.raises(SourceFailed, match=r"sh failed \(exit code 3\): an error: x$"):
        run([SH, "-c", "echo an error: x; echo noise; exit 3"], timeout_s=60)
    with pytest.raises(SourceFailed, match=r"killed by SIGKILL\): it said nothing"):
        run([SH, "-c", "kill -9 $$"], timeout_s=60)
    with pytest.raises(SourceFailed, match="could not be started: No such file"):
        run([tmp_path / "nothing"], timeout_s=60)


def test_run_out_of_time_ends_the_whole_group() -> None:
    """The grandchild holds a pipe to us: it reads as ended only when the last holder is gone."""
    read, write = os.pipe()
    os.set_inheritable(write, True)
    script = "import os, subprocess, sys; subprocess.run(['sleep', '1000'], close_fds=False)"
    child = f"import os, subprocess, sys\n{script}"
    with pytest.raises(SourceFailed, match=r"was ended after 0\.5 s, before it had finished"):
        _run_with_inherited(child, write)
    os.close(write)
    assert os.read(read, 1) == b"", "someone still holds the pipe"
    os.close(read)


def test_the_time_for_a_build_grows_with_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    limits = []
    for load in (0.0, 2.0, 8.0, 1000.0):
        monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
        limits.append(build_timeout_s())
    assert limits == [600.0, 600.0, 2400.0, 3600.0]


@pytest.mark.parametrize(("load", "busy"), [(25.0, True), (1.0, False)])
def test_a_driver_whose_build_ran_out_of_time_says_so_and_blames_no_registry(
    load: float, busy: bool, monkeypatch: pytest.MonkeyPatch, own_cache: Path
) -> None:
    row = msgspec.structs.replace(registry.row("rslock"), install=(("sleep", "60"),), needs=())
    monkeypatch.setattr(environment, "row", lambda _: row)
    monkeypatch.setattr(environment, "build_timeout_s", lambda: 0.2)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    said: list[str] = []
    with pytest.raises(LabError) as caught:
        environment.install("rslock", said.append)
    assert "sleep was ended after 0.2 s, before it had finished: sleep 60" in caught.value.seen
    assert ("busy (load 25.0 on 2 cores)" in str(caught.value.hint)) is busy
    assert "try again" in str(caught.value.hint)
    assert "registry" not in str(caught.value.hint)
    assert any("at most 0 s for each command" in line for line in said)


def _run_with_inherited(script: str, descriptor: int) -> None:
    # run() closes descriptors on exec, as it should; /proc hands this one to the child by name.
    opened = f"import os; kept = os.open('/proc/{os.getpid()}/fd/{descriptor}', os.O_WRONLY)\n"
    inherit = "os.set_inheritable(kept, True)\n"
    run([sys.executable, "-c", opened + inherit + script], timeout_s=0.5)
