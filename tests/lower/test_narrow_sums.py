"""Sums of narrow integers in narrow lanes: which, and that no lane overflows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from slow import every_second

import weft as wf
from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.lower.narrow_sums import GRAIN, narrowed
from weft.lower.rows import LANES
from weft.ops.dtypes import DType

TEXT = """program p(x: {element}[n]) sizes n {{
  let s: {total} = reduce (; i < n) from {neutral} {{ let t: {element} = x[i] {statements} in e }}
   with (a: {total}, b: {total}) {{ let c: {total} = {operation}(a, b) in c }}
  in s
}}"""


def reduction(
    element: str, total: str = "i64", statements: str = "", neutral: str = "0",
    operation: str = "add",
) -> fun.Reduce:  # fmt: skip
    statements = statements or f"let e: {total} = {total}(t)"
    program = parse(TEXT.format(**locals()))
    expr = program.body.statements[0].expr
    assert isinstance(expr, fun.Reduce)
    return expr


def lane(reduce: fun.Reduce) -> DType | None:
    found = narrowed(reduce)
    return None if found is None else found.neutral[0].type.dtype


@pytest.mark.parametrize(
    ("element", "expected"),
    [
        ("bool", DType.I8), ("i8", DType.I16), ("u8", DType.U16), ("i16", DType.I32),
        ("u16", DType.U32), ("i32", None), ("u32", None), ("i64", None), ("f32", None),
    ],
)  # fmt: skip
def test_lanes(element: str, expected: DType | None) -> None:
    assert lane(reduction(element)) is expected


def test_what_is_compared_is_as_wide_as_the_lanes() -> None:
    for element, expected in (("f32", DType.I32), ("f64", None), ("i16", DType.I16)):
        zero = "0.0" if element[0] == "f" else "0"
        zero = f"{zero}_{element}" if element in ("f32", "i16") else zero
        text = f"let g: bool = greater(t, {zero}) let e: i64 = i64(g)"
        assert lane(reduction(element, statements=text)) is expected


def test_other_reductions() -> None:
    assert lane(reduction("bool", "f64", neutral="0.0")) is None
    assert lane(reduction("i8", "i16", neutral="0_i16")) is None  # no wider than the lanes
    assert lane(reduction("i8", "i32", neutral="0_i32")) is DType.I16
    assert lane(reduction("i8", operation="maximum")) is None
    assert lane(reduction("i8", neutral="1")) is None
    more = "let w: i64 = i64(t) let e: i64 = multiply(w, w)"
    assert lane(reduction("i8", statements=more)) is None


def test_no_lane_overflows() -> None:
    rounds = GRAIN // LANES
    for element, of in (("b1", DType.I8), ("i1", DType.I16), ("u2", DType.U32)):
        most = 1 if element == "b1" else max(map(abs, map(int, limits(element))))
        assert rounds * most <= np.iinfo(of.numpy).max


def limits(dtype: str) -> tuple[int, int]:
    return np.iinfo(dtype).min, np.iinfo(dtype).max


@pytest.mark.parametrize("dtype", ["b1", "i1", "u1", "i2", "u2"])
def test_extremes(dtype: str) -> None:
    values = (False, True) if dtype == "b1" else limits(dtype)
    both = wf.jit(lambda x: (wf.sum(x), wf.count_nonzero(x)))
    for length in (0, 1, 63, 64, 65, 4095, 4096, 4097, 65536, 65537, 200003):
        x = np.random.default_rng(length).integers(0, 2, length).astype(bool)
        for y in (*(np.full(length, value, dtype) for value in values), np.where(x, *values)):
            y = y.astype(dtype)
            assert both(y) == (y.sum(dtype=np.int64), np.count_nonzero(y))


@pytest.mark.parametrize(("shape", "axis"), every_second(
    product([(3, 5, 7), (2, 1, 5000), (70, 9, 65), (1, 1, 1)], [0, 1, 2, (0, 2), (1, 2)]),
    several=True,
))  # fmt: skip
def test_axes(shape: tuple[int, ...], axis: Any) -> None:
    x = np.random.default_rng(1).integers(-128, 128, shape).astype("i1")
    y = x[:, :, ::-1]
    found = wf.jit(
        lambda x: (wf.sum(x, axis=axis), wf.sum(x > 3, axis=axis), wf.sum(x[:, :, ::-1], axis=axis))
    )(x)
    for value, expected in zip(found, (x, x > 3, y), strict=True):
        np.testing.assert_array_equal(value, expected.sum(axis))


def test_results_that_wrap() -> None:
    x = np.full(100_000, 127, "i1")
    expected = np.sum(x, dtype="i4"), np.sum(x.astype("u1"), dtype="u4")
    found = wf.jit(lambda x, y: (wf.sum(x, dtype="int32"), wf.sum(y, dtype="uint32")))
    assert found(x, x.astype("u1")) == expected
