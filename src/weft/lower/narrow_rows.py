"""Rows of at most a few vectors, all of which are with masks.

    for i { for simd j { y[i, j] = x[i, 2 * j] } }
        =>  if j is short { for i { for simd l < 16 { if l < count { .. } } } } else { as it was }

Of such a row, what a loop does before its first vector and after its last is most of the work.
Indices of rows are counted up, not divided out. Elements that lie a few apart are taken from a
span that is loaded as it lies (`Spans`). How long rows are is known at launch.
"""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import masks
from weft.lower.emitter import Emitter
from weft.lower.shapes import LINE
from weft.lower.spans import APART, step
from weft.lower.unit import memory
from weft.records import dataclass
from weft.sizes import Size

FEW = 4  # vectors of a row: of more, what is left over matters less;
SHORT = 64  # and elements: bytes and such come two vectors at a time in loops without masks
LARGEST = 64  # statements: of more, a second text of them takes long to compile


@dataclass(frozen=True, slots=True)
class Vectors:
    """Their elements; and whether lanes past the end of a row may be computed, of zeros."""

    width: int
    every: bool


def vectors(e: Emitter, kernel: fun.Kernel, lane: str) -> Vectors | None:
    """Those that rows of a straight-line kernel are done in; None where they are not done so."""
    body = kernel.body
    statements = list(walk.statements(body))
    if masks.are_slow() or has_vector_math(body) or len(statements) > LARGEST:
        return None
    guarded = {
        id(inner)
        for let in statements if isinstance(let.expr, fun.If)
        for side in (let.expr.then, let.expr.otherwise) for inner in walk.statements(side)
    }  # fmt: skip
    inner = {var.name for let in statements for var in let.pattern}
    sizes = [atom.type.dtype.itemsize for atom in body.results]
    every = not e.conditional
    for let in statements:
        if not isinstance(let.expr, fun.Index):
            continue
        access = let.expr
        rules = access.boundary or (None,) * len(access.indices)
        for index, rule in zip(access.indices, rules, strict=True):
            if index.variables() & inner or (rule is not None and lane in index.variables()):
                return None
        address = memory(access.array).index.apply(access.indices)
        most = 1 if id(let) in guarded else APART
        if address.degree(lane) > 1 or not 0 <= step(address, lane) <= most:
            return None
        every = every and id(let) not in guarded and not any(rules)
        sizes.append(let.pattern[0].type.dtype.itemsize)
    return Vectors(LINE // min(sizes), every)


def are_narrow(e: Emitter, extent: Size, width: int) -> imp.Expr:
    """Whether rows are so short."""
    few = machine("<=", e.named(extent), imp.integer(min(SHORT, FEW * width)))
    return e.declare(machine("&&", imp.OPTIMISED, e.declare(few)))
