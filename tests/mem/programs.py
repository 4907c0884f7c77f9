"""Hand-built programs for the memory passes, each with arguments for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder, Names
from weft.ops.dtypes import DType
from weft.sizes import ONE, ZERO, Poly, Size, as_poly

F, I64, BOOL = fun.Scalar(DType.F64), fun.Scalar(DType.I64), fun.Scalar(DType.BOOL)
N, M = Poly.var("n"), Poly.var("m")
Case: TypeAlias = tuple[fun.Program, list[Any]]


def array(*shape: Size | int, dtype: DType = DType.F64) -> fun.Array:
    return fun.Array(dtype, tuple(map(as_poly, shape)))


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


class Maker:
    """A program being built: parameters first, then statements by a `Builder`."""

    def __init__(self, *params: tuple[str, fun.Type]) -> None:
        self.params = tuple(fun.Var(name, type_) for name, type_ in params)
        names = Names(["n", "m", *(p.name for p in self.params)])
        self.build = Builder(names)

    def program(self, *results: fun.Atom) -> fun.Program:
        body = self.build.body(results)
        used = set(walk.free_names(body))
        for param in self.params:
            used.update(*(size.variables() for size in walk.type_sizes(param.type)))
        sizes = tuple(name for name in ("n", "m") if name in used)
        return fun.Program("test", self.params, body, sizes)


def apply(b: Builder, operation: str, *arguments: fun.Atom) -> fun.Var:
    dtype = arguments[-1].type
    assert isinstance(dtype, fun.Scalar)
    boolean = operation in ("less", "greater", "equal")
    return b.let(fun.Apply(operation, arguments), BOOL if boolean else dtype)


def element(b: Builder, array: fun.Var, *indices: Size | int) -> fun.Var:
    return b.let(fun.Index(array, tuple(map(as_poly, indices))), fun.Scalar(array.type.dtype))


def kernel(
    b: Builder, extents: tuple[Size | int, ...], body: Callable[..., fun.Atom], base: str = "k"
) -> fun.Var:
    """`kernel` over the extents of what `body(builder, *indices)` gives."""
    inner = b.inner()
    space = tuple(fun.Range(b.index(), as_poly(extent)) for extent in extents)
    result = body(inner, *(Poly.var(r.index.name) for r in space))
    shape = tuple(r.extent for r in space)
    if isinstance(result.type, fun.Array):
        shape += result.type.shape
    type_ = fun.Array(result.type.dtype, shape)
    return b.let(fun.Kernel(space, inner.body([result])), type_, base)


def plus(b: Builder, dtype: DType = DType.F64, operation: str = "add") -> fun.Lambda:
    left, right = (b.var("x", fun.Scalar(dtype)) for _ in range(2))
    inner = b.inner()
    return fun.Lambda((left, right), inner.body([apply(inner, operation, left, right)]))


def total(b: Builder, extent: Size | int, body: Callable[..., fun.Atom]) -> fun.Var:
    inner = b.inner()
    index = fun.Range(b.index(), as_poly(extent))
    value = body(inner, Poly.var(index.index.name))
    expr = fun.Reduce((index,), 1, inner.body([value]), plus(b), (fun.Const(0.0, DType.F64),))
    return b.let(expr, F, "sum")


def doubled(b: Builder, x: fun.Var, base: str = "k") -> fun.Var:
    def body(inner: Builder, *i: Size) -> fun.Atom:
        value = element(inner, x, *i)
        return apply(inner, "add", value, value)

    return kernel(b, x.type.shape, body, base)


def mirrored(b: Builder, x: fun.Var, base: str = "k") -> fun.Var:
    """Doubled, and the first dimension backwards: not to be computed in place."""
    first = x.type.shape[0]

    def body(inner: Builder, i: Size, *rest: Size) -> fun.Atom:
        value = element(inner, x, first - 1 - i, *rest)
        return apply(inner, "add", value, value)

    return kernel(b, x.type.shape, body, base)


def views() -> Case:
    """Every view of a parameter, read by kernels."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build
    turned = b.let(fun.Permute(a, (1, 0)), array(M, N))
    backwards = b.let(fun.Slice(turned, (fun.Span(M - 1, M, -1), ONE)), array(M))
    flat = b.let(fun.Reshape(a, (N * M,)), array(N * M))
    diagonal = b.let(fun.LmadSlice(flat, ZERO, ((as_poly(2), M + 1),)), array(2))
    rows = b.let(fun.Broadcast(backwards, (N, M)), array(N, M))
    return p.program(
        doubled(b, turned), doubled(b, backwards), doubled(b, flat), doubled(b, diagonal),
        doubled(b, rows),
    ), [numbers(3, 4)]  # fmt: skip


