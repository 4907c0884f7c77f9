"""Reductions of rows, several rows side by side.

    for i { s = reduce (j) f(i, j); y[i] = g(s) }
        =>  for i by 4 { s0, .., s3 = reduce (j) f(i, j), .., f(i + 3, j); y[i] = g(s0); .. }

The processor then fetches several runs of memory at once (`weft.lower.fetching`), and what rows
share (the vector of a matrix-vector product) is read once for all. Each row's tree is that of
`reductions`, so its bits are those that it has by itself. Tiles of a long sum are such rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.fun import nodes as fun
from weft.fun import operators
from weft.fun.vector_math import has_vector_math
from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower import fetching, shapes
from weft.lower.bodies import lower_body, scalar_results
from weft.lower.emitter import Emitter
from weft.lower.lanes import Lanes, accumulate, is_short
from weft.lower.narrow_sums import narrowed
from weft.lower.prefetch import Prefetcher, streams
from weft.lower.reductions import Counter, each_grain
from weft.lower.rows import LANES
from weft.lower.unit import memory
from weft.sizes import ZERO, Poly

CHEAP = 16  # operations of an element: of more, memory is not what rows wait for

TOTAL = ("add", "subtract", "multiply", "minimum", "maximum")
"""Operations that may be done for a row that is not there."""

Rows = Callable[[imp.Expr, imp.Expr], None]


def count(e: Emitter, kernel: fun.Kernel) -> int:
    """How many rows of a kernel are reduced side by side: 1 where that is no use."""
    parts = _parts(kernel)
    if parts is None:
        return 1
    reduce, lane = parts[1].expr, kernel.space[-1].index.name
    assert isinstance(reduce, fun.Reduce)
    with e.index(reduce.space[0].index.name, imp.ZERO, ZERO, reduce.space[0].extent):
        found = streams(e, reduce.body, reduce.space[0], lane)
    return max(1, fetching.fetching().runs // len(found)) if found else 1


def _parts(kernel: fun.Kernel) -> tuple[fun.Body, fun.Let, fun.Body] | None:
    """The sizes that come before the only reduction, that one, and what is made of it.

    Without vector math, of which a compiler may use the scalar form in one loop and not
    in the other.
    """
    statements = kernel.body.statements
    reductions = [k for k, let in enumerate(statements) if isinstance(let.expr, fun.Reduce)]
    if len(reductions) != 1:
        return None
    place = reductions[0]
    before, let = fun.Body(statements[:place], ()), statements[place]
    after = fun.Body(statements[place + 1 :], kernel.body.results)
    reduce = let.expr
    assert isinstance(reduce, fun.Reduce)
    bodies = (reduce.body, reduce.operator.body, after)
    suits = (
        reduce.reduced == len(reduce.space) == 1
        and not reduce.counter
        and not shapes.is_unrolled(reduce)
        and all(map(_is_size, before.statements))
        and all(shapes.is_flat(body) and not has_vector_math(body) for body in bodies)
        and all(isinstance(result.type, fun.Scalar) for result in kernel.body.results)
        and is_short(reduce.operator)
        and _is_cheap(reduce.body)
        and operators.is_commutative(reduce.operator)
        and operators.selection(reduce) is None
        and narrowed(reduce) is None
    )
    return (before, let, after) if suits else None


def _is_cheap(body: fun.Body) -> bool:
    cost = shapes.cost(body)
    return cost.is_constant and cost.constant <= CHEAP


def _is_size(let: fun.Let) -> bool:
    expr = let.expr
    return isinstance(expr, fun.SizeValue) or (
        isinstance(expr, fun.Apply) and expr.operation in TOTAL
    )


def lower_rows(
    e: Emitter, let: fun.Let, lower: imp.Expr, upper: imp.Expr, together: int, one_by_one: Rows
) -> None:
    """The rows lower <= lane < upper, so many together; `one_by_one` lowers what is left over."""
    first = e.unit.integer("i")
    with e.loop(first, lower, upper, step=together):
        above = e.declare(machine("+", first, imp.integer(together)))
        end = e.declare(machine("min", upper, above))
        rows = _Rows(e, let, [
            e.declare(machine("+", first, imp.integer(number))) for number in range(together)
        ])  # fmt: skip
        whole = e.declare(machine("<=", above, upper))
        long = e.declare(machine(">", rows.extents[0], imp.integer(LANES)))
        whole = e.declare(machine("&&", whole, long))
        whole = e.declare(machine("&&", imp.OPTIMISED, whole))
        for extent in rows.extents[1:]:
            if extent != rows.extents[0]:
                alike = e.declare(machine("==", rows.extents[0], extent))
                whole = e.declare(machine("&&", whole, alike))
        e.either(whole, rows.lower, lambda: one_by_one(first, end))


class _Rows:
    """Rows of a kernel, with the sizes that come before their reduction."""

    def __init__(self, e: Emitter, let: fun.Let, rows: Sequence[imp.Expr]) -> None:
        assert isinstance(let.expr, fun.Kernel)
        parts = _parts(let.expr)
        assert parts is not None
        self.e, self.let, self.kernel = e, let, let.expr
        self.before, self.reduction, self.after = parts
        reduce = self.reduction.expr
        assert isinstance(reduce, fun.Reduce)
        self.reduce = reduce
        self.known: list[Mapping[str, imp.Expr]] = []
        self.extents = []
        for row in rows:
            lane = self.kernel.space[-1].index.name
            e.bind(lane, row)
            lower_body(e, self.before)
            made = {v.name: e.scalars[v.name] for s in self.before.statements for v in s.pattern}
            self.known.append({lane: row, **made})
            self.extents.append(e.named(reduce.space[0].extent))

    def _see(self, row: Mapping[str, imp.Expr]) -> None:
        for name, value in row.items():
            self.e.bind(name, value)

    def lower(self) -> None:
        """All of them together."""
        e, indices = self.e, tuple(Poly.var(r.index.name) for r in self.kernel.space)
        serial, e.serial = e.serial, True
        totals = self._totals()
        e.serial = serial
        for row, total in zip(self.known, totals, strict=True):
            self._see(row)
            for var, value in zip(self.reduction.pattern, total, strict=True):
                e.bind(var.name, value)
            values = scalar_results(e, self.after)
            for var, value in zip(self.let.pattern, values, strict=True):
                e.store(memory(var), indices, value)

    def _totals(self) -> list[list[imp.Expr]]:
        e, r = self.e, self.reduce.space[0]
        operator, neutral = self.reduce.operator, [e.atom(atom) for atom in self.reduce.neutral]

        def element(row: Mapping[str, imp.Expr], index: imp.Expr) -> list[imp.Expr]:
            self._see(row)
            e.bind(r.index.name, index)
            return scalar_results(e, self.reduce.body)

        def ask(row: Mapping[str, imp.Expr], first: imp.Expr) -> None:
            self._see(row)
            prefetcher.part(first, LANES)

        counters = [Counter(e, operator, neutral) for _ in self.known]
        lane = self.kernel.space[-1].index.name
        with (
            e.index(r.index.name, imp.ZERO, ZERO, r.extent),
            each_grain(e, imp.ZERO, self.extents[0]) as (start, size),
        ):
            prefetcher = Prefetcher(e, self.reduce.body, r, lane, len(self.known))
            lanes = [Lanes(e, operator, neutral) for _ in self.known]
            accumulate(e, list(zip(lanes, self.known, strict=True)), element, start, size, ask)
            for counter, own in zip(counters, lanes, strict=True):
                counter.push(own.total())
        return [counter.total() for counter in counters]
