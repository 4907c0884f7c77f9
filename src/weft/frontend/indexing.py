"""Indexing of nodes: what `x[key]`, `x[key] = v` and `x.at[key]` mean.

A key is resolved in two steps: a slice (ints, slices, new dimensions), and, where there are
index arrays, a gather from it. Masks are index arrays already (`weft.array` computes them).
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.errors import (
    ArgumentError,
    DTypeError,
    OutOfBoundsError,
    ShapeError,
    user_place,
)
from weft.frontend import graph, operations, symbolic
from weft.frontend.elementwise import apply, as_dtype, broadcast_shapes, scalar_node
from weft.frontend.extent import (
    Extent,
    constant,
    divide,
    literal,
    require_at_least,
    variable,
)
from weft.frontend.given_lengths import as_length
from weft.frontend.graph import Node, Shape, is_index, leading, make, size_scalar
from weft.frontend.guards import tracing
from weft.frontend.layout import (
    ONE,
    ZERO,
    broadcast,
    permute,
    reshape,
    same_shape,
    slice_bounds,
    values,
)
from weft.frontend.lengths import is_just, one_length
from weft.frontend.operations import MovingPoint, MovingSpan, Point, SliceDim, Span
from weft.ops.dtypes import DType
from weft.records import dataclass


@dataclass(slots=True)
class Basic:
    """The slice of a key: of an array of some shape, giving `shape` without new dimensions.

    `new`: the result's dimensions that the key adds, by position; `full` is the shape with them.
    """

    dims: tuple[SliceDim, ...]
    sizes: tuple[Extent, ...]
    scalars: tuple[Node, ...]
    shape: Shape
    full: Shape
    identity: bool


@dataclass(slots=True)
class Advanced:
    """The index arrays of a key, by axis of the basic result; `before` kept dimensions."""

    axes: tuple[int, ...]
    arrays: tuple[Node, ...]
    before: int


def expand_key(key: Any, rank: int) -> list[Any]:
    """The entries of a key, with `...` spelt out: one for each dimension, None, and booleans.

    Raises
    ------
    OutOfBoundsError
        When there are more entries than dimensions.
    """
    entries = list(key) if isinstance(key, tuple) else [key]
    ellipses = [n for n, entry in enumerate(entries) if entry is Ellipsis]
    if len(ellipses) > 1:
        raise OutOfBoundsError("an index with more than one '...'", "one", place=user_place())
    used = sum(1 for x in entries if not (x is None or x is Ellipsis or isinstance(x, bool)))
    if used > rank:
        raise OutOfBoundsError(
            f"{used} indices into an array of {rank} dimensions", f"{rank} or fewer",
            "as many indices as the array has dimensions, or reshape it before",
            place=user_place(),
        )  # fmt: skip
    at = ellipses[0] if ellipses else len(entries)
    entries[at : at + 1] = [slice(None)] * (rank - used)
    return entries


def resolve(key: Any, shape: Shape) -> tuple[Basic, Advanced | None]:
    """The slice and the gather that a key is. Index arrays in it are nodes of int dtypes."""
    entries = expand_key(key, len(shape))
    arrays = any(isinstance(x, bool) or (isinstance(x, Node) and x.shape) for x in entries)
    dims: list[SliceDim] = []
    sizes: list[Extent] = []
    scalars: list[Node] = []
    own: list[Extent] = []
    full: list[Extent] = []
    gathered: dict[int, Node] = {}
    positions: list[int] = []
    extents = iter(shape)
    axis = -1
    for number, entry in enumerate(entries):
        if entry is None:
            full.append(ONE)
            continue
        if isinstance(entry, bool):  # a mask without dimensions selects from a new one
            positions.append(number)
            gathered[len(full)] = broadcast(size_scalar(ZERO), (ONE if entry else ZERO,))
            full.append(ONE)
            continue
        extent = next(extents)
        axis += 1
        if isinstance(entry, slice):
            if isinstance(entry.start, Node) or isinstance(entry.stop, Node):
                _moving(entry, extent, dims, sizes, scalars, own)
            else:
                _slice(entry, extent, dims, sizes, own)
            full.append(own[-1])
        elif isinstance(entry, Node) and (arrays or entry.shape):
            _check_integer(entry)
            positions.append(number)
            gathered[len(full)] = _from_start(entry, extent)
            _slice(slice(None), extent, dims, sizes, own)
            full.append(extent)
        elif isinstance(entry, Node):
            _check_integer(entry)
            dims.append(MovingPoint())
            scalars.append(_from_start(entry, extent))
        elif arrays:
            positions.append(number)
            gathered[len(full)] = size_scalar(_position(entry, extent, axis))
            _slice(slice(None), extent, dims, sizes, own)
            full.append(extent)
        else:
            dims.append(Point())
            sizes.append(_position(entry, extent, axis))
    identity = all(
        isinstance(entry, slice) and entry == slice(None) for entry in entries if entry is not None
    )
    identity = identity or (arrays and all(
        isinstance(entry, Node | int | Extent) or entry == slice(None)
        for entry in entries if entry is not None
    ))  # fmt: skip
    basic = Basic(tuple(dims), tuple(sizes), tuple(scalars), tuple(own), tuple(full), identity)
    if not gathered:
        return basic, None
    adjacent = positions[-1] - positions[0] == len(positions) - 1
    before = min(gathered) if adjacent else 0
    return basic, Advanced(tuple(gathered), tuple(gathered.values()), before)


def _slice(
    entry: slice, extent: Extent, dims: list[SliceDim], sizes: list[Extent], own: list[Extent]
) -> None:
    if entry.start is None and entry.stop is None and entry.step is None:
        start, count, step = ZERO, extent, 1
    else:
        start, count, step = slice_bounds(entry, extent)
    dims.append(Span(step))
    sizes += [start, count]
    own.append(count)


def _moving(
    entry: slice,
    extent: Extent,
    dims: list[SliceDim],
    sizes: list[Extent],
    scalars: list[Node],
    own: list[Extent],
) -> None:
    """A slice between traced scalars.

    Where they are a known length apart, `x[k : k + 8]`, it has that length, and its start
    does not count from the end. Else they are clamped, as Python's are.
    """
    start, stop = (
        bound if bound is None else symbolic.extent_of(index_node(bound))
        for bound in (entry.start, entry.stop)
    )
    step = 1 if entry.step is None else operator.index(entry.step)
    length = None if stop is None else stop - (ZERO if start is None else start)
    if length is None or length.symbols or step < 1:
        _slice(slice(start, stop, step), extent, dims, sizes, own)
        return
    dims.append(MovingSpan(step))
    scalars.append(index_node(0 if entry.start is None else entry.start))
    length = as_length(length, "the length of a slice")
    sizes.append(length if step == 1 else divide(length + (step - 1), constant(step)))
    own.append(sizes[-1])


def _position(entry: Any, extent: Extent, axis: int) -> Extent:
    """An int index, counted from the start."""
    try:
        index = entry if isinstance(entry, Extent) else _index_literal(operator.index(entry))
    except TypeError:
        raise OutOfBoundsError(
            f"an index of type {type(entry).__name__}",
            "ints, slices, None, ..., and arrays of ints or booleans",
            place=user_place(),
        ) from None
    if index.symbols:
        return index  # as all indices of loops and kernels, checked when it is used
    position = index if index.is_nonnegative() else index + extent
    if position.symbols or extent.symbols:
        return position
    if not 0 <= position.value < extent.value:
        raise OutOfBoundsError(
            f"index {index.value} is out of bounds for axis {axis} with size {extent.value}",
            f"an index from {-extent.value} to {extent.value - 1}" if extent.value else "",
            place=user_place(),
        )
    require_at_least(extent, position + 1)
    return position


def _index_literal(index: int) -> Extent:
    """An index that the user wrote: outside traced functions a loop's, likely."""
    return literal(index) if tracing() or index < 2 else variable(index)


