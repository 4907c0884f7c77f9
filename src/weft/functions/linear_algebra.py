"""Linear algebra: products."""

from __future__ import annotations

from typing import Any

from weft.array import Array, asarray
from weft.errors import ArgumentError, ShapeError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout, operations, symbolic
from weft.frontend.elementwise import apply, as_dtype, broadcast_shapes, common_dtype, of_one_length
from weft.frontend.graph import Node, make
from weft.frontend.guards import forget_guards
from weft.functions.arguments import array_node, axes_of, one_axis
from weft.functions.statistical import sum_node
from weft.ops.dtypes import DType

__all__ = ["dot", "inner", "matmul", "matvec", "outer", "tensordot", "vecdot", "vecmat"]


def promoted(*arrays: Any) -> tuple[Node, ...]:
    nodes = tuple(array_node(x) for x in arrays)
    dtype = common_dtype(nodes)
    return tuple(as_dtype(x, dtype) for x in nodes)


def misfit(what: str, left: Node, right: Node, expected: str) -> ShapeError:
    """The error of two arrays that do not go together; guards that compared them are void."""
    forget_guards()
    shapes = f"{layout.values(left.shape)} and {layout.values(right.shape)}"
    return ShapeError(f"{what} of shapes {shapes}", expected, place=user_place())


def sum_of_products(left: Node, right: Node) -> Node:
    """The sum over the last axis of a product that broadcasts."""
    product = apply("multiply", left, right)
    return sum_node(product, (len(product.shape) - 1,))


def matmul(x1: Any, x2: Any, /) -> Array:
    """The matrix product: of the last two dimensions, the others broadcast.

    A product with a vector is one fused pass, and so are those of batches of small matrices; one
    of others is BLAS's on processors, but for integers, and tiles of registers and caches
    elsewhere. Of booleans it is whether any are true together.

    Raises
    ------
    ShapeError
        For scalars, and where columns and rows differ in number.
    """
    left, right = promoted(x1, x2)
    if not left.shape or not right.shape:
        raise misfit("matmul", left, right, "arrays of at least one dimension")
    alike = of_one_length(left, -1, right, -2 if len(right.shape) > 1 else 0)
    if alike is None:
        raise misfit("matmul", left, right, "as many columns on the left as rows on the right")
    left, right = alike
    if len(right.shape) == 1:
        return Array(sum_of_products(left, right))
    if len(left.shape) == 1:
        turned = layout.permute(right, _turned(len(right.shape)))
        return Array(sum_of_products(left, turned))
    if left.dtype is DType.BOOL:  # whether there is any: sums of ones are rounded, but never to 0
        number = matmul(*(Array(as_dtype(x, DType.F32)) for x in (left, right)))
        return Array(as_dtype(number._node, DType.BOOL))
    if any(map(_inside_function, (left, right))) or symbolic.have_symbols(left, right):
        return Array(_in_one_kernel(left, right))
    batch = broadcast_shapes([left.shape[:-2], right.shape[:-2]], "matmul")
    shape = (*batch, left.shape[-2], right.shape[-1])
    return Array(make(operations.Call("matmul"), (left, right), shape, left.dtype))


def _turned(rank: int) -> list[int]:
    return [*range(rank - 2), rank - 1, rank - 2]


def _inside_function(node: Node) -> bool:
    """Whether a node is computed for every index of a traced combinator: no library call."""
    return node.scope is not None


def _in_one_kernel(left: Node, right: Node) -> Node:
    rows = layout.expand(left, len(left.shape) - 1)
    columns = layout.permute(right, _turned(len(right.shape)))
    columns = layout.expand(columns, len(columns.shape) - 2)
    return sum_of_products(rows, columns)


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Array:
    """Sums of products along an axis (of the conjugate of `x1`)."""
    left, right = promoted(x1, x2)
    for node in (left, right):
        if not -len(node.shape) <= axis < 0 and len(left.shape) != len(right.shape):
            raise ArgumentError(f"axis {axis}", "a negative axis of both", place=user_place())
    moved = []
    for node in (left, right):
        along = one_axis(axis, len(node.shape))
        order = [a for a in range(len(node.shape)) if a != along] + [along]
        moved.append(layout.permute(node, order))
    left, right = moved
    alike = of_one_length(left, -1, right, -1)
    if alike is None:
        raise misfit("vecdot", left, right, "equal lengths along the axis")
    left, right = alike
    if left.dtype.is_complex:
        left = apply("conj", left)
    return Array(sum_of_products(left, right))


