"""Creation functions."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

from weft.array import Array, asarray, node_of, strong
from weft.errors import ArgumentError, ArgumentTypeError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import given_lengths, graph, indexing, layout, operations
from weft.frontend.elementwise import apply, as_dtype, broadcast_shapes
from weft.frontend.extent import Extent, constant
from weft.frontend.graph import Node, make
from weft.functions.arguments import array_node, as_inexact, check_device, dtype_of, shape_of
from weft.ops.dtypes import DType, from_numpy
from weft.ops.promotion import promote

__all__ = [
    "arange", "array", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like",
    "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def iota(shape: tuple[Extent, ...], axis: int) -> Node:
    """At each element its index along an axis."""
    return make(operations.Iota(axis), (), shape, DType.I64, sizes=shape)


def filled(value: Node, shape: tuple[Extent, ...]) -> Node:
    """A scalar repeated to a shape."""
    if not shape:
        return value
    return make(operations.Broadcast(), (value,), shape, value.dtype, sizes=shape)


def array(obj: Any, /, dtype: Any = None, *, copy: bool | None = True) -> Array:
    """A lazy array with a copy of data, as NumPy's `array`; `asarray` copies nothing."""
    return asarray(obj, dtype=dtype, copy=copy)


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of one value."""
    check_device(device)
    value = node_of(fill_value)
    if value.shape:
        raise ShapeError("a fill value with dimensions", "a scalar", place=user_place())
    if dtype is None and not value.weak:
        return Array(filled(value, shape_of(shape)))
    return Array(filled(strong(value, dtype_of(dtype, value.dtype)), shape_of(shape)))


def _constant(shape: Any, value: int, dtype: Any) -> Array:
    return Array(filled(graph.scalar_constant(value, dtype_of(dtype, DType.F64)), shape_of(shape)))


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of zeros, float64 unless `dtype` says otherwise."""
    check_device(device)
    return _constant(shape, 0, dtype)


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of ones, float64 unless `dtype` says otherwise."""
    check_device(device)
    return _constant(shape, 1, dtype)


def empty(shape: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of no values yet: what is read before it is written is whatever is there.

    Where all of it is written (`x.at[i].set(v)`, in loops too), nothing is filled before.
    """
    check_device(device)
    return Array(_unfilled(shape_of(shape), dtype_of(dtype, DType.F64)))


def _unfilled(shape: tuple[Extent, ...], dtype: DType) -> Node:
    if not shape:
        return graph.scalar_constant(0, dtype)
    return make(operations.Empty(dtype), (), shape, dtype, sizes=shape)


def _like(x: Any, value: Any, dtype: Any, device: Any) -> Array:
    check_device(device)
    node = array_node(x)
    wanted = dtype_of(dtype, node.dtype)
    return Array(filled(strong(node_of(value), wanted), node.shape))


def zeros_like(x: Any, /, dtype: Any = None, *, device: Any = None) -> Array:
    """Zeros of the shape and dtype of `x`."""
    return _like(x, 0, dtype, device)


def ones_like(x: Any, /, dtype: Any = None, *, device: Any = None) -> Array:
    """Ones of the shape and dtype of `x`."""
    return _like(x, 1, dtype, device)


def empty_like(x: Any, /, dtype: Any = None, *, device: Any = None) -> Array:
    """An array of the shape and dtype of `x`, of no values yet, as `empty`."""
    check_device(device)
    node = array_node(x)
    return Array(_unfilled(node.shape, dtype_of(dtype, node.dtype)))


def full_like(x: Any, /, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Array:
    """One value in the shape and dtype of `x`."""
    return _like(x, fill_value, dtype, device)


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: Any = None
) -> Array:
    """start, start + step, ... before stop.

    Raises
    ------
    ArgumentError
        For a step of 0.
    """
    check_device(device)
    if stop is None:
        start, stop = 0, start
    numbers = start, stop, step = extents.traced(start), extents.traced(stop), step
    if not isinstance(step, Array) and step == 0:
        raise ArgumentError("arange with a step of 0", "any other step", place=user_place())
    whole = all(isinstance(n, builtins.int | np.integer | Extent) for n in numbers)
    if not whole:
        _require_finite(numbers)
    wanted = dtype_of(dtype, DType.I64 if whole else DType.F64)
    count = _arange_count(start, stop, step, whole)
    index = iota((count,), 0)
    computed = _computed_in(wanted, whole)
    first, second = (as_dtype(node_of(_plain(n)), computed) for n in (start, start + step))
    by = apply("subtract", second, first)  # as NumPy's, which is rounded, but for the second value
    values = apply("add", first, apply("multiply", as_dtype(index, computed), by))
    if not whole:
        values = apply("where", apply("equal", index, node_of(1)), second, values)
    return Array(as_dtype(values, wanted))


def _computed_in(wanted: DType, whole: bool) -> DType:
    """The dtype in which NumPy adds up steps, as far as that makes a difference."""
    if wanted is DType.F32:
        return wanted
    return DType.I64 if wanted.is_integer or (whole and not wanted.is_complex) else DType.F64


def _require_finite(numbers: Any) -> None:
    """Refuse ends and steps between which there is no number of values."""
    for number in numbers:
        if isinstance(number, Array) and not number.ndim and number.dtype.kind in "iuf":
            continue  # only the run knows
        try:
            finite = math.isfinite(number)
        except (TypeError, ValueError, OverflowError):
            raise ArgumentTypeError(
                f"arange of {number!r}", "real numbers", place=user_place()
            ) from None
        if not finite:
            raise ArgumentError(f"arange of {number}", "finite numbers", place=user_place())


def _plain(number: Any) -> Any:
    return number.item() if isinstance(number, np.generic) else number


