"""The meaning of FUNMEM by heap: every element is read and written where its memory says.

Slow and plain, one element at a time: it is the test of the memory passes. Blocks begin as
noise, a thread's own again in each iteration of an outermost kernel, so that whatever is
read before it is written shows. It rejects

- accesses outside a block, or outside an array;
- two iterations of a kernel that write one element, or one that reads another's;
- results that are not where `introduce` says they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product as cartesian
from typing import Any, TypeAlias, assert_never

import numpy as np

from weft.errors import InternalError, Place
from weft.fun import access
from weft.fun import nodes as fun
from weft.mem.nodes import MemArray, Program
from weft.ops.table import cast_numpy, lookup
from weft.sizes import Size, as_poly

_NOISE = 0xA5

_Whereabouts: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]


@dataclass(slots=True)
class _Memory:
    """A block: bytes, and where the element [0, ..., 0] of a parameter lies in them."""

    data: Any
    origin: int = 0  # in bytes
    shared: bool = True

    def spoil(self) -> None:
        self.data[:] = _NOISE


@dataclass(slots=True)
class _Tracked:
    """What the iterations of one running kernel have written, and read."""

    iteration: int = 0
    writers: dict[tuple[str, int], int] = field(default_factory=dict)
    readers: dict[tuple[str, int], int] = field(default_factory=dict)


def interpret(
    program: Program, arguments: Sequence[Any], sizes: Mapping[str, int] | None = None
) -> tuple[Any, ...]:
    """Run a program; arguments and results as in `weft.fun.interpret.interpret`.

    Raises
    ------
    InternalError
        For what the module's docstring lists.
    OutOfBoundsError
        When an index is outside its array.
    """
    return _Heap(program, arguments, sizes or {}).run()


class _Heap:
    def __init__(
        self, program: Program, arguments: Sequence[Any], sizes: Mapping[str, int]
    ) -> None:
        self.mem = program
        self.values: dict[str, Any] = dict(sizes)
        self.blocks: dict[str, _Memory] = {}
        self.kernels: list[_Tracked] = []
        self.place: Place | None = None
        for param, argument in zip(program.program.params, arguments, strict=True):
            self.give(param, argument)
        self.values.setdefault("threads", 1)
        for derived in program.program.derived:
            self.values[derived.name] = derived.evaluate(self.values)
        for block in program.blocks:
            self.allocate(block.name, block.bytes, not block.per_thread)
        for type_ in program.destinations:
            if isinstance(type_, MemArray):
                self.make_destination(type_)

    def give(self, param: fun.Var, argument: Any) -> None:
        if isinstance(param.type, fun.Scalar):
            self.values[param.name] = param.type.dtype.numpy.type(argument)
            return
        type_ = param.type
        assert isinstance(type_, MemArray)
        array = np.asarray(argument, type_.dtype.numpy)
        for size, extent in zip(type_.shape, array.shape, strict=True):
            if (name := size.variable) is not None:
                self.values.setdefault(name, extent)
        strides = [stride // array.itemsize for stride in array.strides]
        if not any(name.startswith(f"{param.name}.stride") for name in self.mem.strides):
            array = np.ascontiguousarray(array).reshape(array.shape)
        for axis, stride in enumerate(strides):
            self.values[f"{param.name}.stride{axis}"] = stride
        lowest, span = 0, array.itemsize
        for extent, stride in zip(array.shape, array.strides, strict=True):
            reach = (extent - 1) * stride if extent else 0
            lowest, span = lowest + min(reach, 0), span + abs(reach)
        data = np.full(span if array.size else 0, _NOISE, np.uint8)
        whole = np.ndarray(array.shape, array.dtype, data, -lowest, array.strides)
        whole[...] = array
        self.blocks[param.name] = _Memory(data, -lowest)

    def allocate(self, name: str, size: Size, shared: bool) -> None:
        data = np.full(self.size(size), _NOISE, np.uint8)
        self.blocks[name] = _Memory(data, shared=shared)

    def make_destination(self, type_: MemArray) -> None:
        """Row-major, and a little apart where strides are free."""
        free = [n for n in self.mem.strides if n.startswith(f"{type_.block}.stride")]
        step = 2 if f"{type_.block}.stride{type_.rank - 1}" in free else 1
        for axis in reversed(range(type_.rank)):
            self.values.setdefault(f"{type_.block}.stride{axis}", step)
            step = step * self.size(type_.shape[axis]) + 1
        shape, (_, *strides) = self.shape(type_), self.function(type_)
        count = 1 + sum(max(e - 1, 0) * s for e, s in zip(shape, strides, strict=True))
        data = np.full(count * type_.dtype.itemsize if 0 not in shape else 0, _NOISE, np.uint8)
        self.blocks[type_.block] = _Memory(data)

    def run(self) -> tuple[Any, ...]:
        values = self.body(self.mem.program.body)
        results = []
        for value, atom, wanted in zip(
            values, self.mem.program.body.results, self.mem.destinations, strict=True
        ):
            if isinstance(wanted, MemArray):
                self.in_place(self.where(atom), wanted, "a result")
                results.append(self.whole(wanted))
            else:
                results.append(value)
        return tuple(results)

    # ------------------------------------------------------------ elements

    def size(self, size: Size) -> int:
        return int(size.evaluate(self.values))

    def shape(self, type_: MemArray) -> tuple[int, ...]:
        return tuple(map(self.size, type_.shape))

    def function(self, type_: MemArray) -> tuple[int, ...]:
        """Offset and strides of an index function."""
        return (self.size(type_.index.offset), *map(self.size, type_.index.strides))

    def location(self, type_: MemArray, index: Sequence[int]) -> tuple[_Memory, int]:
        for axis, (i, extent) in enumerate(zip(index, self.shape(type_), strict=True)):
            if not 0 <= i < extent:
                raise access.out_of_bounds(i, extent, type_.block, axis, self.place)
        offset, *strides = self.function(type_)
        element = offset + sum(i * s for i, s in zip(index, strides, strict=True))
        memory = self.blocks[type_.block]
        byte = memory.origin + element * type_.dtype.itemsize
        if not 0 <= byte <= len(memory.data) - type_.dtype.itemsize:
            raise InternalError(f"element {element} is outside block {type_.block}: {type_}")
        return memory, byte

    def read(self, type_: MemArray, index: Sequence[int]) -> Any:
        memory, byte = self.location(type_, index)
        if memory.shared:
            for kernel in self.kernels:
                writer = kernel.writers.get((type_.block, byte), kernel.iteration)
                if writer != kernel.iteration:
                    self.race(type_, byte, "reads", "writes", kernel.iteration, writer)
                kernel.readers[type_.block, byte] = kernel.iteration
        size = type_.dtype.itemsize
        return memory.data[byte : byte + size].view(type_.dtype.numpy)[0]

    def write(self, type_: MemArray, index: Sequence[int], value: Any) -> None:
        memory, byte = self.location(type_, index)
        if memory.shared:
            for kernel in self.kernels:
                for what, seen in (("writes", kernel.writers), ("reads", kernel.readers)):
                    other = seen.get((type_.block, byte), kernel.iteration)
                    if other != kernel.iteration:
                        self.race(type_, byte, "writes", what, kernel.iteration, other)
                kernel.writers[type_.block, byte] = kernel.iteration
        cell = memory.data[byte : byte + type_.dtype.itemsize].view(type_.dtype.numpy)
        cell[0] = value

    def race(self, type_: MemArray, byte: int, this: str, that: str, left: int, right: int) -> None:
        raise InternalError(
            f"iteration {left} {this} what iteration {right} {that}: "
            f"byte {byte} of block {type_.block}",
            "iterations of a kernel that do not meet",
        )

    def whole(self, type_: MemArray) -> Any:
        result = np.empty(self.shape(type_), type_.dtype.numpy)
        for index in np.ndindex(result.shape):
            result[index] = self.read(type_, index)
        return result

    def fill(self, type_: MemArray, values: Any) -> None:
        for index in np.ndindex(self.shape(type_)):
            self.write(type_, index, values[index])

    def memory(self, atom: fun.Atom) -> MemArray:
        if isinstance(atom, fun.Var) and isinstance(atom.type, MemArray):
            return atom.type
        raise InternalError(f"an array without memory: {atom}")

    def where(self, atom: fun.Atom) -> _Whereabouts:
        """Where an array lies now, as numbers: block, shape, offset and strides."""
        type_ = self.memory(atom)
        return type_.block, self.shape(type_), self.function(type_)

    def in_place(self, found: _Whereabouts, wanted: MemArray, what: str) -> None:
        """Reject an array that is not in its destination."""
        block, shape, function = found
        same = block == wanted.block and shape == self.shape(wanted)
        for extent, left, right in zip((2, *shape), function, self.function(wanted), strict=True):
            same = same and (left == right or extent == 1)
        if not same and 0 not in shape:
            raise InternalError(f"{what} is at {block} + {function}", f"{wanted}")

    # ------------------------------------------------------------ bodies and statements

    def atom(self, atom: fun.Atom) -> Any:
        if isinstance(atom, fun.Const):
            return atom.dtype.numpy.type(atom.value)
        if isinstance(atom.type, fun.Array):
            return None
        return self.values[atom.name]

    def body(self, body: fun.Body) -> list[Any]:
        for let in body.statements:
            self.place = let.place
            values = self.expr(let.expr, let.pattern)
            for var, value in zip(let.pattern, values, strict=True):
                if isinstance(var.type, fun.Scalar):
                    self.values[var.name] = value
        return list(map(self.atom, body.results))

    def expr(self, expr: fun.Expr, pattern: tuple[fun.Var, ...]) -> list[Any]:
        match expr:
            case fun.Apply(operation, arguments):
                return [lookup(operation).numpy(*map(self.atom, arguments))]
            case fun.Cast(dtype, argument):
                return [cast_numpy(dtype, self.atom(argument))]
            case fun.SizeValue(size):
                return [np.int64(self.size(size))]
            case fun.Index():
                return [self.index(expr)]
            case fun.Slice() | fun.LmadSlice() | fun.Permute() | fun.Reshape():
                return [None]
            case fun.Broadcast(atom, _):
                if isinstance(atom.type, fun.Scalar):
                    type_ = self.memory(pattern[0])
                    self.fill(type_, np.full(self.shape(type_), self.atom(atom)))
                return [None]
            case fun.Kernel():
                return self.kernel(expr, pattern)
            case fun.Reduce():
                return self.reduce(expr, pattern)
            case fun.Scan():
                return self.scan(expr, pattern)
            case fun.Scatter():
                return self.scatter(expr, pattern)
            case fun.Concat(arrays, axis):
                parts = [self.whole(self.memory(array)) for array in arrays]
                self.fill(self.memory(pattern[0]), np.concatenate(parts, axis))
                return [None]
            case fun.Copy(array):
                self.fill(self.memory(pattern[0]), self.whole(self.memory(array)))
                return [None]
            case fun.Update() | fun.LmadUpdate():
                return self.update(expr, pattern)
            case fun.If(condition, then, otherwise):
                chosen = then if self.atom(condition) else otherwise
                values = self.body(chosen)
                for result, var in zip(chosen.results, pattern, strict=True):
                    if isinstance(var.type, MemArray):
                        self.in_place(self.where(result), var.type, "the result of a branch")
                return values
            case fun.Loop():
                return self.loop(expr, pattern)
            case fun.Call():
                raise InternalError("a library routine inside compiled code")
            case _:
                assert_never(expr)

    def index(self, expr: fun.Index) -> Any:
        type_ = self.memory(expr.array)
        index = [self.size(i) for i in expr.indices]
        outside: fun.Const | None = None
        for axis, rule in enumerate(expr.boundary):
            if rule is None:
                continue
            lower, upper = self.size(rule.lower), self.size(rule.upper)
            if lower <= index[axis] < upper:
                continue
            if rule.kind == "constant":
                outside = rule.value
            else:
                index[axis] = int(access.reflect_index(rule.kind, index[axis], lower, upper))
        return self.atom(outside) if outside is not None else self.read(type_, index)

    # ------------------------------------------------------------ data parallelism

    def points(self, space: tuple[fun.Range, ...]) -> Iterator[tuple[int, ...]]:
        """The indices of a space in order, each bound while it is yielded."""

        def inside(depth: int) -> Iterator[tuple[int, ...]]:
            if depth == len(space):
                yield ()
                return
            for i in range(self.size(space[depth].extent)):
                self.values[space[depth].index.name] = np.int64(i)
                for rest in inside(depth + 1):
                    yield (i, *rest)

        return inside(0)

    def kernel(self, expr: fun.Kernel, pattern: tuple[fun.Var, ...]) -> list[Any]:
        tracked = _Tracked()
        self.kernels.append(tracked)
        for index in self.points(expr.space):
            tracked.iteration += 1
            if len(self.kernels) == 1:
                for memory in self.blocks.values():
                    if not memory.shared:
                        memory.spoil()
            values = self.body(expr.body)
            for value, result, var in zip(values, expr.body.results, pattern, strict=True):
                outer = self.memory(var)
                if isinstance(result.type, fun.Scalar):
                    self.write(outer, index, value)
                    continue
                fixed = outer.index.fix(tuple(map(as_poly, index)))
                inner = MemArray(outer.dtype, outer.shape[len(index) :], outer.block, fixed)
                self.in_place(self.where(result), inner, "the result of an iteration")
        self.kernels.pop()
        return [None] * len(pattern)

    def reduce(self, expr: fun.Reduce, pattern: tuple[fun.Var, ...]) -> list[Any]:
        kept = expr.space[: len(expr.space) - expr.reduced]
        totals: list[Any] = []
        for index in self.points(kept):
            totals = list(map(self.atom, expr.neutral))
            for _ in self.points(expr.space[len(kept) :]):
                totals = self.apply(expr.operator, [*totals, *self.body(expr.body)])
            if kept:
                for total, var in zip(totals, pattern, strict=True):
                    self.write(self.memory(var), index, total)
        return totals if not kept else [None] * len(pattern)

    def scan(self, expr: fun.Scan, pattern: tuple[fun.Var, ...]) -> list[Any]:
        for index in self.points(expr.space[:-1]):
            running = list(map(self.atom, expr.initial))
            for (last,) in self.points(expr.space[-1:]):
                before = running
                running = self.apply(expr.operator, [*running, *self.body(expr.body)])
                for value, var in zip(before if expr.exclusive else running, pattern, strict=True):
                    self.write(self.memory(var), (*index, last), value)
        return [None] * len(pattern)

    def apply(self, function: fun.Lambda, arguments: list[Any]) -> list[Any]:
        for param, value in zip(function.params, arguments, strict=True):
            self.values[param.name] = value
        return self.body(function.body)

    def scatter(self, expr: fun.Scatter, pattern: tuple[fun.Var, ...]) -> list[Any]:
        types = [self.memory(var) for var in pattern]
        for destination, type_ in zip(expr.destinations, types, strict=True):
            self.in_place(self.where(destination), type_, "the destination of a scatter")
        rank = types[0].rank
        for _ in self.points(expr.space):
            values = self.body(expr.body)
            index, values = [int(i) for i in values[:rank]], values[rank:]
            if expr.operator is not None:
                old = [self.read(type_, index) for type_ in types]
                values = self.apply(expr.operator, [*old, *values])
            for type_, value in zip(types, values, strict=True):
                self.write(type_, index, value)
        return [None] * len(pattern)

    # ------------------------------------------------------------ updates and loops

    def update(self, expr: fun.Update | fun.LmadUpdate, pattern: tuple[fun.Var, ...]) -> list[Any]:
        type_ = self.memory(pattern[0])
        self.in_place(self.where(expr.array), type_, "the array of an update")
        ranges: list[range] = []
        if isinstance(expr, fun.LmadUpdate):
            offset = self.size(expr.offset)
            steps = [(self.size(extent), self.size(stride)) for extent, stride in expr.dims]
            for index in cartesian(*(range(extent) for extent, _ in steps)):
                at = offset + sum(i * s for i, (_, s) in zip(index, steps, strict=True))
                self.write(type_, (at,), self.read(self.memory(expr.value), index))
            return [None]
        spans = []
        for dim in expr.dims:
            if isinstance(dim, fun.Span):
                start, extent = self.size(dim.start), self.size(dim.extent)
                ranges.append(range(extent))
                spans.append((start, dim.step, len(ranges) - 1))
            else:
                spans.append((self.size(dim), 0, -1))
        for index in cartesian(*ranges):
            place = [s + (step * index[axis] if axis >= 0 else 0) for s, step, axis in spans]
            is_scalar = isinstance(expr.value.type, fun.Scalar)
            value = (
                self.atom(expr.value) if is_scalar else self.read(self.memory(expr.value), index)
            )
            self.write(type_, place, value)
        return [None]

    def loop(self, expr: fun.Loop, pattern: tuple[fun.Var, ...]) -> list[Any]:
        values = list(map(self.atom, expr.initial))
        self.bind(expr.params, expr.initial, values, "the initial value of a loop")
        match expr.form:
            case fun.For(index, lower, upper):
                for i in range(self.size(lower), self.size(upper)):
                    self.values[index.name] = np.int64(i)
                    values = self.body(expr.body)
                    self.bind(expr.params, expr.body.results, values, "the result of a round")
            case fun.While(condition):
                while self.body(condition)[0]:
                    values = self.body(expr.body)
                    self.bind(expr.params, expr.body.results, values, "the result of a round")
            case _:
                assert_never(expr.form)
        self.bind(pattern, expr.params, values, "the result of a loop")
        return values

    def bind(
        self, params: Sequence[fun.Var], atoms: Sequence[fun.Atom], values: list[Any], what: str
    ) -> None:
        """Give values to scalars; what is in memory must be where the parameter is then."""
        places = [self.where(a) if isinstance(a.type, fun.Array) else None for a in atoms]
        for param, value in zip(params, values, strict=True):
            if isinstance(param.type, fun.Scalar):
                self.values[param.name] = value
        for param, place in zip(params, places, strict=True):
            if isinstance(param.type, MemArray):
                assert place is not None
                self.in_place(place, param.type, what)
