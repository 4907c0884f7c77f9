"""Dimensions that one index walks as both of theirs do: rows that lie one after another."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lower.emitter import Emitter
from weft.lower.unit import memory
from weft.sizes import Size


def reads(body: fun.Body) -> list[Size]:
    """Where a body reads elements, in elements of their blocks."""
    return [
        memory(let.expr.array).index.apply(let.expr.indices)
        for let in walk.statements(body)
        if isinstance(let.expr, fun.Index)
    ]


def walk_as_one(
    left: fun.Range, right: fun.Range, fixed: set[str], addresses: list[Size]
) -> bool:
    """Whether (0, k) addresses the k-th element of the space (left, right), for every k."""
    a, b = left.index.name, right.index.name
    return not ({a, b} & fixed) and all(
        p.degree(a) <= 1
        and p.degree(b) <= 1
        and p.coefficient(a) == p.coefficient(b) * right.extent
        for p in addresses
    )


def fixed(e: Emitter, space: tuple[fun.Range, ...], body: fun.Body) -> set[str]:
    """The indices whose own value matters, beyond the addresses that it makes."""
    names = {r.index.name for r in space}
    if e.conditional:
        return names
    known = names | e.unit.sizes | e.ranges.keys()  # of affine indices, checked at launch
    found: set[str] = set()
    for inner in walk.statements(body):
        if not isinstance(inner.expr, fun.Index):
            found |= walk.used_names(inner.expr) & names
            continue
        access = inner.expr
        for axis, index in enumerate(access.indices):
            used = index.variables()
            if (access.boundary and access.boundary[axis]) or not used <= known:
                found |= used & names
    for atom in body.results:
        if isinstance(atom, fun.Var) and atom.name in names:
            found.add(atom.name)
    return found
