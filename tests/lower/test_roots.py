"""Roots of grains that are found beside a divider: which are, with the same bits."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree, compiled, run

from weft.fun.parse import parse
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import interpret
from weft.imp.nodes import machine
from weft.imp.walk import inside
from weft.lower import roots
from weft.lower.registers import Registers
from weft.lower.roots import with_roots
from weft.lower.unit import Unit
from weft.ops.dtypes import DType

RNG = np.random.default_rng(32)
F = DType.F64
L, BEGIN, N = (imp.Var(name, DType.I64) for name in ("l", "begin", "n"))
P, Q, LANE = (imp.Pointer(name, F) for name in ("p", "q", "lane"))


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the processor: what is made for wide vectors runs on all."""
    monkeypatch.setattr(roots, "registers", lambda: Registers(32, 64))


def load(label: str, pointer: imp.Pointer, at: imp.Expr = L) -> imp.Stmt:
    return imp.Declare(imp.Var(label, F), imp.Load(pointer, at))


def apply(label: str, operation: str, *names: str) -> imp.Stmt:
    arguments = tuple(imp.Var(name, F) for name in names)
    return imp.Declare(imp.Var(label, F), imp.Apply(operation, arguments, F))


X, Y = load("x", P, machine("+", BEGIN, L)), load("y", Q, machine("+", BEGIN, L))
SQUARE, ROOT = apply("s", "multiply", "x", "x"), apply("r", "sqrt", "s")
QUOTIENT = apply("w", "divide", "y", "r")
LAST = (
    load("before", LANE), apply("after", "add", "before", "w"),
    imp.Store(LANE, L, imp.Var("after", F)),
)  # fmt: skip


def found(*body: imp.Stmt, count: imp.Expr = N) -> tuple[imp.Stmt, ...]:
    unit = Unit({}, lambda poly: False, lambda e, let: None, frozenset())
    return with_roots(unit, imp.For(L, imp.ZERO, count, body, simd=True))


def lanes(statements: tuple[imp.Stmt, ...], begin: int, count: int) -> list[float]:
    views = [imp.View(pointer, block, imp.ZERO) for block, pointer in enumerate((P, Q, LANE))]
    program = imp.Program("entry", 3, (BEGIN, N), (*views, *statements))
    check(program)
    x, y, lane = np.linspace(1, 2, 80), np.linspace(2, 9, 80), np.ones(64)
    buffers = [array.view(np.uint8) for array in (x, y, lane)]
    interpret(program, [*buffers, np.zeros(0, np.uint8)], [begin, count])
    return lane.tolist()


@pytest.mark.parametrize("count", [0, 1, 63, 64])
def test_a_root_beside_a_quotient(count: int) -> None:
    body = (X, Y, SQUARE, ROOT, QUOTIENT, *LAST)
    (either,) = found(*body)
    assert isinstance(either, imp.If)
    statements, before = either.then, (imp.For(L, imp.ZERO, N, body, simd=True),)
    assert (either.condition, either.otherwise) == (imp.OPTIMISED, before), "quick to compile"
    first, second = (s for s in statements if isinstance(s, imp.For))
    assert first.simd
    assert second.simd
    assert [n.operation for n in inside(first) if isinstance(n, imp.Apply)] == ["multiply"]
    assert sum(isinstance(statement, imp.Roots) for statement in statements) == 1
    assert lanes(statements, 16, count) == lanes(before, 16, count)


def test_a_root_of_a_root() -> None:
    body = (
        X, Y, SQUARE, ROOT, apply("t", "add", "r", "x"), apply("u", "sqrt", "t"),
        apply("w", "divide", "y", "u"), *LAST,
    )  # fmt: skip
    statements = found(*body, count=imp.integer(64))
    assert sum(isinstance(statement, imp.Roots) for statement in statements) == 2
    before = (imp.For(L, imp.ZERO, N, body, simd=True),)
    assert lanes(statements, 3, 64) == lanes(before, 3, 64)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ((X, Y, SQUARE, ROOT, apply("w", "multiply", "y", "r"), *LAST), "no quotient beside it"),
        ((X, Y, SQUARE, apply("r", "add", "s", "s"), QUOTIENT, *LAST), "no root"),
        ((X, Y, SQUARE, ROOT, apply("e", "exp", "r"), apply("w", "divide", "y", "e"), *LAST),
         "vector math has stages of its own"),
        ((X, Y, SQUARE, ROOT, QUOTIENT, *LAST, load("z", LANE)), "what is stored may be read"),
    ],
)  # fmt: skip
def test_what_stays(body: tuple[imp.Stmt, ...], why: str) -> None:
    (loop,) = found(*body)
    assert isinstance(loop, imp.For), why


def test_other_processors_have_no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "registers", lambda: Registers(16, 32))
    assert len(found(X, Y, SQUARE, ROOT, QUOTIENT, *LAST)) == 1


PROGRAM = """
    program p(x: f64[n], y: f64[m]) sizes n, m
    {
      let z: f64[m] = kernel (j < m) {
        let b: f64 = y[j]
        let e: f64 = reduce (; i < n) from -0.0 {
          let a: f64 = x[i]
          let d: f64 = subtract(a, b)
          let s: f64 = multiply(d, a)
          let r: f64 = sqrt(s)
          let q: f64 = divide(b, r)
          in q
        } with (l: f64, r2: f64) { let t: f64 = add(l, r2) in t }
        in e
      }
      in z
    }"""


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1024, 1031])
def test_bits_of_sums(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of numbers with roots, and of a row where one has none, or none that is a number."""
    x = 2 + RNG.random(count) * 10.0 ** RNG.integers(-5, 5, count)
    y = np.array([0.25, 1.5, x[-1], x[count // 2], 1e300, -1e-310])
    program = parse(PROGRAM)
    apart = compiled(program)
    assert "context->roots(" in apart.source
    agree(program, [x, y], rtol=1e-12, segment=apart)
    monkeypatch.setattr(roots, "registers", lambda: Registers(16, 32))
    together = compiled(program)
    assert "context->roots(" not in together.source
    sizes = {"n": count, "m": len(y)}
    np.testing.assert_array_equal(*(run(s, [x, y], sizes)[0] for s in (apart, together)))
