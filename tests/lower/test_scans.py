"""Scans along rows and columns, in tiles and streams."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lower.harness import FLAGS, QUICK, IndexFailureError, agree, compiled, run

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.lower import shapes

ROWS = """program cumulate(x: DT[r, n], c: DT) sizes r, n {
  let y: DT[r, n] = scan KIND (i < r, j < n) from c {
    let a: DT = x[i, j]
    in a
  } with (l: DT, m: DT) { let t: DT = add(l, m) in t }
  in y
}"""

COLUMNS = """program cumulate(x: f64[n, r]) sizes r, n {
  let y: f64[r, n] = scan (j < r, i < n) from 0.0 {
    let a: f64 = x[i, j]
    in a
  } with (l: f64, m: f64) { let t: f64 = add(l, m) in t }
  let z: f64[n, r] = permute y (1, 0)
  in z
}"""

LAST_NONZERO = """program last(x: i64[n]) sizes n {
  let y: i64[n] = scan (i < n) from -1 {
    let a: i64 = x[i]
    in a
  } with (l: i64, m: i64) {
    let c: bool = not_equal(m, 0)
    let t: i64 = where(c, m, l)
    in t
  }
  in y
}"""


@pytest.mark.parametrize("kind", ["", "exclusive"])
@pytest.mark.parametrize("dtype", ["i64", "f32"])
def test_rows(dtype: str, kind: str) -> None:
    program = parse(ROWS.replace("DT", dtype).replace("KIND", kind))
    segment = compiled(program)
    rng = np.random.default_rng(3)
    for r, n in [
        (1, 1),
        (1, 0),
        (3, 65),
        (70, 1000),
        (1, 4095),
        (2, 4099),
        (1, 65536),
        (3, 65537),
        (1, 200_001),
    ]:
        x = rng.integers(-9, 9, (r, n)).astype(program.params[0].type.dtype.numpy)
        agree(program, [x, x.dtype.type(5)], segment=segment, r=r, n=n, rtol=1e-4)


def test_columns() -> None:
    program = parse(COLUMNS)
    segment = compiled(program)
    for n, r in [(1, 1), (5, 3), (70, 1030), (1000, 7)]:
        agree(
            program,
            [np.random.default_rng(4).normal(size=(n, r))],
            segment=segment,
            r=r,
            n=n,
            atol=1e-10,
        )


def test_an_operator_that_does_not_commute() -> None:
    program = parse(LAST_NONZERO)
    segment = compiled(program)
    rng = np.random.default_rng(5)
    for n in [1, 7, 5000, 140_000]:
        x = rng.integers(0, 50, n) * (rng.random(n) < 0.05)
        agree(program, [x], segment=segment, n=n)


@pytest.mark.parametrize("extent", [1, 7, 4095, 4096])
def test_short_rows_inside_of_kernels_need_no_totals(extent: int) -> None:
    text = """program rows(x: f64[n, EXTENT]) sizes n {
      let r: f64[n, EXTENT] = kernel (q < n) {
        let sums: f64[EXTENT] = scan (i < EXTENT) from 0.5 {
          let a: f64 = x[q, i]
          in a
        } with (l: f64, m: f64) { let t: f64 = add(l, m) in t }
        in sums
      }
      in r
    }"""
    program = parse(text.replace("EXTENT", str(extent)))
    segment = compiled(program)
    assert ("total" in segment.source) == (extent >= 4096)
    x = np.random.default_rng(extent).normal(size=(3, extent))
    agree(program, [x], segment=segment, n=3, rtol=1e-9)


COMPUTED = """program computed(x: f64[r, n], at: i64[EXTENT]) sizes r, n {
  let y: f64[r, EXTENT] = kernel (i < r) {
    let z: f64[EXTENT] = scan KIND (j < EXTENT) from 1.0 {
      let k: i64 = at[j]
      let a: f64 = x[i, k]
      let b: f64 = x[i, j]
      let c: f64 = subtract(a, b)
      in c
    } with (l: f64, m: f64) { let t: f64 = add(l, m) in t }
    in z
  }
  in y
}"""


@pytest.mark.parametrize("kind", ["", "exclusive"])
@pytest.mark.parametrize("extent", [1, 63, 65, 1500, "n"])
def test_elements_are_computed_in_lanes_before_they_are_combined(
    extent: int | str, kind: str
) -> None:
    """In blocks where there are many; bits are those of one after another."""
    program = parse(COMPUTED.replace("EXTENT", str(extent)).replace("KIND", kind))
    segment = compiled(program)
    rng = np.random.default_rng(9)
    for n in [extent] if isinstance(extent, int) else [1, 64, 130]:
        x, at = rng.normal(size=(3, n)), rng.integers(0, n, n)
        (found,) = agree(program, [x, at], segment=segment, r=3, n=n, rtol=1e-12)
        summed = np.cumsum(np.hstack([np.ones((3, 1)), x[:, at] - x]), axis=1)
        assert np.array_equal(found, summed[:, :-1] if kind else summed[:, 1:])
    assert ("double value0[" in segment.source) == isinstance(extent, int)  # not n


def test_an_index_outside_is_found_there() -> None:
    text = COMPUTED.replace("EXTENT", "65").replace("KIND", "")
    at = np.zeros(65, np.int64)
    at[64] = 65
    with pytest.raises(IndexFailureError) as failure:
        run(compiled(parse(text)), [np.zeros((3, 65)), at], {"r": 3, "n": 65})
    assert failure.value.args == ("x", 1, 65, 65)


MATH = """program math(x: f64[r, n]) sizes r, n {
  let y: f64[r, n] = kernel (i < r, j < n) {
    let a: f64 = x[i, j]
    let b: f64 = tanh(a)
    in b
  }
  in y
}"""

SCANNED_MATH = """program scanned(x: f64[r, n]) sizes r, n {
  let y: f64[OUTER, INNER] = scan (p < OUTER, q < INNER) from 0.0 {
    let a: f64 = x[i, j]
    let b: f64 = tanh(a)
    in b
  } with (l: f64, m: f64) { let t: f64 = add(l, m) in t }
  in y
}"""


@pytest.mark.parametrize("along", ["rows", "columns"])
def test_vector_math_gives_what_it_gives_elsewhere(along: str) -> None:
    """Short scans are one left fold: of the bits that a kernel of the same function gives."""
    text = SCANNED_MATH
    if along == "rows":
        text = text.replace("OUTER", "r").replace("INNER", "n").replace("p <", "i <")
        text = text.replace("q <", "j <")
    else:
        text = text.replace("OUTER", "n").replace("INNER", "r").replace("p <", "j <")
        text = text.replace("q <", "i <")
    scan, kernel = compiled(parse(text)), compiled(parse(MATH))
    for r, n in [(300, 1021), (1021, 300), (3, 4095), (130, 1)]:
        x = np.random.default_rng(n).normal(size=(r, n))
        sizes = {"r": r, "n": n}
        (elements,) = run(kernel, [x], sizes)
        for flags in (FLAGS, QUICK):
            (found,) = run(scan, [x], sizes, flags=flags)
            if along == "columns":
                found = found.T
            assert np.array_equal(found, np.cumsum(elements, axis=1 if along == "rows" else 0))


FLAGGED_MATH = """program flagged(x: f64[n]) sizes n {
  let f: bool[n], y: f64[n] = scan (i < n) from False, 0.0 {
    let a: f64 = x[i]
    let b: f64 = tanh(a)
    in True, b
  } with (k: bool, l: f64, o: bool, m: f64) {
    let either: bool = logical_or(k, o)
    let half: f64 = multiply(l, 0.5)
    let t: f64 = add(half, m)
    in either, t
  }
  in f, y
}"""


def test_vector_math_beside_a_narrower_constant() -> None:
    """Blocks are whole vectors of what is narrowest, the C compiler's remainder empty."""
    scan = parse(FLAGGED_MATH).body.statements[0].expr
    assert isinstance(scan, fun.Scan)
    assert shapes.widest_vector(scan.body) == 64


def test_what_the_last_stream_of_a_row_comes_to_is_not_computed() -> None:
    """Nobody is handed it; a row of one stream is read once."""
    source = compiled(parse(ROWS.replace("DT", "f64").replace("KIND", ""))).source
    totals, carries = re.findall(r"int64_t s\d+ = 0; s\d+ < (v\d+);", source)
    assert re.search(rf"{totals} = \(v\d+ \? {carries} : v\d+\);", source)
