"""Roots that are found beside the divider are those of `sqrt`, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from runtime.segments import ROOTS, segment

from weft.runtime.devices.cpu import CpuDevice

Floats = npt.NDArray[np.float64]
Roots = Callable[..., Floats]
RNG = np.random.default_rng(32)


@pytest.fixture(scope="module")
def roots() -> Roots:
    """Of all elements of an array, so many at a time."""
    loaded = CpuDevice().load(segment(ROOTS, 1, ("n", "step")))

    def found(x: Floats, step: int = 64) -> Floats:
        x = x.copy()
        loaded.call((x.size, step), (x.ctypes.data, 0))
        return x

    return found


def behind(x: Floats) -> Floats:
    """In the second half of each 64, where no processor's divider is used."""
    halves = np.resize(x, (-(-x.size // 32), 32))
    return np.hstack([np.ones_like(halves), halves]).ravel()


def same(found: Floats, x: Floats) -> None:
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, np.sqrt(x))
    zero = x == 0
    np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(x[zero]))


def near_the_middle(nearest: int) -> Floats:
    """All x in [1, 4) whose roots are within nearest / 2^56 units of the middle of two numbers.

    With units of 2^-52, the middle is r / 2 units for an odd r, and x is r^2 - c of its own last
    places: r^2 is c modulo 2^54 (2^55 from 2 on), and c, as squares of odd numbers, 1 modulo 8.
    """
    found = []
    for bits in (54, 55):
        for c in range(1 - nearest // 8 * 8, nearest, 8):
            squares = [r * r - c for r in square_roots(c, bits)]
            places = [square >> bits for square in squares]
            found += [np.ldexp(float(x), bits - 106) for x in places if 1 << 52 <= x < 1 << 53]
    return np.array(sorted(set(found)))


def square_roots(c: int, bits: int) -> list[int]:
    """The four numbers whose squares are c modulo 2^bits, found bit by bit."""
    found = [1, 3, 5, 7]
    for bit in range(3, bits):
        found = [s for r in found if (r * r - c) % (2 << bit) == 0 for s in (r, r + (1 << bit))]
    return found


def test_which_are_near_the_middle() -> None:
    x = near_the_middle(1024)
    assert x.size > 300
    assert (x >= 1).all()
    assert (x < 4).all()
    halves = np.ldexp(np.sqrt(x.astype(np.longdouble)), 53)  # of a unit
    assert np.abs(halves % 2 - 1).max() < 2.0**-10  # as long doubles tell
    assert all(r * r % (1 << 20) == 17 for r in square_roots(17, 20))


def test_what_is_hard_to_round(roots: Roots) -> None:
    x = near_the_middle(1024)
    for scale in (0, 2, -40, 1000):
        scaled = behind(np.ldexp(x, scale))
        same(roots(scaled), scaled)


@pytest.mark.parametrize("step", [1, 7, 8, 24, 63, 64])
def test_any_number_of_them(roots: Roots, step: int) -> None:
    x = RNG.random(1000) * 10.0 ** RNG.integers(-200, 200, 1000)
    same(roots(x, step), x)


def test_squares_and_their_neighbours(roots: Roots) -> None:
    squares = RNG.integers(1, 1 << 26, 1 << 16).astype(np.float64) ** 2
    x = np.concatenate([squares, np.nextafter(squares, 0), np.nextafter(squares, np.inf)])
    x = behind(x)
    same(roots(x), x)


def test_numbers_without_a_seed(roots: Roots) -> None:
    """One among others, at any place."""
    odd = [
        0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 5e-324, 2.0**-1022, 2.0**-969, 2.0**-968,
        np.nextafter(2.0**-968, 0), np.finfo(np.float64).max,
    ]  # fmt: skip
    x = RNG.random((len(odd), 64, 64)) + 0.5
    for number, value in enumerate(odd):
        x[number, np.arange(64), np.arange(64)] = value
    same(roots(x.ravel()), x.ravel())
