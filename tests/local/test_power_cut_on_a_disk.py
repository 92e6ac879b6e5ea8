"""What the sync shim says a power cut leaves, against what really is on a disk at that moment.

The node keeps its files on an ext4 file system in an image. The node is stopped, the image copied as it is,
which is what a disk holds when the power goes, and the copy mounted: its journal is replayed as after a
real power cut.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.redis_model.persistence import Persistence
from lab.substrates.base import Capability
from tests.local.faulty import Broken, broken, stopped_before_the_sync

pytestmark = pytest.mark.full

IMAGE_BYTES = 64 << 20


def why_not() -> str | None:
    """Say what keeps this machine from mounting an image, if anything does."""
    if os.geteuid() != 0:
        return "only root can mount an image"
    missing = [tool for tool in ("mkfs.ext4", "mount", "umount") if shutil.which(tool) is None]
    if missing:
        return f"{' and '.join(missing)} not found"
    return None if Path("/dev/loop-control").exists() else "there are no loop devices"


@contextlib.contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    """Mount an image; nothing but fsync makes ext4 write within five minutes."""
    at.mkdir()
    mount = subprocess.run(
        ["mount", "-o", "loop,commit=300", str(image), str(at)], capture_output=True, text=True, check=False
    )
    if mount.returncode != 0:
        pytest.skip(f"an ext4 image can't be mounted here: {mount.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", str(at)], check=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    if reason := why_not():
        pytest.skip(reason)
    path = tmp_path / "disk.img"
    with path.open("wb") as file:
        file.truncate(IMAGE_BYTES)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(path)], check=True)
    return path


async def on_disk_and_by_the_shim(
    lab: Broken, image: Path, mount: Path, tmp_path: Path
) -> tuple[bytes, bytes]:
    """Return the append-only file of a stopped node as the disk has it, and as the shim says it has."""
    node = lab.cluster.nodes["A"]
    disk = await node.disk()
    copy = Path(shutil.copy(image, tmp_path / "copy.img"))
    (live,) = node._disk._files()
    with mounted(copy, tmp_path / "copy") as survived:
        kept = (survived / live.relative_to(mount)).read_bytes()
    return kept, live.read_bytes()[: disk.synced]


@pytest.mark.parametrize("persistence", ["aof-everysec", "aof-always"])
async def test_the_shim_and_a_real_disk_agree(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, persistence: Persistence
) -> None:
    needs = frozenset({Capability.POWER_CUTS})
    with mounted(image, tmp_path / "disk") as mount:
        monkeypatch.setattr(tempfile, "tempdir", str(mount))
        async with broken(tmp_path, nodes="A", persistence=persistence, needs=needs) as lab:
            if persistence == "aof-everysec":
                key, _ = await stopped_before_the_sync(lab)
            else:
                key = "victim"
                await lab.cluster.nodes["A"].ask("SET", key, "v")
                await lab.inject(pause={"node": "A"})
            kept, said = await on_disk_and_by_the_shim(lab, image, mount, tmp_path)
        monkeypatch.undo()
    assert kept == said
    assert (key.encode() in kept) == (persistence == "aof-always")
    assert b"SELECT" in kept, "something was synced: the agreement is not about nothing"
