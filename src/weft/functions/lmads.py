"""LMADs by hand: views of flat arrays as offset + {(size : stride), ...}."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.array import Array, node_of
from weft.errors import ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import given_lengths, indexing, layout, operations
from weft.frontend.elementwise import apply, as_dtype
from weft.frontend.graph import Node, Shape, make
from weft.functions.arguments import array_node, axes_of
from weft.lmad import exact  # weft.lmad is loaded first: the function takes its name

__all__ = ["lmad", "sliding_window_view"]


def lmad(x: Any, offset: Any, dims: Sequence[tuple[Any, Any]], /) -> Array:
    """The elements offset + i * stride + ... of a flat array, as an array.

    Elements may occur more than once, as in overlapping windows: [(n - 2, 1), (3, 1)].

    Parameters
    ----------
    x : array_like
        Of one dimension.
    offset : int or integer scalar
    dims : sequence of (size, stride)
        Ints or integer scalars. A size that is a scalar differs from round to round.

    Raises
    ------
    OutOfBoundsError
        When it is computed, where the LMAD leaves the array.
    """
    node = _flat(array_node(x))
    inputs, shape = _parts(offset, dims)
    if not shape:
        return Array(indexing.get(node, inputs[0]))
    operation = operations.LmadSlice(len(shape))
    return Array(make(operation, (node, *inputs), shape, node.dtype, sizes=shape))


def sliding_window_view(x: Any, window_shape: Any, axis: Any = None) -> Array:
    """All windows of a shape in an array: NumPy's `lib.stride_tricks.sliding_window_view`.

    Parameters
    ----------
    x : array
    window_shape : int or tuple of int
    axis : int or tuple of int, optional
        Those along which windows slide; all of them by default.

    Returns
    -------
    Array
        First where each window begins, then what is in it.

    Raises
    ------
    ShapeError
        For windows of other axes, and for those that do not fit.
    """
    node = array_node(x)
    window = window_shape if isinstance(window_shape, tuple | list) else (window_shape,)
    axes = axes_of(axis, len(node.shape))
    if len(window) != len(axes):
        raise ShapeError(
            f"windows of {len(window)} dimensions along {len(axes)} axes", "as many",
            place=user_place(),
        )  # fmt: skip
    strides = [extents.product(node.shape[k + 1 :]) for k in range(len(node.shape))]
    begins = list(node.shape)
    for length, along in zip(map(given_lengths.as_length, window), axes, strict=True):
        if not extents.at_least(begins[along], length):
            raise ShapeError(
                f"windows of {length.value} elements in {begins[along].value}", "fewer",
                place=user_place(),
            )  # fmt: skip
        begins[along] = begins[along] - length + 1
    inside = [(length, strides[along]) for length, along in zip(window, axes, strict=True)]
    flat = layout.reshape(node, (extents.product(node.shape),))
    return lmad(Array(flat), 0, [*zip(begins, strides, strict=True), *inside])


def _flat(node: Node) -> Node:
    if len(node.shape) != 1:
        raise ShapeError(
            f"an LMAD of an array of shape {layout.values(node.shape)}", "one dimension",
            "x.reshape(-1)", place=user_place(),
        )  # fmt: skip
    return node


def _parts(offset: Any, dims: Sequence[tuple[Any, Any]]) -> tuple[tuple[Node, ...], Shape]:
    """Offset and strides as scalars, and the shape."""
    scalars = [_scalar(offset)]
    shape = []
    for size, stride in dims:
        shape.append(given_lengths.as_length(size))
        scalars.append(_scalar(stride))
    return tuple(scalars), tuple(shape)


def _scalar(value: Any) -> Node:
    if isinstance(value, Array):
        return indexing.index_node(value._node)
    return indexing.index_node(extents.literal(value))


class AtLmad:
    """`x.at_lmad(offset, dims)`: the array with something done at an LMAD, as a new array.

    Raises
    ------
    ArgumentError
        Where the LMAD meets an element twice: at once where it is known, else when it is
        computed.
    OutOfBoundsError
        When it is computed, where the LMAD leaves the array.
    """

    __slots__ = ("_array", "_dims", "_offset")

    def __init__(self, array: Array, offset: Any, dims: Sequence[tuple[Any, Any]]) -> None:
        self._array = array
        self._offset = offset
        self._dims = dims

    def get(self) -> Array:
        return lmad(self._array, self._offset, self._dims)

    def set(self, value: Any) -> Array:
        node = _flat(self._array._node)
        self._refuse_collision()
        inputs, shape = _parts(self._offset, self._dims)
        new = as_dtype(node_of(value), node.dtype)
        if not shape:
            return Array(indexing.put(node, inputs[0], new))
        new = layout.broadcast(new, shape)
        return Array(
            make(
                operations.LmadUpdate(len(shape)),
                (node, new, *inputs),
                node.shape,
                node.dtype,
                sizes=shape,
            )
        )

    def _refuse_collision(self) -> None:
        """What is known now is refused now, at the user's line."""
        sizes = [self._offset, *(size for dim in self._dims for size in dim)]
        if any(isinstance(size, Array) for size in sizes):
            return
        offset, *numbers = (extents.literal(size).value for size in sizes)
        dims = tuple(zip(numbers[::2], numbers[1::2], strict=True))
        exact.refuse_collision(offset, dims, "x", user_place())

    def add(self, value: Any) -> Array:
        return self.set(Array(apply("add", self.get()._node, node_of(value))))

    def multiply(self, value: Any) -> Array:
        return self.set(Array(apply("multiply", self.get()._node, node_of(value))))
