"""Lanes along another dimension than a short last one: the same bits, where sizes allow it."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree, compiled, run

from weft.fun.parse import parse
from weft.lower.few_columns import APART, FEW

RNG = np.random.default_rng(17)

# A layer of a network along a line: `o` channels of each of `n` pixels, from `k` pixels of `c`.
LAYER = """program layer(x: f32[b, l, c], w: f32[k, c, o])
  sizes b, l, k, c, o, n fact l - n - k + 1 >= 0
{
  let y: f32[b, n, o] = kernel (h < b, i < n, j < o) {
    let s: f32 = reduce (; p < k, q < c) from -0.0_f32 {
      let u: f32 = x[h, i + p, q]
      let v: f32 = w[p, q, j]
      let m: f32 = multiply(u, v)
      in m
    } with (a: f32, d: f32) { let t: f32 = add(a, d) in t }
    let r: f32 = maximum(s, 0.0_f32)
    in r
  }
  in y
}"""

ON_ROWS = LAYER.replace("kernel (h < b, i < n, j < o)", "kernel (i < n, h < b, j < o)").replace(
    "f32[b, n, o] =", "f32[n, b, o] ="
)


def ways(text: str) -> int:
    return compiled(parse(text)).source.count("static void tile_")


def arguments(b: int, n: int, k: int, c: int, o: int) -> tuple[list[np.ndarray], dict[str, int]]:
    x = RNG.standard_normal((b, n + k - 1, c)).astype(np.float32)
    w = RNG.standard_normal((k, c, o)).astype(np.float32)
    return [x, w], {"b": b, "l": n + k - 1, "k": k, "c": c, "o": o, "n": n}


@pytest.mark.parametrize("o", [1, 3, FEW, FEW + 1])
@pytest.mark.parametrize("c", [1, 3, APART, APART + 1])
def test_agrees_on_both_sides_of_the_condition(o: int, c: int) -> None:
    segment = compiled(parse(LAYER))
    for b, n, k in [(1, 1, 1), (2, 13, 3), (3, 8, 5), (1, 1031, 2), (1, 9, 40)]:
        given, sizes = arguments(b, n, k, c, o)
        agree(parse(LAYER), given, segment=segment, **sizes, rtol=1e-4, atol=1e-4)


def test_a_column_has_the_bits_that_it_has_among_many() -> None:
    segment = compiled(parse(LAYER))
    (x, w), sizes = arguments(2, 101, 7, 11, 3 * FEW)  # 77 rows: three grains
    (many,) = run(segment, [x, w], sizes)
    few = [x, np.ascontiguousarray(w[:, :, 5 : 5 + FEW])]
    (alone,) = run(segment, few, {**sizes, "o": FEW})
    assert alone.tobytes() == np.ascontiguousarray(many[:, :, 5 : 5 + FEW]).tobytes()


def test_pixels_may_be_any_dimension_but_the_last() -> None:
    assert ways(LAYER) == ways(ON_ROWS) == 2
    (x, w), sizes = arguments(3, 29, 3, 3, 4)
    agree(parse(ON_ROWS), [x, w], rtol=1e-4, atol=1e-4, **sizes)


def test_long_columns_keep_their_lanes() -> None:
    assert ways(LAYER.replace(", o]", f", {FEW + 1}]").replace("j < o", f"j < {FEW + 1}")) == 1


def test_reads_rows_apart_keep_their_lanes() -> None:
    text = """program apart(x: f32[n, b, c], w: f32[b, c, o]) sizes n, b, c, o {
      let y: f32[n, o] = kernel (i < n, j < o) {
        let s: f32 = reduce (; p < b, q < c) from -0.0_f32 {
          let u: f32 = x[i, p, q]
          let v: f32 = w[p, q, j]
          let m: f32 = multiply(u, v)
          in m
        } with (a: f32, d: f32) { let t: f32 = add(a, d) in t }
        in s
      }
      in y
    }"""
    assert ways(text) == 1
    assert ways(text.replace("f32[n, b, c]", "f32[b, n, c]").replace("[i, p, q]", "[p, i, q]")) == 2
