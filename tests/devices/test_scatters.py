"""Scatters with exact operators: atomic, in copies of groups and in the destination itself."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.harness import compiled, device, run
from lower.test_scatters import ADD
from printers.nvrtc import compile_text

from weft.compiler import compile_segment
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower.gpu import scatters as gpu_scatters
from weft.plan.segment import Segment

OPERATIONS = {"add": "i64", "minimum": "i32", "maximum": "u64", "bitwise_and": "u32",
              "bitwise_or": "i64", "bitwise_xor": "i32"}  # fmt: skip
SIZES = [(1, 10), (10, 0), (1, 4097), (257, 5003), (4097, 300), (5000, 9001), (8193, 4096)]


def text_of(operation: str, dtype: str) -> str:
    return ADD.replace("DT", dtype).replace("OP", operation)


def launched(segment: Segment, arguments: list[Any], m: int, n: int, text: str) -> Any:
    (found,) = run(device(), parse(text), segment, arguments, {"m": m, "n": n})
    return found


@pytest.mark.parametrize("operation", ["add", "minimum", "maximum", "bitwise_and"])
def test_both_forms_give_the_same(operation: str) -> None:
    device()
    text = text_of(operation, OPERATIONS[operation])
    kind = parse(text).params[0].type.dtype.numpy
    with mock.patch.multiple(gpu_scatters, _LEAST=64, _GROUPS=7):
        copied = compiled(parse(text))
    *_, first, second = copied.kernels
    assert first.endswith("into copies of groups where they fit")
    assert second == "scatter over (n) giving " + OPERATIONS[operation]
    random = np.random.default_rng(6)
    limits = np.iinfo(kind)
    for m, n in SIZES:
        k = random.integers(0, m, n)
        v = random.integers(limits.min, limits.max, n, kind)
        d = random.integers(limits.min, limits.max, m, kind)
        (expected,) = interpret(parse(text), [d, k, v], {"m": m, "n": n})
        for segment in (copied, compiled(parse(text))):
            np.testing.assert_array_equal(launched(segment, [d, k, v], m, n, text), expected)


def test_an_index_outside_is_reported_by_both() -> None:
    device()
    text = text_of("add", "i64")
    segment = compiled(parse(text))
    for n in (50, 9000):
        k = np.zeros(n, np.int64)
        for wrong in (-1, 10, 2**40):
            k[n // 2] = wrong
            arguments = [np.zeros(10, np.int64), k, np.ones(n, np.int64)]
            with pytest.raises(IndexError, match=f"index {wrong} is outside"):
                launched(segment, arguments, 10, n, text)


def test_into_two_dimensions_and_two_destinations() -> None:
    on = device()
    text = """program two(d: i64[p, q], e: i32[p, q], k: i64[n, m]) sizes p, q, n, m {
      let h: i64[p, q], g: i32[p, q] = scatter d, e over (i < n, j < m) {
        let a: i64 = k[i, j]
        let b: i64 = size j
        let c: i64 = remainder(b, 5)
        let o: i32 = i32(a)
        in a, c, b, o
      } with (l: i64, s: i32, r: i64, t: i32) {
        let u: i64 = add(l, r)
        let v: i32 = maximum(s, t)
        in u, v
      }
      in h, g
    }"""
    random = np.random.default_rng(2)
    program = parse(text)
    segment = compiled(program)
    for n, m in ((3, 7), (83, 101)):
        arguments = [random.integers(0, 9, (6, 5)), np.zeros((6, 5), np.int32),
                     random.integers(0, 6, (n, m))]  # fmt: skip
        sizes = {"p": 6, "q": 5, "n": n, "m": m}
        for expected, found in zip(
            interpret(program, arguments, sizes), run(on, program, segment, arguments, sizes),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("operation", "dtype"), [("add", "f32"), ("maximum", "f64")])
def test_what_depends_on_the_order_keeps_it(operation: str, dtype: str) -> None:
    segment = compile_segment(parse(text_of(operation, dtype)), {}, "", "opencl")
    assert "histogram" not in segment.source
    assert f"atomic_{operation[:3]}" not in segment.source


def test_kernels_as_opencl(golden: Any) -> None:
    golden(compile_segment(parse(text_of("add", "i64")), {}, "", "opencl").source)


@pytest.mark.parametrize("dtype", ["i32", "u32", "i64", "u64"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_kernels_as_cuda(operation: str, dtype: str) -> None:
    segment = compile_segment(parse(text_of(operation, dtype)), {}, "", "cuda")
    assert "__shared__" in segment.source
    assert compile_text(segment.source).startswith(b"\x7fELF")


@pytest.mark.parametrize("operation", list(OPERATIONS))
@pytest.mark.parametrize("dtype", ["i64", "u64"])
def test_without_atomics_on_64_bits(operation: str, dtype: str) -> None:
    """Sums and bits by halves, extremes by one item."""
    on = device()
    assert on.has_long_atomics, "PoCL has them"
    text = text_of(operation, dtype)
    program = parse(text)
    kind = program.params[0].type.dtype.numpy
    segment = compiled(program)
    random, limits = np.random.default_rng(7), np.iinfo(kind)
    with mock.patch.object(on, "has_long_atomics", False):
        for m, n in ((3, 5003), (5000, 9001)):
            k = random.integers(0, m, n)
            v = random.integers(limits.min, limits.max, n, kind)
            v[::3] = -1 if dtype == "i64" else limits.max  # carries
            d = random.integers(limits.min, limits.max, m, kind)
            (expected,) = interpret(program, [d, k, v], {"m": m, "n": n})
            before = on.statistics.launches
            np.testing.assert_array_equal(launched(segment, [d, k, v], m, n, text), expected)
            assert on.statistics.launches > before
