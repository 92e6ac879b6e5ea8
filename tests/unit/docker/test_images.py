"""The images: what they are called, when they fit, and why a build failed."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab import tools
from lab.errors import LabError
from lab.paths import compose_dir
from lab.servers import DEFAULT
from lab.substrates.docker import images
from lab.tools import Found
from tests.rules.test_rules import ROOT


class FakeApi:
    """An engine that has these images, with these digests."""

    def __init__(self, **digests: str) -> None:
        self._digests = digests

    def inspect_image(self, name: str) -> dict[str, Any]:
        """As the engine does."""
        from docker.errors import ImageNotFound

        kind = name.removeprefix("lock-lab-").partition(":")[0]
        if kind not in self._digests:
            raise ImageNotFound(name)
        return {"Config": {"Labels": {images.DIGEST_LABEL: self._digests[kind]}}}


FITTING = {image.kind: image.digest() for image in images.IMAGES}


def test_all_images_are_there() -> None:
    assert images.missing_reason(FakeApi(**FITTING)) is None  # type: ignore[arg-type]


def test_one_image_is_lacking() -> None:
    api = FakeApi(**{kind: digest for kind, digest in FITTING.items() if kind != "client"})
    assert "no image lock-lab-client" in (images.missing_reason(api) or "")  # type: ignore[arg-type]


def test_one_image_is_of_another_version() -> None:
    stale: Any = FakeApi(**FITTING | {"redis": "old", "toxiproxy": "old"})
    assert (images.missing_reason(stale) or "").startswith(
        "lock-lab-toxiproxy:latest was built by another version of the lab"
    )
    assert (images.node_missing_reason(stale) or "").startswith(
        f"lock-lab-redis:{DEFAULT.version} was built by another version of the lab"
    )


def test_nodes_are_of_the_default_server_unless_another_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert images.node_image() == f"lock-lab-redis:{DEFAULT.version}"
    assert images.node_image("redis@7.2") == "lock-lab-redis:7.2.4"
    assert images.node_image("valkey@9.1") == "lock-lab-valkey:9.1.2"
    assert images.node_image("image:mine:8") == "mine:8"
    with pytest.raises(LabError, match="docker runs images, and /usr/bin/redis-server is a program"):
        images.node_image("/usr/bin/redis-server")
    with pytest.raises(LabError, match=r"no server 'redis@5\.0'"):
        images.node_image("redis@5.0")
    monkeypatch.setenv(images.NODE_VARIABLE, "lock-lab-node:redis-8")
    assert images.node_image() == "lock-lab-node:redis-8"
    assert images.node_image("redis@7.2") == "lock-lab-redis:7.2.4"


@pytest.mark.parametrize(
    ("base", "tag"),
    [
        ("redis:8", "redis-8"),
        ("valkey/valkey:8-alpine", "valkey-valkey-8-alpine"),
        ("localhost:5000/redis", "localhost-5000-redis"),
    ],
)
def test_tags(base: str, tag: str) -> None:
    assert images.node_on(base).name == f"lock-lab-node:{tag}"


def test_a_digest_follows_what_the_image_is_made_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = images.CLIENT.digest(), images.NODE.digest()
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / "new.py").write_text("")
    monkeypatch.setattr(images, "_PACKAGE", tmp_path)
    assert images.CLIENT.digest() != before[0]
    assert images.NODE.digest() != before[1], "its shims are gone"


def test_both_dockerfiles_compile_the_shims_in_the_same_way() -> None:
    def stage(kind: str) -> list[str]:
        text = (compose_dir() / f"{kind}.Dockerfile").read_text()
        return text.split("AS shims\n")[1].split("\nFROM ")[0].splitlines()

    assert stage("node") == stage("client")


def test_the_client_has_what_its_code_imports() -> None:
    names = {name for name in images._client_code() if name.endswith(".py")}
    assert {"site/lab/client/__main__.py", "site/lab/locks/redlock.py", "site/lab/addresses.py"} <= names
    assert not any("substrates" in name or "run.py" in name for name in names)
    # What the package itself offers is imported only when somebody asks for it, which no client does.
    sources = {name: images._client_code()[name].decode() for name in names if name != "site/lab/__init__.py"}
    imported = {
        node.module
        for source in sources.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("lab.")
    }
    modules = {name.removeprefix("site/").removesuffix(".py").removesuffix("/__init__") for name in names}
    assert {module.replace(".", "/") for module in imported} <= modules
    names = {re.split(r"==|\[", requirement)[0] for requirement in images.requirements()}
    assert {"redis", "hiredis", "msgspec", "async-timeout", "httpx", "kazoo", "psycopg"} == names
    exact = {re.sub(r"\[.*]", "", requirement) for requirement in images.requirements()}
    tested = (ROOT / "constraints.txt").read_text().splitlines()
    assert exact <= set(tested), "the versions that the lab is tested with"


ALONE = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        redis = top in {"hiredis", "redis", "async_timeout", "msgspec", "lab"}
        others = top in {"kazoo", "psycopg", "psycopg_binary", "typing_extensions"}
        https = top in {"httpx", "httpcore", "anyio", "h11", "certifi", "idna", "sniffio"}
        own = top in sys.stdlib_module_names or top.startswith("_sysconfigdata")
        if not (redis or others or https or own):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Nothing())
"""
"""What is installed here and not in the image is not there."""


