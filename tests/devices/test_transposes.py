"""Kernels that turn tiles around in a group's memory: the bits of an item for each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from agreement.ways import assert_equal_bits
from devices.harness import compiled, device, dialect_of, launched
from devices.test_vectors import inputs
from printers.nvrtc import compile_text, ptx_of

from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower.gpu import transposes

TEXT = """program turned(x: DT[SHAPE], y: DT[n, m]) sizes n, m {
  let z: DT[n, m] = kernel (i < n, j < m) {
    let a: DT = x[INDEX]
    let b: DT = y[i, j]
    let c: DT = add(a, b)
    in c
  }
  in z
}"""


def turned(dtype: str, shape: str = "m, n", index: str = "j, i") -> fun.Program:
    return parse(TEXT.replace("DT", dtype).replace("SHAPE", shape).replace("INDEX", index))


SUITED = {
    "floats": turned("f32"),
    "doubles": turned("f64"),
    "bytes": turned("u8"),
    "parts of rows": turned("i16", "m + 2, n + 3", "j + 1, i + 2"),
    "rules at ends": turned("f32", "m, n", "j - 1 : wrap(0, m), i + 1 : edge(0, n)"),
    "no other reads": parse(
        """program alone(x: bool[m, n]) sizes n, m {
          let z: bool[n, m] = kernel (i < n, j < m) {
            let a: bool = x[j, i]
            let b: bool = logical_not(a)
            in b
          }
          in z
        }"""
    ),
    "several matrices": parse(
        """program several(x: f32[4, m, n], y: f64[4, m, n]) sizes n, m {
          let z: f64[4, n, m], w: f32[4, n, m] = kernel (k < 4, i < n, j < m) {
            let a: f32 = x[k, j, i]
            let b: f64 = y[3 - k, j, i]
            let c: f64 = f64(a)
            let d: f64 = multiply(b, c)
            in d, a
          }
          in z, w
        }"""
    ),
    "the first axis last": parse(
        """program first(x: f32[n, 5, m]) sizes n, m {
          let z: f32[m, 5, n] = kernel (j < m, k < 5, i < n) {
            let a: f32 = x[i, k, j]
            in a
          }
          in z
        }"""
    ),
}
UNSUITED = {
    "along both alike": turned("f32", "n, m", "i, j"),
    "apart along both": turned("f32", "2*m, 2*n", "2*j, 2*i"),
    "the other way": turned("f32", "m, n", "j, n - 1 - i"),
    "too many bytes for a group": parse(
        "program many(" + ", ".join(f"x{k}: f64[m, n]" for k in range(5)) + ") sizes n, m {"
        "let z: f64[n, m] = kernel (i < n, j < m) { let s0: f64 = x0[j, i] "
        + "".join(
            f"let v{k}: f64 = x{k}[j, i] let s{k}: f64 = add(s{k - 1}, v{k}) "
            for k in range(1, 5)
        )
        + "in s4 } in z }"
    ),
}  # fmt: skip


def made(program: fun.Program, dialect: str = "opencl") -> Any:
    """A segment whose tiles are worth it however few."""
    with mock.patch.multiple(transposes, _BUSY=1, _LONG=1):
        return compile_segment(program, {}, "", dialect)


@pytest.mark.parametrize("name", list(SUITED))
def test_tiles_and_items_give_the_same_bits(name: str) -> None:
    """Tiles are whole, or cut off along either side, or both."""
    on, program = device(), SUITED[name]
    segment, by_items = made(program, dialect_of(on.name)), compiled(program)
    for n, m in ((0, 5), (1, 1), (32, 32), (64, 96), (33, 64), (64, 31), (37, 71)):
        arguments, sizes = inputs(program, n, m), {"n": n, "m": m}
        with mock.patch.object(on, "is_processor", False):
            kinds, found = launched(on, program, segment, arguments, sizes)
            _, expected = launched(on, program, by_items, arguments, sizes)
        assert_equal_bits(found, expected)
        assert_equal_bits(found, interpret(program, arguments, sizes))
        assert kinds == ({"transposes"} if n else set())


@pytest.mark.parametrize("name", list(UNSUITED))
def test_other_kernels_are_left_to_other_forms(name: str) -> None:
    assert "transposes" not in made(UNSUITED[name]).source


def test_few_and_narrow_tiles_are_left_to_other_forms() -> None:
    segment = compile_segment(SUITED["no other reads"], {}, "", "cuda")
    launch = next(step for step in segment.steps if step.kernel.startswith("transposes"))
    for n, m, items in (
        (512, 512, 256 * 256), (512, 480, 0), (31, 1 << 20, 0), (1 << 20, 31, 0), (0, 512, 0),
        (513, 512, 17 * 16 * 256),
    ):  # fmt: skip
        known = {"n": n, "m": m}
        for derived in segment.derived:
            known[derived.name] = derived.evaluate(known)
        assert launch.items.evaluate(known) == items


def test_an_index_outside_is_named_by_its_line() -> None:
    """Checks at launch are those of items, which know where in a program they are."""
    program = turned("f32", "m, n", "j, i + 1")
    assert made(program).checks == compiled_by_items(program).checks


def compiled_by_items(program: fun.Program) -> Any:
    with mock.patch.object(transposes, "_BYTES", 0):
        return compile_segment(program, {}, "", "opencl")


def test_a_gpu_keeps_tiles_in_a_groups_memory() -> None:
    text = made(SUITED["floats"], "cuda").source
    assert compile_text(text)
    assembly = ptx_of(text)
    assert ".shared" in assembly
    assert ".local" not in assembly


@pytest.mark.parametrize("dialect", ["cuda", "opencl"])
def test_golden(golden: Callable[[str], None], dialect: str) -> None:
    golden(made(SUITED["no other reads"], dialect).source)
