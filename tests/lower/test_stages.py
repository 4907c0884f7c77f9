"""Simd loops that wait long, in stages: which are, with the same bits, and which are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lower.harness import agree, compiled

from weft.fun.parse import parse
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import interpret
from weft.imp.nodes import machine
from weft.imp.show import show
from weft.lower.stages import AGAIN, LEADING, LONG, in_stages
from weft.lower.unit import Unit
from weft.ops.dtypes import DType

J, N = imp.Var("j", DType.I64), imp.Var("n", DType.I64)
P, Q = imp.Pointer("p", DType.F64), imp.Pointer("q", DType.F64)
F, I = DType.F64, DType.I32  # noqa: E741
LANES = 64


def name(label: str, dtype: DType = F) -> imp.Var:
    return imp.Var(label, dtype)


def chain(label: str, start: imp.Expr, count: int) -> list[imp.Stmt]:
    """So many sums, each of the one before; the last is `<label><count>`."""
    made: list[imp.Stmt] = []
    for k in range(1, count + 1):
        before = name(f"{label}{k - 1}", start.dtype) if k > 1 else start
        one = imp.Const(1 if start.dtype is I else 0.25, start.dtype)
        value = imp.Apply("add", (before, one), start.dtype)
        made.append(imp.Declare(name(f"{label}{k}", start.dtype), value))
    return made


def call(argument: imp.Var, label: str = "y", function: str = "exp") -> imp.Stmt:
    return imp.Declare(name(label), imp.Apply(function, (argument,), F))


X = imp.Declare(name("x"), imp.Load(P, J))
SMALL = imp.Declare(name("s"), imp.Apply("divide", (name("a60"), imp.Const(64.0, F)), F))
BEFORE = [X, *chain("a", name("x"), 60), SMALL, call(name("s"))]
AFTER = [*chain("b", name("y"), 60), imp.Store(Q, J, name("b60"))]
NUMBER = imp.Declare(name("i", I), imp.Cast(I, J))
FLOAT = imp.Declare(name("f"), imp.Cast(F, name("c60", I)))


def loop(*body: imp.Stmt, **changed: Any) -> imp.For:
    return replace(imp.For(J, imp.ZERO, N, body, simd=True), **changed)


def staged(given: imp.For, *, whole: bool = True) -> tuple[imp.Stmt, ...]:
    unit = Unit({}, lambda poly: False, lambda e, let: None, frozenset())
    return in_stages(unit, given, whole=whole)


def program(body: Sequence[imp.Stmt]) -> imp.Program:
    views = imp.View(P, 0, imp.ZERO), imp.View(Q, 1, imp.ZERO)
    return imp.Program("long", 2, (N,), (*views, *body))


def run(body: Sequence[imp.Stmt], n: int) -> bytes:
    given = np.random.default_rng(7).random(n).view(np.uint8)
    result = np.zeros(8 * n, np.uint8)
    interpret(program(body), [given.copy(), result, np.zeros(0, np.uint8)], [n])
    return result.tobytes()


ACCEPTED: dict[str, tuple[imp.For, int]] = {  # and how many values are kept
    "long before and after": (loop(*BEFORE, *AFTER), 2),
    "long before a call": (loop(*BEFORE, *chain("b", name("y"), 30), imp.Store(Q, J, name("b30"))),
                           2),
    "short before a call": (
        loop(X, call(name("x")), *chain("b", name("y"), LONG), imp.Store(Q, J, name(f"b{LONG}"))),
        1,
    ),
    "two calls": (
        loop(*BEFORE, call(name("y"), "z", "log"), *chain("b", name("z"), 60),
             imp.Store(Q, J, name("b60"))),
        3,
    ),
    "numbers of lanes": (
        loop(NUMBER, *chain("c", name("i", I), 60), FLOAT, *chain("a", name("f"), 60), SMALL,
             call(name("s")), *AFTER),
        2,
    ),
    "a little again": (
        loop(X, *chain("a", name("x"), AGAIN - 1), call(name(f"a{AGAIN - 1}")),
             *chain("b", name("y"), LONG),
             imp.Declare(name("t"), imp.Apply("multiply", (name(f"a{AGAIN - 1}"), name("y")), F)),
             imp.Store(Q, J, name("t"))),
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_long_loops_are_in_stages(case: str) -> None:
    given, kept = ACCEPTED[case]
    after = staged(given)
    check(program(after))
    (blocks,) = after
    assert isinstance(blocks, imp.For)
    assert blocks.step == LANES
    loops = [statement for statement in blocks.body if isinstance(statement, imp.For)]
    assert len(loops) == kept + 1
    assert all(stage.simd for stage in loops)
    for count in range(3):
        assert run(after, count * LANES) == run((given,), count * LANES)


def test_numbers_of_lanes_wrap() -> None:
    """Past 2**31 they are those of NumPy's conversion."""
    body = [NUMBER, *chain("c", name("i", I), 60), FLOAT, *chain("a", name("f"), 40),
            call(name("a40")), imp.Store(Q, machine("-", J, N), name("a40"))]  # fmt: skip
    first = imp.integer(2**31 - LANES)
    ends = {"lower": first, "upper": machine("+", first, imp.integer(2 * LANES))}
    given = loop(*body[:-1], imp.Store(Q, machine("-", J, first), name("a40")), **ends)
    after = staged(given)
    assert after != (given,)
    results = []
    for each in ((given,), after):
        result = np.zeros(16 * LANES, np.uint8)
        interpret(program(each), [np.zeros(8, np.uint8), result, np.zeros(0, np.uint8)], [0])
        results.append(result.tobytes())
    assert results[0] == results[1]
    assert np.frombuffer(results[0])[-1] < 0


