"""Servers that exist, with TLS, client certificates and an ACL: nothing else of theirs is touched."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from lab import tools
from lab.addresses import FILE_VARIABLE, PASSWORD_VARIABLE
from lab.paths import STATE_VARIABLE
from lab.substrates.real.ports import free_ports
from tests.lab_process import ROOT, Lab, below
from tests.local.others_servers import NAME, PASSWORD, SERVER, Server, Staging, has_openssl

pytestmark = [
    pytest.mark.skipif(not has_openssl(), reason="there is no openssl, which makes the certificates"),
    pytest.mark.skipif(
        not isinstance(tools.find(SERVER), tools.Found), reason=f"there is no {SERVER}, which speaks TLS"
    ),
]
MANY_FAULTS = """
title: Every fault that is possible with servers that exist
source: a test
why: A test.
cluster: {endpoints: ENDPOINTS, tls: TLS}
lock: {name: redlock, ttl: 3s, options: {node_timeout: 400ms}}
clients: [alice, bob]
steps:
  - do: alice acquires
  - cut: {client: alice, nodes: [A, B]}
  - cut: {client: bob, nodes: [C], direction: replies}
  - do: bob acquires
  - heal: {client: alice, nodes: [A, B]}
  - heal: {client: bob, nodes: [C]}
  - delay: {client: bob, nodes: all, by: 20ms}
  - reset: {client: alice, nodes: [A]}
  - hold: {client: alice, nodes: [B]}
  - bandwidth: {client: alice, nodes: [C], rate: 100KB/s}
  - jump: {client: bob, by: +5s}
  - pause: {client: alice}
  - until: {keys: gone}
  - do: bob works
  - resume: {client: alice}
  - client_crash: {client: alice}
expect:
  mutual_exclusion: ok
  operations: {alice acquires: ok, bob acquires: refused, bob works: ok}
"""
CALM = ("run", "healthy", "--set", "lock.options.node_timeout=2s")
"""A busy machine is late, and that is not the point here."""
SLOW = """
title: A holder that waits
source: a test
why: A test.
cluster: {endpoints: ENDPOINTS, tls: TLS}
lock: {name: redlock, ttl: 30s, options: {node_timeout: 5s}}
clients: [alice, bob]
steps:
  - do: alice acquires
  - until: {lease: alice, over: true, within: 60s}
  - do: bob works
