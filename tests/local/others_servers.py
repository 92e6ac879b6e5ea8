"""Servers that stand for somebody's staging environment: Redis with TLS, client certificates and an ACL.

Started by the tests on loopback, with certificates that OpenSSL makes for them; not by the lab.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import hiredis

from lab import tools
from lab.substrates.endpoints.door import ACL_LINE
from lab.substrates.real.ports import free_ports

SERVER = "redis@7.0"
NAME = "redis.staging.test"
"""The name in the certificates of the servers, which no resolver knows."""
PASSWORD = "s3cr3t-Pa55:w@rd"
OWNER = "owner-" + PASSWORD


class Authority:
    """Certificates, by OpenSSL."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.ca = directory / "ca.pem"
        self._openssl(
            *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
            *("-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=an authority of the tests"),
        )
        for name, alternative in (("server", f"DNS:{NAME}"), ("client", "DNS:client.test")):
            self._openssl(
                *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
                *("-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}"),
            )
            (directory / f"{name}.ext").write_text(f"subjectAltName={alternative}\n")
            self._openssl(
                *(
                    "x509",
                    "-req",
                    "-in",
                    f"{name}.csr",
                    "-CA",
                    "ca.pem",
                    "-CAkey",
                    "ca.key",
                    "-CAcreateserial",
                ),
                *("-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.ext"),
            )

    def _openssl(self, *words: str) -> None:
        subprocess.run(["openssl", *words], cwd=self.directory, check=True, capture_output=True)


class Server:
    """One Redis of somebody else, with a user ``lab``; asked as its owner, who may do everything."""

    def __init__(self, directory: Path, authority: Authority, *more: str, port: int | None = None) -> None:
        directory.mkdir()
        self.port = port or free_ports(1)[0]
        self._authority = authority
        acl = ACL_LINE.removeprefix("ACL SETUSER ").replace("PASSWORD", PASSWORD)
        (directory / "users.acl").write_text(f"user default on >{OWNER} ~* &* +@all\nuser {acl}\n")
        command = [
            *(str(tools.require(SERVER)), "--port", "0", "--tls-port", str(self.port), "--bind", "127.0.0.1"),
            *("--tls-cert-file", str(authority.directory / "server.pem")),
            *("--tls-key-file", str(authority.directory / "server.key")),
            *("--tls-ca-cert-file", str(authority.ca), "--tls-auth-clients", "yes"),
            *("--dir", str(directory), "--save", "", "--aclfile", str(directory / "users.acl"), *more),
        ]
        with (directory / "log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory)
        deadline = time.monotonic() + 20
        while True:
            try:
                self.ask("PING")
                break
            except OSError:
                assert self.process.poll() is None, (directory / "log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)

    @property
    def url(self) -> str:
        """Its endpoint, without a password."""
        return f"rediss://lab@127.0.0.1:{self.port}"

    def ask(self, *words: str) -> Any:
        """What it answers its owner."""
        return self.ask_all(words)[0]

    def ask_all(self, *commands: Sequence[str]) -> list[Any]:
        """What it answers its owner, on one connection."""
        context = ssl.create_default_context(cafile=str(self._authority.ca))
        place = self._authority.directory
        context.load_cert_chain(place / "client.pem", place / "client.key")
        parser, answers = hiredis.Reader(), []
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        with plain, context.wrap_socket(plain, server_hostname=NAME) as secured:
            for words in (("AUTH", OWNER), *commands):
                secured.sendall(hiredis.pack_command(tuple(words)))  # type: ignore[arg-type]  # texts are
                while (answer := parser.gets()) is False:
                    parser.feed(secured.recv(1 << 16))
                answers.append(answer)
        return answers[1:]

    def everything(self) -> dict[str, Any]:
        """All of its keys with values and the ends of their lives, its configuration, users and refusals."""
        keys = sorted(self.ask("KEYS", "*"))
        names = [key.decode() for key in keys]
        values = self.ask_all(*(("DUMP", name) for name in names)) if names else []
        ends = self.ask_all(*(("PEXPIRETIME", name) for name in names)) if names else []
        return {
            "keys": list(zip(names, values, ends, strict=True)),
            "configuration": self.ask("CONFIG", "GET", "*"),
            "users": self.ask("ACL", "LIST"),
            "refused": self.ask("ACL", "LOG"),
            "functions": self.ask("FUNCTION", "LIST"),
        }

    def stop(self) -> None:
        """End it."""
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()


class Staging:
    """Three of them, as somebody's environment; ``environment`` has the password."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory)
        self._directory = directory
        self.servers = [Server(directory / f"server-{at}", self.authority) for at in range(3)]

    @property
    def urls(self) -> str:
        """What ``--endpoints`` takes."""
        return ",".join(server.url for server in self.servers)

    @property
    def trust(self) -> list[str]:
        """The options of TLS."""
        place = self.authority.directory
        given = {"ca": "ca.pem", "certificate": "client.pem", "key": "client.key"}
        files = [
            word for key, file in given.items() for word in ("--set", f"cluster.tls.{key}={place / file}")
        ]
        return [*files, "--set", f"cluster.tls.name={NAME}"]

    def stop(self) -> None:
        """End all of them."""
        for server in self.servers:
            server.stop()


def has_openssl() -> bool:
    """Whether certificates can be made here."""
    return shutil.which("openssl") is not None and os.name == "posix"
