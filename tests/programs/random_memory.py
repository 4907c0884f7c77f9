"""Random programs that try the passes over memory: `generate(random)` and `memory_programs()`.

Arrays are made (also turned, reshaped, joined, in rows, by loops and branches) and written
into parts of others, with reads of what is overwritten before and after; some of that may
happen in place and some may not. Values are small integers, so every sum is exact, and
differ between elements, so that what is misplaced shows.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from programs.random_data import Case
from weft.fun import nodes as fun
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size, as_poly, product

I64, BOOL = fun.Scalar(DType.I64), fun.Scalar(DType.BOOL)
EXTENTS = (2, 2, 3, 5)  # sizes are at least 2; smaller extents come from arithmetic
Dims = tuple[fun.Span | Size, ...]


def memory_programs(statements: int = 4) -> st.SearchStrategy[Case]:
    """A strategy of random programs with their arguments."""
    return st.randoms(use_true_random=False).map(lambda source: generate(source, statements))


def generate(source: random.Random, statements: int = 4) -> Case:
    """A random program of about that many groups of statements, and arguments for it."""
    sizes = {name: source.choice(EXTENTS) for name in ("n", "m", "k")}
    generator = _Generator(source, sizes, Names(sizes))
    builder = Builder(generator.names)
    arrays, arguments = [], []
    for _ in range(source.randint(1, 2)):
        type_ = fun.Array(generator.dtype(), generator.shape())
        arrays.append(fun.Var(generator.names.fresh("a"), type_))
        shape = tuple(map(generator.value, type_.shape))
        values = np.arange(1, 1 + int(np.prod(shape))) * source.choice([1, -2, 3])
        arguments.append(values.reshape(shape).astype(type_.dtype.numpy))
    choice = fun.Var(generator.names.fresh("s"), I64)
    arguments.append(np.int64(source.randint(0, 2)))
    scope = Scope(builder, list(arrays), [], choice)
    for _ in range(source.randint(1, statements)):
        generator.group(scope)
        if generator.chance(60):
            generator.observe(scope)
    results = [scope.arrays[-1], *scope.scalars]
    results += [source.choice(scope.arrays) for _ in range(source.randint(0, 2))]
    program = fun.Program("random", (*arrays, choice), builder.body(results), tuple(sizes))
    return Case(program, tuple(arguments), sizes)


@dataclass
class Scope:
    """What a body sees: arrays, what was observed of some, indices and their extents."""

    builder: Builder
    arrays: list[fun.Var]
    indices: list[tuple[Size, Size]]
    choice: fun.Var
    scalars: list[fun.Var] = field(default_factory=list)
    depth: int = 0

    def inner(self, indices: list[tuple[Size, Size]]) -> Scope:
        return Scope(
            self.builder.inner(), list(self.arrays), [*self.indices, *indices], self.choice,
            list(self.scalars), self.depth + 1,
        )  # fmt: skip

    def let(self, expr: fun.Expr, type_: fun.Type, base: str = "t") -> fun.Var:
        var = self.builder.let(expr, type_, base)
        if isinstance(type_, fun.Array):
            self.arrays.append(var)
        return var


@dataclass
class _Generator:
    random: random.Random
    sizes: dict[str, int]
    names: Names

    # ------------------------------------------------------------ decisions

    def pick(self, items: Any) -> Any:
        return self.random.choice(list(items))

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def value(self, size: Size) -> int:
        return size.evaluate(self.sizes)

    def dtype(self) -> DType:
        return self.pick([DType.F64] * 4 + [DType.I32])

    def shape(self) -> tuple[Size, ...]:
        n, m, k = (Poly.var(name) for name in self.sizes)
        dims = [n, n, n, m, m, k, n + 1, n - 1, n - 2, as_poly(1), as_poly(2), as_poly(3)]
        return tuple(self.pick(dims) for _ in range(self.pick([1, 1, 2, 2, 2, 3])))

    def array(self, scope: Scope, suits: Callable[[fun.Var], bool] = lambda v: True) -> fun.Var:
        """An array in scope, rather a late one; a new one where none suits."""
        found = [var for var in scope.arrays if suits(var)]
        return self.pick(found[-4:] * 3 + found) if found else self.made(scope)

    # ------------------------------------------------------------ groups of statements

    def group(self, scope: Scope) -> fun.Var:
        forms = [self.update] * 6 + [self.lmad_update] * 2 + [self.concat] * 3
        forms += [self.made] * 2 + [self.view] * 2 + [self.scatter, self.sums, self.copy]
        if scope.depth < 2:
            forms += [self.loop] * 3 + [self.branch] * 2 + [self.rows] * 3
        form: Callable[[Scope], fun.Var] = self.pick(forms)
        return form(scope)

    def update(self, scope: Scope) -> fun.Var:
        """An array, a part of it, and what is written there; other statements between."""
        target = self.made(scope) if self.chance(40) else self.array(scope)
        dims, shape = self.window(scope, target)
        if not shape:
            value: fun.Atom = self.constant(target.type.dtype)
        else:
            value = self.source(scope, target, shape)
        if self.chance(20):
            self.made(scope, reads=[target])
        return scope.let(fun.Update(target, dims, value), target.type, "u")

    def source(self, scope: Scope, target: fun.Var, shape: tuple[Size, ...]) -> fun.Var:
        """What a part of the target is to be."""
        dtype = target.type.dtype
        wanted = fun.Array(dtype, shape)
        if self.chance(15):
            found = [var for var in scope.arrays if var.type == wanted]
            if found:
                return self.pick(found)
        if self.chance(15):  # a part of the target itself, which may overlap
            for _ in range(4):
                dims, own = self.window(scope, target)
                if own == shape:
                    return scope.let(fun.Slice(target, dims), wanted, "v")
        reads = [target] if self.chance(50) else []
        made = self.made(scope, wanted, reads)
        if self.chance(20):
            self.made(scope, reads=[self.pick([made, target])])
        return made

    def lmad_update(self, scope: Scope) -> fun.Var:
        """Elements of a flat array, met once each: rows that do not reach into each other."""
        target = self.array(scope)
        if target.type.rank > 1:
            flat = fun.Array(target.type.dtype, (product(target.type.shape),))
            target = scope.let(fun.Reshape(target, flat.shape), flat, "f")
        count = self.value(target.type.shape[0])
        if count == 0:
            return target
        step = self.random.randint(1, 3)
        columns = self.random.randint(1, 1 + (count - 1) // step)
        pitch = (columns - 1) * step + self.random.randint(1, 3)
        room = count - 1 - (columns - 1) * step
        rows = self.random.randint(1, 1 + room // pitch)
        offset = self.random.randint(0, room - (rows - 1) * pitch)
        dims = [(as_poly(rows), as_poly(pitch)), (as_poly(columns), as_poly(step))]
        if self.chance(30):
            dims.reverse()
        start = as_poly(offset)
        shape = tuple(extent for extent, _ in dims)
        if self.chance(25):  # a read of what may be overwritten
            view = fun.Array(target.type.dtype, shape)
            scope.let(fun.LmadSlice(target, start, tuple(dims)), view, "v")
        value = self.source(scope, target, shape)
        return scope.let(fun.LmadUpdate(target, start, tuple(dims), value), target.type, "u")

    def concat(self, scope: Scope, type_: fun.Array | None = None) -> fun.Var:
        if type_ is None:
            first = self.array(scope)
            axis = self.random.randrange(first.type.rank)
            parts = [first]
            shape = list(first.type.shape)
            for _ in range(self.random.randint(1, 2)):
                shape[axis] = self.pick([first.type.shape[axis], ONE, as_poly(2)])
                like = fun.Array(first.type.dtype, tuple(shape))
                same = [var for var in scope.arrays if var.type == like]
                parts.append(
                    self.pick(same) if same and self.chance(30) else self.made(scope, like)
                )
            self.random.shuffle(parts)
        else:
            axis = self.pick([d for d, e in enumerate(type_.shape) if self.value(e) >= 1])
            extent = type_.shape[axis]
            parts = []
            for part in self.pick([(ONE, extent - 1), (extent - 1, ONE)]):
                shape = list(type_.shape)
                shape[axis] = part
                parts.append(self.made(scope, fun.Array(type_.dtype, tuple(shape))))
        total = ZERO
        for part in parts:
            total = total + part.type.shape[axis]
        whole = (*parts[0].type.shape[:axis], total, *parts[0].type.shape[axis + 1 :])
        joined = fun.Array(parts[0].type.dtype, whole)
        return scope.let(fun.Concat(tuple(parts), axis), joined, "c")

    def copy(self, scope: Scope) -> fun.Var:
        array = self.array(scope)
        return scope.let(fun.Copy(array), array.type, "c")

    def view(self, scope: Scope) -> fun.Var:
        array = self.array(scope)
        type_ = array.type
        match self.random.randrange(4):
            case 0:
                axes = self.random.sample(range(type_.rank), type_.rank)
                shape = tuple(type_.shape[axis] for axis in axes)
                return scope.let(fun.Permute(array, tuple(axes)), replace(type_, shape=shape), "p")
            case 1:
                shape = (product(type_.shape),)
                return scope.let(fun.Reshape(array, shape), replace(type_, shape=shape), "r")
            case 2 if type_.rank < 3:
                shape = (self.pick([ONE, as_poly(2)]), *type_.shape)
                return scope.let(fun.Broadcast(array, shape), replace(type_, shape=shape), "b")
            case _:
                dims, shape = self.window(scope, array)
                if not shape:
                    return array
                return scope.let(fun.Slice(array, dims), replace(type_, shape=shape), "v")

    def scatter(self, scope: Scope) -> fun.Var:
        target = self.array(scope)
        if 0 in map(self.value, target.type.shape):
            return target
        space, inner = self.space(scope, (self.pick([as_poly(3), as_poly(6)]),))
        (i,) = (Poly.var(r.index.name) for r in space)
        at = []
        for extent in target.type.shape:
            number = inner.let(fun.SizeValue(i * self.random.randint(1, 3) + 1), I64, "g")
            limit = inner.builder.scalar(extent)
            at.append(inner.let(fun.Apply("remainder", (number, limit)), I64, "g"))
        value = self.code(inner, target.type.dtype, [self.array(scope)], [i])
        body = inner.builder.body((*at, value))
        return scope.let(fun.Scatter((target,), space, body), target.type, "w")

    def observe(self, scope: Scope) -> None:
        """A sum over an array, to which each element contributes another multiple of itself."""
        array = self.array(scope)
        space, inner = self.space(scope, array.type.shape)
        number: Size = ONE
        for dimension in space:
            number = number * 7 + Poly.var(dimension.index.name)
        scalar, b = fun.Scalar(DType.F64), inner.builder
        weight = b.let(fun.Cast(DType.F64, b.let(fun.SizeValue(number), I64)), scalar)
        at = tuple(Poly.var(r.index.name) for r in space)
        element = b.let(fun.Index(array, at), fun.Scalar(array.type.dtype))
        if element.type != scalar:
            element = b.let(fun.Cast(DType.F64, element), scalar)
        body = b.body((b.let(fun.Apply("multiply", (weight, element)), scalar),))
        zero = (fun.Const(0.0, DType.F64),)
        expr = fun.Reduce(space, len(space), body, self.adding(scope, DType.F64), zero)
        scope.scalars.append(scope.let(expr, scalar, "o"))

    def adding(self, scope: Scope, dtype: DType) -> fun.Lambda:
        scalar, b = fun.Scalar(dtype), scope.builder.inner()
        left, right = (self.variable("x", scalar) for _ in range(2))
        return fun.Lambda((left, right), b.body((b.let(fun.Apply("add", (left, right)), scalar),)))

    def sums(self, scope: Scope) -> fun.Var:
        """Sums or running sums of rows."""
        array = self.array(scope)
        space, inner = self.space(scope, array.type.shape)
        indices = [Poly.var(r.index.name) for r in space]
        type_ = array.type
        value = self.code(inner, type_.dtype, [array], indices)
        operator = self.adding(scope, type_.dtype)
        zero = (fun.Const(0.0 if type_.dtype.is_float else 0, type_.dtype),)
        body = inner.builder.body((value,))
        if type_.rank == 1 or self.chance(50):
            return scope.let(fun.Scan(space, body, operator, zero), type_, "w")
        expr = fun.Reduce(space, 1, body, operator, zero)
        return scope.let(expr, fun.Array(type_.dtype, type_.shape[:-1]), "w")

    # ------------------------------------------------------------ control

    def rows(self, scope: Scope) -> fun.Var:
        """A kernel whose body makes an array, with statements before."""
        extent = self.shape()[0]
        space, inner = self.space(scope, (extent,))
        for _ in range(self.random.randint(1, 2)):
            row = self.group(inner)
            if self.chance(40):
                self.observe(inner)
        if self.chance(40):
            row = self.made(inner, row.type, [row])
        type_ = fun.Array(row.type.dtype, (extent, *row.type.shape))
        return scope.let(fun.Kernel(space, inner.builder.body((row,))), type_, "w")

    def loop(self, scope: Scope) -> fun.Var:
        """A loop that carries one or two arrays; it makes, updates or passes them on."""
        initial = [self.made(scope) if self.chance(40) else self.array(scope)]
        if self.chance(40):
            same = [v for v in scope.arrays if v.type == initial[0].type]
            initial.append(self.pick(same or scope.arrays))
        params = [self.variable("p", var.type) for var in initial]
        rounds = self.pick([ZERO, as_poly(1), as_poly(2), as_poly(3), *initial[0].type.shape])
        count = self.variable("q", I64)
        is_while = self.chance(25)
        index = fun.Var(self.names.fresh("t"), I64)
        inner = scope.inner([] if is_while else [(Poly.var(index.name), rounds)])
        inner.arrays += params * 2
        for _ in range(self.random.randint(1, 2)):
            self.group(inner)
            if self.chance(40):
                self.observe(inner)
        results: list[fun.Atom] = []
        for param in params:
            fitting = [v for v in inner.arrays if v.type == param.type]
            late = [v for v in fitting if v.name != param.name]
            results.append(self.pick(late[-2:]) if late and self.chance(85) else self.pick(fitting))
        form: fun.For | fun.While = fun.For(index, ZERO, rounds)
        before: list[fun.Atom] = list(initial)
        if is_while:
            test = scope.builder.inner()
            limit = fun.Const(self.random.randint(0, 3), DType.I64)
            more = test.let(fun.Apply("less", (count, limit)), BOOL)
            form = fun.While(test.body((more,)))
            one = fun.Const(1, DType.I64)
            results.append(inner.builder.let(fun.Apply("add", (count, one)), I64))
            before.append(fun.Const(0, DType.I64))
            params.append(count)
        loop = fun.Loop(tuple(params), tuple(before), form, inner.builder.body(results))
        types = tuple(param.type for param in params)
        pattern = scope.builder.bind(loop, types, "l")
        scope.arrays += [var for var in pattern if isinstance(var.type, fun.Array)]
        return pattern[0]

    def branch(self, scope: Scope, type_: fun.Array | None = None) -> fun.Var:
        """Branches that make, update or pass on an array."""
        wanted = type_ or self.array(scope).type
        condition = scope.let(
            fun.Apply("greater", (scope.choice, fun.Const(0, DType.I64))), BOOL, "c"
        )
        bodies = []
        for _ in range(2):
            inner = scope.inner([])
            if self.chance(40):
                self.group(inner)
            fitting = [v for v in inner.arrays if v.type == wanted]
            if fitting and self.chance(60):
                bodies.append(inner.builder.body((self.pick(fitting[-2:]),)))
            else:
                bodies.append(inner.builder.body((self.made(inner, wanted),)))
        return scope.let(fun.If(condition, *bodies), wanted, "w")

    # ------------------------------------------------------------ making an array

    def made(
        self, scope: Scope, type_: fun.Array | None = None, reads: list[fun.Var] | None = None
    ) -> fun.Var:
        """An array of a type, made by statements that may read the given arrays."""
        type_ = type_ or fun.Array(self.dtype(), self.shape())
        reads = list(reads or [])
        if scope.arrays:
            reads += [self.array(scope) for percent in (70, 30) if self.chance(percent)]
        way = self.random.randrange(100)
        nonempty = 0 not in map(self.value, type_.shape)
        if way < 10 and type_.rank > 1:
            axes = tuple(self.random.sample(range(type_.rank), type_.rank))
            shape = [ZERO] * type_.rank
            for place, axis in enumerate(axes):
                shape[axis] = type_.shape[place]
            turned = self.mapped(scope, replace(type_, shape=tuple(shape)), reads)
            return scope.let(fun.Permute(turned, axes), type_, "p")
        if way < 16 and type_.rank > 1:
            flat = self.mapped(scope, replace(type_, shape=(product(type_.shape),)), reads)
            return scope.let(fun.Reshape(flat, type_.shape), type_, "r")
        if way < 22:
            back = tuple(fun.Span(extent - 1, extent, -1) for extent in type_.shape)
            return scope.let(fun.Slice(self.mapped(scope, type_, reads), back), type_, "v")
        if way < 27 and nonempty and scope.depth < 3:
            return self.concat(scope, type_)
        if way < 32 and scope.depth < 2:
            return self.branch(scope, type_)
        if way < 36:
            return scope.let(fun.Broadcast(self.constant(type_.dtype), type_.shape), type_, "b")
        if way < 40:
            same = [v for v in scope.arrays if v.type == type_]
            if same:
                return scope.let(fun.Copy(self.pick(same)), type_, "c")
        if way < 47:  # a part of something larger
            larger = replace(type_, shape=(type_.shape[0] + 1, *type_.shape[1:]))
            whole = self.mapped(scope, larger, reads)
            dims = (fun.Span(self.pick([ZERO, ONE]), type_.shape[0]),
                    *(fun.Span(ZERO, extent) for extent in type_.shape[1:]))  # fmt: skip
            return scope.let(fun.Slice(whole, dims), type_, "v")
        if way < 60 and type_.rank > 1 and scope.depth < 2:
            return self.mapped_rows(scope, type_, reads)
        return self.mapped(scope, type_, reads)

    def mapped(self, scope: Scope, type_: fun.Array, reads: list[fun.Var]) -> fun.Var:
        space, inner = self.space(scope, type_.shape)
        indices = [Poly.var(r.index.name) for r in space]
        value = self.code(inner, type_.dtype, reads, indices)
        return scope.let(fun.Kernel(space, inner.builder.body((value,))), type_, "k")

    def mapped_rows(self, scope: Scope, type_: fun.Array, reads: list[fun.Var]) -> fun.Var:
        space, inner = self.space(scope, type_.shape[:1])
        row = self.made(inner, replace(type_, shape=type_.shape[1:]), reads)
        if self.chance(50):
            dims, shape = self.window(inner, row)
            value = self.made(inner, replace(row.type, shape=shape), [row]) if shape else None
            new = value or self.constant(row.type.dtype)
            row = inner.let(fun.Update(row, dims, new), row.type, "u")
        return scope.let(fun.Kernel(space, inner.builder.body((row,))), type_, "k")

    def space(self, scope: Scope, shape: tuple[Size, ...]) -> tuple[tuple[fun.Range, ...], Scope]:
        space = tuple(fun.Range(scope.builder.index(), extent) for extent in shape)
        inner = scope.inner([(Poly.var(r.index.name), r.extent) for r in space])
        return space, inner

    def code(
        self, scope: Scope, dtype: DType, reads: list[fun.Var], indices: list[Size]
    ) -> fun.Atom:
        """A value that differs from element to element, and depends on arrays."""
        scalar = fun.Scalar(dtype)
        number = as_poly(self.random.randint(-3, 3))
        for index in indices:
            number = number * 4 + index
        own = scope.builder.let(fun.SizeValue(number), I64, "s")
        total = scope.builder.let(fun.Cast(dtype, own), scalar, "x")
        seen = [self.pick(scope.scalars)] if scope.scalars and self.chance(40) else []
        for found in [*(self.read(scope, array) for array in reads), *seen]:
            if found is not None:
                if found.type != scalar:
                    if dtype.is_integer:
                        continue
                    found = scope.builder.let(fun.Cast(dtype, found), scalar, "x")
                name = self.pick(["add", "subtract"])
                total = scope.builder.let(fun.Apply(name, (total, found)), scalar, "x")
        return total

    def read(self, scope: Scope, array: fun.Var) -> fun.Var | None:
        at = []
        for extent in array.type.shape:
            places = self.places(scope, extent)
            if not places:
                return None
            at.append(self.pick(places))
        read = fun.Index(array, tuple(at))
        return scope.builder.let(read, fun.Scalar(array.type.dtype), "x")

    def places(self, scope: Scope, extent: Size) -> list[Size]:
        """Indices inside an extent: those of the kernels and loops around, or the ends."""
        found: list[Size] = []
        for index, limit in scope.indices:
            if limit == extent:
                found += [index] * 6 + [extent - 1 - index]
            elif self.value(limit) <= self.value(extent):
                found.append(index)
        if self.value(extent) > 0 and (not found or self.chance(15)):
            found += [ZERO, extent - 1]
        return found

    # ------------------------------------------------------------ parts

    def window(self, scope: Scope, array: fun.Var) -> tuple[Dims, tuple[Size, ...]]:
        """A slice of an array, and its shape (of no dimensions: one element)."""
        dims: list[fun.Span | Size] = []
        for extent in array.type.shape:
            places = self.places(scope, extent)
            if places and self.chance(25):
                dims.append(self.pick(places))
            else:
                dims.append(self.span(extent, places))
        return tuple(dims), tuple(dim.extent for dim in dims if isinstance(dim, fun.Span))

    def span(self, extent: Size, places: list[Size]) -> fun.Span:
        count = self.value(extent)
        spans = [fun.Span(ZERO, extent)] * 3 + [fun.Span(extent - 1, extent, -1)]
        if count >= 1:
            spans += [fun.Span(ONE, extent - 1)] * 2 + [fun.Span(ZERO, extent - 1)] * 2
            spans += [fun.Span(extent - 2, extent - 1, -1), fun.Span(extent - 1, ONE)]
            first = self.random.randrange(count)
            step = self.pick([1, 2, -1, -2])
            room = count - first if step > 0 else first + 1
            most = self.random.randint(0, -(-room // abs(step)))
            spans.append(fun.Span(as_poly(first), as_poly(most), step))
        if places:
            spans += [fun.Span(self.pick(places), ONE)] * 2
        return self.pick(spans)

    def constant(self, dtype: DType) -> fun.Const:
        number = self.random.randint(100, 120)
        return fun.Const(float(number) if dtype.is_float else number, dtype)

    def variable(self, base: str, type_: fun.Type) -> fun.Var:
        return fun.Var(self.names.fresh(base), type_)