def _check_integer(node: Node) -> None:
    if not node.dtype.is_integer:
        raise _IndexDTypeError(
            f"an index array of {node.dtype.numpy}", "integers or booleans", place=user_place()
        )


class _IndexDTypeError(DTypeError, OutOfBoundsError):
    """An index of a dtype that does not index: NumPy raises IndexError."""


def _from_start(index: Node, extent: Extent) -> Node:
    """Indices counted from the start (those of index spaces are so already).

    In their own dtype where it holds the extent: more of them fit a vector.
    """
    dtype = index.dtype
    if not dtype.is_signed or (not index.shape and is_index(index)):
        return as_dtype(index, DType.I64)
    if not extent.is_constant or extent.value > np.iinfo(dtype.numpy).max:
        dtype = DType.I64
    own = as_dtype(index, dtype)
    zero = graph.scalar_constant(0, dtype)
    wrapped = apply("add", own, as_dtype(size_scalar(extent), dtype))
    return as_dtype(apply("where", apply("less", own, zero), wrapped, own), DType.I64)


# ---------------------------------------------------------------- reading


def get(node: Node, key: Any) -> Node:
    """node[key]."""
    basic, advanced = resolve(key, node.shape)
    result = _sliced(node, basic)
    if advanced is not None:
        result = gather(result, advanced.axes, advanced.arrays, advanced.before)
    return result


