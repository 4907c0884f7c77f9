"""Repeated calls of a kernel go a short way, where what was found out holds for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import ArgumentError, DTypeError, ShapeError


def energy(x: Any) -> Any:
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * x[i]
    return total


def halves(x: Any) -> Any:
    return x[: len(x) // 2] * 0.5, [x[len(x) // 2 :] * 0.5], x.shape[0] * 2


def product(x: Any) -> Any:
    y = np.outer(x, x)
    return (y @ y).sum(axis=0)


def both(x: Any) -> Any:
    return x * 2, x


def nothing(x: Any) -> Any:
    return 3, x + 1


def shifted(x: Any) -> Any:
    x[1:] = x[:-1] + 1


def kept(x: Any) -> Any:
    x[0] = 7
    return x + 1


def empty(x: Any) -> Any:
    x[0] = 7
    return ()


def of_none(x: Any) -> Any:
    x[0] = 7
    return (None,)


def fewer(x: Any) -> Any:
    x[::2] -= x[::2].mean()
    return x.max(), [x * 2, x.shape[0]]


@pytest.mark.parametrize(
    ("function", "ways"),
    [
        (energy, 1), (halves, 1), (product, 1), (both, 0), (nothing, 0), (shifted, 1), (kept, 1),
        (fewer, 1), (empty, 0), (of_none, 0),
    ],
)
def test_calls_that_repeat(function: Callable[[Any], Any], ways: int) -> None:
    """The same as plain Python's, whatever the call before gave; some have no short way."""
    kernel = wf.kernel(function)
    given = [np.arange(8.0) + k for k in range(3)]
    found, expected = [], []
    for x in given:
        own, plain = x.copy(), x.copy()
        found.append((kernel(own), own))
        expected.append((function(plain), plain))
    np.testing.assert_equal(found, expected)
    for (mine, _), (plain, _) in zip(found, expected, strict=True):
        assert type(mine) is type(plain) or isinstance(plain, np.generic)
    assert len(kernel._short) == ways


def test_assertions() -> None:
    """What failed is known after each call."""

    @wf.kernel
    def rooted(x: Any) -> Any:
        total = 0.0
        for i in wf.prange(x.shape[0]):
            assert x[i] >= 0, "not negative"
            x[i] = np.sqrt(x[i])
            total += x[i]
        return total

    for _ in range(3):
        good, bad = np.array([1.0, 4.0, 9.0]), np.array([1.0, -4.0, -9.0])
        assert rooted(good) == 6.0
        np.testing.assert_array_equal(good, [1.0, 2.0, 3.0])
        with pytest.raises(AssertionError, match="not negative") as failure:
            rooted(bad)
        assert "x[i] >= 0" in failure.value.__notes__[0]
    assert len(rooted._short) == 1


def test_where_it_does_not_hold() -> None:
    """Arrays that lie otherwise, other shapes and dtypes, other settings."""
    kernel = wf.kernel(product)
    x = np.arange(8.0)
    kernel(x)
    (short,) = kernel._short.values()
    assert short.call((x,)) is not None
    gaps = np.zeros((8, 2))
    gaps[:, 0] = x
    for other in (gaps[:, 0], x[::-1], x.astype("f4"), np.arange(9.0)):
        np.testing.assert_allclose(kernel(other), product(other), rtol=1e-5)
    for settings in ({"threads": 1}, {"memory_limit": "1 GiB"}, {"optimise": "no-blas"}):
        with wf.config(**settings):
            np.testing.assert_allclose(kernel(x), product(x))
    np.testing.assert_allclose(kernel(x + 1), product(x + 1))


def test_one_array_for_two_arguments() -> None:
    @wf.kernel
    def add(a: Any, b: Any) -> Any:
        return a + b * 2

    x, y = np.arange(5.0), np.ones(5)
    for a, b in ((x, y), (x, y), (x, x), (x, y), (y, y), (x, x)):
        np.testing.assert_array_equal(add(a, b), a + b * 2)
    first, second = add(x, y), add(x, y)
    assert not np.shares_memory(first, second)


def test_defaults_and_names() -> None:
    """Calls that are one, however they are written."""

    @wf.kernel
    def scale(a: Any, factor: Any = 2.0, count: Any = 3) -> None:
        for i in wf.prange(count):
            a[i] *= factor

    x = np.ones(5)
    for _ in range(3):
        scale(x)
    scale(x, 0.5)
    scale(a=x, factor=0.5)
    np.testing.assert_array_equal(x, [2, 2, 2, 1, 1])
    assert len(scale._short) == 1
    for factor in (2.0, 4.0):
        scale(x, factor, 5)
        scale(x, count=5, factor=1 / factor)
        scale(count=5, a=x, factor=factor)
    assert len(scale._short) == 2
    np.testing.assert_array_equal(x, [16, 16, 16, 8, 8])
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((x,), {"a": x}), ((x,), {"b": 1}), ((x, 1.0, 2, 3), {}), ((), {"count": 1}),
    ]  # fmt: skip
    for args, kwargs in wrong:
        with pytest.raises(ArgumentError, match="a call of scale"):
            scale(*args, **kwargs)


