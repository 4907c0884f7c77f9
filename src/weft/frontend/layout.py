"""Layout changes of nodes: reshape, permute, broadcast, slice, and dimensions of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from weft.errors import ArgumentError, OutOfBoundsError, ShapeError, TracingError, user_place
from weft.frontend import operations
from weft.frontend.extent import (
    Extent,
    at_least,
    constant,
    decide_equal,
    divide,
    integer,
    literal,
    product,
    require_equal,
)
from weft.frontend.extent import values as values  # which is of layouts, too
from weft.frontend.graph import Node, Shape, make
from weft.frontend.guards import forget_guards
from weft.frontend.lengths import agree, is_just
from weft.frontend.operations import Span
from weft.frontend.symbolic import choose

ONE = constant(1)
ZERO = constant(0)


def axis_number(axis: int, rank: int) -> int:
    """An axis counted from the start.

    Raises
    ------
    OutOfBoundsError
        For an axis that the array does not have (it is a `ValueError` too, as NumPy's).
    """
    if not -rank <= axis < rank:
        raise AxisError(
            f"axis {axis} of an array of {rank} dimensions",
            f"an axis from {-rank} to {rank - 1}" if rank else "no axis",
            place=user_place(),
        )
    return axis + rank if axis < 0 else axis


class AxisError(OutOfBoundsError, ArgumentError):
    """An axis that the array does not have."""


def permute(node: Node, axes: Sequence[int]) -> Node:
    """Result dimension d is dimension axes[d]."""
    order = tuple(axes)
    if order == tuple(range(len(order))):
        return node
    return make(
        operations.Permute(order), (node,), tuple([node.shape[a] for a in order]), node.dtype
    )


def same_shape(left: Shape, right: Shape) -> bool:
    """Whether two shapes are equal for all sizes."""
    return len(left) == len(right) and all(
        a is b or a.poly == b.poly for a, b in zip(left, right, strict=True)
    )


def broadcast(node: Node, shape: Shape) -> Node:
    """The node repeated to a shape (of equal or higher rank).

    Raises
    ------
    ShapeError
        When the node's shape does not broadcast to it.
    """
    if same_shape(node.shape, shape):
        return node
    fits = len(node.shape) <= len(shape)
    aligned = shape[len(shape) - len(node.shape) :]
    for own, wanted in zip(node.shape, aligned, strict=False):
        if own.poly == wanted.poly:
            continue
        if is_just(own, 1) and not is_just(wanted, 1):
            decide_equal(own, ONE)
        elif agree(own, wanted):
            require_equal(own, wanted)
        else:
            fits = False
    if not fits:
        forget_guards()
        raise ShapeError(
            f"an array of shape {values(node.shape)} where {values(shape)} is needed",
            f"a shape that broadcasts to {values(shape)}",
            "slices of one shape, or a dimension of 1 where one repeats: x[:, None]",
            place=user_place(),
        )
    if len(node.shape) == len(shape) and values(node.shape) == values(shape):
        return node
    return make(operations.Broadcast(), (node,), shape, node.dtype, sizes=shape)


def reshape(node: Node, shape: Sequence[Extent]) -> Node:
    """The same elements in row-major order; at most one extent is -1.

    Raises
    ------
    ShapeError
        When the numbers of elements differ.
    """
    wanted = list(shape)
    unknown = [a for a, extent in enumerate(wanted) if not extent.symbols and extent.value == -1]
    total = product(node.shape)
    if len(unknown) == 1:
        rest = product(tuple(e for axis, e in enumerate(wanted) if axis != unknown[0]))
        known = not (total.symbols or rest.symbols)
        if known and (rest.value == 0 or total.value % rest.value):
            raise _misfit(node, wanted)
        wanted[unknown[0]] = quotient(node, wanted, unknown[0], total, rest)
    elif unknown or not all(extent.symbols or extent.value >= 0 for extent in wanted):
        raise _misfit(node, wanted)
    new = tuple(wanted)
    if same_shape(node.shape, new):
        return node
    count = product(new)
    if not agree(count, total):
        raise _misfit(node, wanted)
    require_equal(count, total)
    return make(operations.Reshape(), (node,), new, node.dtype, sizes=new)


def quotient(node: Node, wanted: Sequence[Extent], at: int, total: Extent, rest: Extent) -> Extent:
    """total / rest: by cancelling equal dimensions, else by dividing."""
    own = [extent for extent in node.shape if extent.poly != 1]
    for axis, extent in enumerate(wanted):
        if axis == at or extent.poly == 1:
            continue
        match = next((x for x in own if x.poly == extent.poly), None)
        if match is None:
            return divide(total, rest)
        own.remove(match)
    return product(tuple(own))


def _misfit(node: Node, wanted: Sequence[Extent]) -> ShapeError:
    forget_guards()
    return ShapeError(
        f"reshape of an array of shape {values(node.shape)} to {values(tuple(wanted))}",
        f"a shape of {product(node.shape)} elements",
        place=user_place(),
    )


def expand(node: Node, axis: int) -> Node:
    """A dimension of one at an axis of the result."""
    shape = (*node.shape[:axis], ONE, *node.shape[axis:])
    return make(operations.Reshape(), (node,), shape, node.dtype, sizes=shape)


def squeeze(node: Node, axes: Sequence[int]) -> Node:
    """Without dimensions of one."""
    for axis in axes:
        decide_equal(node.shape[axis], ONE)
    shape = tuple(e for axis, e in enumerate(node.shape) if axis not in axes)
    return make(operations.Reshape(), (node,), shape, node.dtype, sizes=shape) if axes else node


def take_slice(node: Node, axis: int, start: Extent, extent: Extent, step: int = 1) -> Node:
    """The elements start + k * step of one axis."""
    dims: list[operations.SliceDim] = []
    sizes: list[Extent] = []
    shape: list[Extent] = []
    for number, own in enumerate(node.shape):
        here = number == axis
        dims.append(Span(step if here else 1))
        sizes += [start, extent] if here else [ZERO, own]
        shape.append(extent if here else own)
    return make(
        operations.Slice(tuple(dims)), (node,), tuple(shape), node.dtype, sizes=tuple(sizes)
    )


def point(node: Node, axis: int, index: Extent) -> Node:
    """The sub-array at an index (inside) of one axis."""
    dims: list[operations.SliceDim] = []
    sizes: list[Extent] = []
    for number, own in enumerate(node.shape):
        if number == axis:
            dims.append(operations.Point())
            sizes.append(index)
        else:
            dims.append(Span())
            sizes += [ZERO, own]
    shape = (*node.shape[:axis], *node.shape[axis + 1 :])
    return make(operations.Slice(tuple(dims)), (node,), shape, node.dtype, sizes=tuple(sizes))


def flip(node: Node, axis: int) -> Node:
    extent = node.shape[axis]
    if not extent.symbols and extent.value == 0:
        return node
    return take_slice(node, axis, extent - 1, extent, -1)


def slice_bounds(key: slice, extent: Extent) -> tuple[Extent, Extent, int]:
    """Start, extent and step of a Python slice of a dimension."""
    step = 1 if key.step is None else integer(key.step)
    if step == 0:
        raise ArgumentError("a slice of step 0", "any other step", place=user_place())
    lowest, highest = (ZERO, extent) if step > 0 else (constant(-1), extent - 1)

    def bound(value: object, default: Extent) -> Extent:
        if value is None:
            return default
        position = literal(value)
        try:
            if at_least(position, ZERO):
                return limited("minimum", position, highest)
            return limited("maximum", position + extent, lowest)
        except TracingError:  # negative in some rounds only
            position = from_start(position, extent)
            return limited("minimum", limited("maximum", position, lowest), highest)

    start = bound(key.start, lowest if step > 0 else highest)
    stop = bound(key.stop, highest if step > 0 else lowest)
    reach = stop - start if step > 0 else start - stop
    if reach.symbols:
        reach = limited("maximum", reach, ZERO)
    elif not at_least(reach, ONE):
        return ZERO, ZERO, step
    stride = abs(step)
    if stride == 1:
        return start, reach, step
    if reach.is_constant:
        return start, constant(-(-reach.value // stride)), step
    return start, divide(reach + (stride - 1), constant(stride)), step


def from_start(index: Extent, extent: Extent) -> Extent:
    """An index that is negative in some rounds only, counted from the start: a scalar.

    i => i - extent * max(min(i, 0), -1)
    """
    wraps = choose("maximum", choose("minimum", index, ZERO), constant(-1))
    return index - extent * wraps  # type: ignore[no-any-return]


def limited(operation: Literal["minimum", "maximum"], position: Extent, limit: Extent) -> Extent:
    """The minimum or maximum of two extents: decided, or a scalar that the program computes."""
    difference: Extent = limit - position if operation == "minimum" else position - limit
    try:
        return position if difference.is_nonnegative() else limit
    except TracingError:  # it differs from round to round
        return choose(operation, position, limit)
