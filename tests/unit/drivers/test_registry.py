"""The registry of drivers, and the environments that are made from it."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.drivers import environment, registry
from lab.drivers.registry import HERE, Row
from lab.errors import LabError
from lab.locks import BUILT_IN
from tests.shipped import summaries

ROWS = registry.rows()


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_either_pinned_and_complete_or_says_what_is_lacking(name: str) -> None:
    row = ROWS[name]
    if row.unavailable:
        assert (row.install, row.command, row.sources) == ((), (), ())
        return
    assert row.version
    assert row.command
    assert row.install or row.shares
    for source in row.sources:
        assert (HERE / source).exists()
    for word in row.command:
        if word.startswith("{here}"):
            assert Path(word.replace("{here}", str(HERE))).is_file()


LISTED = {"Ruby", "Python", "PHP", "Go", "Java", "Perl", "C++", "C#", "JavaScript"}
"""The languages of the implementations that Redlock's page lists."""


def test_every_language_that_the_page_lists_has_a_row() -> None:
    assert {row.language for row in ROWS.values() if row.listed} == LISTED
    unexamined = [row for row in ROWS.values() if row.listed and row.unavailable and not row.modelled]
    assert all("a driver in " in row.unavailable for row in unexamined)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.modelled])
def test_what_a_row_is_modelled_by_is_a_lock_with_scenarios(name: str) -> None:
    assert ROWS[name].modelled in BUILT_IN
    assert ROWS[name].unavailable, "what is driven needs no model"
    scenarios = [one for one in summaries().values() if one.lock == ROWS[name].modelled and one.control]
    assert len(scenarios) >= 3


def test_the_library_that_a_text_about_redlock_introduces_is_the_one_in_its_row() -> None:
    assert ROWS["redlock-hyperf"].library == "zonghay/redlock-hyperf"


@pytest.mark.parametrize(
    "name", [name for name, row in ROWS.items() if row.registry == "PyPI" and row.install]
)
def test_everything_that_pip_installs_is_pinned(name: str) -> None:
    pip = ROWS[name].install[-1]
    packages = pip[pip.index("--quiet") + 1 :]
    assert packages[0] == f"{ROWS[name].library}=={ROWS[name].version}"
    assert all("==" in package for package in packages)


def test_an_unknown_driver_is_told_with_the_nearest() -> None:
    with pytest.raises(LabError, match="no driver called 'potery'") as caught:
        registry.row("potery")
    assert caught.value.hint == "did you mean 'pottery'?"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A registry of its own, and a cache of its own."""
    sources = tmp_path / "sources"
    (sources / "toy").mkdir(parents=True)
    (sources / "toy" / "driver.txt").write_text("first")
    row = Row("toy", "1", "none", "sh", "MIT", "a toy", sources=("toy",), files=("made",))
    rows = {
        "toy": _with(row, install=(("touch", "made"),), command=("{env}/driver.txt", "{here}")),
        "twin": _with(
            row, shares="toy", command=("{env}/made",), sources=(), files=(), environment={"TOYS": "{env}"}
        ),
        "broken": _with(row, install=(("false",),)),
        "empty": _with(row, install=(("true",),)),
        "lacking": _with(row, needs=("no-such-program-anywhere",)),
        "none": _with(row, unavailable="a driver"),
    }
    monkeypatch.setattr(registry, "rows", lambda: rows)
    monkeypatch.setattr(environment, "HERE", sources)
    monkeypatch.setenv("LOCK_LAB_CACHE", str(tmp_path / "cache"))
    return sources


def _with(row: Row, **changes: object) -> Row:
    import msgspec

    return msgspec.structs.replace(row, **changes)


def test_an_environment_is_made_once_and_again_when_its_sources_change(toy: Path) -> None:
    reported: list[str] = []
    assert environment.why_not("toy") == "it is not installed: lab drivers install toy"
    env = environment.install("toy", reported.append)
    assert [line.partition(", at most")[0] for line in reported] == ["toy: installing toy 1 (none)"]
    assert (env / "driver.txt").read_text() == "first"
    assert environment.install("toy", reported.append) == env
    assert len(reported) == 1
    assert environment.launch("toy") == (str(env / "driver.txt"), str(toy))
    assert environment.launch("twin") == ("env", f"TOYS={env}", str(env / "made"))
    (toy / "toy" / "driver.txt").write_text("second")
    assert not environment.installed("toy")
    assert environment.install("toy", reported.append) != env


def test_what_was_left_half_made_is_made_again(toy: Path) -> None:
    env = environment.directory("toy")
    env.mkdir(parents=True)
    (env / "rubbish").touch()
    assert environment.why_not("toy") is not None
    environment.install("toy", lambda line: None)
    assert not (env / "rubbish").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broken", "exit code 1"),
        ("empty", "made is missing afterwards"),
        ("lacking", "no-such-program-anywhere"),
        ("none", "no driver for 'none' yet: a driver"),
    ],
)
def test_what_cannot_be_made_is_told_and_leaves_nothing(toy: Path, name: str, words: str) -> None:
    with pytest.raises(LabError) as caught:
        environment.install(name, lambda line: None)
    assert words in caught.value.render()
    assert not environment.installed(name)
    assert not environment.directory(name).exists()


def test_a_driver_that_is_not_there_is_told_with_the_command_that_helps(toy: Path) -> None:
    with pytest.raises(LabError) as caught:
        environment.launch("toy")
    assert caught.value.hint == "lab drivers install toy"


def test_a_command_line_is_split_as_a_shell_does() -> None:
    assert environment.launch_of("node 'my driver.js' --fast") == ("node", "my driver.js", "--fast")
    with pytest.raises(LabError, match="No closing quotation"):
        environment.launch_of("node 'my")


PINS: dict[str, Callable[[Path], dict[str, str]]] = {
    "npm": lambda room: json.loads((room / "package.json").read_text())["dependencies"],
    "Go modules": lambda room: dict(
        re.findall(r"^(?:require|\t)\s*(\S+) v(\S+)$", (room / "go.mod").read_text(), re.MULTILINE)
    ),
    "crates.io": lambda room: cargo_pins(room / "Cargo.toml"),
    "Maven Central": lambda room: dict(
        re.findall(
            r"<artifactId>([^<]+)</artifactId>\s*<version>([^<]+)</version>\s*</dependency>",
            (room / "pom.xml").read_text(),
        )
    ),
}
"""Where versions are pinned that are not in the row itself: each package and its version."""


def cargo_pins(manifest: Path) -> dict[str, str]:
    """Each crate of a Cargo.toml and the version that it asks for, the equals sign included."""
    reported = tomllib.loads(manifest.read_text())
    tables = [
        reported["dependencies"],
        *(target["dependencies"] for target in reported.get("target", {}).values()),
    ]
    return {
        name: str(asked["version"] if isinstance(asked, dict) else asked)
        for table in tables
        for name, asked in table.items()
    }


def pinned(row: Row) -> dict[str, str]:
    """The packages of a row with their versions, from the files of its language's own tool."""
    room = next(HERE / source for source in reversed(row.sources) if (HERE / source).is_dir())
    return PINS[row.registry](room)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.registry in PINS and row.sources])
