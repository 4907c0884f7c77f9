"""What all rounds of a loop write: the union of one round's places, as one update."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.errors import Place
from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.lmad import Lmad
from weft.passes.dependence import Dims, Rounds
from weft.passes.knowledge import Knowledge
from weft.records import dataclass
from weft.sizes import ZERO, Size, as_poly, product


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Where the results of a kernel go; the kernel's own dimension is the first.

    Attributes
    ----------
    dims : Dims or None
        A slice of the array; `axes` is the order of its dimensions in the kernel's result.
    axes : tuple of int
    lmad : Lmad or None
        Elements of the flat array, where no slice says it.
    """

    dims: Dims | None
    axes: tuple[int, ...]
    lmad: Lmad | None

    def update(
        self, array: fun.Var, value: fun.Var, last: fun.Var | None, names: Names,
        place: Place | None,
    ) -> tuple[list[fun.Let], fun.Var]:  # fmt: skip
        """Statements that write a value, and the array after them, `last` where given."""
        assert isinstance(array.type, fun.Array)
        result = last or fun.Var(names.fresh("u"), array.type)
        done: list[fun.Let] = []
        if self.axes != tuple(range(len(self.axes))):
            assert isinstance(value.type, fun.Array)
            shape = tuple(value.type.shape[axis] for axis in self.axes)
            moved = fun.Var(names.fresh("p"), fun.Array(value.type.dtype, shape))
            done.append(fun.Let((moved,), fun.Permute(value, self.axes), place))
            value = moved
        if self.dims is not None:
            update = fun.Update(array, self.dims, value)
            return [*done, fun.Let((result,), update, place)], result
        assert self.lmad is not None
        if array.type.rank == 1:
            whole = fun.LmadUpdate(array, self.lmad.offset, self.lmad.dims, value)
            return [*done, fun.Let((result,), whole, place)], result
        dtype, count = array.type.dtype, product(array.type.shape)
        flat = fun.Var(names.fresh("flat"), fun.Array(dtype, (count,)))
        written = fun.Var(names.fresh("flat"), fun.Array(dtype, (count,)))
        written_to = fun.LmadUpdate(flat, self.lmad.offset, self.lmad.dims, value)
        done += [
            fun.Let((flat,), fun.Reshape(array, (count,)), place),
            fun.Let((written,), written_to, place),
            fun.Let((result,), fun.Reshape(written, array.type.shape), place),
        ]
        return done, result


def aggregate(
    array: fun.Var, dims: Dims, rounds: Rounds, extent: Size, known: Knowledge,
    pairs: tuple[tuple[Size, Size], ...] = (),
) -> Aggregate | None:  # fmt: skip
    """The union of `dims` over the rounds of a loop; None where it is no LMAD.

    Requires that no two rounds have an element in common.

    Parameters
    ----------
    pairs : tuple of (Size, Size)
        Extents and strides, if a round writes an LMAD that begins at `dims`.
    """
    if any(not size.variables() <= rounds.outside for pair in pairs for size in pair):
        return None
    sizes = [
        size for dim in dims
        for size in ((dim.start, dim.extent) if isinstance(dim, fun.Span) else (dim,))
    ]  # fmt: skip
    if any(not size.variables() <= rounds.outside | {rounds.index} for size in sizes):
        return None
    if any(isinstance(d, fun.Span) and rounds.index in d.extent.variables() for d in dims):
        return None
    moving = [
        number for number, dim in enumerate(dims)
        if rounds.index in (dim.start if isinstance(dim, fun.Span) else dim).variables()
    ]  # fmt: skip
    if pairs:
        return _as_lmad(array, dims, rounds, extent, pairs)
    if len(moving) == 1 and not isinstance(dims[moving[0]], fun.Span):
        return _as_slice(array, dims, moving[0], rounds, extent, known)
    return _as_lmad(array, dims, rounds, extent)


def _as_slice(
    array: fun.Var, dims: Dims, axis: int, rounds: Rounds, extent: Size, known: Knowledge
) -> Aggregate | None:
    """c[j, 2*i + 1] => c[j, 1 : 2*n + 1 : 2]"""
    point = dims[axis]
    assert not isinstance(point, fun.Span)
    step = point.coefficient(rounds.index)
    if point.degree(rounds.index) != 1 or not step.is_constant or step.constant < 1:
        return _as_lmad(array, dims, rounds, extent)
    start = point.substitute({rounds.index: rounds.lower})
    assert isinstance(array.type, fun.Array)
    whole = array.type.shape[axis]
    if start == ZERO and step == 1 and known.equal(extent, whole):
        extent = whole
    span = fun.Span(start, extent, step.constant)
    new = (*dims[:axis], span, *dims[axis + 1 :])
    before = sum(1 for dim in dims[:axis] if isinstance(dim, fun.Span))
    count = 1 + sum(1 for dim in dims if isinstance(dim, fun.Span))
    axes = (*range(1, before + 1), 0, *range(before + 1, count))
    assert isinstance(array.type, fun.Array)
    return Aggregate(new, axes, None)


def _as_lmad(
    array: fun.Var, dims: Dims, rounds: Rounds, extent: Size,
    pairs: tuple[tuple[Size, Size], ...] = (),
) -> Aggregate | None:  # fmt: skip
    """c[i, i], c[i*m + j], c[i*m : i*m + m] => elements of the flat array"""
    assert isinstance(array.type, fun.Array)
    strides = Lmad.row_major(array.type.shape).strides
    offset: Size = ZERO
    inner: list[tuple[Size, Size]] = []
    for dim, stride in zip(dims, strides, strict=True):
        if isinstance(dim, fun.Span):
            offset = offset + dim.start * stride
            inner.append((dim.extent, stride * as_poly(dim.step)))
        else:
            offset = offset + dim * stride
    if offset.degree(rounds.index) != 1:
        return None
    step = offset.coefficient(rounds.index)
    start = offset.substitute({rounds.index: rounds.lower})
    pairs = ((extent, step), *inner, *pairs)
    return Aggregate(None, tuple(range(len(pairs))), Lmad(start, pairs))


def row_of(array: fun.Var, writes: Sequence[Dims], inside: Collection[str]) -> Dims | None:
    """The row that a round's writes keep to; None where they keep to none, or to an element.

    `inside`: names that the round itself binds, which say nothing about other rounds.
    """
    assert isinstance(array.type, fun.Array)
    first, *more = writes
    row: Dims = tuple(
        fun.Span(ZERO, extent)
        if isinstance(dim, fun.Span) or dim.variables() & set(inside)
        or any(other[axis] != dim for other in more)
        else dim
        for axis, (dim, extent) in enumerate(zip(first, array.type.shape, strict=True))
    )  # fmt: skip
    count = sum(isinstance(dim, fun.Span) for dim in row)
    return row if 0 < count < len(row) else None


def filled(space: tuple[fun.Range, ...], body: fun.Body) -> fun.Broadcast | None:
    """What all rounds write where they write one number, or arrays of it; None for other bodies."""
    if len(body.results) != 1:
        return None
    (value,) = body.results
    inner: tuple[Size, ...] = ()
    for let in body.statements:
        if not isinstance(let.expr, fun.Broadcast) or let.pattern != body.results:
            return None
        value, inner = let.expr.array, let.expr.shape
    if not isinstance(value, fun.Const):
        return None
    return fun.Broadcast(value, (*(r.extent for r in space), *inner))
