"""Keys of arrays in a user's function: as Python counts them, and as Weft does."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft import functions
from weft.array import Array
from weft.errors import TracingError
from weft.frontend import extent as extents
from weft.frontend import graph, layout, operations, symbolic
from weft.frontend.elementwise import as_dtype
from weft.frontend.extent import Extent, decide_equal
from weft.frontend.graph import Node
from weft.frontend.indexing import index_node
from weft.kernel.frame import Frame
from weft.ops.dtypes import DType


def is_view(key: Any) -> bool:
    """Whether NumPy gives a view for a key."""
    entries = key if isinstance(key, tuple) else (key,)
    return not any(
        isinstance(entry, list | np.ndarray) or (isinstance(entry, Array) and entry.ndim)
        for entry in entries
    )


def resolved(frame: Frame, array: Array, key: Any) -> Any:
    """A key whose scalar indices count from the start, or are told apart where they are used.

    Weft's own affine indices do not count from the end; Python's do. One slice between traced
    bounds, of dimensions of one length, has one length.
    """
    entries = list(key) if isinstance(key, tuple) else [key]
    shape = array._node.shape
    used = [e for e in entries if e is not None and e is not Ellipsis]
    if len(used) > len(shape) or any(isinstance(e, Array) and e.dtype == bool for e in used):
        return key  # refused, or a mask, by indexing itself
    axis = 0
    for number, entry in enumerate(entries):
        if entry is Ellipsis:
            axis += len(shape) - len(used)
            continue
        if entry is None:
            continue
        if isinstance(entry, Array) and not entry.ndim and entry._node.dtype.is_integer:
            entries[number] = Array(_counted(entry._node, shape[axis]))
        elif isinstance(entry, slice) and has_computed_step(entry):
            if all(isinstance(other, slice) or other is Ellipsis for other in entries):
                entries[number] = _stepped(frame, entry, shape[axis])
        elif isinstance(entry, slice):
            entries[number] = _clamped(frame, entry, shape[axis])
        axis += 1
    return tuple(entries) if isinstance(key, tuple) else entries[0]


def has_computed_step(key: Any) -> bool:
    """Whether a slice among the entries of a key has a step that only the run knows."""
    entries = key if isinstance(key, tuple) else (key,)
    return any(isinstance(entry, slice) and isinstance(entry.step, Array) for entry in entries)


def _stepped(frame: Frame, entry: slice, length: Extent) -> Any:
    """The indices of a slice with a computed step; where that may be less than 1, as it is."""
    step = _as_extent(frame, entry.step)
    try:
        if not extents.at_least(step, extents.constant(1)):
            return entry
    except TracingError:
        return entry
    bounds = (None if b is None else _as_extent(frame, b) for b in (entry.start, entry.stop))
    start, reach, _ = layout.slice_bounds(slice(*bounds), length)
    count = extents.divide(reach + (step - 1), step)
    first, by = Array(graph.size_scalar(start)), Array(graph.size_scalar(step))
    return functions.arange(count) * by + first


def _counted(node: Node, length: Extent) -> Node:
    """An index that may be negative, so that indexing tells; one that may not, as it is."""
    node = as_dtype(node, DType.I64)
    if not graph.is_index(node):
        return node
    extent = symbolic.extent_of(node)
    try:
        if extent.is_nonnegative():
            return node
        return graph.size_scalar(extent + length)
    except TracingError:
        return graph.make(operations.Cast(DType.I64), (node,), (), DType.I64)


def _clamped(frame: Frame, entry: slice, length: Extent) -> slice:
    """A slice between bounds that data decide, cut to the dimension as Python does.

    Where another dimension was cut so that has the same length in this call, it has it in all
    calls of this program, and the cut is the same.
    """
    if entry.step is not None or length.symbols:
        return entry
    bounds = entry.start, entry.stop
    computed = [b._node for b in bounds if isinstance(b, Array) and not b.ndim]
    if len(computed) < 2 and all(map(graph.is_index, computed)):
        return entry  # which indexing itself cuts: sizes and loop indices decide
    start, stop = (bound if bound is None else _as_extent(frame, bound) for bound in bounds)
    if stop is not None and not (stop if start is None else stop - start).symbols:
        return entry  # of a known length, at a place that is checked
    key = graph.innermost_scope(), *(None if e is None else e.poly for e in (start, stop))
    cuts = frame.trace.cuts.setdefault(key, [])
    for other, cut in cuts:
        if other.value == length.value and decide_equal(other, length):
            return cut
    first, _, _ = layout.slice_bounds(slice(start, None), length)
    _, last, _ = layout.slice_bounds(slice(None, stop), length)
    cuts.append((length, slice(first, last)))
    return cuts[-1][1]


def _as_extent(frame: Frame, bound: Any) -> Extent:
    """A bound of a slice; those that are computed alike are one extent."""
    node = index_node(bound._node if isinstance(bound, Array) else bound)
    return symbolic.extent_of(_first_alike(frame, node))


def _first_alike(frame: Frame, node: Node) -> Node:
    """The first scalar that was computed as this one is, in its scope: of one value with it."""
    if node.shape or node.lambdas or not isinstance(node.operation, _SIMPLE):
        return node
    known = frame.trace.scalars
    if node not in known:
        inputs = tuple(_first_alike(frame, source) for source in node.inputs)
        sizes = tuple(size.poly for size in node.sizes)
        key = node.scope, node.operation, node.dtype, inputs, sizes
        known[node] = known.setdefault(key, node)
    return known[node]


_SIMPLE = (
    operations.Cast, operations.Constant, operations.Element, operations.Elementwise,
    operations.SizeScalar, operations.Slice,
)  # fmt: skip
