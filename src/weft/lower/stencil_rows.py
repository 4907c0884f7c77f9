"""Rows of a stencil, several side by side.

    for i { for j { y[i, j] = x[i-1, j] + x[i, j] + x[i+1, j] } }
        =>  for i by 2 { for j { y[i, j] = ..; y[i+1, j] = x[i, j] + x[i+1, j] + x[i+2, j] } }

Rows that two of them read come once from the cache of the second level, and an element
that two of them read is in a register: unroll-and-jam of the loop over rows (S. Carr and
K. Kennedy, "Improving the ratio of memory operations to floating-point operations in loops",
ACM TOPLAS 16, 1994). Elements are computed as by themselves, so their bits are the same.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.vector_math import has_vector_math
from weft.lower.caches import caches
from weft.lower.unit import memory
from weft.sizes import ONE, Poly, Size

TOGETHER = (4, 2)
LARGEST = 64  # statements: of more, registers hold what fewer rows need


def count(kernel: fun.Kernel, space: tuple[fun.Range, ...]) -> int:
    """How many rows of a straight-line kernel are done side by side: 1 where that is no use.

    Lines of all rows that are read and written at once may share one set of the first cache,
    as they do where rows are a power of two long: there have to be as many ways.
    """
    if len(space) < 2:
        return 1
    row, lane = (r.index.name for r in space[-2:])
    spans = _spans(kernel.body, row, lane)
    if spans is None or not any(spans):
        return 1
    written = len(kernel.body.results)
    statements = len(kernel.body.statements)
    for together in TOGETHER:
        lines = sum(span + together for span in spans) + written * together
        if lines <= caches().ways and statements * together <= LARGEST:
            return together
    return 1


def bodies(kernel: fun.Kernel, row: str, together: int) -> list[tuple[fun.Body, tuple[Size, ...]]]:
    """Of the row that `row` is, and of those after it, the body and the results' indices."""
    found = []
    for number in range(together):
        moved = walk.Substitution(sizes={row: Poly.var(row) + number})
        indices = tuple(moved.size(Poly.var(r.index.name)) for r in kernel.space)
        found.append((moved.body(kernel.body), indices))
    return found


def _spans(body: fun.Body, row: str, lane: str) -> list[int] | None:
    """Of each array that is read along the lane, how far apart in rows; None: not side by side.

    What is done along the lane has to be the same in each row: a comparison may not know the row.
    """
    if has_vector_math(body):
        return None
    inner = {var.name for let in body.statements for var in let.pattern}
    rows: dict[tuple[str, tuple[Size, ...]], list[int]] = {}
    for let in body.statements:
        match let.expr:
            case fun.Index(array, indices):
                if not _follows(let.expr, row, lane, inner):
                    return None
                address = memory(array).index.apply(indices)
                if address.coefficient(lane) != ONE or row not in address.variables():
                    continue
                apart = tuple(
                    index - index.constant if {row, lane} & index.variables() else index
                    for index in indices
                )
                at = sum(index.constant for index in indices if row in index.variables())
                rows.setdefault((array.name, apart), []).append(at)
            case fun.SizeValue(size):
                if row in size.variables():
                    return None
            case fun.Apply() | fun.Cast():
                if row in walk.used_names(let.expr):
                    return None
            case _:
                return None
    return [max(found) - min(found) for found in rows.values()]


def _rules(access: fun.Index) -> tuple[fun.Boundary | None, ...]:
    return access.boundary or (None,) * len(access.indices)


def _follows(access: fun.Index, row: str, lane: str, inner: set[str]) -> bool:
    """Whether a read's place is known from indices, and its rules along the lane from no row."""
    for index, rule in zip(access.indices, _rules(access), strict=True):
        names = index.variables()
        if names & inner or (lane in names and row in names) or index.degree(row) > 1:
            return False
        if rule is not None and row in (rule.lower.variables() | rule.upper.variables()):
            return False
    return True
