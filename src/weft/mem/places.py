"""Where the arrays of a run of the FUNMEM interpreter lie: its blocks, and places in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import InternalError
from weft.fun import access
from weft.fun import nodes as fun
from weft.mem.heap import Heap, Kind, Located, Numbers, evaluator
from weft.mem.nodes import THREAD, THREADS, MemArray, Program
from weft.sizes import Size


class Places:
    """The memory of one run of a program, and the sizes and scalars that say where things are."""

    def __init__(
        self, program: Program, arguments: Sequence[Any], sizes: Mapping[str, int], heap: Heap
    ) -> None:
        self.mem = program
        self.choices = {choice.name: choice for choice in program.choices}
        self.values: dict[str, Any] = dict(sizes)
        self.heap = heap
        self.places: dict[int, Any] = {}  # by the identity of a type of the program
        for param, argument in zip(program.program.params, arguments, strict=True):
            self.give(param, argument)
        self.values.setdefault(THREADS, 1)
        self.values[THREAD] = 0
        for derived in program.program.derived:
            self.values[derived.name] = derived.evaluate(self.values)
        for block in program.blocks:
            kind: Kind = "thread" if block.per_thread else "shared"
            size = self.size(block.bytes)
            self.heap.allocate(block.name, size, kind)
            self.heap.costs.allocations += 1
            self.heap.costs.allocated_bytes += size
        donated = program.donated.values()
        for number, type_ in enumerate(program.destinations):
            if isinstance(type_, MemArray) and number not in donated:
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
        memory = self.heap.allocate(
            param.name, span if array.size else 0,
            "shared" if param.name in self.mem.donated else "given", -lowest if array.size else 0,
        )  # fmt: skip
        if array.size:
            whole = np.ndarray(array.shape, array.dtype, memory.data, -lowest, array.strides)
            whole[...] = array
        memory.flags[:] = 1

    def make_destination(self, type_: MemArray) -> None:
        """Row-major, and a little apart where strides are free."""
        free = [n for n in self.mem.strides if n.startswith(f"{type_.block}.stride")]
        step = 2 if f"{type_.block}.stride{type_.rank - 1}" in free else 1
        for axis in reversed(range(type_.rank)):
            self.values.setdefault(f"{type_.block}.stride{axis}", step)
            step = step * self.size(type_.shape[axis]) + 1
        at = self.where(type_)
        count = 1 + sum(max(e - 1, 0) * s for e, s in zip(at.shape, at.strides, strict=True))
        size = count * type_.dtype.itemsize if 0 not in at.shape else 0
        self.heap.allocate(type_.block, size, "shared")

    # ------------------------------------------------------------ arrays

    def size(self, size: Size) -> int:
        return evaluator((size,))(self.values)[0]

    def where(self, type_: MemArray) -> Located:
        """Where an array lies now."""
        found = self.places.get(id(type_))
        if found is None:
            index = type_.index
            count = 1 + type_.rank
            function = evaluator((index.offset, *type_.shape, *index.strides))
            found = self.places[id(type_)] = (type_, function, count)
        _, function, count = found
        numbers = function(self.values)
        block = type_.block
        if (choice := self.choices.get(block)) is not None:
            block = choice.blocks[self.size(choice.turn)]
        return Located(block, type_.dtype, numbers[0], numbers[1:count], numbers[count:])

    def at(self, atom: fun.Atom) -> Located:
        if isinstance(atom, fun.Var) and isinstance(atom.type, MemArray):
            return self.where(atom.type)
        raise InternalError(f"an array without memory: {atom}")

    def in_place(self, found: Located, wanted: Located, what: str) -> None:
        """Reject an array that is not in its destination."""
        if not found.same(wanted):
            raise self.heap.error(f"{what} is at {found}", f"{wanted}")

    def fill(self, var: fun.Var, values: Any) -> None:
        place = self.at(var)
        self.heap.write_all(place, place.numbers(), values)

    # ------------------------------------------------------------ elements

    def inside(self, index: Sequence[int], array: Located) -> None:
        for axis, (i, extent) in enumerate(zip(index, array.shape, strict=True)):
            if not 0 <= i < extent:
                raise access.out_of_bounds(i, extent, array.block, axis, self.heap.place)

    def part(self, numbers: Numbers, dims: tuple[fun.Span | Size, ...], array: Located) -> Numbers:
        """The numbers of the elements in a slice."""
        extents = [self.size(dim.extent) if isinstance(dim, fun.Span) else 1 for dim in dims]
        starts = [self.size(d.start if isinstance(d, fun.Span) else d) for d in dims]
        steps = [dim.step if isinstance(dim, fun.Span) else 0 for dim in dims]
        if 0 not in extents:
            self.inside(starts, array)
            ends = zip(starts, extents, steps, strict=True)
            self.inside([start + (extent - 1) * step for start, extent, step in ends], array)
        key: list[slice | int] = []
        for dim, start, extent in zip(dims, starts, extents, strict=True):
            if isinstance(dim, fun.Span):
                key.append(access.span_slice(start, extent, dim.step))
            else:
                key.append(slice(start, start + 1) if 0 in extents else start)
        if 0 in extents:
            shape = [e for e, dim in zip(extents, dims, strict=True) if isinstance(dim, fun.Span)]
            return np.empty(shape, np.int64)
        return np.asarray(numbers[tuple(key)])

    def lmad_part(
        self, numbers: Numbers, offset: Size, dims: tuple[tuple[Size, Size], ...], array: Located
    ) -> Numbers:
        """The numbers of the elements of an LMAD of an array of rank 1."""
        extents = evaluator(tuple(extent for extent, _ in dims))(self.values)
        strides = evaluator(tuple(stride for _, stride in dims))(self.values)
        at = array._replace(offset=self.size(offset), shape=extents, strides=strides).numbers()
        if at.size:
            for end in (int(at.min()), int(at.max())):
                self.inside([end], array)
        return numbers[at]