def _arange_count(start: Any, stop: Any, step: Any, whole: bool) -> Extent:
    if whole and (isinstance(start, Extent) or isinstance(stop, Extent)):
        step = int(step)
        reach = extents.as_extent(stop) - start if step > 0 else extents.as_extent(start) - stop
        if reach.symbols:
            reach = given_lengths.measured(reach)
        if reach.symbols:
            reach = layout.limited("maximum", reach, constant(0))
        elif not extents.at_least(reach, constant(1)):
            return constant(0)
        if abs(step) == 1:
            return reach  # type: ignore[no-any-return]
        return extents.divide(reach + (abs(step) - 1), constant(abs(step)))
    if any(isinstance(number, Array) for number in (start, stop, step)):
        steps = apply("ceil", as_inexact(node_of((stop - start) / step)))
        steps = apply("maximum", as_dtype(steps, DType.I64), node_of(0))
        return given_lengths.as_length(Array(steps))
    if whole:
        distance = int(stop) - int(start) if step > 0 else int(start) - int(stop)
        count = max(0, -(-distance // abs(int(step))))
    else:
        count = max(0, math.ceil((float(stop) - float(start)) / float(step)))
    return given_lengths.as_length(count)


def linspace(
    start: Any, stop: Any, /, num: Any = 50, *, dtype: Any = None, device: Any = None,
    endpoint: bool = True,
) -> Array:  # fmt: skip
    """`num` evenly spaced values from start to stop.

    Parameters
    ----------
    start, stop : number, or arrays of them
        Which broadcast; values lie along a new first axis then.
    num : int
    dtype : dtype, optional
        That of the ends by default, float64 for Python's numbers and integers.
    device : "cpu", optional
    endpoint : bool
        Whether `stop` is the last value; if not, it is the one after.
    """
    check_device(device)
    count = given_lengths.as_length(num)
    ends = node_of(start), node_of(stop)
    complexes = any(end.dtype.is_complex for end in ends)
    wanted = dtype_of(dtype, promote(*(as_inexact(end).dtype for end in ends)))
    computed = DType.C128 if complexes or wanted.is_complex else DType.F64
    first, last = (as_dtype(end, computed) for end in ends)
    shape = broadcast_shapes([first.shape, last.shape], "linspace")
    index = layout.reshape(iota((count,), 0), (count, *[layout.ONE] * len(shape)))
    steps = count - 1 if endpoint else count
    if steps.value <= 0:
        return Array(as_dtype(layout.broadcast(first, (count, *shape)), wanted))
    divisor = as_dtype(graph.size_scalar(steps), computed)
    by = apply("divide", apply("subtract", last, first), divisor)
    values = apply("add", apply("multiply", as_dtype(index, computed), by), first)
    if endpoint:  # exactly `stop`, whatever the rounding
        at_end = apply("equal", index, graph.size_scalar(steps))
        values = apply("where", at_end, last, values)
    if wanted.is_integer:
        values = apply("floor", values)
    return Array(as_dtype(values, wanted))


def eye(
    n_rows: Any, n_cols: Any = None, /, k: int = 0, dtype: Any = None, *, device: Any = None
) -> Array:
    """Ones on diagonal k, zeros elsewhere."""
    check_device(device)
    rows = given_lengths.as_length(n_rows)
    shape = (rows, rows if n_cols is None else given_lengths.as_length(n_cols))
    number = graph.scalar_constant(extents.integer(k), DType.I64)
    on_diagonal = apply("equal", _diagonal(shape), number)
    return Array(as_dtype(on_diagonal, dtype_of(dtype, DType.F64)))


def _diagonal(shape: tuple[Extent, ...]) -> Node:
    """Column minus row, of the last two dimensions."""
    rank = len(shape)
    return apply("subtract", iota(shape, rank - 1), iota(shape, rank - 2))


def _triangle(x: Any, k: Any, comparison: str) -> Array:
    node = array_node(x)
    if len(node.shape) < 2:
        raise ShapeError(
            f"a triangle of an array of {len(node.shape)} dimensions", "2 or more",
            place=user_place(),
        )  # fmt: skip
    kept = apply(comparison, _diagonal(node.shape[-2:]), indexing.index_node(extents.literal(k)))
    return Array(apply("where", kept, node, graph.scalar_constant(0, node.dtype)))


def tril(x: Any, /, k: int = 0) -> Array:
    """The part on and below diagonal k; zeros above."""
    return _triangle(x, k, "less_equal")


def triu(x: Any, /, k: int = 0) -> Array:
    """The part on and above diagonal k; zeros below."""
    return _triangle(x, k, "greater_equal")


def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinate arrays of coordinate vectors; of other arrays, as if they were flat."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing {indexing!r}", '"xy" or "ij"', place=user_place())
    nodes = [array_node(x) for x in arrays]
    nodes = [layout.reshape(x, (extents.product(x.shape),)) for x in nodes]
    swap = indexing == "xy" and len(nodes) > 1
    order = list(range(len(nodes)))
    if swap:
        order[0], order[1] = 1, 0
    shape = tuple(nodes[order.index(axis)].shape[0] for axis in range(len(nodes)))
    grids = []
    for number, node in enumerate(nodes):
        own = tuple(
            node.shape[0] if axis == order[number] else layout.ONE for axis in range(len(nodes))
        )
        grids.append(Array(layout.broadcast(layout.reshape(node, own), shape)))
    return tuple(grids)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """A lazy array over an object with DLPack."""
    check_device(device)
    if isinstance(x, Array):
        return asarray(x, copy=copy)
    data = np.from_dlpack(x)
    from_numpy(data.dtype)
    return asarray(np.array(data) if copy else data)