def test_parameters_that_have_names_only() -> None:
    @wf.kernel
    def scale(a: Any, /, *, factor: Any = 2.0) -> None:
        a *= factor

    x = np.ones(5)
    for factor in (3.0, 0.5):
        scale(x, factor=factor)
    scale(x)
    np.testing.assert_array_equal(x, np.full(5, 3.0))
    with pytest.raises(ArgumentError):
        scale(x, 3.0)


def test_annotations() -> None:
    """Annotated kernels go the short way too: they convert numbers, and refuse what they did."""

    @wf.kernel
    def scale(a: wf.f64[:], factor: wf.f32, count: wf.i64) -> None:
        for i in wf.prange(count):
            a[i] *= factor

    x = np.ones(3)
    third = float(np.float32(1 / 3))
    for factor in (2, 1 / 3, 1 / 3, np.float64(1 / 3), np.float32(0.5)):
        before = x.copy()
        for _ in range(2):
            scale(x, factor, 2)
        converted = third if factor == 1 / 3 else float(factor)
        np.testing.assert_array_equal(x, before * [converted**2, converted**2, 1])
    assert len(scale._short) == 4
    scale(x, 1.0, 2.0)
    with pytest.raises(DTypeError, match=r"argument count is 2\.5"):
        scale(x, 1.0, 2.5)
    assert len(scale._short) == 4
    for wrong in (x.astype("f4"), x.reshape(1, 3)):
        with pytest.raises((DTypeError, ShapeError)):
            scale(wrong, 1.0, 2)


def test_another_byte_order() -> None:
    """Such arrays are converted each time, whether they are written or read."""

    @wf.kernel
    def square(a: Any) -> None:
        a *= a

    @wf.kernel
    def add(a: Any, b: Any) -> Any:
        return a + b

    for dtype in (">f8", ">i4"):
        for _ in range(3):
            x = np.arange(4).astype(dtype)
            square(x)
            np.testing.assert_array_equal(x, [0, 1, 4, 9])
            np.testing.assert_array_equal(add(x, x.astype(dtype[1:])), [0, 2, 8, 18])


def test_sizes_that_an_equality_leads_to() -> None:
    """A size that is computed from a later one comes after it."""

    @wf.kernel
    def read(a: Any, b: Any, n: Any, q: Any) -> None:
        if (q % 2) != (n - q):
            pass
        a[0] = b[3 % n]

    for n, q in ((8, 7), (5, 2), (8, 7)):
        a, b = np.zeros(8), np.arange(8.0)
        read(a, b, n, q)
        assert a[0] == 3 % n


def test_factors_that_overlap_at_first() -> None:
    """What an argument was a part of in one call says nothing about the next."""

    @wf.kernel
    def update(a: Any, b: Any, c: Any, alpha: Any, beta: Any) -> None:
        for i in wf.prange(c.shape[0]):
            for j in wf.prange(c.shape[1]):
                total = 0.0
                for k in range(a.shape[1]):
                    total += a[i, k] * b[k, j]
                c[i, j] = alpha * total + beta * c[i, j]

    n = 40
    random = np.random.default_rng(0).random
    big, other, two = random((2 * n, n)), random((n, n)), np.array(2.0)
    calls = [
        (big, big[n:], np.array(3.0), np.array(0.5)), (big, other, np.array(1.5), np.array(4.0)),
        (big, other, two, two), (big, other, np.array(3.0), np.array(5.0)),
    ]  # fmt: skip
    for order in (calls, calls[1:], calls[2:]):
        for a, b, alpha, beta in order * 2:
            c = np.ones((2 * n, n))
            update(a, b, c, alpha, beta)
            np.testing.assert_allclose(c, alpha * (a @ b) + beta)
        update._short.clear()


@pytest.mark.parametrize("number", [
    np.int64(3), np.int32(-2), np.uint8(5), np.bool_(True), np.float32(0.5), 2.5j,
    np.complex64(1j),
], ids=lambda number: type(number).__name__)  # fmt: skip
def test_numbers_of_any_kind(number: Any) -> None:
    @wf.kernel
    def scaled(x: Any, s: Any) -> Any:
        return x * s + 1

    x = np.arange(3.0)
    for factor in (1, 1, 1, 2, 0):
        given = type(number)(number * factor)
        found, wanted = scaled(x, given), x * given + 1
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    assert len(scaled._short) == 1


def test_truths_decide_branches() -> None:
    @wf.kernel
    def moved(x: Any, forwards: Any) -> None:
        if forwards:
            x += 1
        else:
            x -= 2

    x = np.zeros(3)
    for forwards in (True, True, True, False, False, 1, 1, 0, True, False):
        before = x.copy()
        moved(x, forwards)
        np.testing.assert_array_equal(x, before + (1 if forwards else -2))
    assert len(moved._short) == 4
