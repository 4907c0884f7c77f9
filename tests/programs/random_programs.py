"""Random well-typed FUN programs with arguments: `programs()`.

Every program is in bounds, and its results do not depend on how it is evaluated (see
`random_code`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from programs.agree import assert_agree
from programs.random_code import I64, Generator, Known
from programs.random_data import Case, data, neutral
from weft.fun import nodes as fun
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.sizes import Poly, Size, as_poly, product

__all__ = ["ALL_FORMS", "Case", "assert_agree", "programs"]

REAL = (
    DType.BOOL, DType.I8, DType.I16, DType.I32, DType.I64,
    DType.U8, DType.U16, DType.U32, DType.U64, DType.F32, DType.F64,
)  # fmt: skip
EXTENTS = (2, 3, 5, 7, 13)
ALL_FORMS = (
    "elementwise", "reduce", "scan", "scatter", "slice", "permute", "reshape", "broadcast",
    "concat", "update", "stencil", "gather", "argument", "rows", "branch", "loop", "while",
)  # fmt: skip


class ProgramGenerator(Generator):
    """One method for each form of statement."""

    # ------------------------------------------------------------ one statement of each form

    def elementwise(self) -> None:
        shape = self.shape()
        space, inner, scalars = self.fused(shape)
        results = [self.code(inner, scalars) for _ in range(self.number(1, 2))]
        body = inner.body(result.var for result in results)
        self.add(fun.Kernel(space, body), *((r.dtype, shape, r.bits) for r in results))

    def shape(self, least: int = 1) -> tuple[Size, ...]:
        known = self.array(lambda known: len(known.shape) >= least)
        return known.shape if known else (as_poly(3),) * least

    def reduce(self) -> None:
        shape = self.shape()
        space, inner, scalars = self.fused(shape)
        reduced = self.number(1, len(shape))
        count = self.value(product(shape[len(shape) - reduced :]))
        values = [self.code(inner, scalars) for _ in range(self.number(1, 2))]
        rules = [self.associative(value, count) for value in values]
        types = tuple(fun.Scalar(value.dtype) for value in values)
        operator = self.operator(tuple(name for name, _, _ in rules), types)
        expr = fun.Reduce(
            space, reduced, inner.body(v.var for v in values), operator,
            tuple(start for _, start, _ in rules),
        )  # fmt: skip
        kept = shape[: len(shape) - reduced]
        self.add(expr, *((v.dtype, kept, b) for v, (_, _, b) in zip(values, rules, strict=True)))

    def argument(self) -> None:
        """The largest value and its index, the first of equal ones."""
        shape = self.shape()
        space, inner, scalars = self.fused(shape)
        value = self.code(inner, scalars)
        if not value.exact or value.dtype.is_complex:
            return
        at = inner.let(fun.SizeValue(Poly.var(space[-1].index.name)), I64, "at")
        type_ = fun.Scalar(value.dtype)
        params = [self.builder.var(n, t) for n in "lr" for t in (type_, I64)]
        op = self.builder.inner()
        bool_ = fun.Scalar(DType.BOOL)
        more = op.let(fun.Apply("greater", (params[2], params[0])), bool_)
        same = op.let(fun.Apply("equal", (params[2], params[0])), bool_)
        before = op.let(fun.Apply("less", (params[3], params[1])), bool_)
        tie = op.let(fun.Apply("logical_and", (same, before)), bool_)
        take = op.let(fun.Apply("logical_or", (more, tie)), bool_)
        best = op.let(fun.Apply("where", (take, params[2], params[0])), type_)
        place = op.let(fun.Apply("where", (take, params[3], params[1])), I64)
        # NaN compares with nothing, which would make the order of combination matter.
        clean: fun.Atom = value.var
        if value.dtype.is_float:
            nan = inner.let(fun.Apply("isnan", (value.var,)), bool_)
            low = fun.Const(-np.inf, value.dtype)
            clean = inner.let(fun.Apply("where", (nan, low, value.var)), type_)
        expr = fun.Reduce(
            space, 1, inner.body((clean, at)), fun.Lambda(tuple(params), op.body((best, place))),
            (neutral("maximum", value.dtype), fun.Const(np.iinfo(np.int64).max, DType.I64)),
        )  # fmt: skip
        self.add(expr, (value.dtype, shape[:-1], value.bits), (DType.I64, shape[:-1], 0))

    def scan(self) -> None:
        shape = self.shape()
        space, inner, scalars = self.fused(shape)
        value = self.code(inner, scalars)
        name, start, bits = self.associative(value, self.value(shape[-1]))
        operator = self.operator((name,), (fun.Scalar(value.dtype),))
        initial = self.constant(value.dtype).var if self.chance() else start
        if isinstance(initial, fun.Const) and bits is not None:
            bits = self.limited(value.dtype, bits + 3)
        expr = fun.Scan(space, inner.body((value.var,)), operator, (initial,), self.chance())
        self.add(expr, (value.dtype, shape, bits))

    def scatter(self) -> None:
        target = self.array(lambda known: known.exact and self.value(product(known.shape)) > 0)
        if target is None:
            return
        shape = self.shape()
        space, inner, scalars = self.fused(shape)
        value = self.cast(inner, self.code(inner, scalars, 1), target.dtype)
        if value is None or not value.exact:
            value = self.constant(target.dtype)
        index = [self.index_inside(inner, scalars, extent) for extent in target.shape]
        operator, bits = None, self.wider(target, value, 0)
        if self.chance():
            name, _, grown = self.associative(value, self.value(product(shape)) + 1)
            operator = self.operator((name,), (fun.Scalar(target.dtype),))
            if bits is not None:
                bits = None if grown is None else self.limited(target.dtype, max(grown, bits) + 1)
        assert isinstance(target.var, fun.Var)
        body = inner.body((*index, value.var))
        expr = fun.Scatter((target.var,), space, body, operator)
        self.add(expr, (target.dtype, target.shape, bits))

    def index_inside(self, inner: Builder, scalars: list[Known], extent: Size) -> fun.Var:
        """An int64 scalar in 0 <= i < extent, computed from data."""
        exact = [known for known in scalars if known.exact]
        source = self.cast(inner, self.pick(exact), DType.I64) if exact else None
        var = source.var if source else fun.Const(self.number(0, 9), DType.I64)
        size = inner.scalar(extent)
        return inner.let(fun.Apply("remainder", (var, size)), I64, "g")

    def gather(self) -> None:
        source = self.array(lambda known: self.value(product(known.shape)) > 0)
        if source is None:
            return
        shape = self.shape()
        space, inner, scalars = self.fused(shape)
        index = [self.index_inside(inner, scalars, extent) for extent in source.shape]
        assert isinstance(source.var, fun.Var)
        read = fun.Index(source.var, tuple(Poly.var(i.name) for i in index))
        found = Known(inner.let(read, fun.Scalar(source.dtype), "x"), source.bits)
        result = self.code(inner, [found], 1)
        self.add(fun.Kernel(space, inner.body((result.var,))), (result.dtype, shape, result.bits))

    def stencil(self) -> None:
        source = self.array(lambda known: self.value(product(known.shape)) > 0)
        if source is None:
            return
        space = self.space(source.shape)
        inner = self.builder.inner()
        assert isinstance(source.var, fun.Var)
        reads = []
        for _ in range(self.number(1, 3)):
            indices, rules = [], []
            for dimension, extent in zip(space, source.shape, strict=True):
                indices.append(Poly.var(dimension.index.name) + self.number(-2, 4))
                kind = self.pick(["edge", "reflect", "symmetric", "wrap", "constant"])
                value = self.constant(source.dtype).var if kind == "constant" else None
                assert value is None or isinstance(value, fun.Const)
                rules.append(fun.Boundary(kind, as_poly(0), extent, value))
            read = fun.Index(source.var, tuple(indices), tuple(rules))
            bits = None if source.bits is None else max(source.bits, 5)
            if not source.dtype.is_float:
                bits = 0
            reads.append(Known(inner.let(read, fun.Scalar(source.dtype), "x"), bits))
        result = self.code(inner, reads)
        expr = fun.Kernel(space, inner.body((result.var,)))
        self.add(expr, (result.dtype, source.shape, result.bits))

    def rows(self) -> None:
        """A kernel whose body maps and reduces a whole row of an array."""
        source = self.array(lambda known: len(known.shape) == 2 and known.exact)
        if source is None:
            return
        (row,) = self.space(source.shape[:1])
        inner = self.builder.inner()
        assert isinstance(source.var, fun.Var)
        width, at = source.shape[1], Poly.var(row.index.name)
        type_ = fun.Array(source.dtype, (width,))
        line = inner.let(fun.Slice(source.var, (at, fun.Span(as_poly(0), width))), type_, "row")
        column = fun.Range(self.builder.index("j"), width)
        deep = inner.inner()
        read = deep.let(
            fun.Index(line, (Poly.var(column.index.name),)), fun.Scalar(source.dtype), "x"
        )
        value = self.code(deep, [Known(read, source.bits)])
        name, start, bits = self.associative(value, self.value(width))
        scalar = fun.Scalar(value.dtype)
        operator = self.operator((name,), (scalar,))
        total = inner.let(
            fun.Reduce((column,), 1, deep.body((value.var,)), operator, (start,)), scalar, "total"
        )
        other = fun.Range(self.builder.index("j"), width)
        map_ = inner.inner()
        x = self.read(map_, Known(line, source.bits), (Poly.var(other.index.name),))
        mapped = self.code(map_, [Known(total, bits), x])
        result = fun.Array(mapped.dtype, (width,))
        array = inner.let(fun.Kernel((other,), map_.body((mapped.var,))), result, "mapped")
        expr = fun.Kernel((row,), inner.body((total, array)))
        self.add(
            expr, (value.dtype, source.shape[:1], bits), (mapped.dtype, source.shape, mapped.bits)
        )

    def branch(self) -> None:
        shape = self.shape()
        space, inner, scalars = self.fused(shape)
        index = Poly.var(space[0].index.name)
        bool_ = fun.Scalar(DType.BOOL)
        at = inner.let(fun.SizeValue(index), I64, "s")
        condition = inner.let(fun.Apply("greater", (at, fun.Const(0, DType.I64))), bool_)
        source = self.array(lambda known: len(known.shape) == 1 and known.shape[0] == shape[0])
        then = inner.inner()
        if source is not None and isinstance(source.var, fun.Var):  # read where only i > 0 may
            read = then.let(fun.Index(source.var, (index - 1,)), fun.Scalar(source.dtype), "x")
            yes = self.code(then, [Known(read, source.bits)], 1)
        else:
            yes = self.code(then, scalars, 2)
        otherwise = inner.inner()
        no = self.cast(otherwise, self.pick(scalars), yes.dtype) or self.constant(yes.dtype)
        expr = fun.If(condition, then.body((yes.var,)), otherwise.body((no.var,)))
        result = inner.let(expr, fun.Scalar(yes.dtype), "b")
        bits = self.wider(yes, no, 0)
        self.add(fun.Kernel(space, inner.body((result,))), (yes.dtype, shape, bits))

    def loop(self) -> None:
        """A few rounds of an elementwise update of a whole array."""
        source = self.array(lambda known: known.dtype.kind in "biu")
        if source is None:
            return
        type_ = source.var.type
        param = self.builder.var("p", type_)
        index = self.builder.index("k")
        outer, self.builder = self.builder, self.builder.inner()
        space = self.space(source.shape)
        inner = self.builder.inner()
        x = self.read(inner, Known(param, 0), tuple(Poly.var(r.index.name) for r in space))
        result = self.cast(inner, self.code(inner, [x]), source.dtype) or x
        new = self.builder.let(fun.Kernel(space, inner.body((result.var,))), type_)
        body, self.builder = self.builder.body((new,)), outer
        rounds = self.pick([as_poly(0), as_poly(3), *map(Poly.var, self.sizes)])
        form = fun.For(index, as_poly(0), rounds)
        loop = fun.Loop((param,), (source.var,), form, body)
        self.add(loop, (source.dtype, source.shape, 0))

    def while_(self) -> None:
        """A loop inside a kernel that goes on for longer at some indices."""
        shape = self.shape()
        space, inner, _ = self.fused(shape)
        total_index = sum((Poly.var(r.index.name) for r in space), as_poly(0))
        at = inner.let(fun.SizeValue(total_index), I64, "s")
        count, total = self.builder.var("n", I64), self.builder.var("p", I64)
        test = inner.inner()
        more = test.let(
            fun.Apply("greater", (count, fun.Const(0, DType.I64))), fun.Scalar(DType.BOOL)
        )
        body = inner.inner()
        two, one = fun.Const(2, DType.I64), fun.Const(self.number(1, 3), DType.I64)
        half = body.let(fun.Apply("floor_divide", (count, two)), I64)
        step = body.let(fun.Apply("multiply", (total, one)), I64)
        next_ = body.let(fun.Apply("add", (step, count)), I64)
        loop = fun.Loop(
            (count, total), (at, one), fun.While(test.body((more,))), body.body((half, next_))
        )
        results = inner.bind(loop, (I64, I64), "w")
        self.add(fun.Kernel(space, inner.body((results[1],))), (DType.I64, shape, 0))

    # ------------------------------------------------------------ layout changes

    def slice(self) -> None:
        source = self.array()
        if source is None or not isinstance(source.var, fun.Var):
            return
        dims: list[fun.Span | Size] = []
        keep = self.number(0, len(source.shape) - 1)
        for axis, extent in enumerate(source.shape):
            count = self.value(extent)
            if axis != keep and count and self.number(0, 3) == 0:
                dims.append(as_poly(self.number(0, count - 1)))
            else:
                dims.append(self.span(extent, count))
        shape = tuple(dim.extent for dim in dims if isinstance(dim, fun.Span))
        self.add(fun.Slice(source.var, tuple(dims)), (source.dtype, shape, source.bits))

    def span(self, extent: Size, count: int) -> fun.Span:
        match self.number(0, 4):
            case 0:
                return fun.Span(as_poly(0), extent)
            case 1:
                return fun.Span(extent - 1, extent, -1)
            case 2 if count >= 2:
                return fun.Span(as_poly(1), extent - 1)
            case 3 if count >= 2:
                return fun.Span(extent - 2, extent - 1, -1)
            case _:
                step = self.pick([1, 2, 3, -1, -2])
                first = self.number(0, count - 1) if count else 0
                room = count - first if step > 0 else first + 1
                most = -(-room // abs(step)) if count else 0
                return fun.Span(as_poly(first), as_poly(self.number(0, most)), step)

    def permute(self) -> None:
        source = self.array()
        if source is None or not isinstance(source.var, fun.Var):
            return
        axes = tuple(self.draw(st.permutations(range(len(source.shape)))))
        shape = tuple(source.shape[axis] for axis in axes)
        self.add(fun.Permute(source.var, axes), (source.dtype, shape, source.bits))

    def reshape(self) -> None:
        source = self.array()
        if source is None or not isinstance(source.var, fun.Var):
            return
        shape: tuple[Size, ...] = (product(source.shape),)
        if len(source.shape) > 2 and self.chance():
            shape = (product(source.shape[:-1]), source.shape[-1])
        elif self.chance():
            shape = (as_poly(1), *source.shape)
        self.add(fun.Reshape(source.var, shape), (source.dtype, shape, source.bits))

    def broadcast(self) -> None:
        source = self.array(lambda known: len(known.shape) < 3)
        if source is None:
            return
        lead = self.pick([as_poly(1), as_poly(2), *map(Poly.var, self.sizes)])
        shape = (lead, *source.shape)
        self.add(fun.Broadcast(source.var, shape), (source.dtype, shape, source.bits))

    def concat(self) -> None:
        first = self.array()
        if first is None:
            return
        axis = self.number(0, len(first.shape) - 1)
        rest = first.shape[:axis] + first.shape[axis + 1 :]

        def fits(known: Known) -> bool:
            own = known.shape[:axis] + known.shape[axis + 1 :]
            return known.dtype is first.dtype and own == rest and axis < len(known.shape)

        second = self.array(fits)
        assert second is not None
        assert isinstance(first.var, fun.Var)
        assert isinstance(second.var, fun.Var)
        total = first.shape[axis] + second.shape[axis]
        shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
        expr = fun.Concat((first.var, second.var), axis)
        self.add(expr, (first.dtype, shape, self.wider(first, second, 0)))

    def update(self) -> None:
        target = self.array()
        if target is None or not isinstance(target.var, fun.Var):
            return
        dims = tuple(self.span(extent, self.value(extent)) for extent in target.shape)
        shape = tuple(dim.extent for dim in dims)
        value = self.array(lambda known: known.dtype is target.dtype and known.shape == shape)
        if value is None or self.chance():
            value = self.constant(target.dtype)
        expr = fun.Update(target.var, dims, value.var)
        self.add(expr, (target.dtype, target.shape, self.wider(target, value, 0)))

    def step(self, form: str) -> None:
        getattr(self, "while_" if form == "while" else form)()


@st.composite
def programs(
    draw: Callable[[Any], Any],
    forms: tuple[str, ...] = ALL_FORMS,
    dtypes: tuple[DType, ...] = REAL,
    statements: int = 6,
    extents: tuple[int, ...] = EXTENTS,
    rank: int = 3,
) -> Case:
    """A strategy of (program, arguments): `program, arguments = case`.

    Parameters
    ----------
    forms : tuple of str, optional
        Which kinds of statements, of `ALL_FORMS`.
    dtypes : tuple of DType, optional
        Dtypes of the parameters (results have others too).
    statements : int, optional
        The most top-level statements.
    extents : tuple of int, optional
        Values of size variables; shapes also hold the constants 0 and 1.
    rank : int, optional
        The greatest rank of a parameter.
    """
    sizes = {name: draw(st.sampled_from(extents)) for name in ("n", "m", "k")}
    names = Names(sizes)
    generator = ProgramGenerator(draw, dtypes, sizes, Builder(names))
    params, arguments = [], []
    dims = [*map(Poly.var, sizes)] * 3 + [as_poly(1), as_poly(0)]
    for _ in range(draw(st.integers(1, 3))):
        dtype = draw(st.sampled_from(dtypes))
        length = draw(st.integers(1, rank))
        shape = tuple(draw(st.sampled_from(dims)) for _ in range(length))
        param = fun.Var(names.fresh("a"), fun.Array(dtype, shape))
        params.append(param)
        generator.arrays.append(Known(param, 5 if dtype.is_float else 0))
        concrete = tuple(size.evaluate(sizes) for size in shape)
        arguments.append(data(dtype, concrete, draw(st.integers(0, 999))))
    for _ in range(draw(st.integers(1, statements))):
        small = [k for k in generator.arrays if generator.value(product(k.shape)) <= 4000]
        generator.arrays = small or generator.arrays
        generator.step(draw(st.sampled_from(forms)))
    made = generator.arrays[len(params) :] or generator.arrays
    count = draw(st.integers(1, min(3, len(made))))
    results = [made[-1]] + [draw(st.sampled_from(made)) for _ in range(count - 1)]
    body = generator.builder.body(result.var for result in results)
    program = fun.Program("random", tuple(params), body, tuple(sizes))
    return Case(program, tuple(arguments), sizes)
