"""Products that sums alone use are rounded with them: which are, and that all agree on the bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import assert_equal_bits, compiled, interpreted, streamed
from devices.harness import NAME, device
from hypothesis import given, settings
from hypothesis import strategies as st
from passes.programs import agree, before_after
from printers.nvrtc import compile_text

import weft as wf
from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.contractions import contraction
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.passes.contract import contract

RNG = np.random.default_rng(5)
Golden = Callable[[str], None]


def elements(statements: str, result: str, dtype: str = "f64") -> str:
    """A kernel over the elements a, b, c, d of four vectors."""
    reads = "\n".join(f"let {v}: {dtype} = {v}s[i]" for v in "abcd")
    return f"""
    program p(as: {dtype}[n], bs: {dtype}[n], cs: {dtype}[n], ds: {dtype}[n]) sizes n
    {{
      let y: {dtype}[n] = kernel (i < n) {{
        {reads}
        {statements}
        in {result}
      }}
      in y
    }}"""


def operations(program: fun.Program) -> Counter[str]:
    return Counter(
        let.expr.operation
        for let in walk.statements(program.body)
        if isinstance(let.expr, fun.Apply)
    )


def contracted(text: str) -> Counter[str]:
    """The operations after the pass, whose program is checked and nearly agrees."""
    before = parse(text)
    after = contract(before)
    check(after, after="contract")
    if all(p.type.dtype.is_float for p in before.params):
        arguments = [RNG.random(7).astype(p.type.dtype.numpy) + 0.5 for p in before.params]
        agree(before, after, arguments, rtol=1e-4, n=7)
    return operations(after)


def test_golden(golden: Golden) -> None:
    text = elements(
        """let p: f64 = multiply(a, b)
        let q: f64 = square(c)
        let r: f64 = add(p, q)
        let s: f64 = multiply(c, 2.0)
        let t: f64 = subtract(r, s)
        let u: f64 = multiply(a, d)
        let v: f64 = subtract(t, u)
        let w: f64 = multiply(v, b)
        let x: f64 = subtract(w, d)""",
        "x",
    )
    golden(before_after(text, contract))


ACCEPTED = {
    "a sum": ("let p: f64 = multiply(a, b) let r: f64 = add(c, p)", {"fma": 1}),
    "a sum, the product first": ("let p: f64 = multiply(a, b) let r: f64 = add(p, c)", {"fma": 1}),
    "a square": ("let p: f64 = square(a) let r: f64 = add(p, c)", {"fma": 1}),
    "what is subtracted from a product": (
        "let p: f64 = multiply(a, b) let r: f64 = subtract(p, c)", {"fma": 1, "negative": 1},
    ),
    "a product that is subtracted": (
        "let p: f64 = multiply(a, b) let r: f64 = subtract(c, p)", {"fma": 1, "negative": 1},
    ),
    "a constant is negated now": (
        "let p: f64 = multiply(a, 3.0) let r: f64 = subtract(c, p)", {"fma": 1},
    ),
    "a constant that is subtracted": (
        "let p: f64 = multiply(a, b) let r: f64 = subtract(p, 1.0)", {"fma": 1},
    ),
    "a quotient by a power of two": (
        "let p: f64 = divide(a, -4.0) let r: f64 = add(p, c)", {"fma": 1},
    ),
    "one of two products": (
        "let p: f64 = multiply(a, b) let q: f64 = multiply(c, d) let r: f64 = add(p, q)",
        {"multiply": 1, "fma": 1},
    ),
    "every use of a product": (
        "let p: f64 = multiply(a, b) let q: f64 = add(p, c) let s: f64 = subtract(d, p) "
        "let r: f64 = divide(q, s)",
        {"fma": 2, "negative": 1, "divide": 1},
    ),
    "of two products, that which one sum uses": (
        "let p: f64 = multiply(a, b) let q: f64 = multiply(c, d) let s: f64 = add(p, q) "
        "let t: f64 = add(q, a) let r: f64 = divide(s, t)",
        {"multiply": 1, "fma": 1, "add": 1, "divide": 1},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name: str) -> None:
    statements, expected = ACCEPTED[name]
    assert contracted(elements(statements, "r")) == expected


REJECTED = {
    "a product that another operation needs": (
        "let p: f64 = multiply(a, b) let s: f64 = add(p, c) let r: f64 = divide(s, p)"
    ),
    "a quotient by another number": "let p: f64 = divide(a, 3.0) let r: f64 = add(p, c)",
    "a quotient whose reciprocal is no number": (
        "let p: f64 = divide(a, 1e308) let r: f64 = add(p, 0.0)"
    ),
    "a product less itself, which is 0": (
        "let p: f64 = multiply(a, b) let r: f64 = subtract(p, p)"
    ),
    "a product that a body inside uses": """
        let p: f64 = multiply(a, b)
        let r: f64 = loop (v: f64 = c) for k from 0 to 3 { let w: f64 = add(v, p) in w }""",
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str) -> None:
    before = parse(elements(REJECTED[name], "r"))
    assert contract(before) is before


def test_a_product_that_is_a_result_is_rounded() -> None:
    text = """
    program p(x: f64[n]) sizes n
    { let y: f64[n], z: f64[n] = kernel (i < n) {
        let a: f64 = x[i]
        let p: f64 = multiply(a, a)
        let r: f64 = add(p, a)
        in p, r }
      in y, z }"""
    assert "fma" not in contracted(text)


@pytest.mark.parametrize("dtype", ["i64", "u8", "c128", "c64"])
def test_other_numbers_are_left(dtype: str) -> None:
    text = elements(
        f"let p: {dtype} = multiply(a, b) let r: {dtype} = add(c, p)", "r", dtype
    )
    assert "fma" not in contracted(text)


def test_operators_are_left() -> None:
    def scanned(x: Any) -> Any:
        def step(a: Any, b: Any) -> Any:
            return a[0] * b[0], a[1] * b[0] + b[1]

        return wf.associative_scan(step, x, x)[1]

    x = RNG.random((4, 5))
    assert "fma(" not in lowered(scanned, x)
    assert "fma(" in lowered(lambda x: wf.sum(x * x + 1), x)  # a reduction's own body


CONTRACTION = """
    program p(x: f64[n, l], y: f64[l, m]) sizes n, m, l
    { let z: f64[n, m] = kernel (i < n, j < m) {
        let s: f64 = reduce (; k < l) from -0.0 {
          let a: f64 = x[i, k]
          let b: f64 = y[k, j]
          let p: f64 = multiply(a, b)
          let q: f64 = subtract(b, a)
          let r: f64 = multiply(q, q)
          let t: f64 = add(p, r)
          in t
        } with (l0: f64, r0: f64) { let u: f64 = add(l0, r0) in u }
        in s }
      in z }"""


def test_contractions_are_left() -> None:
    program = parse(CONTRACTION)
    (let,) = program.body.statements
    assert isinstance(let.expr, fun.Kernel)
    assert contraction(let.expr) is not None
    assert contract(program) is program
    other = parse(CONTRACTION.replace("l0, r0", "r0, r0"))  # no sum: its elements are its own
    assert "fma" in operations(contract(other))


def lowered(function: Any, *arguments: Any) -> str:
    with wf.config(optimise="contract"):
        return str(wf.jit(function).lower(*arguments).fun)


def test_words_that_are_unknown() -> None:
    with pytest.raises(wf.WeftError, match="contracted is unknown"):
        wf.config(optimise="contracted")


# ---------------------------------------------------------------- agreement


def polynomial(x: Any, y: Any) -> Sequence[Any]:
    return [((0.3 * x - 1.7) * x + y) * x + 0.1, x * y - y * 0.7]


def stencil(x: Any, y: Any) -> Sequence[Any]:
    def step(s: Any, t: Any) -> Any:
        return s[0] + 0.1 * (s[-1] - 2 * s[0] + s[1]) * t[0]

    def twice(a: Any) -> Any:
        return wf.stencil(step, wf.stencil(step, a, y, boundary="edge"), y, boundary="edge")

    return [wf.iterate(twice, x, 3)]


def statistics(x: Any, y: Any) -> Sequence[Any]:
    return [wf.sum(x * y - 1), wf.max(x * x + y), x * wf.mean(y) + y]


PROGRAMS = {"polynomial": polynomial, "stencil": stencil, "statistics": statistics}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_everywhere(name: str, dtype: Any, tmp_path: Path) -> None:
    program, inputs = PROGRAMS[name], [RNG.normal(size=5003).astype(dtype) for _ in range(2)]
    plain = compiled(program, inputs)
    with wf.config(optimise="contract"):
        expected = compiled(program, inputs, threads=1)
        assert_equal_bits(compiled(program, inputs), expected)
        for box_bytes in (2_000, 30_011):
            assert_equal_bits(streamed(program, inputs, tmp_path, box_bytes), expected)
        if name != "statistics":  # the interpreter's sums have another tree
            assert_equal_bits(interpreted(program, inputs), expected)
    assert any((a != b).any() for a, b in zip(plain, expected, strict=True))
    assert_equal_bits(compiled(program, inputs), plain)  # nothing of it is kept


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_on_a_device(dtype: Any, tmp_path: Path) -> None:
    device()
    for name in ("polynomial", "stencil"):
        inputs = [RNG.normal(size=5003).astype(dtype) for _ in range(2)]
        with wf.config(optimise="contract"):
            expected = compiled(PROGRAMS[name], inputs)
            with wf.config(devices=[NAME]):
                assert_equal_bits(compiled(PROGRAMS[name], inputs), expected)
                assert_equal_bits(streamed(PROGRAMS[name], inputs, tmp_path, 9_001), expected)


def test_a_kernel_of_loops() -> None:
    @wf.kernel
    def horner(x: Any, coefficients: Any, y: Any) -> None:
        for i in range(x.shape[0]):
            total = 0.0
            for k in range(coefficients.shape[0]):
                total = total * x[i] + coefficients[k]
            y[i] = total

    x, coefficients = RNG.normal(size=9001), RNG.normal(size=6)
    plain, found = np.empty(9001), np.empty(9001)
    horner(x, coefficients, plain)
    with wf.config(optimise="contract"):
        horner(x, coefficients, found)
    expected = np.zeros(9001)
    for c in coefficients:
        expected = np.asarray(wf.fma(expected, x, c))
    assert_equal_bits([found], [expected])
    assert (plain != found).any()


def test_vectors_of_fma_and_cuda() -> None:
    program = contract(parse(elements(*_both("f32"), "f32")))
    assert "__builtin_fmaf(" in compile_segment(program, {}).source
    compile_text(compile_segment(program, {}, dialect="cuda").source)


def _both(dtype: str) -> tuple[str, str]:
    return f"""let p: {dtype} = multiply(a, b) let q: {dtype} = add(c, p)
        let s: {dtype} = multiply(q, d) let r: {dtype} = subtract(c, s)""", "r"


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Straight-line bodies: each value of earlier ones; all are added up in the end."""
    known, lines = ["a", "b", "c", "d"], []
    for k in range(draw(st.integers(1, 8))):
        operation = draw(st.sampled_from(["multiply", "multiply", "add", "subtract", "square"]))
        count = 1 if operation == "square" else 2
        operands = ", ".join(draw(st.sampled_from(known)) for _ in range(count))
        lines.append(f"let v{k}: f64 = {operation}({operands})")
        known.append(f"v{k}")
    return elements("\n".join(lines), known[-1])


@settings(max_examples=100, deadline=None)
@given(bodies())
def test_random_bodies(text: str) -> None:
    before = parse(text)
    after = contract(before)
    check(after, after="contract")
    costs = [sum(n for o, n in operations(p).items() if o != "negative") for p in (before, after)]
    assert costs[1] <= costs[0]
    assert contract(after) is after
    # Small integers: every product is exact, so that rounding it or not is the same.
    arguments = [RNG.integers(-2, 3, 6).astype(float) for _ in range(4)]
    (expected,), (found,) = (interpret(p, arguments, {"n": 6}) for p in (before, after))
    if np.abs(expected).max() < 2.0**53:
        np.testing.assert_array_equal(found, expected)
