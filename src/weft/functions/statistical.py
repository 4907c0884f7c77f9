"""Statistical and utility functions: reductions and running combinations."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from weft.array import Array, node_of
from weft.errors import ArgumentError, DTypeError, user_place
from weft.frontend import extent as extents
from weft.frontend import graph, layout, lengths, operations
from weft.frontend.elementwise import apply, as_dtype
from weft.frontend.first import first_elements
from weft.frontend.graph import Lambda, Node, Scope, Shape, make, parameter, scalar_constant
from weft.functions.arguments import array_node, axes_of, dtype_of, one_axis, typed_inexact
from weft.functions.creation import filled
from weft.ops.dtypes import DType
from weft.ops.promotion import accumulator

__all__ = [
    "all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean",
    "min", "prod", "std", "sum", "var",
]  # fmt: skip


def kept_shape(shape: Shape, axes: tuple[int, ...]) -> Shape:
    return tuple(e for axis, e in enumerate(shape) if axis not in axes)


def count_of(shape: Shape, axes: tuple[int, ...]) -> extents.Extent:
    """How many elements are combined into each."""
    return extents.product(tuple(shape[axis] for axis in axes))


def keep_dimensions(node: Node, shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Node:
    """A reduction's result, with dimensions of one where `keepdims` asks for them."""
    if not keepdims:
        return node
    kept = tuple(layout.ONE if axis in axes else e for axis, e in enumerate(shape))
    return layout.reshape(node, kept)


def reduce_node(node: Node, axes: tuple[int, ...], operator: str, neutral: Any) -> Node:
    """An array combined over axes by a scalar operation; over no axis, itself."""
    if not axes:
        return node
    if isinstance(node.operation, operations.Permute):  # as it lies: these operators commute
        turned = node.operation.axes
        inside = tuple(sorted(turned[axis] for axis in axes))
        kept = [axis for axis in range(len(turned)) if axis not in inside]
        order = [kept.index(turned[a]) for a in range(len(turned)) if a not in axes]
        return layout.permute(reduce_node(node.inputs[0], inside, operator, neutral), order)
    start = scalar_constant(neutral, node.dtype)
    operation = operations.Reduce(axes, 1, operator)
    return make(operation, (node, start), kept_shape(node.shape, axes), node.dtype)


def sum_node(node: Node, axes: tuple[int, ...]) -> Node:
    if lengths.is_just(count_of(node.shape, axes), 0):
        return filled(scalar_constant(0, node.dtype), kept_shape(node.shape, axes))
    if node.dtype is DType.BOOL:
        return reduce_node(node, axes, "logical_or", False)
    if node.dtype.is_integer:
        return reduce_node(node, axes, "add", 0)
    # -0.0 is what changes no float, -0.0 itself included; NumPy begins with 0.0.
    zero: Any = complex(-0.0, -0.0) if node.dtype.is_complex else -0.0
    total = reduce_node(node, axes, "add", zero)
    return apply("add", total, scalar_constant(0.0, node.dtype))


