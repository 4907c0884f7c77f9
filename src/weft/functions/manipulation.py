"""Manipulation functions: layouts, joining, repeating."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import given_lengths, indexing, layout, lengths, operations
from weft.frontend.elementwise import as_dtype, common_dtype
from weft.frontend.elementwise import broadcast_shapes as _shapes
from weft.frontend.extent import Extent, literal, product
from weft.frontend.graph import Node, leading, make
from weft.frontend.guards import forget_guards, tracing
from weft.functions.arguments import array_node, axes_of, one_axis
from weft.functions.stencils import Rule, shifted

__all__ = [
    "broadcast_arrays", "broadcast_shapes", "broadcast_to", "concat", "expand_dims", "flip",
    "matrix_transpose", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze",
    "stack", "tile", "unstack",
]  # fmt: skip


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """x repeated to a shape."""
    wanted = tuple(literal(n) for n in (shape if isinstance(shape, tuple | list) else (shape,)))
    return Array(layout.broadcast(array_node(x), wanted))


def broadcast_arrays(*arrays: Any) -> tuple[Array, ...]:
    """Arrays repeated to their common shape."""
    nodes = [array_node(x) for x in arrays]
    shape = _shapes([x.shape for x in nodes], "broadcast_arrays") if nodes else ()
    return tuple(Array(layout.broadcast(x, shape)) for x in nodes)


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape to which arrays of these shapes broadcast."""
    if not shapes:
        return ()
    common = _shapes([tuple(extents.as_extent(n) for n in shape) for shape in shapes])
    forget_guards()
    return tuple(e if tracing() and not e.is_constant else e.value for e in common)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The same elements in row-major order in another shape, of which one may be -1.

    Raises
    ------
    ShapeError
        When the numbers of elements differ.
    """
    wanted = shape if isinstance(shape, tuple | list) else (shape,)
    return Array(layout.reshape(array_node(x), [literal(n) for n in wanted]))


def permute_dims(x: Any, /, axes: Sequence[int]) -> Array:
    """x with dimension axes[d] as its dimension d."""
    node = array_node(x)
    rank = len(node.shape)
    if not isinstance(axes, Iterable):
        raise ArgumentTypeError(f"axes {axes!r}", "a sequence of ints", place=user_place())
    order = tuple(one_axis(axis, rank) for axis in axes)
    if sorted(order) != list(range(rank)):
        raise ArgumentError(
            f"axes {tuple(axes)} of an array of {rank} dimensions", "each axis once",
            place=user_place(),
        )  # fmt: skip
    return Array(layout.permute(node, order))


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """x with axes moved to other places, the rest in order."""
    node = array_node(x)
    rank = len(node.shape)
    given = [a if isinstance(a, tuple | list) else (a,) for a in (source, destination)]
    sources, places = ([one_axis(a, rank) for a in axes] for axes in given)
    if (
        len(set(sources)) != len(sources)
        or len(set(places)) != len(places)
        or len(sources) != len(places)
    ):
        raise ArgumentError(
            f"moveaxis from {source} to {destination}", "as many different axes", place=user_place()
        )
    rest = iter(axis for axis in range(rank) if axis not in sources)
    moved = dict(zip(places, sources, strict=True))
    order = [moved[axis] if axis in moved else next(rest) for axis in range(rank)]
    return Array(layout.permute(node, order))


def matrix_transpose(x: Any, /) -> Array:
    """The last two dimensions exchanged."""
    node = array_node(x)
    rank = len(node.shape)
    if rank < 2:
        raise ShapeError(f"the transpose of {rank} dimensions", "2 or more", place=user_place())
    return Array(layout.permute(node, [*range(rank - 2), rank - 1, rank - 2]))


def expand_dims(x: Any, /, axis: Any) -> Array:
    """x with dimensions of one at axes of the result."""
    node = array_node(x)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    for place in sorted(axes_of(tuple(axes), len(node.shape) + len(axes))):
        node = layout.expand(node, place)
    return Array(node)


def squeeze(x: Any, /, axis: Any) -> Array:
    """x without dimensions of one.

    Raises
    ------
    ShapeError
        For an axis of another length.
    """
    node = array_node(x)
    axes = axes_of(axis, len(node.shape))
    for axis_ in axes:
        if not lengths.is_just(node.shape[axis_], 1):
            raise ShapeError(
                f"squeeze of axis {axis_} of shape {layout.values(node.shape)}", "a length of 1",
                place=user_place(),
            )  # fmt: skip
    return Array(layout.squeeze(node, axes))


def flip(x: Any, /, axis: Any = None) -> Array:
    """x with the order along axes (all by default) reversed."""
    node = array_node(x)
    for place in axes_of(axis, len(node.shape)):
        node = layout.flip(node, place)
    return Array(node)


def _joined(nodes: Sequence[Node], axis: int) -> Node:
    rank = len(nodes[0].shape)
    first = list(nodes[0].shape)
    total = nodes[0].shape[axis]
    for node in nodes[1:]:
        if len(node.shape) != rank or any(
            a != axis and not lengths.agree(node.shape[a], first[a]) for a in range(rank)
        ):
            forget_guards()
            raise ShapeError(
                f"shapes {layout.values(nodes[0].shape)} and {layout.values(node.shape)} joined "
                f"along axis {axis}",
                "shapes that are equal but for the axis",
                place=user_place(),
            )
        for a in range(rank):
            if a != axis:
                first[a] = extents.require_equal(first[a], node.shape[a])
        total = total + node.shape[axis]
    first[axis] = total
    kept = [node for node in nodes if node.shape[axis].poly != 0] or [nodes[0]]
    if len(kept) == 1:
        return kept[0]
    return make(operations.Concat(axis), tuple(kept), tuple(first), kept[0].dtype)


def _several(arrays: Any) -> list[Node]:
    """The arrays that are to be joined: one or more."""
    if not isinstance(arrays, Iterable):
        raise ArgumentTypeError(
            f"a {type(arrays).__name__} to join", "a sequence of arrays", place=user_place()
        )
    nodes = [array_node(x) for x in arrays]
    if not nodes:
        raise ArgumentError("no arrays to join", "one or more", place=user_place())
    return nodes


def concat(arrays: Any, /, axis: int | None = 0) -> Array:
    """Arrays joined along an axis (None: flattened first)."""
    nodes = _several(arrays)
    dtype = common_dtype(tuple(nodes))
    nodes = [as_dtype(x, dtype) for x in nodes]
    if axis is None:
        nodes = [layout.reshape(x, (product(x.shape),)) for x in nodes]
    return Array(_joined(nodes, one_axis(0 if axis is None else axis, len(nodes[0].shape))))


def stack(arrays: Any, /, axis: int = 0) -> Array:
    """Arrays of one shape joined along a new axis."""
    nodes = _several(arrays)
    dtype = common_dtype(tuple(nodes))
    place = one_axis(axis, len(nodes[0].shape) + 1)
    shape = nodes[0].shape
    for node in nodes[1:]:
        common = [lengths.one_length(*two) for two in zip(shape, node.shape, strict=False)]
        found = tuple(length for length in common if length is not None)
        if not len(found) == len(shape) == len(node.shape):
            raise ShapeError(
                f"shapes {layout.values(nodes[0].shape)} and {layout.values(node.shape)} stacked",
                "equal shapes",
                place=user_place(),
            )
        shape = found
    if any(extent.symbols for extent in shape):
        nodes = [leading(node, shape) for node in nodes]
    return Array(_joined([layout.expand(as_dtype(x, dtype), place) for x in nodes], place))


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The sub-arrays along an axis."""
    node = array_node(x)
    along = one_axis(axis, len(node.shape))
    count = operator.index(node.shape[along])
    return tuple(Array(layout.point(node, along, extents.literal(k))) for k in range(count))


