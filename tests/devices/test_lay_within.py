"""Arguments and results that lie within the workspace of a device: which do, and with what bits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from devices.harness import DIALECT, device, run

from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.plan.archive import segment_from_json, segment_to_json
from weft.plan.segment import Segment
from weft.runtime.devices.protocol import FAILURE_BYTES

RNG = np.random.default_rng(3)
DOUBLED = """
  let y: f32[n + m] = kernel (i < n + m) {
    let t: f32 = rows_2[i]
    let v: f32 = add(t, t)
    in v
  }"""
PART = """
  let part: f32[n - 2] = slice y[m for n - 2]
  let r: f32[n - 2] = copy part"""
NEW = """
  let new: f32[n - 2] = slice a[2 for n - 2]
  let rows_2: f32[n + m] = update rows_1[m for n - 2] = new"""


def text(
    first: str = "let rows_1: f32[n + m] = update rows_0[0 for m] = f",
    new: str = NEW, doubled: str = DOUBLED, end: str = PART, results: str = "r",
    empty: str = "empty f32 (n + m)",
) -> str:  # fmt: skip
    """Rows of a behind those of f, in one array, which is doubled in place; and some of it."""
    head = f"program rows(a: f32[n], f: f32[m]) sizes n, m {{\n  let rows_0: f32[n + m] = {empty}"
    return f"{head}\n  {first}{new}{doubled}{end}\n  in {results}\n}}"


PLANES = """program planes(a: f64[n, k], f: f64[m, k]) sizes n, m, k {
  let rows_0: f64[n + m, k] = empty f64 (n + m, k)
  let rows_1: f64[n + m, k] = update rows_0[0 for m, 0 for k] = f
  let new: f64[n - 1, k] = slice a[1 for n - 1, 0 for k]
  let rows_2: f64[n + m, k] = update rows_1[m for n - 1, 0 for k] = new
  let y: f64[n + m, k] = kernel (i < n + m, j < k) {
    let t: f64 = rows_2[i, j]
    let v: f64 = add(t, t)
    in v
  }
  let part: f64[n - 1, k] = slice y[m for n - 1, 0 for k]
  let r: f64[n - 1, k] = copy part
  in r
}"""
COLUMNS = """program columns(a: f64[k, n], f: f64[k, m]) sizes n, m, k {
  let rows_0: f64[k, n + m] = empty f64 (k, n + m)
  let rows_1: f64[k, n + m] = update rows_0[0 for k, 0 for m] = f
  let new: f64[k, n - 1] = slice a[0 for k, 1 for n - 1]
  let rows_2: f64[k, n + m] = update rows_1[0 for k, m for n - 1] = new
  let y: f64[k, n + m] = kernel (i < k, j < n + m) {
    let t: f64 = rows_2[i, j]
    let v: f64 = add(t, t)
    in v
  }
  let part: f64[k, n - 1] = slice y[0 for k, m for n - 1]
  let r: f64[k, n - 1] = copy part
  in r
}"""

CASES: dict[str, tuple[str, set[str]]] = {
    "rows": (text(), {"a", "result_0"}),
    "planes": (PLANES, {"a", "result_0"}),
    "columns are not rows": (COLUMNS, set()),
    "all rows": (
        text(
            new="\n  let new: f32[n] = slice a[0 for n]"
            "\n  let rows_2: f32[n + m] = update rows_1[m for n] = new"
        ),
        {"a", "result_0"},
    ),
    "an argument that is read too": (
        text(doubled=DOUBLED.replace("add(t, t)", "add(t, u)").replace(
            "    let v", "    let u: f32 = a[0]\n    let v"
        )),
        {"result_0"},
    ),
    "rows that are read too": (
        text(doubled=DOUBLED.replace("add(t, t)", "add(t, u)").replace(
            "    let v", "    let u: f32 = new[0]\n    let v"
        )),
        {"result_0"},
    ),
    "what is written over the place before": (
        text(first="let g: f32[m] = slice f[0 for m]\n"
                   "  let h: f32[n + m] = update rows_0[n for m] = g\n"
                   "  let rows_1: f32[n + m] = update h[0 for m] = f"),
        {"result_0"},
    ),
    "what is there before": (
        text(empty="kernel (i < n + m) {\n    let e: f32 = f[0]\n    in e\n  }"),
        {"result_0"},
    ),
    "a result whose block is written after it": (
        text(end=PART + "\n  let z: f32[n + m] = update y[0 for m] = f\n"
                 "  let s: f32 = z[0]\n  let last: f32[1] = kernel (i < 1) {\n    in s\n  }",
             results="r, last"),
        {"a"},
    ),
    "a result that is used again": (
        text(end=PART + "\n  let twice: f32[n - 2] = kernel (i < n - 2) {\n"
                 "    let b: f32 = r[i]\n    let c: f32 = add(b, b)\n    in c\n  }",
             results="r, twice"),
        {"a"},
    ),
}  # fmt: skip
ALL = {"a", "f", "result_0", "result_1"}


def compiled(program: fun.Program, private: Collection[str]) -> Segment:
    return compile_segment(program, {}, "", DIALECT, private=sorted(private))


def slots(segment: Segment) -> set[str]:
    names = [slot.name for slot in (*segment.params, *segment.results)]
    return {names[inset.slot] for inset in segment.insets}


def arguments(program: fun.Program, sizes: dict[str, int]) -> list[Any]:
    return [
        RNG.random([s.evaluate(sizes) for s in p.type.shape]).astype(p.type.dtype.numpy)
        for p in program.params
        if isinstance(p.type, fun.Array)
    ]


@pytest.mark.parametrize("name", CASES)
def test_what_lies_within(name: str) -> None:
    source, expected = CASES[name]
    program = parse(source)
    segment = compiled(program, ALL)
    assert slots(segment) == expected - {"f"}
    assert not compiled(program, ()).insets
    assert slots(compiled(program, {"f", "result_0"})) == expected & {"result_0"}
    assert segment_from_json(segment_to_json(segment)) == segment
    on = device()
    for n, m in ((3, 1), (7, 5), (4099, 17)):
        sizes = {"n": n, "m": m, "k": 3}
        sizes = {size: sizes[size] for size in program.sizes}
        given = arguments(program, sizes)
        wanted = interpret(program, given, sizes)
        for found, value in zip(run(on, program, segment, given, sizes), wanted, strict=True):
            np.testing.assert_array_equal(found, np.asarray(value))


def test_memory_and_copies() -> None:
    """No buffers for what lies within; only the rows that are read are copied."""
    program, on = parse(CASES["rows"][0]), device()
    n, m = 4099, 17
    sizes = {"n": n, "m": m}
    given = arguments(program, sizes)
    peaks, copied = [], []
    for private in ((), ALL):
        on.trim()
        on.statistics.peak_bytes = on.statistics.bytes_in = 0
        segment = compiled(program, private)
        run(on, program, segment, given, sizes)
        peaks.append(on.statistics.peak_bytes)
        copied.append(on.statistics.bytes_in)
    assert peaks[0] - peaks[1] == 4 * (n + n - 2)
    assert copied == [4 * (n + m) + FAILURE_BYTES, 4 * (n - 2 + m) + FAILURE_BYTES]
