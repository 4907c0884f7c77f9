"""Which simd loops do several vectors a round."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.imp.show import show
from weft.imp.unroll_short import FEW, LARGEST, ROUNDS, unroll_short
from weft.ops.dtypes import DType

J, N = imp.Var("j", DType.I64), imp.Var("n", DType.I64)
A = imp.Pointer("a", DType.F64)
STORE = imp.Store(A, J, imp.Const(1.0, DType.F64))


def loop(
    upper: imp.Expr = N, body: tuple[imp.Stmt, ...] = (STORE,), simd: bool = True
) -> imp.For:
    return imp.For(J, imp.ZERO, upper, body, simd=simd)


INNER = imp.For(imp.Var("k", DType.I64), imp.ZERO, N, (STORE,))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (loop(), ROUNDS),
        (loop(body=(STORE,) * LARGEST), ROUNDS),
        (loop(body=(STORE,) * (LARGEST + 1)), 1),  # its own instructions are not felt
        (loop(upper=imp.integer(FEW)), FEW),  # all of it
        (loop(upper=imp.integer(FEW + 1)), 1),  # the compiler knows how many
        (loop(upper=imp.ZERO), ROUNDS),
        (loop(simd=False), 1),
        (loop(body=(INNER,)), 1),
    ],
)
def test_which(given: imp.For, expected: int) -> None:
    (found,) = unroll_short((given,))
    assert isinstance(found, imp.For)
    assert found.unroll == expected


def test_inside_of_others() -> None:
    around = imp.For(imp.Var("i", DType.I64), imp.ZERO, N, (loop(),))
    condition = imp.If(machine("<", J, N), (around,), (loop(),))
    ((marked,),) = [unroll_short((condition,))]
    assert isinstance(marked, imp.If)
    assert marked.then == (imp.For(around.var, imp.ZERO, N, unroll_short((loop(),))),)
    assert marked.otherwise == unroll_short((loop(),))


def test_text(golden: Callable[[str], None]) -> None:
    body = (loop(), loop(upper=imp.integer(FEW)), loop(upper=imp.integer(FEW + 1)))
    golden("\n".join(show(imp.Program("short", 1, (N,), b)) for b in (body, unroll_short(body))))
