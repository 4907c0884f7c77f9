"""Vectors at the ends of a row, where boundary rules apply or whole vectors do not fit.

Processors with masked loads and stores do them as the interior: a lane past the row's end is
masked, and so is a load that a rule leads elsewhere, whose value is then that of the array's
first or last element, or the rule's own. The compiler makes such vectors of selections and
branches, as long as what they read is constant or consecutive along the row.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lower.registers import registers
from weft.lower.shapes import LINE
from weft.lower.unit import memory
from weft.sizes import ONE, ZERO

MASKED = {32: 4, 64: 1}  # bytes of a vector register -> of the smallest element that masks are for


def lanes(lane: str, body: fun.Body) -> int:
    """The elements of a vector at the end of a row; 0 where they have to be done one by one."""
    inner = {var.name for let in walk.statements(body) for var in let.pattern}
    sizes = [atom.type.dtype.itemsize for atom in body.results]
    for let in walk.statements(body):
        if isinstance(let.expr, fun.Index):
            if not _follows(lane, let.expr, inner):
                return 0
            sizes.append(let.pattern[0].type.dtype.itemsize)
    smallest = MASKED.get(registers().bytes)
    return 0 if smallest is None or min(sizes) < smallest else LINE // min(sizes)


def _follows(lane: str, access: fun.Index, inner: set[str]) -> bool:
    """Whether a read is constant or consecutive along the row, where its rules do not apply."""
    along = [index for index in access.indices if lane in index.variables()]
    for index, rule in zip(access.indices, access.boundary, strict=False):
        if rule is None or index not in along:
            continue
        if rule.kind not in ("edge", "constant") or len(along) > 1 or index.degree(lane) > 1:
            return False
        if index.coefficient(lane) != ONE:
            return False
    address = memory(access.array).index.apply(access.indices)
    known = not any(index.variables() & inner for index in access.indices)
    return known and address.degree(lane) <= 1 and address.coefficient(lane) in (ZERO, ONE)

