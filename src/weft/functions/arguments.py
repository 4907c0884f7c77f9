"""What functions make of their arguments: nodes, dtypes, axes, shapes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from weft.array import Array, node_of
from weft.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    UnsupportedError,
    user_place,
)
from weft.frontend.elementwise import as_dtype, common_dtype, computed_in
from weft.frontend.extent import Extent, as_extent
from weft.frontend.given_lengths import as_length
from weft.frontend.graph import Node, size_scalar
from weft.frontend.layout import axis_number
from weft.ops.dtypes import DType, from_numpy

DEFAULT_FLOAT = DType.F64
DEFAULT_INTEGER = DType.I64


class NumPyOnlyError(UnsupportedError):
    """Arguments that a function of NumPy takes, but not Weft's: NumPy's calls NumPy computes."""


def array_node(value: Any) -> Node:
    """An array argument; a Python scalar becomes a scalar of its default dtype."""
    if isinstance(value, Array):
        return value._node
    return node_of(value)


def as_inexact(node: Node) -> Node:
    """Floats and complex numbers as they are, others as float64."""
    return node if node.dtype.kind in "fc" else as_dtype(node, DEFAULT_FLOAT)


def inexact(x: Any) -> Array:
    """An array argument of floats or complex numbers; others as float64."""
    return Array(as_inexact(array_node(x)))


def in_floats(*values: Any) -> list[Array]:
    """Arguments of an elementwise function of floats, in the dtype in which NumPy computes it."""
    nodes = tuple(map(node_of, values))
    dtype = computed_in("sqrt", common_dtype(nodes))
    return [Array(as_dtype(node, dtype)) for node in nodes]


def typed_inexact(x: Any, dtype: Any) -> Node:
    """An argument of floats or complex numbers: of a dtype, where one is asked for.

    Raises
    ------
    DTypeError
        For a dtype of integers or booleans, which means have not.
    """
    node = array_node(x)
    if dtype is None:
        return as_inexact(node)
    wanted = from_numpy(dtype)
    if wanted.kind not in "fc":
        raise DTypeError(
            f"dtype {wanted.numpy} of a mean or a variance", "floats or complex numbers",
            "astype afterwards", user_place(),
        )  # fmt: skip
    return as_dtype(node, wanted)


def dtype_of(dtype: Any, default: DType) -> DType:
    return default if dtype is None else from_numpy(dtype)


def check_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ArgumentError(f"device {device!r}", '"cpu"', place=user_place())


def length_of(extent: Any) -> Array:
    """A length as a number to compute with: an int64."""
    return Array(size_scalar(as_extent(extent)))


def axes_of(axis: Any, rank: int) -> tuple[int, ...]:
    """Axes counted from the start, in order; None is all of them.

    Raises
    ------
    ArgumentError
        For an axis that the array does not have, or one given twice.
    """
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    axes = tuple(one_axis(a, rank) for a in given)
    if len(set(axes)) != len(axes):
        raise ArgumentError(
            f"axes {axis}, of which some are equal", "each once", place=user_place()
        )
    return axes


def one_axis(axis: Any, rank: int) -> int:
    try:
        number = operator.index(axis)
    except TypeError:
        raise ArgumentTypeError(f"axis {axis!r}", "an int", place=user_place()) from None
    return axis_number(number, rank)


def shape_of(shape: Any) -> tuple[Extent, ...]:
    """A shape that the user gave: an int, or a sequence of them."""
    given: Sequence[Any] = shape if isinstance(shape, tuple | list) else (shape,)
    return tuple(as_length(n) for n in given)
