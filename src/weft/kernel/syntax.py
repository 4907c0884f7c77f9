"""The syntax tree of a user's function: where it stands, what it assigns, loops without jumps."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from weft.errors import Place, UnsupportedError, user_place
from weft.kernel.index_loops import AsNests
from weft.kernel.liveness import note_live
from weft.kernel.matches import AsBranches
from weft.kernel.outside import outside
from weft.records import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    """A function as it was written.

    Attributes
    ----------
    function : FunctionType
    tree : ast.FunctionDef
        With the line numbers of its file, loops without `break` and `continue`, `if` for
        `match`, loops over numbers for such over indices, and nothing left of
        `with np.errstate(...)` but what it holds.
    indent : int
        Columns that were taken off every line before parsing.
    """

    function: FunctionType
    tree: ast.FunctionDef
    indent: int

    def place(self, node: ast.AST) -> Place:
        code = self.function.__code__
        line = getattr(node, "lineno", code.co_firstlineno)
        column = getattr(node, "col_offset", 0) + self.indent + 1
        return Place(code.co_filename, line, code.co_name, column)


def read_source(function: Callable[..., Any]) -> Source:
    """A function as it is interpreted.

    Raises
    ------
    UnsupportedError
        Where there is no syntax tree of it.
    """
    source = parsed(function)
    tree = source.tree
    _WithoutErrorStates(source.function).visit(tree)
    AsBranches().visit(tree)
    AsNests(source.function).visit(tree)
    tree.body = _Jumps(source).block(tree.body, None)
    note_live(tree)
    for inner in ast.walk(tree):
        if isinstance(inner, ast.FunctionDef) and inner is not tree:
            note_live(inner)
    return source


def parsed(function: Callable[..., Any]) -> Source:
    """The syntax tree of a function, with all that it has.

    Raises
    ------
    UnsupportedError
        Where there is none: built-in functions, lambdas, code that is in no file.
    """
    name = getattr(function, "__name__", repr(function))
    if not isinstance(function, FunctionType):
        raise UnsupportedError(
            f"{name} as a kernel, which is no Python function", "a function", place=user_place()
        )
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        raise UnsupportedError(
            f"the source of {name} cannot be read", "a function in a file or notebook cell",
            place=user_place(),
        ) from None  # fmt: skip
    text = "".join(lines)
    indent = len(lines[0]) - len(lines[0].lstrip())
    try:
        module = ast.parse(textwrap.dedent(text))
    except SyntaxError:
        module = ast.Module([], [])
    if not module.body or not isinstance(module.body[0], ast.FunctionDef):
        place = Place(function.__code__.co_filename, first, name)
        raise UnsupportedError(f"{name} as a kernel", "a function made by `def`", place=place)
    ast.increment_lineno(module, first - 1)
    return Source(function, module.body[0], indent)


# ---------------------------------------------------------------- names


def assigned(statements: Iterable[ast.AST]) -> list[str]:
    """Names that statements bind, in order."""
    found: dict[str, None] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found[node.id] = None
    return list(found)


def written(statements: Iterable[ast.AST]) -> list[str]:
    """Names whose arrays statements write, as far as that is plain."""
    found: dict[str, None] = {}
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                if isinstance(node.value, ast.Name):
                    found[node.value.id] = None
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = None
    return list(found)


def returns(statements: Iterable[ast.stmt]) -> bool:
    """Whether statements may leave the function; in loops, those that raise leave a round."""
    return any(
        isinstance(node, ast.Return)
        or (isinstance(node, ast.Raise) and not getattr(node, "in_loop", False))
        for node in within(statements)
    )


def within(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All that a function does in some statements, without what functions in these do."""
    for node in nodes:
        yield node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            yield from within(ast.iter_child_nodes(node))


def is_read(expression: ast.expr) -> bool:
    """Whether an expression reads an element, calls or binds something: it is done if needed."""
    kinds = ast.Subscript | ast.Call | ast.NamedExpr
    return any(isinstance(node, kinds) for node in ast.walk(expression))


# ---------------------------------------------------------------- with


