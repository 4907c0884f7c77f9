"""`match` as the `if` and `elif` that it stands for, where patterns are values, or hold any."""

from __future__ import annotations

import ast
from collections.abc import Sequence


class AsBranches(ast.NodeTransformer):
    """Of constants, names with dots, `|`, `_`, names that are bound, and tuples of them.

    What else there is (classes, mappings, `*rest`) stays: it is refused where it is interpreted.
    """

    def __init__(self) -> None:
        self.count = 0

    def visit_Match(self, node: ast.Match) -> ast.Match | list[ast.stmt]:
        self.generic_visit(node)
        first: list[ast.stmt] = []
        subject = self._once(node.subject, first)
        try:
            branches: list[ast.stmt] = []
            for case in reversed(node.cases):
                branches = _branch(case, subject, branches)
            return first + branches
        except _OtherError:
            return node

    def _once(self, subject: ast.expr, first: list[ast.stmt]) -> ast.expr:
        """The subject, of which each part is computed once, before."""
        if isinstance(subject, ast.Tuple) and not any(
            isinstance(part, ast.Starred) for part in subject.elts
        ):
            parts = [self._once(part, first) for part in subject.elts]
            return ast.copy_location(ast.Tuple(parts, ast.Load()), subject)
        if isinstance(subject, ast.Name | ast.Constant):
            return subject
        name = f".match{self.count}"
        self.count += 1
        first.append(_assigned(name, subject))
        return ast.copy_location(ast.Name(name, ast.Load()), subject)


class _OtherError(Exception):
    """A pattern of another kind."""


def _branch(
    case: ast.match_case, subject: ast.expr, otherwise: list[ast.stmt]
) -> list[ast.stmt]:
    tests, names = _parts(case.pattern, subject)
    binds = [_assigned(name, value) for name, value in names]
    if case.guard is not None and binds:
        if tests:  # the guard would read what is bound only where these hold
            raise _OtherError
        return [*binds, *_if([case.guard], case.body, otherwise)]
    if case.guard is not None:
        tests = [*tests, case.guard]
    return _if(tests, [*binds, *case.body], otherwise)


def _if(
    tests: list[ast.expr], body: list[ast.stmt], otherwise: list[ast.stmt]
) -> list[ast.stmt]:
    if not tests:
        return body
    one = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
    one = ast.fix_missing_locations(ast.copy_location(one, tests[0]))
    return [ast.copy_location(ast.If(one, body, otherwise), tests[0])]


Parts = tuple[list[ast.expr], list[tuple[str, ast.expr]]]


def _parts(pattern: ast.pattern, subject: ast.expr) -> Parts:
    """What must hold for a pattern, and what it binds then."""
    match pattern:
        case ast.MatchValue(value):
            return [_compared(pattern, subject, ast.Eq(), value)], []
        case ast.MatchSingleton(value):
            return [_compared(pattern, subject, ast.Is(), ast.Constant(value))], []
        case ast.MatchOr(patterns):
            return _any(pattern, patterns, subject), []
        case ast.MatchAs(inner, name):
            tests, names = ([], []) if inner is None else _parts(inner, subject)
            return tests, names if name is None else [*names, (name, subject)]
        case ast.MatchSequence(patterns) if isinstance(subject, ast.Tuple):
            if len(patterns) != len(subject.elts):
                return [ast.copy_location(ast.Constant(False), pattern)], []
            found = [_parts(p, s) for p, s in zip(patterns, subject.elts, strict=True)]
            tests = [test for tests, _ in found for test in tests]
            return tests, [name for _, names in found for name in names]
    raise _OtherError


def _any(
    pattern: ast.pattern, patterns: Sequence[ast.pattern], subject: ast.expr
) -> list[ast.expr]:
    tests: list[ast.expr] = []
    for one in patterns:
        own, names = _parts(one, subject)
        if names:
            raise _OtherError
        if not own:
            return []
        tests.append(own[0] if len(own) == 1 else ast.BoolOp(ast.And(), own))
    return [ast.fix_missing_locations(ast.copy_location(ast.BoolOp(ast.Or(), tests), pattern))]


def _compared(
    pattern: ast.pattern, subject: ast.expr, how: ast.cmpop, value: ast.expr
) -> ast.expr:
    test = ast.Compare(subject, [how], [value])
    return ast.fix_missing_locations(ast.copy_location(test, pattern))


def _assigned(name: str, value: ast.expr) -> ast.stmt:
    made = ast.Assign([ast.Name(name, ast.Store())], value)
    return ast.fix_missing_locations(ast.copy_location(made, value))
