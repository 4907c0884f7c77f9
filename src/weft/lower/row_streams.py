"""Reductions of rows, four rows at once.

A tile of rows is cut into four parts, and one row of each is reduced at a time: four streams
that the processor fetches ahead of each other, each of them one long run of memory, and
what the rows share (the vector of a matrix-vector product) is read once for four. Each
row's tree is that of `reductions`, so its bits are those that it has by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.fun import nodes as fun
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import operators, shapes
from weft.lower.bodies import scalar_results
from weft.lower.emitter import Emitter
from weft.lower.reductions import GRAIN, LEVELS, combine, is_set, while_
from weft.lower.rows import LANES, simd
from weft.lower.unit import memory
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Poly

STREAMS = 4


def suits(kernel: fun.Kernel) -> bool:
    """Whether the kernel is a straight-line reduction of each row and scalars made of it.

    Without vector math, of which a compiler may use the scalar form in one loop and not
    in the other.
    """
    head, rest = kernel.body.statements[:1], kernel.body.statements[1:]
    reduce = head[0].expr if head else None
    if not isinstance(reduce, fun.Reduce) or not reduce.reduced == len(reduce.space) == 1:
        return False
    bodies = (reduce.body, reduce.operator.body, fun.Body(rest, ()))
    return (
        not reduce.counter
        and not shapes.is_unrolled(reduce)
        and kernel.space[-1].index.name not in reduce.space[0].extent.variables()
        and all(shapes.is_flat(body) and not shapes.has_vector_math(body) for body in bodies)
        and all(isinstance(result.type, fun.Scalar) for result in kernel.body.results)
        and operators.is_commutative(reduce.operator)
        and operators.selection(reduce) is None
    )


def lower_rows(e: Emitter, let: fun.Let, lower: imp.Expr, upper: imp.Expr) -> imp.Expr:
    """Rows from `lower` on, in streams; the result is the first row that is left over."""
    kernel = let.expr
    assert isinstance(kernel, fun.Kernel)
    head = kernel.body.statements[0]
    reduce = head.expr
    assert isinstance(reduce, fun.Reduce)
    lane, r = kernel.space[-1].index.name, reduce.space[0]
    part = e.declare(machine("-", upper, lower))
    part = e.declare(machine("/", part, imp.integer(STREAMS)))
    indices = tuple(Poly.var(outer.index.name) for outer in kernel.space)
    first = e.unit.integer("i")
    with (
        e.loop(first, lower, e.declare(machine("+", lower, part))),
        e.index(r.index.name, imp.ZERO, ZERO, r.extent),
    ):
        streams = _Streams(e, reduce, lane, [
            e.declare(machine("+", first, machine("*", part, imp.integer(stream))))
            for stream in range(STREAMS)
        ])  # fmt: skip
        extent = e.named(r.extent)
        start = e.unit.integer("g")
        with e.loop(start, imp.ZERO, extent, step=GRAIN):
            left = e.declare(machine("-", extent, start))
            streams.grain(start, e.declare(machine("min", imp.integer(GRAIN), left)))
            streams.push()
        streams.total()
        stream = e.unit.integer("s")
        with e.loop(stream, imp.ZERO, imp.integer(STREAMS)):
            e.bind(lane, e.declare(machine("+", first, machine("*", stream, part))))
            for var, pointer in zip(head.pattern, streams.values, strict=True):
                e.bind(var.name, e.declare(imp.Load(pointer, stream), depth=e.depth))
            rest = fun.Body(kernel.body.statements[1:], kernel.body.results)
            for var, value in zip(let.pattern, scalar_results(e, rest), strict=True):
                e.store(memory(var), indices, value)
    return e.declare(machine("+", lower, machine("*", part, imp.integer(STREAMS))))


class _Streams:
    """`reductions.grains`, side by side: arrays have an element, or 64, for each stream."""

    def __init__(self, e: Emitter, reduce: fun.Reduce, lane: str, rows: Sequence[imp.Expr]) -> None:
        self.e, self.reduce, self.lane, self.rows = e, reduce, lane, rows
        self.neutral = [e.atom(atom) for atom in reduce.neutral]
        dtypes = [value.dtype for value in self.neutral]
        self.count = e.mutable(DType.I64, imp.ZERO, "count")
        self.stacks = [e.local(dtype, LEVELS * STREAMS, "stack") for dtype in dtypes]
        self.values = [e.local(dtype, STREAMS, "value") for dtype in dtypes]
        self.lanes = [e.local(dtype, STREAMS * LANES, "lane") for dtype in dtypes]

    def grain(self, start: imp.Expr, size: imp.Expr) -> None:
        """The grain of each stream that begins at `start`, left in `values`."""
        e = self.e
        var = e.unit.integer("l")
        with simd(e, var, imp.ZERO, imp.integer(STREAMS * LANES)):
            for pointer, value in zip(self.lanes, self.neutral, strict=True):
                e.emit(imp.Store(pointer, var, value))
        whole = e.declare(machine("&", size, imp.integer(-LANES)))
        end = e.declare(machine("+", start, whole))
        block = e.unit.integer("i")
        with e.loop(block, start, end, step=LANES, hoist=True):
            self._accumulate(block, imp.integer(LANES))
        self._accumulate(end, e.declare(machine("-", size, whole)))
        half = LANES // 2
        while half:
            for stream in range(STREAMS):
                var = e.unit.integer("l")
                with simd(e, var, imp.ZERO, imp.integer(half)):
                    at = machine("+", imp.integer(stream * LANES), var)
                    other = machine("+", imp.integer(stream * LANES + half), var)
                    self._combine(self.lanes, at, self.lanes, at, self.lanes, other)
            half //= 2
        for stream in range(STREAMS):
            for pointer, lane in zip(self.values, self.lanes, strict=True):
                value = imp.Load(lane, imp.integer(stream * LANES))
                e.emit(imp.Store(pointer, imp.integer(stream), value))

    def _accumulate(self, begin: imp.Expr, count: imp.Expr) -> None:
        e, name = self.e, self.reduce.space[0].index.name
        for stream, row in enumerate(self.rows):
            e.bind(self.lane, row)
            var = e.unit.integer("l")
            with simd(e, var, imp.ZERO, count):
                e.bind(name, e.declare(machine("+", begin, var)))
                values = scalar_results(e, self.reduce.body)
                at = machine("+", imp.integer(stream * LANES), var)
                left = [e.declare(imp.Load(lane, at), depth=e.depth) for lane in self.lanes]
                total = combine(e, self.reduce.operator, left, values)
                for pointer, value in zip(self.lanes, total, strict=True):
                    e.emit(imp.Store(pointer, at, value))

    def _combine(
        self,
        into: Sequence[imp.Pointer],
        at: imp.Expr,
        left: Sequence[imp.Pointer],
        left_at: imp.Expr,
        right: Sequence[imp.Pointer],
        right_at: imp.Expr,
        first: imp.Expr | None = None,
    ) -> None:
        """into[at] = operator(left, right), or the left one where it is the first."""
        e = self.e
        a = [e.declare(imp.Load(pointer, left_at), depth=e.depth) for pointer in left]
        b = [e.declare(imp.Load(pointer, right_at), depth=e.depth) for pointer in right]
        results = combine(e, self.reduce.operator, a, b)
        for pointer, alone, value in zip(into, a, results, strict=True):
            chosen = value if first is None else imp.Select(first, alone, value)
            e.emit(imp.Store(pointer, at, chosen))

    def _each(self, level: imp.Expr, first: imp.Expr | None = None) -> None:
        """values = operator(stack at the level, values), stream by stream."""
        var = self.e.unit.integer("s")
        with simd(self.e, var, imp.ZERO, imp.integer(STREAMS)):
            at = machine("+", machine("*", level, imp.integer(STREAMS)), var)
            self._combine(self.values, var, self.stacks, at, self.values, var, first)

    def push(self) -> None:
        """As `Counter.push`, of all streams."""
        e = self.e
        level = e.mutable(DType.I64, imp.ZERO, "level")
        with while_(e, is_set(self.count, level)):
            e.depths[level.name] = e.depth
            self._each(level)
            e.emit(imp.Assign(level, machine("+", level, imp.ONE)))
        var = e.unit.integer("s")
        with simd(e, var, imp.ZERO, imp.integer(STREAMS)):
            at = machine("+", machine("*", level, imp.integer(STREAMS)), var)
            for stack, pointer in zip(self.stacks, self.values, strict=True):
                e.emit(imp.Store(stack, at, imp.Load(pointer, var)))
        e.emit(imp.Assign(self.count, machine("+", self.count, imp.ONE)))

    def total(self) -> None:
        """As `Counter.total`: each stream's, left in `values`."""
        e = self.e
        var = e.unit.integer("s")
        with simd(e, var, imp.ZERO, imp.integer(STREAMS)):
            for pointer, value in zip(self.values, self.neutral, strict=True):
                e.emit(imp.Store(pointer, var, value))
        level = e.mutable(DType.I64, imp.ZERO, "level")
        first = e.mutable(DType.BOOL, imp.Const(True, DType.BOOL), "first")
        with while_(e, machine("!=", machine(">>", self.count, level), imp.ZERO)):
            e.depths[level.name] = e.depth
            with e.branch(is_set(self.count, level)):
                self._each(level, first)
                e.emit(imp.Assign(first, imp.Const(False, DType.BOOL)))
            e.emit(imp.Assign(level, machine("+", level, imp.ONE)))
