"""Reductions: compiled code against the interpreter, at extents around grains and lanes."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree, compiled, run
from lower.operator_texts import NAN, TIES
from lower.row_programs import LAYER

from weft.fun.parse import parse
from weft.passes.split_reductions import split_reductions

EXTENTS = [0, 1, 2, 63, 64, 65, 1023, 1024, 1025, 3000, 65537]

SUM = """program sum(x: DT[n], y: DT[n]) sizes n {
  let r: DT = reduce (; i < n) from ZERO {
    let a: DT = x[i]
    let b: DT = y[i]
    let d: DT = subtract(a, b)
    let s: DT = multiply(d, d)
    in s
  } with (l: DT, m: DT) { let t: DT = add(l, m) in t }
  in r
}"""

ARGMAX = """program argmax(x: f32[n]) sizes n {
  let v: f32, k: i64 = reduce (; i < n) from -inf_f32, 0 {
    let a: f32 = x[i]
    let p: i64 = size i
    in a, p
  } with (lv: f32, li: i64, rv: f32, ri: i64) {
    let c: bool = greater_equal(lv, rv)
    let v0: f32 = where(c, lv, rv)
    let i0: i64 = where(c, li, ri)
    in v0, i0
  }
  in v, k
}"""


def typed(text: str, dtype: str) -> str:
    zero = {"f64": "0.0", "i64": "0"}.get(
        dtype, f"0.0_{dtype}" if dtype[0] == "f" else f"0_{dtype}"
    )
    return text.replace("DT", dtype).replace("ZERO", zero)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "u8", "i16"])
def test_sum_of_squares(dtype: str) -> None:
    program = parse(typed(SUM, dtype))
    segment = compiled(program)
    rng = np.random.default_rng(1)
    for n in EXTENTS:
        kind = program.params[0].type.dtype.numpy
        x, y = (rng.uniform(0, 100, n).astype(kind) for _ in range(2))
        agree(program, [x, y], segment=segment, n=n, rtol=1e-5)


def test_argmax_keeps_the_first_of_equals() -> None:
    program = parse(ARGMAX)
    segment = compiled(program)
    rng = np.random.default_rng(2)
    for n in EXTENTS[1:]:
        x = rng.integers(0, 50, n).astype(np.float32)
        _, k = agree(program, [x], segment=segment, n=n)
        assert k == x.argmax()


ROWS_ARGMAX = ARGMAX.replace("x: f32[n]", "x: f32[r, n]").replace("sizes n", "sizes r, n")
ROWS_ARGMAX = (
    ROWS_ARGMAX.replace("(; i < n)", "(q < r; i < n)")
    .replace("let v: f32, k: i64 =", "let v: f32[r], k: i64[r] =")
    .replace("x[i]", "x[q, i]")
    .replace("from -inf_f32, 0", "from -inf_f32, 9223372036854775807")
    .replace("let c: bool = greater_equal(lv, rv)", TIES + NAN)
)


def test_argmax_of_rows_with_ties_nan_and_infinities() -> None:
    program = parse(ROWS_ARGMAX)
    segment = compiled(program)
    rng = np.random.default_rng(3)
    for n in [1, 2, 63, 64, 65, 127, 128, 1000, 1025, 5000]:
        x = rng.integers(0, 20, (12, n)).astype(np.float32)
        x[1] = -np.inf
        x[2, rng.integers(0, n)] = np.nan
        x[3, rng.integers(0, n, 2)] = np.nan
        x[4] = np.nan
        _, k = agree(program, [x], segment=segment, r=12, n=n)
        np.testing.assert_array_equal(k, x.argmax(axis=1))


BLOCKS = """program blocks(x: f64[n, ROWS, INNER], y: f64[n, INNER, COLUMNS]) sizes n {
  let r: f64[n, ROWS, COLUMNS] = kernel (q < n) {
    let product: f64[ROWS, COLUMNS] = reduce (i < ROWS, j < COLUMNS; k < INNER) from -0.0 {
      let a: f64 = x[q, i, k]
      let b: f64 = y[q, k, j]
      let c: f64 = multiply(a, b)
      in c
    } with (l: f64, m: f64) { let t: f64 = add(l, m) in t }
    in product
  }
  in r
}"""


@pytest.mark.parametrize("inner", [0, 1, 31, 32, 33, 100])
@pytest.mark.parametrize("columns", [1, 32, 1030])
def test_products_of_blocks_are_sums_of_columns(inner: int, columns: int) -> None:
    """Rows of the right block are added up side by side; one grain needs no counter."""
    text = BLOCKS.replace("ROWS", "3").replace("INNER", str(inner))
    program = parse(text.replace("COLUMNS", str(columns)))
    segment = compiled(program)
    if inner > 16:  # shorter ones are written out
        assert ("stack" in segment.source) == (inner > 32)
        assert "lane" not in segment.source
    rng = np.random.default_rng(inner)
    x, y = rng.normal(size=(5, 3, inner)), rng.normal(size=(5, inner, columns))
    (found,) = agree(program, [x, y], segment=segment, n=5, rtol=1e-9)
    np.testing.assert_allclose(found, x @ y, rtol=1e-9, atol=1e-12)


POWERS = """program powers(x: f64[n]) sizes n, k {
  let r: f64 = reduce (; i < n) from 0.0_f64 {
    let a: f64 = x[i]
    let p: f64 = loop (b: f64 = a) for j from 0 to k {
      let c: f64 = multiply(b, a)
      in c
    }
    in p
  } with (l: f64, m: f64) { let t: f64 = add(l, m) in t }
  in r
}"""


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000, 2048, 5001])
def test_elements_that_take_loops_are_shared_out_with_the_same_bits(n: int) -> None:
    """A kernel over tiles of few elements, which are subtrees of the whole."""
    whole = parse(POWERS)
    tiles = split_reductions(whole)
    assert [type(let.expr).__name__ for let in tiles.body.statements] == ["Kernel", "Reduce"]
    x = np.random.default_rng(n).uniform(0.5, 1.5, n)
    sizes = {"n": n, "k": 5}
    split = compiled(tiles)
    ((count,),) = [let.pattern[0].type.shape for let in tiles.body.statements[:1]]
    for derived in tiles.derived:
        sizes[derived.name] = derived.evaluate(sizes)
    assert count.evaluate(sizes) == -(-n // 32)
    got = agree(tiles, [x], segment=split, n=n, k=5, rtol=1e-12)
    assert got[0] == agree(whole, [x], n=n, k=5, rtol=1e-12)[0]


WIDE = """program columns(x: DT[n, m]) sizes n, m {
  let s: DT[m], p: DT[m] = kernel (j < m) {
    let a: DT, b: DT = reduce (; i < n) from ZERO, ZERO {
      let v: DT = x[i, j]
      in v, v
    } with (l: DT, k: DT, q: DT, r: DT) {
      let t: DT = add(l, q)
      let u: DT = add(k, r)
      in t, u
    }
    in a, b
  }
  in s, p
}"""


@pytest.mark.parametrize(
    ("dtype", "width"), [("i16", 4096), ("f32", 2048), ("f64", 1024), ("u64", 1024)]
)
def test_strips_of_columns_are_as_wide_as_their_totals_allow(dtype: str, width: int) -> None:
    program = parse(typed(WIDE, dtype))
    segment = compiled(program)
    assert f"strip0[{width}]" in segment.source
    rng = np.random.default_rng(3)
    for n, m in [(1, 5), (33, 1025), (70, 4097), (0, 9)]:
        x = rng.integers(-5, 5, (n, m)).astype(program.params[0].type.dtype.numpy)
        agree(program, [x], segment=segment, n=n, m=m)


def _total(products: np.ndarray) -> np.float32:
    """At most 1024 elements in 64 lanes, folded by halves."""
    lanes = np.full(64, -0.0, np.float32)
    for first in range(0, len(products), 64):
        part = products[first : first + 64]
        lanes[: len(part)] += part
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def test_short_rows_have_the_tree_of_long_ones() -> None:
    segment = compiled(parse(LAYER.replace("FUNCTION", "maximum")))
    rng = np.random.default_rng(5)
    for m in (1, 7, 8, 9, 16, 20, 32, 63, 64, 65, 100, 128, 200, 640, 1000, 1023, 1024):
        a, x, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((7, m), m, 7))
        (found,) = run(segment, [a, x, b], {"n": 7, "m": m})
        sums = np.array([_total(row * x) for row in a]) + b
        np.testing.assert_array_equal(found, np.maximum(sums, 0))
