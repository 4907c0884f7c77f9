"""Programs move the bytes that C written by hand moves: `bench/c` has it, counted here by cell.

A cell reads each of its operands, and what stays the same along a loop once before it. Where Weft
moves other bytes than C, `DIFFERENCES` has how many, and says which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from applications.costs import costs_of
from applications.test_applications import CASES, lazily

WORD = 4  # bytes of an element, where all are float32 or int32
DOUBLE = 8

Moved = tuple[int, int]  # bytes read, bytes written


def hotspot(temperature: Any, power: Any, steps: int) -> Moved:
    """A cell reads itself, its four neighbours and its power."""
    cells = temperature.size * steps * WORD
    return 6 * cells, cells


def pathfinder(wall: Any) -> Moved:
    """A cell reads itself and the three above it."""
    cells = wall[1:].size * WORD
    return 4 * cells, cells


def srad(image: Any, rounds: int) -> Moved:
    """A round is the sums of all, coefficients (of five), and values (of five, and of three)."""
    cells = image.size * WORD
    return (1 + rounds * (1 + 5 + 8) + 1) * cells, (1 + rounds * 2 + 1) * cells


def lattice_boltzmann(f: Any, obstacle: Any, lid: Any, steps: int) -> Moved:
    """Each step reads two flags of a cell; the last populations are moved once more."""
    populations = f.size * WORD * (steps + 1)
    return populations + steps * (obstacle.size + lid.size), populations


def lud(size: int, matrix: Any) -> Moved:
    """The matrix copied; then blocks, where a cell reads itself and the two of its product."""
    count, below = len(matrix) // size, [size - 1 - k for k in range(size)]
    factor = sum(1 + m + 3 * m * m for m in below), sum(m + m * m for m in below)
    beside = 3 * size * sum(below), size * sum(below)
    under = sum(1 + size + 3 * size * m for m in below), sum(size + size * m for m in below)
    inner = size**2 * (1 + 2 * size), size**2
    read, written = (
        matrix.size + sum(f + m * (b + u) + m * m * i for m in range(count))
        for f, b, u, i in zip(factor, beside, under, inner, strict=True)
    )
    return read * matrix.itemsize, written * matrix.itemsize


def needleman_wunsch(size: int, similarity: Any, penalty: int) -> Moved:
    """A cell reads two above and its letters', a row its left one; cells are written twice.

    First to a row of the thread's, as far as they need no left neighbour.
    """
    n = len(similarity)
    cells = (n - 1) ** 2
    return (4 * cells + cells // size) * WORD, (2 * n + 2 * cells) * WORD


def rows_above(size: int, similarity: Any, penalty: int) -> Moved:
    """The row above is one of the thread's, with the element left of it.

    So the first of a block is moved there, and each further one's left element is written to it.
    The border's column is read from its row, where their common element is written once.
    """
    n = len(similarity)
    blocks = ((n - 1) // size) ** 2
    read = n - 1 + blocks * (1 + size)
    written = -1 + blocks * (1 + size + size)
    return read * WORD, written * WORD


def nearest(latitude: Any, longitude: Any, k: int) -> Moved:
    """Distances; a round reads them, and writes a thread's winner, the results, and infinity."""
    winner, count = WORD + 8, latitude.size * WORD
    return 2 * count + k * (count + winner), count + k * (winner + winner + WORD)


def european(
    contract: int, paths: int, directions: Any, bridge: Any, market: Any, rates: Any
) -> Moved:
    """On one date: noise from its bits; a motion and the zeros before it; a value, and its pay.

    A path of C reads its noise, two motions and the value. A block of them reads the directions of
    all bits, the bridge's numbers, the market's four and two rates.
    """
    own = paths.bit_length() * WORD + WORD + (3 + 4 + 2) * DOUBLE
    return paths * (1 + 2 + 1) * DOUBLE + paths // 256 * own, paths * (1 + 2 + 1) * DOUBLE


