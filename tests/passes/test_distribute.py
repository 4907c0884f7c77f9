"""Sums of products between rows and columns, in the form that is added by fused operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.distribute import distribute
from weft.passes.remove_dead import remove_dead

RNG = np.random.default_rng(3)

TEXT = """program update(a: f64[n, l], b: f64[n, l], w: f64, x: f64[l]) sizes n, l {
  let c: f64[n, n] = kernel (i < n, j < n) {
    let s: f64 = reduce (; k < l) from -0.0 {
      let p: f64 = a[i, k]
      let q: f64 = b[j, k]
      let r: f64 = b[i, k]
      let t: f64 = a[j, k]
      let y: f64 = x[k]
      let m: f64 = multiply(p, q)
      let o: f64 = multiply(r, t)
      BODY
      in z
    } with (u: f64, v: f64) { let h: f64 = add(u, v) in h }
    in s
  }
  in c
}"""

CHANGED = {
    "scaled": "let d: f64 = add(m, o)\n let z: f64 = multiply(w, d)",
    "difference": "let z: f64 = subtract(m, o)",
    "negative": "let d: f64 = multiply(m, 2.0)\n let z: f64 = negative(d)",
    "weighted": "let z: f64 = multiply(m, y)",
}
KEPT = {
    "plain": "let z: f64 = add(m, o)",
    "product of sums": "let d: f64 = add(m, o)\n let z: f64 = multiply(d, d)",
    "scaled by both": "let d: f64 = add(m, o)\n let z: f64 = multiply(d, p)",
    "another term": "let d: f64 = add(m, o)\n let z: f64 = add(d, w)",
    "another function": "let d: f64 = sqrt(m)\n let z: f64 = multiply(d, w)",
}


@pytest.mark.parametrize("name", CHANGED)
def test_changed(name: str, golden: Callable[[str], None]) -> None:
    program = parse(TEXT.replace("BODY", CHANGED[name]))
    made = remove_dead(distribute(program))
    check(made)
    golden(show(made))
    arguments = [RNG.random((6, 5)), RNG.random((6, 5)), np.float64(1.7), RNG.random(5)]
    for found, expected in zip(
        interpret(made, arguments), interpret(program, arguments), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    assert show(distribute(made)) == show(made)


def test_nested_kernels() -> None:
    text = TEXT.replace("BODY", CHANGED["scaled"]).replace(
        "kernel (i < n, j < n) {", "kernel (i < n) {\n let e: f64[n] = kernel (j < n) {"
    ).replace("    in s\n  }\n  in c", "    in s\n  }\n  in e\n  }\n  in c")  # fmt: skip
    flat = distribute(parse(TEXT.replace("BODY", CHANGED["scaled"])))
    assert show(distribute(parse(text))) == show(flat)


@pytest.mark.parametrize("name", KEPT)
def test_kept(name: str) -> None:
    program = parse(TEXT.replace("BODY", KEPT[name]))
    assert distribute(program) == program


def test_integers_and_other_operators_are_kept() -> None:
    text = TEXT.replace("BODY", CHANGED["scaled"])
    for changed in (text.replace("f64", "i64").replace("-0.0", "0").replace("2.0", "2"),
                    text.replace("add(u, v)", "maximum(u, v)")):  # fmt: skip
        program = parse(changed)
        assert distribute(program) == program
