"""Every small change of a module that its tests should notice: where it is, and the changed tree.

Left out, because no test should depend on them: docstrings, annotations, decorators, imports, `__all__`,
`assert` as a statement, and what only type checkers read. A change inside an f-string, or of a string with a
blank in it, is a change of a message, and counted apart.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

Path = tuple[tuple[str, int | None], ...]
"""How to reach a node from the module: fields, and positions in those that are lists."""

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_PAIRS: Final = (
    ("min", "max"),
    ("any", "all"),
    ("minimum", "maximum"),
    ("argmin", "argmax"),
    ("bisect_left", "bisect_right"),
    ("startswith", "endswith"),
    ("floor", "ceil"),
    ("add", "discard"),
)
_SWAPPED: Final = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_FOR_TYPES: Final = {"TypeVar", "ParamSpec", "cast", "NewType", "Literal"}


@dataclass(frozen=True)
class Mutant:
    """One change: `replacement` at `path` of a module; `span` are the lines of the statement that it is in.

    `at_definition` says that it is not inside the body of a function: it acts when the module is imported.
    """

    module: str
    line: int
    operator: str
    before: str
    after: str
    message: bool
    at_definition: bool
    span: tuple[int, int]
    path: Path
    replacement: ast.AST
    defines: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name: the same as long as the module is the same."""
        place = ".".join(f"{field}{'' if at is None else at}" for field, at in self.path)
        return f"{self.module}:{self.line}:{self.operator}:{place}:{self.after}"

    @property
    def in_place(self) -> bool:
        """Whether it can be put into a process that has imported the module already."""
        return not self.at_definition or bool(self.constants)

    @property
    def constants(self) -> tuple[str, ...]:
        """The names of the module that its statement defines, if that is all that the statement does."""
        return self.defines if self.at_definition else ()

    def applied(self, tree: ast.Module) -> ast.Module:
        """A copy of the tree of its module with this change in it."""
        changed = copy.deepcopy(tree)
        node: ast.AST = changed
        for field, at in self.path[:-1]:
            node = getattr(node, field) if at is None else getattr(node, field)[at]
        field, at = self.path[-1]
        if at is None:
            setattr(node, field, self.replacement)
        else:
            getattr(node, field)[at] = self.replacement
        return ast.fix_missing_locations(changed)


def mutants_of(module: str, tree: ast.Module) -> Iterator[Mutant]:
    """All mutants of a module."""
    yield from _Walk(module).children(tree, ())


