"""Combinators and control flow: against NumPy, lazily and compiled."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from frontend.agree import jitted, same

import weft as wf
from weft.errors import ArgumentError, DTypeError, ShapeError, TracingError, UnsupportedError

rng = np.random.default_rng(1)
X = rng.normal(size=(4, 6))
V = rng.normal(size=9)


def test_map_nests() -> None:
    x = wf.asarray(X)
    same(wf.map(lambda r: r - r.mean(), x), X - X.mean(axis=1, keepdims=True))
    same(wf.map(lambda r: wf.map(lambda v: v * 2, r), x), X * 2)
    same(wf.map(lambda a, b: (a.sum(), a * b), x, wf.asarray(V[:4])),
         (X.sum(axis=1), X * V[:4, None]))  # fmt: skip
    # The pairwise distances of points: parallelism in two dimensions and a reduction.
    same(
        wf.map(lambda p: wf.map(lambda q: wf.sqrt(((p - q) ** 2).sum()), x), x),
        np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=-1)),
    )
    same(wf.map(lambda r: x @ r, x), X @ X.T)
    with pytest.raises(ShapeError, match="lengths 4 and 9"):
        wf.map(operator.add, x, V)


def test_what_does_not_depend_on_the_row_is_computed_outside() -> None:
    x = wf.asarray(X)
    y = wf.map(lambda r: r - x.mean(), x)
    same(y, X - X.mean())
    from weft.frontend.trace import trace

    program = trace([y._node]).program
    assert [type(let.expr).__name__ for let in program.body.statements].count("Reduce") == 1


def test_generate_and_backpermute() -> None:
    same(wf.generate((3, 4), lambda i, j: i * 10 + j), np.arange(3)[:, None] * 10 + np.arange(4))
    same(wf.generate(5, lambda i: wf.where(i % 2 == 0, 1.5, 0.0)), np.array([1.5, 0, 1.5, 0, 1.5]))
    x = wf.asarray(X)
    same(wf.backpermute((6, 4), lambda i, j: (j, i), x), X.T)
    same(wf.generate((4, 5), lambda i, j: x[i, j + 1] - x[i, j]), np.diff(X, axis=1))
    jitted(lambda a: wf.generate((4, 5), lambda i, j: a[i, j + 1] - a[i, j]), X)


def test_reduce_by_any_operator() -> None:
    x = wf.asarray(X)
    same(wf.reduce(lambda a, b: a + b, 0, x), X.sum(axis=1))
    same(wf.reduce("max", None, x, axis=None), X.max())
    same(wf.reduce(operator.mul, 2.0, x, axis=0), 2 * X.prod(axis=0))

    def both(a: Any, b: Any) -> Any:
        return a[0] + b[0], wf.maximum(a[1], b[1])

    same(wf.reduce(both, (0.0, -np.inf), x, x), (X.sum(axis=1), X.max(axis=1)))
    jitted(lambda a: wf.reduce(both, (0.0, -np.inf), a, a, axis=0), X)
    with pytest.raises(ArgumentError, match="operator"):
        wf.reduce("nonsense", 0, x)


def test_associative_scan() -> None:
    x = wf.asarray(X)
    same(wf.associative_scan("add", x), X.cumsum(axis=1))
    same(wf.associative_scan(lambda a, b: a + b, x, axis=0), X.cumsum(axis=0))
    same(wf.associative_scan("add", x, exclusive=True)[:, 1:], X.cumsum(axis=1)[:, :-1])
    same(wf.associative_scan(operator.mul, x, init=3.0), 3 * X.cumprod(axis=1))
    # Linear recurrences y = a * y + b as a scan over pairs.
    a, b = V[:8], V[1:]

    def step(p: Any, q: Any) -> Any:
        return p[0] * q[0], p[1] * q[0] + q[1]

    expected, y = [], 0.0
    for u, v in zip(a, b, strict=True):
        y = u * y + v
        expected.append(y)
    same(wf.associative_scan(step, wf.asarray(a), wf.asarray(b))[1], np.array(expected))
    with pytest.raises(ArgumentError, match="exclusive"):
        wf.associative_scan(lambda a, b: a, x, exclusive=True)


def test_scatter() -> None:
    bins = rng.integers(0, 7, size=50)
    weights = rng.normal(size=50)
    expected = np.bincount(bins, weights, minlength=7)
    same(wf.scatter(wf.zeros(7), wf.asarray(bins), weights, "add"), expected)
    same(
        wf.scatter(wf.zeros(7), bins, 1.0, lambda a, b: a + 2 * b),
        2.0 * np.bincount(bins, minlength=7),
    )
    last = np.zeros(7)
    last[bins] = weights
    same(wf.scatter(wf.zeros(7), bins, weights), last)
    rows = X.copy()
    rows[[2, 0]] = 1
    same(wf.scatter(wf.asarray(X), np.array([2, 0]), np.ones((2, 6))), rows)
    best, where = wf.scatter(
        (wf.full(7, -np.inf), wf.full(7, -1)),
        bins,
        (wf.asarray(weights), wf.arange(50)),
        lambda a, b: (wf.maximum(a[0], b[0]), wf.where(b[0] > a[0], b[1], a[1])),
    )
    same(best, np.array([weights[bins == k].max(initial=-np.inf) for k in range(7)]))
    found = where.numpy()
    assert all(weights[k] == weights[bins == bins[k]].max() for k in found if k >= 0)
    with pytest.raises(IndexError):
        wf.scatter(wf.zeros(3), np.array([3]), 1.0).numpy()


@pytest.mark.parametrize("boundary", ["edge", "reflect", "symmetric", "wrap", 0.5, "keep"])
def test_stencil_boundaries(boundary: Any) -> None:
    def mean(s: Any) -> Any:
        return (s[-1, 0] + s[1, 0] + s[0, -1] + s[0, 1] + s[0, 0]) / 5

    if boundary == "keep":
        padded = np.pad(X, 1)
    elif isinstance(boundary, str):
        padded = np.pad(X, 1, mode=boundary)  # type: ignore[call-overload]
    else:
        padded = np.pad(X, 1, constant_values=boundary)
    inner = padded[1:-1, 1:-1]
    expected = (
        padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] + inner
    ) / 5
    if boundary == "keep":
        whole = X.copy()
        whole[1:-1, 1:-1] = expected[1:-1, 1:-1]
        expected = whole
    same(wf.stencil(mean, wf.asarray(X), boundary=boundary), expected)
    jitted(lambda x: wf.stencil(mean, x, boundary=boundary), X)


def test_short_rolls_are_one_kernel_with_what_reads_them() -> None:
    def steps(x: Any) -> Any:
        xp = np if isinstance(x, np.ndarray) else wf
        around = xp.roll(x, 1, axis=0) + xp.roll(x, -1, axis=0) + xp.roll(x, (2, -1), axis=(1, 1))
        return around - 4 * x

    jitted(steps, X)
    assert str(wf.jit(steps).lower(X).fun).count("= kernel") == 1
    long = wf.jit(lambda x: 2 * wf.roll(x, 1000))
    assert "concat" in str(long.lower(V).fun)  # its ends would be long


@pytest.mark.parametrize("shift", [0, 1, -3, 16, -17, 43])
@pytest.mark.parametrize("shape", [(0,), (1,), (2,), (5,), (40,), (3, 0), (3, 4)])
def test_rolls_of_any_extent(shape: tuple[int, ...], shift: int) -> None:
    data = rng.normal(size=shape)
    same(wf.roll(wf.asarray(data), shift), np.roll(data, shift))
    same(wf.roll(wf.asarray(data), shift, axis=-1), np.roll(data, shift, axis=-1))
    jitted(lambda x: wf.roll(x, shift, axis=0) + x, data)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "symmetric", "wrap"])
def test_pad(mode: Any) -> None:
    same(wf.pad(X, ((1, 2), (0, 3)), mode), np.pad(X, ((1, 2), (0, 3)), mode))
    same(np.pad(wf.asarray(X), 1, mode=mode), np.pad(X, 1, mode=mode))
    same(wf.pad(V, (2, 0), constant_values=1.5), np.pad(V, (2, 0), constant_values=1.5))


def test_stencils_of_several_arrays_and_axes() -> None:
    same(
        wf.stencil(lambda s, t: s[0, 1] * t[1, 0], X, X + 1, boundary=("wrap", "edge")),
        np.concatenate([X[:, 1:], X[:, -1:]], axis=1) * np.roll(X + 1, -1, axis=0),
    )
    kept = X.copy()
    kept[:, :-2] = np.roll(X, 1, axis=0)[:, 2:]
    same(wf.stencil(lambda s: s[-1, 2], X, boundary=("wrap", "keep")), kept)
    same(wf.stencil(lambda s: (s[1], s[0] * 2), V, boundary=0), (np.append(V[1:], 0), V * 2))
    with pytest.raises(ArgumentError, match="boundary"):
        wf.stencil(lambda s: s[1], V, boundary="mirror")
    with pytest.raises(ShapeError):
        wf.stencil(lambda s: s[1], X)


def test_loops() -> None:
    x = wf.asarray(X)
    same(wf.fori_loop(0, 6, lambda k, v: v + x[:, k], wf.zeros(4)), X.sum(axis=1))
    total = wf.fori_loop(0, 6, lambda k, s: s + x[0, k], 0)
    same(total, X[0].sum())
    same(wf.while_loop(lambda v: v < 100, lambda v: v * 2, 1), np.array(128))
    a, b = wf.fori_loop(0, 10, lambda _, s: (s[1], s[0] + s[1]), (0, 1))
    same((a, b), (np.array(55), np.array(89)))
    carry, ys = wf.scan(lambda c, r: (c + r.sum(), c * r), 0.0, x)
    rows = X.sum(axis=1)
    same(carry, rows.sum())
    same(ys, np.array([rows[:k].sum() * X[k] for k in range(4)]))
    jitted(lambda a: wf.scan(lambda c, r: (c + r.sum(), c * r), 0.0, a), X)
    with pytest.raises(ShapeError, match="takes shape"):
        wf.fori_loop(0, 3, lambda _, v: wf.concat([v, v]), x)
    with pytest.raises(DTypeError):
        wf.fori_loop(0, 3, lambda _, v: v + 0.5, wf.asarray(np.array(1)))


def test_slices_that_move() -> None:
    v = wf.asarray(V)
    same(wf.map(lambda k: v[k : k + 3].sum(), wf.arange(7)), np.convolve(V, np.ones(3), "valid"))
    same(
        wf.generate(3, lambda k: v[2 * k : 2 * k + 4 : 2]),
        np.array([V[k : k + 4 : 2] for k in (0, 2, 4)]),
    )

    def doubled(k: Any, x: Any) -> Any:
        return x.at[k : k + 2].multiply(2)

    same(wf.fori_loop(0, 3, doubled, v), V * np.array([2, 4, 4, 2, 1, 1, 1, 1, 1]))
    same(wf.map(lambda k: v[:k].sum(), wf.arange(3)), np.array([V[:k].sum() for k in range(3)]))
    with pytest.raises(IndexError):
        wf.generate(9, lambda k: v[k : k + 2]).numpy()


def test_iterate() -> None:
    v = wf.asarray(V)
    same(wf.iterate(lambda x: x * 2, v, 5), V * 32)
    last, kept = wf.iterate(lambda x: x * 2, v, 5, every=2)
    same((last, kept), (V * 32, np.array([V * 4, V * 16])))
    same(wf.iterate(lambda k, x: x + k, v, 4, with_step=True), V + 6)

    def smooth(x: Any, n: Any) -> Any:
        return wf.iterate(
            lambda u: wf.stencil(lambda s: (s[-1] + s[0] + s[1]) / 3, u, boundary="keep"), x, n
        )

    expected = V.copy()
    for _ in range(3):
        expected[1:-1] = (expected[:-2] + expected[1:-1] + expected[2:]) / 3
    np.testing.assert_allclose(wf.jit(smooth)(V, 3), expected)


def test_cond() -> None:
    x = wf.asarray(X)
    same(wf.cond(x.sum() > 1e9, lambda: x + 1, lambda: x - 1), X - 1)
    same(wf.map(lambda v: wf.cond(v > 0, lambda: wf.sqrt(v), lambda: v * 0), x[0]),
         np.sqrt(np.maximum(X[0], 0)))  # fmt: skip
    # Only the branch that is taken may read: here the other would be outside.
    same(
        wf.generate(9, lambda i: wf.cond(i > 0, lambda: wf.asarray(V)[i - 1], lambda: 0.0)),
        np.append(0.0, V[:-1]),
    )
    with pytest.raises(ShapeError):
        wf.cond(x > 0, lambda: x, lambda: x)
    with pytest.raises(ShapeError):
        wf.cond(x.any(), lambda: x, lambda: x[0])


def test_mandelbrot() -> None:
    def pixel(i: Any, j: Any) -> Any:
        real, imaginary = j * 0.5 - 2.0, i * 0.5 - 1.0

        def step(z: Any) -> Any:
            a, b, n = z
            return a * a - b * b + real, 2 * a * b + imaginary, n + 1

        def going(z: Any) -> Any:
            return wf.logical_and(z[0] * z[0] + z[1] * z[1] < 16, z[2] < 30)

        return wf.while_loop(going, step, (0.0, 0.0, 0))[2]

    c = (np.arange(6) * 0.5 - 2.0) + 1j * (np.arange(5)[:, None] * 0.5 - 1.0)
    z, n = np.zeros_like(c), np.zeros(c.shape, int)
    for _ in range(30):
        going = abs(z) < 4
        z[going] = z[going] ** 2 + c[going]
        n += going
    same(wf.generate((5, 6), pixel), n)
    np.testing.assert_array_equal(wf.jit(lambda: wf.generate((5, 6), pixel))(), n)


def test_lmads() -> None:
    flat = np.arange(24.0)
    x = wf.asarray(flat)
    view = wf.lmad(x, 2, [(3, 7), (2, 1)])
    same(view, np.array([[2.0, 3], [9, 10], [16, 17]]))
    expected = flat.copy()
    expected[[2, 9, 16]] = -1
    same(x.at_lmad(2, [(3, 7)]).set(-1.0), expected)
    same(wf.fori_loop(0, 3, lambda k, a: a.at_lmad(k, [(2, 10)]).set(0.0), x),
         np.where(np.isin(flat, [0, 1, 2, 10, 11, 12]), 0, flat))  # fmt: skip
    with pytest.raises(ShapeError):
        wf.lmad(wf.asarray(X), 0, [(2, 1)])


def test_values_do_not_leave_a_traced_function() -> None:
    kept: list[Any] = []
    wf.map(lambda r: (kept.append(r), r * 2)[1], wf.asarray(X))
    with pytest.raises(TracingError):
        kept[0].numpy()
    with pytest.raises(TracingError) as error:
        wf.map(lambda v: v if v > 0 else -v, wf.asarray(V))
    assert "test_combinators.py" in str(error.value)
    assert "wf.where" in str(error.value)


def test_library_routines_stay_outside() -> None:
    x = wf.asarray(X)
    with pytest.raises(UnsupportedError, match="svd inside"):
        wf.map(lambda r: wf.linalg.svd(wf.reshape(r, (2, 3)))[0], x)
    with pytest.raises(UnsupportedError):
        wf.cond(x.any(), lambda: wf.linalg.svd(x)[2], lambda: x)
    same(wf.map(wf.sort, x), np.sort(X))  # which is written out
    same(wf.cond(x.any(), lambda: wf.sort(x), lambda: x), np.sort(X))
    same(wf.map(lambda r: wf.sort(x)[0] + r, x), X + np.sort(X)[0])  # does not depend on r
    same(wf.map(lambda r: wf.reshape(r, (2, 3)) @ wf.reshape(r, (3, 2)), x),
         X.reshape(4, 2, 3) @ X.reshape(4, 3, 2))  # fmt: skip


def test_scatter_into_what_a_loop_alternates_between() -> None:
    """Threads merge their private histograms into the buffer whose turn it is."""
    random = np.random.default_rng(0)
    bins = random.integers(0, 1000, 300_000)
    weights = random.standard_normal(len(bins))

    def program(bins: Any, weights: Any, sums: Any) -> Any:
        def halved(_: Any, sums: Any) -> Any:
            return wf.scatter(sums * 0.5, bins, weights * sums[0], combine=wf.add)

        return wf.fori_loop(0, 7, halved, sums)

    expected = np.ones(1000)
    for _ in range(7):
        added = expected * 0.5
        np.add.at(added, bins, weights * expected[0])
        expected = added
    for threads in (1, 2):
        with wf.config(threads=threads):
            found = wf.jit(program)(bins, weights, np.ones(1000))
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_masks_in_branches_select_where_no_parameter_is_involved() -> None:
    """As elsewhere; a branch of its own operands was refused for values that do not leave it."""
    x, yes = wf.asarray(np.arange(6.0)), wf.asarray(np.array(True))

    def added(v: wf.Array) -> wf.Array:
        v = v * 2
        v[v > 4] += 1
        return v

    np.testing.assert_array_equal(wf.cond(yes, added, lambda v: v, x), [0, 2, 4, 7, 9, 11])
    assert float(wf.cond(yes, lambda v: v[v > 3].sum(), lambda v: v.sum(), x)) == 9
    twice = wf.map(lambda e: wf.cond(yes, lambda: added(x)[2] + e, lambda: e), x)
    np.testing.assert_array_equal(twice, x + 4)
    looped = wf.fori_loop(0, 3, lambda i, v: added(v), x)  # where the mask selects, unknown
    np.testing.assert_array_equal(looped, [0, 9, 19, 31, 39, 47])
    with pytest.raises(TracingError, match="an index that is a mask"):
        wf.fori_loop(0, 3, lambda i, v: v + v[v > 4].size, x)
