"""Which reductions have a lane for each of their results."""

from __future__ import annotations

import pytest

from weft.fun import nodes as fun
from weft.fun.columns import reads_columns
from weft.fun.parse import parse

SUMS = """program sums(a: f64[n, n], x: f64[n], w: f64[n]) sizes n, m {
  let s: f64[m] = reduce (i < m; k < m) from -0.0 {
    let p: f64 = READ
    let q: f64 = w[k]
    let r: f64 = multiply(p, q)
    in r
  } with (u: f64, v: f64) { let t: f64 = add(u, v) in t }
  in s
}"""


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        ("a[k, i]", True), ("a[i, k]", False), ("a[k, 2*i]", True),
        ("x[i + k]", True), ("x[i - k + m]", True), ("x[2*i + k]", False), ("x[k - i + m]", False),
        ("a[0, i + 2*k]", True), ("a[k, i + k]", True), ("a[i, i + k]", False),
        ("x[k]", False),
    ],
)  # fmt: skip
def test_columns_and_windows(read: str, expected: bool) -> None:
    (let,) = parse(SUMS.replace("READ", read)).body.statements
    assert isinstance(let.expr, fun.Reduce)
    assert reads_columns(let.expr.body, "i", {"k"}) is expected


def test_every_read_of_a_window_slides() -> None:
    text = SUMS.replace("READ", "x[i + k]").replace("w[k]", "x[k - i]")
    (let,) = parse(text).body.statements
    assert isinstance(let.expr, fun.Reduce)
    assert not reads_columns(let.expr.body, "i", {"k"})