STORE = imp.Store(Q, J, name("b60"))
SHORT = (LONG - 12 - 4) // 2  # with a call, a load and a store: just not long
REJECTED: dict[str, imp.For] = {
    "few operations": loop(
        X, *chain("a", name("x"), SHORT), call(name(f"a{SHORT}")),
        *chain("b", name("y"), SHORT), imp.Store(Q, J, name(f"b{SHORT}")),
    ),
    "no call": loop(X, *chain("a", name("x"), 2 * LONG), imp.Store(Q, J, name(f"a{2 * LONG}"))),
    "much would be done again": loop(
        X, *chain("a", name("x"), LEADING - 2), *chain("d", name("x"), LEADING - 2),
        imp.Declare(name("s"), imp.Apply("add", (name("a30"), name("d30")), F)), call(name("s")),
        *chain("b", name("y"), 60),
        imp.Declare(name("t"), imp.Apply("subtract", (name("a30"), name("d30")), F)),
        imp.Declare(name("u"), imp.Apply("add", (name("t"), name("b60")), F)),
        imp.Store(Q, J, name("u")),
    ),
    "a load after a store": loop(*BEFORE, *AFTER, imp.Store(Q, J, imp.Load(P, J))),
    "a branch": loop(*BEFORE, *AFTER[:-1], imp.If(machine("<", J, imp.ONE), (STORE,))),
    "a value that changes": loop(imp.Declare(name("m"), None, mutable=True), *BEFORE, *AFTER),
    "a reduction": loop(*BEFORE, *AFTER, reductions=(("max", name("worst", DType.I64)),)),
}  # fmt: skip


@pytest.mark.parametrize("case", REJECTED)
def test_left_alone(case: str) -> None:
    assert staged(REJECTED[case]) == (REJECTED[case],)


def divided(before: str, label: str, count: int = 16, by: imp.Expr | None = None) -> list[imp.Stmt]:
    """So many sums, and their quotient by the last but one, or by what is given."""
    sums = chain(f"{label}_", name(before), count)
    over = name(f"{label}_{count}"), by or name(f"{label}_{count - 1}")
    return [*sums, imp.Declare(name(label), imp.Apply("divide", over, F))]


def root(before: str, label: str) -> imp.Stmt:
    return imp.Declare(name(label), imp.Apply("sqrt", (name(before),), F))


WAITING: dict[str, tuple[imp.For, int]] = {  # and how many values are kept
    "quotient after quotient": (
        loop(X, *divided("x", "d"), *divided("d", "e"), imp.Store(Q, J, name("e"))), 1),
    "three in a row": (
        loop(X, *divided("x", "d", 24), *divided("d", "e", 24), *divided("e", "f", 24),
             imp.Store(Q, J, name("f"))), 2),
    "a quotient of a root": (
        loop(X, *chain("a", name("x"), 20), root("a20", "r"), *divided("r", "d", 20),
             imp.Store(Q, J, name("d"))), 1),
}  # fmt: skip


@pytest.mark.parametrize("n", [0, 1, 8, 63, 64, 65, 131])
@pytest.mark.parametrize("case", WAITING)
def test_chains_of_quotients_are_in_stages(case: str, n: int) -> None:
    given, kept = WAITING[case]
    after = staged(given, whole=False)
    check(program(after))
    (blocks,) = after
    assert isinstance(blocks, imp.For)
    assert len([each for each in blocks.body if isinstance(each, imp.For)]) == kept + 1
    assert run(after, n) == run((given,), n)


