"""Results larger than the caches: computed in blocks, written past the caches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from lower.harness import Launch, agree, compiled, run

from weft.fun.parse import parse
from weft.lower import past_caches
from weft.plan.segment import PARTS
from weft.sizes import ONE, Derived, as_poly

RNG = np.random.default_rng(11)

MAP = """program map(x: f32[n, m]) sizes n, m {
  let y: f32[n, m], z: f64[n, m] = kernel (i < n, j < m) {
    let a: f32 = x[i, j]
    let b: f32 = FUNCTION(a)
    let c: f64 = f64(a)
    in b, c
  }
  in y, z
}"""

STENCIL = """program blur(x: f32[n, m]) sizes n, m {
  let y: f32[n, m] = kernel (i < n, j < m) {
    let a: f32 = x[i - 1: edge(0, n), j: edge(0, m)]
    let b: f32 = x[i: edge(0, n), j + 2: edge(0, m)]
    let c: f32 = add(a, b)
    in c
  }
  in y
}"""

TURNED = """program turn(x: f64[n, m]) sizes n, m {
  let u: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i, j]
    let b: f64 = add(a, 1.0)
    in b
  }
  let t: f64[m, n] = permute u (1, 0)
  in RESULT
}"""

SCAN = """program cumulate(x: f64[r, n]) sizes r, n {
  let y: f64[r, n] = scan KIND (i < r, j < n) from 1.0 {
    let a: f64 = x[i, j]
    in a
  } with (l: f64, m: f64) { let t: f64 = add(l, m) in t }
  in y
}"""

TEMPORARY = """program total(x: f32[n, m]) sizes n, m {
  let y: f32[n, m] = kernel (i < n, j < m) {
    let a: f32 = x[i, j]
    let b: f32 = negative(a)
    in b
  }
  let t: f32[m] = reduce (j < m; i < n) from -0.0_f32 {
    let a: f32 = y[i, j]
    in a
  } with (l: f32, r: f32) { let s: f32 = add(l, r) in s }
  in t
}"""

SHAPES = [(1, 1), (1, 100_003), (3, 65_536), (70, 1031), (5, 0), (300, 7)]


@pytest.fixture(autouse=True)
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_caches, "LARGE", 1 << 12)


@pytest.mark.parametrize("function", ["negative", "exp"])
def test_maps(function: str) -> None:
    program = parse(MAP.replace("FUNCTION", function))
    segment = compiled(program)
    for n, m in SHAPES:
        x = RNG.standard_normal((n, m)).astype(np.float32)
        agree(program, [x], segment=segment, n=n, m=m, rtol=1e-6)


def test_boundaries() -> None:
    program = parse(STENCIL)
    segment = compiled(program)
    for n, m in SHAPES:
        x = RNG.standard_normal((n, m)).astype(np.float32)
        agree(program, [x], segment=segment, n=n, m=m)


@pytest.mark.parametrize("kind", ["", "exclusive"])
def test_scans(kind: str) -> None:
    program = parse(SCAN.replace("KIND", kind))
    segment = compiled(program)
    for r, n in [*SHAPES, (2, 65_537), (3, 4_099)]:
        x = RNG.integers(-9, 9, (r, n)).astype(np.float64)
        agree(program, [x], segment=segment, r=r, n=n)


def test_bits_do_not_depend_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same elements by the same functions, whatever the limit is."""
    x = RNG.standard_normal((3, 100_003)).astype(np.float32)
    program = parse(MAP.replace("FUNCTION", "exp"))
    found = []
    for limit in (1 << 12, 1 << 40):
        monkeypatch.setattr(past_caches, "LARGE", limit)
        found.append(run(compiled(program), [x], {"n": 3, "m": 100_003}))
    for one, other in zip(*found, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize(("result", "flushed"), [("u", True), ("t", False)])
def test_only_what_follows_the_lane_is_put_off(result: str, flushed: bool) -> None:
    """A result whose neighbours along the lane are apart in memory is written in place."""
    program = parse(TURNED.replace("RESULT", result))
    segment = compiled(program)
    assert ("weft_flush" in segment.source) is flushed
    x = RNG.standard_normal((70, 1031))
    agree(program, [x], segment=segment, n=70, m=1031)


def test_boxes_of_what_is_large_are_large() -> None:
    """A box lies in memory as the whole does: it is written as the whole would be."""
    segment = compiled(parse(MAP.replace("FUNCTION", "negative")))
    assert [entry.name for entry in segment.derived] == [PARTS]
    x = RNG.standard_normal((2, 70)).astype(np.float32)
    sizes = {"n": 2, "m": 70}
    for parts in (1, 5, 1000):  # 1680 bytes each
        boxed = replace(segment, derived=(Derived(PARTS, "max", as_poly(parts), ONE),))
        y, z = Launch(boxed, [x], sizes)()
        np.testing.assert_array_equal(y, -x)
        np.testing.assert_array_equal(z, x)
    assert segment.integers[-1] == PARTS


def test_what_is_no_result_is_as_large_as_it_is() -> None:
    """A temporary array of a box is in its caches, however many boxes there are."""
    segment = compiled(parse(TEMPORARY))
    assert segment.integers == ("n", "m", "threads")
