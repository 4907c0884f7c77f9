"""Reuse blocks: arrays whose lives do not overlap share memory.

let b @ mem_b = kernel .. a ..         let b @ mem_b = kernel .. a ..
let c @ mem_c = kernel .. b ..   =>    let c @ mem_c = kernel .. b ..
let d @ mem_d = kernel .. c ..         let d @ mem_b = kernel .. c ..
"""

from __future__ import annotations

from dataclasses import replace

from weft.mem.last_use import Lifetime, lifetimes
from weft.mem.nodes import Block, Program
from weft.mem.rename import rename_blocks
from weft.sizes import Size
from weft.sizes.prove import Prover


def reuse_blocks(program: Program) -> Program:
    """Put an array into a block that an earlier one has left.

    Removes blocks, also those that nothing uses. Requires nothing, and ensures that the
    meaning is the same and no block grows but to the size of a larger one that joins it.
    A block of a thread joins only those of threads. Blocks live for whole statements of the
    program's body; inside kernels and loops nothing is shared.
    """
    if not program.blocks:
        return program
    lives = lifetimes(program)
    sizes = _Sizes(program)
    pools: list[tuple[Block, Lifetime]] = []
    names: dict[str, str] = {}
    for block in sorted(
        (b for b in program.blocks if b.name in lives), key=lambda b: lives[b.name].first
    ):
        life = lives[block.name]
        for number, (pool, used) in enumerate(pools):
            if used.last >= life.first or pool.per_thread != block.per_thread:
                continue
            larger = sizes.larger(pool.bytes, block.bytes)
            if larger is not None:
                pools[number] = (replace(pool, bytes=larger), Lifetime(used.first, life.last))
                names[block.name] = pool.name
                break
        else:
            pools.append((block, life))
    blocks = tuple(pool for pool, _ in pools)
    return rename_blocks(replace(program, blocks=blocks), names)


class _Sizes:
    """Comparisons of sizes; the prover is made when equality does not decide."""

    def __init__(self, program: Program) -> None:
        self.program = program.program
        self.prover: Prover | None = None

    def larger(self, left: Size, right: Size) -> Size | None:
        """The larger of two sizes, or None where neither is proved to be."""
        if left == right:
            return left
        if self.prover is None:
            source = self.program
            self.prover = Prover(source.facts, sizes=source.sizes, derived=source.derived)
        if self.prover.less_equal(right, left):
            return left
        return right if self.prover.less_equal(left, right) else None
