"""Lazy arrays over data: NumPy arrays, sources, scalars, nested lists."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from weft import execute
from weft.array.lazy import Array
from weft.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph, indexing, layout, operations, symbolic
from weft.frontend.elementwise import (
    IntegerRangeError,
    as_dtype,
    cast,
    python_value,
    scalar_node,
)
from weft.frontend.extent import Extent
from weft.frontend.graph import Node
from weft.frontend.guards import tracing
from weft.ops.dtypes import DType, from_numpy

_PYTHON_SCALARS = (bool, int, float, complex)


def source_array(source: Any) -> Array:
    """A lazy array over a source: anything with `shape` and `dtype` that `execute` reads."""
    dtype = from_numpy(source.dtype)
    shape = tuple([extents.variable(int(n)) for n in source.shape])
    return Array(graph.leaf(source, shape, dtype))


def asarray(
    obj: Any, /, dtype: Any = None, *, device: str | None = None, copy: bool | None = None
) -> Array:
    """A lazy array over data: nothing is copied (unless `copy`) and nothing is read yet.

    Parameters
    ----------
    obj : weft.Array, numpy.ndarray, source, scalar, sequence, or object with DLPack
    dtype : dtype, optional
    device : "cpu", optional
    copy : bool, optional
        True takes a snapshot: later changes of `obj` are not seen. False never copies.

    Raises
    ------
    DTypeError
        For data of a dtype that Weft does not have.
    """
    if device not in (None, "cpu"):
        raise ArgumentError(f"device {device!r}", '"cpu"', place=user_place())
    if isinstance(obj, Array) and not (copy or obj._node.weak) and dtype in (None, obj.dtype):
        return obj
    array = _as_array(obj, dtype, copy)
    if dtype is not None and array._node.dtype is not from_numpy(dtype):
        if copy is False:
            raise ArgumentError("another dtype without a copy", "copy=None", place=user_place())
        array = Array(as_dtype(array._node, from_numpy(dtype)))
    return array


def _as_array(obj: Any, dtype: Any, copy: bool | None) -> Array:
    if isinstance(obj, Array):
        node = obj._node
        return Array(strong(node, node.dtype) if node.weak else node)
    if isinstance(obj, np.ndarray):
        if obj.dtype == object:  # NumPy's array of lengths, as np.array([x.shape[0] - 1, 0])
            return _as_array(obj.tolist(), dtype, copy)
        return _over(_native(obj, copy))
    if isinstance(obj, (*_PYTHON_SCALARS, np.generic, Extent)):
        if copy is False:
            raise ArgumentError("a Python scalar without a copy", "copy=None", place=user_place())
        if not (tracing() or isinstance(obj, Extent)):
            return _from_sequence(obj, dtype)  # data: no part of the program
        node = scalar_node(obj)
        wanted = from_numpy(dtype) if dtype is not None else node.dtype
        return Array(strong(node, wanted))
    if isinstance(obj, list | tuple):
        if copy is False:
            raise ArgumentError("a sequence without a copy", "copy=None", place=user_place())
        return _from_sequence(obj, dtype)
    if hasattr(obj, "__dlpack__"):
        return _over(np.array(np.from_dlpack(obj)) if copy else np.from_dlpack(obj))
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        return _over(np.array(obj, copy=copy))
    if hasattr(obj, "shape") and hasattr(obj, "dtype") and hasattr(obj, "__getitem__"):
        return source_array(execute.as_source(obj))
    try:
        return _over(np.asarray(obj))  # buffers
    except DTypeError:
        raise ArgumentTypeError(
            f"a {type(obj).__name__} is not an array",
            "an array, a number, or nested lists of them",
            "wf.open(path), which reads files" if isinstance(obj, str | os.PathLike) else "",
            user_place(),
        ) from None  # fmt: skip


def strong(node: Node, dtype: DType) -> Node:
    """A scalar of a dtype of its own, no longer weak."""
    value = python_value(node)
    if isinstance(value, int):
        return cast(node, dtype)
    if value is not None and dtype.is_integer:
        value = np.asarray(value).astype(dtype.numpy).item()
        return graph.scalar_constant(value, dtype)
    if isinstance(node.operation, operations.Constant):
        return (
            graph.scalar_constant(node.operation.const.value, dtype)
            if value is not None
            else as_dtype(node, dtype)
        )
    if node.dtype is not dtype:
        return as_dtype(node, dtype)
    if node.inputs or node.sizes:  # the same operation, so that an index stays one
        return graph.make(node.operation, node.inputs, node.shape, dtype, node.sizes)
    if graph.is_index(node):
        return graph.size_scalar(symbolic.extent_of(node))
    return cast(node, dtype)


def refuse_masked(array: npt.NDArray[Any]) -> None:
    """Masks would be lost in silence."""
    if type(array) is not np.ndarray and np.ma.is_masked(array):
        raise ArgumentTypeError(
            "a masked array",
            "an array without masked elements",
            "x.filled(numpy.nan) and the nan reductions, or wf.where with the mask",
            place=user_place(),
        )


def _native(array: npt.NDArray[Any], copy: bool | None) -> npt.NDArray[Any]:
    refuse_masked(array)
    if copy:
        return np.array(array, order="C")
    if not array.dtype.isnative:
        return array.astype(array.dtype.newbyteorder("="))
    return array


def order_of_rows(array: npt.NDArray[Any]) -> tuple[int, ...] | None:
    """The axes in the order in which an array lies row by row, as one in Fortran's order does.

    None where it does so as it is, or where neighbours in memory are neighbours along no axis.
    """
    strides = array.strides
    if array.flags.c_contiguous or len(strides) < 2 or strides[-1] == array.itemsize:
        return None
    if array.itemsize not in strides or min(strides) <= 0 or min(array.shape) < 2:
        return None
    return tuple(sorted(range(len(strides)), key=lambda axis: -strides[axis]))


def turned_back(base: Node, order: Sequence[int]) -> Array:
    """An array of which `base` has the axes in another order."""
    return Array(layout.permute(base, [order.index(axis) for axis in range(len(order))]))


def _over(array: npt.NDArray[Any]) -> Array:
    """A lazy array over memory: row by row, whichever way that is."""
    dtype = from_numpy(array.dtype)
    if not array.shape:
        return Array(graph.leaf(array, (), dtype))
    order = order_of_rows(array)
    if order is not None:
        return turned_back(_over(array.transpose(order))._node, order)
    return Array(graph.leaf(array, tuple([extents.variable(n) for n in array.shape]), dtype))


def _from_sequence(obj: Any, dtype: Any) -> Array:
    if _holds_arrays(obj):
        from weft import functions

        return functions.stack([_as_array(x, dtype, None) for x in obj])
    try:
        values = np.asarray(obj, dtype=None if dtype is None else from_numpy(dtype).numpy)
    except OverflowError as error:
        raise IntegerRangeError(str(error), advice="a wider dtype", place=user_place()) from None
    except (ValueError, TypeError) as error:
        raise ShapeError(f"nested lists that are no array: {error}", place=user_place()) from None
    if values.dtype == object:
        raise DTypeError("lists of objects", "lists of numbers", place=user_place())
    return _over(values)


def _holds_arrays(obj: Any) -> bool:
    """Whether lists nest lazy arrays, or sizes of a function being traced."""
    if isinstance(obj, list | tuple):
        return any(map(_holds_arrays, obj))
    return isinstance(obj, Array | Extent)


def node_of(value: Any) -> Node:
    """An operand as a node: arrays of any kind, Python scalars (weak), nested lists."""
    if isinstance(value, Array):
        return value._node
    if isinstance(value, _PYTHON_SCALARS):
        if tracing() or _is_small(value):
            return scalar_node(value)
        weak = scalar_node(value)
        return graph.leaf(value, (), weak.dtype, weak=True)
    if isinstance(value, np.generic | Extent):
        return scalar_node(value)
    return _as_array(value, None, None)._node


def _is_small(value: Any) -> bool:
    """Whether a Python scalar is part of the program, rather than data that may change."""
    if isinstance(value, complex):
        return False
    if isinstance(value, float):
        return (
            value != value
            or value in (np.inf, -np.inf)
            or (abs(value) <= 16 and value * 4 == int(value * 4))
        )
    return bool(-16 <= value <= 16)


def _scalar_of(extent: Extent) -> Array:
    return Array(scalar_node(extent))


extents.scalar_of = _scalar_of


def _extent_of(value: Any) -> Extent | None:
    """The extent that a scalar of a function being traced is."""
    if not isinstance(value, Array) or not value._node.abstract or not tracing():
        return None
    if value._node.shape or not value._node.dtype.is_integer:
        return None
    return symbolic.extent_of(indexing.index_node(value._node))


extents.extent_of = _extent_of


def data_of(node: Node) -> Any:
    """What of an array is pickled: its source, or its values."""
    if isinstance(node.operation, operations.Leaf) and not node.abstract:
        return node.value
    return Array(node).numpy()


def over_data(value: Any) -> Array:
    """The array of pickled data."""
    return _over(value) if isinstance(value, np.ndarray) else source_array(value)
