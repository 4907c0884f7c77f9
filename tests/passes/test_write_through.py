"""What updates a view of an array, and then is written back, updates the array."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from passes.programs import agree, before_after

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.write_through import write_through

SLICE = """program p(x: f64[n, m], e: f64) sizes n, m
  fact n - 6 >= 0
  fact m - 6 >= 0
{
  let y: f64[n, m] = loop (a: f64[n, m] = x) for i from 0 to n - 5 {
    let v: f64[n - 4, 3] = slice a[2 for n - 4, 0 for 3 by 2]
    let w: f64[n - 4, 3] = update v[i, 1] = e
    let u: f64[n - 4, 3] = update w[i + 1, 0 for 2] = e
    let c: f64 = u[i, 1]
    let t: f64[n - 4, 3] = update u[i, 2] = c
    let b: f64[n, m] = update a[2 for n - 4, 0 for 3 by 2] = t
    in b
  }
  in y
}"""
PERMUTE = """program p(x: f64[n, m, n], e: f64[m, n]) sizes n, m {
  let y: f64[n, m, n] = loop (a: f64[n, m, n] = x) for i from 0 to n {
    let v: f64[n, n, m] = permute a (2, 0, 1)
    let t: f64[n, m] = permute e (1, 0)
    let w: f64[n, n, m] = update v[i, 0 for n, 0 for m] = t
    let u: f64[n, n, m] = update w[i, i, 0] = 3_f64
    let b: f64[n, m, n] = permute u (1, 2, 0)
    in b
  }
  in y
}"""
RESHAPE = """program p(x: f64[n, m], e: f64) sizes n, m {
  let y: f64[n, m] = loop (a: f64[n, m] = x) for i from 0 to n {
    let z: f64[n, m] = loop (c: f64[n, m] = a) for j from 0 to m {
      let v: f64[n*m] = reshape c (n*m)
      let w: f64[n*m] = update v[m*i + j] = e
      let b: f64[n, m] = reshape w (n, m)
      in b
    }
    in z
  }
  in y
}"""
OF_A_VIEW = """program p(x: f64[n, m], e: f64) sizes n, m
  fact m - 3 >= 0
{
  let v: f64[m, n] = permute x (1, 0)
  let s: f64[m - 2, n] = slice v[1 for m - 2, 0 for n]
  let w: f64[m - 2, n] = update s[0, 0 for n] = e
  let u: f64[m, n] = update v[1 for m - 2, 0 for n] = w
  let y: f64[n, m] = permute u (1, 0)
  in y
}"""
THROUGH = {"slice": SLICE, "permute": PERMUTE, "reshape": RESHAPE, "of a view": OF_A_VIEW}

RNG = np.random.default_rng(5)
ARGUMENTS = {
    "slice": (RNG.random((7, 8)), 9.0),
    "permute": (RNG.random((3, 5, 3)), RNG.random((5, 3))),
    "reshape": (RNG.random((4, 3)), 9.0),
    "of a view": (RNG.random((4, 5)), 9.0),
}


def views_updated(program: fun.Program) -> int:
    """How many updates are of what a view shows."""
    statements = list(walk.statements(program.body))
    shown = {
        let.pattern[0].name
        for let in statements
        if isinstance(let.expr, fun.Slice | fun.Permute | fun.Reshape)
    }
    return sum(
        isinstance(let.expr, fun.Update) and let.expr.array.name in shown for let in statements
    )


@pytest.mark.parametrize("name", THROUGH)
def test_the_array_is_updated(name: str) -> None:
    program = parse(THROUGH[name])
    assert views_updated(program)
    after = write_through(program)
    check(after)
    assert not views_updated(after)
    agree(program, after, ARGUMENTS[name])


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (SLICE, "3 by 2] = t", "3 by 2] = v"),  # nothing is written
        (SLICE, "update a[2 for", "update a[1 for"),
        (PERMUTE, "permute u (1, 2, 0)", "permute x (0, 1, 2)"),
        (RESHAPE, "update v[m*i + j] = e", "update v[i for 1] = e"),  # perhaps in two rows
        (RESHAPE, "from 0 to m", "from 0 to n"),  # j may be beyond a row
    ],
)  # fmt: skip
def test_others_stay(text: str, old: str, new: str) -> None:
    assert old in text
    program = parse(text.replace(old, new))
    assert write_through(program) is program


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(RESHAPE, write_through))
