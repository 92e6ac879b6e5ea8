"""A plugin for pytest that tries mutants instead of running tests, each in a fork.

The tests are collected once. The task `trace` runs each in a fork of its own and writes down what it executed
of the checker, what it took, and whether it started a process. The task `try` gives the functions of a forked
process the code of a mutant, in place, and runs the tests that execute its line until one fails. What acts
when a module is imported cannot be put in place: it is tried in a fresh process, see `cold`.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final

import pytest
from _pytest.runner import runtestprotocol

from checker.linearizability import compiled
from tests.mutation import cold
from tests.mutation.operators import Mutant
from tests.mutation.sample import ROOT, Profile, Result, Task, module_name, mutants_in, profiles

CHECKER: Final = str(ROOT / "checker") + os.sep
FACTOR, EXTRA_SECONDS = 5.0, 3.0
"""A test of a mutant may take so many times what it takes, and so much more, in processor time."""
WALL: Final = 6.0
"""And so many times that on the clock of the machine, which others use as well."""
CALLS: Final = 30
"""In so many calls of a function its lines are traced; later ones would hardly show others."""

THREADED: Final = ("polars", "numba")
"""Importing them starts threads, which a fork would lack: they are hidden while tests are collected."""


def pytest_configure(config: pytest.Config) -> None:
    """Hide them from what is collected."""
    sys.modules.update(dict.fromkeys(THREADED))  # type: ignore[arg-type]  # as the import system has it


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Do the task in the place of the tests."""
    if session.testsfailed:
        raise session.Failed("the tests cannot be collected")
    for name in THREADED:
        del sys.modules[name]
    compiled._numba.cache_clear()
    task = Task.read()
    session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one for all forks
    items = {item.nodeid: item for item in session.items}
    with Path(task.out).open("a", encoding="utf-8") as out:
        lines = traced(task, items) if task.kind == "trace" else tried(task, items)
        for line in lines:
            out.write(json.dumps(line) + "\n")
            out.flush()
    return True


def traced(task: Task, items: dict[str, pytest.Item]) -> Iterator[dict[str, Any]]:
    """What each test executes of the checker; a test that takes longer than `task.seconds` is left out."""
    known = {profile.name for profile in profiles(task.profiles)}
    for name, item in [pair for pair in items.items() if pair[0] not in known][task.shard :: task.shards]:
        code, said = forked(partial(_traced, item, task.seconds), 60 + 30 * task.seconds)
        if code == 0:
            yield {"name": name} | json.loads(said)


