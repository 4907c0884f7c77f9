"""Whether neighbouring work items meet neighbours in memory: what a GPU's memory is quick for.

The 32 items of a warp that read one element, or elements that lie side by side, are served at
once; elements that lie apart come one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from weft.fun import nodes as fun
from weft.fun import walk
from weft.mem.nodes import MemArray
from weft.sizes import ONE, ZERO, Size

Access: TypeAlias = tuple[MemArray, tuple[Size, ...]]


def reads(body: Iterable[fun.Let]) -> list[Access]:
    """The elements that statements read, by their indices."""
    return [
        (let.expr.array.type, let.expr.indices)
        for let in walk.statements(fun.Body(tuple(body), ()))
        if isinstance(let.expr, fun.Index) and isinstance(let.expr.array.type, MemArray)
    ]


def apart(body: Iterable[fun.Let], name: str, written: Iterable[Access] = ()) -> int:
    """How many accesses meet elements that lie apart where the index `name` is one more.

    Parameters
    ----------
    body : statements
        Their reads count. (Of indices that were loaded nobody knows where they lead.)
    name : str
    written : pairs of array and indices
        What is stored besides.
    """
    found = 0
    for array, indices in (*reads(body), *written):
        at = array.index.apply(indices)
        if at.degree(name) > 1 or at.coefficient(name) not in (ZERO, ONE, -ONE):
            found += 1
    return found


def rows_apart(
    body: Sequence[fun.Let], row: str, element: str, written: Sequence[Access] = ()
) -> bool:
    """Whether neighbouring rows lie apart where neighbours of one row do not."""
    return apart(body, row, written) > apart(body, element, written)


def depends(body: Iterable[fun.Let], name: str) -> frozenset[str]:
    """`name`, and the scalars that are computed from it."""
    found = {name}
    for let in body:
        if walk.free_names(fun.Body((let,), ())) & found:
            found |= {var.name for var in let.pattern}
    return frozenset(found)
