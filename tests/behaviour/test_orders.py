"""Arrays that lie row by row in another order of their axes: Fortran's, and those of views."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.array.making import order_of_rows

RNG = np.random.default_rng(4)
PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "elements": lambda x: x * 2 + 1,
    "sums": lambda x: (x.sum(axis=0), x.sum(axis=-1), x.sum()),
    "centred": lambda x: x - x.mean(axis=0),
    "extremes": lambda x: (x.max(axis=0), x.argmax(axis=-1)),
    "a part": lambda x: x[1:, ..., ::2] - x[:-1, ..., ::2],
    "both ways": lambda x: x + x[::-1],
    "turned": lambda x: x.T * x.shape[0],
}


def same(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
        return
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5 if found.dtype == "f4" else 1e-12)


def arrays(rank: int, dtype: Any = np.float64) -> list[np.ndarray]:
    """One of a rank in every order, and parts of such."""
    found = []
    for order in permutations(range(rank)):
        base = RNG.random([9, 8, 7, 6][:rank]).astype(dtype)
        turned = base.transpose(order)
        found += [turned, turned[1:], turned[..., 2:], turned[::2], turned[:, ::-1]]
    return found


@pytest.mark.parametrize(
    ("name", "rank"), [
        *((name, 2) for name in PROGRAMS), ("both ways", 3),
        pytest.param("sums", 3, marks=pytest.mark.slow),
    ],
)
def test_whichever_order(name: str, rank: int) -> None:
    program, compiled = PROGRAMS[name], wf.jit(PROGRAMS[name])
    for x in arrays(rank):
        expected = program(x)
        same(compiled(x), expected)
        same(compiled(x), expected)  # a call that is repeated
        lazy = program(wf.asarray(x))
        same(wf.compute(*lazy) if isinstance(lazy, tuple) else np.asarray(lazy), expected)


@pytest.mark.parametrize("name", ["sum", "max", "prod", "mean", "any"])
def test_reductions_of_transposed_arrays(name: str) -> None:
    """They are of what is transposed, with what is left of its axes in their new order."""
    x = RNG.random((4, 5, 6)) - 0.3
    for order in permutations(range(3)):
        turned = wf.permute_dims(wf.asarray(x), order)
        for count in (1, 2, 3):
            for axes in combinations(range(3), count):
                expected = getattr(np, name)(x.transpose(order), axis=axes, keepdims=count == 2)
                found = getattr(wf, name)(turned, axis=axes, keepdims=count == 2)
                same(np.asarray(found), np.asarray(expected))


@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.complex128])
def test_any_dtype(dtype: Any) -> None:
    for x in arrays(3, dtype)[:20]:
        same(wf.jit(PROGRAMS["both ways"])(x), PROGRAMS["both ways"](x))


def test_one_trace_for_each_order() -> None:
    """Arrays of one shape, one after the other, are not taken for each other."""
    traced = []

    def program(x: Any) -> Any:
        traced.append(x.shape)
        return (x * x).sum(axis=0)

    compiled = wf.jit(program)
    for _ in range(3):
        for x in (RNG.random((9, 7)), np.asfortranarray(RNG.random((9, 7)))):
            same(compiled(x), (x * x).sum(axis=0))
    assert len(traced) == 2


def test_several_arguments_and_results_given() -> None:
    x, y = np.asfortranarray(RNG.random((9, 7))), RNG.random((9, 7))
    compiled = wf.jit(lambda a, b, c: (a - b * c, a))
    first, second = np.empty((9, 7)), np.empty((9, 7), order="F")
    compiled(x, y, 2.0, out=(first, second))
    np.testing.assert_array_equal(first, x - y * 2.0)
    np.testing.assert_array_equal(second, x)
    same(compiled(y, x, 3.0)[0], y - x * 3.0)


def test_small_ones_that_lie_in_several_orders() -> None:
    for shape in ((1, 5), (5, 1), (1, 1), (0, 3), (3, 0, 2), (2, 1, 3)):
        for x in (RNG.random(shape), np.asfortranarray(RNG.random(shape))):
            same(wf.jit(PROGRAMS["elements"])(x), x * 2 + 1)
            same(np.asarray(wf.asarray(x).sum(axis=0)), x.sum(axis=0))


@pytest.mark.parametrize(
    ("array", "order"),
    [
        (np.empty((4, 5)), None),
        (np.empty((4, 5), order="F"), (1, 0)),
        (np.empty((3, 4, 5)).transpose(2, 0, 1), (1, 2, 0)),
        (np.empty((8, 5), order="F")[::2], None),  # no neighbours
        (np.empty((4, 9), order="F")[:, ::2], (1, 0)),
        (np.empty((4, 5), order="F")[::-1], None),
        (np.broadcast_to(np.empty((4, 1)), (4, 5)), None),
        (np.empty((9, 5))[:, :3], None),
        (np.empty(5)[::2], None),
    ],
)
def test_orders(array: np.ndarray, order: tuple[int, ...] | None) -> None:
    assert order_of_rows(array) == order
    if order is not None:
        assert array.transpose(order).strides[-1] == array.itemsize


def test_the_program_says_how_they_lie() -> None:
    x = np.asfortranarray(RNG.random((9, 7)))
    text = wf.jit(lambda x: x.sum(axis=0)).lower(x).fun
    assert "permute" not in text
    assert "reduce (i_0 < n0; i_1 < n1)" in text  # rows of what lies by columns
