"""Which steps of a lock's own code a trial takes.

While ``noted`` is open, the functions of the lock run as compiled from their source with a note before each
statement, and one in an ``else`` for each ``if`` without it. Lines and behaviour stay the same. The notes add
up to 1.7 % to a trial; ``sys.settrace`` more than doubles it, and Python 3.11 has no ``sys.monitoring``.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from lab.drivers import is_driver
from lab.locks import PARTS, lock_class
from lab.locks.failure import file_of, modules_of

NAME: Final = "__lab_takes__"
"""What the notes call, in the modules of the lock."""
TAKEN: Final[set[int]] = set()
"""The numbers of the steps that were taken, since somebody cleared it."""
OF_DRIVERS: Final = "a driver runs in a process of its own"
NO_SOURCE: Final = "there is no file with the source of what runs"
WORDS_MAX: Final = 60
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Step:
    """A statement of a lock, or the way past an ``if`` that has no ``else``, which ``passes`` its body.

    ``why`` says when it is taken, in words, ``depth`` in how many blocks it is; ``first``: of its function.
    """

    file: str
    line: int
    function: str
    why: str
    depth: int
    first: bool = False
    passes: bool = False


@dataclass(frozen=True, slots=True)
class LockCode:
    """The steps of a lock, by their numbers. ``why_not``: why none are known."""

    steps: tuple[Step, ...] = ()
    why_not: str = ""


@contextlib.contextmanager
def noted(lock: str) -> Iterator[LockCode]:
    """Note in ``TAKEN`` what is executed inside of the code of a lock: outside of ``trials``.

    Raises:
        LabError: no such lock.
    """
    if is_driver(lock):
        yield LockCode(why_not=OF_DRIVERS)
        return
    own = lock_class(lock)
    steps: list[Step] = []
    with contextlib.ExitStack() as stack:
        for module in modules_of(own):
            stack.enter_context(_noted_in(module, own, steps))
        yield LockCode(tuple(steps), "" if steps else NO_SOURCE)


@contextlib.contextmanager
def _noted_in(module: ModuleType, own: type, steps: list[Step]) -> Iterator[None]:
    """Note the functions of one module, unless its source is not what runs; ``steps`` gets theirs."""
    marked = _Marked(file_of(module), len(steps))
    try:
        tree = ast.parse(Path(file_of(module)).read_bytes())
    except (OSError, SyntaxError, ValueError):
        yield
        return
    known = _codes(_compiled(tree, marked.file))
    marked.mark([each for each in tree.body if not _is_another_lock(each, module, own)])
    codes = _codes(_compiled(tree, marked.file))
    before = [(each, each.__code__) for each in _functions(module)]
    if not before or any(known.get(_key(code)) != code for _, code in before):
        yield
        return
    steps += marked.steps
    vars(module)[NAME] = TAKEN.add
    for function, code in before:
        function.__code__ = codes[_key(code)]
    try:
        yield
    finally:
        for function, code in before:
            function.__code__ = code
        del vars(module)[NAME]


def _functions(module: ModuleType) -> list[FunctionType]:
    """All functions of a module, also those behind decorators; without those made from no file."""
    frozen = gc.get_freeze_count()
    gc.unfreeze()  # the collector does not show what is frozen
    everything = gc.get_objects()
    if frozen:
        gc.freeze()
    return [
        each
        for each in everything
        if type(each) is FunctionType
        and each.__globals__ is vars(module)
        and not each.__code__.co_filename.startswith("<")
    ]


def _is_another_lock(each: ast.stmt, module: ModuleType, own: type) -> bool:
    found = vars(module).get(each.name) if isinstance(each, ast.ClassDef) else None
    return (
        isinstance(found, type) and found not in own.__mro__ and all(hasattr(found, part) for part in PARTS)
    )


def _compiled(tree: ast.Module, file: str) -> CodeType:
    with warnings.catch_warnings():  # they were shown when the module was imported
        warnings.simplefilter("ignore")
        return compile(ast.fix_missing_locations(tree), file, "exec", dont_inherit=True)


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    """The code of all functions in this one."""
    found = {_key(code): code}
    for each in code.co_consts:
        if isinstance(each, CodeType):
            found |= _codes(each)
    return found


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


class _Marked:
    """Puts notes into the syntax tree of one file.

    Args:
        file: its path.
        number: of the first step.
    """

    def __init__(self, file: str, number: int) -> None:
        self.file, self._number = file, number
        self._depth = 0
        self.steps: list[Step] = []

    def mark(self, body: list[ast.stmt], within: str = "") -> None:
        """Mark the functions among these statements, which are in none."""
        for each in body:
            if isinstance(each, _FUNCTIONS):
                self._mark_function(each, f"{within}{each.name}")
            elif isinstance(each, ast.ClassDef):
                self.mark(each.body, f"{within}{each.name}.")
            elif isinstance(each, ast.If | ast.Try | ast.With):
                inside = [inner for inner in ast.iter_child_nodes(each) if isinstance(inner, ast.stmt)]
                self.mark(inside, within)

    def _mark_function(self, each: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        body = [inner for inner in each.body if not _is_silent(inner)]
        if body and "NotImplementedError" not in ast.unparse(body[0]):
            each.body = self._suite(each.body, name, f"{name} is never called", first=True)

    def _suite(self, body: list[ast.stmt], name: str, why: str, *, first: bool = False) -> list[ast.stmt]:
        """These statements with their notes; ``why`` is said of the first."""
        found: list[ast.stmt] = []
        self._depth += 1
        for each in body:
            if not _is_silent(each):
                found.append(self._note(Step(self.file, each.lineno, name, why, self._depth, first), each))
                why, first = f"what follows line {each.lineno}", False
            found.append(each)
            self._mark_inside(each, name)
        self._depth -= 1
        return found

    def _mark_inside(self, each: Any, name: str) -> None:
        """Mark the statements in this one of a function."""
        if isinstance(each, _FUNCTIONS):
            self._mark_function(each, f"{name}.{each.name}")
            return
        if isinstance(each, ast.ClassDef):
            self.mark(each.body, f"{name}.{each.name}.")
            return
        body = other = after = f"what follows line {each.lineno}"
        if isinstance(each, ast.If):
            test = _text(each.test)
            body, other = f"the branch `if {test}`", f"the branch where `{test}` is false"
        elif isinstance(each, ast.While | ast.For | ast.AsyncFor):
            body = f"the loop of line {each.lineno}"
        suites = [(each, "body", body)]
        for handler in getattr(each, "handlers", ()):
            caught = f" {_text(handler.type)}" if handler.type else ""
            suites.append((handler, "body", f"the branch `except{caught}`"))
        for case in getattr(each, "cases", ()):
            suites.append((case, "body", f"the branch `case {_text(case.pattern)}`"))
        for owner, suite, why in (*suites, (each, "orelse", other), (each, "finalbody", after)):
            if inner := getattr(owner, suite, []):
                setattr(owner, suite, self._suite(inner, name, why))
        if isinstance(each, ast.If) and not each.orelse:
            step = Step(self.file, each.lineno, name, other, self._depth, passes=True)
            each.orelse = [self._note(step, each)]

    def _note(self, step: Step, at: ast.stmt) -> ast.stmt:
        """The statement that notes a step, on the line of this one."""
        self.steps.append(step)
        number = ast.Constant(self._number + len(self.steps) - 1)
        return ast.copy_location(ast.Expr(ast.Call(ast.Name(NAME, ast.Load()), [number], [])), at)


def _is_silent(each: ast.stmt) -> bool:
    """Whether nothing is executed for it: a docstring, dots, a ``pass``, or a declaration."""
    constant = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
    return constant or isinstance(each, ast.Pass | ast.Global | ast.Nonlocal)


def _text(node: ast.AST) -> str:
    """A part of the source, in short."""
    text = ast.unparse(node)
    return text if len(text) <= WORDS_MAX else f"{text[: WORDS_MAX - 1]}…"
