"""Vectors at the ends of a row, where boundary rules apply or whole vectors do not fit.

Processors with masked loads and stores do them as the interior: a lane past the row's end is
masked, and so is a load that a rule leads elsewhere, whose value is then that of the array's
first or last element, or the rule's own. The compiler makes such vectors of selections and
branches, as long as what they read is constant or consecutive along the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.registers import registers
from weft.lower.shapes import LINE
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Size

if TYPE_CHECKING:
    from weft.lower.emitter import Emitter

MASKED = {32: 4, 64: 1}  # bytes of a vector register -> of the smallest element that masks are for


def lanes(lane: str, body: fun.Body, short: bool = False) -> int:
    """The elements of a vector at the end of a row; 0 where they have to be done one by one.

    As many as a register holds: masks cost, and of fewer elements fewer are done in vain. Of rows
    that are `short` a whole line, so that a row of two vectors is done at once.
    """
    inner = {var.name for let in walk.statements(body) for var in let.pattern}
    sizes = [atom.type.dtype.itemsize for atom in body.results]
    for let in walk.statements(body):
        if isinstance(let.expr, fun.Index):
            if not _follows(lane, let.expr, inner):
                return 0
            sizes.append(let.pattern[0].type.dtype.itemsize)
    width = registers().bytes
    smallest = MASKED.get(width)
    if smallest is None or min(sizes) < smallest:
        return 0
    return (LINE if short else width) // min(sizes)


def are_slow() -> bool:
    """Whether a vector with masks takes as long as several without, as it does before AVX-512."""
    return registers().bytes < 64


@dataclass(frozen=True, slots=True)
class Ends:
    """A vector at the end of a row: its dimension, its lanes, its first and its last element."""

    name: str
    lane: imp.Var
    begin: imp.Expr
    last: imp.Expr
    width: int

    def compared(
        self, e: Emitter, operator: Literal["less", "greater_equal"], limit: imp.Expr
    ) -> imp.Expr:
        """Which lanes are before so many, or are not: in 32 bits, of which vectors hold more."""
        most = imp.integer(self.width)
        lanes = e.declare(machine("min", most, e.declare(machine("max", imp.ZERO, limit))))
        sides = imp.Cast(DType.I32, self.lane), e.declare(imp.Cast(DType.I32, lanes))
        return imp.Apply(operator, sides, DType.BOOL)

    def index(
        self, e: Emitter, operator: Literal["less", "greater_equal"], index: Size, limit: imp.Expr
    ) -> imp.Expr:
        """In which lanes an index that follows them is below a limit, or is not."""
        here = e.scalars[self.name]
        e.bind(self.name, self.begin)
        first = e.named(index)
        e.bind(self.name, here)
        return self.compared(e, operator, e.declare(machine("-", limit, first)))


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

