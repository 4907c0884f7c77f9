"""Which operators are known to commute."""

from __future__ import annotations

import pytest
from lower.operator_texts import NAN, TIES
from lower.test_reductions import ARGMAX

from weft.fun import nodes as fun
from weft.fun.operators import apart, in_order, is_commutative, selection
from weft.fun.parse import parse

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


def test_positions_of_what_stands_in_order_are_not_compared() -> None:
    found = in_order(reduce(TIES + NAN))
    positions = {"li", "ri"}
    asked = [
        let for let in found.body.statements
        if isinstance(let.expr, fun.Apply) and let.expr.operation in ("less", "equal")
        and positions & {str(atom) for atom in let.expr.arguments}
    ]  # fmt: skip
    assert not asked
    assert len(found.body.statements) < len(reduce(TIES + NAN).operator.body.statements)


def test_components_that_know_nothing_of_each_other_are_apart() -> None:
    text = TEMPLATE.replace("STATEMENTS", TIES + NAN).replace("let v:", "let v: f32, s:")
    text = text.replace("from -inf_f32,", "from -inf_f32, 0.0_f32,")
    text = text.replace("in a, p", "in a, a, p")
    text = text.replace("lv: f32,", "lv: f32, ls: f32,").replace("rv: f32,", "rv: f32, rs: f32,")
    text = text.replace("in v0, i0", "let s0: f32 = add(ls, rs) in v0, s0, i0")
    expr = parse(text.replace("in v, k", "in v, s, k")).body.statements[0].expr
    assert isinstance(expr, fun.Reduce)
    assert selection(expr) is None
    groups = apart(expr)
    assert set(groups) == {(0, 2), (1,)}
    assert selection(groups[0, 2]) is not None
    assert is_commutative(groups[1,].operator)
