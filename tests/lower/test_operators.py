"""Which operators are known to commute."""

from __future__ import annotations

import pytest
from lower.operator_texts import NAN, TIES
from lower.test_reductions import ARGMAX

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.lower.operators import is_commutative, selection

TEMPLATE = """program p(x: f32[n]) sizes n {
  let v: f32, k: i64 = reduce (; i < n) from -inf_f32, 0 {
    let a: f32 = x[i]
    let p: i64 = size i
    in a, p
  } with (lv: f32, li: i64, rv: f32, ri: i64) {
    STATEMENTS
    let v0: f32 = where(c, lv, rv)
    let i0: i64 = where(c, li, ri)
    in v0, i0
  }
  in v, k
}"""


def reduce(statements: str) -> fun.Reduce:
    program = parse(TEMPLATE.replace("STATEMENTS", statements))
    expr = program.body.statements[0].expr
    assert isinstance(expr, fun.Reduce)
    return expr


@pytest.mark.parametrize(
    ("statements", "commutes"),
    [
        (TIES + NAN, True),
        (TIES + "\n    let c: bool = logical_or(better, tie)", False),  # of NaN the right one
        ("let c: bool = greater_equal(lv, rv)", False),
        ("let c: bool = less(li, ri)", False),  # of equal positions the right one
    ],
)
def test_selections(statements: str, commutes: bool) -> None:
    assert is_commutative(reduce(statements).operator) is commutes


def test_arithmetic_is_not_decided() -> None:
    expr = parse(ARGMAX).body.statements[0].expr
    assert isinstance(expr, fun.Reduce)
    assert not is_commutative(expr.operator)
    assert selection(expr) is None