def view_results() -> Case:
    """Results that are parameters, views of parameters, and the same array twice."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build
    turned = b.let(fun.Permute(a, (1, 0)), array(M, N))
    made = doubled(b, a)
    return p.program(a, turned, made, made), [numbers(3, 4)]


def transposed_result() -> Case:
    """A kernel whose permuted and reshaped result is the program's."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build
    made = doubled(b, a)
    turned = b.let(fun.Permute(made, (1, 0)), array(M, N))
    return p.program(b.let(fun.Reshape(turned, (M, ONE, N)), array(M, 1, N))), [numbers(3, 4)]


def reshape_copies() -> Case:
    """A reshape that no LMAD expresses."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build
    turned = b.let(fun.Permute(a, (1, 0)), array(M, N))
    flat = b.let(fun.Reshape(turned, (M * N,)), array(M * N))
    return p.program(doubled(b, flat)), [numbers(3, 4)]


def chain() -> Case:
    """Temporaries one after another: blocks to reuse."""
    p = Maker(("a", array(N, M)))
    (x,), b = p.params, p.build
    for _ in range(5):
        x = mirrored(b, x)
    return p.program(x, total(b, N, lambda i, k: element(i, x, k, 0))), [numbers(3, 4)]


def maps() -> Case:
    """Maps one after another: each may write over what the last one made."""
    p = Maker(("a", array(N, M)))
    (x,), b = p.params, p.build
    for _ in range(5):
        x = doubled(b, x)
    return p.program(x, total(b, N, lambda i, k: element(i, x, k, 0))), [numbers(3, 4)]


def softmax() -> Case:
    """Arrays in a kernel's body: the row, backwards, is written once, in the result."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        exp = kernel(outer, (M,), lambda k, j: apply(k, "exp", element(k, a, i, j)), "exp")
        whole = total(outer, M, lambda k, j: element(k, exp, j))
        return kernel(
            outer, (M,), lambda k, j: apply(k, "divide", element(k, exp, M - 1 - j), whole)
        )

    return p.program(kernel(b, (N,), row)), [numbers(3, 4)]


def inner_view_result() -> Case:
    """A kernel's body that gives a view, and one that gives a reversed fresh array."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build

    def view(outer: Builder, i: Size) -> fun.Atom:
        return outer.let(fun.Slice(a, (i, fun.Span(M - 1, M, -1))), array(M))

    def fresh(outer: Builder, i: Size) -> fun.Atom:
        row = kernel(outer, (M,), lambda k, j: element(k, a, i, j))
        return outer.let(fun.Slice(row, (fun.Span(M - 1, M, -1),)), array(M))

    return p.program(kernel(b, (N,), view), kernel(b, (N,), fresh)), [numbers(3, 4)]


def triangle() -> Case:
    """An array in a kernel whose extent is the kernel's index plus one."""
    p = Maker(("a", array(N, N)))
    (a,), b = p.params, p.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        part = kernel(outer, (i + 1,), lambda k, j: element(k, a, i, j))
        return total(outer, i + 1, lambda k, j: element(k, part, i - j))

    return p.program(kernel(b, (N,), row)), [numbers(4, 4)]


def updates() -> Case:
    """Updates of a parameter, of a temporary in place, and of one used afterwards."""
    p = Maker(("a", array(N, M)), ("v", array(M)))
    (a, v), b = p.params, p.build
    row = (ONE, fun.Span(ZERO, M))
    first = b.let(fun.Update(a, row, v), array(N, M))
    second = b.let(fun.Update(first, (ZERO, ZERO), fun.Const(7.0, DType.F64)), array(N, M))
    made = doubled(b, a)
    third = b.let(fun.Update(made, row, v), array(N, M))
    own = b.let(fun.Slice(third, (ZERO, fun.Span(ZERO, M))), array(M))
    fourth = b.let(fun.Update(third, row, own), array(N, M))
    turned = b.let(fun.Permute(fourth, (1, 0)), array(M, N))
    fifth = b.let(fun.Update(turned, (fun.Span(ZERO, M), ONE), v), array(M, N))
    flat = b.let(fun.Reshape(second, (N * M,)), array(N * M))
    pair = b.let(fun.Slice(v, (fun.Span(ZERO, as_poly(2)),)), array(2))
    sixth = b.let(fun.LmadUpdate(flat, ONE, ((as_poly(2), M),), pair), array(N * M))
    return p.program(made, fifth, sixth), [numbers(3, 4), numbers(4)]