def _sliced(node: Node, basic: Basic) -> Node:
    result = node
    if not basic.identity:
        result = make(
            operations.Slice(basic.dims), (node, *basic.scalars), basic.shape, node.dtype,
            sizes=basic.sizes,
        )  # fmt: skip
    if len(basic.full) != len(basic.shape):
        result = make(operations.Reshape(), (result,), basic.full, node.dtype, sizes=basic.full)
    return result


def gather(node: Node, axes: Sequence[int], arrays: Sequence[Node], before: int) -> Node:
    """The elements of a node at index arrays of some axes.

    The result has `before` of the other dimensions, those of the index arrays (broadcast),
    then the rest of the others.
    """
    shape = broadcast_shapes([array.shape for array in arrays], "indexing")
    if not shape:
        where = [broadcast(reshape(array, ()), (ONE,)) for array in arrays]
        return reshape(gather(node, axes, where, before), _without(node, axes))
    kept = _without(node, axes)
    result = (*kept[:before], *shape, *kept[before:])
    operation = operations.Gather(tuple(axes), len(shape), before)
    return make(operation, (node, *arrays), result, node.dtype)


def _without(node: Node, axes: Sequence[int]) -> Shape:
    return tuple(extent for axis, extent in enumerate(node.shape) if axis not in axes)


# ---------------------------------------------------------------- updating


def put(node: Node, key: Any, value: Node, combine: str | None = None) -> Node:
    """The node with `value` (combined by a scalar operation with what is there) at a key."""
    if value.dtype.is_complex and not node.dtype.is_complex:
        raise DTypeError(
            f"{value.dtype.numpy} put into {node.dtype.numpy}", "real numbers",
            "wf.real(value), or a complex array", place=user_place(),
        )  # fmt: skip
    value = as_dtype(value, node.dtype)
    basic, advanced = resolve(key, node.shape)
    if advanced is not None:
        return _put_at_arrays(node, basic, advanced, value, combine)
    basic, value = _cut_alike(basic, value)
    value = _fitted(value, basic)
    if combine is not None:
        value = as_dtype(apply(combine, _sliced_shape(node, basic), value), node.dtype)
    if basic.identity:
        return (
            broadcast(value, node.shape) if value.shape or not node.shape else _filled(value, node)
        )
    return make(
        operations.Update(basic.dims), (node, value, *basic.scalars), node.shape, node.dtype,
        sizes=basic.sizes,
    )  # fmt: skip


def _filled(value: Node, node: Node) -> Node:
    return make(operations.Broadcast(), (value,), node.shape, node.dtype, sizes=node.shape)


def _sliced_shape(node: Node, basic: Basic) -> Node:
    """The slice without the key's new dimensions."""
    if basic.identity:
        return node
    return make(
        operations.Slice(basic.dims),
        (node, *basic.scalars),
        basic.shape,
        node.dtype,
        sizes=basic.sizes,
    )


def _cut_alike(basic: Basic, value: Node) -> tuple[Basic, Node]:
    """A slice and a value with lengths in common, where only the run knows that they have them."""
    if len(basic.full) != len(basic.shape) or len(value.shape) > len(basic.shape):
        return basic, value
    own, cut = list(value.shape), list(basic.shape)
    for axis in range(-len(own), 0):
        pair = own[axis], cut[axis]
        if any(extent.symbols for extent in pair) and not is_just(own[axis], 1):
            length = one_length(*pair)
            if length is not None and all(length.poly != extent.poly for extent in pair):
                own[axis] = cut[axis] = length
    shape = tuple(cut)
    if same_shape(shape, basic.shape):
        return basic, value
    lengths, counts = iter(cut), iter(basic.sizes)
    sizes: list[Extent] = []
    for dim in basic.dims:
        if isinstance(dim, Span | Point):
            sizes.append(next(counts))
        if isinstance(dim, Span | MovingSpan):
            next(counts)
            sizes.append(next(lengths))
    part = Basic(basic.dims, tuple(sizes), basic.scalars, shape, shape, identity=False)
    return part, leading(value, tuple(own))