def roll(x: Any, /, shift: Any, axis: Any = None) -> Array:
    """Elements moved along axes, those that leave coming back at the other end."""
    node = array_node(x)
    if axis is None:
        flat = layout.reshape(node, (product(node.shape),))
        moves = [(0, one) for one in _shifts(shift)]
        return Array(layout.reshape(_rolled(flat, moves), node.shape))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = _shifts(shift)
    if 1 in (len(axes), len(shifts)):  # as NumPy broadcasts them
        axes, shifts = tuple(axes) * len(shifts), tuple(shifts) * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(
            f"{len(shifts)} shifts of {len(axes)} axes", "as many", place=user_place()
        )
    places = [one_axis(place, len(node.shape)) for place in axes]
    return Array(_rolled(node, list(zip(places, shifts, strict=True))))


def _shifts(shift: Any) -> Sequence[Any]:
    """The numbers of a shift, which may be one, or an array of them."""
    if isinstance(shift, tuple | list):
        return shift
    if isinstance(shift, Array | np.ndarray) and shift.ndim == 1:
        return unstack(shift)
    return (shift,)


NEAR = 16  # elements: what comes back from the other end is computed one by one


def _rolled(node: Node, moves: list[tuple[int, Any]]) -> Node:
    """Short shifts that are known are one kernel, which fuses; others are slices, joined."""
    by = [0] * len(node.shape)
    others = []
    for axis, shift in moves:
        if isinstance(shift, int | np.integer) and -NEAR <= int(shift) <= NEAR:
            by[axis] += int(shift)
        else:
            others.append((axis, shift))
    if any(by):
        rules: tuple[Rule, ...] = tuple(("wrap", None) if amount else None for amount in by)
        node = shifted(node, by, node.shape, rules)
    for axis, shift in others:
        node = in_two_slices(node, axis, lambda extent: _shift(shift, extent))  # noqa: B023
    return node


