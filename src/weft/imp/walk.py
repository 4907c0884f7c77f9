"""Which variables IMP statements use and declare, and what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter, is_
from typing import Any

from weft.imp import nodes as imp


def free_variables(statements: Iterable[imp.Stmt]) -> dict[str, imp.Var]:
    """The variables that are used and not declared inside, in order of appearance."""
    used: dict[str, imp.Var] = {}
    declared: set[str] = set()
    for node in inside(tuple(statements)):
        match node:
            case imp.Var(name):
                used.setdefault(name, node)
            case imp.Declare() | imp.For() | imp.Ticket() | imp.Receive():
                declared.add(node.var.name)
    return {name: var for name, var in used.items() if name not in declared}


def holds(statements: Iterable[imp.Stmt], kinds: Any) -> bool:
    """Whether a statement of some kinds stands anywhere inside."""
    return any(isinstance(node, kinds) for node in inside(tuple(statements)))


def may_leave(statements: Iterable[imp.Stmt]) -> bool:
    """Whether an item may abandon what it does, which at a barrier would be waited for."""
    return any(
        isinstance(node, imp.Poll) or (isinstance(node, imp.Fail) and not node.stays)
        for node in inside(tuple(statements))
    )


def views(statements: Iterable[imp.Stmt]) -> tuple[int, ...]:
    """The blocks that statements at the outermost level look into, in order."""
    return tuple(dict.fromkeys(s.block for s in statements if isinstance(s, imp.View)))


def walked(statements: Iterable[imp.Stmt]) -> Iterator[imp.Stmt]:
    """All statements, outer before inner, in order."""
    for statement in statements:
        yield statement
        match statement:
            case imp.For() | imp.While() | imp.Parallel():
                yield from walked(statement.body)
            case imp.If(_, then, otherwise):
                yield from walked((*then, *otherwise))


def inside(value: Any) -> Iterator[Any]:
    """All nodes in statements or an expression, outermost first."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, tuple | list):
            pending += reversed(node)
            continue
        parts = _parts(node.__class__)
        if parts is not None:
            yield node
            pending += parts(node)


@cache
def _parts(kind: type) -> Callable[[Any], Sequence[Any]] | None:
    """What gives the parts of a node that may hold nodes, last first; None of what is no node."""
    if not is_dataclass(kind):
        return None
    names = [f.name for f in reversed(fields(kind)) if f.type not in _PLAIN]
    if len(names) > 1:
        return attrgetter(*names)
    return (lambda node: (getattr(node, names[0]),)) if names else lambda _: ()


_PLAIN = {"DType", "MachineOperator", "bool", "bool | int | float | complex", "int", "str"}
"""Types of fields that hold no nodes."""


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """The names of the fields of a class of nodes; None of one that is none of them."""
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None


_LEAVES = (imp.Pointer, imp.Const, imp.Var)


def mentions(value: Any) -> set[str]:
    """The names of the variables in statements or an expression."""
    return {node.name for node in inside(value) if isinstance(node, imp.Var)}


def mapped(expr: Any, change: Callable[[Any], Any]) -> Any:
    """A statement or an expression with its operands changed; itself where none is."""
    kind = expr.__class__
    if kind is tuple:
        old: Any = expr
    else:
        names = _names(kind)
        if names is None or kind in _LEAVES:
            return expr
        old = [getattr(expr, name) for name in names]
    new = [
        change(x) if x.__class__ is tuple or _names(x.__class__) is not None else x
        for x in old
    ]
    if all(map(is_, new, old)):
        return expr
    return tuple(new) if kind is tuple else kind(*new)