def _traced(item: pytest.Item, seconds: float, say: Callable[[str], None]) -> int:
    """Run a test, and say what it executes and takes; lines count in the first calls of a function only."""
    executed: dict[int, set[int]] = {}  # by the identity of a code: to hash one takes long
    lines: dict[int, tuple[CodeType, set[int]]] = {}
    calls: Counter[int] = Counter()
    started: list[str] = []

    def local(frame: FrameType, event: str, argument: object) -> Any:
        executed[id(frame.f_code)].add(frame.f_lineno)
        return local

    def called(frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        calls[id(code)] += 1
        if calls[id(code)] > CALLS:
            return None
        known = lines.get(id(code))
        if known is None:
            mine = code.co_filename.startswith(CHECKER)
            known = code, {line for _, _, line in code.co_lines() if line is not None and mine}
            lines[id(code)], executed[id(code)] = known, set()
        return None if known[1] <= executed[id(code)] else local(frame, event, argument)

    sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    begin = time.process_time()
    threading.settrace(called)
    sys.settrace(called)
    passed = passes(item)
    sys.settrace(None)
    files: dict[str, set[int]] = defaultdict(set)
    for code, _ in lines.values():
        if executed[id(code)]:
            files[str(Path(code.co_filename).relative_to(ROOT))] |= executed[id(code)]
    profile = {
        "seconds": time.process_time() - begin,
        "lines": {file: sorted(found) for file, found in files.items()},
        "starts": bool(started),
        "compiles": "numba" in sys.modules,
    }
    say(json.dumps(profile))
    return 0 if passed else 1


def tried(task: Task, items: dict[str, pytest.Item]) -> Iterator[dict[str, Any]]:
    """What became of each mutant of this share."""
    known = [profile for profile in profiles(task.profiles) if profile.name in items]
    functions = functions_by_code()
    gc.freeze()  # what is there already is neither looked at nor copied in a fork
    killers: Counter[tuple[str, str]] = Counter()
    sound: set[str] = set()
    waiting = mutants_in(task.sample)[task.shard :: task.shards][::-1]
    while waiting:
        mutant = waiting.pop()
        chosen = tests_of(mutant, known, task.seconds, killers)
        begin = time.monotonic()
        alone = bool(chosen) and mutant.module not in chosen[0].lines
        if not chosen or (alone and not task.cold):
            result = Result("no test")
        elif alone or not mutant.in_place:
            result = cold.tried(mutant, chosen)
        else:
            result = in_place(mutant, chosen, items, functions)
        if result.killer and result.killer not in sound:
            if forked(partial(_unchanged, items[result.killer]), 300.0)[0]:  # it fails without any mutant
                known = [profile for profile in known if profile.name != result.killer]
                waiting.append(mutant)
                continue
            sound.add(result.killer)
        if result.killer:
            killers[mutant.module, result.killer] += 1
            killers["", result.killer] += 1
        yield result.line(mutant, tests=len(chosen), seconds=time.monotonic() - begin)


def tests_of(
    mutant: Mutant, known: list[Profile], seconds: float, killers: Counter[tuple[str, str]]
) -> list[Profile]:
    """The tests that execute its statement, the likeliest and quickest first, as long as the time lasts."""
    first, last = mutant.span
    if mutant.at_definition:
        covering = [profile for profile in known if mutant.module in profile.lines]
    else:
        covering = [p for p in known if any(first <= n <= last for n in p.lines.get(mutant.module, ()))]
    covering = [profile for profile in covering if not profile.compiles] or covering  # compiling takes long
    if not covering:  # a program on its own, if anything runs it
        covering = [profile for profile in known if profile.starts]
    left = seconds
    chosen: list[Profile] = []
    path = Path(mutant.module)
    word = path.stem.removeprefix("__init__")

    def order(profile: Profile) -> float:
        """Seconds per kill: likely is what killed before, and what is named after the module."""
        file, _, test = profile.name.partition("::")
        likely = 0.2 + killers["", profile.name] + 5 * killers[mutant.module, profile.name]
        return (0.003 + profile.seconds) / (
            likely
            + (word in file)
            + (path.parent.name in file.rpartition("/")[2])
            + (file.rpartition("/")[2].startswith(("test_mutation", "test_recorded")))
            + (word in test)
        )

    for profile in sorted(covering, key=order):
        if not chosen or left >= profile.seconds:
            chosen.append(profile)
            left -= profile.seconds
    return chosen


def in_place(
    mutant: Mutant,
    chosen: list[Profile],
    items: dict[str, pytest.Item],
    functions: dict[CodeType, list[FunctionType]],
) -> Result:
    """Run tests in a fork whose functions have the code of the mutant."""
    tree = ast.parse((ROOT / mutant.module).read_text(encoding="utf-8"))
    file = str(ROOT / mutant.module)
    before = compile(tree, file, "exec", dont_inherit=True)
    changed = mutant.applied(tree)
    after = compile(changed, file, "exec", dont_inherit=True)

    def run(say: Callable[[str], None]) -> int:
        if mutant.constants:
            redefine(mutant, changed)
        elif not replace(before, after, functions):
            say("?")
            return 3
        for profile in chosen:
            say(profile.name + "\n")
            signal.setitimer(signal.ITIMER_PROF, FACTOR * profile.seconds + EXTRA_SECONDS)
            if not passes(items[profile.name]):
                return 1
        return 0

    limit = WALL * sum(FACTOR * profile.seconds for profile in chosen) + 30
    code, said = forked(run, limit)
    last = said.strip().rsplit("\n", 1)[-1]
    if code == 3:
        return cold.tried(mutant, chosen)
    if code == 0:
        return Result("survived")
    if code > 0:  # 2: what it defines cannot even be evaluated
        return Result("killed", last if last in items else "")
    return Result("timeout", last if last in items else "")


def replace(before: CodeType, after: CodeType, functions: dict[CodeType, list[FunctionType]]) -> bool:
    """Give every function made from `before`, or from code in it, the code in its place in `after`."""
    if before == after:
        return True
    olds = [c for c in before.co_consts if isinstance(c, CodeType)]
    news = [c for c in after.co_consts if isinstance(c, CodeType)]
    if functions.get(before):
        for function in functions[before]:
            try:
                function.__code__ = after
            except ValueError:  # another number of free variables
                return False
        return True  # those inside are made anew by it
    if [c.co_qualname for c in olds] != [c.co_qualname for c in news]:
        return False
    changed = [pair for pair in zip(olds, news, strict=True) if pair[0] != pair[1]]
    return bool(changed) and all(replace(old, new, functions) for old, new in changed)


def redefine(mutant: Mutant, changed: ast.Module) -> None:
    """Give constants of a module their changed values, in all modules that have them under the same name."""
    origin = sys.modules[module_name(mutant.module)]
    namespace = dict(vars(origin))
    statement = changed.body[mutant.path[0][1] or 0]
    exec(compile(ast.Module([statement], []), mutant.module, "exec", dont_inherit=True), namespace)
    for name in mutant.constants:
        old = vars(origin)[name]
        for module in list(sys.modules.values()):
            mine = getattr(module, "__name__", "").startswith(("checker", "tests"))
            if mine and vars(module).get(name) is old:
                setattr(module, name, namespace[name])


def functions_by_code() -> dict[CodeType, list[FunctionType]]:
    """All functions of the checker that there are, by their code; its modules are imported for that."""
    for file in sorted((ROOT / "checker").rglob("*.py")):
        if file.name not in ("__main__.py", "helper.py", "parquet_helper.py"):
            importlib.import_module(module_name(str(file.relative_to(ROOT))))
    found: dict[CodeType, list[FunctionType]] = defaultdict(list)
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(CHECKER):
            found[thing.__code__].append(thing)
    return found


def _unchanged(item: pytest.Item, say: Callable[[str], None]) -> int:
    """Run a test of the code as it is."""
    return 0 if passes(item) else 1


def passes(item: pytest.Item) -> bool:
    """Run one test, its fixtures included."""
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def forked(work: Callable[[Callable[[str], None]], int], seconds: float) -> tuple[int, str]:
    """Run it in a fork: its exit code (negative: the signal that ended it) and what it said."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()
        code = 2
        try:
            os.close(reading)
            code = work(lambda text: _say(writing, text))
        except BaseException as error:  # noqa: BLE001  whatever it is, this process ends here
            _say(writing, f"{type(error).__name__}\n")
        finally:
            os._exit(code)
    os.close(writing)
    said, end = b"", time.monotonic() + seconds
    handle = os.pidfd_open(child)
    ended = False
    while not ended and time.monotonic() < end:
        ready, _, _ = select.select([reading, handle], [], [], max(0.0, end - time.monotonic()))
        if reading in ready:
            part = os.read(reading, 1 << 16)
            said += part
            ended = not part
        else:
            ended = handle in ready
    if not ended or not select.select([handle], [], [], 5.0)[0]:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it may have started
    os.close(handle)
    os.close(reading)
    return os.waitstatus_to_exitcode(status), said.decode()


def _say(writing: int, text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(writing, data) :]
