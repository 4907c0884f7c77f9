"""Place blocks: where each temporary block lies in the workspace of one call."""

from __future__ import annotations

from math import gcd

from weft.mem.expand import LINE, share_bytes
from weft.mem.nodes import THREADS, Block, MemArray, Program
from weft.records import dataclass
from weft.sizes import ZERO, Poly, Size, product
from weft.sizes.division import content

APART = 19 * LINE
"""Bytes between blocks, which end with a line each: of 20 lines in all.

Blocks of a power of two then do not share the sets of a cache. Nor has what is written to the one
the last 12 bits of what is soon read of the other, where rows are a power of two, too: see
`weft.runtime.apart`.
"""


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """A block from `offset` bytes on; that of thread t from `offset + t * stride` on."""

    offset: Size
    stride: Size


@dataclass(frozen=True, slots=True)
class Placement:
    """Where blocks lie, and the bytes of the whole workspace (in sizes and "threads")."""

    places: dict[str, BlockPlace]
    workspace: Size


def place_blocks(program: Program) -> Placement:
    """Give each block an offset, one after another, a cache line apart or more.

    Requires a workspace aligned to 64 bytes. Ensures that elements are aligned: what is
    a multiple of more bytes comes first, so that no rounding is needed, and offsets stay
    polynomials. The blocks of threads lie as `weft.mem.expand` lays them out contiguously,
    and no two share a cache line.
    """
    offset: Size = ZERO
    places: dict[str, BlockPlace] = {}
    apart = 0
    for block in sorted(program.blocks, key=lambda b: -alignment(b)):
        stride = share_bytes(block)
        offset = offset + apart
        places[block.name] = BlockPlace(offset, stride)
        offset = offset + (stride * Poly.var(THREADS) if block.per_thread else stride)
        apart = 0 if block.per_thread or block.bytes.is_constant else APART
    return Placement(places, offset)


def peak_bytes(program: Program) -> Size:
    """The bytes that a call needs beside its arguments: workspace and results."""
    total = place_blocks(program).workspace
    donated = program.donated.values()
    for number, type_ in enumerate(program.destinations):
        if number in donated:
            continue
        shape = type_.shape if isinstance(type_, MemArray) else ()
        total = total + product(shape) * type_.dtype.itemsize
    return total


def alignment(block: Block) -> int:
    """The largest power of two, up to a line, of which the block's size is a multiple."""
    common = gcd(LINE, content(block.bytes))
    return common & -common
