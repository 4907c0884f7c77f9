"""Index functions of layout changes: views where one LMAD expresses them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from weft.fun import nodes as fun
from weft.lmad import Lmad
from weft.mem.nodes import MemArray
from weft.sizes import ONE, ZERO, Poly, Size, product

Layout: TypeAlias = Literal["contiguous", "rows", "strided"]
"""As `weft.plan.segment.Layout`."""

_Pairs: TypeAlias = tuple[tuple[Size, Size], ...]


def of_parameter(name: str, shape: tuple[Size, ...], layout: Layout) -> Lmad:
    """The index function of an argument, with a size variable for each free stride."""
    if layout == "contiguous":
        return Lmad.row_major(shape)
    strides = [Poly.var(f"{name}.stride{d}") for d in range(len(shape))]
    if layout == "rows":
        strides[-1] = ONE
    return Lmad(ZERO, tuple(zip(shape, strides, strict=True)))


def slice_index(index: Lmad, dims: tuple[fun.Span | Size, ...]) -> Lmad:
    offset, kept = index.offset, []
    for dim, (_, stride) in zip(dims, index.dims, strict=True):
        if isinstance(dim, fun.Span):
            offset = offset + dim.start * stride
            kept.append((dim.extent, stride * dim.step))
        else:
            offset = offset + dim * stride
    return Lmad(offset, tuple(kept))


def lmad_slice(index: Lmad, offset: Size, dims: _Pairs) -> Lmad:
    ((_, unit),) = index.dims
    return Lmad(
        index.offset + offset * unit, tuple((extent, stride * unit) for extent, stride in dims)
    )


def permute(index: Lmad, axes: tuple[int, ...]) -> Lmad:
    return Lmad(index.offset, tuple(index.dims[axis] for axis in axes))


def unpermute(index: Lmad, axes: tuple[int, ...]) -> Lmad:
    """The index function whose `permute` by the axes is this one."""
    dims = dict(zip(axes, index.dims, strict=True))
    return Lmad(index.offset, tuple(dims[d] for d in range(len(axes))))


def broadcast(index: Lmad, shape: tuple[Size, ...]) -> Lmad:
    missing = len(shape) - len(index.dims)
    dims = [(extent, ZERO) for extent in shape[:missing]]
    for extent, (old, stride) in zip(shape[missing:], index.dims, strict=True):
        dims.append((extent, stride if old == extent else ZERO))
    return Lmad(index.offset, tuple(dims))


def fix(index: Lmad, indices: tuple[Size, ...]) -> Lmad:
    """The array at the given values of its first indices."""
    offset = index.offset
    for value, (_, stride) in zip(indices, index.dims, strict=False):
        offset = offset + value * stride
    return Lmad(offset, index.dims[len(indices) :])


def reshape(index: Lmad, shape: tuple[Size, ...]) -> Lmad | None:
    """The index function of another shape on the same memory, or None where no LMAD is.

    Dimensions that are contiguous with each other are merged, then split anew.
    """
    groups = _merged(index.dims)
    if len(groups) <= 1:  # one run of equal steps takes any shape
        stride = groups[0][1] if groups else ONE
        dims = Lmad.row_major(shape).dims
        return Lmad(index.offset, tuple((extent, step * stride) for extent, step in dims))
    dims_found: list[tuple[Size, Size]] = []
    rest = list(shape)
    for size, stride in groups:
        part: list[Size] = []
        while rest and (not part or product(part) != size):
            part.append(rest.pop(0))
        if product(part) != size:
            return None
        dims_found += [(e, s * stride) for e, s in Lmad.row_major(tuple(part)).dims]
    if any(extent != 1 for extent in rest):
        return None
    return Lmad(index.offset, (*dims_found, *((extent, ONE) for extent in rest)))


def _merged(dims: _Pairs) -> list[tuple[Size, Size]]:
    """The dimensions without units, neighbours that form one run of equal steps merged."""
    merged: list[tuple[Size, Size]] = []
    for extent, stride in dims:
        if extent == 1:
            continue
        if merged and merged[-1][1] == extent * stride:
            merged[-1] = (merged[-1][0] * extent, stride)
        else:
            merged.append((extent, stride))
    return merged


def same(left: MemArray, right: MemArray) -> bool:
    """Whether two arrays of one shape are the same memory, element by element."""
    if left.block != right.block or left.index.offset != right.index.offset:
        return False
    return all(
        a == b or extent == 1
        for extent, a, b in zip(left.shape, left.index.strides, right.index.strides, strict=True)
    )