def noise(
    contract: int, paths: int, directions: Any, bridge: Any, market: Any, rates: Any
) -> Moved:
    """Noise is in a register where C has an array; all motions are zeros at first, not one.

    What all blocks read, on one date, is read once.
    """
    own = paths.bit_length() * WORD + WORD + (3 + 4 + 2) * DOUBLE
    return -paths * DOUBLE - (paths // 256 - 1) * own, 0


def calls(
    strikes: Any, x: Any, y: Any, t: Any, i: int, j: int, nu: float, beta: float
) -> Moved:  # fmt: skip
    """The values of the grid: both halves of each step, forth and back; and what they need.

    Along prices a cell reads five and the one before it, then itself and the one after it; along
    volatilities it reads three, itself and the one before it, then likewise. A line of cells has
    its coefficients and its ratios, which are read once for all strikes.
    """
    nx, ny, count, steps = len(x), len(y), len(strikes), len(t) - 1
    plane = nx * ny
    first = ny + plane + plane * count + 4, nx + ny + plane + plane * count
    prices = ny * (1 + 3 * nx - 1) + ny * count * (5 * nx + 3 * (nx - 1))
    volatilities = nx * (2 * ny - 1) + nx * count * (4 * ny + 3 * (ny - 1) + 1)
    written = 2 * plane + ny * count * (2 * nx - 1) + nx * count * 2 * ny
    read = first[0] + steps * (2 + prices + volatilities) + count
    return read * DOUBLE, (first[1] + steps * written + count) * DOUBLE


def coefficients(
    strikes: Any, x: Any, y: Any, t: Any, i: int, j: int, nu: float, beta: float
) -> Moved:  # fmt: skip
    """First values are made for one volatility, then copied; logarithms are in an array.

    In a step all coefficients along x are in a plane, made of two, and those along y in a vector.
    The last rows stay, which C moves to the other grid.
    """
    nx, ny, count, steps = len(x), len(y), len(strikes), len(t) - 1
    if count == 1:
        return right_sides(nx, ny, steps)
    plane, last = nx * ny, nx * count
    first = nx * (count + 2) + 1, nx * count + nx + 4  # 4: the masks' ends
    step = 2 * plane + 2 * ny + 1 - 2 * nx - last, plane + ny - last
    return tuple((once + steps * each) * DOUBLE for once, each in zip(first, step, strict=True))


def right_sides(nx: int, ny: int, steps: int) -> Moved:
    """Of one strike: a line of cells is computed in vectors, and then, from memory, one by one.

    C does both at once, in scalars. Coefficients are computed where they are used, of what a cell
    has along x (two numbers) and along y (one).
    """
    plane = nx * ny
    first = 2 * nx + 3, 2 * nx + 4
    step = 2 * plane + 2 * ny + 1 - nx, 2 * plane + ny - nx
    return tuple((once + steps * each) * DOUBLE for once, each in zip(first, step, strict=True))


def sums(image: Any, rounds: int) -> Moved:
    """A round's two sums of each tile of 65536 elements, here one, are in memory.

    Of that C has registers: each thread adds what it has to the two sums when it has ended, in any
    order. Weft adds in one order, whatever the threads.
    """
    return 2 * WORD * rounds, 2 * WORD * rounds


COUNTED: dict[str, Callable[..., Moved]] = {
    "hotspot-stencil": hotspot,
    "hotspot-stencil_of_one_row": hotspot,
    "pathfinder-walls": pathfinder,
    "srad-image": srad,
    "lattice_boltzmann-three_steps": lattice_boltzmann,
    "lattice_boltzmann-one_step": lattice_boltzmann,
    "lud-one_block": lud,
    "lud-several": lud,
    "nw-one_block": needleman_wunsch,
    "nw-several": needleman_wunsch,
    "nn-": nearest,
    "nn-all_of_them": nearest,
    "option_pricing-european": european,
    "locvolcalib-": calls,
    "locvolcalib-one_strike": calls,
}
"""What C moves."""

DIFFERENCES: dict[Callable[..., Moved], Callable[..., Moved]] = {
    srad: sums, needleman_wunsch: rows_above, european: noise, calls: coefficients,
}  # fmt: skip
"""What Weft moves beyond that."""

COPIED: dict[Callable[..., Moved], Callable[..., int]] = {
    lud: lambda size, matrix: matrix.nbytes,
}
"""What C copies of it, where that is something."""


@pytest.mark.parametrize("name", COUNTED)
def test_bytes_are_those_of_c(name: str) -> None:
    case, count = CASES[name], COUNTED[name]
    costs = costs_of(lazily(case, case.arguments))
    fixed = getattr(case.function, "args", ()), getattr(case.function, "keywords", {})
    given = (*fixed[1].values(), *case.arguments)
    read, written = count(*given)
    if count in DIFFERENCES:
        more = DIFFERENCES[count](*given)
        read, written = read + more[0], written + more[1]
    assert (costs.read_bytes, costs.written_bytes) == (read, written)
    if count not in DIFFERENCES:
        assert costs.copied_bytes == COPIED.get(count, lambda *_: 0)(*given)


PUBLISHED: dict[Callable[..., Moved], tuple[Any, ...]] = {
    needleman_wunsch: (64, np.empty(8193), 10),
    calls: (np.empty(128), np.empty(256), np.empty(32), np.empty(64), 0, 0, 0.6, 0.5),
}


@pytest.mark.parametrize("count", PUBLISHED, ids=lambda count: count.__name__)
def test_differences_are_small_at_published_sizes(count: Callable[..., Moved]) -> None:
    """They are of rows and of planes, which blocks and strikes share."""
    arguments = PUBLISHED[count]
    assert abs(sum(DIFFERENCES[count](*arguments))) < 0.01 * sum(count(*arguments))
