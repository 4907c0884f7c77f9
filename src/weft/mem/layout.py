"""Index functions of arguments and of views."""

from __future__ import annotations

from typing import Literal, TypeAlias, assert_never

from weft.fun import nodes as fun
from weft.lmad import Lmad
from weft.mem.nodes import MemArray
from weft.sizes import ONE, ZERO, Poly, Size

Layout: TypeAlias = Literal["contiguous", "rows", "strided"]
"""As `weft.plan.segment.Layout`."""


def of_parameter(name: str, shape: tuple[Size, ...], layout: Layout) -> Lmad:
    """The index function of an argument, with a size variable for each free stride."""
    if layout == "contiguous":
        return Lmad.row_major(shape)
    strides = [Poly.var(f"{name}.stride{d}") for d in range(len(shape))]
    if layout == "rows":
        strides[-1] = ONE
    return Lmad(ZERO, tuple(zip(shape, strides, strict=True)))


def of_view(expr: fun.LayoutExpr, index: Lmad) -> Lmad | None:
    """The index function of a view of the array at `index`; None where no LMAD is one."""
    match expr:
        case fun.Slice(_, dims):
            return of_slice(dims, index)
        case fun.LmadSlice(_, offset, lmad_dims):
            return index.compose(offset, lmad_dims)
        case fun.Permute(_, axes):
            return index.permute(axes)
        case fun.Reshape(_, shape):
            return index.reshape(shape)
        case fun.Broadcast(_, shape):
            return index.broadcast(shape)
        case _:
            assert_never(expr)


def in_shape(memory: MemArray, shape: tuple[Size, ...]) -> MemArray | None:
    """An array's memory as that of one of another shape; None where no LMAD is that."""
    if shape == memory.shape:
        return memory
    index = memory.index.reshape(shape)
    return None if index is None else MemArray(memory.dtype, shape, memory.block, index)


def of_slice(dims: tuple[fun.Span | Size, ...], index: Lmad) -> Lmad:
    offset, kept = index.offset, []
    for dim, (_, stride) in zip(dims, index.dims, strict=True):
        if isinstance(dim, fun.Span):
            offset = offset + dim.start * stride
            kept.append((dim.extent, stride * dim.step))
        else:
            offset = offset + dim * stride
    return Lmad(offset, tuple(kept))


def of_part(index: Lmad, axis: int, start: Size, extent: Size) -> Lmad:
    """The index function of `extent` elements of one dimension, from `start` on."""
    dims = tuple(
        fun.Span(start, extent) if d == axis else fun.Span(ZERO, old)
        for d, old in enumerate(index.shape)
    )
    return of_slice(dims, index)


def of_update(expr: fun.Update | fun.LmadUpdate, index: Lmad) -> Lmad:
    """The index function of the elements that an update of the array at `index` changes."""
    if isinstance(expr, fun.Update):
        return of_slice(expr.dims, index)
    return index.compose(expr.offset, expr.dims)


def same(left: MemArray, right: MemArray) -> bool:
    """Whether two arrays are the same memory, element by element."""
    return left.block == right.block and left.rank == right.rank and left.index.same(right.index)
