"""Rows that are columns of what they read."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import IndexFailureError, agree, compiled, run

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.lower.turned_rows import TurnedRows
from weft.mem.introduce import introduce

RNG = np.random.default_rng(23)

TURNED = """program turned(x: TYPE[n, m]) sizes n, m {
  let y: TYPE[m, n] = kernel (i < m, j < n) {
    let a: TYPE = x[j, i]
    let b: TYPE = add(a, a)
    in b
  }
  in y
}"""

BOTH = """program both(x: TYPE[n, m], z: TYPE[m, n], w: f32[n, m]) sizes n, m {
  let y: TYPE[m, n] = kernel (i < m, j < n) {
    let a: TYPE = x[j, i]
    let b: TYPE = z[i, j]
    let c: TYPE = add(a, b)
    let d: f32 = w[j, i]
    let e: TYPE = TYPE(d)
    let f: TYPE = subtract(c, e)
    in f
  }
  in y
}"""

SHIFTED = """program shifted(x: f64[n, m]) sizes n, m {
  let y: f64[m - 2, n - 1] = kernel (i < m - 2, j < n - 1) {
    let a: f64 = x[j + 1, i]
    let b: f64 = x[j, i + 2]
    let c: f64 = subtract(a, b)
    let d: f64 = exp(c)
    in d
  }
  in y
}"""

SOLID = """program solid(x: f32[p, n, m]) sizes p, n, m {
  let y: f32[m, n, p] = kernel (i < m, j < n, k < p) {
    let a: f32 = x[k, j, i]
    let b: f32 = negative(a)
    in b
  }
  in y
}"""

BODY = """program body(x: f32[n, m], s: i64[m]) sizes n, m {
  let y: f32[m, n] = kernel (i < m, j < n) {
    READ
    let b: f32 = negative(a)
    in b
  }
  in y
}"""

OUTSIDE = """program outside(x: f32[n, m]) sizes n, m, k {
  let y: f32[m, k] = kernel (i < m, j < k) {
    let a: f32 = x[j, i]
    let b: f32 = negative(a)
    in b
  }
  in y
}"""

WIDTHS = (128, 256, 384)  # rows that are multiples of 128 elements apart share sets of a cache
LENGTHS = (1, 31, 33, 300)


def turned(text: str) -> TurnedRows | None:
    exprs = [let.expr for let in introduce(parse(text), {}).program.body.statements]
    (kernel,) = [expr for expr in exprs if isinstance(expr, fun.Kernel)]
    return TurnedRows.of(kernel, kernel.space)


def elements(dtype: str, *shape: int) -> np.ndarray:
    return RNG.integers(0, 50, shape).astype(dtype)


@pytest.mark.parametrize("dtype", ["i8", "u16", "f32", "f64"])
def test_lines_are_read_as_they_lie(dtype: str) -> None:
    program = parse(TURNED.replace("TYPE", dtype))
    segment = compiled(program)
    assert "tile1[" in segment.source
    for n in LENGTHS:
        for m in (*WIDTHS, 1, 67, 100):  # of which others do not share sets
            x = elements({"i8": "i1", "u16": "u2", "f32": "f4", "f64": "f8"}[dtype], n, m)
            agree(program, [x], segment=segment, n=n, m=m)


@pytest.mark.parametrize(("dtype", "code"), [("f64", "f8"), ("i32", "i4")])
def test_among_other_reads(dtype: str, code: str) -> None:
    program = parse(BOTH.replace("TYPE", dtype))
    found = turned(BOTH.replace("TYPE", dtype))
    assert found is not None
    assert (found.row, found.reads.keys()) == ("i", {"a", "d"})
    segment = compiled(program)
    for n, m in [(1, 128), (33, 256), (130, 384), (5, 7)]:
        arrays = [elements(code, n, m), elements(code, m, n), elements("f4", n, m)]
        agree(program, arrays, segment=segment, n=n, m=m)


def test_of_places_beside_the_index_and_vector_math() -> None:
    program = parse(SHIFTED)
    found = turned(SHIFTED)
    assert found is not None
    assert found.reads.keys() == {"a", "b"}
    segment = compiled(program)
    for n, m in [(2, 128), (34, 256), (131, 384), (5, 7)]:
        agree(program, [RNG.standard_normal((n, m))], segment=segment, n=n, m=m)


def test_rows_are_those_of_the_index_along_which_neighbours_lie() -> None:
    found = turned(SOLID)
    assert found is not None
    assert [r.index.name for r in found.order] == ["j", "i"]
    program = parse(SOLID)
    segment = compiled(program)
    for p, n, m in [(1, 1, 128), (33, 2, 256), (130, 3, 64), (3, 5, 7), (0, 3, 128), (3, 0, 128)]:
        agree(program, [elements("f4", p, n, m)], segment=segment, p=p, n=n, m=m)


@pytest.mark.parametrize("read", [
    "let a: f32 = x[j: edge(0, n), i]",  # a rule
    "let k: i64 = s[i] let a: f32 = x[j, k]",  # data
    "let a: f32 = x[j, m - 1 - i]",  # neighbours lie the other way round
])  # fmt: skip
def test_other_reads_are_not_copied(read: str) -> None:
    assert turned(BODY.replace("READ", read)) is None


def test_nor_are_wide_elements_nor_more_than_tiles_hold() -> None:
    assert turned(TURNED.replace("TYPE", "c128")) is None
    reads = [f"let a{k}: f32 = x[j, i + {k}]" for k in range(9)]
    sums = ["let s0: f32 = negative(a0)"]
    sums += [f"let s{k}: f32 = add(s{k - 1}, a{k})" for k in range(1, 9)]
    text = BODY.replace("READ", "\n".join([*reads, *sums, "let a: f32 = negative(s8)"]))
    text = text.replace("i < m,", "i < m - 8,").replace("f32[m, n]", "f32[m - 8, n]")
    assert turned(text) is None


def test_bounds_are_checked() -> None:
    program = parse(OUTSIDE)
    assert turned(OUTSIDE) is not None
    x = elements("f4", 40, 256)
    agree(program, [x], n=40, m=256, k=40)
    with pytest.raises(IndexFailureError):
        run(compiled(program), [x], {"n": 40, "m": 256, "k": 41})
