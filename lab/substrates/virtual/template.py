"""A server that stands still before it makes its first thread, and is copied for each run.

Until then it has read its settings and opened its sockets and files, and has served nobody: what a copy
does later, the next one does not have. They share what was open already, so each time it is made sure that
this is as it was: the files, which were empty and are emptied; the socket's name; what the epoll looks at.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import Final, NamedTuple

from lab.redis_model.persistence import Persistence
from lab.servers import ServerSettings
from lab.substrates.local.disk import LocalDisk
from lab.substrates.virtual.process import RealProcess

EPOLL: Final = "anon_inode:[eventpoll]"


class ServerProgram(NamedTuple):
    """What servers have in common that are copies of one: a name, a program and its settings."""

    name: str
    server: Path
    persistence: Persistence
    sync: Path | None
    settings: ServerSettings


class Template:
    """One server that stands still.

    Args:
        process: the server.
        disk: its directory, of which nobody else knows.
        socket: by what name it is reached.
    """

    def __init__(self, process: RealProcess, disk: LocalDisk, socket: Path) -> None:
        self.process, self.disk, self.socket = process, disk, socket
        self._files = _files(disk.directory)
        self._socket_inode = socket.stat().st_ino
        self._epolls = _epolls(process.popen.pid)
        self._watched = _shown(self._epolls)
        self._log_bytes = process.log.stat().st_size

    def reset(self) -> bool:
        """Undo what copies did to its files; whether everything is now as it was at the beginning."""
        if self.process.popen.poll() is not None:
            return False
        try:
            if self.socket.stat().st_ino != self._socket_inode or not self._empty_files():
                return False
            os.truncate(self.process.log, self._log_bytes)
            return _shown(self._epolls) == self._watched
        except OSError:
            return False

    def _empty_files(self) -> bool:
        """Remove files that were not there, empty those that were; False if one is gone, or was not empty."""
        there = _files(self.disk.directory)
        for path, (inode, size) in there.items():
            if self._files.get(path, (0, 0))[0] != inode:
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)  # its directory may be gone
            elif size > 0:
                os.truncate(path, 0)
        return all(
            size == 0 and there.get(path, (0, 0))[0] == inode for path, (inode, size) in self._files.items()
        )


def _files(directory: Path) -> dict[Path, tuple[int, int]]:
    """The inode of all that is in a directory, and the size of each file."""
    found = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            stat = entry.stat(follow_symlinks=False)
            is_directory = entry.is_dir(follow_symlinks=False)
            found[Path(entry.path)] = stat.st_ino, 0 if is_directory else stat.st_size
            if is_directory:
                found |= _files(Path(entry.path))
    return found


def _epolls(pid: int) -> tuple[Path, ...]:
    """Where the kernel shows what each epoll of a process looks at; one that stands still opens none."""
    found = []
    for descriptor in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name)):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(descriptor) == EPOLL:  # noqa: PTH115 - it names no file
                found.append(Path(f"/proc/{pid}/fdinfo/{descriptor.name}"))
    return tuple(found)


def _shown(epolls: tuple[Path, ...]) -> tuple[str, ...]:
    return tuple(epoll.read_text() for epoll in epolls)
