"""Kernels whose items load and store vectors: the bits of an item for each element."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import DIALECT, compiled, device, launched
from printers.nvrtc import compile_text, ptx_of

from weft.compiler import compile_segment
from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import interpret as run_imp
from weft.imp.show import show
from weft.lower.gpu import vectors
from weft.ops.dtypes import DType
from weft.plan.segment import Dialect

WEIGHTED = """program weighted(x: f32[n, m], y: u8[n, m], s: f32) sizes n, m {
  let z: f32[n, m] = kernel (i < n, j < m) {
    let a: f32 = x[i, j]
    let b: u8 = y[i, j]
    let c: f32 = f32(b)
    let d: f32 = multiply(a, c)
    let e: f32 = add(d, s)
    in e
  }
  in z
}"""
SUM = """program sums(x: DT[n, m], y: DT[SHAPE]) sizes n, m {
  let z: DT[n, m] = kernel (i < n, j < m) {
    let a: DT = x[i, j]
    let b: DT = y[INDEX]
    let c: DT = add(a, b)
    in c
  }
  in z
}"""


def sums(dtype: str, shape: str, index: str) -> fun.Program:
    return parse(SUM.replace("DT", dtype).replace("SHAPE", shape).replace("INDEX", index))


SUITED = {
    "floats and bytes": parse(WEIGHTED),
    "doubles": sums("f64", "n, m", "i, j"),
    "bytes": sums("u8", "n, m", "i, j"),
    "halves of words": sums("i16", "n, m", "i, j"),
    "a row for all": sums("f32", "m", "j"),
    "a number for each row": sums("f32", "n", "i"),
}
UNSUITED = {
    "columns": sums("f32", "m, n", "j, i"),
    "neighbours that lie apart": sums("f32", "n, 2*m", "i, 2*j"),
    "backwards": sums("f32", "n, m", "i, m - 1 - j"),
    "rules at ends": sums("f32", "n, m", "i, j + 1 : edge(0, m)"),
    "what may be elsewhere": parse(
        """program picked(x: f32[n, m], p: i64[m]) sizes n, m {
          let z: f32[n, m] = kernel (i < n, j < m) {
            let k: i64 = p[j]
            let a: f32 = x[i, k]
            in a
          }
          in z
        }"""
    ),
    "too many arrays": parse(
        "program many(" + ", ".join(f"x{k}: f32[n]" for k in range(8)) + ") sizes n {\n"
        "let z: f32[n] = kernel (i < n) {\n let s0: f32 = x0[i]\n"
        + "".join(
            f"let v{k}: f32 = x{k}[i]\n let s{k}: f32 = add(s{k - 1}, v{k})\n"
            for k in range(1, 8)
        )
        + "in s7\n} in z }"
    ),
}  # fmt: skip


def made(program: fun.Program, dialect: Dialect = DIALECT) -> Any:
    """A segment whose vectors are worth it however few."""
    with mock.patch.object(vectors, "_BUSY", 1):
        return compile_segment(program, {}, "", dialect)


def inputs(program: fun.Program, n: int, m: int) -> list[Any]:
    random, sizes, found = np.random.default_rng(n + m), {"n": n, "m": m}, []
    for param in program.params:
        shape = [e.evaluate(sizes) for e in getattr(param.type, "shape", ())]
        found.append(np.asarray(random.integers(0, 9, shape)).astype(param.type.dtype.numpy))
    return found


@pytest.mark.parametrize("name", list(SUITED))
def test_vectors_and_items_give_the_same_bits(name: str) -> None:
    """Rows that end within a vector are done to the end; rows that begin in one, by items."""
    on, program = device(), SUITED[name]
    segment, by_items = made(program), compiled(program)
    lanes = 16 // max(v.type.dtype.itemsize for v in program.params)
    for n, m in ((0, 5), (1, 1), (3, lanes), (5, 2 * lanes), (7, 16 * lanes + 1), (1, 53)):
        arguments, sizes = inputs(program, n, m), {"n": n, "m": m}
        with mock.patch.object(on, "is_processor", False):
            kinds, found = launched(on, program, segment, arguments, sizes)
            _, expected = launched(on, program, by_items, arguments, sizes)
        assert_equal_bits(found, expected)
        assert_equal_bits(found, interpret(program, arguments, sizes))
        rows = name.startswith("a ")  # whose ends are their own: the others are one row in all
        if n and n * m >= lanes:
            assert kinds == ({"vectors"} if m % lanes == 0 or not rows else {"map"})


@pytest.mark.parametrize("name", list(UNSUITED))
def test_what_does_not_lie_side_by_side_is_left_to_items(name: str) -> None:
    assert "vectors" not in made(UNSUITED[name]).source


def test_few_elements_are_left_to_items() -> None:
    """A GPU wants many items more than it wants vectors."""
    program = SUITED["doubles"]
    segment = compile_segment(program, {}, "", "cuda")
    launch = next(step for step in segment.steps if step.kernel.startswith("vectors"))
    for m, items in ((1 << 16, 0), ((1 << 19) - 1, 0), (1 << 19, 1 << 18)):
        known = {"n": 1, "m": m}
        for derived in segment.derived:
            known[derived.name] = derived.evaluate(known)
        assert launch.items.evaluate(known) == items


def test_parts_of_arrays() -> None:
    """Vectors where a part begins at one, else items; the update lies in the argument's memory."""
    on = device()
    text = """program part(x: f32[n], y: f32[n]) sizes n {
      let z: f32[n - K] = kernel (i < n - K) {
        let a: f32 = x[i + K]
        let b: f32 = y[i]
        let c: f32 = multiply(a, b)
        in c
      }
      in z
    }"""
    for start, kind in ((1, "map"), (2, "map"), (4, "vectors"), (8, "vectors")):
        program = parse(text.replace("K", str(start)))
        arguments, sizes = inputs(program, 203, 0), {"n": 203}
        with mock.patch.object(on, "is_processor", False):
            kinds, found = launched(on, program, made(program), arguments, sizes)
        assert_equal_bits(found, interpret(program, arguments, sizes))
        assert kinds == {kind}