def matvec(x1: Any, x2: Any, /) -> Array:
    """Products of matrices and vectors, which are the last dimensions."""
    return matmul(x1, asarray(x2)[..., None])[..., 0]


def vecmat(x1: Any, x2: Any, /) -> Array:
    """Products of (the conjugates of) vectors and matrices, which are the last dimensions."""
    return matmul(asarray(x1).conj()[..., None, :], x2)[..., 0, :]


def tensordot(x1: Any, x2: Any, /, axes: Any = 2) -> Array:
    """The sum of products over axes of both arrays."""
    left, right = promoted(x1, x2)
    first, second = _summed_axes(axes, left, right)
    if len(first) != len(second):
        raise misfit("tensordot", left, right, "axes of equal lengths")
    for a, b in zip(first, second, strict=True):
        alike = of_one_length(left, a, right, b)
        if alike is None:
            raise misfit("tensordot", left, right, "axes of equal lengths")
        left, right = alike
    rows = [a for a in range(len(left.shape)) if a not in first]
    columns = [a for a in range(len(right.shape)) if a not in second]
    shape = (*(left.shape[a] for a in rows), *(right.shape[a] for a in columns))
    inner = extents.product(tuple(left.shape[a] for a in first))
    outer = extents.product(tuple(left.shape[a] for a in rows))
    across = extents.product(tuple(right.shape[a] for a in columns))
    flat_left = layout.reshape(layout.permute(left, [*rows, *first]), (outer, inner))
    flat_right = layout.reshape(layout.permute(right, [*second, *columns]), (inner, across))
    product = matmul(Array(flat_left), Array(flat_right))._node
    return Array(layout.reshape(product, shape))


def _summed_axes(axes: Any, left: Node, right: Node) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes of each array that `tensordot` sums over."""
    if not isinstance(axes, tuple | list):
        number = extents.integer(axes)
        if not 0 <= number <= min(len(left.shape), len(right.shape)):
            raise misfit(f"tensordot over {number} axes", left, right, "as many axes of both")
        return tuple(range(len(left.shape) - number, len(left.shape))), tuple(range(number))
    if len(axes) != 2:
        raise ArgumentError(f"tensordot over axes {axes}", "axes of each array", place=user_place())
    return axes_of(axes[0], len(left.shape)), axes_of(axes[1], len(right.shape))


def outer(x1: Any, x2: Any, /) -> Array:
    """The product of every pair of elements of two vectors."""
    left, right = promoted(x1, x2)
    flat = [layout.reshape(x, (extents.product(x.shape),)) for x in (left, right)]
    return Array(apply("multiply", layout.expand(flat[0], 1), layout.expand(flat[1], 0)))


def dot(x1: Any, x2: Any, /) -> Array:
    """NumPy's dot: a product with a scalar, else a sum over the last axis of `x1`."""
    left, right = promoted(asarray(x1), asarray(x2))
    if not left.shape or not right.shape:
        return Array(apply("multiply", left, right))
    if len(right.shape) <= 2 and len(left.shape) <= 2:
        return matmul(x1, x2)
    return tensordot(x1, x2, axes=((len(left.shape) - 1,), (max(len(right.shape) - 2, 0),)))


def inner(x1: Any, x2: Any, /) -> Array:
    """NumPy's inner: the sum over the last axes of both."""
    left, right = promoted(asarray(x1), asarray(x2))
    if not left.shape or not right.shape:
        return Array(apply("multiply", left, right))
    return tensordot(x1, x2, axes=((len(left.shape) - 1,), (len(right.shape) - 1,)))
