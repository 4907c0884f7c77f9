"""How much statements are thought to compute."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.fun.parse import parse
from weft.plan.work import work

TILES = """program sums(x: f32[n]) sizes n derived t = floordiv(n + 999, 1000) {
  let y: f32[t] = kernel (i < t) {
    let left: i64 = size n - 1000*i
    let few: i64 = minimum(1000, left)
    let s: f32 = reduce (; j < few) from 0.0_f32 {
      let a: f32 = x[j + 1000*i]
      let b: f32 = exp(a)
      in b
    } with (l: f32, r: f32) { let c: f32 = add(l, r) in c }
    in s
  }
  in y
}"""


def test_tiles_are_as_long_as_their_length_says() -> None:
    (let,) = parse(TILES).body.statements
    known = {"n": 50_000, "t": 50}
    assert 50_000 <= work(let, known) <= 6 * 50_000


def test_lengths_that_data_decide_are_thought_to_be_short() -> None:
    text = TILES.replace("minimum(1000, left)", "minimum(1000, found)").replace(
        "let left: i64 = size n - 1000*i", "let found: i64 = y[i]"
    )
    text = text.replace("x: f32[n]", "x: f32[n], y: i64[t]").replace("let y:", "let z:")
    text = text.replace("in y", "in z")
    (let,) = parse(text).body.statements
    assert work(let, {"n": 50_000, "t": 50}) < 50_000


@pytest.mark.parametrize("function", [wf.sum, wf.max, wf.mean])
def test_folds_of_a_vector_are_as_much_as_it_is_long(function) -> None:
    from weft.plan.sharing import SMALL_WORK

    lowered = wf.jit(lambda x: function(x * x)).lower(np.zeros(2 * SMALL_WORK, np.float32))
    program = lowered.program
    known = {"n0": 2 * SMALL_WORK, "tiles_0": 2 * SMALL_WORK // 65536}
    assert sum(work(let, known) for let in program.body.statements) >= SMALL_WORK
