"""What an ordinary lock is recognised as, and what is asked where too little can be seen."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.drivers import is_driver, words_of
from lab.drivers.messages import ONE_OBJECT
from lab.drivers.python.ordinary_driver import Ordinary
from lab.drivers.shapes import Shape, shape_of
from lab.errors import LabError
from lab.locks import capacity_of, lock_class
from tests.known_bad.ordinary import LOCKS, PLACE

NUMBERS = itertools.count()
OBJECT = """
import redis
class Lock:
    def __init__(self, client, name{parameters}):
        self.client = client
    def acquire(self{acquire}):
        {body}
        return True
    def release(self): pass
"""


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes a module, and what pyproject.toml says of it; returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)

    def write(source: str, said: str = "") -> str:
        name = f"ordinary_{next(NUMBERS)}"
        (tmp_path / f"{name}.py").write_text(source)
        (tmp_path / "pyproject.toml").write_text(said.replace("MODULE", name))
        return name

    return write


def an_object(parameters: str = "", acquire: str = "", body: str = "pass") -> str:
    return OBJECT.format(parameters=parameters, acquire=acquire, body=body)


def seen(name: str) -> Shape:
    shape = shape_of(name)
    assert shape is not None
    return shape


def refused(name: str) -> LabError:
    with pytest.raises(LabError) as caught:
        shape_of(name)
    return caught.value


SHAPES = {
    "classes:BareDelete": ("object", {"client": "client", "name": "key", "ttl": "ttl_s"}),
    "classes:CompareThenDelete": (
        "object",
        {"redis_client": "client", "lock_name": "key", "expire_seconds": "ttl_s"},
    ),
    "classes:InScripts": ("object", {"client": "client", "name": "key", "ttl_ms": "ttl_ms"}),
    "functions:acquire_lock": (
        "two functions",
        {"conn": "client", "lockname": "key", "lock_timeout": "ttl_s", "identifier": "token"},
    ),
    "managers:lock": ("context manager", {"client": "client", "name": "key", "ttl_ms": "ttl_ms"}),
    "managers:Exclusive": ("context manager", {"redis": "client", "name": "key", "timeout": "ttl_s"}),
    "managers:Locks": ("context manager", {"client": "client", "name": "key", "ttl_ms": "ttl_ms"}),
    "program:locks": ("object", {"name": "key", "ttl": "ttl_s", "token": "token"}),
    "program:lock_invoice": ("two functions", {"number_name": "key", "ttl": "ttl_s"}),
    "library:order_lock": (
        "object",
        {"client": "client", "name": "key", "ttl": "ttl_s", "additional_time": "ttl_s"},
    ),
    "decorators:exclusive": ("decorator", {"client": "client", "name": "key", "ttl": "ttl_s"}),
    "decorators:run_once": (
        "decorator",
        {"client": "client", "name": "key", "ttl_ms": "ttl_ms", "func": "body"},
    ),
    "module_client:CronLock": ("object", {"name": "key", "ttl_seconds": "ttl_s"}),
    "many_nodes:OnMost": ("object", {"servers": "clients", "resource": "key", "ttl_ms": "ttl_ms"}),
    "with_asyncio:exclusive": ("decorator", {"client": "client", "name": "key", "ttl": "ttl_s"}),
}


@pytest.mark.parametrize("lock", SHAPES)
def test_a_shape_is_recognised(lock: str) -> None:
    shape = seen(f"{PLACE}{lock}")
    uses = [use for use in (shape.made, shape.acquire, shape.extend, shape.release) if use is not None]
    given = {each.name: each.role for use in uses for each in use.parameters}
    assert (shape.style, given) == SHAPES[lock]


def test_what_waits_is_simulated_and_what_blocks_gets_a_process() -> None:
    for lock in LOCKS:
        name = f"{PLACE}{lock.lock}"
        assert is_driver(name) == (not lock.lock.startswith(("with_asyncio", "one_object")))
    _, *words = words_of(f"{PLACE}classes:InScripts")
    assert words[:3] == ["-m", "lab.drivers.python.ordinary_driver", f"{PLACE}classes:InScripts"]
    assert lock_class(f"{PLACE}with_asyncio:InScripts").__module__ == f"{PLACE}with_asyncio"


@pytest.mark.parametrize(
    ("lock", "is_async"), [("exclusive", True), ("of_either_kind", False), ("of_its_client", True)]
)
def test_whether_a_decorator_is_async_is_seen_by_what_it_makes(lock: str, is_async: bool) -> None:
    """If it makes either kind its client decides."""
    assert seen(f"{PLACE}decorated_elsewhere:{lock}").is_async is is_async


@pytest.mark.parametrize(
    ("lock", "words"),
    [
        (
            "with_asyncio:bare_delete",
            "context manager; client = client, name = key, ttl = ttl_s; redis.asyncio client that decodes "
            "replies; its key is lock:{key}",
        ),
        (
            "threads:Renewed",
            "an object (acquire, release); client = client, name = key, ttl_ms = ttl_ms; redis client that "
            "decodes replies; renews itself",
        ),
    ],
)
def test_what_was_seen_is_said(lock: str, words: str) -> None:
    assert seen(f"{PLACE}{lock}").words() == words


@pytest.mark.parametrize(
    ("lock", "node_key"),
    [
        ("classes:BareDelete", "lock:{key}"),
        ("flags:try_lock", "running:{key}"),
        ("library:order_lock", "order:{key}"),
        ("classes:InScripts", "{key}"),
    ],
)
def test_the_name_on_the_nodes(lock: str, node_key: str) -> None:
    assert seen(f"{PLACE}{lock}").node_key == node_key


@pytest.mark.parametrize(
    ("parameters", "role"),
    [
        (", ttl_ms", "ttl_ms"),
        (", lease_seconds", "ttl_s"),
        (", px", "ttl_ms"),
        (", ttl=30", "ttl_s"),
        (", ttl=30_000", "ttl_ms"),
        (", ttl: float = 30.0", "ttl_s"),
        (", ttl: 'datetime.timedelta'", "ttl_timedelta"),
        (", ttl=5, timeout=2", "ttl_s"),
    ],
)
def test_the_unit_of_a_ttl(written: Callable[..., str], parameters: str, role: str) -> None:
    made = seen(f"{written(an_object(parameters))}:Lock").made
    assert made is not None
    assert [each.role for each in made.parameters] == ["client", "key", role]


def test_the_unit_by_the_argument_that_it_becomes(written: Callable[..., str]) -> None:
    in_ms = an_object(", ttl", body="self.client.set('x', 1, px=self.ttl)")
    made = seen(f"{written(in_ms)}:Lock").made
    assert made is not None
    assert made.parameters[-1].role == "ttl_ms"


@pytest.mark.parametrize(
    ("source", "what", "line"),
    [
        (an_object(", ttl"), "the unit of ttl", 'parameters = {ttl = "ttl_s"}'),
        (an_object(), "how long it keeps its key, as it takes no TTL", 'ttl = "30s"'),
        (
            an_object(", mode, ttl=5"),
            "what mode of its constructor is given",
            'parameters = {mode = "key"}',
        ),
        (
            an_object(", ttl=5", body="threading.Thread(target=print)"),
            "whether it renews its lease by itself: it has a Thread",
            "renews = true",
        ),
        (
            an_object(", max_leases=4, ttl=5"),
            "how many clients may hold it at once: its constructor has a parameter max_leases",
            "permits = 4",
        ),
        (
            an_object(", limit, ttl=5"),
            "how many clients may hold it at once: its constructor has a parameter limit",
            "permits = 3",
        ),
        (
            an_object(", ttl=5").replace("client, name", "name"),
            "how it comes to its client",
            'replace = ["',
        ),
    ],
)
def test_what_cannot_be_seen_is_asked_for(
    written: Callable[..., str], source: str, what: str, line: str
) -> None:
    name = written(source)
    error = refused(f"{name}:Lock")
    assert what in error.seen
    assert str(error.where).endswith(f"{name}.py:3")
    assert error.hint is not None
    assert f'[tool.lock-lab.locks."{name}:Lock"]\n{line}' in error.hint


def test_what_is_asked_for_can_be_said(written: Callable[..., str]) -> None:
    said = """
        [tool.lock-lab.locks."MODULE:Lock"]
        parameters = {window = "ttl_ms", who = "owner"}
        renews = false
        key = "k:{key}"
    """
    body = "threading.Thread(target=print)"
    shape = seen(f"{written(an_object(', window, who', body=body), said)}:Lock")
    assert shape.made is not None
    assert [each.role for each in shape.made.parameters] == ["client", "key", "ttl_ms", "owner"]
    assert shape.node_key == "k:{key}"
    assert not shape.renews


def test_a_lock_without_a_ttl_says_how_long_it_lasts(written: Callable[..., str]) -> None:
    said = '[tool.lock-lab.locks."MODULE:Lock"]\nttl = "30s"\n'
    assert seen(f"{written(an_object(), said)}:Lock").lasts_ns == 30_000_000_000
    wrong = said.replace("30s", "soon")
    assert refused(f"{written(an_object(), wrong)}:Lock").seen == "the TTL 'soon'"


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ('lease = "30s"', "unknown field `lease`"),
        ("renews = 3", "Expected `bool | null`"),
        ("permits = 0", "Expected `int` >= 1"),
        ('fence = "number"', "the fence as 'number'"),
        ("fence = true", "the fence as True"),
        ('fence = "lock.not a name"', "the fence as 'lock.not a name'"),
        ('parameters = {ttl = "ms"}', "the parameter ttl as 'ms'"),
    ],
)
def test_bad_settings_are_named(written: Callable[..., str], said: str, what: str) -> None:
    name = written(an_object(", ttl=5"), f'[tool.lock-lab.locks."MODULE:Lock"]\n{said}\n')
    error = refused(f"{name}:Lock")
    assert what in error.seen
    assert "pyproject.toml" in str(error.where)


FENCED = """
class Numbered:
    def __init__(self, client, key, ttl_ms=1000): self.{attribute} = None
    def acquire(self): return True
    def release(self): pass
