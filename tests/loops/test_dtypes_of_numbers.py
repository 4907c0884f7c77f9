"""Numbers have Python's types and NumPy's dtypes: a bool that counts, floats of small integers."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.loops.agree import agrees, same


def test_pythons_bools_are_ints() -> None:
    def found(x: Any, y: Any) -> Any:
        for i in range(len(x)):
            y[i, 0] = (i > 1) + (i > 2) - (not x[i])
            y[i, 1] = -(i > 1) + (bool(x[i]) << 3) + ~(i > 3)
            y[i, 2] = sum((i > 1, bool(x[i]))) + abs(i > 2) + round(i > 2) + pow(i > 1, i > 2)
            y[i, 3] = (x[i] in (1, 3)) + (i not in (1, x[0])) + any((x[i], i > 1)) + all(x)
            y[i, 4] = (not x[i]) * 300 + x[i]
            quotient, rest = divmod(i > 1, 2)
            y[i, 5] = quotient + 10 * rest + (i > 1) // 1 + (i > 1) ** 2 + (i > 1) / 2
        return (i > 1) + bool(x[1]), (i > 1) & (i > 2), (i > 1) | 2

    agrees(found, np.array([1, 0, 3, 2, 0], np.float32), np.zeros((5, 6)))


def test_numpys_bools_are_none() -> None:
    """Beside one of NumPy's a bool of Python's is as it is."""

    def found(x: Any, y: Any) -> Any:
        for i in range(len(x)):
            y[i] = (x[i] + (i > 1)) + (not x[i]) * x[0] + (x[i] * True) * 1.5
        return x[0] + (i > 2), (x[1] * (not x[0])), ~x[1]

    agrees(found, np.array([True, False, False, True]), np.zeros(4))

    def difference(x: Any) -> Any:
        return x[0] - (not x[1])

    with pytest.raises(wf.errors.DTypeError, match="subtract of bool"):
        wf.kernel(difference)(np.array([True, False]))


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32])
@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_floats_of_integers(dtype: Any, interpret_below: int) -> None:
    """NumPy's functions of int16 give float32, its quotients float64."""

    def found(x: Any) -> Any:
        a, b = x[0], x[1]
        roots = np.sqrt(a), np.rint(b), np.arctan2(a, 3), np.arctan2(a, 0.5), np.fabs(a)
        parts = *np.modf(a), *np.frexp(a), np.ldexp(a, 2), np.spacing(a), np.degrees(a)
        others = np.heaviside(a, 2), np.logaddexp2(a, b), np.copysign(a, b), np.hypot(a, b)
        return *roots, *parts, *others, a / b, a / 2, np.sqrt(x), math.sqrt(a), a**0.5

    with wf.config(interpret_below=interpret_below):
        agrees(found, np.array([12, 7], dtype), rtol=1e-13)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, bool])
def test_reciprocals_of_integers(dtype: Any) -> None:
    def found(x: Any) -> Any:
        return np.reciprocal(x), np.reciprocal(x[0])

    values = np.array([1, 1, 1] if dtype is bool else [1, 2, 100], dtype)
    agrees(found, values)
    if np.dtype(dtype).kind == "i":
        agrees(found, -values)


def test_dtypes_of_ufuncs() -> None:
    """They are computed in it, and not in another one before."""

    def found(x: Any, k: Any) -> Any:
        sums = np.add(x[0], 1, dtype=np.float64), np.add(k[0], 100, dtype=np.int32)
        return *sums, np.multiply(x, 0.1, dtype=np.float64), np.sqrt(k, dtype=np.float32)

    agrees(found, np.array([0.1, 3], np.float32), np.array([100, 7], np.int8), rtol=0)

    def less(x: Any) -> Any:
        return np.add(x[0], 0.5, dtype=np.int64)

    with pytest.raises(wf.errors.UnsupportedError, match="a dtype of int64"):
        wf.kernel(less)(np.array([0.1]))


def test_products_with_numbers_of_python() -> None:
    def found(x: Any) -> Any:
        return np.dot(x[0], 2), np.dot(x, 2), np.inner(0.5, x), np.dot(x[0], x[1])

    for dtype in (np.float32, np.int8, np.int64):
        agrees(found, np.array([3, 5], dtype))


def test_complex_numbers_of_complex_parts() -> None:
    def found(z: Any, x: Any) -> Any:
        return complex(z[0], z[1]), complex(x[0], z[1]), complex(z[0], x[0]), complex(1, z[0])

    z = np.array([complex(math.inf, 1), complex(2, -math.inf), complex(math.nan, 0)])
    for k in range(3):
        for a, b in ((0, 1), (1, 0), (2, 1)):
            arguments = np.array([z[a], z[b]]), np.array([z.real[k]])
            for one, other in zip(wf.kernel(found)(*arguments), found(*arguments), strict=True):
                for part in ("real", "imag"):
                    same(getattr(one, part), getattr(other, part), 0)

    def narrow(z: Any) -> Any:
        return complex(z[0], z[1])

    with pytest.raises(wf.errors.UnsupportedError, match="an imaginary part of complex64"):
        wf.kernel(narrow)(z.astype(np.complex64))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_signs_of_imaginary_zeros(dtype: Any) -> None:
    def found(z: Any) -> Any:
        return cmath.log(z[0]), cmath.sqrt(z[0]), cmath.phase(z[0]), complex(z[0])

    for z in (complex(-1, -0.0), complex(-1, 0.0), complex(-0.0, -0.0) + 2):
        for one, other in zip(
            wf.kernel(found)(np.array([z], dtype)), found(np.array([z], dtype)), strict=True
        ):
            assert np.isclose(complex(one), complex(other), rtol=1e-13, atol=0)
            assert np.signbit(complex(one).imag) == np.signbit(complex(other).imag)


