"""Where arguments lie, and what slices of arrays are: index functions from FUN's terms."""

from __future__ import annotations

from typing import Literal, TypeAlias

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


def slice_index(index: Lmad, dims: tuple[fun.Span | Size, ...]) -> Lmad:
    """The index function of a slice."""
    offset, kept = index.offset, []
    for dim, (_, stride) in zip(dims, index.dims, strict=True):
        if isinstance(dim, fun.Span):
            offset = offset + dim.start * stride
            kept.append((dim.extent, stride * dim.step))
        else:
            offset = offset + dim * stride
    return Lmad(offset, tuple(kept))


def same(left: MemArray, right: MemArray) -> bool:
    """Whether two arrays of one shape are the same memory, element by element."""
    return left.block == right.block and left.index.same(right.index)
