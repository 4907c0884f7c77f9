"""Contractions in tiles of registers: values, bits, reads, at sizes around those of tiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lower.harness import IndexFailureError, agree, compiled, run

from weft.fun import nodes as fun
from weft.fun.contractions import BLOCK
from weft.fun.contractions import contraction as found_in
from weft.fun.parse import parse
from weft.imp import nodes as imp
from weft.imp.walk import inside
from weft.lower import register_tiles
from weft.lower.accumulation import Accumulation
from weft.lower.registers import Registers, registers
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce

RNG = np.random.default_rng(17)

TEXT = """program contraction(a: TYPE[n, l], b: TYPE[SHAPE], y: TYPE[n, m]) sizes n, m, l {
  let c: TYPE[n, m] = kernel (i < n, j < m) {
    let s: TYPE = reduce (; k < l) from NEUTRAL {
      let p: TYPE = a[i, k]
      let q: TYPE = b[RIGHT]
      let r: TYPE = JOINT
      in r
    } with (u: TYPE, v: TYPE) { let w: TYPE = OPERATOR(u, v) in w }
    let z: TYPE = y[i, j]
    let e: TYPE = add(s, z)
    in e
  }
  in c
}"""

TRIANGLE = """program triangle(a: f64[n, l], b: f64[m, l], y: f64[n, m]) sizes n, m, l {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let h: i64 = size FIRST
    let g: bool = COMPARISON(h, j)
    let e: f64 = if g {
      let s: f64 = reduce (; k < l) from -0.0 {
        let p: f64 = a[i, k]
        let q: f64 = b[j, k]
        let r: f64 = multiply(p, q)
        in r
      } with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
      in s
    } else {
      let z: f64 = y[i, j]
      in z
    }
    in e
  }
  in c
}"""

SIZES = [(1, 1, 1), (1, 70, 3), (9, 25, 257), (8, 24, 256), (193, 5, 0), (7, 1061, 31),
         (200, 530, 40), (67, 49, 521)]  # fmt: skip


def contraction(
    dtype: str = "f64", *, across: bool = False, operator: str = "add", neutral: str = "-0.0",
    joint: str = "multiply(p, q)",
) -> str:  # fmt: skip
    text = TEXT.replace("TYPE", dtype).replace("OPERATOR", operator).replace("JOINT", joint)
    text = text.replace("SHAPE", "m, l" if across else "l, m")
    text = text.replace("NEUTRAL", neutral if dtype == "f64" else f"{neutral}_{dtype}")
    return text.replace("RIGHT", "j, k" if across else "k, j")


def inputs(
    n: int, m: int, inner: int, dtype: Any = np.float64, *, across: bool = False
) -> list[Any]:
    shapes = ((n, inner), (m, inner) if across else (inner, m), (n, m))
    return [(8 * RNG.random(shape) - 4).astype(dtype) for shape in shapes]


def sizes(n: int, m: int, inner: int) -> dict[str, int]:
    return {"n": n, "m": m, "l": inner}


@pytest.mark.parametrize("across", [False, True])
@pytest.mark.parametrize("dtype", ["f64", "f32", "i32"])
def test_products(dtype: str, across: bool) -> None:
    text = contraction(dtype, across=across, neutral="0" if dtype == "i32" else "-0.0")
    segment = compiled(parse(text))
    assert any(kernel.startswith("contraction") for kernel in segment.kernels)
    numpy = {"f64": np.float64, "f32": np.float32, "i32": np.int32}[dtype]
    for size in SIZES:
        arguments = inputs(*size, numpy, across=across)
        close = {"rtol": 1e-3, "atol": 1e-3} if dtype == "f32" else {"rtol": 1e-9, "atol": 1e-9}
        agree(parse(text), arguments, segment=segment, **close, **sizes(*size))


@pytest.mark.parametrize(
    ("operator", "neutral", "joint"),
    [
        ("minimum", "+inf_f64", "add(p, q)"),
        ("maximum", "-inf_f64", "multiply(p, q)"),
        ("add", "-0.0", "divide(p, q)"),
    ],
)
def test_other_elements_and_operators(operator: str, neutral: str, joint: str) -> None:
    text = contraction(operator=operator, neutral=neutral, joint=joint)
    segment = compiled(parse(text))
    assert any(kernel.startswith("contraction") for kernel in segment.kernels)
    for size in SIZES:
        agree(parse(text), inputs(*size), segment=segment, rtol=1e-7, atol=1e-9, **sizes(*size))


def test_bits_do_not_depend_on_the_part_that_is_computed() -> None:
    segment = compiled(parse(contraction()))
    a, b, y = inputs(61, 77, 2 * BLOCK + 3)
    (whole,) = run(segment, [a, b, y], sizes(61, 77, 2 * BLOCK + 3))
    for rows, columns in ((slice(3, 4), slice(0, 77)), (slice(10, 61), slice(40, 49))):
        part = [np.ascontiguousarray(x) for x in (a[rows], b[:, columns], y[rows, columns])]
        (one,) = run(segment, part, sizes(*part[2].shape, 2 * BLOCK + 3))
        assert one.tobytes() == whole[rows, columns].tobytes()


@pytest.mark.parametrize("shape", [Registers(16, 16), Registers(16, 32), Registers(32, 64)])
def test_bits_do_not_depend_on_the_registers(
    shape: Registers, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = inputs(21, 50, 300)
    (expected,) = run(compiled(parse(contraction())), arguments, sizes(21, 50, 300))
    monkeypatch.setattr(register_tiles, "registers", lambda: shape)
    (got,) = run(compiled(parse(contraction())), arguments, sizes(21, 50, 300))
    assert got.tobytes() == expected.tobytes()


def test_tiles_of_registers_fit() -> None:
    for count, size in ((16, 16), (16, 32), (32, 16), (32, 64)):
        for itemsize in (4, 8):
            for loads in (1, 2, 3):
                rows, lanes = Registers(count, size).tile(itemsize, loads)
                vectors = lanes * itemsize // size
                assert (rows + loads) * vectors + 2 <= count
    assert registers().bytes >= 16


@pytest.mark.parametrize(
    ("first", "comparison"),
    [("i + 1", "greater"), ("i", "greater"), ("i", "less"), ("i", "less_equal"),
     ("3", "less"), ("2*i", "less"), ("n - 1 - i", "less_equal")],
)  # fmt: skip
def test_triangles(first: str, comparison: str) -> None:
    text = TRIANGLE.replace("FIRST", first).replace("COMPARISON", comparison)
    segment = compiled(parse(text))
    tiled = any(kernel.startswith("contraction") for kernel in segment.kernels)
    assert tiled is (first != "2*i")
    for size in SIZES:
        arguments = inputs(*size, across=True)
        agree(parse(text), arguments, segment=segment, rtol=1e-9, atol=1e-9, **sizes(*size))


@pytest.mark.parametrize("rows", [1, 9, 130, 401])
def test_a_triangle_of_two_products(rows: int) -> None:
    """The first rows and the last in turn, each once, whatever the number of tiles."""
    text = TRIANGLE.replace("FIRST", "i").replace("COMPARISON", "less_equal")
    text = text.replace(
        "let r: f64 = multiply(p, q)",
        "let o: f64 = b[i, k]\n let t: f64 = a[j, k]\n let first: f64 = multiply(p, q)\n"
        "let second: f64 = multiply(o, t)\n let r: f64 = add(first, second)",
    )
    segment, size = compiled(parse(text)), (rows, rows, 300)
    assert any(kernel.startswith("contraction") for kernel in segment.kernels)
    agree(parse(text), inputs(*size, across=True), segment=segment, rtol=1e-9, **sizes(*size))


@pytest.mark.parametrize(
    ("second", "operator", "expected"),
    [
        ("multiply(p, q)", "add", [{"a0", "b0"}, {"p", "q"}]),
        ("multiply(first, q)", "add", [None]),  # made of a value of the first product
        ("add(p, q)", "add", [{"a0", "b0"}, None]),
        ("multiply(p, q)", "maximum", [None]),
    ],
)
def test_products_are_added_apart(second: str, operator: str, expected: list[Any]) -> None:
    """Only where no term takes what is made in another, and a sum of floats can be fused."""
    text = TEXT.replace("TYPE", "f64").replace("SHAPE", "l, m").replace("RIGHT", "k, j")
    text = text.replace("NEUTRAL", "-0.0").replace("OPERATOR", operator)
    element = (
        "let a0: f64 = a[i, k + 1]\n let b0: f64 = b[k + 1, j]\n"
        f"let first: f64 = multiply(a0, b0)\n let second: f64 = {second}\n"
        "let r: f64 = add(first, second)"
    )
    program = parse(text.replace("let r: f64 = JOINT", element))
    (let,) = program.body.statements
    assert isinstance(let.expr, fun.Kernel)
    found = found_in(let.expr)
    assert found is not None
    added = Accumulation(None, found)  # type: ignore[arg-type]  # nothing is emitted
    terms = added.terms()
    whole = [None] if None in expected else expected
    assert [added.operands(term) for term in terms] == whole


@pytest.mark.parametrize(
    ("second", "alternate"),
    [("multiply(o, t)", True), ("multiply(t, o)", True), ("multiply(p, t)", False),
     ("multiply(o, 2.0)", False), ("multiply(o, v0)", True)],
)  # fmt: skip
def test_products_of_own_values_are_rounds_of_one_loop(
    second: str, alternate: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their values alternate in the panels, where no two products share one; no bits change."""
    text = contraction().replace("let r: f64 = multiply(p, q)", (
        "let o: f64 = a[i, l - 1 - k]\n let t: f64 = b[l - 1 - k, j]\n let v0: f64 = add(q, t)\n"
        "let g: f64 = multiply(p, q)\n"
        f"let h: f64 = {second}\n let r: f64 = add(g, h)"
    ))  # fmt: skip

    def fused() -> int:
        """Operations that a register tile's loops hold."""
        program, _, _ = lower_program(introduce(parse(text), {}), "two")
        return sum(isinstance(n, imp.Apply) and n.operation == "fma" for n in inside(program.body))

    together, arguments = fused(), inputs(23, 70, 301)
    (got,) = run(compiled(parse(text)), arguments, sizes(23, 70, 301))
    agree(parse(text), arguments, rtol=1e-9, atol=1e-9, **sizes(23, 70, 301))
    monkeypatch.setattr(register_tiles, "_rounds", lambda side, terms: ())
    (expected,) = run(compiled(parse(text)), arguments, sizes(23, 70, 301))
    assert got.tobytes() == expected.tobytes()
    assert fused() == (2 * together if alternate else together)


