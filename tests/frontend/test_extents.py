"""Lengths that differ from round to round: against NumPy, lazily and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from frontend.agree import same

import weft as wf
from weft.errors import ArgumentError, ShapeError, TracingError
from weft.fun.check import check
from weft.fun.parse import parse

rng = np.random.default_rng(3)
V = rng.normal(size=9)
LARGE = rng.normal(size=3001)  # too large to be interpreted
A = rng.normal(size=(6, 6))


def agree(function: Callable[..., Any], *arguments: Any) -> None:
    """A function of arrays gives the same in NumPy's terms, lazily, and compiled."""
    expected = function(np, *arguments)
    lazy = [wf.asarray(x) if isinstance(x, np.ndarray) else x for x in arguments]
    same(function(wf, *lazy), expected)
    compiled = wf.jit(lambda *xs: function(wf, *xs))
    check(parse(compiled.lower(*arguments).fun))
    np.testing.assert_allclose(compiled(*arguments), expected, rtol=1e-10)


def rounds(xp: Any, lower: int, upper: Any, body: Callable[..., Any], value: Any) -> Any:
    """A loop, of NumPy's or of Weft's."""
    if xp is wf:
        return wf.fori_loop(lower, upper, body, value)
    for k in range(lower, upper):
        value = body(k, value)
    return value


def put(xp: Any, x: Any, key: Any, value: Any) -> Any:
    if xp is wf:
        return x.at[key].set(value)
    x = x.copy()
    x[key] = value
    return x


SLICES: dict[str, Callable[[Any, Any], Any]] = {
    "growing": lambda x, k: x[: k + 1],
    "shrinking": lambda x, k: x[k:],
    "from the end": lambda x, k: x[-k - 1 :],
    "to the end": lambda x, k: x[: -k - 1],
    "between": lambda x, k: x[k : 2 * k],
    "past the end": lambda x, k: x[k : 3 * k + 1],
    "before the start": lambda x, k: x[k - 3 : 5],
    "nothing in some rounds": lambda x, k: x[3:k],
    "every second": lambda x, k: x[: k + 1 : 2],
    "backwards": lambda x, k: x[k::-1],
    "backwards by two": lambda x, k: x[: k - 4 : -2],
}


@pytest.mark.parametrize("name", SLICES)
def test_slices_are_pythons(name: str) -> None:
    part = SLICES[name]

    def sums(xp: Any, x: Any) -> Any:
        n = x.shape[0]
        return rounds(xp, 0, n, lambda k, y: put(xp, y, k, (part(x, k) * 2.0).sum()), xp.zeros(n))

    agree(sums, V)
    agree(sums, LARGE[:500])


def test_a_triangle_shrinking_slices_and_growing_blocks() -> None:
    def triangle(xp: Any, x: Any) -> Any:
        n = x.shape[0]
        return rounds(xp, 0, n, lambda k, y: put(xp, y, slice(0, k + 1), y[: k + 1] + x[k]), x)

    def eliminated(xp: Any, a: Any) -> Any:
        def step(k: Any, a: Any) -> Any:
            rest = a[k + 1 :, k + 1 :] * 0.5 + a[k + 1 :, k][:, None] * a[k, k + 1 :] * 0.01
            return put(xp, a, (slice(k + 1, None), slice(k + 1, None)), rest)

        return rounds(xp, 0, a.shape[0], step, a)

    def blocks(xp: Any, x: Any) -> Any:
        q = x.shape[0] // 4

        def step(k: Any, x: Any) -> Any:
            tiles = xp.reshape(x[: (k + 1) * 4], (k + 1, 4))
            return put(xp, x, slice(0, (k + 1) * 4), xp.reshape(tiles - tiles[:, :1] / 2, -1))

        return rounds(xp, 0, q, step, x)

    for x in (V, LARGE[:701]):
        agree(triangle, x)
        agree(blocks, x)
    for a in (A, LARGE[:2500].reshape(50, 50)):
        agree(eliminated, a)


def test_loops_nest() -> None:
    def products(xp: Any, x: Any) -> Any:
        n = x.shape[0]

        def outer(i: Any, y: Any) -> Any:
            return rounds(
                xp, 0, i, lambda j, y: put(xp, y, i, y[i] + (x[j : i + 1] * x[i]).sum()), y
            )

        return rounds(xp, 0, n, outer, xp.zeros(n))

    agree(products, V)


