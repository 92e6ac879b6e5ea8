"""The distributions of the lab and of the checker: licence, lower bounds, the versions that are tested."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.rules.test_rules import ROOT

CONSTRAINTS = ROOT / "constraints.txt"
BUILDERS = ("hatchling", "setuptools")
DISTRIBUTIONS = [ROOT / "pyproject.toml", ROOT / "checker" / "pyproject.toml"]


def project(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    return found


def requirements(path: Path) -> Iterator[Requirement]:
    """What a distribution requires, with all of its extras, besides itself."""
    about = project(path)["project"]
    for text in chain(about["dependencies"], *about["optional-dependencies"].values()):
        if (requirement := Requirement(text)).name != about["name"]:
            yield requirement


def pinned() -> dict[str, Version]:
    """Package → the one version that the tests run with."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", line)] == []
    found = {canonicalize_name(name): Version(version) for name, version in (p.split("==") for p in pins)}
    assert len(found) == len(pins), "each package once"
    return {str(name): version for name, version in found.items()}


@pytest.mark.parametrize("path", DISTRIBUTIONS, ids=lambda path: path.parent.name)
def test_users_get_lower_bounds_and_the_tests_run_above_them(path: Path) -> None:
    versions = pinned()
    for requirement in requirements(path):
        assert [one.operator for one in requirement.specifier] == [">="], f"{requirement}: a lower bound"
        assert versions[canonicalize_name(requirement.name)] in requirement.specifier


def test_the_bounds_of_the_checker_are_those_of_the_lab() -> None:
    lab, checker = ({one.name: str(one) for one in requirements(path)} for path in DISTRIBUTIONS)
    assert checker.items() <= lab.items()


def test_the_constraints_are_complete() -> None:
    """Everything that is installed here because the lab needs it has the version that they say."""
    versions, seen = pinned(), set[str]()

    def walk(name: str, extras: frozenset[str]) -> None:
        key = canonicalize_name(name)
        if key in seen and not extras:
            return
        try:
            installed = distribution(name)
        except PackageNotFoundError:  # for another platform, or an extra that is not installed here
            return
        seen.add(key)
        if key != "lock-lab":
            assert str(versions.get(key)) == str(Version(installed.version)), name
        for text in installed.requires or ():
            one = Requirement(text)
            wanted = [{"extra": extra} for extra in extras] or [{"extra": ""}]
            if one.marker is None or any(one.marker.evaluate(each) for each in wanted):
                walk(one.name, frozenset(one.extras))

    walk("lock-lab", frozenset({"dev", "consensus", "distributed", "notebooks", "scale"}))
    assert len(seen) > 20


@pytest.mark.parametrize("path", DISTRIBUTIONS, ids=lambda path: path.parent.name)
def test_both_distributions_have_the_licence(path: Path) -> None:
    about = project(path)["project"]
    assert about["license"] == "Apache-2.0"
    assert about["license-files"] == ["LICENSE"]
    text = (path.parent / "LICENSE").read_text(encoding="utf-8")
    assert text == (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_make_and_ci_install_what_is_pinned() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = [line for line in makefile.splitlines() if "pip install" in line or "$(INSTALL)" in line]
    assert "PIP_CONSTRAINT=constraints.txt" in makefile
    assert len(installs) == 3
    assert "--constraint constraints.txt ." in (ROOT / ".github/workflows/ci.yml").read_text()
    for builder in BUILDERS:
        assert canonicalize_name(builder) in pinned()