class Lock(Numbered):
    pass
"""


@pytest.mark.parametrize(
    ("attribute", "said", "fence"),
    [
        ("fencing_token", "", "lock.fencing_token"),
        ("fence", "", "lock.fence"),
        ("fence", "fence = false", ""),
        ("number", "", ""),
        ("number", 'fence = "lock.number"', "lock.number"),
        ("number", 'fence = "answer.1"', "answer.1"),
        ("number", 'fence = "builtins:int"', "builtins:int"),
    ],
)
def test_where_the_fence_is(written: Callable[..., str], attribute: str, said: str, fence: str) -> None:
    name = written(FENCED.format(attribute=attribute), f'[tool.lock-lab.locks."MODULE:Lock"]\n{said}\n')
    shape = seen(f"{name}:Lock")
    assert shape.fence == fence
    assert shape.words().endswith(f"its fence is {fence}" if fence else "gives bytes") or not fence


def test_what_is_no_lock_is_refused(written: Callable[..., str]) -> None:
    name = written("class Nothing: pass\ndef make(client, key, ttl=5): return 7\n")
    assert "Nothing is no lock that the lab knows how to use" in refused(f"{name}:Nothing").seen
    assert "int is no lock" in refused(f"{name}:make").seen
    assert shape_of("lab.locks.single:Single") is None
    assert shape_of("no_such_module:Lock") is None


def test_a_function_that_sends_something_is_not_taken_for_one_that_makes_a_lock(
    written: Callable[..., str],
) -> None:
    name = written("def make(client, key, ttl=5): return client.set(key, 1)\n")
    error = refused(f"{name}:make")
    assert "which was called to see what it makes: ConnectionError" in error.seen
    assert f'release = "{name}:FUNCTION"' in str(error.hint)


def test_a_client_decodes_replies_if_the_code_could_compare_nothing_else(
    written: Callable[..., str],
) -> None:
    text = an_object(", ttl=5", body="self.client.get('x') == 'y'")
    assert seen(f"{written(text)}:Lock").decodes
    assert not seen(f"{written(text.replace(chr(39) + 'y', 'b' + chr(39) + 'y'))}:Lock").decodes
    assert not seen(f"{written(text.replace('== ', '.decode() == '))}:Lock").decodes
    assert not seen("redis.lock:Lock").decodes


def test_a_module_that_is_written_anew_is_looked_at_anew(written: Callable[..., str]) -> None:
    name = written(an_object(", ttl=5"))
    first = seen(f"{name}:Lock")
    assert seen(f"{name}:Lock") is first
    del sys.modules[name]
    assert seen(f"{name}:Lock") is not first


def the_blocks(path: Path) -> list[dict[str, Any]]:
    """The Python of a page, executed, each block by itself."""
    found = []
    for block in path.read_text().split("```python\n")[1:]:
        names: dict[str, Any] = {}
        exec(compile(block.split("```")[0], str(path), "exec"), names)
        found.append(names)
    return found


def test_the_page_has_code_that_runs() -> None:
    (first,) = the_blocks(Path(__file__).parents[3] / "docs" / "ordinary-locks.md")
    assert {"acquire", "release"} <= set(vars(first["StockLock"]))


@pytest.mark.parametrize(
    ("said", "given", "permits"),
    [
        ("permits = 4", ["client", "key", "permits", "ttl_s"], 4),
        ("permits = 1", ["client", "key", "ttl_s"], 1),
    ],
)
def test_the_number_of_permits_is_passed_on(
    written: Callable[..., str], said: str, given: list[str], permits: int
) -> None:
    table = f'[tool.lock-lab.locks."MODULE:Lock"]\n{said}\n'
    name = f"{written(an_object(', limit=9, ttl=5'), table)}:Lock"
    shape = seen(name)
    assert shape.made is not None
    assert [each.role for each in shape.made.parameters] == given
    assert capacity_of(name).permits == shape.permits == permits
    assert ("limit" in shape.options) == (permits == 1)  # it may be something else of a lock with one holder


def test_a_parameter_that_is_one_as_it_is_needs_no_word(written: Callable[..., str]) -> None:
    assert seen(f"{written(an_object(', limit=1, ttl=5'))}:Lock").permits == 1


@pytest.mark.parametrize(
    ("body", "extends"),
    [
        ("self.thread = threading.Thread(target=self.run)", False),
        ("self.task = asyncio.create_task(self.run())", False),
        ("while not self.stop.wait(self.ttl / 3): self.client.expire(self.name, self.ttl)", False),
        ("return self.client.expire(self.name, self.ttl)", True),
        ("while time.monotonic() < 9:\n            time.sleep(1)\n        return self.client.get('x')", True),
    ],
)
def test_a_renewal_in_the_background_is_no_extension(
    written: Callable[..., str], body: str, extends: bool
) -> None:
    said = '[tool.lock-lab.locks."MODULE:Lock"]\nrenews = true\n'
    source = an_object(", ttl=5") + f"    def renew(self):\n        {body}\n"
    assert (seen(f"{written(source, said)}:Lock").extend is not None) == extends


@pytest.mark.parametrize(
    ("acquire", "options", "wait_ms"),
    [
        (", timeout=3.0", {}, 3_000),
        (", timeout=3.0", {"timeout": 0.5}, 500),
        (", timeout=2_500", {}, 2_500),
        (", timeout=700", {}, None),
        (", wait_ms=700", {}, 700),
        (", blocking_timeout=-1", {}, None),
        (", blocking_timeout=None", {}, None),
        (", blocking=True, retries=5", {}, None),
    ],
)
def test_how_long_an_acquire_waits(
    written: Callable[..., str], acquire: str, options: dict[str, float], wait_ms: int | None
) -> None:
    wait_ns = seen(f"{written(an_object(', ttl=5', acquire))}:Lock").wait_ns(options)
    assert wait_ns == (None if wait_ms is None else wait_ms * 1_000_000)


def test_an_object_that_with_is_used_on_may_be_used_inside_of_itself(written: Callable[..., str]) -> None:
    scope = "    def __enter__(self): pass\n    def __exit__(self, *error): pass\n"
    assert seen(f"{written(an_object(', ttl=5') + scope)}:Lock").is_scope
    assert not seen(f"{written(an_object(', ttl=5'))}:Lock").is_scope
    assert not seen(f"{PLACE}managers:lock").is_scope  # each call makes another object


@pytest.mark.parametrize(
    ("lock", "again"),
    [("managers:lock", False), ("managers:Exclusive", True), ("managers:Locks", True)],
)
def test_one_object_serves_all_leases_only_if_it_can_be_entered_again(lock: str, again: bool) -> None:
    """What a generator makes is over after one lease, and raises if it is entered a second time."""
    shape = seen(PLACE + lock)
    assert shape.serves_again is again
    assert (ONE_OBJECT in Ordinary(shape).options) is again


TYPED = """
import redis
import redis.asyncio
class Lock:
    def __init__(self, client: {type}, name: str, ttl: int = 10):
        self.client = client
    {code} acquire(self) -> bool:
        return bool({waits} self.client.set("k", "v", nx=True, ex=10))
    {code} release(self) -> None:
        {waits} self.client.delete("k")
