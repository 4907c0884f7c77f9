"""Long scans on a device: exact ones in one pass, others in their fixed tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from devices.harness import compiled, device, run
from printers.nvrtc import compile_text

import weft as wf
from weft.compiler import compile_segment
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.plan.launches import Launch

TEXT = """program scanned(x: DT[n], s: DT) sizes n {
  let y: DT[n] = FORM (i < n) from s {
    let v: DT = x[i]
    in v
  } with (l: DT, r: DT) { let t: DT = OP(l, r) in t }
  in y
}"""
SIZES = [0, 1, 7, 8, 9, 257, 2047, 2048, 2049, 4099, 65537]
EXACT = [("add", "i64"), ("add", "u8"), ("maximum", "f64"), ("minimum", "i16"),
         ("multiply", "u32"), ("bitwise_xor", "i32"), ("logical_and", "bool")]  # fmt: skip


def text_of(operation: str, dtype: str, form: str = "scan") -> str:
    return TEXT.replace("DT", dtype).replace("OP", operation).replace("FORM", form)


def kernels_of(segment: Any) -> list[str]:
    return [step.kernel[:5] for step in segment.steps if isinstance(step, Launch)]


@pytest.mark.parametrize(("operation", "dtype"), [EXACT[k] for k in (0, 2, 6)])
def test_exact_scans_take_one_pass(operation: str, dtype: str) -> None:
    on = device()
    form = "scan exclusive" if dtype in ("u32", "f64") else "scan"
    program = parse(text_of(operation, dtype, form))
    segment = compiled(program)
    assert "clear" in kernels_of(segment)
    assert "total" not in kernels_of(segment)
    assert any(kernel.endswith("in one pass") for kernel in segment.kernels)
    kind = program.params[0].type.dtype.numpy
    random = np.random.default_rng(7)
    for n in SIZES:
        x = random.integers(0, 2 if dtype == "bool" else 100, n).astype(kind)
        if dtype == "f64" and n > 8:
            x[n // 2], x[n // 3] = np.nan, -0.0
        arguments = [x, np.asarray(1, kind)]
        (expected,) = interpret(program, arguments, {"n": n})
        (found,) = run(on, program, segment, arguments, {"n": n})
        np.testing.assert_array_equal(found, expected)


def test_an_operator_that_does_not_commute() -> None:
    """Affine maps of int64, composed: the order of elements shows, their grouping does not."""
    on = device()
    text = """program recurrence(a: i64[n], b: i64[n]) sizes n {
      let y: i64[n], z: i64[n] = scan (i < n) from 1, 0 {
        let u: i64 = a[i]
        let v: i64 = b[i]
        in u, v
      } with (p: i64, q: i64, r: i64, s: i64) {
        let c: i64 = multiply(p, r)
        let d: i64 = multiply(q, r)
        let e: i64 = add(d, s)
        in c, e
      }
      in y, z
    }"""
    program = parse(text)
    segment = compiled(program)
    assert "clear" in kernels_of(segment)
    random = np.random.default_rng(8)
    for n in (5, 2049, 20011):
        arguments = [random.integers(-3, 4, n) * 2 + 1, random.integers(-9, 9, n)]
        for expected, found in zip(
            interpret(program, arguments, {"n": n}),
            run(on, program, segment, arguments, {"n": n}),
            strict=True,
        ):
            np.testing.assert_array_equal(found, expected)


def test_many_groups_do_not_hang() -> None:
    """Thousands of groups, each of which waits for those before, on a few threads."""
    on = device()
    running = wf.jit(lambda x: wf.cumulative_sum(x))
    x = np.random.default_rng(9).integers(-(2**40), 2**40, (1 << 23) + 5)
    expected = np.cumsum(x)
    with wf.config(devices=[on.name]):
        for _ in range(3):
            np.testing.assert_array_equal(running(x), expected)


@pytest.mark.parametrize(("operation", "dtype"), [("add", "f32"), ("multiply", "f64")])
def test_what_depends_on_the_tree_keeps_it(operation: str, dtype: str) -> None:
    segment = compile_segment(parse(text_of(operation, dtype)), {}, "", "opencl")
    assert kernels_of(segment) == ["total", "task1", "scan2"]


def test_kernels_as_opencl(golden: Any) -> None:
    golden(compile_segment(parse(text_of("add", "i32")), {}, "", "opencl").source)


@pytest.mark.parametrize(("operation", "dtype"), EXACT)
def test_kernels_as_cuda(operation: str, dtype: str) -> None:
    segment = compile_segment(parse(text_of(operation, dtype)), {}, "", "cuda")
    assert "__threadfence" in segment.source
    assert compile_text(segment.source).startswith(b"\x7fELF")
