"""The lab's C libraries: built from lab/shims by the C compiler at hand, else by the `ziglang` wheel's.

All are LD_PRELOAD shims but one: the conductor of virtual time, which the lab itself loads.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from lab.paths import tools_dir
from lab.shims import CLOCK_VARIABLE, SYNC_VARIABLE, preload
from lab.tools import cache, wheels
from lab.tools.model import Found, Missing, Origin, Progress, Source, SourceFailed
from lab.tools.process import PROBE_TIMEOUT_S, build_timeout_s, run

FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared")
_LIBRARIES = ("-ldl",)  # dlsym lives in libdl before glibc 2.34
_ZIG_WHEEL = "ziglang==0.16.0"
_CONDUCTOR = "conductor"
_VTIME = (
    "attach",
    "clocks",
    "entropy",
    "waits",
    "locks",
    "tasks",
    "children",
    "copies",
    "syscalls",
    "sockets",
    "timers",
    "processor",
)
_CONDUCTOR_PARTS = ("conductor", "quiet", "unseen", "watch")
_SHARED = ("vtime/page.h", "vtime/futex.h")
_BUILT_FROM: dict[str, tuple[str, ...]] = {
    "clock": ("clock.c",),
    "sync": ("sync.c",),
    "names": ("names.c",),
    "vtime": (*(f"vtime/{each}.c" for each in _VTIME), "vtime/inside.h", *_SHARED),
    _CONDUCTOR: (*(f"vtime/{each}.c" for each in _CONDUCTOR_PARTS), "vtime/conductor.h", *_SHARED),
}
"""What each library is made of, headers included."""
_SOURCES = Path(__file__).resolve().parent.parent / "shims"
_COMPILERS = ("cc", "gcc", "clang")
_VERSION = re.compile(r"(?<![\w.-])\d+\.\d+(\.\d+)?(?![\w.-])")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: the command that runs it, and the first line it says about its version."""

    command: tuple[str, ...]
    banner: str

    @property
    def version(self) -> str:
        """Its name and version, e.g. "cc 12.2.0"; the whole banner if that names none."""
        match = _VERSION.search(self.banner)
        return f"{Path(self.command[0]).name} {match.group()}" if match else self.banner


@dataclass(frozen=True, slots=True)
class Shim:
    """Finds and builds one library; `stem` is "clock", "sync", "names", "vtime" or "conductor"."""

    stem: str
    lock_name: str = "shims"
    remedy: str = "install a C compiler, or name one in CC"

    @property
    def name(self) -> str:
        """clock-shim, sync-shim, names-shim, vtime-shim or conductor."""
        return _name(self.stem)

    def find(self) -> Found | Missing:
        """The cached build of the present source; whichever compiler made it."""
        if platform.system() != "Linux":
            return Missing(
                f"LD_PRELOAD shims are built for Linux only, not {platform.system()}", "use docker"
            )
        if re.search(r"[\s:]", str(tools_dir())):
            # ld.so separates the names in LD_PRELOAD by these, and there is no escape.
            return Missing(
                f"LD_PRELOAD cannot name a file below {tools_dir()}: it has a space or a colon",
                "set LOCK_LAB_CACHE to a directory without spaces and colons",
            )
        built = sorted(path.name for path in (tools_dir() / self.name).glob(f"{_source_key(self.stem)}-*"))
        for key in built:
            if cached := cache.lookup(self.name, key):
                return Found(cached.directory / f"{self.stem}.so", cached.version, "cache")
        return Missing(f"the {self.name} has not been built on this machine", "lab setup")

    def sources(self) -> tuple[Source, ...]:
        """The machine's C compiler, then Zig's. Either builds all shims at once."""
        if isinstance(found := self.find(), Missing) and found.hint != "lab setup":
            return ()
        return (
            Source("cc", lambda progress: _from_cc(self.stem, progress)),
            Source("ziglang wheel", lambda progress: _from_zig(self.stem, progress)),
        )


