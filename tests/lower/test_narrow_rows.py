"""Rows of at most a few vectors are done with masks, where a loop would mostly begin and end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lower.harness import agree, compiled, run, sizes_of

from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.imp.check import check
from weft.imp.interpret import interpret as interpret_imp
from weft.lower import masks, narrow_rows
from weft.lower.narrow_rows import SHORT
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce

RNG = np.random.default_rng(5)
MASKED = not masks.are_slow()

# Rows of h and w of an image, at every second pixel; x has a pixel more than is read.
POOLED = """program pooled(x: f32[n, h2, w2]) sizes n, h, w, h2, w2
  fact h2 - 2*h >= 0 fact w2 - 2*w >= 0
{
  let y: f32[n, h, w] = kernel (b < n, i < h, j < w) {
    let a: f32 = x[b, 2*i, 2*j]
    let c: f32 = x[b, 2*i + 1, 2*j + 1]
    let d: f32 = x[b, 2*i, 2*j + 1]
    let e: f32 = maximum(a, c)
    let f: f32 = maximum(d, e)
    in f
  }
  in y
}"""

REDUCED = """program reduced(x: f32[n, h2, w2]) sizes n, h, w, h2, w2
  fact h2 - 2*h >= 0 fact w2 - 2*w >= 0
{
  let y: f32[n, h, w] = kernel (b < n, i < h, j < w) {
    let s: f32 = reduce (; p < 2, q < 2) from 0.0_f32 {
      let a: f32 = x[b, 2*i + p, 2*j + q]
      in a
    } with (u: f32, v: f32) { let t: f32 = maximum(u, v) in t }
    in s
  }
  in y
}"""

# Read side by side, at one place for a row, and at one place for a column.
PLAIN = """program plain(x: f64[n, h2, w2], s: f64[n, h2], t: f64[w2]) sizes n, h, w, h2, w2
  fact h2 - 2*h >= 0 fact w2 - 2*w >= 0
{
  let y: f64[n, h, w] = kernel (b < n, i < h, j < w) {
    let a: f64 = x[b, i, j]
    let c: f64 = s[b, i]
    let d: f64 = t[j]
    let f: f64 = x[b, i + 1, j + 1]
    let g: f64 = divide(a, c)
    let k: f64 = minimum(g, d)
    let r: f64 = subtract(k, f)
    in r
  }
  in y
}"""

BRANCHES = """program branches(x: i16[n, h2, w2], k: i16[h2]) sizes n, h, w, h2, w2
  fact h2 - 2*h >= 0 fact w2 - 2*w >= 0
{
  let y: i16[n, h, w] = kernel (b < n, i < h, j < w) {
    let a: i16 = x[b, i, j]
    let z: i16 = k[i - 1: edge(0, h2)]
    let c: bool = less(a, 0_i16)
    let d: i16 = if c { let e: i16 = x[b, i + 1, j + 1] in e } else { in z }
    in d
  }
  in y
}"""

PROGRAMS = {"pooled": POOLED, "reduced": REDUCED, "plain": PLAIN, "branches": BRANCHES}


def arguments(name: str, n: int, h: int, w: int) -> tuple[list[Any], dict[str, int]]:
    program = parse(PROGRAMS[name])
    extents = {"n": n, "h": h, "w": w, "h2": 2 * h + 1, "w2": 2 * w + 1}
    given = []
    for param in program.params:
        values = 9 * RNG.standard_normal([extents[str(e)] for e in param.type.shape])
        given.append(values.astype(param.type.dtype.numpy))
    for array in given:
        array.flat[::7] = np.nan if array.dtype.kind == "f" else 0
    return given, extents


@pytest.mark.parametrize("name", PROGRAMS)
def test_agrees_on_both_sides_of_the_condition(name: str) -> None:
    segment = compiled(parse(PROGRAMS[name]))
    for w in (0, 1, 2, 7, 14, 15, 16, 17, 31, 32, 33, 47, 48, SHORT, SHORT + 1, 131):
        for n, h in (1, 1), (3, 5):
            given, sizes = arguments(name, n, h, w)
            agree(parse(PROGRAMS[name]), given, segment=segment, **sizes)


def test_tiles_begin_anywhere() -> None:
    """More rows than one tile has, whose planes are cut where tiles end."""
    given, sizes = arguments("pooled", 1301, 11, 14)
    agree(parse(POOLED), given, **sizes)


@pytest.mark.parametrize("optimised", [True, False])
@pytest.mark.parametrize("w", [1, 5, 16, 17, 40])
@pytest.mark.parametrize("name", PROGRAMS)
def test_reads_nothing_outside(name: str, w: int, optimised: bool) -> None:
    """Of arrays that end where their last element is, as the interpreter of programs checks."""
    program = parse(PROGRAMS[name])
    given, sizes = arguments(name, 2, 2, w)
    sizes["h2"], sizes["w2"] = 2 * sizes["h"], 2 * w
    given = [a[tuple(slice(sizes[str(e)]) for e in p.type.shape)].copy()
             for a, p in zip(given, program.params, strict=True)]  # fmt: skip
    lowered, unit, workspace = lower_program(introduce(program), "entry")
    check(lowered)
    values = {**sizes, "threads": 1}
    for derived in (*program.derived, *unit.derived):
        values[derived.name] = derived.evaluate(values)
    (expected,) = interpret(program, given, sizes)
    result = np.zeros(np.shape(expected), np.asarray(expected).dtype)
    buffers = [*given, result, np.zeros(workspace.evaluate(values) + 64, np.uint8)]
    names = (*program.sizes, "threads", *(d.name for d in unit.derived if d.name in unit.taken))
    memory = [np.ascontiguousarray(b).reshape(-1).view(np.uint8) for b in buffers]
    failed, *_ = interpret_imp(lowered, memory, [values[k] for k in names], optimised)
    assert failed == 0
    np.testing.assert_array_equal(result, expected)


@pytest.mark.skipif(not MASKED, reason="masks are slow on this processor")
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_a_loop(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, _ = arguments(name, 4, 3, 29)
    found = []
    for few in (narrow_rows.FEW, 0):
        monkeypatch.setattr(narrow_rows, "FEW", few)
        program = parse(PROGRAMS[name])
        sizes = sizes_of(program, given, {"h": 3, "w": 29})
        found.append(run(compiled(program), given, sizes)[0])
    assert found[0].tobytes() == found[1].tobytes()


@pytest.mark.skipif(not MASKED, reason="masks are slow on this processor")
def test_neighbours_share_a_span() -> None:
    """Four elements of a window are in two rows: each is loaded once, as it lies."""
    assert compiled(parse(REDUCED)).source.count("float span") == 2


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("2*j]", "5*j]"), "elements lie far apart"),
        (("2*j]", "j: edge(0, w2)]"), "a rule holds along the row"),
        (("maximum(d, e)", "pow(d, e)"), "vector math is done in blocks of 64"),
    ],
)
def test_other_rows_are_not(change: tuple[str, str], why: str) -> None:
    text = POOLED.replace("w2 - 2*w", "w2 - 5*w").replace(*change)
    assert compiled(parse(text)).source.count("plane") == 0, why