def self_updates() -> Case:
    """Updates, scatters and loops that read what they overwrite."""
    p = Maker(("a", array(N)))
    (a,), b = p.params, p.build
    made = doubled(b, a)
    backwards = b.let(fun.Slice(made, (fun.Span(N - 1, N, -1),)), array(N))
    turned = b.let(fun.Update(made, (fun.Span(ZERO, N),), backwards), array(N))
    inner = b.inner()
    index = fun.Range(b.index(), N)
    i = Poly.var(index.index.name)
    at = inner.let(fun.SizeValue(N - 1 - i), I64)
    value = element(inner, turned, i)
    scattered = b.let(fun.Scatter((turned,), (index,), inner.body([at, value])), array(N))

    def step(inner: Builder, t: Size, x: fun.Var, y: fun.Var) -> list[fun.Atom]:
        first = inner.let(fun.Update(x, (ZERO,), element(inner, y, 1)), array(N))
        return [first, inner.let(fun.Update(y, (ONE,), element(inner, x, 2)), array(N))]

    return p.program(*_loop(b, [scattered, scattered], step)), [numbers(5)]


def repeated_update() -> Case:
    """An update of a broadcast view must not write an element for many."""
    p = Maker(
        ("v", array(M)),
    )
    (v,), b = p.params, p.build
    made = doubled(b, v)
    rows = b.let(fun.Broadcast(made, (N, M)), array(N, M))
    new = b.let(fun.Update(rows, (ZERO, ZERO), fun.Const(1.0, DType.F64)), array(N, M))
    return p.program(new, p.build.let(fun.SizeValue(N), I64)), [numbers(4)]


def histogram() -> Case:
    """A scatter with an operator, and one without, into parameters and temporaries."""
    p = Maker(("at", array(N, dtype=DType.I64)), ("a", array(M)))
    (at, a), b = p.params, p.build

    def scatter(into: fun.Var, operator: fun.Lambda | None) -> fun.Var:
        inner = b.inner()
        index = fun.Range(b.index(), N)
        i = element(inner, at, Poly.var(index.index.name))
        value = inner.let(fun.Cast(DType.F64, i), F)
        expr = fun.Scatter((into,), (index,), inner.body([i, value]), operator)
        return b.let(expr, into.type)

    zeros = b.let(fun.Broadcast(fun.Const(0.0, DType.F64), (M,)), array(M))
    counted = scatter(scatter(zeros, plus(b)), plus(b))
    return p.program(scatter(a, None), counted), [np.array([0, 3, 3, 1, 0]), numbers(4)]


