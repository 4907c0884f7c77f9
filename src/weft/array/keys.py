"""Keys as users write them: masks, lists, and arrays of any kind in `x[key]`."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.array.lazy import Array
from weft.array.making import asarray, node_of
from weft.config import settings
from weft.errors import (
    MemoryLimitError,
    OutOfBoundsError,
    TracingError,
    UnsupportedError,
    user_place,
)
from weft.frontend import layout
from weft.frontend.graph import Node, Shape
from weft.ops.dtypes import DType
from weft.runtime.memory import format_bytes


def resolved(key: Any, shape: Shape) -> Any:
    """A key into a shape with its arrays as nodes, masks as the index arrays that they mean."""
    if not isinstance(key, tuple):
        if isinstance(key, int) and not isinstance(key, bool):
            return key
        key = (key,)
    key = tuple([_listed(entry) if isinstance(entry, list) else entry for entry in key])
    entries: list[Any] = []
    axis = 0
    for number, entry in enumerate(key):
        if is_scalar_mask(entry):
            entries.append(bool(entry))
            continue
        covered = _covered(entry)
        if entry is Ellipsis:
            covered = len(shape) - axis - sum(map(_covered, key[number + 1 :]))
        axis += covered
        if isinstance(entry, slice):
            entries.append(slice(_bound(entry.start), _bound(entry.stop), _step(entry.step)))
            continue
        if isinstance(entry, np.ndarray | Array) or hasattr(entry, "__dlpack__"):
            node = node_of(entry)
            if isinstance(entry, np.integer) or (not node.shape and isinstance(entry, np.ndarray)
                                                 and node.dtype.is_integer):  # fmt: skip
                entries.append(int(entry))
            elif node.dtype is DType.BOOL:
                require_fit(node, shape[axis - covered : axis])
                entries += _mask_indices(Array(node))
            else:
                entries.append(node)
        else:
            entries.append(entry)
    return tuple(entries)


def _listed(entry: list[Any]) -> Array:
    """A list, which may hold indices that are being traced, as the array that it means."""
    return asarray(entry or np.zeros(0, np.int64))


def _covered(entry: Any) -> int:
    """How many dimensions an entry of a key stands for."""
    if entry is None or entry is Ellipsis or is_scalar_mask(entry):
        return 0
    is_mask = isinstance(entry, np.ndarray | Array) and entry.dtype == np.bool_
    return entry.ndim if is_mask else 1


def require_fit(mask: Node, shape: Shape) -> None:
    """Raise unless a mask has the shape of the dimensions that it selects from."""
    if layout.values(mask.shape) != layout.values(shape):
        raise OutOfBoundsError(
            f"a mask of shape {layout.values(mask.shape)} over dimensions of shape "
            f"{layout.values(shape)}",
            "a mask of their shape",
            place=user_place(),
        )


def _bound(value: Any) -> Any:
    """A bound of a slice; scalars that are being traced stay what they are."""
    return value._node if isinstance(value, Array) and value._node.abstract else value


def _step(value: Any) -> Any:
    """A step of a slice, which is part of the program."""
    if isinstance(value, Array) and value._node.abstract:
        raise UnsupportedError(
            "a slice whose step is computed",
            "a step that is known before the function runs",
            "a loop: for k in range(start, stop, step)",
            place=user_place(),
        )
    return value


def _mask_indices(mask: Array) -> list[Any]:
    """The index arrays of a mask: how many elements it selects is known by computing it."""
    if mask._node.abstract:
        raise TracingError(
            "an index that is a mask, in a function being traced: its result's size is unknown",
            "operations that give arrays of known size",
            "wf.where(mask, x, other), or a reduction of it",
            place=user_place(),
        )
    values = mask._implicit("indexing by a mask")
    return [node_of(index) for index in np.nonzero(with_room_for_places(values, "a mask"))]


def with_room_for_places(values: Any, what: str) -> Any:
    """Values with which the indices of those that are not zero fit the memory limit.

    Raises
    ------
    MemoryLimitError
        Where there are too many.
    """
    from weft.plan.setting import ALLOWANCE

    count, limit = int(np.count_nonzero(values)), settings().limit
    places = count * values.ndim * np.dtype(np.intp).itemsize
    needed = places + values.nbytes + ALLOWANCE
    if needed > limit:
        raise MemoryLimitError(
            f"the indices of the {count} elements that {what} selects need {format_bytes(needed)} "
            f"at once ({format_bytes(places)}, {format_bytes(values.nbytes)} for what selects "
            f"them, {format_bytes(ALLOWANCE)} for the program itself)",
            f"at most the memory limit, {format_bytes(limit)}",
            "wf.where(mask, x, other), reductions with where=mask, or a memory_limit of at least "
            f"{needed} bytes",
            user_place(),
        )
    return values


def is_scalar_mask(key: Any) -> bool:
    """Whether a key is a boolean: a new dimension, of one or of none."""
    if isinstance(key, Array | np.ndarray):
        return not key.ndim and key.dtype == np.bool_
    return isinstance(key, bool | np.bool_)
