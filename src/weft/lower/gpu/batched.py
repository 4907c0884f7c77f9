"""Elements computed several at a time before they are combined, in the order that is due.

What combines elements as they come waits for memory once for each: some 600 ns on a GPU, whose
items would have to be many times as many as it holds for its memory to be busy meanwhile. The
loads of a batch are under way together. (J. Little, "A proof for the queuing formula L = λW",
1961: bytes under way are bandwidth times latency.)

    for i < 32 { s = s + x[i] }
    =>  for i < 32 step 8 { for l < 8 { a[l] = x[i + l] }; s = s + a[0] + .. + a[7] }
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import reductions, shapes
from weft.lower.emitter import Emitter, frozen
from weft.ops.dtypes import DType

ELEMENTS = 8
"""Of a batch of an item that others do not wait for."""

RESULTS = 16
"""Of a batch of what parts gave: few items combine that."""

_CHUNK = reductions.ROWS

Element = Callable[[imp.Expr], Sequence[imp.Expr]]
"""What is to be combined of the element with a number."""


def fold(
    e: Emitter, reduce: fun.Reduce | fun.Scan, state: Sequence[imp.Var],
    begin: imp.Expr, end: imp.Expr, element: Element,
) -> None:  # fmt: skip
    """The elements of a chunk, at most 32, from left to right into `state`; there is one."""

    def one_by_one() -> None:
        at = e.unit.integer("i")
        with e.loop(at, begin, end):
            values = element(at)
            first = e.declare(machine("==", at, begin))
            _append(e, reduce.operator, state, values, first)

    def in_batches() -> None:
        start = e.unit.integer("start")
        with e.loop(start, imp.ZERO, imp.integer(_CHUNK), step=ELEMENTS):
            first: imp.Expr | None = e.declare(machine("==", start, imp.ZERO))
            base = e.declare(machine("+", begin, start))
            for values in load(e, [v.dtype for v in state], ELEMENTS, lambda at: element(
                e.declare(machine("+", base, at))
            )):  # fmt: skip
                _append(e, reduce.operator, state, values, first)
                first = None

    if e.unit.batched and shapes.is_flat(reduce.body):
        whole = machine("==", machine("-", end, begin), imp.integer(_CHUNK))
        e.either(whole, in_batches, one_by_one)
    else:
        one_by_one()


def count(counter: reductions.Counter, size: imp.Expr, value: Element) -> None:
    """So many values pushed to a counter, in batches."""
    e, start = counter.e, counter.e.unit.integer("start")
    with e.loop(start, imp.ZERO, size, step=RESULTS):
        counter.push(neighbours(counter, start, e.declare(machine("-", size, start)), value))


def neighbours(
    counter: reductions.Counter, start: imp.Expr, left: imp.Expr, value: Element, count: int = 0
) -> Sequence[imp.Expr]:
    """The `count` values from `start` on, or the `left` ones that there are, at least one.

    Neighbours are combined level by level, which is what the counter would make of them. `count`
    is a power of two, `RESULTS` if it is 0.
    """
    e, last, count = counter.e, counter.e.declare(machine("-", left, imp.ONE)), count or RESULTS

    def existing(at: imp.Expr) -> Sequence[imp.Expr]:
        """A value of the batch; the last one again where there are fewer."""
        return value(e.declare(machine("+", start, machine("min", at, last))))

    values = load(e, [neutral.dtype for neutral in counter.neutral], count, existing)
    reach = 1
    while reach < count:
        for first in range(0, count, 2 * reach):
            exists = e.declare(machine("<=", imp.integer(first + reach), last))
            joined = reductions.combine(
                e, counter.operator, values[first], values[first + reach]
            )
            values[first] = [
                e.declare(imp.Select(exists, both, one))
                for both, one in zip(joined, values[first], strict=True)
            ]
        reach *= 2
    return values[0]


def of_registers(dtypes: Sequence[DType], body: fun.Body) -> int:
    """How many elements 32 registers hold; of a body that takes more of them, `ELEMENTS`."""
    if len(body.statements) > ELEMENTS:
        return ELEMENTS
    registers = sum(-(-dtype.itemsize // 4) for dtype in dtypes)
    return 1 << max(32 // registers, 1).bit_length() - 1


def compute(
    e: Emitter, dtypes: Sequence[DType], count: int, element: Element
) -> list[imp.Pointer]:
    """Arrays of the item's own with the values of so many elements; none waits for another."""
    near = [e.local(dtype, count, "batch") for dtype in dtypes]
    at = e.unit.integer("l")
    with e.loop(at, imp.ZERO, imp.integer(count), unroll=count):
        for array, value in zip(near, element(at), strict=True):
            e.emit(imp.Store(array, at, value))
    return near


def load(
    e: Emitter, dtypes: Sequence[DType], count: int, element: Element
) -> list[Sequence[imp.Expr]]:
    """The values of so many elements, which are `compute`d first."""
    near = compute(e, dtypes, count, element)
    return [
        [e.declare(imp.Load(array, imp.integer(n)), depth=e.depth) for array in near]
        for n in range(count)
    ]


def _append(
    e: Emitter, operator: fun.Lambda, state: Sequence[imp.Var], values: Sequence[imp.Expr],
    first: imp.Expr | None,
) -> None:  # fmt: skip
    """One element more in a fold; what is there before the `first` one does not count."""
    with frozen(e, state) as left:
        after = reductions.combine(e, operator, left, values)
        for slot, value, joined in zip(state, values, after, strict=True):
            result = joined if first is None else imp.Select(first, value, joined)
            e.emit(imp.Assign(slot, result))