def test_gamma_far_below_zero() -> None:
    def found(x: Any) -> Any:
        return math.copysign(1.0, math.gamma(x[0])), math.lgamma(x[1])

    for x in (-200.5, -201.5, -300.25):
        agrees(found, np.array([x, -math.inf]))

    def wrong(x: Any) -> Any:
        return math.gamma(x[0])

    with pytest.raises(ValueError, match="math domain error"):
        wf.kernel(wrong)(np.array([-math.inf]))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.uint64])
def test_one_of_an_element_and_an_int(dtype: Any) -> None:
    """Small integers do not hold what Python's ints may be: chosen among them, these stay."""

    def found(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i, 0] = x[i] if x[i] > 2 else i * 1000
            y[i, 1] = x[i] or i * 1000
            t = 100_000
            if x[i] > 2:
                t = x[i]
            y[i, 2] = t
            y[i, 3] = [x[i], i * 1000, int(x[0]) * 1000][i % 3]
            u = int(x[i]) * 1000
            if x[i] > 2:
                u = x[i]
            y[i, 4] = u

    x = (np.arange(120) % 9).astype(dtype)
    agrees(found, x, np.zeros((len(x), 5), np.int64))


def test_one_of_an_element_and_an_int_that_it_holds() -> None:
    def found(x: Any, i: int) -> Any:
        return x[0] if x[0] > 2 else 5, x[0] or i

    kernel = wf.kernel(found)
    for i, dtype in ((7, np.int8), (300, np.int64)):
        first, second = kernel(np.array([3], np.int8), i)
        assert (first.dtype, second.dtype) == (np.int8, dtype)


def test_limits_of_small_integers() -> None:
    def found(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = np.clip(x[i], 1, i * 50 + 1) + x[i].clip(-int(y[i]), i + 50)

    agrees(found, np.arange(20, 30, dtype=np.int8), np.full(10, 3))


def test_loops_carry_one_dtype() -> None:
    def kept(x: Any) -> Any:
        least = 100
        for i in range(len(x)):
            if x[i] < least:
                least = x[i]
        return least

    agrees(kept, np.array([7, 3, 9], np.int8))

    def too_large(x: Any) -> Any:
        least = 1000
        for i in range(len(x)):
            if x[i] < least:
                least = x[i]
        return least

    def then_an_int(x: Any, y: Any) -> None:
        t = x[0]
        for i in range(len(x)):
            y[i] = t
            t = int(x[i]) * 100

    def then_a_float(x: Any, y: Any) -> None:
        t = x[0]
        for i in range(len(x)):
            y[i] = t
            t = x[i] * 0.5

    x = np.array([7, 3, 9], np.int8)
    for function in (then_an_int, then_a_float):  # the first round is traced by itself
        agrees(function, x, np.zeros(3))
    with pytest.raises(wf.errors.DTypeError, match="least has two types after this branch"):
        wf.kernel(too_large)(x)


def test_complex_numbers_have_no_order() -> None:
    def largest(z: Any) -> Any:
        return max([v * 2 for v in z[:2]])

    def running(z: Any) -> Any:
        return np.maximum.accumulate(z)

    for function in (largest, running):
        agrees(function, np.array([1.0, 3, 2]))
        with pytest.raises(wf.errors.DTypeError, match="maximum of complex numbers"):
            wf.kernel(function)(np.array([1j, 2, 3]))


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64, bool])
def test_products_of_sequences(dtype: Any) -> None:
    def found(x: Any) -> Any:
        few = math.prod((x[0], x[1])), math.prod([x[0], 0.5], start=2), math.prod(())
        sums = sum(x), sum(x, 0.5), sum(x, x[0])
        return *few, *sums, math.prod(x), math.prod(x, start=0.1), math.prod((x[0] > 0, x[1] > 0))

    agrees(found, np.array([100, 5, 3]).astype(dtype))


def test_distances_between_small_integers() -> None:
    def found(x: Any, y: Any) -> Any:
        return math.dist(x, y), math.dist((x[0], 1), (y[0], 2))

    agrees(found, np.array([100, -100], np.int8), np.array([-100, 100], np.int8))


@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_floats_are_rounded_as_python_does(interpret_below: int) -> None:
    """Not as NumPy does, whose products with powers of ten are rounded first."""

    def found(x: Any, y: Any) -> None:
        for i in range(len(x)):
            value = float(x[i])
            y[i, 0], y[i, 1], y[i, 2] = round(value, 2), round(value, 0), round(value, 5)
            y[i, 3] = round(x[i], 2)

    halves = np.arange(-4000, 4000) / 1000 + 0.005
    large = 2.0**45.4 + np.random.default_rng(3).random(500) * 2.0**46
    edges = [0.0, -0.0, -0.001, 1.115, 2.675, 0.125, math.inf, -math.inf, math.nan, 1.7e308, 5e-324]
    x = np.concatenate([halves, large, -large, edges])
    y = np.zeros((len(x), 4))
    with wf.config(interpret_below=interpret_below):
        kernel = wf.kernel(found)
        kernel(x, y)
    for value, row in zip(x.tolist(), y.tolist(), strict=True):
        for digits, one in zip((2, 0, 5), row, strict=False):
            assert repr(round(value, digits)) == repr(one)
    np.testing.assert_array_equal(y[:-2, 3], np.round(x, 2)[:-2])
