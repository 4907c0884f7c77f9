"""What NumPy makes of subscripts: `np.mgrid`, `np.ogrid`, `np.r_` and `np.c_`."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.kernel.calls import has_extent
from weft.kernel.frame import Frame, is_traced

TRICKS = (type(np.mgrid), type(np.ogrid), type(np.r_), type(np.c_))


def made(frame: Frame, node: ast.AST, trick: Any, key: Any) -> Any:
    """What `trick[key]` is, of slices and arrays that are traced; else what NumPy makes."""
    entries = key if isinstance(key, tuple) else (key,)
    parts = [
        part
        for entry in entries
        for part in ((entry.start, entry.stop, entry.step) if isinstance(entry, slice) else [entry])
    ]
    if not is_traced(parts) and not has_extent(parts):
        return frame.made(trick[key], node)
    if trick is np.mgrid or trick is np.ogrid:
        return _grid(frame, node, key, trick is np.ogrid)
    if any(isinstance(entry, str) for entry in entries):
        frame.refuse(node, "a text in np.r_", "slices, numbers and arrays", "np.concatenate")
    return _joined(entries, columns=trick is np.c_)


def _grid(frame: Frame, node: ast.AST, key: Any, is_open: bool) -> Any:
    entries = key if isinstance(key, tuple) else (key,)
    if not all(isinstance(entry, slice) for entry in entries):
        frame.refuse(node, "a grid of what is no slice", "np.mgrid[start:stop:step, ...]")
    if any(isinstance(e.step, Array) and e.step.dtype.kind == "c" for e in entries):
        frame.refuse(
            node, "a grid of as many numbers as are computed", "a complex number, 5j",
            "np.linspace(start, stop, count)",
        )  # fmt: skip
    axes = [_range(entry) for entry in entries]
    dtype = functions.result_type(*axes)  # of all of them
    axes = [functions.astype(axis, dtype) for axis in axes]
    if not isinstance(key, tuple):
        return axes[0]
    grid = functions.meshgrid(*axes, indexing="ij")
    if not is_open:
        return functions.stack(grid)
    rank = len(axes)
    others = [tuple(other for other in range(rank) if other != k) for k in range(rank)]
    return tuple(map(functions.expand_dims, axes, others))


def _range(entry: slice) -> Array:
    """`start:stop:step`; of an imaginary step so many numbers, both ends among them."""
    start = 0 if entry.start is None else entry.start
    if isinstance(entry.step, complex):
        return functions.linspace(start, entry.stop, int(abs(entry.step)))
    return functions.arange(start, entry.stop, 1 if entry.step is None else entry.step)


def _joined(entries: Sequence[Any], columns: bool) -> Array:
    """One after another, or beside each other where vectors are columns."""
    parts = [_range(entry) if isinstance(entry, slice) else entry for entry in entries]
    dtype = functions.result_type(*parts)
    joined: list[Array] = []
    for part in parts:
        array = functions.asarray(part, dtype=dtype)
        if columns and array.ndim < 2:
            joined.append(functions.reshape(array, (-1, 1)))
        else:
            joined.append(array if array.ndim else functions.reshape(array, (1,)))
    return functions.concat(joined, axis=-1 if columns else 0)
