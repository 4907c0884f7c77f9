"""How far apart neighbours of a view lie, in elements: NumPy copies where no strides would do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from weft.array import Array
from weft.errors import TracingError
from weft.frontend.extent import Extent, as_extent, constant, decide_equal
from weft.kernel.values import KeyView, OneOf, PermutedView, Reference, ReshapedView
from weft.records import dataclass

Layout = tuple[tuple[int, int], ...]
"""How axes lie in memory, of any lengths: for each the axis that a step goes past all of, and its
direction. Steps of one element go past `ELEMENT`; an axis that no other explains, past itself.
"""

ELEMENT = -1
_ONE = constant(1)


def layout_of(array: Any) -> Layout | None:
    """How the axes of an array lie; None in row-major order, and of what is no array."""
    if not isinstance(array, np.ndarray) or (array.flags.c_contiguous and array.shape):
        return None
    past = {(array.itemsize, ELEMENT)} | {
        (abs(stride) * length, axis)
        for axis, (stride, length) in enumerate(zip(array.strides, array.shape, strict=True))
        if length > 1
    }
    found = []
    for axis, stride in enumerate(array.strides):
        inside = [other for size, other in past if size == abs(stride) and other != axis]
        found.append((min(inside, default=axis), (stride > 0) - (stride < 0)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Stride:
    """How far apart neighbours lie: `factor` times one element, or what axis `unit` goes.

    `is_stepped`: some elements between are left out, so that as many as are left may go further
    than the axis did, as far as the next row of a larger array.
    """

    factor: Extent
    unit: int = ELEMENT
    is_stepped: bool = False

    def times(self, by: Extent) -> Stride:
        return replace(self, factor=self.factor * by)

    def stepped(self, step: Extent) -> Stride:
        made = self.times(step)
        return made if step.is_constant and abs(step.value) == 1 else replace(made, is_stepped=True)

    def equals(self, other: Stride) -> bool:
        """Whether both are one distance; what is not so for all sizes becomes a guard."""
        if self.unit == other.unit:
            return decide_equal(self.factor, other.factor)
        if other.is_stepped:
            raise TracingError("strides of rows of a larger array, with a step", "a copy of them")
        return False


def _of_layout(layout: Layout, shape: Sequence[Extent]) -> list[Stride]:
    """The strides of an array with a layout."""

    def stride(axis: int) -> Stride:
        inside, sign = layout[axis]
        if sign == 0:
            return Stride(constant(0))
        if inside == ELEMENT:
            return Stride(_ONE)
        return Stride(_ONE, axis) if inside == axis else stride(inside).times(shape[inside])

    return [
        stride(axis).times(constant(sign)) if sign else stride(axis)
        for axis, (_, sign) in enumerate(layout)
    ]


def strides_of(reference: Reference) -> list[Stride]:
    """The strides of a reference.

    Raises
    ------
    TracingError
        Where what is not known decides: lengths that differ from round to round.
    """
    if isinstance(reference, OneOf):
        raise TracingError("strides of one of several arrays", "an array that is known")
    array = reference.cell.array
    layout = reference.cell.layout
    shape = array._node.shape
    strides = _of_layout(layout, shape) if layout else row_major(shape)
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


def row_major(shape: Sequence[Extent]) -> list[Stride]:
    return _within(Stride(_ONE), shape)


def _within(last: Stride, shape: Sequence[Extent]) -> list[Stride]:
    """The strides of a block in row-major order whose last axis has a stride."""
    strides = [last]
    for length in shape[:0:-1]:
        strides.append(strides[-1].times(length))
    return strides[::-1] if shape else []


def _of_key(view: KeyView, array: Array, strides: list[Stride]) -> list[Stride]:
    key = view.key if isinstance(view.key, tuple) else (view.key,)
    if Ellipsis not in [entry for entry in key if isinstance(entry, type(Ellipsis))]:
        key = (*key, Ellipsis)
    rest = array.ndim - sum(entry is not None and entry is not Ellipsis for entry in key)
    found: list[Stride] = []
    axis = 0
    for entry in key:
        if entry is None:
            found.append(Stride(_ONE))
        elif entry is Ellipsis:
            found.extend(strides[axis : axis + rest])
            axis += rest
        else:
            if isinstance(entry, slice):
                step = 1 if entry.step is None else entry.step
                if isinstance(step, Array):
                    raise TracingError("a step that data decide", "one that is known")
                found.append(strides[axis].stepped(as_extent(step)))
            axis += 1
    return found


def _is(length: Extent, number: int) -> bool:
    """Whether a length is this one, in every round: a guard, unless it is so for all sizes."""
    if length.symbols:
        return bool(length.poly == number)
    return decide_equal(length, constant(number))


def is_row_major(shape: Sequence[Extent], strides: Sequence[Stride]) -> bool:
    """Whether elements lie one after another; what is not so for all sizes becomes a guard."""
    if any(_is(length, 0) for length in shape):
        return True
    return all(
        _is(length, 1) or own.equals(wanted)
        for length, own, wanted in zip(shape, strides, row_major(shape), strict=True)
    )


def in_shape(
    shape: Sequence[Extent], strides: Sequence[Stride], wanted: Sequence[Extent]
) -> list[Stride] | None:
    """The strides of a view in another shape; None where NumPy has to copy.

    Runs of axes have as many elements as runs of the new ones, and then are one run in memory.
    """
    if any(_is(length, 0) for length in shape):
        return row_major(wanted)
    old = [(n, s) for n, s in zip(shape, strides, strict=True) if not _is(n, 1)]
    found: list[Stride] = []
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
                if not stride.equals(inner.times(more)):
                    return None
                length, stride = length * more, inner
        found += _within(stride, wanted[begin:end])
        begin = end
    return [*found, *(Stride(_ONE) for _ in wanted[begin:])]
