"""Reductions of rows on a device that is a processor: an item a row, chunks of it side by side.

A chunk of 32 elements is folded from left to right, so each of its elements waits for the one
before; but chunks do not wait for each other. So the innermost loop is over 32 of them, whose
folds are a small array, and vectors. (Their elements lie apart, and are gathered; the lines that
they lie in are in a cache.) The folds are combined by neighbours and pushed to a counter: the tree
is the one of `weft.lower.gpu.items`, with the same bits.

    kernel (i < n) { let s = reduce[add] (j < m) { x[i, j] } in s }
    =>  an item for each i:  for start below m step 1024 {
          for k < 32 { for chunk < 32 { fold[chunk] += x[i, start + 32 chunk + k] } }
          combine; push }
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack

from weft.fun import nodes as fun
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.walk import may_leave
from weft.lower import reductions, spaces
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.gpu import items, versions
from weft.lower.gpu.host import Host
from weft.lower.gpu.reduction_kernel import ReductionKernel
from weft.lower.rows import simd
from weft.sizes import ZERO, Size, product

CHUNKS = 32
_BLOCK = CHUNKS * reductions.ROWS
_ENOUGH = 32  # rows for all processors; of fewer, several groups do each


def by_chunks(host: Host, let: fun.Let, kernel: fun.Kernel) -> Size:
    """Launch a kernel on processors that have many rows of it, if it is a reduction of each.

    Returns
    -------
    Size
        1 where it is launched, else 0.
    """
    count = product(r.extent for r in kernel.space)
    of = ReductionKernel.of(let, kernel)
    if host.is_processor == ZERO or of is None or not of.walks or not host.is_sized(count):
        return ZERO
    whether = (1 - versions.below(host, count, _ENOUGH)) * host.is_processor
    if whether == ZERO:
        return ZERO
    k, item = host.kernel_emitter(), host.unit.integer("item")
    with ExitStack() as scopes:
        for r in kernel.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        spaces.decode(k, kernel.space, item)
        _lower_row(k, of)
    if may_leave(k.levels[0]):
        return ZERO
    host.unit.kernels.append(spaces.describe("reduce by chunks", kernel.space, let.pattern))
    host.add(k, "chunks", item, count * whether, 1)
    return whether


def _lower_row(k: Emitter, of: ReductionKernel) -> None:
    """The kernel's body."""
    lower_body(k, of.before)
    with ExitStack() as scopes:
        for r in of.reduce.space:
            scopes.enter_context(k.index(r.index.name, imp.ZERO, ZERO, r.extent))
        totals = items.reduce_dimension(k, of.reduce, 0, _folded)
    of.finish(k, totals)


def _folded(
    k: Emitter, reduce: fun.Reduce, begin: imp.Expr, extent: imp.Expr, neutral: Sequence[imp.Expr]
) -> list[imp.Expr]:
    """See `items.folded`: whole blocks, after which comes what is left."""
    counter = reductions.Counter(k, reduce.operator, neutral)
    left = k.declare(machine("%", extent, imp.integer(_BLOCK)))
    whole = k.declare(machine("+", begin, machine("-", extent, left)))
    start = k.unit.integer("start")
    with k.loop(start, begin, whole, step=_BLOCK):
        counter.push(_block(k, reduce, start))
    rest = items.folded(k, reduce, whole, left, neutral)
    return counter.total(rest, k.declare(machine("!=", left, imp.ZERO)))


def _block(k: Emitter, reduce: fun.Reduce, start: imp.Expr) -> list[imp.Expr]:
    """The elements of a block, combined."""
    index = reduce.space[-1].index.name
    folds = [k.local(atom.type.dtype, CHUNKS, "fold") for atom in reduce.neutral]
    chunk, at = k.unit.integer("chunk"), k.unit.integer("k")

    def values(offset: imp.Expr) -> list[imp.Expr]:
        """The body's, of each chunk's element with this number."""
        first = k.declare(machine("*", chunk, imp.integer(reductions.ROWS)))
        first = k.declare(machine("+", first, k.declare(machine("+", start, offset))))
        k.bind(index, first)
        return scalar_results(k, reduce.body)

    def chunks() -> AbstractContextManager[None]:
        """Each chunk: in vectors, where nothing is called."""
        count = imp.integer(CHUNKS)
        if has_vector_math(reduce.body):
            return k.loop(chunk, imp.ZERO, count)
        return simd(k, chunk, imp.ZERO, count, wide=True)

    def keep(place: imp.Expr, found: Sequence[imp.Expr]) -> None:
        for fold, value in zip(folds, found, strict=True):
            k.emit(imp.Store(fold, place, value))

    def load(place: imp.Expr) -> list[imp.Expr]:
        return [k.declare(imp.Load(fold, place), depth=k.depth) for fold in folds]

    with chunks():
        keep(chunk, values(imp.ZERO))
    with k.loop(at, imp.ONE, imp.integer(reductions.ROWS)), chunks():
        keep(chunk, reductions.combine(k, reduce.operator, load(chunk), values(at)))
    reach = 1
    while reach < CHUNKS:
        pair = k.unit.integer("pair")
        with k.loop(pair, imp.ZERO, imp.integer(CHUNKS // (2 * reach))):
            left = k.declare(machine("*", pair, imp.integer(2 * reach)))
            right = k.declare(machine("+", left, imp.integer(reach)))
            keep(left, reductions.combine(k, reduce.operator, load(left), load(right)))
        reach *= 2
    return load(imp.ZERO)
