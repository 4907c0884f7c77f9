"""The NumPy interpreter of FUN: what a program means, and the oracle of every test.

Kernels are evaluated for all their indices at once. Inside a nest of parallel
expressions each index has an axis of its own, outermost first; a scalar is an array with
one axis for each index of the nest (of extent 1 where it does not vary), and an array
has these *batch* axes before its own. A branch or a loop that goes differently for
different indices is evaluated under a mask. What does not vary regularly enough for this
(a reshape to a shape that depends on an index) is evaluated index by index.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any, TypeAlias, assert_never

import numpy as np

from weft.errors import ArgumentError, ArgumentTypeError, Place, ShapeError
from weft.fun import access, combine, walk
from weft.fun import nodes as fun
from weft.ops import table
from weft.sizes import Poly, Size

Value: TypeAlias = Any  # ndarray, NumPy scalar, or (for sizes) int
Parallel: TypeAlias = fun.Kernel | fun.Reduce | fun.Scan | fun.Scatter


class Irregular(Exception):  # noqa: N818  (a signal inside the interpreter, not an error)
    """A size that differs between the indices of a nest where one value is needed."""


def interpret(
    program: fun.Program,
    arguments: Sequence[Any],
    sizes: Mapping[str, int] | None = None,
) -> tuple[Any, ...]:
    """Run a program.

    Parameters
    ----------
    program : fun.Program
    arguments : sequence of ndarray or scalar
        One for each parameter, of its dtype and rank.
    sizes : mapping of str to int, optional
        Size variables that no parameter's shape gives.

    Returns
    -------
    tuple of ndarray or numpy scalar
        The results; arrays share memory with neither the arguments nor each other.

    Raises
    ------
    ShapeError, ArgumentTypeError, ArgumentError
        When the arguments do not fit the parameters.
    OutOfBoundsError
        When an index is outside its array; it names the statement's place.
    """
    evaluator = Evaluator()
    evaluator.bind_arguments(program, arguments, sizes or {})
    with np.errstate(all="ignore"):
        results = evaluator.body(program.body)
    return _owned(results, arguments)


def _owned(results: list[Value], arguments: Sequence[Any]) -> tuple[Value, ...]:
    """The results, copied where they share memory with something else."""
    seen = {id(argument) for argument in arguments}
    owned = []
    for result in results:
        if isinstance(result, np.ndarray):
            if result.base is not None or id(result) in seen or not result.flags.c_contiguous:
                result = np.array(result, order="C")
            seen.add(id(result))
        owned.append(result)
    return tuple(owned)


@lru_cache(maxsize=4096)
def constant(value: fun.Const) -> Any:
    """A constant as a NumPy scalar."""
    return value.dtype.numpy.type(value.value)


@cache
def scalar_function(operation: str) -> Callable[..., Any]:
    """An operation's NumPy function (without its own silencing: all runs under one)."""
    function = table.lookup(operation).numpy
    return getattr(function, "__wrapped__", function)


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


