"""Functions of `math` that Weft writes out."""

from __future__ import annotations

import cmath
import math
import sys
from typing import Any

import numpy as np
import pytest

import weft as wf
from tests.loops.agree import agrees


def test_whole_numbers() -> None:
    def found(a: Any, b: Any, n: int) -> Any:
        for i in range(len(a)):
            k = abs(b[i])
            b[i] = math.gcd(a[i], b[i], n) + 100 * math.lcm(a[i], b[i], 6) + math.gcd(a[i])
            a[i] = math.comb(a[i], k) - math.perm(a[i] // 2, k // 3) + math.lcm(k)
        return math.comb(n, 3), math.perm(n, 3), math.perm(n), math.gcd(n, 4, 6), math.lcm(n)

    agrees(found, np.array([12, 62, 0, 7, 99, 66]), np.array([8, 31, 4, 9, 0, -33]), 14)


@pytest.mark.parametrize("function", [math.comb, math.perm])
def test_of_no_negative_number(function: Any) -> None:
    def found(a: Any) -> Any:
        return function(a[0], a[1])

    kernel = agrees(found, np.array([5, 2]))
    for wrong in ([-1, 2], [5, -1]):
        with pytest.raises(ValueError, match="must be a non-negative integer") as caught:
            kernel(np.array(wrong))
        assert "return function(a[0], a[1])" in caught.value.__notes__[0]


REALS = np.array([
    0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 7.0, 1e300, -1e-300, 5e-324, sys.float_info.max, math.inf,
    -math.inf, 2.0**-1022, 0.5, 1.5,
])  # fmt: skip


@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_remainders_mantissas_and_exponents(interpret_below: int) -> None:
    """To the last bit."""

    def found(a: Any, whole: Any, n: int) -> Any:
        for i in range(len(a)):
            x = a[i]
            a[i] = math.remainder(x, 2.0) if -1e306 < x < 1e306 else 0.0
            whole[i, 0], whole[i, 1] = math.frexp(x)
            whole[i, 2] = math.ldexp(x, -600) + math.ldexp(x * 1e-300, 500)
            whole[i, 3] = math.ldexp(0.7, n - 100 * i) + math.ldexp(1.1, 1000 - 7 * i)
        return math.frexp(whole[0, 0] + 6.0)

    with wf.config(interpret_below=interpret_below):
        for n in (0, 20, -40):
            agrees(found, REALS, np.zeros((len(REALS), 4)), n, rtol=0)


def test_powers_of_two_are_rounded_once() -> None:
    def scaled(a: Any, found: Any) -> None:
        for i in range(len(a)):
            found[i] = math.ldexp(a[i], -1024)

    small = 1.0 + np.random.default_rng(4).random(200)
    found = np.zeros(200)
    wf.kernel(scaled)(small * 2.0**-44, found)
    np.testing.assert_array_equal(found, np.ldexp(small, -1068))


def test_distances() -> None:
    def found(a: Any, b: Any) -> Any:
        flat = math.dist(a, b), math.dist((a[0], a[1]), (b[0], 2)), math.dist((1.0,), (a[2],))
        return *flat, math.hypot(a[0]), math.hypot(a[0], b[0], a[1], 3), math.hypot(*(a[0], 2.0))

    agrees(found, np.array([3.0, -1, 4]), np.array([1.0, 5, 9]))


@pytest.mark.parametrize("interpret_below", [0, 1 << 20])
def test_gamma(interpret_below: int) -> None:
    def found(a: Any, b: Any) -> None:
        for i in range(len(a)):
            b[i] = math.lgamma(a[i])
            a[i] = math.gamma(a[i])

    numbers = np.array(
        [1, 2, 3, 10, 23, 24, 0.5, 1e-30, -1e-30, 1.3, -0.5, -2.25, -7.75, 170.5, -170.5, 33.3,
         -1.5, math.inf, math.nan],
    )
    with wf.config(interpret_below=interpret_below):
        kernel = agrees(found, numbers, np.zeros(len(numbers)))
        for wrong in (0.0, -3.0):
            with pytest.raises(ValueError, match="math domain error"):
                kernel(np.full(len(numbers), wrong), np.zeros(len(numbers)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_floats_of_any_numbers(dtype: Any) -> None:
    """Python's: their sum is a float, and with an element of an array it has that one's dtype."""

    def found(x: Any, y: Any) -> Any:
        total, other = 0.0, 0.0
        for i in range(len(x)):
            total += math.exp(x[i] / 50) * math.sqrt(x[i])
            if not math.isnan(x[i]) and math.log(x[i], 3) < 3:
                other += math.sin(x[i]) + math.hypot(x[i], 3) + math.fabs(x[i])
            y[i] = x[i] * math.sqrt(x[i])
        return total, other, x[0] * math.cos(x[1])

    x = (np.arange(500) % 50 + 1).astype(dtype)
    agrees(found, x, np.zeros(500, np.float32), rtol=1e-13)


def test_no_complex_numbers() -> None:
    def found(z: Any) -> Any:
        return math.exp(z[0])

    with pytest.raises(wf.errors.UnsupportedError, match="of a complex number") as caught:
        wf.kernel(found)(np.array([1j]))
    assert "cmath.exp" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_close_numbers(dtype: Any) -> None:
    def found(x: Any, y: Any, close: Any) -> None:
        for i in range(len(x)):
            close[i, 0] = math.isclose(x[i], y[i])
            close[i, 1] = math.isclose(x[i], y[i], rel_tol=1e-5)
            close[i, 2] = math.isclose(x[i], y[i], rel_tol=0.0, abs_tol=0.25)
            close[i, 3] = cmath.isclose(complex(1, x[i]), complex(1, y[i]))
            close[i, 4] = cmath.isclose(complex(1, x[i]), complex(1, y[i]), abs_tol=1.0)

    x = np.array([1, 1, 1, 0, 0, math.inf, math.inf, math.inf, math.nan, 100, 5], dtype)
    y = np.array([1, 1 + 1e-6, 1.2, 0, 1e-7, math.inf, -math.inf, 3, math.nan, 101, 5.5], dtype)
    agrees(found, x, y, np.zeros((len(x), 5), bool))


def test_complex_numbers_of_parts() -> None:
    def found(x: Any, z: Any) -> Any:
        for i in range(len(x)):
            z[i] = complex(x[i], x[-1 - i])
        return complex(x[0]) * 0.1, complex(z[1]) * 0.1

    x = np.array([math.inf, 1, 0.1, -0.0, -math.inf], np.float32)
    agrees(found, x, np.zeros(5, np.complex64), rtol=0)


def test_complex_numbers() -> None:
    def found(a: Any, x: Any) -> Any:
        z = a[0]
        radius, angle = cmath.polar(z)
        of_reals = cmath.sqrt(x[0]), cmath.log(x[0], 3), cmath.exp(x[1]), cmath.phase(x[0])
        sum_ = 0j
        for i in range(len(a)):
            sum_ += cmath.rect(abs(a[i]), cmath.phase(a[i])) * cmath.sqrt(a[i])
        return radius, angle, of_reals, sum_, cmath.isnan(z), cmath.tanh(z)

    a = np.array([1 + 2j, -1 + 0j, 3 - 1j], np.complex64)
    kernel, x = wf.kernel(found), np.array([-2, 3])
    for one, other in zip(_flat(kernel(a, x)), _flat(found(a, x)), strict=True):
        assert np.asarray(one).dtype == np.asarray(other).dtype
        assert cmath.isclose(one, other, rel_tol=1e-12)


def _flat(values: Any) -> Any:
    return [part for v in values for part in (_flat(v) if isinstance(v, tuple) else [v])]
