"""Ends of rows as vectors with masks: the bits of single elements, and nothing read outside."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from lower.harness import agree, compiled, sizes_of

from weft.compiler import with_memory
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.imp.interpret import interpret as interpret_imp
from weft.lower import masks
from weft.lower.registers import Registers
from weft.lower.segment import integers, lower_program

RNG = np.random.default_rng(17)

BLUR = """program blur(x: DT[n, m], y: DT[n]) sizes n, m {
  let r: DT[n, m] = kernel (i < n, j < m) {
    let a: DT = x[i, LEFT]
    let b: DT = x[i - 1: edge(0, n), j]
    let c: DT = x[i, RIGHT]
    let d: DT = y[i]
    let e: DT = multiply(b, d)
    let f: DT = add(a, e)
    let g: DT = subtract(f, c)
    in g
  }
  in r
}"""
EDGE, CONSTANT = ("j - 1: edge(0, m)", "j + 2: edge(0, m)"), ("j - 3: constant(0, m, 7_DT)", "j")
BACK, STRIDED = ("j - 1: reflect(0, m)", "j"), ("-j + m: edge(0, m)", "j")
ONE_LANE = "j - 1: edge(0, m)", "i: edge(0, m)"
AVX2, AVX512, NONE = Registers(16, 32), Registers(32, 64), Registers(32, 16)


def blur(reads: tuple[str, str], dtype: str = "f32") -> fun.Program:
    text = BLUR.replace("LEFT", reads[0]).replace("RIGHT", reads[1])
    return parse(text.replace("7_DT", "7.0_DT" if dtype[0] == "f" else "7_DT").replace("DT", dtype))


def widths(program: fun.Program, short: bool = False) -> int:
    """The elements of a vector at the ends of the rows of a program's one kernel."""
    memory = with_memory(program, {})
    statements = memory.program.body.statements
    (kernel,) = (let.expr for let in statements if isinstance(let.expr, fun.Kernel))
    return masks.lanes("j", kernel.body, short)


@pytest.fixture(params=[AVX2, AVX512, NONE], ids=["avx2", "avx512", "none"])
def registers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Registers:
    monkeypatch.setattr(masks, "registers", lambda: request.param)
    return request.param


@pytest.mark.parametrize("dtype", ["f64", "f32", "i16"])
@pytest.mark.parametrize("reads", [EDGE, CONSTANT, ONE_LANE])
def test_rows_of_any_length_have_the_values_of_single_elements(
    reads: tuple[str, str], dtype: str, registers: Registers
) -> None:
    program = blur(reads, dtype)
    segment = compiled(program)
    for n, m in itertools.product((1, 4), (1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 50, 200)):
        x, y = (RNG.integers(-50, 50, s).astype(segment.params[0].dtype) for s in ((n, m), n))
        agree(program, [x, y], segment=segment, rtol=0, n=n, m=m)


def test_which_rows_have_ends_of_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "registers", lambda: AVX2)
    assert [widths(blur(EDGE, d)) for d in ("f64", "f32", "i16")] == [4, 8, 0]
    assert widths(blur(CONSTANT)) == widths(blur(ONE_LANE)) == 8
    assert widths(blur(EDGE), short=True) == 16  # of a line, which is both vectors of a short row
    monkeypatch.setattr(masks, "registers", lambda: AVX512)
    assert [widths(blur(EDGE, d)) for d in ("f64", "f32", "i16")] == [8, 16, 32]
    assert widths(blur(BACK)) == widths(blur(STRIDED)) == 0
    assert widths(blur(("2*j: edge(0, m)", "j"))) == 0
    assert widths(blur(("j - 1: edge(0, m)", "0"))) == 16
    monkeypatch.setattr(masks, "registers", lambda: NONE)
    assert widths(blur(EDGE)) == 0


@pytest.mark.parametrize("read", ["3*j: edge(0, m)", "j*j: edge(0, m)", "j - 1: wrap(0, m)"])
def test_other_reads_are_of_single_elements(read: str, registers: Registers) -> None:
    program = blur((read, "j - 1: edge(0, m)"))
    x = RNG.standard_normal((3, 37)).astype(np.float32)
    agree(program, [x, x[:, 0].copy()], rtol=0, n=3, m=37)


WINDOW = """program window(x: f32[n, k]) sizes n, m, k {
  let r: f32[n, m] = kernel (i < n, j < m) {
    let a: f32 = x[i, j - 1: edge(FROM, TO)]
    let b: f32 = x[i, j + 1: edge(FROM, TO)]
    let c: f32 = add(a, b)
    in c
  }
  in r
}"""


@pytest.mark.parametrize("limits", [("0", "m"), ("0", "k + 9"), ("0", "k")])
def test_nothing_is_read_that_no_element_reads(
    limits: tuple[str, str], registers: Registers
) -> None:
    program = parse(WINDOW.replace("FROM", limits[0]).replace("TO", limits[1]))
    memory = with_memory(program, {})
    lowered, unit, workspace = lower_program(memory, "entry")
    names = (*integers(memory), *(d.name for d in unit.derived))
    for m in (1, 3, 16, 17, 40):
        x = RNG.standard_normal((2, m + (limits[1] != "m"))).astype(np.float32)
        values = {**sizes_of(program, [x], {"m": m}), "threads": 1}
        for derived in (*program.derived, *unit.derived):
            values[derived.name] = derived.evaluate(values)
        (expected,) = interpret(program, [x], values)
        result = np.zeros((2, m), np.float32)
        buffers = [x.copy(), result, np.full(workspace.evaluate(values) + 64, 255, np.uint8)]
        memory_bytes = [b.reshape(-1).view(np.uint8) for b in buffers]
        assert interpret_imp(lowered, memory_bytes, [values[n] for n in names])[0] == 0
        np.testing.assert_array_equal(result, expected)