def test_a_row_names_the_version_that_its_lock_file_pins(name: str) -> None:
    packages = pinned(ROWS[name])
    versions = {version.removeprefix("=") for version in packages.values()}
    assert ROWS[name].version in versions
    assert all(re.fullmatch(r"=?[0-9][0-9A-Za-z.+-]*", version) for version in packages.values()), packages


@pytest.mark.parametrize(
    "name", [name for name, row in ROWS.items() if row.registry == "Debian" and row.install]
)
def test_everything_that_apt_fetches_is_pinned(name: str) -> None:
    fetch = ROWS[name].install[0]
    assert fetch[:2] == ("apt-get", "download")
    assert all(re.fullmatch(r"[a-z0-9-]+=[0-9][^=]*", package) for package in fetch[2:])
    assert any(f"={ROWS[name].version}" in package for package in fetch[2:])


def test_cargo_takes_no_version_that_is_not_pinned() -> None:
    pins = cargo_pins(HERE / "rslock" / "Cargo.toml")
    assert all(version.startswith("=") for version in pins.values())
    lock = environment.directory("rslock") / "Cargo.lock"
    if not lock.is_file():
        pytest.skip("what Cargo resolved is not here: lab drivers install rslock")
    resolved = {(one["name"], f"={one['version']}") for one in tomllib.loads(lock.read_text())["package"]}
    assert set(pins.items()) <= resolved
    built = {name for name, _ in resolved} - set(pins) - {"lock-lab-driver-rslock"}
    assert built <= NEVER_BUILT, "a crate that is neither pinned nor for another system only"


NEVER_BUILT = {
    *("bitflags", "cc", "core-foundation", "core-foundation-sys", "find-msvc-tools", "ring", "schannel"),
    *("security-framework", "security-framework-sys", "serde", "serde_derive", "shlex", "r-efi", "wasi"),
    *("windows-link", "windows-sys", "windows-targets", "windows_aarch64_gnullvm", "windows_aarch64_msvc"),
    *("windows_i686_gnu", "windows_i686_gnullvm", "windows_i686_msvc", "windows_x86_64_gnu"),
    *("windows_x86_64_gnullvm", "windows_x86_64_msvc"),
}
"""What Cargo resolves for other systems and for features that are off: no part of the driver on Linux."""
