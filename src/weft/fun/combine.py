"""Combining arrays along an axis by an associative operator, in order.

Used by the interpreter. Components are k arrays of one rank; `Combine` applies the
operator to k left and k right ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.fun import nodes as fun

Arrays: TypeAlias = list[Any]
Combine: TypeAlias = Callable[[Arrays, Arrays], Arrays]

_UFUNCS: dict[str, np.ufunc] = {
    name: getattr(np, name)
    for name in (
        "add", "multiply", "minimum", "maximum", "logical_and", "logical_or",
        "bitwise_and", "bitwise_or", "bitwise_xor",
    )
}  # fmt: skip


def as_ufuncs(operator: fun.Lambda) -> list[np.ufunc] | None:
    """The ufuncs of an operator that applies one to each component, else None."""
    statements, results, params = operator.body.statements, operator.body.results, operator.params
    if not len(statements) == len(results) == len(params) / 2:
        return None
    found: list[np.ufunc] = []
    for position, (let, result) in enumerate(zip(statements, results, strict=True)):
        if not isinstance(let.expr, fun.Apply) or let.pattern[0] != result:
            return None
        ufunc = _UFUNCS.get(let.expr.operation)
        if ufunc is None or let.expr.arguments != (
            params[position],
            params[position + len(results)],
        ):
            return None
        found.append(ufunc)
    return found


def _part(arrays: Arrays, axis: int, part: slice) -> Arrays:
    key = (slice(None),) * axis + (part,)
    return [array[key] for array in arrays]


def _join(first: Arrays, second: Arrays, axis: int) -> Arrays:
    return [join(a, b, axis) for a, b in zip(first, second, strict=True)]


def join(first: Any, second: Any, axis: int) -> Any:
    """Concatenation of arrays that broadcast in the other dimensions."""
    rest = [(*array.shape[:axis], 1, *array.shape[axis + 1 :]) for array in (first, second)]
    shape = list(np.broadcast_shapes(*rest))
    parts = []
    for array in (first, second):
        shape[axis] = array.shape[axis]
        parts.append(np.broadcast_to(array, shape))
    return np.concatenate(parts, axis=axis)


def reduce_tree(arrays: Arrays, axis: int, combine: Combine) -> Arrays:
    """Neighbours combined until one is left along the axis, which stays (extent >= 1)."""
    extent = arrays[0].shape[axis]
    while extent > 1:
        even = extent - extent % 2
        left = _part(arrays, axis, slice(0, even, 2))
        right = _part(arrays, axis, slice(1, even, 2))
        pairs = combine(left, right)
        arrays = _join(pairs, _part(arrays, axis, slice(even, None)), axis) if extent % 2 else pairs
        extent = arrays[0].shape[axis]
    return arrays


def scan_steps(arrays: Arrays, axis: int, combine: Combine) -> Arrays:
    """Running combinations along the axis, in steps of 1, 2, 4, ..."""
    extent = arrays[0].shape[axis]
    step = 1
    while step < extent:
        later = combine(
            _part(arrays, axis, slice(None, -step)), _part(arrays, axis, slice(step, None))
        )
        arrays = _join(_part(arrays, axis, slice(None, step)), later, axis)
        step *= 2
    return arrays


def accumulate(ufunc: np.ufunc, array: Any, initial: Any, axis: int) -> Any:
    """Running results of a ufunc along an axis, from an initial value on."""
    shape = (
        list(np.broadcast_shapes(array.shape, initial.shape)) if initial.size > 1 else array.shape
    )
    fresh = np.array(np.broadcast_to(array, shape))
    first = (slice(None),) * axis + (slice(0, 1),)
    fresh[first] = ufunc(initial, fresh[first])
    return ufunc.accumulate(fresh, axis, fresh.dtype, fresh)


def scatter_combined(
    destinations: Arrays, index: tuple[Any, ...], values: Arrays, combine: Combine
) -> None:
    """Combine 1-d values into the destinations at index, in order, in place.

    Values for different elements are independent: round r takes each element's r-th value.
    """
    shape = destinations[0].shape
    flat = np.ravel_multi_index(index, shape)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(np.append(starts, len(ordered)))
    for turn in range(int(counts.max())):
        chosen = order[starts[counts > turn] + turn]
        at = tuple(i[chosen] for i in index)
        new = combine([d[at] for d in destinations], [v[chosen] for v in values])
        for destination, result in zip(destinations, new, strict=True):
            destination[at] = result


def flatten_axes(array: Any, axes: Sequence[int]) -> Any:
    """Neighbouring axes merged into the first of them; the others stay, with extent 1."""
    shape = list(array.shape)
    merged = 1
    for axis in axes:
        merged *= shape[axis]
        shape[axis] = 1
    shape[axes[0]] = merged
    return array.reshape(shape)