def test_the_image_checks_that_its_locks_can_be_imported_and_they_can(tmp_path: Path) -> None:
    for name, content in images._client_code().items():
        if name.startswith("site/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
    match = re.search(r'^RUN .*python3 -c "(.+)"$', images.CLIENT.dockerfile.read_text(), re.MULTILINE)
    assert match is not None
    pytest.importorskip("kazoo")
    program = f"{ALONE}sys.path.insert(0, {str(tmp_path / 'site')!r})\n{match[1]}\nprint(lab.__file__)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(str(tmp_path))


def test_the_context_holds_everything_and_is_the_same_every_time() -> None:
    files = {"Dockerfile": b"FROM x", "shims/clock.c": b"int x;"}
    packed = images._context(files)
    with tarfile.open(fileobj=packed) as archive:
        assert archive.getnames() == sorted(files)
    assert images._context(files).read() == images._context(dict(reversed(files.items()))).read()


def follow(*lines: dict[str, str]) -> list[str]:
    reported: list[str] = []
    images._follow(lines, images.NODE, images.BASE_IMAGE, reported.append)
    return reported


def test_the_steps_are_told() -> None:
    assert follow({"stream": "Step 1/2 : FROM x\n"}, {"stream": " ---> 123\n"}) == ["Step 1/2 : FROM x"]


def test_a_refusal_is_told_in_its_own_words() -> None:
    with pytest.raises(LabError) as caught:
        follow({"stream": "REFUSED: the clock shim has no effect in this image\n"}, {"error": "returned 1"})
    assert caught.value.seen == "the clock shim has no effect in this image"


def test_without_a_registry_the_script_is_named() -> None:
    with pytest.raises(LabError) as caught:
        follow({"error": "dial tcp: lookup registry: no such host"})
    assert str(compose_dir() / "base-image.sh") in (caught.value.hint or "")
    assert (compose_dir() / "base-image.sh").is_file()


def test_a_refusal_in_colour_is_told_in_its_own_words() -> None:
    with pytest.raises(LabError) as caught:
        follow(
            {"stream": "\x1b[91mREFUSED: the image x has neither redis-server nor valkey-server\n\x1b[0m"},
            {"error": "returned 1"},
        )
    assert caught.value.seen == "the image x has neither redis-server nor valkey-server"
    assert "build one that installs it" in (caught.value.hint or "")


class BuildingApi:
    """An engine that has the clients' and Toxiproxy's images."""

    def __init__(self) -> None:
        self.built: list[tuple[str, str, str | None]] = []

    def inspect_image(self, name: str) -> dict[str, Any]:
        """As the engine does."""
        from docker.errors import ImageNotFound

        kind = name.removeprefix("lock-lab-").partition(":")[0]
        if kind not in ("client", "toxiproxy"):
            raise ImageNotFound(name)
        return {"Config": {"Labels": {images.DIGEST_LABEL: FITTING[kind]}}}

    def build(
        self, *, tag: str, buildargs: dict[str, str], labels: dict[str, str], **_: Any
    ) -> list[dict[str, str]]:
        """As the engine does."""
        base = buildargs[images.NODE.base_argument]
        self.built.append((tag, base, labels.get(images.SERVER_LABEL)))
        return []

    def images(self, **_: Any) -> list[Any]:
        """None that was replaced."""
        return []

    def close(self) -> None:
        """Nothing."""


def test_nodes_have_the_default_server_or_those_that_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    api = BuildingApi()
    monkeypatch.setattr(images, "connect", lambda *_: api)
    monkeypatch.setattr(tools, "provide", lambda *_: Found(Path("x"), "1", "cache"))
    monkeypatch.setattr(images, "_with_server", lambda server, _: ({}, server.server.words))
    images.build(lambda line: None)
    images.build(lambda line: None, servers=("redis@7.2", "valkey@9.1"))
    reported: list[str] = []
    images.build(reported.append, redis_image="valkey/valkey:8")
    assert api.built == [
        (f"lock-lab-redis:{DEFAULT.version}", images.BASE_IMAGE, DEFAULT.words),
        ("lock-lab-redis:7.2.4", images.BASE_IMAGE, "Redis 7.2.4"),
        ("lock-lab-valkey:9.1.2", images.BASE_IMAGE, "Valkey 9.1.2"),
        ("lock-lab-node:valkey-valkey-8", "valkey/valkey:8", None),
    ]
    assert any("--server image:lock-lab-node:valkey-valkey-8" in line for line in reported)
