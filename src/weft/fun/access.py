"""Array accesses of the interpreter: bounds, boundaries, slices.

Index arrays here are ints, or int64 arrays that broadcast together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.errors import OutOfBoundsError, Place, called
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.nest import Nest, Value, constant
from weft.lmad import exact
from weft.ops.dtypes import DType
from weft.sizes import Size

Numbers: TypeAlias = Any  # int, or an int64 ndarray
Mask: TypeAlias = Any  # None (all active), or a bool ndarray


def inside(
    index: Numbers, extent: Numbers, mask: Mask, array: str, axis: int, place: Place | None,
    from_end: Callable[[], bool] = lambda: False,
) -> Numbers:  # fmt: skip
    """The index, checked where active, and made safe where not.

    `from_end`: whether the extent was added to what was negative, for errors to tell.
    """
    if type(index) is int and type(extent) is int:
        if 0 <= index < extent:
            return index
        if mask is None or mask.any():
            raise out_of_bounds(index, extent, array, axis, place, from_end())
        return 0
    bad = np.logical_or(np.less(index, 0), np.greater_equal(index, extent))
    if not bad.any():
        return index
    active = bad if mask is None else np.logical_and(bad, mask)
    if active.any():
        where = np.unravel_index(int(np.argmax(active)), active.shape)
        first = np.broadcast_to(index, active.shape)[where]
        limit = np.broadcast_to(extent, active.shape)[where]
        raise out_of_bounds(int(first), int(limit), array, axis, place, from_end())
    return np.where(bad, 0, index)


def noise(dtype: DType) -> Any:
    """What elements that do not matter hold: what shows where a result depends on them."""
    return np.nan if dtype.kind in "fc" else dtype.numpy.type(0.0 if dtype is DType.BOOL else 85)


def out_of_bounds(
    index: int, extent: int, array: str, axis: int, place: Place | None, from_end: bool = False
) -> OutOfBoundsError:
    if from_end and index < 0:
        index -= extent
    return OutOfBoundsError(
        f"index {index} is outside axis {axis} of {called(array)}, which has {extent} elements",
        f"{-extent if from_end else 0} <= index < {extent}",
        "",
        place,
    )


def reflect_index(kind: str, index: Numbers, lower: Numbers, upper: Numbers) -> Numbers:
    """The index inside `lower <= index < upper` whose element `numpy.pad` would repeat."""
    extent = np.maximum(np.subtract(upper, lower), 1)
    at = np.subtract(index, lower)
    match kind:
        case "edge":
            at = np.clip(at, 0, extent - 1)
        case "wrap":
            at = np.mod(at, extent)
        case "symmetric":
            at = np.mod(at, 2 * extent)
            at = np.minimum(at, 2 * extent - 1 - at)
        case "reflect":
            period = np.maximum(2 * extent - 2, 1)
            at = np.mod(at, period)
            at = np.minimum(at, period - at)
            at = np.where(extent == 1, 0, at)
        case _:
            raise AssertionError(kind)
    return np.add(at, lower)


def span_slice(start: int, extent: int, step: int) -> slice:
    """The slice of the elements start + k * step for 0 <= k < extent."""
    if extent == 0:
        return slice(0, 0, 1)
    stop = start + step * extent
    if step < 0 and stop < 0:
        return slice(start, None, step)
    return slice(start, stop, step)


def span_inside(start: int, extent: int, step: int, limit: int) -> bool:
    """Whether all elements of a span lie in a dimension of extent `limit`."""
    if extent == 0:
        return True
    last = start + step * (extent - 1)
    return 0 <= start < limit and 0 <= last < limit


def along(
    extent: int, axis: int, rank: int, origin: int = 0
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """origin, origin + 1, ... (`extent` numbers) along one axis of `rank`."""
    index = np.arange(origin, origin + extent)
    return index if rank == 1 else index.reshape((1,) * axis + (extent,) + (1,) * (rank - axis - 1))


def batch_index(shape: Sequence[int], rank: int) -> list[Numbers]:
    """For each leading dimension in `shape`, an index that goes along it (0 where it is 1)."""
    return [0 if n == 1 else along(n, axis, rank) for axis, n in enumerate(shape)]


class Accesses(Nest):
    """Reads of elements, views, and copies with a part replaced."""

    # ------------------------------------------------------------ reads

    def index(self, expr: fun.Index) -> Value:
        """The elements read, one for each index of the nest."""
        name = expr.array.name
        array = self.values[name]
        batched = name in self.batched
        if not expr.boundary:
            found = self.sliced(array, batched, expr.indices)
            if found is not None:
                return found
        return self.gathered(array, batched, expr)

    def sliced(self, array: Value, batched: bool, indices: tuple[Size, ...]) -> Value | None:
        """A read whose dimensions each follow one index of the nest, as a view; else None."""
        rank = self.rank
        shape = array.shape[rank:] if batched else array.shape
        key: list[Any] = [slice(None)] * rank if batched else []
        order: list[int] = []
        for poly, limit in zip(indices, shape, strict=True):
            start, step, axis, extent = 0, 0, -1, 0
            for monomial, factor in poly.terms.items():
                if len(monomial) == 1 and monomial[0] in self.axes:
                    if axis >= 0:
                        return None
                    axis, extent, origin = self.axes[monomial[0]]
                    step = factor
                    start += step * origin
                    continue
                for name in monomial:
                    value = self.values[name]
                    if isinstance(value, np.ndarray):
                        return None
                    factor *= int(value)
                start += factor
            if axis < 0:
                if not 0 <= start < limit:
                    return None
                key.append(start)
            else:
                if axis in order or not span_inside(start, extent, step, limit):
                    return None
                order.append(axis)
                if start == 0 and step == 1 and extent == limit:
                    key.append(slice(None))
                else:
                    key.append(span_slice(start, extent, step))
        return self.in_batch(array[tuple(key)], batched, order)

    def in_batch(self, value: Value, batched: bool, order: list[int]) -> Value | None:
        """Own dimensions moved to the batch axes `order`; None where these are taken."""
        rank = self.rank
        if not rank or not order:
            return value
        sorted_order = sorted(order)
        shape = [1] * rank
        if batched:
            if any(n != 1 for n in value.shape[sorted_order[0] : rank]):
                return None
            shape[: sorted_order[0]] = value.shape[: sorted_order[0]]
        lead = rank if batched else 0
        if order != sorted_order:
            moved = sorted(range(len(order)), key=order.__getitem__)
            value = value.transpose(*range(lead), *(lead + m for m in moved))
        if not batched and len(order) == rank:
            return value
        for axis, extent in zip(sorted_order, value.shape[lead:], strict=True):
            shape[axis] = extent
        return value.reshape(shape)

    def gathered(self, array: Value, batched: bool, expr: fun.Index) -> Value:
        """A read at any indices, with boundary rules."""
        name, place, mask = expr.array.name, self.place, self.mask
        index: list[Any] = [self.size(poly) for poly in expr.indices]
        limits: tuple[Any, ...] = array.shape[self.rank :] if batched else array.shape
        if batched:
            limits = tuple(map(self.size, walk.type_sizes(expr.array.type)))
        outside: list[tuple[Any, fun.Const]] = []
        for axis, rule in enumerate(expr.boundary):
            if rule is None:
                continue
            lower, upper = self.size(rule.lower), self.size(rule.upper)
            if rule.kind == "constant":
                assert rule.value is not None
                out = np.logical_or(
                    np.less(index[axis], lower), np.greater_equal(index[axis], upper)
                )
                outside.append((out, rule.value))
                kept = np.logical_not(out)
                mask = kept if mask is None else np.logical_and(mask, kept)
            else:
                index[axis] = reflect_index(rule.kind, index[axis], lower, upper)
        for axis, limit in enumerate(limits):
            from_end = self.from_end(expr.indices[axis])
            index[axis] = inside(index[axis], limit, mask, name, axis, place, from_end)
        result = self.taken(array, batched, index, mask)
        for out, value in outside:  # in a corner the last dimension's value, as numpy.pad has it
            result = np.where(out, constant(value), result)[()]
        return result

    def taken(self, array: Value, batched: bool, index: list[Any], mask: Any) -> Value:
        if array.size == 0:  # only inactive indices can have come here, or there are none
            shape = np.broadcast_shapes(*(np.shape(i) for i in index), np.shape(mask))
            return np.zeros(shape, array.dtype)[()]
        if not batched:
            return array[tuple(index)]
        if all(isinstance(i, int) for i in index):
            return array[(..., *index)]
        return array[(*batch_index(array.shape[: self.rank], self.rank), *index)]

    # ------------------------------------------------------------ layouts and copies

    def layout(self, expr: fun.Expr) -> Value:
        rank = self.rank
        match expr:
            case fun.Slice(array, dims):
                key, regular = self.key(array, dims)
                return self.array(array)[key] if regular else self.picked(array, key)
            case fun.LmadSlice(array, offset, lmad_dims):
                return self.picked(array, [self.lmad_index(array, offset, lmad_dims)])
            case fun.Permute(array, axes):
                return self.array(array).transpose(*range(rank), *(rank + axis for axis in axes))
            case fun.Reshape(array, shape):
                value = self.array(array)
                return value.reshape(value.shape[:rank] + tuple(map(self.extent, shape)))
            case fun.Broadcast(atom, shape):
                return self.broadcast(atom, tuple(map(self.extent, shape)))
            case fun.Concat(arrays, axis):
                return self.concatenated([self.array(array) for array in arrays], axis)
            case fun.Update(array, dims, value):
                key, regular = self.key(array, dims)
                count = sum(isinstance(dim, fun.Span) for dim in dims)
                return self.updated(array, key, regular, self.value(value), count)
            case fun.LmadUpdate(array, offset, lmad_dims, source):
                self.refuse_collision(array, offset, lmad_dims)
                index = self.lmad_index(array, offset, lmad_dims)
                return self.updated(array, [index], False, self.array(source), len(lmad_dims))
            case fun.Copy(array):
                return self.array(array)
            case fun.Empty(dtype, shape):
                return np.full(
                    (1,) * rank + tuple(map(self.extent, shape)), noise(dtype), dtype.numpy
                )
            case _:
                raise AssertionError(type(expr))

    def limits(self, array: fun.Var) -> tuple[int, ...]:
        """The extents of an array, which must not differ between indices."""
        if array.name in self.batched:
            return tuple(map(self.extent, walk.type_sizes(array.type)))
        return tuple(self.values[array.name].shape)

    def key(self, array: fun.Var, dims: tuple[fun.Span | Size, ...]) -> tuple[Any, bool]:
        """The elements of a slice: as a key of slices (True), or as index arrays (False)."""
        limits = self.limits(array)
        starts = [self.size(d.start if isinstance(d, fun.Span) else d) for d in dims]
        extents = [self.extent(d.extent) if isinstance(d, fun.Span) else 1 for d in dims]
        regular = not any(isinstance(start, np.ndarray) for start in starts)
        key: list[Any] = [slice(None)] * self.rank if regular else []
        count = sum(isinstance(dim, fun.Span) for dim in dims)
        own = 0
        for axis, (dim, start, extent) in enumerate(zip(dims, starts, extents, strict=True)):
            step = dim.step if isinstance(dim, fun.Span) else 1
            if extent and 0 not in extents:
                last = start + step * (extent - 1)
                safe = inside(
                    start, limits[axis], self.mask, array.name, axis, self.place,
                    self.from_end(dim),
                )  # fmt: skip
                end = inside(last, limits[axis], self.mask, array.name, axis, self.place)
                regular = regular and safe == start and end == last
            if regular:
                whole = isinstance(dim, fun.Span)
                key.append(span_slice(start, extent, step) if whole else start)
        if regular:
            return tuple(key), True
        index = []
        for axis, (dim, start, extent) in enumerate(zip(dims, starts, extents, strict=True)):
            at = np.asarray(start)
            at = at.reshape(at.shape + (1,) * count) if at.ndim else at
            if isinstance(dim, fun.Span):
                at = at + dim.step * along(extent, self.rank + own, self.rank + count)
                own += 1
            index.append(np.clip(at, 0, max(limits[axis] - 1, 0)))  # where inactive
        return index, False

    def lmad_index(
        self, array: fun.Var, offset: Size, dims: tuple[tuple[Size, Size], ...]
    ) -> Value:
        """The elements of an LMAD as an index array."""
        (limit,) = self.limits(array)
        index = self.expanded(self.size(offset), len(dims))
        for own, (extent, stride) in enumerate(dims):
            position = along(self.extent(extent), self.rank + own, self.rank + len(dims))
            index = index + position * self.expanded(self.size(stride), len(dims))
        mask = None if self.mask is None else self.expanded(self.mask, len(dims))
        return inside(index, limit, mask, array.name, 0, self.place)

    def refuse_collision(
        self, array: fun.Var, offset: Size, dims: tuple[tuple[Size, Size], ...]
    ) -> None:
        """No element is updated twice, at any active index."""
        extents = [self.extent(extent) for extent, _ in dims]
        strides = [self.size(stride) for _, stride in dims]
        active = np.asarray(True if self.mask is None else self.mask)
        rows = np.broadcast_arrays(active, self.size(offset), *strides)
        found = np.stack([row[rows[0]] for row in rows[1:]], axis=-1)
        if found.size and not any(isinstance(stride, np.ndarray) for stride in strides):
            found = found[:1]  # the offset has no say
        for start, *steps in np.unique(found, axis=0).tolist():
            pairs = tuple(zip(extents, steps, strict=True))
            exact.refuse_collision(start, pairs, array.name, self.place)

    def picked(self, array: fun.Var, index: list[Value]) -> Value:
        value = self.array(array)
        shape = np.broadcast_shapes(*(np.shape(i) for i in index))
        if value.size == 0:
            return np.zeros(shape, value.dtype)
        batch = value.shape[: self.rank]
        found = value[(*batch_index(batch, len(shape)), *index)]
        return found

    def updated(self, array: fun.Var, key: Any, regular: bool, value: Value, count: int) -> Value:
        """A copy of the array with a value of `count` dimensions in the place `key`."""
        old, rank = self.array(array), self.rank
        if not isinstance(value, np.ndarray) or value.ndim == rank:
            value = self.expanded(value, count)
        shapes = [old.shape[:rank], np.shape(value)[:rank]]
        if not regular:
            shapes += [np.shape(i)[:rank] for i in key]
        batch = np.broadcast_shapes(*shapes)
        new = np.array(np.broadcast_to(old, batch + old.shape[rank:]))
        if regular:
            new[key] = value
        elif new.size:
            whole = np.broadcast_shapes(*(np.shape(i) for i in key))
            new[(*batch_index(batch, len(whole)), *key)] = value
        return new

    def broadcast(self, atom: fun.Atom, shape: tuple[int, ...]) -> Value:
        rank = self.rank
        value = self.value(atom)
        if not isinstance(value, np.ndarray):
            return np.broadcast_to(value, (1,) * rank + shape)
        own = value.shape[rank:]
        lifted = value.reshape(value.shape[:rank] + (1,) * (len(shape) - len(own)) + own)
        return np.broadcast_to(lifted, value.shape[:rank] + shape)

    def concatenated(self, arrays: list[Value], axis: int) -> Value:
        rank = self.rank
        if rank:
            batch = np.broadcast_shapes(*(a.shape[:rank] for a in arrays))
            arrays = [np.broadcast_to(a, batch + a.shape[rank:]) for a in arrays]
        return np.concatenate(arrays, axis=rank + axis)