def test_rows_that_no_element_wants_are_not_read() -> None:
    """The last row of b is wanted by nothing: it need not be there."""
    text = TRIANGLE.replace("FIRST", "i").replace("COMPARISON", "greater")
    text = text.replace("b: f64[m, l]", "b: f64[o, l]").replace("sizes n, m", "sizes n, m, o")
    program, segment = parse(text), compiled(parse(text))
    a, b, y = RNG.random((40, 9)), RNG.random((39, 9)), RNG.random((40, 40))
    agree(program, [a, b, y], segment=segment, rtol=1e-9, n=40, m=40, o=39, l=9)
    with pytest.raises(IndexFailureError):
        run(segment, [a, b[:38].copy(), y], {"n": 40, "m": 40, "o": 38, "l": 9})


def test_a_read_that_data_decides_is_checked() -> None:
    text = contraction().replace("a: f64", "at: i64[n], a: f64").replace(
        "let p: f64 = a[i, k]", "let o: i64 = at[i]\n      let p: f64 = a[o, k]"
    ).replace("a: f64[n, l]", "a: f64[h, l]").replace("sizes n", "sizes h, n")  # fmt: skip
    program, segment = parse(text), compiled(parse(text))
    a, b, y = RNG.random((5, 300)), RNG.random((300, 30)), RNG.random((50, 30))
    at = RNG.integers(0, 5, 50)
    every = {"h": 5, "n": 50, "m": 30, "l": 300}
    agree(program, [at, a, b, y], segment=segment, rtol=1e-9, **every)
    at[31] = 5
    with pytest.raises(IndexFailureError):
        run(segment, [at, a, b, y], every)