EIGHT = imp.Const(8.0, F)
QUICK: dict[str, imp.For] = {
    "one quotient": loop(X, *divided("x", "d", 60), imp.Store(Q, J, name("d"))),
    "quotients by powers of two": loop(
        X, *divided("x", "d", by=EIGHT), *divided("d", "e", by=EIGHT), imp.Store(Q, J, name("e"))
    ),
    "processors see the next one": loop(
        X, *divided("x", "d", 3), *divided("d", "e", 3), imp.Store(Q, J, name("e"))
    ),
    "quotients that wait for nothing": loop(
        X, *divided("x", "d", 3), *divided("x", "e", 3), *divided("x", "f", 3),
        imp.Store(Q, J, name("d")), imp.Store(Q, J, name("e")), imp.Store(Q, J, name("f")),
    ),
    "much would be done again": loop(
        X, *divided("x", "d"), *divided("d", "e"),
        imp.Declare(name("t"), imp.Apply("multiply", (name("d_14"), name("e")), F)),
        imp.Store(Q, J, name("t")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", QUICK)
def test_quick_loops_are_left_alone(case: str) -> None:
    assert staged(QUICK[case], whole=False) == (QUICK[case],)


def records(step: int, times: int, sums: int) -> imp.For:
    """The numbers of records of so many, each read so many times and added with constants."""
    body: list[imp.Stmt] = []
    total: imp.Expr = imp.Const(0.0, F)
    for k in range(step * times):
        at = machine("+", machine("*", imp.integer(step), J), imp.integer(k % step))
        body.append(imp.Declare(name(f"x{k}"), imp.Load(P, at)))
        body += chain(f"x{k}_", name(f"x{k}"), sums)
        last = name(f"x{k}_{sums}") if sums else name(f"x{k}")
        body.append(imp.Declare(name(f"t{k}"), imp.Apply("add", (total, last), F)))
        total = name(f"t{k}")
    return loop(*body, imp.Store(Q, J, total))


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 131])
@pytest.mark.parametrize(("step", "times"), [(5, 1), (6, 2), (7, 3)])
def test_rows_that_gcc_makes_no_vectors_of_are_read_before(step: int, times: int, n: int) -> None:
    given = records(step, times, 3)
    after = staged(given, whole=False)
    check(program(after))
    (blocks,) = after
    assert isinstance(blocks, imp.For)
    assert len([each for each in blocks.body if isinstance(each, imp.For)]) == step + 1
    source = np.random.default_rng(7).random(step * n).view(np.uint8)
    results = [np.zeros(8 * n, np.uint8) for _ in range(2)]
    for body, result in zip(((given,), after), results, strict=True):
        interpret(program(body), [source.copy(), result, np.zeros(0, np.uint8)], [n])
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize(("step", "sums"), [(3, 3), (4, 3), (8, 3), (5, 0)])
def test_rows_that_gcc_makes_vectors_of_and_short_sums_are_left_alone(step: int, sums: int) -> None:
    given = records(step, 1, sums)
    assert staged(given, whole=False) == (given,)


def test_calls_are_in_stages_in_whole_blocks_alone() -> None:
    given, _ = ACCEPTED["long before and after"]
    assert staged(given, whole=False) == (given,)


@pytest.mark.parametrize("n", [0, 1, 2, 9, 63, 64, 65, 67, 200, 1031])
def test_stencils_of_quotients_agree(n: int) -> None:
    """Rows with ends by boundary rules, whose interior is of no whole number of blocks."""
    sums = "\n".join(f"let s{k + 1}: f32 = fma(s{k}, a, 0.5_f32)" for k in range(12))
    more = "\n".join(f"let t{k + 1}: f32 = fma(t{k}, q, 0.25_f32)" for k in range(12))
    text = f"""program waits(x: f32[n]) sizes n {{
      let y: f32[n] = kernel (j < n) {{
        let a: f32 = x[j + 1 : edge(0, n)] let b: f32 = x[j - 1 : edge(0, n)]
        let s0: f32 = multiply(a, b) {sums} let r: f32 = divide(a, s12)
        let q: f32 = divide(b, r) let t0: f32 = divide(q, a) {more} let w: f32 = divide(t12, s0)
        in w
      }}
      in y
    }}"""
    assert "kept" in compiled(parse(text)).source
    agree(text, [np.random.default_rng(n).uniform(1, 2, n).astype(np.float32)])


def test_text(golden: Any) -> None:
    golden(show(program(staged(ACCEPTED["numbers of lanes"][0]))))


def long_kernel() -> str:
    """Bits chosen by an index, a logarithm, and a polynomial of it."""
    bits = "\n".join(
        f"let m{k}: i32 = bitwise_and(g, {1 << k}_i32) let c{k}: bool = not_equal(m{k}, 0_i32)"
        f" let w{k}: i32 = where(c{k}, d, 0_i32) let v{k + 1}: i32 = bitwise_xor(v{k}, w{k})"
        for k in range(16)
    )
    powers = "\n".join(f"let q{k + 1}: f64 = fma(q{k}, l, 0.5)" for k in range(60))
    return f"""program long(x: i32[n], o: i32) sizes n {{
      let y: f64[n] = kernel (j < n) {{
        let i: i32 = i32(j) let g: i32 = add(i, o) let d: i32 = x[j] let v0: i32 = add(g, 3_i32)
        {bits}
        let f: f64 = f64(v16) let e: f64 = abs(f) let h: f64 = add(e, 1.0) let l: f64 = log(h)
        let q0: f64 = divide(f, 4096.0)
        {powers}
        in q60
      }}
      in y
    }}"""


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 200, 1031])
def test_kernels_agree(n: int) -> None:
    text = long_kernel()
    assert "kept" in compiled(parse(text)).source
    x = np.random.default_rng(n).integers(-(2**31), 2**31, n, dtype=np.int32)
    agree(text, [x, np.int32(-17)], rtol=1e-9)