def test_parts_are_joined_and_multiplied() -> None:
    def swapped(xp: Any, x: Any) -> Any:
        n = x.shape[0]
        return rounds(xp, 1, n, lambda k, y: xp.concat([y[k:], y[:k]]), x)

    def products(xp: Any, a: Any) -> Any:
        def step(k: Any, y: Any) -> Any:
            return put(xp, y, k, (a[: k + 1].T @ a[: k + 1, k:]).sum())

        return rounds(xp, 0, a.shape[0], step, xp.zeros(a.shape[0]))

    agree(swapped, V)
    agree(products, A)
    agree(products, LARGE[:900].reshape(30, 30))


def test_a_length_that_is_computed() -> None:
    for at in ([2, 3], [0, 20], [-2, -3], [-30, 1]):
        expected = (V[: sum(at)] ** 2).sum()
        found = wf.jit(lambda x, at: (x[: at.sum()] ** 2).sum())(V, np.array(at))
        np.testing.assert_allclose(found, expected)


def test_arrays_of_such_lengths_are_made() -> None:
    def ramps(xp: Any, x: Any) -> Any:
        n = x.shape[0]

        def step(k: Any, y: Any) -> Any:
            ramp = xp.arange(k + 1) + xp.ones(k + 1) + xp.broadcast_to(x[k], (k + 1,))
            return put(xp, y, slice(0, k + 1), y[: k + 1] + ramp)

        return rounds(xp, 0, n, step, xp.zeros(n))

    agree(ramps, V)


def test_lmads_of_such_lengths() -> None:
    def diagonals(x: Any, n: Any) -> Any:
        """Sets the k-th anti-diagonal to k."""

        def step(k: Any, x: Any) -> Any:
            diagonal = wf.lmad(x, k, [(k + 1, n - 1)])
            return x.at_lmad(k, [(k + 1, n - 1)]).set(diagonal * 0 + k)

        return wf.fori_loop(0, n, step, x)

    numbers = np.add.outer(np.arange(6), np.arange(6))
    expected = np.where(numbers < 6, numbers, 0)
    for run in (diagonals, wf.jit(diagonals)):
        found = np.asarray(run(wf.zeros(36) if run is diagonals else np.zeros(36), 6))
        np.testing.assert_array_equal(found.reshape(6, 6), expected)


