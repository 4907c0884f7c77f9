"""Large results, written past the caches.

A store to a line that is not in a cache reads the line first, and what is larger than the
caches is no longer in them when it is read next. Such a result is computed in blocks of
2 KiB, each in an array of the thread, and written from there by non-temporal stores: a map
of one array then moves two thirds of the bytes. Whether a result is large is known
at launch; one that is not is computed in place, a row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import rows
from weft.lower.emitter import Emitter
from weft.lower.prefetch import Prefetcher
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.sizes import ONE, Poly, Size, as_poly, product

LARGE = 1 << 26  # bytes: more than the caches that a core has for itself, and most shared ones
BLOCK = 1 << 11  # bytes: few enough that the next block's reads overlap this one's writes


def lower_row(
    e: Emitter, let: fun.Let, space: tuple[fun.Range, ...], lower: imp.Expr, upper: imp.Expr
) -> None:
    """A flat kernel's results for lower <= lane < upper, where the lane is the space's last."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    lane = space[-1].index.name
    indices = tuple(Poly.var(r.index.name) for r in kernel.space)
    arrays = [memory(var) for var in let.pattern]
    if not any(in_sequence(array, indices, lane) for array in arrays):

        def directly(values: list[imp.Expr]) -> None:
            for array, value in zip(arrays, values, strict=True):
                e.store(array, indices, value)

        rows.lower_row(e, lane, lower, upper, kernel.body, directly)
        return
    elements = BLOCK // max(array.dtype.itemsize for array in arrays)
    width = imp.integer(elements)
    length = e.declare(machine("-", upper, lower))
    long = e.declare(machine(">=", length, width))
    large = e.declare(machine("&&", is_large(e, kernel.space, arrays), long))
    outer = space[-2].index.name if len(space) > 1 else None
    prefetcher = Prefetcher(e, kernel.body, space[-1], outer)
    with in_blocks(e, lower, upper, large, width) as (begin, end):
        e.bind(lane, begin)
        blocks = [
            Block(e, array, indices, large, elements) if in_sequence(array, indices, lane) else None
            for array in arrays
        ]

        def store(values: list[imp.Expr]) -> None:
            at = machine("-", e.scalars[lane], begin)
            for array, block, value in zip(arrays, blocks, values, strict=True):
                if block is None:
                    e.store(array, indices, value)
                else:
                    e.emit(imp.Store(block.pointer, at, value))

        asked = prefetcher.at_once(elements)
        parts: AbstractContextManager[tuple[imp.Expr, imp.Expr]] = nullcontext((begin, end))
        if asked < elements:
            parts = in_blocks(e, begin, end, large, imp.integer(asked))
        with parts as (first, last):
            with e.branch(large):
                prefetcher.part(first, asked)
            rows.lower_row(e, lane, first, last, kernel.body, store)
        with e.branch(large):
            for block in blocks:
                if block is not None:
                    block.flush(e.declare(machine("-", end, begin)))


@contextmanager
def in_blocks(
    e: Emitter, lower: imp.Expr, upper: imp.Expr, large: imp.Expr, width: imp.Expr
) -> Iterator[tuple[imp.Expr, imp.Expr]]:
    """Around the code for begin <= index < end: blocks where it is large, else all at once."""
    length = e.declare(machine("-", upper, lower))
    step = e.declare(imp.Select(large, width, e.declare(machine("max", imp.ONE, length))))
    above = e.declare(machine("-", machine("+", length, step), imp.ONE))
    number = e.unit.integer("block")
    with e.loop(number, imp.ZERO, e.declare(machine("/", above, step)), hoist=True):
        begin = e.declare(machine("+", lower, machine("*", number, step)), "begin")
        yield begin, e.declare(machine("min", upper, e.declare(machine("+", begin, step))), "end")


def is_large(e: Emitter, space: tuple[fun.Range, ...], arrays: Sequence[MemArray]) -> imp.Expr:
    """Whether results over the space are larger than the caches."""
    size = sum(array.dtype.itemsize for array in arrays) * product(r.extent for r in space)
    return e.declare(machine(">=", e.named(as_poly(size)), imp.integer(LARGE)))


def in_sequence(array: MemArray, indices: tuple[Size, ...], lane: str) -> bool:
    """Whether elements that are neighbours along the lane are so in memory."""
    if len(array.shape) != len(indices):
        return False
    address = array.index.apply(indices)
    return address.degree(lane) == 1 and address.coefficient(lane) == ONE


class Block:
    """A block of a result, from the indices that are bound now: in place, or on its way."""

    def __init__(
        self,
        e: Emitter,
        array: MemArray,
        indices: tuple[Size, ...],
        large: imp.Expr,
        elements: int,
    ) -> None:
        self.e = e
        self.far, index = e.address(array, indices)
        self.index = e.declare(index)
        self.near = e.local(array.dtype, elements, "near")
        self.pointer = e.unit.pointer("to", array.dtype)
        e.emit(imp.Choose(self.pointer, large, self.near, self.far, self.index))

    def flush(self, count: imp.Expr) -> None:
        self.e.emit(imp.Flush(self.far, self.index, self.near, count))
