"""Kernels, reductions, scans and scatters of the interpreter, for all indices at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias, assert_never

import numpy as np

from weft.fun import access, combine, walk
from weft.fun import nodes as fun
from weft.fun.nest import PART, Irregular, Nest, TooLarge, Value
from weft.sizes import Poly

Parallel: TypeAlias = fun.Kernel | fun.Reduce | fun.Scan | fun.Scatter


def depth_of(expr: fun.Expr) -> int:
    """How many nested indices an expression introduces."""
    match expr:
        case fun.Kernel(space, body):
            return len(space) + _body_depth(body)
        case fun.Reduce(space, _, body, operator) | fun.Scan(space, body, operator):
            return len(space) + max(_body_depth(body), _body_depth(operator.body))
        case fun.Scatter(_, space, body, combine):
            inner = 0 if combine is None else _body_depth(combine.body)
            return len(space) + max(_body_depth(body), inner)
        case fun.If(_, then, otherwise):
            return max(_body_depth(then), _body_depth(otherwise))
        case fun.Loop(_, _, fun.While(condition), body):
            return max(_body_depth(condition), _body_depth(body))
        case fun.Loop(_, _, _, body):
            return _body_depth(body)
        case _:
            return 0


_NESTS = (fun.Kernel, fun.Reduce, fun.Scan, fun.Scatter, fun.If, fun.Loop)


def _body_depth(body: fun.Body) -> int:
    return max((depth_of(s.expr) for s in body.statements if isinstance(s.expr, _NESTS)), default=0)


class ParallelForms(Nest):
    """Evaluates the body at all indices of a space, then combines."""

    def parallel(self, expr: Parallel) -> list[Value]:
        if self.rank:
            return self.vectorised(expr)
        try:
            return self.nested(expr)
        except TooLarge as signal:
            times = signal.times
        except Irregular:
            return self.index_by_index(expr)
        extents = [self.extent(r.extent) for r in expr.space]
        match expr:
            case fun.Kernel():
                return self.in_parts(expr, extents, times)
            case fun.Reduce(reduced=reduced) if reduced < len(extents):
                return self.in_parts(expr, extents[:-reduced], times)
            case _:
                values = self.parallel(fun.Kernel(expr.space, expr.body))
                return self.combined(expr, values)

    def nested(
        self, expr: Parallel, part: tuple[int, int, int] | None = None, volume: int = 1
    ) -> list[Value]:
        """Evaluate an outermost expression, or a part of it, for all indices at once."""
        try:
            self.rank = depth_of(expr)
            self.part, self.volume = part, volume
            self.batched.clear()
            return self.vectorised(expr)
        finally:
            self.rank = self.depth = 0
            self.mask = self.part = None
            self.batched.clear()

    def in_parts(
        self, expr: fun.Kernel | fun.Reduce, extents: list[int], times: int
    ) -> list[Value]:
        """Evaluate about 1/times of the longest dimension after another, and join."""
        dimension = int(np.argmax(extents))
        length = max(1, extents[dimension] // times)
        parts: list[list[Value]] = []
        begin = 0
        while begin < extents[dimension]:
            end = min(begin + length, extents[dimension])
            try:
                parts.append(self.nested(expr, (dimension, begin, end)))
            except TooLarge as signal:
                length = max(1, (end - begin) // signal.times)
            except Irregular:
                return self.index_by_index(expr)
            else:
                begin = end
        return [np.concatenate(pieces, axis=dimension) for pieces in zip(*parts, strict=True)]

    def index_by_index(self, expr: Parallel) -> list[Value]:
        """Evaluate the body once for each index of the space, then combine."""
        extents = [self.extent(r.extent) for r in expr.space]
        types = [result.type for result in expr.body.results]
        rows: list[list[Value]] = [[] for _ in types]
        for index in np.ndindex(*extents):
            for dimension, at in zip(expr.space, index, strict=True):
                self.values[dimension.index.name] = np.int64(at)
            for row, value in zip(rows, self.body(expr.body), strict=True):
                row.append(value)
        arrays = []
        for type_, row in zip(types, rows, strict=True):
            own = tuple(map(self.extent, walk.type_sizes(type_))) if not row else np.shape(row[0])
            arrays.append(np.array(row, type_.dtype.numpy).reshape((*extents, *own)))
        return arrays if isinstance(expr, fun.Kernel) else self.combined(expr, arrays)

    def combined(
        self, expr: fun.Reduce | fun.Scan | fun.Scatter, arrays: list[Value]
    ) -> list[Value]:
        """The expression, given what its body gives over the whole space."""
        indices = tuple(Poly.var(r.index.name) for r in expr.space)
        shape = tuple(r.extent for r in expr.space)
        statements = []
        for position, array in enumerate(arrays):
            type_ = expr.body.results[position].type
            name = f"{expr.space[0].index.name}.value{position}"
            source = fun.Var(f"{name}s", fun.Array(type_.dtype, shape))
            self.values[source.name] = array
            read = fun.Index(source, indices)
            statements.append(fun.Let((fun.Var(name, type_),), read, self.place))
        body = fun.Body(tuple(statements), tuple(s.pattern[0] for s in statements))
        return self.nested(replace(expr, body=body), volume=0)  # 0: never too large

    def vectorised(self, expr: Parallel) -> list[Value]:
        first, outer, volume = self.depth, self.mask, self.volume
        try:
            extents = self.enter(expr.space)
            values = self.body(expr.body)
            match expr:
                case fun.Kernel():
                    kept = len(extents)
                    values = [self.spread(value, first, extents) for value in values]
                case fun.Reduce():
                    kept = len(extents) - expr.reduced
                    values = self.reduced(expr, values, first, extents, outer)
                case fun.Scan():
                    kept = len(extents)
                    values = self.scanned(expr, values, first, extents, outer)
                case fun.Scatter():
                    return self.scattered(expr, values, first, extents, outer)
                case _:
                    assert_never(expr)
        finally:
            self.depth, self.mask, self.volume = first, outer, volume
            for dimension in expr.space:
                self.axes.pop(dimension.index.name, None)
        return [self.own(value, first, kept) for value in values]

    def enter(self, space: tuple[fun.Range, ...]) -> tuple[int, ...]:
        """Give each index of the space its axis; extents that differ are masked."""
        extents = []
        masks = []
        for position, dimension in enumerate(space):
            size = self.size(dimension.extent)
            name, axis, origin = dimension.index.name, self.depth, 0
            ragged = isinstance(size, np.ndarray)
            if ragged:
                active = self.active(size)
                extent = int(active.max(initial=0))
            else:
                extent = max(int(size), 0)
            if self.part is not None and axis == position == self.part[0]:
                origin, extent = self.part[1], self.part[2] - self.part[1]
            index = access.along(extent, axis, self.rank, origin)
            if ragged and np.any(active != extent):
                masks.append(index < size)
            self.values[name] = index
            self.axes[name] = (axis, extent, origin)
            extents.append(extent)
            self.volume *= extent
            self.depth += 1
        if self.volume > PART and (self.part is None or self.part[2] - self.part[1] > 1):
            raise TooLarge(-(-self.volume // PART))
        for mask in masks:
            self.mask = mask if self.mask is None else np.logical_and(self.mask, mask)
        return tuple(extents)

    def spread(self, value: Value, first: int, extents: tuple[int, ...]) -> Value:
        """The value with its full extent in the axes of a space."""
        if not isinstance(value, np.ndarray):
            return np.broadcast_to(
                value, (1,) * first + extents + (1,) * (self.rank - first - len(extents))
            )
        shape = value.shape
        full = shape[:first] + extents + shape[first + len(extents) :]
        return value if shape == full else np.broadcast_to(value, full)

    def own(self, value: Value, first: int, kept: int) -> Value:
        """The `kept` axes of a space, from `first` on, made the value's own dimensions."""
        shape = value.shape
        own = shape[first : first + kept] + shape[self.rank :]
        if first == 0:  # the whole nest is done
            if len(own) == len(shape):
                return value
            return value.reshape(own) if own else value.reshape(())[()]
        if not kept:
            return value
        return value.reshape(shape[:first] + (1,) * (self.rank - first) + own)

    def operation(self, operator: fun.Lambda, first: int) -> combine.Combine:
        """The operator of a space that begins at axis `first`, as a function of arrays."""
        names = [param.name for param in operator.params]

        def combined(left: list[Value], right: list[Value]) -> list[Value]:
            for name, value in zip(names, left + right, strict=True):
                self.values[name] = value
            try:
                return self.body(operator.body)
            except Irregular:
                if first > 0:  # it may use what differs between outer indices
                    raise
                return self.pair_by_pair(operator, left + right)

        return combined

    def pair_by_pair(self, operator: fun.Lambda, arguments: list[Value]) -> list[Value]:
        """Apply an operator to one pair after another."""
        arguments = list(np.broadcast_arrays(*arguments))
        results = [np.empty(a.shape, a.dtype) for a in arguments[: len(arguments) // 2]]
        rank, depth, self.rank, self.depth = self.rank, self.depth, 0, 0
        for at in np.ndindex(results[0].shape):
            for param, argument in zip(operator.params, arguments, strict=True):
                self.values[param.name] = argument[at]
            for result, value in zip(results, self.body(operator.body), strict=True):
                result[at] = value
        self.rank, self.depth = rank, depth
        return results

    def reduced(
        self,
        expr: fun.Reduce,
        values: list[Value],
        first: int,
        extents: tuple[int, ...],
        outer: Any,
    ) -> list[Value]:
        neutral = list(map(self.atom, expr.neutral))
        if self.mask is not outer:
            values = [np.where(self.mask, v, n) for v, n in zip(values, neutral, strict=True)]
        values = [self.spread(value, first, extents) for value in values]
        self.mask = outer
        last = first + len(extents)
        axes = tuple(range(last - expr.reduced, last))
        if 0 in extents[len(extents) - expr.reduced :]:
            kept = extents[: len(extents) - expr.reduced] + (1,) * expr.reduced
            return [self.spread(value, first, kept) for value in neutral]
        ufuncs = combine.as_ufuncs(expr.operator)
        if ufuncs is not None:
            return [
                ufunc.reduce(value, axis=axes, dtype=value.dtype, keepdims=True)
                for ufunc, value in zip(ufuncs, values, strict=True)
            ]
        values = [combine.flatten_axes(value, axes) for value in values]
        return combine.reduce_tree(values, axes[0], self.operation(expr.operator, first))

    def scanned(
        self, expr: fun.Scan, values: list[Value], first: int, extents: tuple[int, ...], outer: Any
    ) -> list[Value]:
        values = [self.spread(value, first, extents) for value in values]
        self.mask = outer
        axis = first + len(extents) - 1
        one = (1,) * self.rank
        initial = [
            np.asarray(v).reshape((*np.shape(v), 1) if isinstance(a.type, fun.Array)
                                  else np.shape(v) or one)
            for a, v in zip(expr.initial, map(self.atom, expr.initial), strict=True)
        ]  # fmt: skip
        ufuncs = combine.as_ufuncs(expr.operator)
        if ufuncs is not None and not expr.exclusive:
            return [
                combine.accumulate(ufunc, value, start, axis)
                for ufunc, value, start in zip(ufuncs, values, initial, strict=True)
            ]
        values = [combine.join(i, v, axis) for i, v in zip(initial, values, strict=True)]
        if ufuncs is not None:
            values = [u.accumulate(v, axis, v.dtype) for u, v in zip(ufuncs, values, strict=True)]
        else:
            values = combine.scan_steps(values, axis, self.operation(expr.operator, first))
        part = slice(0, -1) if expr.exclusive else slice(1, None)
        key = (slice(None),) * axis + (part,)
        return [self.spread(value[key], first, extents) for value in values]

    def scattered(
        self,
        expr: fun.Scatter,
        values: list[Value],
        first: int,
        extents: tuple[int, ...],
        outer: Any,
    ) -> list[Value]:
        """Write the values in row-major order, in fresh copies of the destinations."""
        arrays = [self.array(destination) for destination in expr.destinations]
        count = arrays[0].ndim - self.rank
        parts = [*values, *arrays] if self.mask is None else [*values, *arrays, self.mask]
        batch = np.broadcast_shapes(*(np.shape(part)[:first] for part in parts))
        whole = batch + extents + (1,) * (self.rank - first - len(extents))
        shape = arrays[0].shape[self.rank :]
        fresh = [np.empty(batch + shape, a.dtype) for a in arrays]
        for new, old in zip(fresh, arrays, strict=True):
            new[...] = old.reshape(old.shape[:first] + shape)
        limits = list(shape)
        if expr.destinations[0].name in self.batched:
            limits = [self.size(s) for s in walk.type_sizes(expr.destinations[0].type)]
        index: list[Any] = [access.along(n, axis, self.rank) for axis, n in enumerate(batch)]
        for axis in range(count):
            name = expr.destinations[0].name
            from_end = self.from_end(expr.body.results[axis])
            index.append(
                access.inside(
                    values[axis], limits[axis], self.mask, name, axis, self.place, from_end
                )
            )
        chosen = slice(None) if self.mask is None else np.broadcast_to(self.mask, whole).ravel()
        at = tuple(np.broadcast_to(i, whole).ravel()[chosen] for i in index)
        new_values = [np.broadcast_to(v, whole).ravel()[chosen] for v in values[count:]]
        self.mask = outer
        self.write(expr.operator, first, fresh, at, new_values)
        if first == 0:
            return fresh
        return [new.reshape(batch + (1,) * (self.rank - first) + shape) for new in fresh]

    def write(
        self,
        operator: fun.Lambda | None,
        first: int,
        fresh: list[Value],
        at: tuple[Any, ...],
        values: list[Value],
    ) -> None:
        """Write 1-d values in order, combined with what is there if there is an operator."""
        if operator is None:
            for new, value in zip(fresh, values, strict=True):
                new[at] = value
            return
        ufuncs = combine.as_ufuncs(operator)
        if ufuncs is not None:
            for ufunc, new, value in zip(ufuncs, fresh, values, strict=True):
                ufunc.at(new, at, value)
            return
        if first > 0:  # the operator may see indices of the nest
            raise Irregular
        if at[0].size:
            outer = self.rank
            self.rank = 1 + _body_depth(operator.body)
            column = (-1,) + (1,) * (self.rank - 1)
            apply = self.operation(operator, first)

            def flat(left: list[Value], right: list[Value]) -> list[Value]:
                new = apply(*([v.reshape(column) for v in side] for side in (left, right)))
                return [np.broadcast_to(v, left[0].reshape(column).shape).ravel() for v in new]

            combine.scatter_combined(fresh, at, values, flat)
            self.rank = outer
