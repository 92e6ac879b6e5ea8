"""The way into a server that exists: TLS, login, database; and what it says of itself.

``HELLO`` is answered whatever an ACL allows, so what the lab must know of a server leaves no entry in the
log of refused commands.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from typing import Any, Final

import hiredis

from lab.addresses import Address, Endpoint, TlsFiles, password_of
from lab.errors import LabError

CONNECT_TIMEOUT_S: Final = 5.0
CHUNK: Final = 1 << 16
ACL_LINE: Final = (
    "ACL SETUSER lab on >PASSWORD resetkeys ~lock-lab:* resetchannels &lock-lab:* nocommands "
    "+ping +echo +time +select +client|setname +get +set +pttl +exists +del +eval"
)
"""What makes a user who may do what the lab itself needs, and the locks redlock and single."""
_OF_LOGIN: Final = ("NOAUTH", "WRONGPASS", "ERR invalid password", "ERR Client sent AUTH", "ERR AUTH")


class Refused(Exception):
    """The server answered with an error; its text."""


class Way:
    """One open connection that is logged in; the lab's own, or one of a client's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._parser = hiredis.Reader()

    async def ask(self, *words: str | int) -> Any:
        """Send one command and return its reply. Raises ``Refused`` and ``OSError``."""
        self.writer.write(hiredis.pack_command(words))  # type: ignore[arg-type]  # as in lab.channel
        await self.writer.drain()
        while (reply := self._parser.gets()) is False:
            data = await self.reader.read(CHUNK)
            if not data:
                raise ConnectionResetError("it closed the connection")
            self._parser.feed(data)
        if isinstance(reply, hiredis.ReplyError):
            raise Refused(str(reply))
        return reply

    def close(self) -> None:
        """Close it."""
        self.writer.close()


class Door:
    """How one endpoint is entered; ``name`` is that of its node."""

    def __init__(self, name: str, endpoint: Endpoint, tls: TlsFiles) -> None:
        self.name, self.endpoint = name, endpoint
        self._password = password_of(endpoint)
        self._context = _context(tls) if endpoint.tls else None
        self._server_name = tls.name or endpoint.host

    @property
    def address(self) -> Address:
        """The server itself."""
        return Address(self.name, self.endpoint.host, self.endpoint.port)

    @property
    def where(self) -> str:
        """For errors."""
        return f"endpoint {self.name}, {self.endpoint.words}"

    async def open(self, behind: Address | None = None) -> Way:
        """Connect and log in, by a proxy at ``behind`` if there is one.

        The certificate is checked against the name of the endpoint either way.

        Raises:
            OSError: there is no way to the server, or its certificate is not the right one.
            Refused: it does not let this user in.
        """
        at = behind or self.address
        secured: dict[str, Any] = {}
        if self._context is not None:
            secured = {"ssl": self._context, "server_hostname": self._server_name}
        way = Way(*await asyncio.open_connection(at.host, at.port, **secured))
        try:
            if self._password is not None:
                await way.ask("AUTH", *([self.endpoint.user] if self.endpoint.user else []), self._password)
            if self.endpoint.database:
                await way.ask("SELECT", self.endpoint.database)
        except BaseException:
            way.close()
            raise
        return way

    async def enter(self) -> Way:
        """``open`` for the lab itself, before the run. Raises ``LabError``, which says what is wrong."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return await self.open()
        except ssl.SSLCertVerificationError as error:
            raise LabError(
                f"the certificate of {self.name} is not accepted: {error.verify_message}",
                where=self.where,
                expected="a certificate for this host, by an authority that is known here",
                hint="--set cluster.tls.ca=FILE names the authority, cluster.tls.name the name in it",
            ) from None
        except Refused as error:
            raise self._not_let_in(str(error)) from None
        except (OSError, TimeoutError) as error:
            why = f"no answer in {CONNECT_TIMEOUT_S:g} s" if isinstance(error, TimeoutError) else str(error)
            raise LabError(
                f"{self.name} cannot be reached: {why}",
                where=self.where,
                expected="a Redis server that answers",
                hint="rediss:// is for a port with TLS, redis:// for one without it",
            ) from None

    async def about(self, way: Way) -> Mapping[str, str]:
        """Its own ``server``, ``version``, ``mode`` and ``role``. Raises ``LabError``."""
        try:
            answer = await way.ask("HELLO")
        except Refused as error:
            raise self._not_let_in(str(error)) from None
        texts = [part.decode() if isinstance(part, bytes) else str(part) for part in answer]
        return dict(zip(texts[::2], texts[1::2], strict=False))

    def _not_let_in(self, why: str) -> LabError:
        if not why.startswith(_OF_LOGIN):
            return self.not_allowed(why)
        user = self.endpoint.user or "default"
        return LabError(
            f"{self.name} does not let the user {user} in: {why}",
            where=self.where,
            expected="a user and a password that the server knows",
            hint="$LOCK_LAB_PASSWORD, or $LOCK_LAB_PASSWORD_FILE, has the password",
        )

    def not_allowed(self, why: str) -> LabError:
        """The error for a command that the server refuses."""
        if why.startswith("READONLY"):
            return self.is_no_master(f"it is read-only ({why})")
        return LabError(
            f"{self.name} refuses what the lab needs: {why}",
            where=self.where,
            expected="a user who may do that on keys that begin with lock-lab:",
            hint=ACL_LINE,
        )

    def is_no_master(self, what: str) -> LabError:
        """The error for a server that is no node of a lock."""
        return LabError(
            f"{self.name} cannot be a node: {what}",
            where=self.where,
            expected="an independent master, outside of a Redis Cluster",
        )


def _context(tls: TlsFiles) -> ssl.SSLContext:
    """Raises ``LabError``: a file can't be used."""
    try:
        context = ssl.create_default_context(cafile=tls.ca or None)
    except (OSError, ssl.SSLError) as error:
        raise _unusable("ca", tls.ca, error) from None
    if tls.certificate:
        try:
            with contextlib.suppress(UnicodeDecodeError):
                # Without a function, OpenSSL would ask at the terminal for the password of a key.
                context.load_cert_chain(tls.certificate, tls.key or None, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            raise _unusable("certificate", tls.certificate, error) from None
    return context


def _unusable(key: str, path: str, error: OSError) -> LabError:
    return LabError(
        f"the file can't be used: {error.strerror or error}",
        where=f"{path}, key `cluster.tls.{key}`",
        expected="a file in PEM format, without a passphrase",
    )
