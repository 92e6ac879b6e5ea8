"""The lab works from an installed wheel, in any directory: all it needs comes with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.lab_process import ROOT

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package alone, built as a wheel and unpacked where no checkout is."""
    return built(ROOT, tmp_path_factory.mktemp("wheel"))


def built(source: Path, directory: Path) -> Path:
    """Build a distribution as a wheel, and unpack it."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(directory)]
    subprocess.run([*pip, str(source)], check=True, capture_output=True)
    (wheel,) = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "site")
    return directory / "site"


def test_both_wheels_have_the_licence(installed: Path, tmp_path: Path) -> None:
    source = tmp_path / "checker"  # setuptools leaves files where it builds
    shutil.copytree(ROOT / "checker", source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    (tmp_path / "wheel").mkdir()
    for site in (installed, built(source, tmp_path / "wheel")):
        (licence,) = site.glob("*.dist-info/licenses/LICENSE")
        assert licence.read_bytes() == (ROOT / "LICENSE").read_bytes()
        (metadata,) = site.glob("*.dist-info/METADATA")
        assert "License-Expression: Apache-2.0" in metadata.read_text()
    assert not (installed / "checker" / "LICENSE").exists(), "that of the checker's own distribution"


def lab(installed: Path, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(installed), "DOCKER_HOST": f"unix://{directory}/no-engine"},
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def test_the_wheel_holds_what_runs_need_and_nothing_else(installed: Path) -> None:
    names = {path.name for path in installed.iterdir() if not path.name.endswith(".dist-info")}
    assert names == {"lab", "checker"}
    for part in (
        "lab/_scenarios/healthy.yaml",
        "lab/store/store.lua",
        "lab/shims/clock.c",
        "lab/py.typed",
        "lab/report/page/page.html.jinja",
        "lab/report/page/matrix.html.jinja",
        "lab/report/page/matrix.css",
        "lab/batch/matrix.yaml",
        "lab/report/page/page.css",
        "lab/report/page/store.js",
        "lab/report/page/timeline.js",
        "lab/report/demo/texts.yaml",
        "lab/_compose/node.Dockerfile",
        "lab/_scenarios/libraries/redis-py-lost-reply.yaml",
        "lab/drivers/registry.yaml",
        "lab/drivers/python/wire.py",
        "lab/drivers/go/wire.go",
        "lab/drivers/rslock/src/wire.rs",
        "lab/drivers/npm-redlock-5/package-lock.json",
        "lab/_scenarios/defects/second-comer.yaml",
        "lab/batch/suite.yaml",
        "lab/batch/references.yaml",
        "lab/api/pytest_plugin.py",
    ):
        assert (installed / part).is_file(), part


def test_a_run_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    where = subprocess.run(
        [sys.executable, "-c", "import lab, checker; print(lab.__file__, checker.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(ROOT) not in where.stdout
    assert "partition-clockjump" in lab(installed, tmp_path, "list").stdout
    run = lab(installed, tmp_path, "run", "partition-clockjump")
    assert run.returncode == 0, run.stdout + run.stderr
    assert (tmp_path / "reports/latest/timeline.png").exists()
    assert (tmp_path / "reports/latest/index.html").exists()
