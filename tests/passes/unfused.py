"""Writes programs as the front-ends do: one kernel an operation, layout changes as views."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops import table
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size, as_poly

NEUTRAL = {"add": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}
Like = fun.Var | float | int


class Unfused:
    """A program under construction."""

    def __init__(self, *sizes: str) -> None:
        self.sizes = sizes
        self.params: list[fun.Var] = []
        self.names = Names(sizes)
        self.top = Builder(self.names)

    def size(self, name: str) -> Size:
        return Poly.var(name)

    def param(self, name: str, *shape: str | int, dtype: DType = DType.F64) -> fun.Var:
        extents = tuple(Poly.var(n) if isinstance(n, str) else as_poly(n) for n in shape)
        type_ = fun.Array(dtype, extents) if shape else fun.Scalar(dtype)
        var = fun.Var(name, type_)
        self.names.taken.add(name)
        self.params.append(var)
        return var

    def map(self, operation: str, *arguments: Like) -> fun.Var:
        """One scalar operation over the broadcast shape."""
        atoms = [self._atom(a, arguments) for a in arguments]
        shape = _broadcast([a.type.shape for a in atoms if isinstance(a.type, fun.Array)])
        if not shape:
            dtype = table.lookup(operation).result(tuple(a.type.dtype for a in atoms))
            return self.top.let(fun.Apply(operation, tuple(atoms)), fun.Scalar(dtype))
        space = tuple(fun.Range(self.top.index(), extent) for extent in shape)
        body = self.top.inner()
        values = [self._read(body, a, space) for a in atoms]
        dtype = table.lookup(operation).result(tuple(v.type.dtype for v in values))
        value = body.let(fun.Apply(operation, tuple(values)), fun.Scalar(dtype))
        return self.top.let(fun.Kernel(space, body.body([value])), fun.Array(dtype, shape), "v")

    def cast(self, dtype: DType, x: fun.Var) -> fun.Var:
        space = tuple(fun.Range(self.top.index(), extent) for extent in x.type.shape)
        body = self.top.inner()
        value = body.let(fun.Cast(dtype, self._read(body, x, space)), fun.Scalar(dtype))
        return self.top.let(fun.Kernel(space, body.body([value])), fun.Array(dtype, x.type.shape))

    def arange(self, extent: Size) -> fun.Var:
        index = self.top.index()
        body = self.top.inner()
        value = body.let(fun.SizeValue(Poly.var(index.name)), fun.Scalar(DType.I64))
        kernel = fun.Kernel((fun.Range(index, extent),), body.body([value]))
        return self.top.let(kernel, fun.Array(DType.I64, (extent,)), "v")

    def reduce(self, operation: str, x: fun.Var, axes: Sequence[int]) -> fun.Var:
        """Kept dimensions first, reduced ones last."""
        rank = len(x.type.shape)
        kept = [d for d in range(rank) if d not in axes]
        ranges = {d: fun.Range(self.top.index(), x.type.shape[d]) for d in range(rank)}
        body = self.top.inner()
        indices = tuple(Poly.var(ranges[d].index.name) for d in range(rank))
        scalar = fun.Scalar(x.type.dtype)
        value = body.let(fun.Index(x, indices), scalar)
        operator = self.operator(operation, x.type.dtype)
        neutral = fun.Const(NEUTRAL[operation], x.type.dtype)
        reduce = fun.Reduce(
            tuple(ranges[d] for d in (*kept, *axes)), len(axes), body.body([value]), operator,
            (neutral,),
        )  # fmt: skip
        shape = tuple(x.type.shape[d] for d in kept)
        type_ = fun.Array(x.type.dtype, shape) if shape else scalar
        return self.top.let(reduce, type_, "r")

    def scan(self, operation: str, x: fun.Var) -> fun.Var:
        space = tuple(fun.Range(self.top.index(), extent) for extent in x.type.shape)
        body = self.top.inner()
        value = self._read(body, x, space)
        operator = self.operator(operation, x.type.dtype)
        initial = (fun.Const(NEUTRAL[operation], x.type.dtype),)
        scan = fun.Scan(space, body.body([value]), operator, initial)
        return self.top.let(scan, x.type, "c")

    def operator(self, operation: str, dtype: DType) -> fun.Lambda:
        scalar = fun.Scalar(dtype)
        left, right = self.top.var("l", scalar), self.top.var("r", scalar)
        body = Builder(self.names)
        return fun.Lambda(
            (left, right), body.body([body.let(fun.Apply(operation, (left, right)), scalar)])
        )

    def slice(self, x: fun.Var, *dims: tuple[Size | int, Size | int, int] | int) -> fun.Var:
        spans = tuple(
            fun.Span(as_poly(d[0]), as_poly(d[1]), d[2]) if isinstance(d, tuple) else as_poly(d)
            for d in dims
        )
        shape = tuple(s.extent for s in spans if isinstance(s, fun.Span))
        return self.top.let(fun.Slice(x, spans), fun.Array(x.type.dtype, shape), "s")

    def permute(self, x: fun.Var, *axes: int) -> fun.Var:
        shape = tuple(x.type.shape[axis] for axis in axes)
        return self.top.let(fun.Permute(x, axes), fun.Array(x.type.dtype, shape), "p")

    def reshape(self, x: fun.Var, *shape: Size | int) -> fun.Var:
        extents = tuple(map(as_poly, shape))
        return self.top.let(fun.Reshape(x, extents), fun.Array(x.type.dtype, extents), "h")

    def program(self, *results: fun.Atom, name: str = "test") -> fun.Program:
        return fun.Program(name, tuple(self.params), self.top.body(results), self.sizes)

    def _atom(self, like: Like, others: Sequence[Like]) -> fun.Atom:
        if isinstance(like, fun.Var):
            return like
        dtype = next(o.type.dtype for o in others if isinstance(o, fun.Var))
        return fun.Const(like, dtype)

    def _read(self, body: Builder, atom: fun.Atom, space: Sequence[fun.Range]) -> fun.Atom:
        if not isinstance(atom.type, fun.Array):
            return atom
        own = atom.type.shape
        indices = tuple(
            ZERO if extent == ONE else Poly.var(r.index.name)
            for extent, r in zip(own, space[len(space) - len(own) :], strict=True)
        )
        assert isinstance(atom, fun.Var)
        return body.let(fun.Index(atom, indices), fun.Scalar(atom.type.dtype))


def _broadcast(shapes: Sequence[tuple[Size, ...]]) -> tuple[Size, ...]:
    rank = max(map(len, shapes), default=0)
    shape = [ONE] * rank
    for own in shapes:
        for d, extent in enumerate(own, rank - len(own)):
            if extent != 1:
                shape[d] = extent
    return tuple(shape)


def expressions(program: fun.Program, kind: type) -> list[fun.Expr]:
    """The expressions of one kind, nested ones too."""
    return [s.expr for s in walk.statements(program.body) if isinstance(s.expr, kind)]


def top(program: fun.Program) -> list[str]:
    """The kinds of the outermost statements."""
    return [type(let.expr).__name__ for let in program.body.statements]


def operations(program: fun.Program) -> list[str]:
    return [e.operation for e in expressions(program, fun.Apply)]


def reads(program: fun.Program) -> list[str]:
    """The arrays read, one name for each read."""
    return [e.array.name for e in expressions(program, fun.Index)]
