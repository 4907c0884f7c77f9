"""Whether neighbouring work items meet neighbours in memory: what a GPU's memory is quick for.

The 32 items of a warp that read one element, or elements that lie side by side, are served at
once; elements that lie apart come one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.sizes import ONE, ZERO, Poly


def apart(
    body: Iterable[fun.Let], name: str, written: Iterable[tuple[MemArray, tuple[Poly, ...]]] = ()
) -> int:
    """How many accesses meet elements that lie apart where the index `name` is one more.

    Parameters
    ----------
    body : statements
        Their reads count, but those at indices that were loaded: nobody knows those.
    name : str
    written : pairs of array and indices
        What is stored besides.
    """
    found = 0
    accesses = [
        (memory(let.expr.array), let.expr.indices)
        for let in walk.statements(fun.Body(tuple(body), ()))
        if isinstance(let.expr, fun.Index)
    ]
    for array, indices in (*accesses, *written):
        at = array.index.apply(indices)
        if at.degree(name) > 1 or at.coefficient(name) not in (ZERO, ONE, -ONE):
            found += 1
    return found


def depends(body: Iterable[fun.Let], name: str) -> frozenset[str]:
    """`name`, and the scalars that are computed from it."""
    found = {name}
    for let in body:
        if walk.free_names(fun.Body((let,), ())) & found:
            found |= {var.name for var in let.pattern}
    return frozenset(found)
