"""Statements on rows become one kernel over rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from passes.programs import agree, normalise_columns, softmax
from passes.unfused import Unfused, expressions, operations, top

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.nest import nest, nest_candidates
from weft.passes.pipeline import optimise
from weft.sizes import parse_poly

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)


def test_softmax_is_one_kernel(golden: Golden) -> None:
    before = optimise(softmax())
    after = nest(before)
    assert top(after) == ["Kernel"]
    assert operations(after).count("exp") == 1
    agree(softmax(), after, [RNG.random((4, 6))])
    agree(softmax(), after, [RNG.random((1, 1))])
    golden(show(after))


def test_candidates() -> None:
    (candidate,) = nest_candidates(optimise(softmax()))
    assert candidate.outer == parse_poly("n")
    assert candidate.row_bytes == parse_poly("24*m")


def test_declined() -> None:
    before = optimise(softmax())
    assert nest(before, lambda _: False) is before


def test_columns_are_not_rows() -> None:
    """The result of normalising columns has rows outermost, its statistics columns."""
    after = nest(optimise(normalise_columns()))
    assert len(expressions(after, fun.Kernel)) >= 2
    agree(normalise_columns(), after, [RNG.random((4, 6)), np.float64(4)])


def test_means_of_columns_stay_apart() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    program = optimise(u.program(u.map("divide", u.reduce("add", x, [0]), 5.0)))
    assert top(program) == ["Reduce", "Kernel"]
    assert nest_candidates(program) == []


def test_two_leading_dimensions() -> None:
    u = Unfused("b", "n", "m")
    x = u.param("x", "b", "n", "m")
    b, n = u.size("b"), u.size("n")
    total = u.reshape(u.reduce("add", u.map("exp", x), [2]), b, n, 1)
    before = u.program(u.map("divide", x, total))
    after = nest(optimise(before))
    assert top(after) == ["Kernel"]
    agree(before, after, [RNG.random((2, 3, 4))])


def test_epilogue_of_matrix_vector_product() -> None:
    before = parse("""
    program p(a: f64[n, k], x: f64[k], bias: f64[n]) sizes n, k {
      let r: f64[n] = reduce (i < n; l < k) from 0.0 {
        let y: f64 = a[i, l]
        let z: f64 = x[l]
        let w: f64 = multiply(y, z)
        in w
      } with (p1: f64, p2: f64) { let p3: f64 = add(p1, p2) in p3 }
      let t: f64[n] = kernel (j < n) {
        let b: f64 = r[j]
        let c: f64 = bias[j]
        let d: f64 = add(b, c)
        let e: f64 = maximum(d, 0.0)
        in e
      }
      in t
    }""")
    after = nest(optimise(before))
    assert top(after) == ["Kernel"]
    agree(before, after, [RNG.random((3, 4)), RNG.random(4), RNG.random(3)])


def test_intermediates_that_are_results() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    total = u.reduce("add", x, [1])
    e = u.map("divide", x, u.reshape(total, u.size("n"), 1))
    before = u.program(e, total, u.scan("add", e))
    after = nest(optimise(before))
    assert top(after) == ["Kernel"]
    assert len(after.body.statements[0].pattern) == 3
    agree(before, after, [RNG.random((3, 4))])


def test_a_shifted_row_stays_outside() -> None:
    before = parse("""
    program p(x: f64[n, m]) sizes n, m {
      let s: f64[n] = reduce (i < n; j < m) from 0.0 {
        let y: f64 = x[i, j]
        in y
      } with (p1: f64, p2: f64) { let p3: f64 = add(p1, p2) in p3 }
      let t: f64[n, m] = kernel (a < n, b < m) {
        let u: f64 = s[n - 1 - a]
        let v: f64 = x[a, b]
        let w: f64 = multiply(u, v)
        in w
      }
      in t
    }""")
    assert nest(before) is before


def test_a_detour_keeps_the_order() -> None:
    """What lies between through another statement cannot join."""
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    n = u.size("n")
    rows = u.reduce("add", x, [1])
    everything = u.reduce("add", u.map("exp", rows), [0])
    before = u.program(u.reduce("maximum", u.map("divide", x, everything), [1]), u.reshape(rows, n))
    after = nest(optimise(before))
    assert top(after).count("Reduce") == 3
    agree(before, after, [RNG.random((3, 4))])