def cumulative() -> Case:
    """A scan over rows, exclusive and inclusive, and a concatenation."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build

    def scan(exclusive: bool) -> fun.Var:
        inner = b.inner()
        space = tuple(fun.Range(b.index(), extent) for extent in (N, M))
        i, j = (Poly.var(r.index.name) for r in space)
        body = inner.body([element(inner, a, i, j)])
        neutral = (fun.Const(0.5, DType.F64),)
        return b.let(fun.Scan(space, body, plus(b), neutral, exclusive), array(N, M))

    joined = b.let(fun.Concat((scan(True), scan(False), a), 0), array(3 * N, M))
    return p.program(joined), [numbers(3, 4)]


def _loop(
    b: Builder, initial: list[fun.Atom], body: Callable[..., list[fun.Atom]], rounds: int = 3
) -> tuple[fun.Var, ...]:
    types = tuple(atom.type for atom in initial)
    params = tuple(b.var("p", type_) for type_ in types)
    inner, index = b.inner(), b.index("t")
    results = body(inner, Poly.var(index.name), *params)
    form = fun.For(index, ZERO, as_poly(rounds))
    return b.bind(fun.Loop(params, tuple(initial), form, inner.body(results)), types)


def stencil_loop() -> Case:
    """An iterated stencil: each round reads neighbours of the last."""
    p = Maker(("a", array(N)))
    (a,), b = p.params, p.build

    def step(inner: Builder, t: Size, x: fun.Var) -> list[fun.Atom]:
        def point(k: Builder, i: Size) -> fun.Atom:
            edge = fun.Boundary("wrap", ZERO, N)
            left = k.let(fun.Index(x, (i - 1,), (edge,)), F)
            return apply(k, "subtract", left, element(k, x, i))

        return [kernel(inner, (N,), point)]

    return p.program(*_loop(b, [a], step)), [numbers(7)]


def swapping_loop() -> Case:
    """A loop that swaps its arrays, counts, and keeps one as it is."""
    p = Maker(("a", array(N)), ("c", array(N)))
    (a, c), b = p.params, p.build
    start = doubled(b, a)

    def step(
        inner: Builder, t: Size, x: fun.Var, y: fun.Var, z: fun.Var, count: fun.Var
    ) -> list[fun.Atom]:
        new = doubled(inner, y)
        one = fun.Const(1, DType.I64)
        return [new, x, z, apply(inner, "add", count, one)]

    results = _loop(b, [start, c, c, fun.Const(0, DType.I64)], step)
    return p.program(*results), [numbers(5), numbers(6)[:5]]


def update_loop() -> Case:
    """A loop that updates its array in place, and one that turns it in its own memory."""
    p = Maker(("a", array(N, N)))
    (a,), b = p.params, p.build

    def step(inner: Builder, t: Size, x: fun.Var) -> list[fun.Atom]:
        value = element(inner, x, t, t)
        return [inner.let(fun.Update(x, (t, ZERO), value), array(N, N))]

    def turn(inner: Builder, t: Size, x: fun.Var) -> list[fun.Atom]:
        return [inner.let(fun.Permute(x, (1, 0)), array(N, N))]

    (first,) = _loop(b, [doubled(b, a)], step)
    return p.program(*_loop(b, [first], turn)), [numbers(4, 4)]


def while_loop() -> Case:
    """Doubling until the sum is large."""
    p = Maker(("a", array(N)))
    (a,), b = p.params, p.build
    x = b.var("p", array(N))
    test, inner = b.inner(), b.inner()
    whole = total(test, N, lambda k, i: apply(k, "abs", element(k, x, i)))
    condition = test.body([apply(test, "less", whole, fun.Const(100.0, DType.F64))])
    body = inner.body([doubled(inner, x)])
    return p.program(*b.bind(fun.Loop((x,), (a,), fun.While(condition), body), (array(N),))), [
        numbers(5)
    ]


def branches() -> Case:
    """An `If` that gives a fresh array, or a parameter; one in a kernel too."""
    p = Maker(("a", array(N, M)), ("s", F))
    (a, s), b = p.params, p.build
    positive = apply(b, "greater", s, fun.Const(0.0, DType.F64))
    then, otherwise = b.inner(), b.inner()
    expr = fun.If(positive, then.body([doubled(then, a)]), otherwise.body([a]))
    chosen = b.let(expr, array(N, M))

    def row(outer: Builder, i: Size) -> fun.Atom:
        big = apply(outer, "greater", element(outer, chosen, i, 0), s)
        yes, no = outer.inner(), outer.inner()
        view = yes.let(fun.Slice(a, (i, fun.Span(ZERO, M))), array(M))
        zeros = no.let(fun.Broadcast(s, (M,)), array(M))
        return outer.let(fun.If(big, yes.body([view]), no.body([zeros])), array(M))

    return p.program(kernel(b, (N,), row)), [numbers(3, 4), 0.25]


def kernel_loop() -> Case:
    """A loop over an array inside a kernel: a thread's own memory."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        start = outer.let(fun.Slice(a, (i, fun.Span(ZERO, M))), array(M))

        def step(inner: Builder, t: Size, x: fun.Var) -> list[fun.Atom]:
            def point(k: Builder, j: Size) -> fun.Atom:
                return apply(k, "add", element(k, x, M - 1 - j), element(k, x, t))

            return [kernel(inner, (M,), point)]

        (last,) = _loop(outer, [start], step)
        return last

    return p.program(kernel(b, (N,), row)), [numbers(3, 4)]


def joined_view() -> Case:
    """A temporary made in its part of a larger one, of which a part is the result."""
    p = Maker(("a", array(N)))
    (a,), b = p.params, p.build
    whole = b.let(fun.Concat((a, doubled(b, a)), 0), array(2 * N))
    return p.program(b.let(fun.Slice(whole, (fun.Span(ONE, N),)), array(N))), [numbers(4)]


def column_sums() -> Case:
    """A reduction that keeps a dimension, and one over all."""
    p = Maker(("a", array(N, M)))
    (a,), b = p.params, p.build
    inner = b.inner()
    space = (fun.Range(b.index(), M), fun.Range(b.index(), N))
    j, i = (Poly.var(r.index.name) for r in space)
    body = inner.body([element(inner, a, i, j)])
    expr = fun.Reduce(space, 1, body, plus(b), (fun.Const(0.0, DType.F64),))
    sums = b.let(expr, array(M))
    return p.program(sums, total(b, M, lambda k, q: element(k, sums, q))), [numbers(3, 4)]


CASES: dict[str, Callable[[], Case]] = {
    make.__name__: make
    for make in (
        views, view_results, transposed_result, reshape_copies, chain, maps, softmax,
        inner_view_result, triangle, updates, self_updates, repeated_update, histogram, cumulative,
        stencil_loop, swapping_loop, update_loop, while_loop, branches, kernel_loop,
        column_sums, joined_view,
    )
}  # fmt: skip
