"""On one machine the same program gives the same bits, whatever the threads and the boxes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, compiled, interpreted, streamed
from programs.agree import assert_agree

import weft as wf

RNG = np.random.default_rng(12)
TALL = RNG.normal(size=(65536 + 1, 5))
LONG = (RNG.normal(size=3 * 65536 + 17) * 10.0 ** RNG.integers(-6, 6, 3 * 65536 + 17))
WIDE = RNG.normal(size=(7, 30011)).astype("f4")


def totals(x: Any) -> Sequence[Any]:
    return [wf.sum(x), wf.mean(x), wf.std(x), wf.sum(x * x), wf.max(x)]


def by_axis(x: Any) -> Sequence[Any]:
    return [
        wf.sum(x, axis=0), wf.sum(x, axis=1), wf.var(x, axis=0), wf.std(x, axis=1),
        wf.mean(wf.sqrt(x * x + 1), axis=0), wf.argmax(x, axis=1), wf.argmin(x, axis=0),
    ]  # fmt: skip


def running(x: Any) -> Sequence[Any]:
    return [wf.cumulative_sum(x, axis=-1), wf.associative_scan("max", x, axis=0)]


def linear(x: Any) -> Sequence[Any]:
    def step(a: Any, b: Any) -> Any:
        return a[0] * b[0], a[1] * b[0] + b[1]

    return [wf.associative_scan(step, 0.5 + 0 * x, x, init=(1.0, 0.0))[1]]


def running_math(x: Any) -> Sequence[Any]:
    return [wf.cumulative_sum(wf.tanh(x), axis=axis) for axis in (0, 1)]


def smoothed(x: Any) -> Sequence[Any]:
    """Rows are cut at other places by each number of threads."""

    def step(y: Any, boundary: str) -> Any:
        return wf.stencil(lambda s: wf.tanh(s[-1] + s[1]) + s[0] * 0.1, y, boundary=boundary)

    return [
        wf.iterate(lambda y, rule=rule: step(y, rule), x, 9)
        for rule in ("wrap", "reflect", "symmetric", "edge")
    ]  # fmt: skip


def normalised(x: Any) -> Sequence[Any]:
    return [(x - wf.mean(x, axis=0)) / wf.std(x, axis=0), wf.exp(x) / wf.sum(wf.exp(x))]


def scattered(x: Any) -> Sequence[Any]:
    bins = wf.astype(wf.clip(wf.floor(x * 8) + 32, 0, 63), "int64").reshape((-1,))
    return [wf.scatter(wf.zeros(64), bins, wf.ones(x.size), combine="add")]


PROGRAMS = {
    "totals of a long vector": (totals, LONG),
    "totals of a matrix": (totals, TALL),
    "axes of a tall matrix": (by_axis, TALL),
    "axes of a wide matrix": (by_axis, WIDE),
    "running sums": (running, LONG),
    "running sums of rows": (running, WIDE),
    "running sums of vector math": (running_math, TALL[:12300].reshape(300, 205)),
    "iterated stencils of vector math": (smoothed, TALL.reshape(-1)[:50_021]),
    "a linear recurrence": (linear, LONG),
    "normalised columns": (normalised, TALL),
    "a histogram": (scattered, TALL[:20_000]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits(name: str, tmp_path: Path) -> None:
    program, data = PROGRAMS[name]
    expected = compiled(program, [data], threads=1)
    assert_agree(expected, interpreted(program, [data]), scale=2000)  # float32 running sums
    assert_equal_bits(compiled(program, [data], threads=2), expected)
    assert_equal_bits(compiled(program, [data], threads=3), expected)
    for box_bytes, threads in ((1, 1), (65536 * 8 + 8, 2), (100_003 * 8, 2), (1 << 30, 1)):
        assert_equal_bits(
            streamed(program, [data], tmp_path, box_bytes, threads=threads), expected
        )


@pytest.mark.parametrize("box_bytes", [3000, 1 << 20])
def test_beside_library_calls(box_bytes: int, tmp_path: Path) -> None:
    """What is computed in one stage with a library call is compiled, as it is in core."""

    def program(x: Any) -> Sequence[Any]:
        ordered = wf.exp(wf.sort(x, axis=1))
        return [wf.sum(ordered, axis=1), wf.sum(wf.sin(x), axis=0), wf.median(x, axis=0) * 0.1]

    inputs = [RNG.normal(size=(300, 40))]
    expected = compiled(program, inputs)
    for small in (0, 1 << 20):
        assert_equal_bits(streamed(program, inputs, tmp_path, box_bytes, small), expected)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("stride", [2, 3, 5, 8])
def test_vector_math_of_strided_elements(stride: int, dtype: str) -> None:
    """In short rows, whose elements are done with care, the functions are those of long ones."""

    def program(x: Any) -> Any:
        rows = wf.reshape(x, (-1, stride))
        return wf.exp(x[1::stride]) * wf.sin(rows[:, 0]) + wf.sum(wf.exp(rows), axis=1)

    x = RNG.random(700 * stride).astype(dtype)
    with wf.config(quick_start=False):
        function = wf.jit(program)
        whole = function(x)
        pieces = [function(x[i : i + 7 * stride]) for i in range(0, len(x), 7 * stride)]
    assert_equal_bits(np.concatenate(pieces), whole)


def test_a_view_has_the_bits_of_its_copy() -> None:
    """How data lies decides which version of a kernel runs, not what it gives."""
    whole = np.ascontiguousarray(np.flip(LONG))
    expected = compiled(totals, [whole])
    assert_equal_bits(compiled(totals, [np.flip(LONG)]), expected)
    gaps = np.empty((len(LONG), 2))
    gaps[:, 0] = whole
    assert_equal_bits(compiled(totals, [gaps[:, 0]]), expected)


# ---------------------------------------------------------------- accuracy


def hard(kind: str, count: int, dtype: str) -> Any:
    rng = np.random.default_rng(count)
    match kind:
        case "uniform":
            values = rng.random(count)
        case "wide":
            values = rng.normal(size=count) * 10.0 ** rng.integers(-6, 7, count)
        case "cancelling":
            half = rng.normal(size=count // 2) * 1e6
            values = np.concatenate([half, -half, rng.random(count % 2)])
            rng.shuffle(values)
        case "offset":
            values = rng.normal(size=count) + 1e4
        case _:
            values = np.full(count, 0.1)
    return values.astype(dtype)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("kind", ["uniform", "wide", "cancelling", "offset", "tenths"])
def test_sums_are_as_accurate_as_numpys(kind: str, dtype: str) -> None:
    """Errors over many arrays, in units of the sum of magnitudes: no larger than NumPy's."""
    ours = theirs = 0.0
    for count in (1009, 4096, 65537, 300_007):
        values = hard(kind, count, dtype)
        exact = math.fsum(map(float, values))
        size = math.fsum(map(abs, map(float, values)))
        (found,) = compiled(lambda x: [wf.sum(x)], [values])
        ours += abs(float(found) - exact) / size
        theirs += abs(float(np.sum(values)) - exact) / size
        # what pairwise summation promises, for blocks of 128 that NumPy sums in 8 lanes
        bound = (math.log2(count) + 16) * np.finfo(dtype).eps / 2
        assert abs(float(found) - exact) <= bound * size
    assert ours <= 1.5 * theirs + 8 * np.finfo(dtype).eps


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_sums_along_axes_are_as_accurate_as_numpys(axis: int, dtype: str) -> None:
    values = hard("offset", 5003 * 7, dtype).reshape((5003, 7) if axis == 0 else (7, 5003))
    (found,) = compiled(lambda x: [wf.sum(x, axis=axis)], [values])
    lines = np.moveaxis(values, axis, -1)
    exact = np.array([math.fsum(map(float, line)) for line in lines])
    ours = np.abs(found.astype(float) - exact).max()
    theirs = np.abs(values.sum(axis=axis).astype(float) - exact).max()
    assert ours <= theirs + np.spacing(np.abs(exact).max().astype(dtype))


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6])
def test_variances_are_as_accurate_as_of_two_passes(offset: float, dtype: str) -> None:
    """Taken from the first element, a mean far from 0 costs no digits."""
    values = (np.random.default_rng(3).normal(size=40_009) + offset).astype(dtype)
    numbers = [Fraction(float(v)) for v in values]
    mean = sum(numbers) / len(numbers)
    exact = float(sum((v - mean) ** 2 for v in numbers) / len(numbers))
    (found,) = compiled(lambda x: [wf.var(x)], [values])
    assert abs(float(found) - exact) <= 16 * float(np.finfo(dtype).eps) * exact


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0])
@pytest.mark.parametrize("count", [1, 63, 64, 1025, 70_001])
def test_special_values_survive(value: float, count: int) -> None:
    """As in NumPy."""
    values = np.full(count, value)
    with np.errstate(invalid="ignore"):
        std = values.std()
    expected = [value + 0.0, value + 0.0, std, abs(value), value]
    found = compiled(totals, [values])
    assert_equal_bits(found, [np.array(number) for number in expected])
    if value:
        values[:-1] = 1.0
        found = compiled(totals, [values])[:2]
        assert_equal_bits(found, [np.array(value)] * 2)
