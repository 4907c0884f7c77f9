"""Projected index functions: where the arrays of a block lie when one of them moves.

let a @ mem_a + {(n : m), (m : 1)} = kernel ..        let a @ ys + i*m*n + {(n : 1), (m : n)} = ..
let b @ mem_a + {(m : 1), (n : m)} = permute a   =>   let b @ ys + i*m*n + {(m : n), (n : 1)} = ..
let c = ys with [i] = b                               let c = ys with [i] = b

Sections 6.3 and 6.4.1 of Munksgaard's thesis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from weft.fun import nodes as fun
from weft.fun import walk
from weft.lmad import Lmad
from weft.mem import layout
from weft.mem.aliases import looked_at, overwritten
from weft.mem.nodes import MemArray, Program
from weft.mem.scope import Scope, ranges_of
from weft.records import dataclass
from weft.sizes import ONE, ZERO, Poly, Size, product


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """A safety condition that does not hold: its name, and what was found."""

    def __init__(self, condition: str, found: str) -> None:
        super().__init__(condition, found)
        self.condition = condition
        self.found = found


@dataclass(slots=True)
class Arrays:
    """Where each array of a program lies, and which statement binds it.

    Attributes
    ----------
    memory : dict
        By the name of the array.
    members : dict
        For each block the names of the arrays in it.
    bound_by : dict
        By the name of the array; parameters are bound by none.
    """

    memory: dict[str, MemArray] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    bound_by: dict[str, fun.Let] = field(default_factory=dict)

    @staticmethod
    def of(program: Program) -> Arrays:
        arrays = Arrays()
        for param in program.program.params:
            arrays.add(param)
        for let in walk.statements(program.program.body):
            for var in let.pattern:
                arrays.add(var)
                arrays.bound_by[var.name] = let
            if isinstance(let.expr, fun.Loop):
                for param in let.expr.params:
                    arrays.add(param)
        return arrays

    def add(self, var: fun.Var) -> None:
        if isinstance(var.type, MemArray):
            self.memory[var.name] = var.type
            self.members.setdefault(var.type.block, set()).add(var.name)

    def of_atom(self, atom: fun.Atom) -> MemArray | None:
        return self.memory.get(atom.name) if isinstance(atom, fun.Var) else None

    def move(self, moved: Mapping[str, MemArray]) -> None:
        for name, memory in moved.items():
            self.members[self.memory[name].block].discard(name)
            self.members.setdefault(memory.block, set()).add(name)
            self.memory[name] = memory


def project(
    arrays: Arrays, statements: Sequence[fun.Let], source: str, target: MemArray, scope: Scope
) -> dict[str, MemArray]:
    """The memory of every array of the source's block when the source lies at `target`.

    Parameters
    ----------
    statements : sequence of fun.Let
        In which all arrays of that block are bound, in order.
    scope : Scope
        At the first of them.

    Raises
    ------
    Refused
        Where a layout change cannot be undone, or no index function expresses an alias.
    """
    made, index = _creation(arrays, source, target.index)
    projection = _Projection(arrays, arrays.memory[source].block, target.block, scope)
    projection.place(arrays.memory[made].index, index)
    projection.body(statements)
    return projection.moved


def _creation(arrays: Arrays, name: str, index: Lmad) -> tuple[str, Lmad]:
    """The array of which `name` is a view or an update, and its index function."""
    while True:
        if name not in arrays.bound_by:  # a parameter: of the program, or of a loop
            raise Refused("creation", f"{name} is made outside of this body")
        match (let := arrays.bound_by[name]).expr:
            case fun.Permute(array, axes):
                name, index = array.name, index.unpermute(axes)
            case fun.Reshape(array) if _within(arrays, name, array):
                found = index.reshape(walk.type_sizes(array.type))
                if found is None:
                    raise Refused(
                        "layout", f"{name} is {array.name} in another shape, and no one "
                        f"index function gives {array.name} at {index}",
                    )  # fmt: skip
                name, index = array.name, found
            case fun.Slice(array, dims):
                name, index = array.name, _unsliced(name, array, dims, index)
            case fun.LmadSlice(array) | fun.Broadcast(fun.Var() as array) if _within(
                arrays, name, array
            ):
                raise Refused("layout", f"{name} is only a part of {array.name}, or repeats it")
            case fun.Update() | fun.LmadUpdate() | fun.Scatter():
                (name,) = [
                    target.name
                    for target, var, _ in overwritten(let.expr, let.pattern)
                    if var.name == name
                ]
            case fun.Loop():
                place = [var.name for var in let.pattern].index(name)
                first = let.expr.initial[place]
                assert isinstance(first, fun.Var)
                if not layout.same(arrays.memory[first.name], arrays.memory[name]):
                    raise Refused(
                        "layout", f"{name} lies in one of two buffers that a loop alternates"
                    )
                name = first.name
            case _:
                return name, index


def _within(arrays: Arrays, view: str, array: fun.Var) -> bool:
    """Whether a reshape or broadcast is a view of an array, not memory of its own."""
    if isinstance(array.type, fun.Scalar):
        return False
    return arrays.memory[view].block == arrays.memory[array.name].block


def _unsliced(name: str, array: fun.Var, dims: tuple[fun.Span | Size, ...], index: Lmad) -> Lmad:
    """The index function of an array of which a slice, of all its elements, is at `index`."""
    offset, kept = index.offset, iter(index.dims)
    whole: list[tuple[Size, Size]] = []
    for dim, extent in zip(dims, walk.type_sizes(array.type), strict=True):
        if not isinstance(dim, fun.Span):
            if extent != ONE:
                raise Refused("layout", f"{name} is only a part of {array.name}")
            whole.append((ONE, ZERO))
            continue
        _, stride = next(kept)
        if dim.extent == extent and (dim.step == 1 or extent == ONE):
            whole.append((extent, stride))
        elif dim.extent == extent and dim.step == -1:  # backwards: a[j] is at extent - 1 - j
            offset = offset + (extent - 1) * stride
            whole.append((extent, -stride))
        else:
            raise Refused("layout", f"{name} is only a part of {array.name}")
    return Lmad(offset, tuple(whole))


class _Projection:
    """Downwards from where an array is made, all that lies in its block."""

    def __init__(self, arrays: Arrays, block: str, target: str, scope: Scope) -> None:
        self.arrays = arrays
        self.block = block
        self.target = target
        self.scope = scope
        self.places: dict[Lmad, Lmad] = {}  # index functions at which arrays are made, new ones
        self.run: tuple[Size, Size, Size] | None = None  # elements: where, how far apart, count
        self.moved: dict[str, MemArray] = {}

    def place(self, old: Lmad, new: Lmad) -> None:
        self.places[_key(old)] = new
        if self.run is None and old.same(Lmad.row_major(old.shape)):
            flat = new.reshape((product(new.shape),))
            if flat is not None:
                count, step = flat.dims[0]
                self.run = flat.offset, step, count

    def put(self, var: fun.Var, index: Lmad) -> None:
        old = self.arrays.memory[var.name]
        self.moved[var.name] = replace(old, block=self.target, index=index)

    def here(self, atom: fun.Atom) -> bool:
        memory = self.arrays.of_atom(atom)
        return memory is not None and memory.block == self.block

    def made(self, var: fun.Var) -> Lmad:
        """Where an array is made instead."""
        old = self.arrays.memory[var.name].index
        new = self.places.get(_key(old))
        if new is None and self.run is not None:
            start, step, count = self.run
            if not self.among(old, count):
                raise Refused("layout", f"{var.name} is in the same memory, not within the source")
            dims = tuple((extent, stride * step) for extent, stride in old.dims)
            new = Lmad(start + old.offset * step, dims)
        if new is None:
            raise Refused("layout", f"{var.name} is in the same memory in another layout")
        return new

    def among(self, index: Lmad, count: Size) -> bool:
        """Whether the elements are proved to be among the first `count` of the block."""
        return self.scope.lies_inside(self.scope.resolve(index), self.scope.resolved(count))

    def body(self, statements: Sequence[fun.Let]) -> None:
        for let in statements:
            self.statement(let)

    def statement(self, let: fun.Let) -> None:
        expr = let.expr
        if isinstance(expr, walk.SCALARS):
            return
        if isinstance(expr, fun.Loop):
            self.loop(let, expr)
            return
        viewed = looked_at(expr)
        for number, var in enumerate(let.pattern):
            if not self.here(var):
                continue
            if viewed is not None and self.here(viewed):
                assert isinstance(expr, fun.LAYOUT_CHANGES)
                index = layout.of_view(expr, self.moved[viewed.name].index)
                if index is None:
                    raise Refused(
                        "layout", f"{var.name} is {viewed.name} in another shape, which no one "
                        "index function would give",
                    )  # fmt: skip
            elif isinstance(expr, fun.Update | fun.LmadUpdate | fun.Scatter):
                target = overwritten(expr, let.pattern)[number][0]
                index = self.moved[target.name].index
            else:
                index = self.made(var)
            self.put(var, index)
        for inner in walk.bodies(expr):
            ends: list[Lmad | None] = [None] * len(inner.results)
            if isinstance(expr, fun.Kernel):
                ends = self.enter(let.pattern, expr)
            elif isinstance(expr, fun.If):
                ends = [self.moved[v.name].index if self.here(v) else None for v in let.pattern]
            with self.scope.inside(ranges_of(expr)):
                self.body(inner.statements)
            self.end(inner, ends)

    def enter(self, pattern: Sequence[fun.Var], kernel: fun.Kernel) -> list[Lmad | None]:
        """Where the arrays of a kernel's body must lie, for each result."""
        indices = tuple(Poly.var(r.index.name) for r in kernel.space)
        ends: list[Lmad | None] = []
        for var, result in zip(pattern, kernel.body.results, strict=True):
            end = None
            if self.here(var) and isinstance(result.type, fun.Array):
                end = self.moved[var.name].index.fix(indices)
                self.place(self.arrays.memory[var.name].index.fix(indices), end)
            ends.append(end)
        return ends

    def end(self, body: fun.Body, ends: Sequence[Lmad | None]) -> None:
        for result, end in zip(body.results, ends, strict=True):
            if end is not None and isinstance(result, fun.Var):
                moved = self.moved.get(result.name)
                if moved is None or not moved.index.same(end):
                    raise Refused("layout", f"{result.name} would not be where its result is")

    def loop(self, let: fun.Let, loop: fun.Loop) -> None:
        ends: list[Lmad | None] = []
        for param, first, result in zip(loop.params, loop.initial, let.pattern, strict=True):
            if not self.here(param):
                ends.append(None)
                continue
            memory = self.arrays.memory
            assert isinstance(first, fun.Var)
            if not layout.same(memory[first.name], memory[param.name]):
                raise Refused("layout", f"a loop alternates between two buffers for {param.name}")
            index = self.moved[first.name].index
            self.put(param, index)
            self.put(result, index)
            ends.append(index)
        with self.scope.inside(ranges_of(loop)):
            for inner in walk.bodies(loop):
                self.body(inner.statements)
        self.end(loop.body, ends)


def _key(index: Lmad) -> Lmad:
    """Strides of single elements do not matter."""
    return Lmad(index.offset, tuple((e, ZERO if e == ONE else s) for e, s in index.dims))
