"""Scans of rows on a device: every form gives the bits of one item for each row."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from agreement.ways import assert_equal_bits
from devices.harness import COMPOSED, compiled, device, launched
from printers.nvrtc import compile_text
from slow import every_second

import weft as wf
from weft.compiler import compile_segment
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.lower.gpu import row_scans

ONE = """program scanned(x: DT[n, m], s: DT) sizes n, m {
  let y: DT[n, m] = FORM (i < n, j < m) from s {
    let v: DT = x[i, j]
    in v
  } with (l: DT, r: DT) { let t: DT = OP(l, r) in t }
  in y
}"""
RECURRENCE = f"""program recurrence(a: DT[n, m], b: DT[n, m]) sizes n, m {{
  let y: DT[n, m], z: DT[n, m] = FORM (i < n, j < m) from 1_DT, 0_DT {{
    let u: DT = a[i, j]
    let v: DT = b[i, j]
    in u, v
  }} {COMPOSED}
  in y, z
}}"""
COLUMNS = ONE.replace("x: DT[n, m]", "x: DT[m, n]").replace("x[i, j]", "x[j, i]")
PAIRS = RECURRENCE.replace("a: DT[n, m], b: DT[n, m]", "a: DT[m, n], b: DT[m, n]")
PAIRS = PAIRS.replace("[i, j]", "[j, i]")
EXTENTS = [0, 1, 31, 32, 33, 1024, 1025, 2047, 2048, 2049, 5003]
CASES = {
    "sum": (ONE, "add", "f32", "scan"),
    "sum exclusive": (ONE, "add", "f64", "scan exclusive"),
    "integers": (ONE, "add", "i64", "scan"),
    "extremes": (ONE, "maximum", "f64", "scan exclusive"),
    "bytes": (ONE, "add", "u8", "scan"),
    "columns": (COLUMNS, "add", "f64", "scan"),
    "columns exclusive": (COLUMNS, "multiply", "f32", "scan exclusive"),
    "columns of pairs": (PAIRS, "", "f64", "scan"),
    "recurrence": (RECURRENCE, "", "f64", "scan"),
    "exact recurrence": (RECURRENCE, "", "i64", "scan exclusive"),
}


def text_of(name: str) -> str:
    text, operation, dtype, form = CASES[name]
    return text.replace("DT", dtype).replace("OP", operation).replace("FORM", form)


def inputs(program: Any, rows: int, extent: int) -> list[Any]:
    random = np.random.default_rng(rows + extent)
    found = []
    for param in program.params:
        dtype = param.type.dtype.numpy
        shape = [{"n": rows, "m": extent}[str(e)] for e in getattr(param.type, "shape", ())]
        values = random.normal(size=shape) if dtype.kind == "f" else random.integers(0, 9, shape)
        if len(program.params) > 1 and param.type.dtype.is_float and shape:
            values = np.clip(values, -0.9, 0.9)
        found.append(np.asarray(values).astype(dtype))
    return found


@pytest.mark.parametrize("name", every_second(CASES))
def test_groups_and_items_give_the_same_bits(name: str) -> None:
    on = device()
    program = parse(text_of(name))
    segment = compiled(program)
    with mock.patch.object(row_scans, "_LONG", 2100):
        in_tiles = compiled(program)
    alone = segment
    if not on.is_processor:
        with mock.patch.object(row_scans._Rows, "suits", return_value=False):
            alone = compiled(program)
    seen: set[str] = set()
    for extent in EXTENTS:
        rows = 67 if extent < 100 else 3
        arguments, sizes = inputs(program, rows, extent), {"n": rows, "m": extent}
        kinds, by_items = launched(on, program, alone, arguments, sizes)
        assert kinds <= {"scan"}
        for expected, found in zip(interpret(program, arguments, sizes), by_items, strict=True):
            tolerance = 1e-4 if found.dtype == np.float32 else 1e-10
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
        with mock.patch.object(on, "is_processor", False):
            for made in (segment, in_tiles):
                kinds, found = launched(on, program, made, arguments, sizes)
                seen |= kinds
                assert_equal_bits(found, by_items)
    exact = name in ("integers", "extremes", "bytes", "exact recurrence")
    assert seen == {"several", "scanned"} | (
        {"clear", "scan"} if exact else {"totals", "carries", "tiles"}
    )


@pytest.mark.parametrize("name", ["columns", "columns exclusive", "columns of pairs"])
def test_columns_by_groups_have_the_same_bits(name: str) -> None:
    on = device()
    program = parse(text_of(name))
    by_rows = compiled(program)
    with mock.patch.object(row_scans, "_SOME", 1):
        by_columns = compiled(program)
    for columns, extents in ((35, (33, 255, 256, 257)), (3, (2047, 2048, 2049, 5003))):
        for extent in extents:
            arguments, sizes = inputs(program, columns, extent), {"n": columns, "m": extent}
            with mock.patch.object(on, "is_processor", False):
                kinds, found = launched(on, program, by_columns, arguments, sizes)
                others, expected = launched(on, program, by_rows, arguments, sizes)
            assert kinds == {"columns"}
            assert "columns" not in others
            assert_equal_bits(found, expected)


def test_many_columns_are_items() -> None:
    """Neighbouring columns lie side by side: an item each, unless they are few, or longer."""
    on = device()
    program = parse(text_of("columns"))
    segment = compiled(program)
    forms = (4096, 5, "scan"), (4095, 5, "several"), (1024, 33, "columns"), (1023, 33, "several")
    with mock.patch.object(on, "is_processor", False):
        for columns, extent, form in forms:
            arguments, sizes = inputs(program, columns, extent), {"n": columns, "m": extent}
            kinds, (found,) = launched(on, program, segment, arguments, sizes)
            assert kinds == {form}
            np.testing.assert_allclose(found, np.cumsum(arguments[0].T, axis=1) + arguments[1])


def test_long_rows_in_one_pass_do_not_hang() -> None:
    """No group looks back past its row, and none waits for a tile that nobody has."""
    on = device()
    program = parse(text_of("integers"))
    segment = compiled(program)
    arguments, sizes = inputs(program, 37, 40_961), {"n": 37, "m": 40_961}
    with mock.patch.object(on, "is_processor", False):
        kinds, (found,) = launched(on, program, segment, arguments, sizes)
    assert kinds == {"clear", "scan"}
    np.testing.assert_array_equal(found, np.cumsum(arguments[0], axis=1) + arguments[1])


def test_what_may_fail_is_left_to_items() -> None:
    on = device()

    @wf.jit
    def running(t: Any, i: Any) -> Any:
        return wf.cumulative_sum(wf.take(t, i.reshape(-1)).reshape(i.shape), axis=1)

    table, at = np.arange(50), np.random.default_rng(1).integers(0, 50, (4, 700))
    with wf.config(devices=[on.name]), mock.patch.object(on, "is_processor", False):
        np.testing.assert_array_equal(running(table, at), np.cumsum(table[at], axis=1))
        at[2, 650] = 50
        with pytest.raises(IndexError, match="index 50 is outside"):
            running(table, at)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_cumulative_sums_along_each_axis(axis: int) -> None:
    on = device()
    x = np.random.default_rng(2).normal(size=(5, 37, 70))
    running = wf.jit(lambda a: wf.cumulative_sum(a, axis=axis))
    with wf.config(devices=[on.name]):
        by_items = np.asarray(running(x))
        with mock.patch.object(on, "is_processor", False):
            found = np.asarray(running(x))
    assert_equal_bits([found], [by_items])
    np.testing.assert_allclose(found, np.cumsum(x, axis=axis), rtol=1e-9, atol=1e-12)


def test_kernels_as_opencl(golden: Any) -> None:
    golden(compile_segment(parse(text_of("sum")), {}, "", "opencl").source)


@pytest.mark.parametrize("name", list(CASES))
def test_kernels_as_cuda(name: str) -> None:
    segment = compile_segment(parse(text_of(name)), {}, "", "cuda")
    assert compile_text(segment.source).startswith(b"\x7fELF")