expect: {mutual_exclusion: ok}
"""


@pytest.fixture(scope="module")
def staging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Staging]:
    """Three servers of somebody else."""
    there = Staging(tmp_path_factory.mktemp("staging"))
    yield there
    there.stop()


@pytest.fixture(autouse=True)
def _password(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path / "state"))


def written(lab: Lab, staging: Staging, text: str) -> str:
    """A scenario file on these servers."""
    place = staging.authority.directory
    tls = {"ca": "ca.pem", "certificate": "client.pem", "key": "client.key"}
    files: dict[str, str] = {key: str(place / file) for key, file in tls.items()} | {"name": NAME}
    urls = json.dumps(staging.urls.split(","))
    (lab.directory / "mine.yaml").write_text(
        text.replace("ENDPOINTS", urls).replace("TLS", json.dumps(files))
    )
    return "mine.yaml"


def furnish(staging: Staging) -> None:
    """Write what somebody else has there, with and without TTLs."""
    for server in staging.servers:
        server.ask("SET", "orders:1", "theirs", "EX", "5000")
        server.ask("HSET", "resource", "version", "7")
        server.ask("SET", "lock-lab-but-not-ours", "theirs")
        server.ask("SET", "lock-lab:0123456789abcdef:resource", "of another run", "PX", "5000000")
        server.ask("ACL", "LOG", "RESET")


@contextlib.contextmanager
def untouched(staging: Staging, *, logins_fail: bool = False) -> Iterator[None]:
    """Nothing of what others have is changed meanwhile, and no command (or, besides, login) was refused."""
    furnish(staging)
    before = [server.everything() for server in staging.servers]
    yield
    for server, was in zip(staging.servers, before, strict=True):
        now = server.everything()
        if logins_fail:
            was["refused"] = now["refused"] = []
        assert now["keys"] == was["keys"]
        assert now == was


def with_secret(directory: Path) -> list[str]:
    """The files below a directory with the password, plain or as a URL has it."""
    secrets = [secret.encode() for secret in (PASSWORD, "s3cr3t-Pa55%3Aw%40rd", "s3cr3t")]
    return [
        str(path)
        for path in directory.rglob("*")
        if path.is_file() and any(secret in path.read_bytes() for secret in secrets)
    ]


def test_a_run_touches_nothing_of_others(lab: Lab, staging: Staging) -> None:
    with untouched(staging):
        ended = lab("run", written(lab, staging, MANY_FAULTS))
        assert ended.code == 0, ended.out + ended.err
    assert with_secret(lab.directory) == []
    assert "s3cr3t" not in ended.out + ended.err
    environment = ended.verdict["environment"]
    assert environment["substrate"] == "endpoints"
    assert environment["endpoint A"] == f"127.0.0.1:{staging.servers[0].port}/0 by TLS, redis 7.0.15"
    assert environment["persistence"] == "not known, since the servers are not the lab's"
    assert "persistence not known" in ended.err
    (key,) = {event["key"] for event in ended.events if event["f"] == "acquire"}
    assert re.fullmatch(r"lock-lab:[0-9a-f]{16}:resource", key)
    receipts = [event for event in ended.events if event["process"] == "nemesis" and event["type"] == "ok"]
    assert {"cut", "delay", "reset", "hold", "bandwidth", "jump", "pause", "client_crash"} <= {
        event["f"] for event in receipts
    }


@pytest.mark.full
def test_the_password_of_a_url_is_written_nowhere(
    lab: Lab, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PASSWORD_VARIABLE)
    urls = staging.urls.replace("lab@", "lab:s3cr3t-Pa55%3Aw%40rd@")
    ended = lab("run", "healthy", "--endpoints", urls, *staging.trust, "--lock", "setnx-expire")
    assert ended.code in (0, 1, 3), ended.err
    assert ended.verdict["environment"]["endpoint A"]
    assert with_secret(lab.directory) == []
    assert "s3cr3t" not in ended.out + ended.err
    assert "lab@127.0.0.1" in ended.verdict["repeat"]


@pytest.mark.full
def test_no_child_process_is_told_the_password(
    lab: Lab, staging: Staging, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    running = lab.start("run", written(lab, staging, SLOW))
    lab.wait_for_event("acquire", "alice")
    children = below(running.pid)
    assert len(children) >= 4  # two clients, the store, the proxy
    for child in children:
        for told in ("cmdline", "environ"):
            assert b"s3cr3t" not in Path(f"/proc/{child}/{told}").read_bytes(), children[child]
    running.send_signal(signal.SIGINT)
    assert lab.ended(running).code == 130
    # From a file it comes to nobody's environment at all.
    monkeypatch.delenv(PASSWORD_VARIABLE)
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "password"))
    ended = lab(*CALM, "--endpoints", staging.urls, *staging.trust)
    assert ended.code == 0, ended.err


def keys_of_runs(staging: Staging) -> list[bytes]:
    """The keys of the lab on these servers, but that of another run."""
    found = [key for server in staging.servers for key in server.ask("KEYS", "lock-lab:*")]
    return [key for key in found if not key.startswith(b"lock-lab:0123456789abcdef:")]


def test_an_interrupted_run_leaves_no_key(lab: Lab, staging: Staging) -> None:
    with untouched(staging):
        running = lab.start("run", written(lab, staging, SLOW))
        lab.wait_for_event("acquire", "alice")
        deadline = time.monotonic() + 20
        while len(keys_of_runs(staging)) < 6:  # on each server the lock and the marker
            assert time.monotonic() < deadline
        running.send_signal(signal.SIGINT)
        assert lab.ended(running).code == 130
        assert keys_of_runs(staging) == []


@pytest.mark.full
def test_the_next_run_removes_what_a_killed_lab_left(lab: Lab, staging: Staging) -> None:
    with untouched(staging):
        running = lab.start("run", written(lab, staging, SLOW))
        lab.wait_for_event("acquire", "alice")
        running.kill()
        lab.ended(running)
        assert keys_of_runs(staging)
        ended = lab(*CALM, "--endpoints", staging.urls, *staging.trust)
        assert ended.code == 0, ended.err
        assert keys_of_runs(staging) == []
    assert list((lab.directory / "state" / "endpoints").iterdir()) == []


FLUSHES = '''
"""Locks that do what no lock may do on servers of others."""
from lab.locks.single import Single


class Flushes(Single):
    async def _set(self, key, token, ttl_ns):
        await self._call("FLUSHALL")
        return await super()._set(key, token, ttl_ns)


class Elsewhere(Single):
    async def _set(self, key, token, ttl_ns):
        return await super()._set("orders:1", token, ttl_ns)


class Named(Single):
    node_keys = "orders:{key}"
'''


@pytest.mark.parametrize(
    ("lock", "said"),
    [
        ("Flushes", "'FLUSHALL' is not among the commands that the lab sends to servers of others"),
        ("Elsewhere", "SET names 'orders:1', which does not begin with lock-lab:"),
    ],
)
@pytest.mark.full
def test_a_lock_cannot_touch_what_is_not_of_the_run(lab: Lab, staging: Staging, lock: str, said: str) -> None:
    (lab.directory / "flushes.py").write_text(FLUSHES)
    for server in staging.servers:  # whoever it is, nothing but the lab keeps it from that
        server.ask("ACL", "SETUSER", "careless", "on", f">{PASSWORD}", "~*", "&*", "+@all")
    with untouched(staging):
        urls = staging.urls.replace("lab@", "careless@")
        ended = lab("run", "healthy", "--endpoints", urls, *staging.trust, "--lock", f"flushes:{lock}")
        assert ended.code == 3, ended.out + ended.err
        assert said in ended.out
    for server in staging.servers:
        server.ask("ACL", "DELUSER", "careless")


def test_a_lock_with_keys_of_another_name_is_refused(lab: Lab, staging: Staging) -> None:
    (lab.directory / "flushes.py").write_text(FLUSHES)
    ended = lab("run", "healthy", "--endpoints", staging.urls, *staging.trust, "--lock", "flushes:Named")
    assert ended.code == 2
    assert "keeps its key as orders:lock-lab:" in ended.err


def refused(
    lab: Lab,
    staging: Staging,
    *more: str,
    urls: str | None = None,
    trust: bool = True,
    logins_fail: bool = False,
) -> str:
    """The error of a run that these options keep from beginning; nothing is left anywhere."""
    trusted = staging.trust if trust else []
    with untouched(staging, logins_fail=logins_fail):
        ended = lab("run", "healthy", "--endpoints", urls or staging.urls, *trusted, *more)
    assert ended.code == 2, ended.out + ended.err
    assert ended.err.count("error:") == 1
    assert all(field in ended.err for field in ("where:", "expected:"))
    assert "Traceback" not in ended.err
    assert "s3cr3t" not in ended.out + ended.err
    lab.wait_until_nothing_runs()
    return ended.err


@pytest.mark.full
def test_what_is_not_fit_is_refused_before_the_run(
    lab: Lab, staging: Staging, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = free_ports(1)[0]
    some = staging.urls.rpartition(",")[0]
    assert "C cannot be reached" in refused(lab, staging, urls=f"{some},rediss://lab@127.0.0.1:{free}")
    assert "A cannot be reached" in refused(lab, staging, urls=staging.urls.replace("rediss:", "redis:", 1))
    assert "certificate of A is not accepted" in refused(lab, staging, trust=False)
    wrong = refused(lab, staging, "--set", "cluster.tls.name=redis.other.test")
    assert "certificate of A is not accepted: Hostname mismatch" in wrong
    assert "cluster.tls.ca" in refused(lab, staging, "--set", "cluster.tls.ca=nowhere.pem")
    no_certificate = [word for word in staging.trust if "certificate=" not in word and "key=" not in word]
    without = [word for word in no_certificate if word != "--set"]
    options = [word for one in without for word in ("--set", one)]
    assert "A cannot be reached" in refused(lab, staging, *options, trust=False)
    port = staging.servers[0].port
    same = refused(lab, staging, urls=f"{some},rediss://lab@localhost:{port}")
    assert "is it the same server as A or B?" in same
    assert "C holds keys that begin with lock-lab:" in same
    monkeypatch.setenv(PASSWORD_VARIABLE, "another")
    assert "does not let the user lab in: WRONGPASS" in refused(lab, staging, logins_fail=True)
    monkeypatch.delenv(PASSWORD_VARIABLE)
    assert "does not let the user lab in: NOAUTH" in refused(lab, staging)


@pytest.mark.full
def test_servers_that_are_no_nodes_are_refused(lab: Lab, staging: Staging, tmp_path: Path) -> None:
    some = staging.urls.rpartition(",")[0]
    with contextlib.ExitStack() as stop:
        replica = Server(tmp_path / "replica", staging.authority, "--replicaof", "127.0.0.1", "1")
        stop.callback(replica.stop)
        assert "C cannot be a node: it is a replica" in refused(lab, staging, urls=f"{some},{replica.url}")
        member = Server(tmp_path / "member", staging.authority, "--cluster-enabled", "yes")
        stop.callback(member.stop)
        said = refused(lab, staging, urls=f"{some},{member.url}")
        assert "C cannot be a node: it runs in the mode cluster" in said
        strict = Server(tmp_path / "strict", staging.authority)
        stop.callback(strict.stop)
        strict.ask("ACL", "SETUSER", "lab", "-time")
        said = refused(lab, staging, urls=f"{some},{strict.url}")
        assert "C refuses what the lab needs: NOPERM" in said
        assert "ACL SETUSER lab" in said
        assert strict.ask("DBSIZE") == 0


def test_other_machines_need_a_word(lab: Lab) -> None:
    ended = lab("run", "healthy", "--endpoints", "rediss://lab@192.0.2.1:6379")
    assert ended.code == 2
    assert "192.0.2.1:6379 is not this machine" in ended.err
    assert "--i-own-these" in ended.err
    assert not (lab.directory / "reports").exists()


@pytest.mark.full
@pytest.mark.parametrize("happens", ["restart", "replica", "silent"])
def test_what_happens_to_a_server_by_itself_is_no_verdict(
    lab: Lab, staging: Staging, tmp_path: Path, happens: str
) -> None:
    own = Server(tmp_path / "theirs", staging.authority)
    with contextlib.ExitStack() as stop:
        stop.callback(own.stop)
        scenario = written(lab, staging, SLOW)
        text = (lab.directory / scenario).read_text().replace(staging.servers[2].url, own.url)
        (lab.directory / scenario).write_text(text)
        running = lab.start("run", scenario)
        lab.wait_for_event("acquire", "alice")
        time.sleep(0.3)  # the lock is held, and nothing more happens for half a minute
        if happens == "restart":
            own.process.kill()
        elif happens == "replica":
            own.ask("REPLICAOF", "127.0.0.1", "1")
        else:
            own.process.send_signal(signal.SIGSTOP)
        ended = lab.ended(running)
        assert ended.code == 3, ended.out + ended.err
        assert f"C (127.0.0.1:{own.port}) is not what it was" in ended.err
        assert {"restart": "may have restarted", "replica": "become a replica", "silent": "TimeoutError"}[
            happens
        ] in ended.err


@pytest.mark.full
def test_a_proxy_that_exists_keeps_its_own(lab: Lab, staging: Staging) -> None:
    port = free_ports(1)[0]
    program = str(tools.require("toxiproxy-server"))
    theirs = subprocess.Popen([program, "-host", "127.0.0.1", "-port", str(port)], stderr=subprocess.DEVNULL)
    try:
        api = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(requests.ConnectionError):
                mine = {"name": "alice-A", "listen": "127.0.0.1:0", "upstream": "127.0.0.1:1"}
                requests.post(f"{api}/proxies", json=mine, timeout=5).raise_for_status()
                break
            assert time.monotonic() < deadline
        before = requests.get(f"{api}/proxies", timeout=5).json()
        running = lab.start("run", written(lab, staging, SLOW), "--proxy", f"127.0.0.1:{port}")
        lab.wait_for_event("acquire", "alice")
        during = requests.get(f"{api}/proxies", timeout=5).json()
        assert len(during) == 1 + 6
        assert all(name == "alice-A" or name.startswith("lock-lab-") for name in during)
        running.send_signal(signal.SIGINT)
        lab.ended(running)
        assert requests.get(f"{api}/proxies", timeout=5).json() == before
        running = lab.start("run", written(lab, staging, SLOW), "--proxy", f"127.0.0.1:{port}")
        lab.wait_for_event("acquire", "alice")
        running.kill()
        lab.ended(running)
        ended = lab("run", written(lab, staging, MANY_FAULTS), "--proxy", f"127.0.0.1:{port}")
        assert ended.code == 0, ended.err
        assert requests.get(f"{api}/proxies", timeout=5).json() == before
    finally:
        theirs.kill()
        theirs.wait()


def test_the_guide_tells_the_truth(lab: Lab, staging: Staging) -> None:
    guide = (ROOT / "docs" / "endpoints.md").read_text()
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", guide, re.DOTALL)).replace("\\\n", " ").splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("lab ")]
    assert commands
    place = staging.authority.directory
    for file in ("ca.pem", "client.pem", "client.key"):
        shutil.copy(place / file, lab.directory)
    ports = dict(zip(("redis-1", "redis-2", "redis-3"), staging.servers, strict=True))
    with untouched(staging):
        for words in commands:
            given = " ".join(words)
            for host, server in ports.items():
                given = given.replace(f"{host}.staging.example:6380", f"127.0.0.1:{server.port}")
            trust = [] if "cluster.tls" not in given else ["--set", f"cluster.tls.name={NAME}"]
            ended = lab(*given.split()[1:], *trust)
            assert ended.code == 0, ended.out + ended.err
