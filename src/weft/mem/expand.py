"""Expand: the memory of each thread becomes its share of one block that all of them see.

block mem_x 8*m per thread          block mem_x 8*m*threads        -- interleaved
kernel (i < n) {               =>   kernel (i < n) {
  let x @ mem_x[0; (m : 1)] = ..      let x @ mem_x[thread; (m : threads)] = ..

                                    block mem_x (8*m + 64)*threads -- contiguous
                                    kernel (i < n) {
                                      let x @ mem_x[(m + 8)*thread; (m : 1)] = ..

Memory expansion, section 4.6 of Munksgaard's thesis, by threads rather than by iterations:
as many shares as threads run at once, not as the kernel has indices. Where each index has a
thread of its own, as on a GPU, both are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, TypeAlias, assert_never

from weft.errors import InternalError
from weft.lmad import Lmad
from weft.mem.merge_blocks import element_sizes
from weft.mem.nodes import THREAD, THREADS, Block, MemArray, Program
from weft.mem.rename import map_memory
from weft.sizes import Poly, Size
from weft.sizes.division import divided

Sharing: TypeAlias = Literal["contiguous", "interleaved"]

LINE = 64
"""Bytes of a cache line, which no two threads' contiguous shares have in common."""


def expand(program: Program, layout: Sharing = "contiguous") -> Program:
    """Lay out the blocks of threads in memory that all threads share.

    Removes blocks `per thread`. Adds the variable "thread", 0 <= thread < threads, to the
    index functions of arrays inside of kernels: the number of the thread that runs the
    iteration. Requires that the elements in a block of a thread are of one size, which
    `introduce` makes them and `merge_blocks` leaves them. Ensures that the meaning is the
    same, and that what two threads make is apart.

    Parameters
    ----------
    layout : {"contiguous", "interleaved"}
        - "contiguous": a thread's elements lie together, which caches of processors like.
          `place_blocks` and the lowering for processors do just this, with what depends on
          the thread in the pointer to a block instead of in every index function.
        - "interleaved": the same element of all threads lies together, so that neighbouring
          threads of a GPU, which run in step, read neighbouring elements.

    Raises
    ------
    InternalError
        When a thread's block holds elements of several sizes.
    """
    own = {block.name: block for block in program.blocks if block.per_thread}
    if not own:
        return program
    elements = element_sizes(program)
    for name in own:
        sizes = sorted(elements.get(name, ()))
        if len(sizes) > 1:
            raise InternalError(
                f"expand: a thread's {name} holds elements of {sizes[0]} and {sizes[-1]} bytes",
                "elements of one size, so that threads can be told apart",
            )

    def moved(type_: MemArray) -> MemArray:
        block = own.get(type_.block)
        return type_ if block is None else _share(type_, block, layout)

    blocks = tuple(
        Block(block.name, share_bytes(block, layout) * Poly.var(THREADS))
        if block.per_thread
        else block
        for block in program.blocks
    )
    return replace(map_memory(program, moved), blocks=blocks)


def share_bytes(block: Block, layout: Sharing = "contiguous") -> Size:
    """The bytes that each thread adds to a block."""
    return block.bytes + LINE if layout == "contiguous" else block.bytes


def _share(type_: MemArray, block: Block, layout: Sharing) -> MemArray:
    """An array in its thread's share of a block."""
    thread, threads, index = Poly.var(THREAD), Poly.var(THREADS), type_.index
    match layout:
        case "contiguous":
            share = divided(share_bytes(block), type_.dtype.itemsize)
            return replace(type_, index=replace(index, offset=thread * share + index.offset))
        case "interleaved":
            dims = tuple((extent, stride * threads) for extent, stride in index.dims)
            return replace(type_, index=Lmad(thread + index.offset * threads, dims))
        case _:
            assert_never(layout)