def compiler() -> Compiler | Missing:
    """The C compiler at hand: $CC (may carry arguments), else cc, gcc or clang on PATH."""
    chosen = os.environ.get("CC", "").strip()
    candidates = [tuple(shlex.split(chosen))] if chosen else [(name,) for name in _COMPILERS]
    for command in candidates:
        if shutil.which(command[0]) is None:
            continue
        try:
            printed = run([*command, "--version"], timeout_s=PROBE_TIMEOUT_S).splitlines()
        except SourceFailed as failure:
            return Missing(str(failure), "set CC to a working C compiler")
        return Compiler(command, printed[0] if printed else "unknown version")
    looked = f"$CC ({chosen})" if chosen else "cc, gcc or clang"
    return Missing(
        f"no C compiler: there is no {looked} on PATH", "none is needed: `lab setup` takes one from a wheel"
    )


def _name(stem: str) -> str:
    return stem if stem == _CONDUCTOR else f"{stem}-shim"


def _from_cc(stem: str, progress: Progress) -> Found:
    at_hand = compiler()
    if isinstance(at_hand, Missing):
        raise SourceFailed(at_hand.reason)
    return _build_all(stem, at_hand, "cc", {}, progress)


def _from_zig(stem: str, progress: Progress) -> Found:
    with cache.scratch("ziglang") as directory:
        wheel = wheels.download(_ZIG_WHEEL, directory, progress)
        progress("unpacking the Zig toolchain")
        wheels.unpack(wheel, directory, lambda name: name.startswith("ziglang/"))
        zig = directory / "ziglang" / "zig"
        zig.chmod(0o755)
        banner = f"zig {run([zig, 'version'], timeout_s=PROBE_TIMEOUT_S)}"
        own = {
            "ZIG_GLOBAL_CACHE_DIR": str(directory / "zig-global"),
            "ZIG_LOCAL_CACHE_DIR": str(directory / "zig-local"),
        }
        return _build_all(stem, Compiler((str(zig), "cc"), banner), "ziglang wheel", own, progress)


def _build_all(stem: str, by: Compiler, origin: Origin, env: dict[str, str], progress: Progress) -> Found:
    """Build and publish every shim, so that a toolchain out of a wheel is unpacked once; returns `stem`'s."""
    made: dict[str, Path] = {}
    for each, files in _BUILT_FROM.items():
        name = _name(each)
        progress(f"compiling the {name} ({by.version})")
        with cache.scratch(name) as directory:
            library = directory / f"{each}.so"
            sources = [_SOURCES / file for file in files if file.endswith(".c")]
            run(
                [*by.command, *FLAGS, "-o", library, *sources, *_LIBRARIES],
                timeout_s=build_timeout_s(),
                env=env,
                cwd=directory,
            )
            # A shim that ld.so refuses (another libc, another machine) must never be published.
            complaint = run([sys.executable, "-Sc", ""], timeout_s=PROBE_TIMEOUT_S, env=_preload(library))
            if complaint:
                raise SourceFailed(f"the {name} cannot be preloaded: {complaint}")
            key = f"{_source_key(each)}-{_digest(by.banner.encode())}"
            made[each] = cache.publish(name, key, {f"{each}.so": library}, version=by.version, origin=origin)
    return Found(made[stem] / f"{stem}.so", by.version, origin)


def _preload(library: Path) -> dict[str, str]:
    return {"LD_PRELOAD": preload(library), CLOCK_VARIABLE: "", SYNC_VARIABLE: ""}


def _source_key(stem: str) -> str:
    """What a build depends on apart from the compiler: source, flags, machine and libc."""
    sources = ((_SOURCES / file).read_bytes() for file in _BUILT_FROM[stem])
    rest = (*FLAGS, *_LIBRARIES, *platform.libc_ver())
    return f"{cache.platform_key()}-{_digest(*sources, *(part.encode() for part in rest))}"


def _digest(*parts: bytes) -> str:
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
