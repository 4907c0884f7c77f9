"""Large results, written past the caches.

A store to a line that is not in a cache reads the line first, and what is larger than the
caches is no longer in them when it is read next. Such a result is computed in blocks of
2 KiB, each in an array of the thread, and written from there by non-temporal stores, line by
line: a map of one array then moves two thirds of the bytes. Whether a result is large is known
at launch, also of boxes of it; one that is not is computed in place, a row at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import fetching, rows
from weft.lower.emitter import Emitter
from weft.lower.prefetch import LINE, Prefetcher
from weft.lower.unit import memory
from weft.mem.nodes import MemArray
from weft.sizes import ONE, Poly, Size, as_poly, product

LARGE = 1 << 25  # bytes: more than a core's own caches, and than most of what it shares has left
BLOCK = 1 << 11  # bytes: few enough that the next block's reads overlap this one's writes


def lower_row(
    e: Emitter, let: fun.Let, space: tuple[fun.Range, ...], lower: imp.Expr, upper: imp.Expr
) -> None:
    """A flat kernel's results for lower <= lane < upper, where the lane is the space's last."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    indices = tuple(Poly.var(r.index.name) for r in kernel.space)
    lower_rows(e, let, space, lower, upper, [(kernel.body, indices)])


def lower_rows(
    e: Emitter,
    let: fun.Let,
    space: tuple[fun.Range, ...],
    lower: imp.Expr,
    upper: imp.Expr,
    several: Sequence[tuple[fun.Body, tuple[Size, ...]]],
) -> None:
    """Rows of a flat kernel side by side: of each its body, and the indices of its results."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    lane = space[-1].index.name
    arrays = [memory(var) for var in let.pattern]
    targets = [(array, indices) for _, indices in several for array in arrays]
    bodies = [body for body, _ in several]
    if not any(in_sequence(array, indices, lane) for array, indices in targets):

        def directly(values: list[imp.Expr]) -> None:
            for (array, indices), value in zip(targets, values, strict=True):
                e.store(array, indices, value)

        rows.lower_rows(e, lane, lower, upper, bodies, directly, targets=targets)
        return
    elements = BLOCK // len(several) // max(array.dtype.itemsize for array in arrays)
    width = imp.integer(elements)
    length = e.declare(machine("-", upper, lower))
    long = e.declare(machine(">=", length, width))
    large = e.declare(machine("&&", is_large(e, kernel.space, arrays), long))
    large = e.declare(machine("&&", imp.OPTIMISED, large))
    prefetchers = _prefetchers(e, bodies, space)
    blocks = [
        Block(e, array, large, elements) if in_sequence(array, indices, lane) else None
        for array, indices in targets
    ]
    with in_blocks(e, lower, upper, large, width) as (begin, end):
        e.bind(lane, begin)
        for block, (_, indices) in zip(blocks, targets, strict=True):
            if block is not None:
                block.begin(indices)

        def store(values: list[imp.Expr]) -> None:
            at = machine("-", e.scalars[lane], begin)
            for block, (array, indices), value in zip(blocks, targets, values, strict=True):
                if block is None:
                    e.store(array, indices, value)
                else:
                    e.emit(imp.Store(block.pointer, at, value))

        asked = min((one.at_once(elements) for one in prefetchers), default=elements)
        parts: AbstractContextManager[tuple[imp.Expr, imp.Expr]] = nullcontext((begin, end))
        if asked < elements:
            parts = in_blocks(e, begin, end, large, imp.integer(asked))
        with parts as (first, last):
            with e.branch(large):
                for one in prefetchers:
                    one.part(first, asked)
            rows.lower_rows(e, lane, first, last, bodies, store, targets=targets)
        with e.branch(large):
            count = e.declare(machine("-", end, begin))
            ends = machine("==", begin, lower), machine("==", end, upper)
            for block in blocks:
                if block is not None:
                    block.flush(count, *ends)


def _prefetchers(
    e: Emitter, bodies: Sequence[fun.Body], space: tuple[fun.Range, ...]
) -> list[Prefetcher]:
    """What asks for memory ahead; none where the processor follows so many rows by itself."""
    if 1 < fetching.fetching().runs <= len(bodies):
        return []
    outer = space[-2].index.name if len(space) > 1 else None
    return [Prefetcher(e, body, space[-1], outer, len(bodies)) for body in bodies]


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
    """Whether results over the space, or the wholes that they are boxes of, are larger than the
    caches.
    """
    size = sum(array.dtype.itemsize for array in arrays) * product(r.extent for r in space)
    if all(array.block.startswith("result_") for array in arrays):
        size = size * e.parts()
    return e.declare(machine(">=", e.named(as_poly(size)), imp.integer(LARGE)))


def in_sequence(array: MemArray, indices: tuple[Size, ...], lane: str) -> bool:
    """Whether elements that are neighbours along the lane are so in memory."""
    if len(array.shape) != len(indices):
        return False
    address = array.index.apply(indices)
    return address.degree(lane) == 1 and address.coefficient(lane) == ONE


class Block:
    """Where a block of a result is stored: in place, or in an array on its way past the caches.

    Made before the loop over blocks, since what one leaves of a line is kept for the next.
    """

    def __init__(self, e: Emitter, array: MemArray, large: imp.Expr, elements: int) -> None:
        self.e, self.array, self.large = e, array, large
        self.near = e.local(array.dtype, elements + 2 * LINE // array.dtype.itemsize, "near")

    def begin(self, indices: tuple[Size, ...]) -> None:
        """The next block begins where the indices are now."""
        e = self.e
        self.far, index = e.address(self.array, indices)
        self.index = e.declare(index)
        self.pointer = e.unit.pointer("to", self.array.dtype)
        e.emit(imp.Choose(self.pointer, self.large, self.near, self.far, self.index, in_line=True))

    def flush(self, count: imp.Expr, first: imp.Expr, last: imp.Expr) -> None:
        """So many elements go on; which blocks are the first and the last of those in a row."""
        self.e.emit(imp.Flush(self.far, self.index, self.near, count, first, last))