def test_affine_reads_are_checked_at_their_ends() -> None:
    """In no loop over what is packed, unless data decide what is read."""
    text = TRIANGLE.replace("FIRST", "i").replace("COMPARISON", "less")
    text = text.replace("b: f64[m, l]", "b: f64[o, l]").replace("sizes n, m", "sizes n, m, o")
    of_data = text.replace("b: f64", "at: i64[m], b: f64").replace(
        "let q: f64 = b[j, k]", "let h: i64 = at[j]\n        let q: f64 = b[h, k]"
    )
    for source, expected in ((text, False), (of_data, True)):
        program, _, _ = lower_program(introduce(parse(source), {}), "triangle")
        loops = [node for node in inside(program.body) if isinstance(node, imp.For) and node.simd]
        assert any(loop.reductions for loop in loops) is expected
    segment = compiled(parse(text))
    a, b, y = RNG.random((40, 9)), RNG.random((40, 9)), RNG.random((40, 40))
    agree(parse(text), [a, b, y], segment=segment, rtol=1e-9, n=40, m=40, o=40, l=9)
    with pytest.raises(IndexFailureError):
        run(segment, [a, b[:39].copy(), y], {"n": 40, "m": 40, "o": 39, "l": 9})


TWO = """program two(a: f64[n, l], b: f64[l, m], c: f64[l, m]) sizes n, m, l {
  let y: f64[n, m] = kernel (i < n, j < m) {
    let s: f64 = reduce (; k < l) from -0.0 {
      let p: f64 = a[i, k]
      let q: f64 = b[k, j]
      let o: f64 = SECOND
      let g: f64 = multiply(p, q)
      let h: f64 = multiply(p, o)
      let r: f64 = add(g, h)
      in r
    } with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
    in s
  }
  in y
}"""


