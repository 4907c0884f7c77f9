"""NumPy's reductions that leave out NaN."""

from __future__ import annotations

from typing import Any

from weft.array import Array
from weft.frontend import graph, lengths
from weft.frontend.elementwise import apply, as_dtype
from weft.frontend.graph import Node, scalar_constant
from weft.functions import searching, statistical
from weft.functions.arguments import array_node, axes_of, typed_inexact
from weft.functions.statistical import keep_dimensions, reduce_node, sum_node
from weft.ops.dtypes import DType

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod",
    "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _replaced(x: Any, value: Any) -> Node:
    """x with `value` in place of NaN."""
    node = array_node(x)
    if node.dtype.kind not in "fc":
        return node
    return apply("where", apply("isnan", node), scalar_constant(value, node.dtype), node)


def nansum(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """The sum, NaN counting as 0."""
    return statistical.sum(Array(_replaced(x, 0)), axis=axis, dtype=dtype, keepdims=keepdims)


def nanprod(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """The product, NaN counting as 1."""
    return statistical.prod(Array(_replaced(x, 1)), axis=axis, dtype=dtype, keepdims=keepdims)


def nancumsum(x: Any, /, axis: int | None = None, dtype: Any = None) -> Array:
    """Running sums, NaN counting as 0."""
    return Array(_replaced(x, 0)).cumsum(axis, dtype)


def nancumprod(x: Any, /, axis: int | None = None, dtype: Any = None) -> Array:
    """Running products, NaN counting as 1."""
    return Array(_replaced(x, 1)).cumprod(axis, dtype)


def _extreme(x: Any, axis: Any, keepdims: bool, name: str) -> Array:
    node = array_node(x)
    reduction = statistical.max if name == "fmax" else statistical.min
    if not node.dtype.is_float:
        return reduction(Array(node), axis=axis, keepdims=keepdims)
    axes = axes_of(axis, len(node.shape))
    count, numpys = statistical.count_of(node.shape, axes), statistical.NOTHING.format(name)
    lengths.require_any(count, node.shape, f"the {name[1:]}imum", numpys)
    # NaN is neutral for fmax and fmin, and the answer where there is nothing else.
    result = reduce_node(node, axes, name, float("nan"))
    return Array(keep_dimensions(result, node.shape, axes, keepdims))


def nanmax(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The maximum of what is not NaN; NaN where there is nothing else."""
    return _extreme(x, axis, keepdims, "fmax")


def nanmin(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The minimum of what is not NaN; NaN where there is nothing else."""
    return _extreme(x, axis, keepdims, "fmin")


def _counts(node: Node, axes: tuple[int, ...]) -> Node:
    """How many elements along axes are not NaN, in the node's real dtype."""
    present = apply("logical_not", apply("isnan", node))
    return sum_node(as_dtype(present, node.dtype.real), axes)


def nanmean(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """The mean of what is not NaN."""
    node = typed_inexact(x, dtype)
    axes = axes_of(axis, len(node.shape))
    total = sum_node(_replaced(Array(node), 0), axes)
    result = apply("divide", total, as_dtype(_counts(node, axes), node.dtype))
    return Array(keep_dimensions(result, node.shape, axes, keepdims))


def nanvar(
    x: Any,
    /,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """The variance of what is not NaN, over (count - ddof)."""
    node = typed_inexact(x, dtype)
    axes = axes_of(axis, len(node.shape))
    middle = nanmean(Array(node), axis=axes, keepdims=True)._node
    zero = scalar_constant(0, node.dtype)
    apart = apply("where", apply("isnan", node), zero, apply("subtract", node, middle))
    squares = apply("square", apply("abs", apart))
    count = _counts(node, axes)
    if ddof:
        count = apply("subtract", count, scalar_constant(float(ddof), count.dtype))
        nothing = apply("less_equal", count, graph.scalar_constant(0, count.dtype))
        count = apply("where", nothing, scalar_constant(float("nan"), count.dtype), count)
    result = apply("divide", sum_node(squares, axes), count)
    return Array(keep_dimensions(result, node.shape, axes, keepdims))


def nanstd(
    x: Any,
    /,
    axis: Any = None,
    dtype: Any = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
) -> Array:
    """The standard deviation of what is not NaN."""
    variance = nanvar(x, axis=axis, dtype=dtype, ddof=ddof, keepdims=keepdims)
    return Array(apply("sqrt", variance._node))


def nanargmax(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The index of the maximum of what is not NaN."""
    node = array_node(x)
    lowest = float("-inf")
    source = Array(_replaced(x, lowest)) if node.dtype is not DType.BOOL else Array(node)
    return searching.argmax(source, axis=axis, keepdims=keepdims)


def nanargmin(x: Any, /, axis: int | None = None, *, keepdims: bool = False) -> Array:
    """The index of the minimum of what is not NaN."""
    node = array_node(x)
    source = Array(_replaced(x, float("inf"))) if node.dtype is not DType.BOOL else Array(node)
    return searching.argmin(source, axis=axis, keepdims=keepdims)