def test_one_program_serves_all_sizes() -> None:
    traces = []

    @wf.jit
    def blocks(x: Any, b: Any) -> Any:
        traces.append(None)
        q = x.shape[0] // b
        wf.assume(x.shape[0] == q * b)

        def step(k: Any, x: Any) -> Any:
            rest = x[(k + 1) * b :].reshape(q - k - 1, b) + 1
            return x.at[(k + 1) * b :].set(rest.reshape((q - k - 1) * b))

        return wf.fori_loop(0, q, step, x)

    for n, b in ((12, 3), (700, 7), (64, 64), (900, 2)):
        np.testing.assert_array_equal(blocks(np.zeros(n), b), np.repeat(np.arange(n // b), b))
    assert len(traces) == 1
    with pytest.raises(ArgumentError, match="assumption"):
        blocks(np.zeros(13), 3)


def test_lengths_that_differ_are_refused() -> None:
    v = wf.asarray(V)

    def loop(body: Callable[..., Any]) -> Callable[[], Any]:
        return lambda: wf.fori_loop(0, 4, body, v)

    for refused, error, message in (
        (loop(lambda i, x: x.at[0].set((x[: i + 1] + x[: 2 * i]).sum())), ShapeError,
         r"lengths i \+ 1 and 2\*i, which are not known to be equal"),
        (loop(lambda i, x: x[: i + 1]), ShapeError, r"gives.*\(i \+ 1,\)|result of shape"),
        (loop(lambda i, x: x.at[0].set(wf.lmad(x, 0, [(i - 1, 1)]).sum())), ArgumentError,
         "i - 1, which may be negative"),
        (loop(lambda i, x: x.at[0].set(x[: i + 1].reshape(2, -1).sum())), ShapeError, "lengths"),
        (loop(lambda i, x: x.at[0].set(x[:i].max())), ShapeError, "no elements"),
        (loop(lambda i, x: x.at[0].set(len(x[: i + 1]))), TracingError, r"i \+ 1"),
        (lambda: wf.generate(4, lambda k: v[:k]), ShapeError, r"result of shape \(k,\)"),
        (lambda: wf.jit(lambda x: x[: x.argmax()])(V), ShapeError, "result"),
    ):  # fmt: skip
        with pytest.raises(error, match=message) as caught:
            refused()
        assert caught.value.place is not None
        assert caught.value.place.file == __file__


def test_a_dimension_of_one_repeats_beside_any_length() -> None:
    def summed(xp: Any, a: Any) -> Any:
        n = a.shape[0]

        def step(k: Any, y: Any) -> Any:
            return put(xp, y, k, (a[: k + 1, :1] * a[:1, k:]).sum())

        return rounds(xp, 0, n, step, xp.zeros(n))

    agree(summed, A)


def _reversed(x: Any) -> Any:
    return wf.take(x, x.shape[0] - 1 - wf.arange(x.shape[0]))


def _averaged(x: Any) -> Any:
    wide = np.pad(x, 1, mode="edge")
    return (wide[:-2] + wide[2:]) * 0.5


# What is done to the elements from k on, or (a scalar) becomes the element k.
ROUNDS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "branch": (
        lambda y, k: wf.cond(y[k] > 0, lambda: y[:k].sum(), lambda: y[k:].sum() * 0.1),
        lambda y, k: y[:k].sum() if y[k] > 0 else y[k:].sum() * 0.1,
    ),
    "map over one, of another": (
        lambda y, k: wf.map(lambda v: (y[k:] * v).sum(), y[: k + 1]).max() * 0.01,
        lambda y, k: np.outer(y[: k + 1], y[k:]).sum(axis=1).max() * 0.01,
    ),
    "running sums": (
        lambda y, k: wf.cumulative_sum(y[k:]) * 0.5,
        lambda y, k: np.cumsum(y[k:]) * 0.5,
    ),
    "loop that stacks": (
        lambda y, k: wf.scan(lambda c, v: (c + v, c + v), 0.0, y[k:])[1] * 0.5,
        lambda y, k: np.cumsum(y[k:]) * 0.5,
    ),
    "stencil": (
        lambda y, k: wf.stencil(lambda s: (s[-1] + s[1]) * 0.5, y[k:]),
        lambda y, k: _averaged(y[k:]),
    ),
    "gather": (lambda y, k: _reversed(y[k:]), lambda y, k: y[k:][::-1]),
    "flip": (lambda y, k: wf.flip(y[k:]), lambda y, k: y[k:][::-1]),
    "roll": (lambda y, k: wf.roll(y[k:], 2), lambda y, k: np.roll(y[k:], 2)),
    "moments": (
        lambda y, k: y[: k + 1].mean() + y[k:].var(),
        lambda y, k: y[: k + 1].mean() + y[k:].var(),
    ),
    "index of the largest": (
        lambda y, k: y[wf.argmax(y[: k + 1])] * 0.9,
        lambda y, k: y[y[: k + 1].argmax()] * 0.9,
    ),
    "length that is computed": (
        lambda y, k: y[: wf.argmax(y)].sum() * 0.1,
        lambda y, k: y[: y.argmax()].sum() * 0.1,
    ),
    "stack and tile": (
        lambda y, k: (wf.stack([y[:k], y[:k] * 2]).sum() + wf.tile(y[:k], (2,)).sum()) * 0.01,
        lambda y, k: y[:k].sum() * 0.05,
    ),
    "length as a number": (lambda y, k: y[k:].shape[0] * 0.5, lambda y, k: (len(y) - k) * 0.5),
    "scatter": (
        lambda y, k: y.at[k + wf.arange(y.shape[0] - k)].add(1.0)[k:],
        lambda y, k: y[k:] + 1,
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_whatever_is_done_in_a_round(name: str) -> None:
    ours, theirs = ROUNDS[name]

    def step(k: Any, y: Any) -> Any:
        new = wf.asarray(ours(y, k))
        return y.at[k:].set(new) if new.ndim else y.at[k].set(new)

    for n in (1, 2, 40):
        x = rng.normal(size=n)
        expected = x.copy()
        for k in range(n):
            new = theirs(expected, k)
            expected[slice(k, None) if np.ndim(new) else k] = new
        for interpret_below in (0, 1 << 40):
            with wf.config(interpret_below=interpret_below):
                found = wf.jit(lambda x: wf.fori_loop(0, x.shape[0], step, x))(x)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
