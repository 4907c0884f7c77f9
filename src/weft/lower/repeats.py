"""Whether elements of a kernel may be computed a second time, once they are written.

No element of a kernel reads what another one writes. One that reads what it writes itself, as
`x[i] = x[i] + 1` in place, is done once; every other one gives the same again. Arrays that share
memory are told apart by where in it they are, at launch if it has to be: those of a loop's rounds
take turns in halves of one block, or in two blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import boundaries
from weft.lower.emitter import Emitter
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Size

Target = tuple[MemArray, tuple[Size, ...]]  # where a kernel writes a result, at which indices


def may_repeat(
    e: Emitter, lane: str, targets: Sequence[Target], bodies: Sequence[fun.Body]
) -> imp.Expr | None:
    """In which rows elements may be computed again; None where that is not known."""
    holds: imp.Expr = imp.Const(True, DType.BOOL)
    found: set[Size] = set()
    for array, where in targets:
        written = array.index.apply(where) if len(array.shape) == len(where) else None
        for access in _reads(bodies):
            read = memory(access.array)
            if not _blocks(e, read.block) & _blocks(e, array.block):
                continue
            if written is None or read.dtype.itemsize != array.dtype.itemsize:
                return None
            distance = _turns(e, read, array)
            if read.block == array.block:
                distance = read.index.apply(_inside(e, lane, access)) - written
            if distance is None or distance == ZERO:
                return None
            if not distance.variables() <= e.scalars.keys() - {lane}:
                return None
            if not distance.is_constant and distance not in found and -distance not in found:
                found.add(distance)
                apart = machine("!=", e.named(distance), imp.ZERO)
                holds = e.declare(apart if len(found) == 1 else machine("&&", holds, apart))
    return holds


def _reads(bodies: Sequence[fun.Body]) -> Iterator[fun.Index]:
    for body in bodies:
        for let in walk.statements(body):
            if isinstance(let.expr, fun.Index):
                yield let.expr


def _turns(e: Emitter, read: MemArray, written: MemArray) -> Size | None:
    """How far apart they are among the blocks that both are chosen of; None for others."""
    one, other = (e.unit.choices.get(array.block) for array in (read, written))
    if one is None or other is None:
        return None
    both = set(one.blocks) & set(other.blocks)
    if any(one.blocks.index(block) != other.blocks.index(block) for block in both):
        return None
    return one.turn - other.turn


def _inside(e: Emitter, lane: str, access: fun.Index) -> tuple[Size, ...]:
    """What is read in the interior of a row, which rules along other dimensions may lead to."""
    outer = e.interior, e.lane
    e.interior, e.lane = True, lane
    indices, _ = boundaries.resolve(e, access)
    e.interior, e.lane = outer
    return indices


def _blocks(e: Emitter, name: str) -> frozenset[str]:
    """The blocks that memory of this name may be."""
    choice = e.unit.choices.get(name)
    return frozenset({name} if choice is None else choice.blocks)
