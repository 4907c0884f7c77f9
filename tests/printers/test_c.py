"""Printed C: whole texts of a few programs, and what the printer itself decides."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from weft.fun.parse import parse
from weft.imp import nodes as imp
from weft.imp.show import show
from weft.lower import fetching, masks
from weft.lower.fetching import Fetching
from weft.lower.registers import Registers
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce
from weft.mem.short_circuit import short_circuit
from weft.ops.dtypes import DType
from weft.printers.c import declarations, print_program

MAP = """program scale(x: f32[n, m], y: f32[m]) sizes n, m {
  let z: f32[n, m] = kernel (i < n, j < m) {
    let a: f32 = x[i, j]
    let b: f32 = y[j]
    let c: f32 = multiply(a, b)
    in c
  }
  in z
}"""

SUM = """program total(x: f64[n]) sizes n {
  let s: f64 = reduce (; i < n) from 0.0 {
    let a: f64 = x[i]
    in a
  } with (l: f64, r: f64) { let t: f64 = add(l, r) in t }
  in s
}"""

GRADIENT = """program gradient(x: f32[n]) sizes n {
  let y: f32[n] = kernel (i < n) {
    let a: f32 = x[i + 1: edge(0, n)]
    let b: f32 = x[i]
    let c: f32 = subtract(a, b)
    in c
  }
  in y
}"""

PROGRAMS = {"map": MAP, "sum": SUM, "gradient": GRADIENT}


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(
    name: str, golden: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(1 << 13, 1))
    monkeypatch.setattr(masks, "registers", lambda: Registers(32, 64))
    lowered, *_ = lower_program(short_circuit(introduce(parse(PROGRAMS[name]))), "entry")
    text = print_program(lowered, (2, 36))
    golden(show(lowered) + "\n" + text[text.index("struct closure") if name != "sum" else 0 :])


def expression(expr: imp.Expr) -> str:
    """How an expression is printed, stored to an array."""
    target = imp.Pointer("p", expr.dtype)
    body = (imp.View(target, 0, imp.ZERO), imp.Store(target, imp.ZERO, expr))
    text = print_program(imp.Program("entry", 1, (imp.Var("n", DType.I64),), body), (2, 36))
    return text.split("p[0] = ")[1].split(";\n")[0]


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (-(2**63), DType.I64, "(-9223372036854775807LL - 1)"),
        (2**64 - 1, DType.U64, "18446744073709551615ULL"),
        (-1, DType.I32, "(-1)"),
        (0.1, DType.F64, "0.1"),
        (1e30, DType.F32, "1e+30f"),
        (-0.0, DType.F32, "(-0.0f)"),
        (float("inf"), DType.F64, "((double)__builtin_inf())"),
        (-1e300, DType.F32, "((float)-__builtin_inf())"),
        (1 - 2j, DType.C64, "__builtin_complex(1.0f, (-2.0f))"),
        (True, DType.BOOL, "1"),
    ],
)
def test_constants(value: complex, dtype: DType, text: str) -> None:
    assert expression(imp.Const(value, dtype)) == text


def test_arithmetic_keeps_its_order() -> None:
    n = imp.Var("n", DType.I64)
    product = imp.machine("*", imp.machine("+", n, imp.ONE), imp.integer(3))
    assert expression(imp.machine("-", imp.integer(7), product)) == "7 - ((n + 1) * 3)"


def test_vector_math_is_declared_where_the_library_has_it() -> None:
    text = "double y = exp(x) + tanhf(x);"
    simd = "#pragma omp declare simd notinbranch"
    assert declarations(text, (2, 36)).count(simd) == 2
    assert declarations(text, (2, 31)).count(simd) == 1
    assert declarations(text, None).count(simd) == 0


def test_pointers_into_rows_may_alias() -> None:
    """What is advanced reaches what its base does: neither is `restrict` in a closure."""
    base, row = (imp.Pointer(name, DType.F32) for name in ("p", "row"))
    n = imp.Var("n", DType.I64)
    body = (
        imp.View(base, 0, imp.ZERO, alone=False), imp.Advance(row, base, n),
        imp.Store(row, imp.ZERO, imp.Load(base, n)),
    )  # fmt: skip
    text = print_program(imp.Program("entry", 1, (n,), body), (2, 36))
    assert "float *const row = p + n;\n    row[0] = p[n];" in text