class Evaluator:
    """The state of an evaluation: values by name, and the nest that it is in.

    Attributes
    ----------
    values : dict
        Arrays, scalars and sizes by name (names are bound once in a program).
    rank : int
        Number of batch axes of the nest, 0 outside of any.
    depth : int
        How many of them belong to indices in scope.
    axes : dict
        For each kernel index in scope its axis and extent.
    batched : set
        Names of arrays that have batch axes.
    mask : ndarray or None
        Which indices are active.
    """

    __slots__ = ("axes", "batched", "depth", "mask", "place", "rank", "values")

    def __init__(self) -> None:
        self.values: dict[str, Value] = {}
        self.axes: dict[str, tuple[int, int]] = {}
        self.batched: set[str] = set()
        self.rank = 0
        self.depth = 0
        self.mask: Any = None
        self.place: Place | None = None

    # ------------------------------------------------------------ arguments

    def bind_arguments(
        self, program: fun.Program, arguments: Sequence[Any], sizes: Mapping[str, int]
    ) -> None:
        if len(arguments) != len(program.params):
            raise ArgumentError(
                f"{program.name} was given {len(arguments)} arguments",
                f"{len(program.params)} arguments",
            )
        values = self.values
        values.update(sizes)
        shaped: list[tuple[fun.Var, tuple[int, ...], tuple[Size, ...]]] = []
        for param, argument in zip(program.params, arguments, strict=True):
            type_ = param.type
            if isinstance(type_, fun.Scalar):
                values[param.name] = type_.dtype.numpy.type(argument)
                continue
            array = np.asarray(argument)
            if array.dtype != type_.dtype.numpy:
                raise ArgumentTypeError(
                    f"argument {param.name} has dtype {array.dtype}", f"{type_.dtype.numpy}"
                )
            if array.ndim != len(type_.shape):
                raise ShapeError(
                    f"argument {param.name} has {array.ndim} dimensions", f"{len(type_.shape)}"
                )
            values[param.name] = array
            shaped.append((param, array.shape, type_.shape))
            for found, size in zip(array.shape, type_.shape, strict=True):
                name = size.variable
                if name is not None and name not in values:
                    values[name] = found
        for derived in program.derived:
            values[derived.name] = derived.evaluate(values)
        for param, shape, declared in shaped:
            expected = tuple(map(self.extent, declared))
            if shape != expected:
                raise ShapeError(f"argument {param.name} has shape {shape}", f"shape {expected}")

    # ------------------------------------------------------------ atoms and sizes

    def atom(self, atom: fun.Atom) -> Value:
        """The value of a scalar."""
        return constant(atom) if isinstance(atom, fun.Const) else self.values[atom.name]

    def array(self, var: fun.Var) -> Value:
        """The value of an array, with batch axes when in a nest."""
        value = self.values[var.name]
        if self.rank and var.name not in self.batched:
            return value.reshape((1,) * self.rank + value.shape)
        return value

    def value(self, atom: fun.Atom) -> Value:
        if isinstance(atom, fun.Var) and isinstance(atom.type, fun.Array):
            return self.array(atom)
        return self.atom(atom)

    def size(self, size: Poly) -> Any:
        """The value of a polynomial: an int, or an array over the batch."""
        total: Any = 0
        values = self.values
        for monomial, factor in size.terms.items():
            product: Any = factor
            for name in monomial:
                value = values[name]
                product = product * (value if isinstance(value, np.ndarray) else int(value))
            total = total + product
        return total

    def extent(self, size: Poly) -> int:
        """The value of a polynomial that is the same at all active indices."""
        value = self.size(size)
        if isinstance(value, np.ndarray):
            active = self.active(value)
            if active.size == 0:
                return 0
            low = int(active.min())
            if low != int(active.max()):
                raise Irregular
            return low
        return int(value)

    def active(self, value: Any) -> Any:
        """The elements of a scalar at active indices."""
        if self.mask is None:
            return value
        both = np.broadcast_arrays(value, self.mask)
        return both[0][both[1]]

    # ------------------------------------------------------------ statements

    def body(self, body: fun.Body) -> list[Value]:
        for let in body.statements:
            self.let(let)
        return [self.value(result) for result in body.results]

    def bind(self, pattern: tuple[fun.Var, ...], values: Sequence[Value]) -> None:
        for var, value in zip(pattern, values, strict=True):
            self.values[var.name] = value
            if self.rank and isinstance(var.type, fun.Array):
                self.batched.add(var.name)

    def let(self, let: fun.Let) -> None:
        self.place = let.place
        expr = let.expr
        match expr:
            case fun.Apply(operation, arguments):
                apply = scalar_function(operation)
                self.values[let.pattern[0].name] = apply(*map(self.atom, arguments))
            case fun.Index():
                self.values[let.pattern[0].name] = self.index(expr)
            case fun.Kernel() | fun.Reduce() | fun.Scan() | fun.Scatter():
                self.bind(let.pattern, self.parallel(expr))
            case fun.SizeValue(size):
                self.values[let.pattern[0].name] = np.int64(self.size(size))
            case fun.Cast(dtype, argument):
                self.values[let.pattern[0].name] = table.cast_numpy(dtype, self.atom(argument))
            case fun.If():
                self.bind(let.pattern, self.branch(expr))
            case fun.Loop():
                self.bind(let.pattern, self.loop(expr))
            case fun.Call():
                self.bind(let.pattern, self.call(expr, let))
            case _:
                self.bind(let.pattern, (self.layout(expr),))

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
                    axis, extent = self.axes[monomial[0]]
                    step = factor
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
                if axis in order or not access.span_inside(start, extent, step, limit):
                    return None
                order.append(axis)
                if start == 0 and step == 1 and extent == limit:
                    key.append(slice(None))
                else:
                    key.append(access.span_slice(start, extent, step))
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
                out = np.logical_or(np.less(index[axis], lower), np.greater_equal(index[axis], upper))
                outside.append((out, rule.value))
                kept = np.logical_not(out)
                mask = kept if mask is None else np.logical_and(mask, kept)
            else:
                index[axis] = access.reflect_index(rule.kind, index[axis], lower, upper)
        for axis, limit in enumerate(limits):
            index[axis] = access.inside(index[axis], limit, mask, name, axis, place)
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
        return array[(*access.batch_index(array.shape[: self.rank], self.rank), *index)]

    # ------------------------------------------------------------ data parallelism

    def parallel(self, expr: Parallel) -> list[Value]:
        if self.rank:
            return self.vectorised(expr)
        try:
            self.rank = depth_of(expr)
            self.batched.clear()
            return self.vectorised(expr)
        except Irregular:
            self.leave_nest()
            return self.index_by_index(expr)
        finally:
            self.leave_nest()

    def leave_nest(self) -> None:
        self.rank = self.depth = 0
        self.mask = None
        self.batched.clear()

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
        if isinstance(expr, fun.Kernel):
            return arrays
        # The rest is regular: the same expression over the values just computed.
        indices = tuple(Poly.var(r.index.name) for r in expr.space)
        shape = tuple(r.extent for r in expr.space)
        statements = []
        for position, (type_, array) in enumerate(zip(types, arrays, strict=True)):
            source = fun.Var(f"{expr.space[0].index.name}.values{position}", fun.Array(type_.dtype, shape))
            self.values[source.name] = array
            read = fun.Var(f"{expr.space[0].index.name}.value{position}", type_)
            statements.append(fun.Let((read,), fun.Index(source, indices), self.place))
        body = fun.Body(tuple(statements), tuple(s.pattern[0] for s in statements))
        return self.parallel(replace(expr, body=body))

    def vectorised(self, expr: Parallel) -> list[Value]:
        first, outer = self.depth, self.mask
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
            self.depth, self.mask = first, outer
            for dimension in expr.space:
                self.axes.pop(dimension.index.name, None)
        return [self.own(value, first, kept) for value in values]

    def enter(self, space: tuple[fun.Range, ...]) -> tuple[int, ...]:
        """Give each index of the space its axis; extents that differ are masked."""
        extents = []
        masks = []
        for dimension in space:
            size = self.size(dimension.extent)
            name, axis = dimension.index.name, self.depth
            ragged = isinstance(size, np.ndarray)
            if ragged:
                active = self.active(size)
                extent = int(active.max(initial=0))
            else:
                extent = int(size)
            index = access.along(extent, axis, self.rank)
            if ragged and np.any(active != extent):
                masks.append(index < size)
            self.values[name] = index
            self.axes[name] = (axis, extent)
            extents.append(extent)
            self.depth += 1
        for mask in masks:
            self.mask = mask if self.mask is None else np.logical_and(self.mask, mask)
        return tuple(extents)

    def spread(self, value: Value, first: int, extents: tuple[int, ...]) -> Value:
        """The value with its full extent in the axes of a space."""
        if not isinstance(value, np.ndarray):
            return np.broadcast_to(value, (1,) * first + extents + (1,) * (self.rank - first - len(extents)))
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

    def operation(self, operator: fun.Lambda) -> Callable[[list[Value], list[Value]], list[Value]]:
        names = [param.name for param in operator.params]

        def combined(left: list[Value], right: list[Value]) -> list[Value]:
            for name, value in zip(names, left + right, strict=True):
                self.values[name] = value
            return self.body(operator.body)

        return combined

    def reduced(
        self, expr: fun.Reduce, values: list[Value], first: int, extents: tuple[int, ...], outer: Any
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
            return [combine.reduce_ufunc(u, v, axes) for u, v in zip(ufuncs, values, strict=True)]
        values = [combine.flatten_axes(value, axes) for value in values]
        return combine.reduce_tree(values, axes[0], self.operation(expr.operator))

    def scanned(
        self, expr: fun.Scan, values: list[Value], first: int, extents: tuple[int, ...], outer: Any
    ) -> list[Value]:
        values = [self.spread(value, first, extents) for value in values]
        self.mask = outer
        axis = first + len(extents) - 1
        one = (1,) * self.rank
        initial = [np.asarray(v).reshape(np.shape(v) or one) for v in map(self.atom, expr.initial)]
        values = [combine.join(i, v, axis) for i, v in zip(initial, values, strict=True)]
        ufuncs = combine.as_ufuncs(expr.operator)
        if ufuncs is not None:
            values = [u.accumulate(v, axis, v.dtype) for u, v in zip(ufuncs, values, strict=True)]
        else:
            values = combine.scan_steps(values, axis, self.operation(expr.operator))
        part = slice(0, -1) if expr.exclusive else slice(1, None)
        key = (slice(None),) * axis + (part,)
        return [self.spread(value[key], first, extents) for value in values]

    def scattered(
        self, expr: fun.Scatter, values: list[Value], first: int, extents: tuple[int, ...], outer: Any
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
            index.append(access.inside(values[axis], limits[axis], self.mask, name, axis, self.place))
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
            apply = self.operation(operator)
            combine.scatter_combined(fresh, at, values, lambda left, right: [
                np.broadcast_to(new, left[0].reshape(column).shape).ravel()
                for new in apply([a.reshape(column) for a in left], [a.reshape(column) for a in right])
            ])  # fmt: skip
            self.rank = outer

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
                index = self.lmad_index(array, offset, lmad_dims)
                return self.updated(array, [index], False, self.array(source), len(lmad_dims))
            case fun.Copy(array):
                return self.array(array)
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
                safe = access.inside(start, limits[axis], self.mask, array.name, axis, self.place)
                end = access.inside(last, limits[axis], self.mask, array.name, axis, self.place)
                regular = regular and safe == start and end == last
            if regular:
                whole = isinstance(dim, fun.Span)
                key.append(access.span_slice(start, extent, step) if whole else start)
        if regular:
            return tuple(key), True
        index = []
        for axis, (dim, start, extent) in enumerate(zip(dims, starts, extents, strict=True)):
            at = np.asarray(start)
            at = at.reshape(at.shape + (1,) * count) if at.ndim else at
            if isinstance(dim, fun.Span):
                at = at + dim.step * access.along(extent, self.rank + own, self.rank + count)
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
            position = access.along(self.extent(extent), self.rank + own, self.rank + len(dims))
            index = index + position * self.expanded(self.size(stride), len(dims))
        mask = None if self.mask is None else self.expanded(self.mask, len(dims))
        return access.inside(index, limit, mask, array.name, 0, self.place)

    def expanded(self, value: Value, count: int) -> Value:
        """A scalar of the nest, with `count` dimensions of extent 1 after its batch axes."""
        return value.reshape(value.shape + (1,) * count) if np.ndim(value) else value

    def picked(self, array: fun.Var, index: list[Value]) -> Value:
        value = self.array(array)
        shape = np.broadcast_shapes(*(np.shape(i) for i in index))
        if value.size == 0:
            return np.zeros(shape, value.dtype)
        batch = value.shape[: self.rank]
        found = value[(*access.batch_index(batch, len(shape)), *index)]
        return found

    def updated(
        self, array: fun.Var, key: Any, regular: bool, value: Value, count: int
    ) -> Value:
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
            new[(*access.batch_index(batch, len(whole)), *key)] = value
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

    # ------------------------------------------------------------ control

    def branch(self, expr: fun.If) -> list[Value]:
        condition = self.atom(expr.condition)
        if not isinstance(condition, np.ndarray):
            return self.body(expr.then if condition else expr.otherwise)
        active = self.active(condition)
        if active.all():
            return self.body(expr.then)
        if not active.any():
            return self.body(expr.otherwise)
        outer = self.mask
        try:
            self.mask = condition if outer is None else np.logical_and(condition, outer)
            then = self.body(expr.then)
            chosen = np.logical_not(condition)
            self.mask = chosen if outer is None else np.logical_and(chosen, outer)
            otherwise = self.body(expr.otherwise)
        finally:
            self.mask = outer
        return [self.select(condition, t, o) for t, o in zip(then, otherwise, strict=True)]

    def select(self, condition: Value, yes: Value, no: Value) -> Value:
        """Values (of one type) from one of two sides for each index of the nest."""
        rank = self.rank
        if np.shape(yes)[rank:] != np.shape(no)[rank:]:
            raise Irregular  # arrays whose extents differ between indices
        return np.where(self.expanded(condition, max(np.ndim(yes), np.ndim(no), rank) - rank), yes, no)

    def loop(self, expr: fun.Loop) -> list[Value]:
        self.bind(expr.params, [self.value(atom) for atom in expr.initial])
        outer = self.mask
        try:
            if isinstance(expr.form, fun.While):
                self.while_loop(expr, expr.form.condition, outer)
            else:
                self.for_loop(expr, expr.form, outer)
        finally:
            self.mask = outer
        return [self.value(param) for param in expr.params]

    def for_loop(self, expr: fun.Loop, form: fun.For, outer: Any) -> None:
        lower, upper = self.size(form.lower), self.size(form.upper)
        if not isinstance(lower, np.ndarray) and not isinstance(upper, np.ndarray):
            for at in range(int(lower), int(upper)):
                self.values[form.index.name] = np.int64(at)
                self.bind(expr.params, self.body(expr.body))
            return
        begin, end = (np.atleast_1d(self.active(np.asarray(limit))) for limit in (lower, upper))
        if not begin.size or not end.size:
            return
        for at in range(int(begin.min()), int(end.max())):
            active = np.logical_and(lower <= at, upper > at)
            self.values[form.index.name] = np.int64(at)
            self.round(expr, active if outer is None else np.logical_and(active, outer))

    def while_loop(self, expr: fun.Loop, condition: fun.Body, outer: Any) -> None:
        while True:
            self.mask = outer
            (active,) = self.body(condition)
            if not isinstance(active, np.ndarray):
                if not active or (outer is not None and not outer.any()):
                    return
                self.bind(expr.params, self.body(expr.body))
                continue
            active = active if outer is None else np.logical_and(active, outer)
            if not self.round(expr, active):
                return

    def round(self, expr: fun.Loop, active: Any) -> bool:
        """One round of a loop at active indices; whether there were any."""
        if not active.any():
            return False
        if active.all():
            self.bind(expr.params, self.body(expr.body))
            return True
        self.mask = active
        old = [self.value(param) for param in expr.params]
        new = self.body(expr.body)
        self.bind(expr.params, [self.select(active, n, o) for n, o in zip(new, old, strict=True)])
        return True

    def call(self, expr: fun.Call, let: fun.Let) -> Sequence[Value]:
        if self.rank:
            raise Irregular  # library routines run once for each index
        from weft.ops import routines

        return routines.call(expr.routine, list(map(self.value, expr.arguments)), dict(expr.options))
