"""eliminate_loads: elements that straight-line code has read or written are not read again.

    s[l] = x; let t = s[l]; s[l] = add(t, y)   =>   s[l] = add(x, y)

Removes: loads of what the same statements have loaded or stored before at the same place, with no
    store between them that may reach it; and stores that a later one overwrites before anything
    may read them.
Requires: declarations of values that do not change, and stores.
Ensures: the same memory at the end. Two places of one pointer are different where their indices
    differ by a constant that is not 0; a store through one pointer may reach what another one
    does, unless it is named `alone`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from weft.imp import nodes as imp
from weft.imp.walk import inside, mapped

_Place = tuple[imp.Pointer, imp.Expr]


def eliminate_loads(
    statements: tuple[imp.Stmt, ...], alone: Collection[str] = ()
) -> tuple[imp.Stmt, ...]:
    """The statements with no load of what is known, and no store that is overwritten.

    Parameters
    ----------
    statements : tuple of Stmt
        Declarations that are not mutable, and stores.
    alone : collection of str
        Pointers to what no other pointer reaches.
    """
    return _without_dead_stores(_with_known(statements, alone), alone)


def apart(left: _Place, right: _Place, alone: Collection[str]) -> bool:
    """Whether two places are proved to be different memory."""
    if left[0] != right[0]:
        return left[0].name in alone or right[0].name in alone
    (base, offset), (other, further) = map(_split, (left[1], right[1]))
    return base == other and offset != further


def _split(index: imp.Expr) -> tuple[imp.Expr, int]:
    """An index as something and a constant."""
    match index:
        case imp.Const(value):
            return imp.ZERO, int(value.real)
        case imp.Machine("+", left, imp.Const(value)) | imp.Machine("+", imp.Const(value), left):
            base, offset = _split(left)
            return base, offset + int(value.real)
        case imp.Machine("-", left, imp.Const(value)):
            base, offset = _split(left)
            return base, offset - int(value.real)
        case _:
            return index, 0


def _with_known(statements: tuple[imp.Stmt, ...], alone: Collection[str]) -> tuple[imp.Stmt, ...]:
    """Loads replaced by what is known to be there, names by what they are the same as."""
    values: dict[str, imp.Expr] = {}  # of declared names: integers, and other names
    known: dict[_Place, imp.Expr] = {}
    found: list[imp.Stmt] = []

    def place(load: imp.Load | imp.Store) -> _Place:
        return load.pointer, _resolved(load.index, values)

    def forward(expr: Any) -> Any:
        match expr:
            case imp.Var(name) if isinstance(values.get(name), imp.Var | imp.Const):
                return values[name]
            case imp.Load():
                return known.get(place(expr), replace(expr, index=forward(expr.index)))
            case _:
                return mapped(expr, forward)

    for statement in statements:
        match statement:
            case imp.Declare(var, value) if value is not None:
                new = forward(value)
                if isinstance(new, imp.Var | imp.Const):
                    values[var.name] = new
                    continue
                if isinstance(new, imp.Machine):
                    values[var.name] = new
                if isinstance(new, imp.Load):
                    known[place(new)] = var
                found.append(replace(statement, value=new))
            case imp.Store(_, index, value):
                here, new = place(statement), forward(value)
                known = {at: held for at, held in known.items() if apart(at, here, alone)}
                if isinstance(new, imp.Var | imp.Const):
                    known[here] = new
                found.append(replace(statement, index=forward(index), value=new))
            case _:
                raise AssertionError(statement)
    return tuple(found)


def _resolved(index: imp.Expr, values: Mapping[str, imp.Expr]) -> imp.Expr:
    """An index with the declared names replaced by what they stand for."""
    if isinstance(index, imp.Var) and index.name in values:
        return _resolved(values[index.name], values)
    if isinstance(index, imp.Machine):
        left, right = (_resolved(side, values) for side in (index.left, index.right))
        return imp.machine(index.operator, left, right)
    return index


def _without_dead_stores(
    statements: tuple[imp.Stmt, ...], alone: Collection[str]
) -> tuple[imp.Stmt, ...]:
    values = {
        s.var.name: s.value
        for s in statements
        if isinstance(s, imp.Declare) and isinstance(s.value, imp.Machine | imp.Var)
    }
    overwritten: set[_Place] = set()
    kept: list[imp.Stmt] = []
    for statement in reversed(statements):
        loads = [node for node in inside(statement) if isinstance(node, imp.Load)]
        if isinstance(statement, imp.Store):
            here = statement.pointer, _resolved(statement.index, values)
            if here in overwritten:
                continue
            overwritten.add(here)
        for load in loads:
            read = load.pointer, _resolved(load.index, values)
            overwritten = {at for at in overwritten if apart(at, read, alone)}
        kept.append(statement)
    return tuple(reversed(kept))
