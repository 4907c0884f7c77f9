"""Which variables are read again: what loops must carry, and what they must give."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

Names = frozenset[str]


def note_live(tree: ast.FunctionDef) -> None:
    """Note, for every loop, the variables that may be read after it or by its next round.

    For every branch those that may be read after it.

    The function has no `break` and `continue`; what follows a branch follows both its sides.
    """
    _block(tree.body, frozenset())
    inner = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.Lambda)]
    captured = frozenset(name for node in inner[1:] for name in _read(node))
    for node in ast.walk(tree):
        if hasattr(node, "live"):
            node.live |= captured  # wherever these functions are called


def live(node: ast.For | ast.While | ast.If) -> Names:
    """Variables whose values at the end of a branch or a round may be read.

    That is after the branch; by the next round, or after the loop. A loop's own targets are
    among them where they may be read after it.
    """
    found: Names = node.live  # type: ignore[union-attr]
    return found


def _block(statements: Sequence[ast.stmt], after: Names) -> Names:
    """What is live before statements, of what is live after them."""
    for statement in reversed(statements):
        after = _statement(statement, after)
    return after


def _statement(node: ast.stmt, after: Names) -> Names:
    match node:
        case ast.Return(value):
            return frozenset() if value is None else _read(value)
        case ast.If(test, body, orelse):
            node.live = after  # type: ignore[attr-defined]
            return _read(test) | _block(body, after) | _block(orelse, after)
        case ast.For(target, over):
            return _loop(node, after, bound([target])) | _read(over)
        case ast.While(test):
            return _loop(node, after | _read(test), frozenset())
        case ast.Assign(targets):
            return (after - bound(targets)) | _read(node)
        case ast.AnnAssign(target, _, value) if value is not None:
            return (after - bound([target])) | _read(node)
        case ast.AugAssign(ast.Name(name)):
            return after | _read(node) | {name}
        case _:
            return after | _read(node)


def _loop(node: ast.For | ast.While, after: Names, targets: Names) -> Names:
    """What is live where a loop decides whether there is another round."""
    found = after
    while True:
        wider = found | (_block(node.body, found) - targets)
        if wider == found:
            break
        found = wider
    node.live = found  # type: ignore[union-attr]
    return found


def bound(nodes: Iterable[ast.AST]) -> Names:
    return frozenset(_names(nodes, ast.Store))


def _read(node: ast.AST) -> Names:
    return frozenset(_names([node], ast.Load))


def _names(nodes: Iterable[ast.AST], context: type[ast.expr_context]) -> Iterable[str]:
    for root in nodes:
        for node in ast.walk(root):
            if isinstance(node, ast.Name) and isinstance(node.ctx, context):
                yield node.id
