"""Parts of layout changes and of updates, as views of what they look at."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder
from weft.sizes import ONE, ZERO, Size, product


def slice_of(builder: Builder, array: fun.Var, axis: int, start: Size, extent: Size) -> fun.Var:
    """A view of `extent` elements of one axis, from `start` on."""
    shape = walk.type_sizes(array.type)
    dims = tuple(
        fun.Span(start, extent) if d == axis else fun.Span(ZERO, old) for d, old in enumerate(shape)
    )
    return builder.let(fun.Slice(array, dims), _array(array, axis, extent), array.name)


def part_of_layout(
    builder: Builder, expr: fun.Expr, type_: fun.Array, axis: int, start: Size, extent: Size
) -> fun.Var:
    """The elements of a layout change, copy or concatenation along one axis of its result.

    Parameters
    ----------
    expr : fun.Expr
        Of type `type_`; a `Concat` along another axis than its own.
    start, extent : Size
        Of the part, along `axis`.
    """
    shape = (*type_.shape[:axis], extent, *type_.shape[axis + 1 :])
    new = fun.Array(type_.dtype, shape)
    match expr:
        case fun.Slice(array, dims):
            return builder.let(fun.Slice(array, _narrowed(dims, axis, start, extent)), new, "part")
        case fun.LmadSlice(array, offset, lmad_dims):
            moved, pairs = _narrowed_lmad(offset, lmad_dims, axis, start, extent)
            return builder.let(fun.LmadSlice(array, moved, pairs), new, "part")
        case fun.Permute(array, axes):
            part = slice_of(builder, array, axes[axis], start, extent)
            return builder.let(fun.Permute(part, axes), new, "part")
        case fun.Reshape(array, _):
            whole = fun.Array(type_.dtype, (product(type_.shape),))
            flat = array
            if walk.type_sizes(array.type) != whole.shape:
                flat = builder.let(fun.Reshape(array, whole.shape), whole, "flat")
            if axis == 0:  # rows that lie one after another need no strides
                # reshape(a, (n, ...)) => reshape(flat(a)[start * rest : ...], (extent, ...))
                rest = product(shape[1:])
                part = slice_of(builder, flat, 0, start * rest, extent * rest)
                return builder.let(fun.Reshape(part, shape), new, "part")
            # reshape(a, (n, m)) => flat(a)[start + {n : m, extent : 1}]
            strides = [product(type_.shape[d + 1 :]) for d in range(type_.rank)]
            rows = tuple(zip(type_.shape, strides, strict=True))
            moved, pairs = _narrowed_lmad(ZERO, rows, axis, start, extent)
            return builder.let(fun.LmadSlice(flat, moved, pairs), new, "part")
        case fun.Broadcast(atom, _):
            return builder.let(
                fun.Broadcast(_repeated(builder, atom, type_, axis, start, extent), shape),
                new, "part",
            )  # fmt: skip
        case fun.Copy(array):
            part = slice_of(builder, array, axis, start, extent)
            return builder.let(fun.Copy(part), new, "part")
        case fun.Concat(arrays, joined):
            parts = tuple(slice_of(builder, array, axis, start, extent) for array in arrays)
            return builder.let(fun.Concat(parts, joined), new, "part")
        case _:
            raise AssertionError(f"{type(expr).__name__} changes no layout")


def part_of_update(
    builder: Builder, expr: fun.Update | fun.LmadUpdate, axis: int, start: Size, extent: Size
) -> fun.Update | fun.LmadUpdate:
    """The update of a part: along one axis of the value."""
    part = expr.value
    if isinstance(part, fun.Var) and isinstance(part.type, fun.Array):
        part = slice_of(builder, part, axis, start, extent)
    match expr:
        case fun.Update(array, dims):
            return fun.Update(array, _narrowed(dims, axis, start, extent), part)
        case fun.LmadUpdate(array, offset, lmad_dims):
            moved, pairs = _narrowed_lmad(offset, lmad_dims, axis, start, extent)
            assert isinstance(part, fun.Var)
            return fun.LmadUpdate(array, moved, pairs, part)


def _array(var: fun.Var, axis: int, extent: Size) -> fun.Array:
    shape = walk.type_sizes(var.type)
    return fun.Array(var.type.dtype, (*shape[:axis], extent, *shape[axis + 1 :]))


def _narrowed(
    dims: tuple[fun.Span | Size, ...], axis: int, start: Size, extent: Size
) -> tuple[fun.Span | Size, ...]:
    """The slice with fewer elements of its `axis`-th span."""
    spans = [d for d, dim in enumerate(dims) if isinstance(dim, fun.Span)]
    old = dims[spans[axis]]
    assert isinstance(old, fun.Span)
    new = fun.Span(old.start + start * old.step, extent, old.step)
    return tuple(new if d == spans[axis] else dim for d, dim in enumerate(dims))


def _narrowed_lmad(
    offset: Size, dims: tuple[tuple[Size, Size], ...], axis: int, start: Size, extent: Size
) -> tuple[Size, tuple[tuple[Size, Size], ...]]:
    stride = dims[axis][1]
    return offset + start * stride, (*dims[:axis], (extent, stride), *dims[axis + 1 :])


def _repeated(
    builder: Builder, atom: fun.Atom, type_: fun.Array, axis: int, start: Size, extent: Size
) -> fun.Atom:
    """What a part of a broadcast repeats: less of the argument, where the axis is its own."""
    if not isinstance(atom, fun.Var) or not isinstance(atom.type, fun.Array):
        return atom
    own = axis - (type_.rank - atom.type.rank)
    if own < 0 or atom.type.shape[own] == ONE:
        return atom
    return slice_of(builder, atom, own, start, extent)
