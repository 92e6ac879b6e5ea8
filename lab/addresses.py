"""Where something listens: a node, the store, a proxy before one of them, or a server that exists.

Servers that exist (endpoints) are written as URLs, ``rediss://USER@HOST:PORT/DATABASE``. The password stays
in the memory of this process: it is no part of an ``Endpoint``, so nothing that is printed or stored has it.
"""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from lab.errors import LabError

PASSWORD_VARIABLE: Final = "LOCK_LAB_PASSWORD"
"""The environment variable with the password of all endpoints; it is taken out of the environment."""
FILE_VARIABLE: Final = "LOCK_LAB_PASSWORD_FILE"
"""The environment variable with the path of a file, whose first line is that password."""
KEY_PREFIX: Final = "lock-lab:"
"""How every key begins that the lab writes on a server that is not its own."""
ENDPOINT_FORM: Final = "rediss://USER@HOST:PORT, with /DATABASE behind it if it is not 0"
_PORT: Final = 6379
_given: dict[str, str] = {}
_SHARED: Final = "all"
_SECRET: Final = re.compile(r"""(rediss?:/{0,2}[^\s@"',:]*):[^\s"',]*@""")

SENTINEL_SERVICE = "mymaster"
"""The name under which Sentinels watch the master, and by which clients ask them for it."""


class Address(msgspec.Struct, frozen=True):
    """A name for messages, and the host and TCP port it is reached at."""

    name: str
    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read ``host:port``; the text itself becomes the name.

        Raises:
            ValueError: the text has no port, or one that is no number.
        """
        host, colon, port = text.rpartition(":")
        if not (colon and host and port.isdigit()):
            raise ValueError(f"an address is host:port, not {text!r}")
        return cls(text, host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One server: ``tls`` whether it is reached by TLS; an empty ``user`` is the server's default one."""

    host: str
    port: int
    user: str = ""
    database: int = 0
    tls: bool = True

    @classmethod
    def parse(cls, url: str) -> Endpoint:
        """Read a URL without a password.

        Raises:
            ValueError: it is no such URL, or has a password.
        """
        parts = _split(url)
        if parts.password is not None:
            raise ValueError("it has a password")
        database = parts.path.removeprefix("/") or "0"
        if parts.scheme not in ("redis", "rediss") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError("it is no URL of a Redis server")
        if not database.isdecimal():
            raise ValueError("its database is no number")
        return cls(
            parts.hostname,
            parts.port or _PORT,
            unquote(parts.username or ""),
            int(database),
            parts.scheme == "rediss",
        )

    @property
    def place(self) -> str:
        """Host and port."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def words(self) -> str:
        """For people and for results: host, port, database, and whether it is reached by TLS."""
        return f"{self.place}/{self.database}{' by TLS' if self.tls else ''}"

    @property
    def is_on_this_machine(self) -> bool:
        """Whether it is on loopback."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files, and the name in the server's certificate if it is not its host; "" is none.

    Without ``ca`` the certificate authorities of this machine count.
    """

    ca: str = ""
    certificate: str = ""
    key: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The nodes of a run, in order, how they are trusted, and the API of a Toxiproxy that exists, if any."""

    servers: tuple[Endpoint, ...]
    tls: TlsFiles = TlsFiles()
    proxy: str = ""


def prefix_of(run_id: str) -> str:
    """How every key of a run begins."""
    return f"{KEY_PREFIX}{run_id}:"


def without_password(url: str) -> str:
    """Return the URL without its password, which is kept in this process for its endpoint.

    Raises:
        ValueError: its host or port can't be read; nothing of it is in the text.
    """
    parts = _split(url)
    if parts.password is None:
        return url
    _given[f"{parts.hostname}:{parts.port or _PORT}"] = unquote(parts.password)
    return parts._replace(netloc=f"{parts.username or ''}@{parts.netloc.rpartition('@')[2]}").geturl()


def password_of(endpoint: Endpoint) -> str | None:
    """Return the password for an endpoint; None if there is none.

    That of its URL on the command line, else what ``LOCK_LAB_PASSWORD`` had, else the first line of the file.

    Raises:
        LabError: the file can't be read.
    """
    if (own := _given.get(f"{endpoint.host}:{endpoint.port}")) is not None:
        return own
    # Taken out of the environment, which every child process inherits.
    if shared := os.environ.pop(PASSWORD_VARIABLE, ""):
        _given[_SHARED] = shared
    if _SHARED in _given:
        return _given[_SHARED]
    if path := os.environ.get(FILE_VARIABLE):
        try:
            return (Path(path).read_text().splitlines() or [""])[0]
        except (OSError, UnicodeDecodeError) as error:
            raise LabError(
                "the file with the password can't be read",
                where=f"{path} (${FILE_VARIABLE})",
                expected="a text file, whose first line is the password",
            ) from error
    return None


def masked(text: str) -> str:
    """The text with stars in the place of passwords in URLs of Redis servers, however these are wrong."""
    return _SECRET.sub(r"\1:***@", text)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:  # its text has what stands behind the colon, which may be a password
        raise ValueError("its host or port can't be read") from None
    return parts
