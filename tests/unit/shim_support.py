"""What the tests of the shims share: the built shims, and a real redis-server."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from lab import tools
from lab.tools import Missing

LIBRARIES = ("clock-shim", "sync-shim", "names-shim", "vtime-shim", "conductor")


def built_shims(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The shims and the conductor: from the cache if built, else built here by the machine's C compiler."""
    if not sys.platform.startswith("linux"):
        pytest.skip("LD_PRELOAD shims are for Linux")
    found = {name: tools.find(name) for name in LIBRARIES}
    if any(isinstance(each, Missing) for each in found.values()):
        if shutil.which("cc") is None:
            pytest.skip("the shims are not built and there is no C compiler: run `lab setup`")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LOCK_LAB_CACHE", str(tmp_path_factory.mktemp("cache")))
            return {name: tools.provide(name, lambda _: None).path for name in found}
    return {name: each.path for name, each in found.items() if not isinstance(each, Missing)}


@contextlib.contextmanager
def redis_under(directory: Path, env: dict[str, str], *options: str) -> Iterator[redis.Redis]:
    """A real redis-server on a Unix socket in `directory`, ready."""
    found = tools.find("redis-server")
    if isinstance(found, Missing):
        pytest.skip(f"{found.reason}: run `lab setup`")
    socket = directory / "s"
    process = subprocess.Popen(
        [found.path, "--port", "0", "--unixsocket", socket, "--dir", directory, "--save", "", *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    try:
        assert process.stdout is not None
        assert any("ready to accept connections" in line.casefold() for line in process.stdout)
        with redis.Redis(unix_socket_path=str(socket), socket_timeout=30) as client:
            yield client
    finally:
        process.kill()
        process.communicate()