def _fitted(value: Node, basic: Basic) -> Node:
    """A value of the slice's shape, without new dimensions; scalars stay scalars."""
    if not value.shape:
        return value
    while len(value.shape) > len(basic.full) and is_just(value.shape[0], 1):
        value = reshape(value, value.shape[1:])
    if len(value.shape) > len(basic.full):
        raise ShapeError(
            f"a value of shape {values(value.shape)} for a slice of shape {values(basic.full)}",
            "a shape that broadcasts to the slice's",
            "a slice of the value's shape, or reshape the value",
            place=user_place(),
        )
    fitted = broadcast(value, basic.full)
    return fitted if len(basic.full) == len(basic.shape) else reshape(fitted, basic.shape)


def _put_at_arrays(
    node: Node, basic: Basic, advanced: Advanced, value: Node, combine: str | None
) -> Node:
    if not basic.identity or len(basic.full) != len(basic.shape):
        return _put_through(node, basic, advanced, value, combine)
    rank = len(node.shape)
    kept = [axis for axis in range(rank) if axis not in advanced.axes]
    order = [*advanced.axes, *kept]
    shape = broadcast_shapes([array.shape for array in advanced.arrays], "indexing")
    where = [
        broadcast(array, shape) if len(advanced.arrays) > 1 else array for array in advanced.arrays
    ]
    if not shape:
        shape = (ONE,)
        where = [broadcast(array, shape) for array in where]
        value_shape = tuple(node.shape[axis] for axis in kept)
        value = (
            reshape(broadcast(value, value_shape), (ONE, *value_shape)) if value.shape else value
        )
    if value.shape:
        before = advanced.before
        rest = tuple(node.shape[axis] for axis in kept)
        shape, where, value = _indexed_alike(shape, where, value, len(rest) - before)
        value = broadcast(value, (*rest[:before], *shape, *rest[before:]))
        moved = range(before, before + len(shape))
        value = permute(value, [*moved, *(a for a in range(len(value.shape)) if a not in moved)])
    scattered = scatter(permute(node, order), where, value, shape, combine)
    return permute(scattered, [order.index(axis) for axis in range(rank)])


def _indexed_alike(
    shape: Shape, where: list[Node], value: Node, behind: int
) -> tuple[Shape, list[Node], Node]:
    """Indices and values with lengths in common, where only the run knows that they have them.

    `behind`: how many dimensions a value has after those of the indices.
    """
    own, cut = list(value.shape), list(shape)
    for axis in range(-len(cut), 0):
        if len(own) < behind - axis or is_just(own[axis - behind], 1):
            continue
        pair = own[axis - behind], cut[axis]
        if any(extent.symbols for extent in pair):
            length = one_length(*pair)
            if length is not None and any(length.poly != extent.poly for extent in pair):
                own[axis - behind] = cut[axis] = length
    if same_shape(tuple(cut), shape) and same_shape(tuple(own), value.shape):
        return shape, where, value
    shape = tuple(cut)
    return shape, [leading(array, shape) for array in where], leading(value, tuple(own))


def _put_through(
    node: Node, basic: Basic, advanced: Advanced, value: Node, combine: str | None
) -> Node:
    """Index arrays mixed with other slices: update the slice, and put it back."""
    part = _sliced(node, basic)
    inner = Basic(tuple(Span() for _ in part.shape), (), (), part.shape, part.shape, identity=True)
    part = _put_at_arrays(part, inner, advanced, value, combine)
    if len(basic.full) != len(basic.shape):
        part = reshape(part, basic.shape)
    if basic.identity:
        return part
    return make(
        operations.Update(basic.dims), (node, part, *basic.scalars), node.shape, node.dtype,
        sizes=basic.sizes,
    )  # fmt: skip


def scatter(
    node: Node, where: Sequence[Node], value: Node, shape: Shape, combine: str | None
) -> Node:
    """Values at index arrays (of one shape) of the first dimensions."""
    operation = operations.Scatter(1, len(shape), combine)
    inputs = (node, value, *where)
    return make(operation, inputs, node.shape, node.dtype, sizes=shape)


def index_node(value: Any) -> Node:
    """An int, extent or scalar node as an int64 index."""
    node = (
        value
        if isinstance(value, Node)
        else scalar_node(operator.index(value) if not isinstance(value, Extent) else value)
    )
    if node.shape or not node.dtype.is_integer:
        raise ArgumentError("an index that is no integer scalar", "an int", place=user_place())
    return as_dtype(node, DType.I64)
