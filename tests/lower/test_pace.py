"""Cycles of a vector, as predicted: which of three bounds holds, and what waits for a divider."""

from __future__ import annotations

import pytest

from weft.imp import nodes as imp
from weft.lower.pace import (
    BEGUN,
    DIVIDER,
    LOAD,
    OPERATION,
    QUOTIENT,
    WINDOW,
    Pace,
    waits_for_divider,
)
from weft.ops.dtypes import DType

F = DType.F32
X = imp.Var("x", F)
P = imp.Pointer("p", F)


def apply(operation: str, *arguments: imp.Expr) -> imp.Expr:
    return imp.Apply(operation, arguments, F)


def chain(value: imp.Expr, count: int) -> imp.Expr:
    for _ in range(count):
        value = apply("add", value, X)
    return value


def paced(*stored: imp.Expr) -> Pace:
    pace = Pace()
    pace.declare("x", imp.Load(P, imp.ZERO))
    for value in stored:
        pace.store(value)
    return pace


def test_what_waits_for_nothing_is_bound_by_instructions() -> None:
    pace = paced(*(apply("add", X, X) for _ in range(10)))
    assert pace.latency == LOAD + OPERATION
    assert pace.cycles == 21 / BEGUN  # a load, ten sums, ten stores


def test_quotients_side_by_side_are_bound_by_the_divider() -> None:
    pace = paced(*(apply("divide", X, X) for _ in range(4)))
    assert pace.latency == LOAD + QUOTIENT
    assert pace.cycles == 4 * DIVIDER[F]


def test_a_long_chain_is_bound_by_how_far_a_processor_looks() -> None:
    pace = paced(chain(X, 60))
    assert pace.latency == LOAD + 60 * OPERATION
    assert pace.cycles == 62 * pace.latency / WINDOW > 62 / BEGUN


def test_what_is_kept_is_loaded_once() -> None:
    pace = Pace(["k"])
    kept = imp.Var("k", F)
    pace.store(apply("add", kept, kept))
    assert pace.instructions == 3
    assert pace.latency == LOAD + OPERATION


@pytest.mark.parametrize(
    ("value", "waits"),
    [
        (apply("divide", X, imp.Const(3.0, F)), True),
        (apply("divide", X, imp.Const(-0.25, F)), False),
        (apply("divide", imp.Const(4.0, F), X), True),
        (apply("divide", X, imp.Const(0.0, F)), True),
        (apply("sqrt", X), True),
        (apply("multiply", X, X), False),
        (X, False),
    ],
)
def test_powers_of_two_need_no_divider(value: imp.Expr, waits: bool) -> None:
    assert waits_for_divider(value) is waits
