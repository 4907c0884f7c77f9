"""Parts of rows and columns that rounds write, whose bounds follow the round, as whole arrays.

    c[i, 0 : i] = v                  row i of a kernel's result has v before column i;
    c[0 : i, i] = w             =>   c = kernel (i, j) { if j < i { row of v } else { c[i, j] } },
                                     and so on for columns

What is outside of a round's part is computed for nothing, as in `square`.
"""

from __future__ import annotations

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.passes.accumulation import neutral
from weft.passes.dependence import Dims, Rounds
from weft.records import dataclass
from weft.sizes import ONE, Poly, Size

_BOOL = fun.Scalar(DType.BOOL)


@dataclass(frozen=True, slots=True)
class Lines:
    """Where the results of a kernel over rounds go, a line each.

    Attributes
    ----------
    axis : int
        The dimension of a matrix in which the round's index is.
    offset : Size
        What is added to it there.
    span : Span
        The part of a round, in the other dimension.
    rounds : Rounds
    """

    axis: int
    offset: Size
    span: fun.Span
    rounds: Rounds

    def line(self, array: fun.Var, value: fun.Atom, names: Names) -> fun.Let:
        """What a round writes, as long as a whole line."""
        builder = Builder(names)
        along = builder.index("j")
        here = Poly.var(along.name)
        inside = _inside(builder, here, self.span.start, self.span.start + self.span.extent)
        scalar = fun.Scalar(value.type.dtype)
        body = fun.Body((), (value,))
        if isinstance(value, fun.Var) and isinstance(value.type, fun.Array):
            own = builder.inner()
            body = own.body([own.let(fun.Index(value, (here - self.span.start,)), scalar)])
        none = fun.Body((), (neutral("add", value.type.dtype),))
        chosen = builder.let(fun.If(inside, body, none), scalar)
        assert isinstance(array.type, fun.Array)
        extent = array.type.shape[1 - self.axis]
        line = fun.Var(names.fresh("line"), fun.Array(value.type.dtype, (extent,)))
        space = (fun.Range(along, extent),)
        return fun.Let((line,), fun.Kernel(space, builder.body([chosen])))

    def update(
        self, array: fun.Var, value: fun.Var, last: fun.Var | None, names: Names,
        place: Place | None,
    ) -> tuple[list[fun.Let], fun.Var]:  # fmt: skip
        """The array with the parts of lines, `last` where given."""
        assert isinstance(array.type, fun.Array)
        result = last or fun.Var(names.fresh("u"), array.type)
        builder = Builder(names)
        indices = builder.index("i"), builder.index("j")
        at = tuple(Poly.var(index.name) for index in indices)
        scalar = fun.Scalar(array.type.dtype)
        old = builder.let(fun.Index(array, at), scalar)
        round_, along = at[self.axis] - self.offset, at[1 - self.axis]
        start, extent = (
            size.substitute({self.rounds.index: round_})
            for size in (self.span.start, self.span.extent)
        )
        inside = _inside(builder, round_, self.rounds.lower, self.rounds.upper)
        then = builder.inner()
        within = _inside(then, along, start, start + extent)
        new = then.inner()
        read = new.let(fun.Index(value, (round_ - self.rounds.lower, along)), scalar)
        other = fun.Body((), (old,))
        written = then.let(fun.If(within, new.body([read]), other), scalar)
        chosen = builder.let(fun.If(inside, then.body([written]), other), scalar)
        space = tuple(
            fun.Range(index, size) for index, size in zip(indices, array.type.shape, strict=True)
        )
        kernel = fun.Kernel(space, builder.body([chosen]))
        return [fun.Let((result,), kernel, place)], result


def lines(dims: Dims, rounds: Rounds) -> Lines | None:
    """The parts of lines that rounds write; None where that are none."""
    if len(dims) != 2:
        return None
    known = rounds.outside | {rounds.index}
    for axis, dim in enumerate(dims):
        other = dims[1 - axis]
        if isinstance(dim, fun.Span):
            continue
        offset = dim - Poly.var(rounds.index)
        span = other if isinstance(other, fun.Span) else fun.Span(other, ONE)
        sizes = span.start.variables() | span.extent.variables()
        if offset.variables() <= rounds.outside and sizes <= known and span.step == 1:
            return Lines(axis, offset, span, rounds)
    return None


def _inside(builder: Builder, index: Size, lower: Size, upper: Size) -> fun.Var:
    """Whether lower <= index < upper."""
    first = builder.scalar(lower), builder.scalar(index)
    last = builder.scalar(index), builder.scalar(upper)
    ends = [
        builder.let(fun.Apply(operation, operands), _BOOL)
        for operation, operands in (("less_equal", first), ("less", last))
    ]
    return builder.let(fun.Apply("logical_and", (ends[0], ends[1])), _BOOL)