@pytest.mark.parametrize(("second", "expected"), [("c[k, j]", [1, 1]), ("multiply(q, 2.0)", [2])])
def test_values_that_share_nothing_are_packed_apart(second: str, expected: list[int]) -> None:
    program = parse(TWO.replace("SECOND", second))
    kernel = program.body.statements[0].expr
    assert isinstance(kernel, fun.Kernel)
    found = found_in(kernel)
    assert found is not None
    assert [len(part.values) for part in found.right.apart()] == expected
    a, b, _ = inputs(9, 30, 300)
    agree(program, [a, b, RNG.random((300, 30))], rtol=1e-9, atol=1e-9, **sizes(9, 30, 300))


def test_more_dimensions_outside() -> None:
    text = contraction().replace("[n, ", "[h, n, ").replace("[l, m]", "[h, l, m]")
    text = text.replace("(i < n", "(g < h, i < n").replace("[i, ", "[g, i, ")
    text = text.replace("b[k, j]", "b[g, k, j]").replace("sizes n", "sizes h, n")
    segment = compiled(parse(text))
    assert any(kernel.startswith("contraction") for kernel in segment.kernels)
    a, b, y = (RNG.random((3, *s)) for s in ((33, 270), (270, 29), (33, 29)))
    agree(parse(text), [a, b, y], segment=segment, rtol=1e-9, h=3, n=33, m=29, l=270)


def test_text(golden: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small tile of registers, as IMP."""
    from weft.imp.show import show
    from weft.lower.segment import lower_program
    from weft.mem.introduce import introduce
    from weft.mem.short_circuit import short_circuit

    monkeypatch.setattr(register_tiles, "registers", lambda: Registers(8, 16))
    made = short_circuit(introduce(parse(contraction()), {}))
    program, _, _ = lower_program(made, "contraction")
    golden(show(program))


LOOP = """program squares(a: f64[n, n]) sizes n {
  let y: f64[n, n] = loop (v: f64[n, n] = a) for t from 1 to n {
    let c: f64[t, t] = kernel (i < t, j < t) {
      let s: f64 = reduce (; k < t) from -0.0 {
        let p: f64 = v[i, k]
        let q: f64 = v[k, j]
        let r: f64 = multiply(p, q)
        in r
      } with (u: f64, w: f64) { let z: f64 = add(u, w) in z }
      let h: f64 = multiply(s, 0.1)
      in h
    }
    let x: f64[n, n] = update v[0 for t, 0 for t] = c
    in x
  }
  in y
}"""


def test_extents_that_a_loop_decides() -> None:
    segment = compiled(parse(LOOP))
    assert any(kernel.startswith("contraction") for kernel in segment.kernels)
    for n in (2, 9, 40):
        agree(LOOP, [RNG.random((n, n))], rtol=1e-9, n=n)
