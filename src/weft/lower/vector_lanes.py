"""How many iterations of a simd loop run at once.

Vectors as wide as they come (of AVX-512, a cache line) win where arithmetic bounds a loop: where
it has at least as many operations as accesses, as in a roofline (Williams, Waterman and Patterson,
Communications of the ACM, 2009). Half a line wins where accesses do, as rows that begin anywhere
then cross fewer lines, and in short rows, of which less is left to the scalar end; not where all
of them are in a core's own cache (`weft.lower.time_tiles`). It wins where quotients and roots do,
too: dividers of processors with AVX-512 are half a line wide (A. Fog, "Instruction tables"), so
that a whole line takes them twice as long, and waits for all of its elements. Vector math
always has all the width: its functions round differently from width to width, and the bits of a
loop may not depend on what it was fused with.
"""

from __future__ import annotations

from weft.fun.vector_math import vector_math
from weft.imp import nodes as imp
from weft.imp.walk import inside
from weft.lower import shapes
from weft.lower.pace import OF_DIVIDERS
from weft.ops import table
from weft.records import dataclass

HALF_LINE = 32  # bytes


@dataclass(slots=True)
class Work:
    """What one iteration does."""

    operations: int = 0
    divisions: int = 0  # operations that a divider does
    accesses: int = 0
    vector_math: bool = False
    smallest: int = 8  # bytes of an element

    def add(self, node: imp.Expr | imp.Stmt) -> None:
        match node:
            case imp.Load(pointer) | imp.Store(pointer):
                self.accesses += 1
                self.smallest = min(self.smallest, pointer.dtype.itemsize)
            case imp.Apply(operation, arguments):
                dtypes = tuple(argument.dtype for argument in arguments)
                weight = shapes.WEIGHT[table.lookup(operation).cost]
                if operation in OF_DIVIDERS:
                    self.divisions += weight
                else:
                    self.operations += weight
                self.vector_math |= vector_math(operation, dtypes)
            case imp.Select():
                self.operations += 1
            case _:
                pass


def lanes(body: tuple[imp.Stmt, ...], short: bool) -> int:
    """The iterations of a simd loop's body that run at once, 0 for as many as there may be.

    `short`: there are probably few, of which whole vectors would leave many.
    """
    work = Work()
    for node in inside(body):
        work.add(node)
    if work.vector_math:
        return 0
    if not short and work.operations >= work.accesses + work.divisions:
        return 0
    return HALF_LINE // work.smallest

