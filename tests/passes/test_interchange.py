"""Indices follow memory, and loops go into the kernels that their rounds are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.interchange import interchange
from weft.passes.remove_dead import remove_dead
from weft.passes.simplify import simplify

RNG = np.random.default_rng(6)

COLUMNS = """program columns(a: f64[n, m], b: f64[n, m]) sizes n, m {
  let t: f64[m, n] = kernel (j < m) {
    let u: f64[n] = kernel (i < n) {
      let p: f64 = a[i, j]
      let q: f64 = b[i, j]
      let r: f64 = add(p, q)
      in r
    }
    in u
  }
  let c: f64[n, m] = permute t (1, 0)
  in c
}"""

ROUNDS = """program rounds(x: f64[n, m], a: f64[n, l], b: f64[l, m]) sizes n, m, l {
  let y: f64[n, m] = loop (z: f64[n, m] = x) for k from 0 to l {
    let t: f64[n, m] = kernel (i < n, j < m) {
      let o: f64 = z[i, j]
      let p: f64 = a[i, k]
      let q: f64 = b[k, j]
      let r: f64 = multiply(p, q)
      let s: f64 = subtract(o, r)
      in s
    }
    in t
  }
  in y
}"""


def same(text: str, *arguments: Any) -> fun.Program:
    """The program interchanged, which gives the same bits."""
    program = parse(text)
    made = interchange(program)
    check(made)
    expected = interpret(program, arguments)
    for program_ in (made, remove_dead(simplify(made))):
        for one, other in zip(interpret(program_, arguments), expected, strict=True):
            assert one.tobytes() == other.tobytes()
    return made


def test_columns(golden: Callable[[str], None]) -> None:
    made = same(COLUMNS, RNG.random((4, 7)), RNG.random((4, 7)))
    golden(show(remove_dead(simplify(made))))


def test_rounds(golden: Callable[[str], None]) -> None:
    golden(show(same(ROUNDS, RNG.random((4, 7)), RNG.random((4, 3)), RNG.random((3, 7)))))


def test_three_dimensions() -> None:
    text = """program three(a: f64[n, m, l], b: f64[n, m, l]) sizes n, m, l {
      let t: f64[m, l, n] = kernel (j < m, k < l, i < n) {
        let p: f64 = a[i, j, k]
        let q: f64 = b[i, j, k + 0]
        let o: f64 = a[i, 0, k]
        let r: f64 = add(p, q)
        let s: f64 = add(r, o)
        in s
      }
      in t
    }"""
    made = same(text, RNG.random((3, 4, 5)), RNG.random((3, 4, 5)))
    kernel = made.body.statements[0].expr
    assert isinstance(kernel, fun.Kernel)
    assert [r.index.name for r in kernel.space] == ["j", "i", "k"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("let c: f64[n, m] = permute t (1, 0)\n  in c", "in t"),  # the write counts as two reads
        ("a[i, j]", "a[i, 2*j]"),
        ("let r: f64 = add(p, q)", "let r: f64 = reduce (; h < 3) from 0.0 { in p } with "
         "(v: f64, w: f64) { let x: f64 = add(v, w) in x }"),
    ],
)  # fmt: skip
def test_kept_order(old: str, new: str) -> None:
    text = COLUMNS.replace(old, new)
    if "2*j" in new:
        text = text.replace("b[i, j]", "b[i, 2*j]").replace("permute t (1, 0)", "copy t").replace(
            "c: f64[n, m]", "c: f64[m, n]"
        )  # fmt: skip
    program = parse(text)
    assert interchange(program) is program


def test_bodies_of_loops_and_branches() -> None:
    text = """program inside(x: f64[n, m], a: f64[m, n], b: f64[m, n], f: bool) sizes n, m {
      let y: f64[n, m] = if f {
        let t: f64[n, m] = kernel (i < n, j < m) {
          let p: f64 = a[j, i]
          let q: f64 = b[j, i]
          let o: f64 = a[j, 0]
          let g: f64 = b[0, i]
          let r: f64 = add(p, q)
          let h: f64 = add(r, g)
          in h
        }
        in t
      } else { in x }
      in y
    }"""
    arguments = (RNG.random((3, 4)), RNG.random((4, 3)), RNG.random((4, 3)))
    assert "permute" in show(same(text, *arguments, np.True_))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("z[i, j]", "z[i, 0]"),  # another element of the round before
        ("a[i, k]", "z[i, k]"),
        ("kernel (i < n, j < m) {", "kernel (i < n, j < m) {\n let e: f64[m] = z[0, 0 for m]"),
        ("in t\n  }\n  in y", "let u: f64[n, m] = copy t\n in u\n  }\n  in y"),
    ],
)
def test_kept_loops(old: str, new: str) -> None:
    new = new.replace("= z[0, 0 for m]", "= slice z[0, 0 for m]")
    program = parse(ROUNDS.replace(old, new))
    assert interchange(program) is program


def test_no_rounds() -> None:
    same(ROUNDS, RNG.random((4, 7)), RNG.random((4, 0)), RNG.random((0, 7)))


def column_by_column(a: Any, b: Any, c: Any) -> None:
    for j in wf.prange(c.shape[1]):
        for i in wf.prange(c.shape[0]):
            c[i, j] = a[i, j] * 2.0 + b[i, j]


def rank_one_updates(a: Any, b: Any, c: Any) -> None:
    for k in range(a.shape[1]):
        for i in wf.prange(c.shape[0]):
            for j in wf.prange(c.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@pytest.mark.parametrize("optimise", ["", "no-blas"])
def test_kernels(optimise: str) -> None:
    a, b, c = RNG.random((6, 5)), RNG.random((6, 5)), RNG.random((6, 5))
    with wf.config(interpret_below=0, optimise=optimise):
        wf.kernel(column_by_column)(a, b, c)
        np.testing.assert_array_equal(c, a * 2.0 + b)
        d, e = RNG.random((5, 9)), RNG.random((6, 9))
        kernel = wf.kernel(rank_one_updates)
        expected = e + a @ d
        kernel(a, d, e)
        np.testing.assert_allclose(e, expected)
        program = kernel.trace(a, d, e)
    assert not any(isinstance(let.expr, fun.Loop) for let in program.body.statements)
    called = any(isinstance(let.expr, fun.Call) for let in program.body.statements)
    assert called is (optimise == "")
