"""NumPy's functions that join arrays, take them apart, turn them, and lay them on diagonals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from weft.array import Array, asarray
from weft.errors import ShapeError, user_place
from weft.functions.arguments import one_axis
from weft.functions.creation import arange, zeros
from weft.functions.elementwise import where
from weft.functions.manipulation import concat, flip, moveaxis, permute_dims
from weft.functions.searching import known_values

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "column_stack",
    "diag", "diagonal", "dsplit", "dstack", "fliplr", "flipud", "hsplit", "hstack", "rot90",
    "split", "trace", "vsplit", "vstack",
]  # fmt: skip


def _each(arrays: tuple[Any, ...], change: Any) -> Any:
    changed = tuple(change(asarray(array)) for array in arrays)
    return changed[0] if len(changed) == 1 else changed


def atleast_1d(*arys: Any) -> Any:
    """Arrays of one dimension or more; several as a tuple."""
    return _each(arys, lambda x: x if x.ndim else x.reshape((1,)))


def atleast_2d(*arys: Any) -> Any:
    """Arrays of two dimensions or more, a vector as a row; several as a tuple."""
    return _each(arys, lambda x: x if x.ndim > 1 else atleast_1d(x)[None, :])


def atleast_3d(*arys: Any) -> Any:
    """Arrays of three dimensions or more, a vector as (1, n, 1), a matrix as (m, n, 1)."""
    return _each(arys, lambda x: x if x.ndim > 2 else atleast_2d(x)[:, :, None])


def _joined(arrays: Sequence[Any], axis: int) -> Array:
    if not arrays:
        raise ShapeError("no arrays to join", "one or more", place=user_place())
    return concat(list(arrays), axis=axis)


def hstack(tup: Sequence[Any]) -> Array:
    """Arrays side by side: along the second axis, or the first of vectors.

    Raises
    ------
    ShapeError
        Where other axes differ, and of no arrays.
    """
    parts = [atleast_1d(part) for part in tup]
    return _joined(parts, int(bool(parts) and parts[0].ndim > 1))


def vstack(tup: Sequence[Any]) -> Array:
    """Arrays one below the other: along the first axis, vectors as rows."""
    return _joined([atleast_2d(part) for part in tup], 0)


def dstack(tup: Sequence[Any]) -> Array:
    """Arrays one behind the other: along the third axis."""
    return _joined([atleast_3d(part) for part in tup], 2)


def column_stack(tup: Sequence[Any]) -> Array:
    """Vectors as the columns of a matrix, beside matrices."""
    parts = map(asarray, tup)
    return _joined([part if part.ndim > 1 else atleast_2d(part).T for part in parts], 1)


def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    """An array with others behind it along an axis; without one, all flattened."""
    parts = [asarray(arr), asarray(values)]
    if axis is None:
        return concat([part.ravel() for part in parts], axis=0)
    return concat(parts, axis=axis)


def block(arrays: Any) -> Array:
    """Arrays put together as nested lists of them lie: the innermost along the last axis."""
    depth, rank = _depth(arrays), _rank(arrays)
    return _block(arrays, depth, max(depth, rank))


def _depth(arrays: Any) -> int:
    return 1 + max(map(_depth, arrays), default=0) if isinstance(arrays, list) else 0


def _rank(arrays: Any) -> int:
    if isinstance(arrays, list):
        return max(map(_rank, arrays), default=0)
    return asarray(arrays).ndim


def _block(arrays: Any, depth: int, rank: int) -> Array:
    if _depth(arrays) != depth:
        raise ShapeError(
            "lists that are nested to different depths", "arrays at one depth", place=user_place()
        )
    if not isinstance(arrays, list):
        array = asarray(arrays)
        return array.reshape((*(1,) * (rank - array.ndim), *array.shape))
    return _joined([_block(part, depth - 1, rank) for part in arrays], rank - depth)


# ---------------------------------------------------------------- taking apart


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """An array in parts along an axis: so many, the first ones longer by one; or cut at indices.

    Returns
    -------
    list of Array
    """
    array = asarray(ary)
    along = one_axis(axis, array.ndim)
    length = array.shape[along]
    places = _places(indices_or_sections)
    if places is not None:
        cuts = [0, *places, length]
    else:
        sections = int(indices_or_sections)
        if sections < 1:
            raise ShapeError(f"{sections} parts", "one or more", place=user_place())
        each, longer = divmod(length, sections)
        cuts = [0]
        for number in range(sections):
            cuts.append(cuts[-1] + each + (1 if number < longer else 0))
    before = (slice(None),) * along
    return [array[(*before, slice(start, stop))] for start, stop in pairwise(cuts)]


def _places(given: Any) -> Sequence[Any] | None:
    """Where an array is cut; None where the number of its parts is given.

    Those in an array are computed now: they decide the sizes of the parts.
    """
    if isinstance(given, tuple | list):
        return given
    if isinstance(given, Array | np.ndarray) and given.ndim:
        places: Sequence[Any] = known_values(given, "split()").tolist()
        return places
    return None


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """An array in equal parts along an axis, or cut at indices.

    Raises
    ------
    ShapeError
        Where the parts would not be equal.
    """
    array = asarray(ary)
    length = array.shape[one_axis(axis, array.ndim)]
    if _places(indices_or_sections) is None and length % int(indices_or_sections):
        raise ShapeError(
            f"{length} elements in {indices_or_sections} equal parts", "a multiple",
            "np.array_split", place=user_place(),
        )  # fmt: skip
    return array_split(array, indices_or_sections, axis)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """An array in parts side by side: along the second axis, or the first of vectors."""
    return split(ary, indices_or_sections, 1 if asarray(ary).ndim > 1 else 0)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """An array in parts one below the other: along the first axis."""
    return split(ary, indices_or_sections, 0)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Array]:
    """An array in parts one behind the other: along the third axis."""
    return split(ary, indices_or_sections, 2)


# ---------------------------------------------------------------- turning


def flipud(m: Any) -> Array:
    """An array with its first axis turned round."""
    return flip(asarray(m), axis=0)


def fliplr(m: Any) -> Array:
    """An array with its second axis turned round."""
    return flip(asarray(m), axis=1)


def rot90(m: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Array:
    """An array turned k times by 90 degrees, from the first of two axes to the second."""
    array = asarray(m)
    first, second = (one_axis(axis, array.ndim) for axis in axes)
    order = list(range(array.ndim))
    order[first], order[second] = second, first
    match k % 4:
        case 0:
            return array
        case 1:
            return permute_dims(flip(array, axis=second), order)
        case 2:
            return flip(array, axis=(first, second))
        case _:
            return flip(permute_dims(array, order), axis=second)


# ---------------------------------------------------------------- diagonals


def diag(v: Any, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with a vector as its k-th diagonal.

    Raises
    ------
    ShapeError
        For another number of dimensions.
    """
    from weft import linalg

    array = asarray(v)
    if array.ndim == 2:
        return linalg.diagonal(array, offset=k)
    if array.ndim != 1:
        raise ShapeError(f"diag of {array.ndim} dimensions", "1 or 2", place=user_place())
    extent = array.shape[0] + abs(k)
    apart = zeros(abs(k), dtype=array.dtype)
    spread = concat([array, apart])[:, None] if k >= 0 else concat([array, apart])[None, :]
    rows, columns = arange(extent)[:, None], arange(extent)[None, :]
    return where(columns - rows == k, spread, asarray(0, dtype=array.dtype))


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonals of the matrices that two axes are, along the last axis.

    Raises
    ------
    ShapeError
        For fewer than two dimensions.
    """
    from weft import linalg

    return linalg.diagonal(_matrices(a, axis1, axis2), offset=offset)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
    """The sum of a diagonal of each matrix that two axes are.

    Raises
    ------
    ShapeError
        For fewer than two dimensions.
    """
    from weft import linalg

    return linalg.trace(_matrices(a, axis1, axis2), offset=offset, dtype=dtype)


def _matrices(a: Any, axis1: int, axis2: int) -> Array:
    """An array with two axes moved to the end."""
    array = asarray(a)
    return moveaxis(array, (axis1, axis2), (-2, -1)) if array.ndim > 1 else array
