"""Sorting functions, and sets: by library calls, or what is written out in loops."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from weft.array import Array, asarray
from weft.array.making import turned_back
from weft.config import settings
from weft.errors import ArgumentError, DTypeError, MemoryLimitError, user_place
from weft.frontend import extent as extents
from weft.frontend import layout
from weft.frontend.elementwise import apply
from weft.frontend.graph import Node
from weft.functions.arguments import array_node, length_of
from weft.functions.binary_search import searchsorted
from weft.functions.data_types import astype
from weft.functions.elementwise import minimum, where
from weft.functions.library_calls import is_within, library_call, rows_along
from weft.functions.searching import take, with_known_values
from weft.functions.statistical import reduce_node
from weft.ops.dtypes import DType
from weft.runtime.memory import format_bytes

__all__ = [
    "argpartition", "argsort", "isin", "partition", "sort", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values",
]  # fmt: skip


def _rows(x: Any, axis: int | None, what: str) -> tuple[Node, list[int]]:
    """Rows of real numbers along an axis, None of all elements; the order of the axes."""
    node = array_node(x)
    if axis is None:
        node, axis = layout.reshape(node, (extents.product(node.shape),)), 0
    if node.dtype.is_complex:
        raise DTypeError(f"{what} of complex numbers", "real ones", place=user_place())
    return rows_along(node, axis, what)


def _sorted(routine: str, x: Any, axis: int | None, descending: bool, stable: bool) -> Array:
    rows, order = _rows(x, axis, "sorting")
    axis = len(order) - 1
    options = (("axis", axis), ("descending", bool(descending)), ("stable", bool(stable)))
    dtype = rows.dtype if routine == "sort" else DType.I64
    return turned_back(library_call(routine, options, (rows,), rows.shape, dtype), order)


def sort(
    x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:  # fmt: skip
    """The elements along an axis in order; NaN counts as the largest.

    Parameters
    ----------
    x : array, real
    axis : int or None
        None of all elements, flattened.
    descending : bool
    stable : bool
        Whether equal elements keep their order.

    Raises
    ------
    AxisError
        For an axis that the array does not have.
    """
    return _sorted("sort", x, axis, descending, stable)


def argsort(
    x: Any, /, axis: int | None = -1, *, descending: bool = False, stable: bool = True
) -> Array:  # fmt: skip
    """The indices that sort along an axis, as int64.

    Parameters
    ----------
    x : array, real
    axis : int or None
        None of all elements, flattened.
    descending : bool
    stable : bool
        Whether equal elements keep their order.

    Raises
    ------
    AxisError
        For an axis that the array does not have.
    """
    return _sorted("argsort", x, axis, descending, stable)


def partition(a: Any, kth: Any, axis: int | None = -1) -> Array:
    """The elements along an axis so that the kth is where sorting puts it: less before it.

    Parameters
    ----------
    a : array, real
    kth : int or vector of int
        One place or several, from the end where negative.
    axis : int or None
        None of all elements, flattened.

    Raises
    ------
    ArgumentError
        For a place outside of an axis whose length is known.
    DTypeError
        For complex numbers.
    """
    rows, order = _rows(a, axis, "a partition")
    length = rows.shape[-1]
    places = asarray(kth)
    if places.dtype.kind not in "iu":
        raise DTypeError(f"places of {places.dtype}", "integers", place=user_place())
    if not isinstance(kth, Array) and not length.symbols:
        for place in np.ravel(kth).tolist():
            if not -length.value <= place < length.value:
                raise ArgumentError(
                    f"a partition at {place} of {length.value} elements",
                    "a place inside", place=user_place(),
                )  # fmt: skip
    places = astype(places, "int64").ravel()
    places = where(places < 0, places + length_of(length), places)
    return turned_back(partitioned(rows, places._node), order)


def partitioned(rows: Node, places: Node) -> Node:
    """Rows with what order would bring to the places there; NaN counts as the largest."""
    return library_call("partition", (), (rows, places), rows.shape, rows.dtype)


def argpartition(a: Any, kth: Any, axis: int | None = -1) -> Array:
    """The indices that partition along an axis: those that sort."""
    return argsort(a, axis=axis)


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Array
    indices: Array
    inverse_indices: Array
    counts: Array


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Array
    counts: Array


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Array
    inverse_indices: Array


def _distinct(x: Any, what: str, **options: Any) -> Any:
    """What NumPy's unique gives for the values of an array, which are computed now.

    Where what NumPy makes passes the memory limit, they are sorted in boxes.

    Raises
    ------
    MemoryLimitError
        Where that does not fit either, or places are asked for.
    """
    values, limit = with_known_values(x, what), settings().limit
    places = any(options.get(f"return_{kind}") for kind in ("index", "inverse"))
    needed = values.nbytes + values.size  # a copy that is sorted, and where the next one differs
    needed += (values.nbytes + 8 * values.size) * places  # the order, and the copy in it
    needed += 16 * values.size * bool(options.get("return_inverse"))  # numbers, in both orders
    if needed > limit:
        if not places and options.get("axis") is None and values.dtype.kind != "c":
            found = _distinct_in_runs(values, what, options)
            if found is not None:
                return found
        raise MemoryLimitError(
            f"{what} of {values.size} elements, which NumPy sorts: {format_bytes(needed)}",
            f"at most the memory limit, {format_bytes(limit)}",
            "wf.sort the elements, or a larger memory_limit"
            + (", or wf.unique_values and wf.searchsorted in them" if places else ""),
            user_place(),
        )
    return np.unique(values._implicit(what), **options)


def _distinct_in_runs(x: Array, what: str, options: dict[str, Any]) -> Any:
    """The same without places, by a sort that keeps the limit; None where that does not fit."""
    from weft.functions.distinct import distinct, in_scratch_file

    x._allow_implicit(what)
    ordered = in_scratch_file(sort(x, axis=None))
    if ordered is None:
        return None
    counts, equal_nan = bool(options.get("return_counts")), options.get("equal_nan", True)
    found = distinct(ordered, what, counts=counts, equal_nan=equal_nan)
    return tuple(found) if counts else found[0]


def unique_all(x: Any, /) -> UniqueAll:
    """Distinct values in order, where each is first, where each went, how often (computes x)."""
    found, first, inverse, counts = _distinct(
        x, "unique_all()", return_index=True, return_inverse=True, return_counts=True,
        equal_nan=False,
    )  # fmt: skip
    inverse = inverse.reshape(np.shape(x))
    return UniqueAll(*(asarray(part) for part in (found, first, inverse, counts)))


def unique_counts(x: Any, /) -> UniqueCounts:
    """Distinct values in order, and how often each is there (computes `x` now)."""
    found = _distinct(x, "unique_counts()", return_counts=True, equal_nan=False)
    return UniqueCounts(*map(asarray, found))


def unique_inverse(x: Any, /) -> UniqueInverse:
    """Distinct values in order, and where each element went (computes `x` now)."""
    found, inverse = _distinct(x, "unique_inverse()", return_inverse=True, equal_nan=False)
    return UniqueInverse(asarray(found), asarray(inverse.reshape(np.shape(x))))


def unique_values(x: Any, /) -> Array:
    """Distinct values in order (computes `x` now)."""
    return asarray(_distinct(x, "unique_values()", equal_nan=False))


def unique(x: Any, /, **options: Any) -> Any:
    """NumPy's unique (computes `x` now)."""
    found = _distinct(x, "unique()", **options)
    return tuple(map(asarray, found)) if isinstance(found, tuple) else asarray(found)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of `x1` is one of `x2`."""
    left, right = array_node(x1), array_node(x2)
    candidates = layout.reshape(right, (extents.product(right.shape),))
    if _are_searched(left, candidates):
        found = _met(left, candidates)
    else:
        found = apply("equal", layout.expand(left, len(left.shape)), candidates)
        found = reduce_node(found, (len(left.shape),), "logical_or", False)
    return Array(apply("logical_not", found) if invert else found)


_MANY = 1024
"""Of candidates of so many bytes, comparing with all takes longer than a search among them."""


def _are_searched(left: Node, candidates: Node) -> bool:
    """Whether candidates are many, and can be ordered as what is looked for among them."""
    one_dtype = left.dtype is candidates.dtype and not left.dtype.is_complex
    (count,) = candidates.shape
    many = extents.constant(_MANY // left.dtype.numpy.itemsize)
    inside = is_within(left, candidates)
    return one_dtype and not inside and not count.symbols and extents.at_least(count, many)


def _met(left: Node, candidates: Node) -> Node:
    """Whether each element is that of the ordered candidates where it would be inserted."""
    ordered = sort(Array(candidates))
    places = searchsorted(ordered, Array(left))
    last = ordered.shape[0] - 1
    near = take(ordered, minimum(places, last).ravel(), axis=0)._node
    return apply("equal", layout.reshape(near, left.shape), left)
