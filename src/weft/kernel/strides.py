"""How far apart neighbours of a view lie, in elements: NumPy copies where no strides would do."""

from __future__ import annotations

from collections.abc import Sequence

from weft.array import Array
from weft.errors import TracingError
from weft.frontend import lengths
from weft.frontend.extent import Extent, as_extent, constant, decide_equal
from weft.kernel.values import KeyView, PermutedView, Reference, ReshapedView

_ONE = constant(1)


def strides_of(reference: Reference) -> list[Extent]:
    """The strides of a reference whose cell is in row-major order.

    Raises
    ------
    TracingError
        Where lengths that differ from round to round decide.
    """
    array = reference.cell.array
    strides = row_major(array._node.shape)
    for view in reference.views:
        shown = view.get(array)
        if isinstance(view, PermutedView):
            strides = [strides[axis] for axis in view.axes]
        elif isinstance(view, KeyView):
            strides = _of_key(view, array, strides)
        else:
            found = None
            if isinstance(view, ReshapedView):
                found = in_shape(array._node.shape, strides, shown._node.shape)
            if found is None:
                raise TracingError("strides of what is computed", "a view")
            strides = found
        array = shown
    return strides


def row_major(shape: Sequence[Extent]) -> list[Extent]:
    return _within(_ONE, shape)


def _within(last: Extent, shape: Sequence[Extent]) -> list[Extent]:
    """The strides of a block in row-major order whose last axis has a stride."""
    strides = [last]
    for length in shape[:0:-1]:
        strides.append(strides[-1] * length)
    return strides[::-1] if shape else []


def _of_key(view: KeyView, array: Array, strides: list[Extent]) -> list[Extent]:
    key = view.key if isinstance(view.key, tuple) else (view.key,)
    if Ellipsis not in [entry for entry in key if isinstance(entry, type(Ellipsis))]:
        key = (*key, Ellipsis)
    rest = array.ndim - sum(entry is not None and entry is not Ellipsis for entry in key)
    found: list[Extent] = []
    axis = 0
    for entry in key:
        if entry is None:
            found.append(_ONE)
        elif entry is Ellipsis:
            found.extend(strides[axis : axis + rest])
            axis += rest
        else:
            if isinstance(entry, slice):
                step = 1 if entry.step is None else entry.step
                if isinstance(step, Array):
                    raise TracingError("a step that data decide", "one that is known")
                found.append(strides[axis] * as_extent(step))
            axis += 1
    return found


def is_row_major(shape: Sequence[Extent], strides: Sequence[Extent]) -> bool:
    """Whether elements lie one after another; what is not so for all sizes becomes a guard."""
    if any(lengths.is_just(length, 0) for length in shape):
        return True
    return all(
        lengths.is_just(length, 1) or decide_equal(own, wanted)
        for length, own, wanted in zip(shape, strides, row_major(shape), strict=True)
    )


def in_shape(
    shape: Sequence[Extent], strides: Sequence[Extent], wanted: Sequence[Extent]
) -> list[Extent] | None:
    """The strides of a view in another shape; None where NumPy has to copy.

    Runs of axes have as many elements as runs of the new ones, and then are one run in memory.
    """
    if any(lengths.is_just(length, 0) for length in shape):
        return row_major(wanted)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if not lengths.is_just(n, 1)]
    found: list[Extent] = []
    begin = 0
    while begin < len(wanted) and old:
        length, stride = old.pop(0)
        end = begin + 1
        count = wanted[begin]
        while not decide_equal(count, length):
            if count < length:
                count = count * wanted[end]
                end += 1
            else:
                more, inner = old.pop(0)
                if not decide_equal(stride, inner * more):
                    return None
                length, stride = length * more, inner
        found += _within(stride, wanted[begin:end])
        begin = end
    return [*found, *(_ONE for _ in wanted[begin:])]
