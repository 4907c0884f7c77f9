"""How many iterations run at once: what decides, and what may not."""

import pytest

from weft.imp import nodes as imp
from weft.imp.nodes import machine
from weft.lower.vector_lanes import lanes
from weft.ops.dtypes import DType

J = imp.Var("j", DType.I64)


def load(name: str, dtype: DType) -> imp.Load:
    return imp.Load(imp.Pointer(name, dtype), J)


def store(value: imp.Expr, dtype: DType) -> tuple[imp.Stmt, ...]:
    return (imp.Store(imp.Pointer("y", dtype), J, value),)


def applied(operation: str, dtype: DType, times: int) -> imp.Expr:
    """An operation of x[j] with itself, then of the result with itself, ..."""
    value: imp.Expr = load("x", dtype)
    for _ in range(times):
        value = imp.Apply(operation, (value, load("x", dtype)), dtype)
    return value


@pytest.mark.parametrize(
    ("dtype", "expected"), [(DType.F32, 8), (DType.F64, 4), (DType.U8, 32), (DType.C128, 4)]
)
def test_few_operations_take_half_a_line(dtype, expected):
    assert lanes(store(load("x", dtype), dtype), short=False) == expected


def test_the_smallest_element_counts_the_lanes():
    body = store(imp.Cast(DType.F64, load("x", DType.F32)), DType.F64)
    assert lanes(body, short=False) == 8


def test_as_many_operations_as_accesses_take_all():
    value = imp.Apply("add", (load("x", DType.F32), load("z", DType.F32)), DType.F32)
    assert lanes(store(value, DType.F32), short=False) == 8  # 1 operation, 3 accesses
    for _ in range(2):
        value = imp.Apply("negative", (value,), DType.F32)
    assert lanes(store(value, DType.F32), short=False) == 0  # 3 operations


@pytest.mark.parametrize("operation", ["divide", "sqrt", "reciprocal"])
def test_what_a_divider_does_takes_half_a_line(operation):
    """Unless there is more of everything else."""
    one = imp.Const(1.0, DType.F32)
    operands = (load("x", DType.F32), *((one,) if operation == "divide" else ()))
    value: imp.Expr = imp.Apply(operation, operands, DType.F32)
    for _ in range(6):  # 2 accesses, and 4 for the division
        assert lanes(store(value, DType.F32), short=False) == 8
        value = imp.Apply("negative", (value,), DType.F32)
    assert lanes(store(value, DType.F32), short=False) == 0


def test_index_arithmetic_counts_nothing():
    index = machine("+", machine("*", J, imp.integer(3)), imp.ONE)
    value = imp.Load(imp.Pointer("x", DType.F32), index)
    assert lanes(store(value, DType.F32), short=False) == 8


def test_operations_of_nested_statements_count():
    value = imp.Apply("nextafter", (load("x", DType.F32),) * 2, DType.F32)
    body = (imp.If(imp.Const(True, DType.BOOL), store(value, DType.F32)),)
    assert lanes(body, short=False) == 0


def test_short_rows_take_half_a_line():
    value = applied("add", DType.F32, 1)
    for _ in range(3):
        value = imp.Apply("negative", (value,), DType.F32)
    body = store(value, DType.F32)
    assert (lanes(body, short=False), lanes(body, short=True)) == (0, 8)


@pytest.mark.parametrize("operation", ["exp", "log", "sin"])
@pytest.mark.parametrize("copies", [0, 40])
def test_vector_math_takes_all_whatever_is_beside_it(operation, copies):
    """Else the bits of one call would depend on what it is fused with."""
    call = imp.Apply(operation, (load("x", DType.F32),), DType.F32)
    body = store(call, DType.F32) + store(load("z", DType.F32), DType.F32) * copies
    assert lanes(body, short=False) == lanes(body, short=True) == 0