def sum(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """The sum over axes (all of them by default).

    Small integers and booleans are summed in 64 bits. Floats are summed in a fixed tree, so
    at least as accurately as NumPy's pairwise sum.

    Parameters
    ----------
    x : array, numeric or boolean
    axis : int or tuple of int, optional
        All axes by default.
    dtype : dtype, optional
        Of the sum and of its result.
    keepdims : bool
        Whether summed axes stay, with extent 1.

    Raises
    ------
    AxisError
        For axes that the array does not have.
    """
    return _total(x, axis, dtype, keepdims, "add")


def prod(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """The product over axes (all of them by default)."""
    return _total(x, axis, dtype, keepdims, "multiply")


def _total(x: Any, axis: Any, dtype: Any, keepdims: bool, operator: str) -> Array:
    node = array_node(x)
    axes = axes_of(axis, len(node.shape))
    wanted = dtype_of(dtype, accumulator(node.dtype))
    source = as_dtype(node, wanted)
    if operator == "add":
        total = sum_node(source, axes)
    elif wanted is DType.BOOL:
        total = reduce_node(source, axes, "logical_and", True)
    else:
        total = reduce_node(source, axes, operator, 1)
    return Array(keep_dimensions(total, node.shape, axes, keepdims))


NOTHING = "zero-size array to reduction operation {} which has no identity"
"""What NumPy says of an extreme of no elements."""


def _extreme(x: Any, axis: Any, keepdims: bool, operator: str) -> Array:
    node = array_node(x)
    axes = axes_of(axis, len(node.shape))
    lowest = least(node.dtype) if operator == "maximum" else greatest(node.dtype)
    count, numpys = count_of(node.shape, axes), NOTHING.format(operator)
    lengths.require_any(count, node.shape, f"the {operator}", numpys)
    result = reduce_node(node, axes, operator, lowest)
    return Array(keep_dimensions(result, node.shape, axes, keepdims))


def least(dtype: DType) -> Any:
    """What every value is at least."""
    _require_order(dtype, "maximum")
    if dtype is DType.BOOL:
        return False
    return float("-inf") if dtype.is_float else int(np.iinfo(dtype.numpy).min)


def greatest(dtype: DType) -> Any:
    """What every value is at most."""
    _require_order(dtype, "minimum")
    if dtype is DType.BOOL:
        return True
    return float("inf") if dtype.is_float else int(np.iinfo(dtype.numpy).max)


def _require_order(dtype: DType, operator: str) -> None:
    if dtype.is_complex:
        raise DTypeError(f"{operator} of complex numbers", "real numbers", place=user_place())


def max(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The maximum over axes; NaN where there is one.

    Raises
    ------
    ShapeError
        Of no elements.
    """
    return _extreme(x, axis, keepdims, "maximum")


def min(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The minimum over axes; NaN where there is one."""
    return _extreme(x, axis, keepdims, "minimum")


def divided_by_count(total: Node, count: extents.Extent, less: float = 0) -> Node:
    """total / (count - less); NaN for no elements, as NumPy's."""
    number = as_dtype(graph.size_scalar(count), total.dtype.real)
    if less:
        number = apply("subtract", number, scalar_constant(less, total.dtype.real))
        number = apply("maximum", number, scalar_constant(0, total.dtype.real))
    return apply("divide", total, as_dtype(number, total.dtype))


def mean_node(node: Node, axes: tuple[int, ...]) -> Node:
    return divided_by_count(sum_node(node, axes), count_of(node.shape, axes))


def mean(x: Any, /, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Array:
    """The mean over axes; of integers in float64, unless another dtype is asked for."""
    node = typed_inexact(x, dtype)
    axes = axes_of(axis, len(node.shape))
    return Array(keep_dimensions(mean_node(node, axes), node.shape, axes, keepdims))


# ---------------------------------------------------------------- variance


@cache
def _merge_moments(dtype: DType) -> Lambda:
    """Joins (count, mean, sum of squared deviations) of two sets, after Chan et al."""
    with graph.apart():
        scope = Scope(None)
        names = ("n", "mean", "squares")
        params = tuple(parameter(name, (), dtype, scope) for name in names * 2)
        count, mean_left, squares, other, mean_right, more = params
        zero = scalar_constant(0, dtype)
        total = apply("add", count, other)
        part = apply("where", apply("equal", total, zero), zero, apply("divide", other, total))
        apart = apply("subtract", mean_right, mean_left)
        middle = apply("add", mean_left, apply("multiply", apart, part))
        # (n * part) first: it is 0 beside an empty set, where apart * apart may overflow.
        spread = apply("multiply", apply("multiply", apart, apply("multiply", count, part)), apart)
        return Lambda(
            params, (total, middle, apply("add", apply("add", squares, more), spread)), scope
        )


def var_node(node: Node, axes: tuple[int, ...], correction: float) -> Node:
    """The variance by one pass over the data.

    Elements are taken from their first one along the axes, where that is at hand: a mean far
    from 0 then costs no digits.
    """
    if node.dtype.is_complex:
        parts = (apply(part, node) for part in ("real", "imag"))
        return apply("add", *(var_node(part, axes, correction) for part in parts))
    kept = kept_shape(node.shape, axes)
    if lengths.is_just(count_of(node.shape, axes), 0):
        return filled(scalar_constant(float("nan"), node.dtype), kept)
    if not axes:
        squares = apply("multiply", apply("subtract", node, node), node)
        return divided_by_count(squares, layout.ONE, correction)
    first = first_elements(node, axes)
    if first is not None:
        node = apply("subtract", node, layout.broadcast(first, node.shape))
    one, zero = (scalar_constant(value, node.dtype) for value in (1, 0))
    apart = apply("subtract", node, node)  # of one element: 0, or NaN where it is not finite
    moments = make(
        operations.Reduce(axes, 3, ""), (one, node, apart, zero, zero, zero), (), None,
        lambdas=(_merge_moments(node.dtype),), types=((kept, node.dtype),) * 3,
    )  # fmt: skip
    return divided_by_count(graph.pick(moments, 2), count_of(node.shape, axes), correction)


def var(
    x: Any, /, axis: Any = None, dtype: Any = None, *, correction: float = 0.0,
    keepdims: bool = False, ddof: float | None = None,
) -> Array:  # fmt: skip
    """The variance over axes: squared deviations over (count - correction), in one pass.

    Parameters
    ----------
    x : array
        Integers are taken as float64.
    axis : int or tuple of int, optional
        All axes by default.
    dtype : dtype, optional
        Of floats or complex numbers: that to compute in.
    correction : float
        1 for the variance of a sample.
    keepdims : bool
        Whether reduced axes stay, with extent 1.
    ddof : float, optional
        NumPy's name for `correction`.

    Raises
    ------
    AxisError
        For axes that the array does not have.
    """
    node = typed_inexact(x, dtype)
    axes = axes_of(axis, len(node.shape))
    result = var_node(node, axes, float(correction if ddof is None else ddof))
    return Array(keep_dimensions(result, node.shape, axes, keepdims))


def std(
    x: Any, /, axis: Any = None, dtype: Any = None, *, correction: float = 0.0,
    keepdims: bool = False, ddof: float | None = None,
) -> Array:  # fmt: skip
    """The standard deviation over axes: the square root of `var`."""
    variance = var(x, axis, dtype, correction=correction, keepdims=keepdims, ddof=ddof)
    return Array(apply("sqrt", variance._node))


# ---------------------------------------------------------------- truth


def all(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Whether all elements along axes are true (not zero)."""
    return _truth(x, axis, keepdims, "logical_and", True)


def any(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """Whether any element along axes is true (not zero)."""
    return _truth(x, axis, keepdims, "logical_or", False)


def _truth(x: Any, axis: Any, keepdims: bool, operator: str, neutral: bool) -> Array:
    node = array_node(x)
    axes = axes_of(axis, len(node.shape))
    result = reduce_node(as_dtype(node, DType.BOOL), axes, operator, neutral)
    return Array(keep_dimensions(result, node.shape, axes, keepdims))


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """How many elements along axes are not zero."""
    node = array_node(x)
    axes = axes_of(axis, len(node.shape))
    ones = as_dtype(as_dtype(node, DType.BOOL), DType.I64)
    return Array(keep_dimensions(sum_node(ones, axes), node.shape, axes, keepdims))


# ---------------------------------------------------------------- running combinations


def last_axis(node: Node, axis: int) -> tuple[Node, list[int]]:
    """The node with an axis moved to the end, and the order that moves it back."""
    rank = len(node.shape)
    order = [a for a in range(rank) if a != axis] + [axis]
    return layout.permute(node, order), [order.index(a) for a in range(rank)]


def cumulative_sum(
    x: Any, /, axis: int | None = None, dtype: Any = None, *, include_initial: bool = False
) -> Array:
    """Running sums along an axis.

    Parameters
    ----------
    x : array, numeric
    axis : int, optional
        May be left out of an array of one dimension alone.
    dtype : dtype, optional
        Of the sums; by default that of `sum`.
    include_initial : bool
        Whether the result begins with a 0, and is longer by one.

    Raises
    ------
    ArgumentError
        Without an axis, for an array of several dimensions.
    """
    return _cumulative(x, axis, dtype, include_initial, "add", 0)


def cumulative_prod(
    x: Any, /, axis: int | None = None, dtype: Any = None, *, include_initial: bool = False
) -> Array:
    """Running products along an axis (which may be left out of one dimension alone)."""
    return _cumulative(x, axis, dtype, include_initial, "multiply", 1)


def _cumulative(
    x: Any, axis: int | None, dtype: Any, include_initial: bool, operator: str, initial: int
) -> Array:
    node = array_node(x)
    if not node.shape:
        node = layout.reshape(node, (layout.ONE,))
    if axis is None and len(node.shape) != 1:
        raise ArgumentError(
            f"no axis, of an array of {len(node.shape)} dimensions", "axis=...", place=user_place()
        )
    along = one_axis(0 if axis is None else axis, len(node.shape))
    wanted = dtype_of(dtype, accumulator(node.dtype))
    moved, back = last_axis(as_dtype(node, wanted), along)
    # -0.0 + x is x for every float, -0.0 itself included.
    start = scalar_constant(-0.0 if wanted.is_float and initial == 0 else initial, wanted)
    scanned = make(operations.Scan(1, operator, False), (moved, start), moved.shape, wanted)
    result = layout.permute(scanned, back)
    if include_initial:
        shape = tuple(layout.ONE if a == along else e for a, e in enumerate(node.shape))
        whole = tuple(e + 1 if a == along else e for a, e in enumerate(node.shape))
        first = filled(scalar_constant(initial, wanted), shape)
        result = make(operations.Concat(along), (first, result), whole, wanted)
    return Array(result)


def diff(
    x: Any, /, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None
) -> Array:
    """The n-th differences of neighbours along an axis.

    Raises
    ------
    ArgumentError
        For a negative n.
    """
    from weft.functions.manipulation import broadcast_to, concat

    node = array_node(x)
    along = one_axis(axis, len(node.shape))
    times = extents.integer(n)
    if times < 0:
        raise ArgumentError(f"differences of order {times}", "0 or more", place=user_place())
    if prepend is not None or append is not None:
        one = (*node.shape[:along], 1, *node.shape[along + 1 :])  # where a number stands for all
        parts = [Array(node_of(part)) for part in (prepend, x, append) if part is not None]
        parts = [part if part.ndim else broadcast_to(part, one) for part in parts]
        node = concat(parts, axis=along)._node
    operation = "not_equal" if node.dtype is DType.BOOL else "subtract"
    for _ in range(times):
        extent = node.shape[along]
        if not extent.symbols and not extents.at_least(extent, layout.ONE):
            break
        fewer = extents.not_negative(extent - 1) if extent.symbols else extent - 1
        later = layout.take_slice(node, along, layout.ONE, fewer)
        earlier = layout.take_slice(node, along, layout.ZERO, fewer)
        node = apply(operation, later, earlier)
    return Array(node)
