"""Rows reduced side by side: the bits that each has by itself."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree, compiled, run
from lower.row_programs import EXTREMES, LAYER

from weft.fun.parse import parse
from weft.imp.check import check
from weft.lower import fetching
from weft.lower.fetching import Fetching
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce

RNG = np.random.default_rng(13)

TILES = """program tiles(x: f32[n], y: f32[n]) sizes n derived t = floordiv(n + 4095, 4096) {
  let s: f32[t] = kernel (i < t) {
    let left: i64 = size n - 4096 * i
    let extent: i64 = minimum(4096, left)
    let r: f32 = reduce (; j < extent) from -0.0_f32 {
      let p: f32 = x[j + 4096 * i]
      let q: f32 = y[j + 4096 * i]
      let d: f32 = subtract(p, q)
      let w: f32 = multiply(d, d)
      in w
    } with (l: f32, k: f32) { let u: f32 = add(l, k) in u }
    in r
  }
  in s
}"""

SHAPES = [(1, 5), (4, 0), (7, 64), (8, 1023), (9, 1025), (133, 4099), (1000, 3), (6, 66)]


@pytest.fixture
def side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor that fetches four runs of memory at once."""
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(0, 4))


@pytest.mark.parametrize("function", ["maximum", "pow"])
@pytest.mark.usefixtures("side_by_side")
def test_rows_have_the_bits_that_they_have_alone(function: str) -> None:
    program = parse(LAYER.replace("FUNCTION", function))
    segment = compiled(program)
    assert ("lane5[64]" in segment.source) is (function == "maximum")
    for n, m in SHAPES:
        a, x, b = (RNG.standard_normal(shape).astype(np.float32) for shape in ((n, m), m, n))
        (together,) = agree(program, [a, x, b], segment=segment, n=n, m=m, rtol=1e-3, atol=1e-4)
        for row in range(min(n, 12)):
            alone = [a[row : row + 1], x, b[row : row + 1]]
            (one,) = run(segment, alone, {"n": 1, "m": m})
            assert one.tobytes() == together[row : row + 1].tobytes()


def test_bits_do_not_depend_on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    program, results, alone = parse(LAYER.replace("FUNCTION", "maximum")), [], 0
    a, x, b = (RNG.standard_normal(s).astype(np.float32) for s in ((21, 3001), 3001, 21))
    for found in (Fetching(1 << 13, 1), Fetching(0, 2), Fetching(0, 4), Fetching(1 << 11, 4)):
        monkeypatch.setattr(fetching, "fetching", lambda found=found: found)
        segment = compiled(program)
        lanes = segment.source.count("float lane")
        alone = alone or lanes
        assert lanes == alone + (found.runs if found.runs > 1 else 0)
        results.append(run(segment, [a, x, b], {"n": 21, "m": 3001})[0].tobytes())
    assert len(set(results)) == 1


@pytest.mark.usefixtures("side_by_side")
def test_tuples_over_several_outer_dimensions() -> None:
    program = parse(EXTREMES)
    segment = compiled(program)
    assert "lane7[64]" in segment.source
    for n, m in SHAPES:
        x = RNG.standard_normal((3, n, m))
        x[RNG.random(x.shape) < 0.001] = np.nan
        agree(program, [x], segment=segment, k=3, n=n, m=m)


@pytest.mark.usefixtures("side_by_side")
@pytest.mark.parametrize("n", [0, 1, 4096, 8192, 12288, 12289, 5 * 4096 - 1, 8 * 4096 + 70])
def test_tiles_of_a_sum_are_rows_whose_last_is_shorter(n: int) -> None:
    """Two arrays are two runs of memory: two tiles at once."""
    program = parse(TILES)
    segment = compiled(program)
    assert "lane1[64]" in segment.source
    x, y = (RNG.standard_normal(n).astype(np.float32) for _ in range(2))
    agree(program, [x, y], segment=segment, n=n, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("side_by_side")
@pytest.mark.parametrize("text", [LAYER.replace("FUNCTION", "maximum"), EXTREMES, TILES])
def test_imp_is_valid(text: str) -> None:
    check(lower_program(introduce(parse(text)), "entry")[0])
