"""Divisors, bits, and powers of two, beside NumPy's: lazily, in traced functions and in kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.errors import DTypeError

RNG = np.random.default_rng(1)
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


def gcd(a: Any, b: Any) -> Any:
    return np.gcd(a, b)


def lcm(a: Any, b: Any) -> Any:
    return np.lcm(a, b)


def bitwise_count(a: Any) -> Any:
    return np.bitwise_count(a)


def ldexp(a: Any, b: Any) -> Any:
    return np.ldexp(a, b)


def frexp(a: Any) -> Any:
    return np.frexp(a)


def spacing(a: Any) -> Any:
    return np.spacing(a)


def i0(a: Any) -> Any:
    return np.i0(a)


def agree(function: Callable[..., Any], *arguments: Any) -> None:
    with np.errstate(all="ignore"):
        expected = function(*arguments)
    lazy = function(*map(wf.asarray, arguments))
    compiled = [wf.jit(function)(*arguments), wf.kernel(function)(*arguments)]
    for found in (lazy, *compiled):
        several = type(expected) is tuple
        for one, other in zip(found, expected, strict=True) if several else [(found, expected)]:
            assert found is not lazy or isinstance(one, wf.Array)
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(np.asarray(one), other)


def integers(dtype: str) -> Any:
    ends = np.iinfo(dtype)
    some = RNG.integers(ends.min, ends.max, 20, dtype=dtype, endpoint=True)
    return np.concatenate([some, np.array([0, 1, 6, 12, ends.max, ends.min], dtype)])


def floats(dtype: str) -> Any:
    ends = np.finfo(dtype)
    reach = int(np.log10(float(ends.max))) - 2
    some = RNG.standard_normal(30) * 10.0 ** RNG.integers(-reach, reach, 30)
    edges = [0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, -4, ends.max, ends.tiny]
    least = ends.smallest_subnormal
    return np.concatenate([some, edges, [least, -3 * least]]).astype(dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_whole_numbers(dtype: str) -> None:
    numbers = integers(dtype)
    agree(gcd, numbers, numbers[::-1].copy())
    agree(lcm, numbers[-6:], numbers[-6:, None])
    agree(bitwise_count, numbers)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_powers_of_two(dtype: str) -> None:
    numbers = floats(dtype)
    agree(frexp, numbers)
    agree(spacing, numbers)
    for powers in (RNG.integers(-2200, 2200, (20, 1)), RNG.integers(-200, 200, (20, 1))):
        agree(ldexp, numbers, powers)
    agree(ldexp, numbers[:4], np.array([-128, 127, 3, -1], np.int8))
    agree(ldexp, numbers[:2], np.array([2**32 - 1, 5], np.uint32))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bessel(dtype: str) -> None:
    x = np.concatenate([np.linspace(-20, 20, 41), [700, np.inf]]).astype(dtype)
    with np.errstate(all="ignore"):
        expected = np.i0(x)
    for found in (i0(wf.asarray(x)), wf.jit(i0)(x), wf.kernel(i0)(x)):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(np.asarray(found), expected, rtol=40 * np.finfo(dtype).eps)


def test_scalars_within_a_loop() -> None:
    @wf.kernel
    def divisors(x: Any, y: Any, found: Any) -> None:
        for i in range(len(x)):
            found[i] = np.gcd(x[i], y) + np.bitwise_count(x[i])

    x, found = integers("int64")[-6:-2], np.zeros(4, np.int64)
    divisors(x, 18, found)
    np.testing.assert_array_equal(found, np.gcd(x, 18) + np.bitwise_count(x))


def test_what_has_none_is_refused() -> None:
    x = wf.asarray(np.ones(3))
    for call in (
        lambda: wf.gcd(x, 2), lambda: wf.bitwise_count(x), lambda: wf.ldexp(x, x),
        lambda: wf.frexp(x * 1j), lambda: wf.spacing(x * 1j), lambda: wf.i0(x * 1j),
    ):  # fmt: skip
        with pytest.raises(DTypeError):
            call()