"""


@pytest.mark.parametrize("code", ["async def", "def"])
@pytest.mark.parametrize("type_", ["redis.asyncio.Redis", "redis.Redis"])
def test_a_client_is_of_the_type_that_its_code_needs(
    written: Callable[..., str], code: str, type_: str
) -> None:
    """The lab makes the client by the code; one of the other type would be used wrongly."""
    source = TYPED.format(type=type_, code=code, waits="await" if code == "async def" else "")
    fits = (code == "async def") == (".asyncio" in type_)
    if fits:
        assert seen(f"{written(source)}:Lock").is_async is (code == "async def")
        return
    error = refused(f"{written(source)}:Lock")
    assert f"code whose client is of the type {type_}" in str(error)
    assert 'client = "module:function"' in str(error)
    said = '[tool.lock-lab.locks."MODULE:Lock"]\nclient = "MODULE:connect"\n'
    connect = "def connect(host, port): return None\n"
    assert seen(f"{written(source + connect, said)}:Lock").is_async is (code == "async def")


SCOPE = """
import redis
class Lock:
    def __init__(self, client, name, ttl=10):
        self.client = client
    {enters}
    def owned(self): return True
"""
ENTERS = """def __enter__(self): return self
    def __exit__(self, *failed): pass"""
GIVES = """@contextlib.contextmanager
    def lock(self):
        yield self"""


@pytest.mark.parametrize(("enters", "owned"), [(ENTERS, "owned"), (GIVES, "")])
def test_a_lock_that_is_entered_is_asked_whether_it_is_held(
    enters: str, owned: str, written: Callable[..., str]
) -> None:
    """Not if it is a method that returns what is entered: that is another object."""
    shape = seen(f"{written('import contextlib' + SCOPE.format(enters=enters))}:Lock")
    assert (shape.style, shape.owned) == ("context manager", owned)