def _shift(shift: Any, extent: Extent) -> Extent:
    """shift modulo the extent; no remainder where the shift is known to be less."""
    given = extents.traced(shift)
    if isinstance(given, Extent):
        return extents.remainder(given, extent)
    amount = extents.constant(extents.integer(shift))
    length = -amount if amount.value < 0 else amount
    if not extent.symbols and extent.value > length.value and extents.at_least(extent, length):
        return extent + amount if amount.value < 0 else amount
    return extents.remainder(literal(shift), extent)


def in_two_slices(node: Node, axis: int, shift: Callable[[Extent], Extent]) -> Node:
    """The elements of an axis moved by what is less than its length, round and round."""
    extent = node.shape[axis]
    if not extent.symbols and extent.value <= 1:
        return node
    by = shift(extent)
    if not by.symbols:
        if by.value == 0:
            extents.decide_equal(by, layout.ZERO)
            return node
        extents.at_least(by, layout.ONE)
    end = layout.take_slice(node, axis, extent - by, by)
    begin = layout.take_slice(node, axis, layout.ZERO, extent - by)
    return make(operations.Concat(axis), (end, begin), node.shape, node.dtype)


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Array:
    """Each element (or sub-array along an axis) several times in a row.

    An array of `repeats` is computed now: it decides the result's size.
    """
    node = array_node(x)
    if axis is None:
        node = layout.reshape(node, (product(node.shape),))
    along = one_axis(0 if axis is None else axis, len(node.shape))
    if isinstance(repeats, int | Extent):
        return Array(_repeated(node, given_lengths.as_length(repeats), along))
    counts = _counts(repeats)
    if counts.size and counts.dtype.kind not in "iu":
        raise ArgumentTypeError(f"repeats of {counts.dtype}", "integers", place=user_place())
    if counts.size and counts.min() < 0:
        raise ArgumentError(f"{counts.min()} repeats", "0 or more", place=user_place())
    if counts.ndim == 0 or counts.size == 1:
        return Array(_repeated(node, given_lengths.as_length(int(counts.reshape(()))), along))
    if counts.size != node.shape[along].value:
        raise ShapeError(
            f"{counts.size} repeats of {node.shape[along].value} elements", "as many",
            place=user_place(),
        )  # fmt: skip
    where = array_node(np.repeat(np.arange(counts.size), counts.astype(np.int64)))
    return Array(indexing.gather(node, [along], [where], along))


def _counts(repeats: Any) -> Any:
    return repeats._implicit("repeat()") if isinstance(repeats, Array) else np.asarray(repeats)


def _repeated(node: Node, count: Extent, axis: int) -> Node:
    shape = node.shape
    wide = layout.expand(node, axis + 1)
    repeated = layout.broadcast(wide, (*shape[: axis + 1], count, *shape[axis + 1 :]))
    return layout.reshape(repeated, (*shape[:axis], shape[axis] * count, *shape[axis + 1 :]))


def tile(x: Any, repetitions: Any, /) -> Array:
    """The whole array several times along each axis."""
    node = array_node(x)
    given = repetitions if isinstance(repetitions, tuple | list) else (repetitions,)
    counts = [given_lengths.as_length(n) for n in given]
    while len(counts) < len(node.shape):
        counts.insert(0, layout.ONE)
    while len(node.shape) < len(counts):
        node = layout.expand(node, 0)
    apart: list[Extent] = []
    wide: list[Extent] = []
    for count, extent in zip(counts, node.shape, strict=True):
        apart += [layout.ONE, extent]
        wide += [count, extent]
    shape = [count * extent for count, extent in zip(counts, node.shape, strict=True)]
    spread = layout.broadcast(layout.reshape(node, apart), tuple(wide))
    return Array(layout.reshape(spread, shape))
