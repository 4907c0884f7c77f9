"""Fresh names, and the polynomials of int64 scalars."""

from __future__ import annotations

from programs.library import EXAMPLES

from weft.fun import nodes as fun
from weft.fun.builder import Builder, Names
from weft.fun.check import check
from weft.ops.dtypes import DType
from weft.sizes import Poly, parse_poly

I64 = fun.Scalar(DType.I64)


def test_fresh_names_count_per_program() -> None:
    first, second = Names(["x_1"]), Names()
    assert [first.fresh("x"), first.fresh("x"), first.fresh("x_7")] == ["x_0", "x_2", "x_3"]
    assert second.fresh("x") == "x_0"


def test_names_of_a_program_avoid_all_of_its_names() -> None:
    program = EXAMPLES["matrix_product"].program
    names = Names.of(program)
    assert {"n", "m", "k", "a", "b", "r", "i", "j", "l", "t", "v", "x", "y", "z"} <= names.taken


def test_scalar_arithmetic_becomes_polynomials() -> None:
    builder = Builder(Names())
    n = builder.let(fun.SizeValue(Poly.var("n")), I64)
    three = fun.Const(3, DType.I64)
    double = builder.let(fun.Apply("multiply", (n, three)), I64)
    more = builder.let(fun.Apply("add", (double, n)), I64)
    less = builder.let(fun.Apply("subtract", (more, three)), I64)
    minus = builder.let(fun.Apply("negative", (less,)), I64)
    assert builder.size(minus) == parse_poly("3 - 4*n")
    half = builder.let(fun.Apply("floor_divide", (n, three)), I64)
    assert builder.size(half) == Poly.var(half.name)
    assert builder.inner().size(less) == parse_poly("4*n - 3")
    assert builder.size(three) == 3


def test_no_polynomial_of_other_dtypes() -> None:
    builder = Builder(Names())
    i32 = fun.Scalar(DType.I32)
    one = fun.Const(1, DType.I32)
    total = builder.let(fun.Apply("add", (one, one)), i32)
    assert builder.size(total) == Poly.var(total.name)


def test_a_program_built_by_hand_checks() -> None:
    names = Names(["n", "a"])
    builder = Builder(names)
    a = fun.Var("a", fun.Array(DType.F64, (Poly.var("n"),)))
    i = builder.index()
    inner = builder.inner()
    x = inner.let(fun.Index(a, (Poly.var(i.name),)), fun.Scalar(DType.F64))
    y = inner.let(fun.Apply("exp", (x,)), fun.Scalar(DType.F64))
    kernel = fun.Kernel((fun.Range(i, Poly.var("n")),), inner.body((y,)))
    r = builder.let(kernel, a.type)
    assert builder.scalar(Poly.const(4)) == fun.Const(4, DType.I64)
    last = builder.scalar(parse_poly("n - 1"))
    check(fun.Program("p", (a,), builder.body((r, last)), ("n",)))