class _WithoutErrorStates(ast.NodeTransformer):
    """`with np.errstate(divide="ignore"):` as its body: compiled code never warns."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function

    def visit_With(self, node: ast.With) -> ast.With | list[ast.stmt]:
        self.generic_visit(node)
        return node.body if all(map(self._is_quiet, node.items)) else node

    def _is_quiet(self, item: ast.withitem) -> bool:
        call = item.context_expr
        if item.optional_vars is not None or not isinstance(call, ast.Call) or call.args:
            return False
        states = [getattr(keyword.value, "value", None) for keyword in call.keywords]
        quiet = all(state in ("ignore", "warn") for state in states)
        return quiet and outside(self.function, call.func) is np.errstate


# ---------------------------------------------------------------- jumps


def left_flag(loop: ast.For | ast.While) -> str | None:
    """The variable that says that a loop was left by `break`; None where it has none."""
    return getattr(loop, "left", None)


def is_result(name: str) -> bool:
    """Whether a variable holds what a `return` in a loop gave."""
    return name.startswith(".result")


class _Jumps:
    """`break` and `continue` as boolean variables, under which the rest is not done.

    for i in r:                      for i in r:       # until `left`
        a                                a
        if c: break             =>       left = False
        b                                if c: left = True
                                         if not left: b

    The variables' names are none that a user can write.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.count = 0

    def block(self, statements: list[ast.stmt], loop: _Loop | None) -> list[ast.stmt]:
        done: list[ast.stmt] = []
        for position, statement in enumerate(statements):
            if loop is not None and isinstance(statement, ast.Break | ast.Continue):
                loop.broken |= isinstance(statement, ast.Break)
                flag = loop.left() if isinstance(statement, ast.Break) else loop.skipped()
                done.append(_assign(flag, True, statement))
                return done
            if loop is not None and isinstance(statement, ast.Return):
                return [*done, *loop.given(statement), _assign(loop.left(), True, statement)]
            if loop is not None and isinstance(statement, ast.Raise):  # further rounds do no harm
                statement.in_loop = True  # type: ignore[attr-defined]
                return [*done, _assign(loop.skipped(), True, statement), statement]
            before = set() if loop is None else set(loop.raised)
            if loop is not None:
                loop.raised.clear()
            done.append(self.statement(statement, loop))
            otherwise = getattr(statement, "otherwise", [])
            if own := getattr(statement, "returned", None):
                flag, after = own
                done.insert(-1, _assign(flag, False, statement))
                otherwise = [after, *otherwise]
            done += self.block(otherwise, loop)
            if loop is not None:
                flags = sorted(loop.raised)
                loop.raised |= before
                rest = statements[position + 1 :]
                if flags and rest:
                    guarded = ast.If(_none_of(flags, rest[0]), self.block(rest, loop), [])
                    return [*done, ast.copy_location(guarded, rest[0])]
        return done

    def statement(self, statement: ast.stmt, loop: _Loop | None) -> ast.stmt:
        if isinstance(statement, ast.FunctionDef):
            statement.body = self.block(statement.body, None)
        elif isinstance(statement, ast.If):
            statement.body = self.block(statement.body, loop)
            statement.orelse = self.block(statement.orelse, loop)
        elif isinstance(statement, ast.For | ast.While):
            otherwise, statement.orelse = statement.orelse, []
            if isinstance(statement, ast.While):
                _test_inside(statement)
            self.count += 1
            own = _Loop(self.count, *_results(statement))
            body = self.block(statement.body, own)
            first = [_assign(flag, False, statement) for flag in sorted(own.continues)]
            statement.body = [*first, *body]
            if own.breaks:
                statement.left = next(iter(own.breaks))  # type: ignore[union-attr]
            if own.returns:
                flag = f".returned{own.number}"
                statement.returned = flag, own.after(statement)  # type: ignore[union-attr]
            if otherwise:
                statement.otherwise = own.unless_left(otherwise)  # type: ignore[union-attr]
        return statement


