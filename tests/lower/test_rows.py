"""Rows reduced in one kernel: the bits that each has by itself."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree, compiled, run
from lower.row_programs import EXTREMES, LAYER

from weft.fun.parse import parse

RNG = np.random.default_rng(13)

SHAPES = [(1, 5), (4, 0), (7, 64), (8, 1023), (9, 1025), (133, 4099), (1000, 3)]


@pytest.mark.parametrize("function", ["maximum", "pow"])
def test_rows_have_the_bits_that_they_have_alone(function: str) -> None:
    program = parse(LAYER.replace("FUNCTION", function))
    segment = compiled(program)
    for n, m in SHAPES:
        a, x, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((n, m), m, n))
        (together,) = agree(program, [a, x, b], segment=segment, n=n, m=m, rtol=1e-3, atol=1e-4)
        for row in range(min(n, 12)):
            alone = [a[row : row + 1], x, b[row : row + 1]]
            (one,) = run(segment, alone, {"n": 1, "m": m})
            assert one.tobytes() == together[row : row + 1].tobytes()


def test_tuples_over_several_outer_dimensions() -> None:
    program = parse(EXTREMES)
    segment = compiled(program)
    for n, m in SHAPES:
        x = RNG.standard_normal((3, n, m))
        x[RNG.random(x.shape) < 0.001] = np.nan
        agree(program, [x], segment=segment, k=3, n=n, m=m)


SQUARES = """program squares(x: f64[n, m]) sizes n, m {
  let s: f64[n] = reduce (i < n; j < m) from -0.0 {
    let p: f64 = x[i, j]
    let r: f64 = multiply(p, p)
    in r
  } with (l: f64, k: f64) { let t: f64 = add(l, k) in t }
  in s
}"""


def test_few_elements_have_the_tree_of_all_lanes() -> None:
    program = parse(SQUARES)
    segment = compiled(program)
    for m in range(11):
        x = RNG.standard_normal((37, m))
        (found,) = agree(program, [x], segment=segment, n=37, m=m, rtol=1e-12)
        lanes = np.full((37, 64), -0.0)
        lanes[:, :m] = x * x
        while lanes.shape[1] > 1:
            half = lanes.shape[1] // 2
            lanes = lanes[:, :half] + lanes[:, half:]
        assert found.tobytes() == lanes.tobytes()


RAGGED = """program ragged(x: f64[k], start: i64[n + 1]) sizes n, k {
  let s: f64[n] = kernel (i < n) {
    let a: i64 = start[i]
    let b: i64 = start[i + 1]
    let d: i64 = subtract(b, a)
    let m: i64 = LIMIT
    let t: f64 = reduce (; j < m) from -0.0 {
      let p: f64 = x[a + j]
      in p
    } with (l: f64, r: f64) { let u: f64 = add(l, r) in u }
    in t
  }
  in s
}"""


@pytest.mark.parametrize(("limit", "few"), [("maximum(d, 0)", True), ("minimum(d, 1024)", False)])
def test_rows_as_long_as_data_say_may_be_few(limit: str, few: bool) -> None:
    """Not tiles, which a constant limits from above."""
    program = parse(RAGGED.replace("LIMIT", limit))
    segment = compiled(program)
    assert ("<= 8)" in segment.source) is few
    lengths = np.array([0, 3, 8, 9, 1, 64, 65, 0, 7, 500])
    x, start = RNG.standard_normal(lengths.sum()), np.concatenate([[0], np.cumsum(lengths)])
    (found,) = agree(
        program, [x, start], segment=segment, n=len(lengths), k=len(x), rtol=1e-12, atol=1e-12
    )
    for row, length in enumerate(lengths):
        lanes = np.full((-(-max(length, 1) // 64), 64), -0.0)
        lanes.ravel()[:length] = x[start[row] : start[row + 1]]
        total = np.full(64, -0.0)
        for each in lanes:
            total = total + each
        while len(total) > 1:
            total = total[: len(total) // 2] + total[len(total) // 2 :]
        assert found[row].tobytes() == total[0].tobytes()


POWERS = """program powers(x: DT[n, m], y: DT[n]) sizes n, m {
  let s: DT[n, m] = kernel (i < n, j < m) {
    let p: DT = x[i, j]
    let q: DT = y[i]
    let r: DT = pow(p, q)
    in r
  }
  in s
}"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_end_of_a_row_goes_through_the_same_vector_math(dtype: str) -> None:
    program = parse(POWERS.replace("DT", dtype))
    segment = compiled(program)
    kind = program.params[0].type.dtype.numpy
    x, y = RNG.uniform(0.1, 3, (5, 257)).astype(kind), RNG.uniform(-2, 2, 5).astype(kind)
    (whole,) = run(segment, [x[:, :256].copy(), y], {"n": 5, "m": 256})
    for m in (1, 4, 9, 17, 65, 100, 257):
        part = x[:, :m].copy()
        (found,) = agree(program, [part, y], segment=segment, n=5, m=m, rtol=1e-5)
        shared = min(m, 256)
        assert found[:, :shared].tobytes() == whole[:, :shared].tobytes()
