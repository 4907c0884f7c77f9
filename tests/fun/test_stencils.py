"""What is known of iterated stencils."""

from __future__ import annotations

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.fun.stencils import stencil_of
from weft.plan.work import work

BRANCHES = parse(
    """program branches(x: f64[n]) sizes n, t {
      let y: f64[n] = loop (a: f64[n] = x) for s from 0 to t {
        let b: f64[n] = kernel (i < n) {
          let c: bool = less(i, 1)
          let d: f64 = a[i]
          let r: f64 = if c {
            let e: f64 = multiply(d, d)
            in e
          } else {
            let f: f64 = add(d, d)
            let g: f64 = multiply(f, d)
            in g
          }
          let h: f64 = add(r, d)
          in h }
        in b }
      in y }"""
)


def test_of_branches_the_longer_counts() -> None:
    (let,) = BRANCHES.body.statements
    assert isinstance(let.expr, fun.Loop)
    stencil = stencil_of(let.expr)
    assert stencil is not None
    assert stencil.operations == 3
    rounds, length = 7, 100
    element = 1 + 3 + (1 + 2)  # its own, statements beside the branches, and the longer of these
    assert work(let, {"n": length, "t": rounds}) == rounds * (1 + length * element)