def _test_inside(loop: ast.While) -> None:
    """Let each round begin with a test that binds names, which the round may read."""
    if any(isinstance(node, ast.NamedExpr) for node in ast.walk(loop.test)):
        leave = ast.If(ast.UnaryOp(ast.Not(), loop.test), [ast.Break()], [])
        loop.body.insert(0, ast.fix_missing_locations(ast.copy_location(leave, loop.test)))
        loop.test = ast.copy_location(ast.Constant(True), loop.test)


class _Loop:
    """The jumps of one loop."""

    def __init__(self, number: int, results: list[str], of_tuples: bool) -> None:
        self.number = number
        self.results = [f".result{number}{part}" for part in results]
        self.of_tuples = of_tuples
        self.returns = False
        self.breaks: set[str] = set()
        self.continues: set[str] = set()
        self.raised: set[str] = set()  # those set since the last statement began
        self.broken = False  # by a `break` that the user wrote

    def given(self, statement: ast.Return) -> list[ast.stmt]:
        """What stands for a `return` before the loop is left."""
        self.returns = True
        value = statement.value or ast.Constant(None)
        parts = value.elts if isinstance(value, ast.Tuple) and self.of_tuples else [value]
        made = [
            ast.Assign([ast.Name(name, ast.Store())], part)
            for name, part in zip(self.results, parts, strict=bool(self.results))
        ]
        done = [ast.fix_missing_locations(ast.copy_location(m, statement)) for m in made]
        return [*done, _assign(f".returned{self.number}", True, statement)]

    def after(self, loop: ast.stmt) -> ast.If:
        """What follows the loop: the `return`, if there was one."""
        names: list[ast.expr] = [ast.Name(name, ast.Load()) for name in self.results]
        value = ast.Tuple(names, ast.Load()) if self.of_tuples else next(iter(names), None)
        test: ast.expr = ast.Name(f".returned{self.number}", ast.Load())
        ends = isinstance(loop, ast.While) and isinstance(loop.test, ast.Constant)
        if ends and not self.broken:
            test = ast.Constant(True)  # nothing else leaves it
        made = ast.copy_location(ast.If(test, [ast.Return(value)], []), loop)
        made.lineno, made.col_offset = loop.end_lineno or 0, (loop.end_col_offset or 0) + 1
        return ast.fix_missing_locations(made)

    def unless_left(self, otherwise: list[ast.stmt]) -> list[ast.stmt]:
        """The `else` of the loop, which follows what `after` gives: no `return` was met."""
        if not self.broken:
            return otherwise
        return [ast.copy_location(ast.If(_none_of([self.left()], otherwise[0]), otherwise, []),
                                  otherwise[0])]  # fmt: skip

    def left(self) -> str:
        return self._raise(self.breaks, f".left{self.number}")

    def skipped(self) -> str:
        return self._raise(self.continues, f".skipped{self.number}")

    def _raise(self, kind: set[str], flag: str) -> str:
        kind.add(flag)
        self.raised.add(flag)
        return flag


def _results(loop: ast.stmt) -> tuple[list[str], bool]:
    """Variables for what the returns in a loop give, and whether that is a tuple of them."""
    values = [node.value for node in within([loop]) if isinstance(node, ast.Return)]
    if all(value is None or _is_none(value) for value in values):
        return [], False
    lengths = {len(v.elts) if isinstance(v, ast.Tuple) else None for v in values}
    length = lengths.pop()
    if lengths or length is None:
        return [""], False  # of different kinds: refused where they are joined
    return [f".{k}" for k in range(length)], True


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _assign(name: str, value: bool, at: ast.stmt) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], ast.Constant(value))
    return ast.fix_missing_locations(ast.copy_location(made, at))


def _none_of(flags: list[str], at: ast.stmt) -> ast.expr:
    raised: list[ast.expr] = [ast.Name(flag, ast.Load()) for flag in flags]
    one = raised[0] if len(raised) == 1 else ast.BoolOp(ast.Or(), raised)
    return ast.fix_missing_locations(ast.copy_location(ast.UnaryOp(ast.Not(), one), at))
