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
    reason = images.missing_reason(FakeApi(**FITTING | {"node": "old"}))  # type: ignore[arg-type]
    assert reason == "lock-lab-node:latest was built by another version of the lab"


def test_another_image_for_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert images.node_image() == "lock-lab-node:latest"
    monkeypatch.setenv(images.NODE_VARIABLE, "lock-lab-node:redis-8")
    assert images.node_image() == "lock-lab-node:redis-8"


@pytest.mark.parametrize(
    ("base", "tag"),
    [
        ("redis:8", "redis-8"),
        ("valkey/valkey:8-alpine", "valkey-valkey-8-alpine"),
        ("localhost:5000/redis", "localhost-5000-redis"),
    ],
)
def test_tags(base: str, tag: str) -> None:
    assert images.tag_of(base) == f"lock-lab-node:{tag}"


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
    """An engine whose nodes are on the base that was built last."""

    def __init__(self) -> None:
        self.base: str | None = None

    def inspect_image(self, name: str) -> dict[str, Any]:
        """As the engine does; everything but the nodes is there and fits."""
        from docker.errors import ImageNotFound

        if name == images.NODE.name and self.base is None:
            raise ImageNotFound(name)
        kind = name.removeprefix("lock-lab-").partition(":")[0]
        return {"Config": {"Labels": {images.DIGEST_LABEL: FITTING[kind], images.BASE_LABEL: self.base}}}

    def build(self, *, buildargs: dict[str, str], **_: Any) -> list[dict[str, str]]:
        """As the engine does."""
        self.base = buildargs[images.NODE.base_argument]
        return []

    def images(self, **_: Any) -> list[Any]:
        """None that was replaced."""
        return []

    def tag(self, *_: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def test_nodes_stay_on_the_base_that_was_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    api = BuildingApi()
    monkeypatch.setattr(images, "connect", lambda *_: api)
    monkeypatch.setattr(tools, "provide", lambda *_: Found(Path("x"), "1", "cache"))
    bases, reported = [], list[str]()
    for chosen in (None, "valkey/valkey:8", None, images.BASE_IMAGE, None):
        images.build(chosen, reported.append)
        bases.append(api.base)
    assert bases == [images.BASE_IMAGE, "valkey/valkey:8", "valkey/valkey:8", *[images.BASE_IMAGE] * 2]
    (reminder,) = (line for line in reported if "stay on" in line)
    assert "valkey/valkey:8" in reminder
    assert f"--redis-image {images.BASE_IMAGE}" in reminder
