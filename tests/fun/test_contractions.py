"""Which kernels combine rows with columns, and what belongs to which side."""

from __future__ import annotations

import pytest

from weft.fun import nodes as fun
from weft.fun.contractions import Contraction, contraction
from weft.fun.parse import parse

PRODUCT = """program product(a: f64[n, l], b: f64[l, m], x: f64[l]) sizes n, m, l {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let s: f64 = reduce (; k < l) from -0.0 {
      BODY
    } with (u: f64, v: f64) { let w: f64 = OPERATOR(u, v) in w }
    in s
  }
  in c
}"""
PLAIN = """let p: f64 = a[i, k]
      let q: f64 = b[k, j]
      let r: f64 = multiply(p, q)
      in r"""
SCALED = """let p: f64 = a[i, k]
      let y: f64 = x[k]
      let z: f64 = multiply(p, y)
      let q: f64 = b[k, j]
      let o: f64 = subtract(z, q)
      let r: f64 = multiply(o, o)
      in r"""


def found(text: str) -> Contraction | None:
    (let,) = parse(text).body.statements
    assert isinstance(let.expr, fun.Kernel)
    return contraction(let.expr)


def product(body: str = PLAIN, operator: str = "add") -> str:
    return PRODUCT.replace("BODY", body).replace("OPERATOR", operator)


def names(values: tuple[fun.Var, ...]) -> list[str]:
    return [value.name for value in values]


def test_sides() -> None:
    parts = found(product())
    assert parts is not None
    assert (parts.row.index.name, parts.column.index.name) == ("i", "j")
    assert names(parts.left.values) == ["p"]
    assert names(parts.right.values) == ["q"]
    assert [let.pattern[0].name for let in parts.joint] == ["r"]


def test_what_a_side_computes_is_computed_once_for_it() -> None:
    parts = found(product(SCALED))
    assert parts is not None
    assert names(parts.left.values) == ["z"]
    assert [let.pattern[0].name for let in parts.left.statements] == ["p", "y", "z"]
    assert [let.pattern[0].name for let in parts.joint] == ["o", "r"]


def test_other_operators() -> None:
    assert found(product(operator="minimum")) is not None
    assert found(product(operator="subtract").replace("minimum", "subtract")) is not None


GATHER = """let p: f64 = a[i, k]
      let q: f64 = b[k, j]
      let d: i64 = multiply(i, j)
      let f: f64 = f64(d)
      let t: f64 = multiply(p, q)
      let r: f64 = add(t, f)
      in r"""
RAMP = GATHER.replace("i64 = multiply(i, j)", "i64 = negative(j)")


@pytest.mark.parametrize("body", [PLAIN, SCALED, RAMP])
def test_accepted(body: str) -> None:
    assert found(product(body)) is not None


@pytest.mark.parametrize(
    "body",
    [
        PLAIN.replace("b[k, j]", "b[i, j]"),  # what varies with both is read
        PLAIN.replace("b[k, j]", "x[k]"),  # there is no right side
        PLAIN.replace("a[i, k]", "x[k]"),  # there is no left side
        PLAIN.replace("a[i, k]", "a[i, 0]"),  # the left side is the same in all rounds
        GATHER,  # of indices, not of what sides give
    ],
)
def test_rejected_bodies(body: str) -> None:
    assert found(product(body)) is None


def test_rejected_spaces() -> None:
    assert found(product().replace("j < m", "j < 1").replace("f64[n, m]", "f64[n, 1]")) is None
    one = product(PLAIN.replace("a[i, k]", "a[j, k]")).replace("i < n, ", "")
    assert found(one.replace("f64[n, m]", "f64[m]")) is None
    assert found(product().replace("k < l", "k < i")) is None


def test_rejected_uses_of_what_the_kernel_computes() -> None:
    text = product().replace("let s: f64 =", "let d: f64 = f64(j)\n    let s: f64 =")
    assert found(text) is not None
    assert found(text.replace("multiply(p, q)", "multiply(p, d)")) is None


TWO = """program two(a: f64[n, l], b: f64[l, m]) sizes n, m, l {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let s: f64 = reduce (; k < l) from -0.0 {
      let p: f64 = a[i, k]
      let q: f64 = b[k, j]
      let r: f64 = multiply(p, q)
      in r
    } with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
    let t: f64 = reduce (; h < l) from -0.0 {
      let g: f64 = b[h, j]
      in g
    } with (x: f64, y: f64) { let z: f64 = add(x, y) in z }
    let o: f64 = add(s, t)
    in o
  }
  in c
}"""


def test_rejected_with_a_second_reduction() -> None:
    assert found(TWO) is None
