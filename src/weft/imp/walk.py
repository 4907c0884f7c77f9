"""Which variables IMP statements use and declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from weft.imp import nodes as imp


def free_variables(statements: Iterable[imp.Stmt]) -> dict[str, imp.Var]:
    """The variables that are used and not declared inside, in order of appearance."""
    used: dict[str, imp.Var] = {}
    declared: set[str] = set()

    def visit(node: Any) -> None:
        match node:
            case imp.Var(name):
                used.setdefault(name, node)
            case tuple():
                for part in node:
                    visit(part)
            case _ if is_dataclass(node):
                if isinstance(node, imp.Declare | imp.For | imp.Ticket | imp.Receive):
                    declared.add(node.var.name)
                for field in fields(node):
                    visit(getattr(node, field.name))

    visit(tuple(statements))
    return {name: var for name, var in used.items() if name not in declared}


def holds(statements: Iterable[imp.Stmt], kinds: Any) -> bool:
    """Whether a statement of some kinds stands anywhere inside."""

    def inside(node: Any) -> bool:
        if isinstance(node, tuple | list):
            return any(map(inside, node))
        if isinstance(node, kinds):
            return True
        return is_dataclass(node) and any(inside(getattr(node, f.name)) for f in fields(node))

    return inside(tuple(statements))


def may_leave(statements: Iterable[imp.Stmt]) -> bool:
    """Whether an item may abandon what it does, which at a barrier would be waited for."""

    def inside(node: Any) -> bool:
        match node:
            case imp.Poll():
                return True
            case imp.Fail():
                return not node.stays
            case tuple() | list():
                return any(map(inside, node))
            case _ if is_dataclass(node):
                return any(inside(getattr(node, field.name)) for field in fields(node))
            case _:
                return False

    return inside(tuple(statements))


def views(statements: Iterable[imp.Stmt]) -> tuple[int, ...]:
    """The blocks that statements at the outermost level look into, in order."""
    return tuple(dict.fromkeys(s.block for s in statements if isinstance(s, imp.View)))


def inside(value: Any) -> Iterator[Any]:
    """All nodes in statements or an expression, outermost first."""
    if isinstance(value, tuple | list):
        for part in value:
            yield from inside(part)
    elif is_dataclass(value):
        yield value
        for field in fields(value):
            yield from inside(getattr(value, field.name))


def mentions(value: Any) -> set[str]:
    """The names of the variables in statements or an expression."""
    return {node.name for node in inside(value) if isinstance(node, imp.Var)}
