"""NumPy's chained products, and equations and inverses of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from weft.array import Array, asarray
from weft.errors import ArgumentError, ShapeError, user_place
from weft.frontend import layout
from weft.functions.linear_algebra import matmul
from weft.functions.manipulation import moveaxis

__all__ = ["multi_dot", "tensorinv", "tensorsolve"]


def multi_dot(arrays: Sequence[Any], /) -> Array:
    """The product of matrices, in the order that takes the fewest multiplications.

    Parameters
    ----------
    arrays : sequence of arrays
        Two or more; the first and the last one may be vectors.

    Raises
    ------
    ArgumentError
        For fewer than two arrays.
    ShapeError
        For arrays that are no matrices, and where rows and columns differ in number.
    """
    factors = [asarray(one) for one in arrays]
    if len(factors) < 2:
        raise ArgumentError(f"{len(factors)} matrices", "two or more", place=user_place())
    row, column = factors[0].ndim == 1, factors[-1].ndim == 1
    if row:
        factors[0] = factors[0][None, :]
    if column:
        factors[-1] = factors[-1][:, None]
    for one in factors:
        if one.ndim != 2:
            raise ShapeError(f"a factor of {one.ndim} dimensions", "matrices", place=user_place())
    lengths = [layout.values(one._node.shape)[0] for one in factors]
    lengths.append(layout.values(factors[-1]._node.shape)[1])
    found = _product(factors, _cuts(lengths), 0, len(factors) - 1)
    if row:
        found = found[0]
    return found[..., 0] if column else found


def _cuts(lengths: Sequence[int]) -> dict[tuple[int, int], int]:
    """After which factor each run of factors is best cut in two."""
    count = len(lengths) - 1
    costs = {(k, k): 0 for k in range(count)}
    cuts = {}
    for span in range(1, count):
        for first in range(count - span):
            last = first + span
            costs[first, last], cuts[first, last] = min(
                (
                    costs[first, cut] + costs[cut + 1, last]
                    + lengths[first] * lengths[cut + 1] * lengths[last + 1],
                    cut,
                )
                for cut in range(first, last)
            )  # fmt: skip
    return cuts


def _product(
    factors: Sequence[Array], cuts: dict[tuple[int, int], int], first: int, last: int
) -> Array:
    if first == last:
        return factors[first]
    cut = cuts[first, last]
    return matmul(
        _product(factors, cuts, first, cut), _product(factors, cuts, cut + 1, last)
    )


def tensorsolve(a: Any, b: Any, axes: Any = None) -> Array:
    """The solution x of tensordot(a, x, x.ndim) = b.

    Parameters
    ----------
    a : array
        Of the shape of b, then of x: as many elements each.
    b : array
    axes : sequence of int, optional
        Those of a that are moved to its end before.

    Raises
    ------
    ShapeError
        Where b and x have not as many elements.
    """
    from weft.linalg import solve

    array, right = asarray(a), asarray(b)
    if axes is not None:
        given = tuple(axes)
        array = moveaxis(array, given, tuple(range(-len(given), 0)))
    shape = array.shape[right.ndim :]
    return solve(_square(array, right.ndim), right.ravel()).reshape(shape)


def tensorinv(a: Any, ind: int = 2) -> Array:
    """The inverse of a tensor, of which the first `ind` dimensions are the rows.

    Raises
    ------
    ArgumentError
        For fewer dimensions than one.
    ShapeError
        Where the first and the other dimensions have not as many elements.
    """
    from weft.linalg import inv

    if ind <= 0:
        raise ArgumentError(f"ind={ind}", "1 or more", place=user_place())
    array = asarray(a)
    return inv(_square(array, ind)).reshape((*array.shape[ind:], *array.shape[:ind]))


def _square(array: Array, rows: int) -> Array:
    """The matrix whose rows are the first dimensions."""
    matrix = array.reshape((math.prod(array.shape[:rows]), -1))
    if layout.values(matrix._node.shape)[0] != layout.values(matrix._node.shape)[1]:
        raise ShapeError(
            f"a tensor of shape {layout.values(array._node.shape)} as a matrix of "
            f"{layout.values(matrix._node.shape)}",
            "as many rows as columns", place=user_place(),
        )  # fmt: skip
    return matrix
