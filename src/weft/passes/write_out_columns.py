"""write_out_columns: few columns that are reduced of what they have in common, as several results.

    let w = kernel (i < n, j < m) { .. }
    let s = reduce (i < n, c < 3; j < m) { w[i, j] * x[j, c] } with add
 => let s0, s1, s2 = reduce (i < n; j < m) { w[i, j] * x[j, 0], w[i, j] * x[j, 1], .. } with add
    let s = kernel (i < n, c < 3) { where(c == 0, s0[i], where(c == 1, s1[i], s2[i])) }

Such as the pulls of bodies on each other, along each axis. What made `w` is fused into that then,
which would be written and read, and is larger than all else.

Removes: reductions whose last kept dimension is of few elements, which read an array that does not
    vary along it, and that nothing else reads.
Adds: ones of so many results.
Requires: a fused program.
Ensures: the same terms, in the tree of rows that lie apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.passes.fuse import fuse
from weft.sizes import ONE, Poly

_FEW = 4  # elements


def write_out_columns(program: fun.Program) -> fun.Program:
    """The program with such reductions apart, and fused again."""
    written = _Write(program).body(program.body)
    return program if written is program.body else fuse(replace(program, body=written))


class _Write:
    def __init__(self, program: fun.Program) -> None:
        self.program = program
        self.names: Names | None = None

    def body(self, body: fun.Body) -> fun.Body:
        """A body outside of kernels."""
        uses = Counter(walk.uses(body))
        made: set[str] = set()
        statements: list[fun.Let] = []
        for let in body.statements:
            match let.expr:
                case fun.Reduce() if _suits(let.expr, made, uses):
                    statements += self._columns(let, let.expr)
                case fun.If() | fun.Loop():
                    statements.append(walk.map_let(let, self.body))
                case _:
                    statements.append(let)
            if isinstance(let.expr, fun.Kernel | fun.Reduce):
                made.update(var.name for var in let.pattern)
        return walk.with_statements(body, statements)

    def _columns(self, let: fun.Let, reduce: fun.Reduce) -> list[fun.Let]:
        """The reductions of each element of the last kept dimension, and the array of all."""
        if self.names is None:
            self.names = Names.of(self.program)
        kept, fresh = len(reduce.space) - reduce.reduced, self.names.fresh
        *rows, column = reduce.space[:kept]
        builder, dtype = Builder(self.names), let.pattern[0].type.dtype
        builder.place = let.place
        array, scalar = fun.Array(dtype, tuple(r.extent for r in rows)), fun.Scalar(dtype)
        numbers = range(column.extent.constant)
        together = _together([
            walk.Substitution({column.index.name: fun.Const(number, DType.I64)}, fresh=fresh).expr(
                replace(reduce, space=(*rows, *reduce.space[kept:]))
            )
            for number in numbers
        ])  # fmt: skip
        totals = builder.bind(together, (array,) * len(numbers))
        inner, index = builder.inner(), {r.index.name: builder.index() for r in (*rows, column)}
        places = tuple(Poly.var(index[r.index.name].name) for r in rows)
        *values, value = (inner.let(fun.Index(total, places), scalar) for total in totals)
        for number, other in reversed(list(enumerate(values))):
            here = (index[column.index.name], fun.Const(number, DType.I64))
            is_there = inner.let(fun.Apply("equal", here), fun.Scalar(DType.BOOL))
            value = inner.let(fun.Apply("where", (is_there, other, value)), scalar)
        space = tuple(fun.Range(index[r.index.name], r.extent) for r in (*rows, column))
        result = replace(let, expr=fun.Kernel(space, inner.body((value,))))
        return [*builder.statements, result]


def _together(reductions: Sequence[fun.Expr]) -> fun.Reduce:
    """One reduction of one result each over spaces of the same extents, with the results of all."""
    bodies, operators, neutral = [], [], list[fun.Atom]()
    first = reductions[0]
    assert isinstance(first, fun.Reduce)
    for each in reductions:
        assert isinstance(each, fun.Reduce)
        pairs = zip(each.space, first.space, strict=True)
        here = walk.Substitution({own.index.name: other.index for own, other in pairs})
        bodies.append(here.body(each.body))
        operators.append(each.operator)
        neutral += each.neutral
    params = [tuple(operator.params[side] for operator in operators) for side in (0, 1)]
    operator = fun.Lambda((*params[0], *params[1]), _joined([o.body for o in operators]))
    return fun.Reduce(first.space, first.reduced, _joined(bodies), operator, tuple(neutral))


def _joined(bodies: Sequence[fun.Body]) -> fun.Body:
    return fun.Body(
        tuple(let for body in bodies for let in body.statements),
        tuple(result for body in bodies for result in body.results),
    )


def _suits(reduce: fun.Reduce, made: set[str], uses: Counter[str]) -> bool:
    """Whether few columns are reduced, of an array that was made for them all alone."""
    kept = len(reduce.space) - reduce.reduced
    if kept < 2 or reduce.counter or len(reduce.neutral) != 1:
        return False
    column = reduce.space[kept - 1]
    if not column.extent.is_constant or not 1 < column.extent.constant <= _FEW:
        return False
    bodies = (reduce.body, reduce.operator.body)
    if not all(isinstance(let.expr, walk.SCALARS) for each in bodies for let in each.statements):
        return False
    others = [r for r in reduce.space if r is not column]
    reads = [let.expr for let in reduce.body.statements if isinstance(let.expr, fun.Index)]
    return any(
        read.array.name in made and uses[read.array.name] == 1 and _is_common(read, others)
        for read in reads
    )


def _is_common(read: fun.Index, space: Sequence[fun.Range]) -> bool:
    """Whether a read meets each element of an array once, whatever the column."""
    assert isinstance(read.array.type, fun.Array)
    extents = {r.index.name: r.extent for r in space if r.extent != ONE}
    for index, extent in zip(read.indices, read.array.type.shape, strict=True):
        if extent != ONE and extents.pop(index.variable or "", None) != extent:
            return False
    return not extents and not any(read.boundary)
