"""Nested parallelism of one expression becomes one expression."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from passes.programs import agree, before_after
from passes.unfused import top

from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.flatten import flatten
from weft.passes.pipeline import optimise

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)

SUMS = """
program p(x: f64[n, m], y: f64[n]) sizes n, m {
  let r: f64[n] = kernel (i < n) {
    let b: f64 = y[i]
    let s: f64 = reduce (; j < m) from 0.0 {
      let v: f64 = x[i, j]
      let w: f64 = multiply(v, b)
      in w
    } with (p1: f64, p2: f64) { let p3: f64 = add(p1, p2) in p3 }
    in s
  }
  in r
}"""


def test_reduction(golden: Golden) -> None:
    after = flatten(parse(SUMS))
    check(after)
    agree(parse(SUMS), after, [RNG.random((3, 4)), RNG.random(3)])
    golden(before_after(SUMS, flatten))


def test_kernel_of_kernel_of_scan(golden: Golden) -> None:
    text = """
    program p(x: f64[n, m, k]) sizes n, m, k {
      let r: f64[n, m, k] = kernel (i < n) {
        let a: f64[m, k] = kernel (j < m) {
          let s: f64[k] = scan (l < k) from 0.0 {
            let v: f64 = x[i, j, l]
            in v
          } with (p1: f64, p2: f64) { let p3: f64 = add(p1, p2) in p3 }
          in s
        }
        in a
      }
      in r
    }"""
    agree(parse(text), flatten(parse(text)), [RNG.random((2, 3, 4))])
    golden(before_after(text, flatten))


def test_expensive_statements_stay_outside() -> None:
    text = SUMS.replace("multiply(v, b)", "multiply(v, c)")
    text = text.replace("let b: f64 = y[i]", "let b: f64 = y[i] let c: f64 = exp(b)")
    assert flatten(parse(text)) == parse(text)


def test_extents_that_depend_on_the_outer_index_stay() -> None:
    text = SUMS.replace("(; j < m)", "(; j < i)")
    assert flatten(parse(text)) == parse(text)


def test_flat_programs_fuse() -> None:
    """A map over rows, then a map over elements: one kernel."""
    text = """
    program p(x: f64[n, m]) sizes n, m {
      let a: f64[n, m] = kernel (i1 < n) {
        let b: f64[m] = kernel (j1 < m) { let x1: f64 = x[i1, j1] let y1: f64 = exp(x1) in y1 }
        in b
      }
      let c: f64[n, m] = kernel (i < n, j < m) {
        let v: f64 = a[i, j]
        let w: f64 = multiply(v, 2.0)
        in w
      }
      in c
    }"""
    after = optimise(parse(text))
    assert top(after) == ["Kernel"]
    agree(parse(text), after, [RNG.random((3, 4))])


TRANSPOSED = """
program p(x: f64[n, m]) sizes n, m {
  let r: f64[n, m, n] = kernel (i < n) {
    let a: f64[n, m] = kernel (j < n, k < m) {
      let v: f64 = x[i, k]
      let w: f64 = x[j, k]
      let u: f64 = subtract(v, w)
      in u
    }
    let b: f64[m, n] = permute a (1, 0)
    in b
  }
  in r
}"""


def test_a_transposed_kernel_is_one_over_the_transposed_space(golden: Golden) -> None:
    after = flatten(parse(TRANSPOSED))
    check(after)
    agree(parse(TRANSPOSED), after, [RNG.random((3, 4))])
    golden(before_after(TRANSPOSED, flatten))


def test_a_kernel_that_is_a_result_too_is_not_transposed() -> None:
    text = TRANSPOSED.replace("let r: f64[n, m, n]", "let r: f64[n, m, n], s: f64[n, n, m]")
    text = text.replace("in b", "in b, a").replace("in r", "in r, s")
    assert flatten(parse(text)) == parse(text)


def test_a_sum_and_what_becomes_of_it_are_one_kernel_with_what_follows(golden: Golden) -> None:
    text = """
    program p(x: f64[n, m, k], y: f64[m]) sizes n, m, k {
      let r: f64[n, m] = kernel (i < n) {
        let s: f64[m] = reduce (j < m; l < k) from 0.0 {
          let v: f64 = x[i, j, l]
          in v
        } with (p1: f64, p2: f64) { let p3: f64 = add(p1, p2) in p3 }
        let a: f64[m] = kernel (j < m) { let b: f64 = s[j] let c: f64 = exp(b) in c }
        in a
      }
      let t: f64[n, m] = kernel (i < n, j < m) {
        let d: f64 = r[i, j] let e: f64 = y[j] let f: f64 = multiply(d, e) in f
      }
      in t
    }"""
    after = optimise(parse(text))
    check(after)
    agree(parse(text), after, [RNG.random((3, 4, 2)), RNG.random(4)])
    assert len(after.body.statements) == 1
    golden(before_after(text, optimise))
