"""Which accesses are proved, and which are checked where they are."""

from __future__ import annotations

import pytest
from lower.harness import compiled

from weft.fun.parse import parse

# An array of as many elements as a minimum says, or a maximum, read at an index of some range.
READ = """program read(x: f64[n], k: i64[1]) sizes n
{{
  let a: i64 = k[0]
  let s: i64 = size n
  let m: i64 = minimum(a, s)
  let l: i64 = maximum(m, 1)
  let z: f64[{extent}] = kernel (i < {extent}) {{ in 2.0 }}
  let y: f64 = reduce (; j < {range}) from 0.0 {{ let v: f64 = z[{index}] in v }}
    with (u: f64, w: f64) {{ let t: f64 = add(u, w) in t }}
  in y
}}"""


@pytest.mark.parametrize("extent", ["m", "l", "m + 3", "n"])
def test_an_index_that_ends_with_its_array_is_inside(extent: str) -> None:
    """Whatever the minimum or maximum comes to: it cancels out."""
    program = parse(READ.format(extent=extent, range=extent, index="j"))
    assert not compiled(program).failures


@pytest.mark.parametrize(("extent", "range_", "index"), [
    ("m", "m", "j + 1"), ("m", "l", "j"), ("m", "n", "j"), ("m", "m + 1", "j"),
])  # fmt: skip
def test_others_are_checked(extent: str, range_: str, index: str) -> None:
    program = parse(READ.format(extent=extent, range=range_, index=index))
    assert [failure.array for failure in compiled(program).failures] == ["z"]
