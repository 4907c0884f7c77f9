"""Few columns that are reduced of what they have in common are results of one reduction."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from passes.programs import agree_on_numbers, before_after, reductions

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.write_out_columns import write_out_columns

PULLS = """program p(x: f64[n, 3], q: f64[m, 3]) sizes n, m {
  let w: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i, 0]
    let b: f64 = q[j, 1]
    let o1: f64 = subtract(a, b)
    let o2: f64 = multiply(o1, o1)
    let o3: f64 = sqrt(o2)
    let d: f64 = divide(a, o3)
    in d
  }
  let s: f64[n, 3] = reduce (u < n, c < 3; v < m) from 0.0 {
    let g: f64 = w[u, v]
    let h: f64 = q[v, c]
    let k: f64 = multiply(g, h)
    in k
  } with (l: f64, r: f64) { let t: f64 = add(l, r) in t }
  in s
}"""
OF_SUMS = PULLS.replace("kernel (i < n, j < m)", "reduce (i < n, j < m; z < 2) from -inf").replace(
    "in d\n  }", "in d\n  } with (e: f64, f: f64) { let y: f64 = maximum(e, f) in y }"
)

WRITTEN = {
    "one": PULLS,
    "of_sums": OF_SUMS,
    "two_columns": PULLS.replace("c < 3", "c < 2").replace("s: f64[n, 3]", "s: f64[n, 2]"),
    "turned_around": PULLS.replace("w: f64[n, m]", "w: f64[m, n]").replace("w[u, v]", "w[v, u]")
    .replace("(i < n, j < m)", "(j < m, i < n)"),
    "in_a_loop": PULLS.replace("let w:", "let y: f64[n, 3] = broadcast 0.0 (n, 3) "
                               "let o: f64[n, 3] = loop (z: f64[n, 3] = y) for e from 0 to 2 "
                               "{ let w:")
    .replace("in s\n", "in s } in o\n"),
    "with_the_column": PULLS.replace("let h: f64 = q[v, c]", "let h: f64 = f64(c)"),
}  # fmt: skip
STAYS = {
    "many_columns": PULLS.replace("3", "5"),
    "unknown_columns": PULLS.replace("3", "o").replace("sizes n, m", "sizes n, m, o"),
    "one_column": PULLS.replace("c < 3", "c < 1").replace("s: f64[n, 3]", "s: f64[n, 1]"),
    "a_result": PULLS.replace("in s\n", "in s, w\n"),
    "read_twice": PULLS.replace("let h: f64 = q[v, c]", "let h: f64 = w[u, 0]"),
    "given": PULLS.replace("w[u, v]", "q[v, 0]"),
    "for_each_column": PULLS.replace("w: f64[n, m]", "w: f64[n, 3]").replace("j < m", "j < 3")
    .replace("w[u, v]", "w[u, c]"),
}  # fmt: skip
SIZES = {"n": 5, "m": 19, "o": 2}


@pytest.mark.parametrize("name", WRITTEN)
def test_columns_are_reduced_together(name: str) -> None:
    program = parse(WRITTEN[name])
    check(program)
    after = write_out_columns(program)
    check(after)
    columns = 2 if name == "two_columns" else 3
    assert len(reductions(after)[-1].pattern) == columns
    # A producer is computed where it is read; one that reduces is left to `fold_within`.
    made = [let for let in walk.sequential(after.body) if isinstance(let.expr, fun.Kernel)]
    assert len(made) == 1
    agree_on_numbers(program, after, SIZES)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays(name: str) -> None:
    program = parse(STAYS[name])
    check(program)
    assert write_out_columns(program) is program


def test_pulls(golden: Callable[[str], None]) -> None:
    golden(before_after(PULLS, write_out_columns))