@dataclass
class _Walk:
    module: str
    span: tuple[int, int] = (0, 0)
    in_function: bool = False
    in_message: bool = False
    defines: tuple[str, ...] = ()

    def children(self, node: ast.AST, path: Path) -> Iterator[Mutant]:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
                continue
            if field in ("args", "body") and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                inner = replace(self, in_function=field == "body" or self.in_function, defines=())
            else:
                inner = self
            if isinstance(value, ast.AST):
                yield from inner.visit(value, (*path, (field, None)))
            elif isinstance(value, list):
                for at, item in enumerate(value):
                    if isinstance(item, ast.AST) and not _is_docstring(node, field, at):
                        yield from inner.visit(item, (*path, (field, at)))

    def visit(self, node: ast.AST, path: Path) -> Iterator[Mutant]:
        if _is_left_out(node):
            return
        walk = self
        if isinstance(node, ast.stmt):
            walk = replace(self, span=_span(node), defines=_defined(node) if len(path) == 1 else ())
        elif isinstance(node, ast.JoinedStr):
            walk = replace(self, in_message=True)
        for operator, replacement in changes(node):
            if isinstance(node, ast.expr | ast.stmt) and isinstance(replacement, ast.expr | ast.stmt):
                ast.copy_location(replacement, node)
            yield Mutant(
                self.module,
                getattr(node, "lineno", walk.span[0]),
                operator,
                _shown(node),
                _shown(replacement),
                walk.in_message or operator == "message",
                not walk.in_function,
                walk.span,
                path,
                replacement,
                walk.defines,
            )
        yield from walk.children(node, path)


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The operators that fit a node, each with what it puts in its place."""
    if isinstance(node, ast.expr):
        yield from _of_expression(node)
    if isinstance(node, ast.stmt):
        yield from _of_statement(node)
    if isinstance(node, ast.If | ast.While | ast.IfExp) and _is_to_negate(node.test):
        yield "negated condition", _with(node, test=_negated(node.test))
    if isinstance(node, ast.comprehension):
        for at, test in enumerate(node.ifs):
            yield "removed filter", _with(node, ifs=_without(node.ifs, at))
            if _is_to_negate(test):
                yield "negated condition", _with(node, ifs=_put(node.ifs, at, _negated(test)))
    if isinstance(node, ast.Slice):
        for part in ("lower", "upper", "step"):
            if getattr(node, part) is not None:
                yield "slice", _with(node, **{part: None})


def _of_expression(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            for other in _COMPARISONS[type(operator)]:
                yield "comparison", _with(node, ops=_put(node.ops, at, other()))
    elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        yield "arithmetic", _with(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.BoolOp):
        yield "boolean", _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for at in range(len(node.values)):
            left = _without(node.values, at)
            yield "removed operand", left[0] if len(left) == 1 else _with(node, values=left)
    elif isinstance(node, ast.UnaryOp):
        yield "unary", copy.deepcopy(node.operand)
    elif isinstance(node, ast.Constant):
        yield from _of_constant(node)
    elif isinstance(node, ast.Call) and ast.unparse(node.func) not in _FOR_TYPES:
        if node.args:  # the last one: without an earlier one hardly a call is a call
            yield "removed argument", _with(node, args=node.args[:-1])
        for at in range(len(node.keywords)):
            yield "removed argument", _with(node, keywords=_without(node.keywords, at))
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in _SWAPPED:
        yield "min/max", _with(node, id=_SWAPPED[node.id])
    elif isinstance(node, ast.Attribute) and node.attr in _SWAPPED:
        yield "min/max", _with(node, attr=_SWAPPED[node.attr])


def _of_constant(node: ast.Constant) -> Iterator[tuple[str, ast.AST]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", ast.Constant(not value)
    elif isinstance(value, int | float):
        yield "constant", ast.Constant(value + 1)
        yield "constant", ast.Constant(value - 1)
    elif isinstance(value, str):
        yield "message" if " " in value else "constant", ast.Constant(f"XX{value}XX")
    elif isinstance(value, bytes):
        yield "constant", ast.Constant(b"XX" + value)


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.Expr | ast.AugAssign | ast.Raise | ast.Delete):
        yield "removed statement", ast.Pass()
    if isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield "arithmetic", _with(node, op=_ARITHMETIC[type(node.op)]())
    elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
            yield "removed statement", ast.Pass()
        elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "assigned None", _with(node, value=ast.Constant(None))
    elif isinstance(node, ast.Return):
        none = node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None)
        yield ("removed return", ast.Pass()) if none else ("returned None", _with(node, value=None))
    elif isinstance(node, ast.Continue):
        yield "removed continue", ast.Pass()
        yield "continue to break", ast.Break()
    elif isinstance(node, ast.Break):
        yield "removed break", ast.Pass()


def _is_left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert):
        return True
    if isinstance(node, ast.If):
        test = ast.unparse(node.test)
        return test == "TYPE_CHECKING" or test.startswith("__name__ ==")
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)


def _is_docstring(parent: ast.AST, field: str, at: int) -> bool:
    """Whether it is a string that stands for itself: below a definition, or below a constant."""
    if field != "body":
        return False
    node = getattr(parent, "body")[at]  # noqa: B009  not every tree has one
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_to_negate(test: ast.expr) -> bool:
    """Whether no other operator negates it."""
    simple = isinstance(test, ast.Compare) and len(test.ops) == 1
    return not simple and not (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), copy.deepcopy(test))


def _span(node: ast.stmt) -> tuple[int, int]:
    """The lines of a statement; of one with a body those of its head."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno
    return node.lineno, max(node.lineno, last or node.lineno)


def _defined(node: ast.stmt) -> tuple[str, ...]:
    """The names that an assignment defines."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return tuple(name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def _with(node: ast.AST, **fields: object) -> ast.AST:
    other = copy.copy(node)
    for name, value in fields.items():
        setattr(other, name, value)
    return other


def _put(items: Sequence[ast.AST], at: int, item: ast.AST) -> list[ast.AST]:
    return [*items[:at], item, *items[at + 1 :]]


def _without(items: Sequence[ast.AST], at: int) -> list[ast.AST]:
    return [*items[:at], *items[at + 1 :]]


def _shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    if isinstance(node, ast.If | ast.While):
        return text.split(":", 1)[0] if len(text) > 200 else text
    return text