@pytest.mark.parametrize("name", list(SUITED))
def test_a_gpu_loads_vectors_and_keeps_them_in_registers(name: str) -> None:
    segment = made(SUITED[name], "cuda")
    assert compile_text(segment.source)
    assembly = ptx_of(segment.source)
    assert re.search(r"ld\.global\S*\.v[24]", assembly)
    assert re.search(r"st\.global\S*\.v[24]", assembly)
    assert ".local" not in assembly


@pytest.mark.parametrize("dialect", ["cuda", "opencl"])
def test_golden(golden: Callable[[str], None], dialect: Dialect) -> None:
    golden(made(SUITED["floats and bytes"], dialect).source)


# ---------------------------------------------------------------- the statements themselves


def program_of(*body: imp.Stmt) -> imp.Program:
    return imp.Program("entry", 1, (), body)


X, NEAR = imp.Pointer("x", DType.F32), imp.Pointer("a", DType.F32)
VIEW, LOCAL = imp.View(X, 0, imp.ZERO), imp.Local(NEAR, 4)


def test_vectors_are_interpreted() -> None:
    program = program_of(
        VIEW, LOCAL,
        imp.LoadVector(NEAR, X, imp.integer(4), 4), imp.StoreVector(X, imp.ZERO, NEAR, 4),
    )  # fmt: skip
    check(program)
    assert "load 4 of x[4] to a" in show(program)
    assert "store 4 of a to x[0]" in show(program)
    memory = np.arange(8, dtype=np.float32)
    run_imp(program, [memory.view(np.uint8), np.empty(64, np.uint8)], [])
    np.testing.assert_array_equal(memory, [4, 5, 6, 7, 4, 5, 6, 7])


@pytest.mark.parametrize("index", [2, 5, 6])
def test_vectors_begin_where_vectors_do_and_are_whole(index: int) -> None:
    program = program_of(VIEW, LOCAL, imp.LoadVector(NEAR, X, imp.integer(index), 4))
    memory = np.arange(8, dtype=np.float32)
    with pytest.raises(InternalError, match="no vector of 4"):
        run_imp(program, [memory.view(np.uint8), np.empty(64, np.uint8)], [])


@pytest.mark.parametrize(
    "wrong",
    [
        imp.LoadVector(X, X, imp.ZERO, 4),
        imp.LoadVector(NEAR, X, imp.ZERO, 3),
        imp.StoreVector(X, imp.ZERO, imp.Pointer("a", DType.F64), 2),
    ],
)
def test_wrong_vectors_are_refused(wrong: imp.Stmt) -> None:
    with pytest.raises(InternalError):
        check(program_of(VIEW, LOCAL, wrong))
