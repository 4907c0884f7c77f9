"""Rows of a stencil, several side by side."""

from __future__ import annotations

import re

import numpy as np
import pytest
from lower.harness import agree, compiled, run

from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.lower import past_caches, stencil_rows
from weft.lower.caches import Caches
from weft.mem.introduce import introduce

RNG = np.random.default_rng(19)

PLANE = """program cross(x: f64[n, m], w: f64[n, m]) sizes n, m {
  let y: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i - 1: edge(0, n), j: edge(0, m)]
    let b: f64 = x[i + 1: edge(0, n), j: edge(0, m)]
    let c: f64 = x[i: edge(0, n), j + 1: edge(0, m)]
    let d: f64 = w[i, j]
    let e: f64 = add(a, b)
    let f: f64 = multiply(e, c)
    let g: f64 = subtract(f, d)
    in g
  }
  in y
}"""

SOLID = """program cross(x: f64[p, n, m]) sizes p, n, m {
  let y: f64[p, n, m], z: f64[p, n, m] = kernel (h < p, i < n, j < m) {
    let a: f64 = x[h - 1: wrap(0, p), i - 1: edge(0, n), j]
    let b: f64 = x[h, i, j]
    let c: f64 = add(a, b)
    let d: f64 = x[h, i - 1: constant(0, n, 2.0), j]
    let e: f64 = add(c, d)
    in c, e
  }
  in y, z
}"""

INTERIOR = """program interior(x: f64[n, m]) sizes n, m {
  let y: f64[n - 2, m - 2] = kernel (i < n - 2, j < m - 2) {
    let a: f64 = x[i, j + 1]
    let b: f64 = x[i + 1, j]
    let c: f64 = x[i + 2, j + 2]
    let d: f64 = add(a, b)
    let e: f64 = add(d, c)
    in e
  }
  in y
}"""

BODY = """program blur(x: f64[n, m], s: i64) sizes n, m {
  let y: f64[n, m] = kernel (i < n, j < m) {
    let a: f64 = x[i, j]
    let b: f64 = x[ROW: edge(0, n), COLUMN: edge(0, LIMIT)]
    let c: f64 = add(a, b)
    STATEMENT
    in e
  }
  in y
}"""

KEEP = "let e: f64 = negative(c)"
SHAPES = [(1, 1), (2, 5), (4, 64), (5, 2), (9, 1031), (70, 129), (3, 0), (0, 3)]


@pytest.fixture(autouse=True)
def ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many rows, whatever this machine's first cache is like."""
    monkeypatch.setattr(stencil_rows, "caches", lambda: Caches(ways=12))


def count(text: str) -> int:
    exprs = [let.expr for let in introduce(parse(text), {}).program.body.statements]
    (kernel,) = [expr for expr in exprs if isinstance(expr, fun.Kernel)]
    return stencil_rows.count(kernel, kernel.space)


def blur(row: str = "i + 1", column: str = "j", limit: str = "m", statement: str = KEEP) -> str:
    text = BODY.replace("ROW", row).replace("COLUMN", column)
    return text.replace("LIMIT", limit).replace("STATEMENT", statement)


def test_rows_that_share_what_they_read_are_done_side_by_side() -> None:
    assert count(blur()) == 4


@pytest.mark.parametrize(("ways", "together"), [(3, 1), (6, 2), (8, 2), (9, 4), (12, 4)])
def test_as_many_as_the_first_cache_holds_lines_of(
    monkeypatch: pytest.MonkeyPatch, ways: int, together: int
) -> None:
    """Four rows read five and write four, of which all lines may share a set."""
    monkeypatch.setattr(stencil_rows, "caches", lambda: Caches(ways=ways))
    assert count(blur()) == together


@pytest.mark.parametrize("given", [
    {"row": "i", "column": "j + 1"},  # no row reads what another one reads
    {"row": "i + 1", "column": "j + i"},  # where rules apply along a row is that row's own
    {"limit": "i + 1"},
    {"statement": "let e: f64 = exp(c)"},  # vector math
    {"statement": "let k: i64 = size i let f: f64 = f64(k) let e: f64 = add(c, f)"},
    {"statement": "let t: bool = less(a, b) let e: f64 = if t { in a } else { in b }"},
])  # fmt: skip
def test_others_are_done_one_by_one(given: dict[str, str]) -> None:
    assert count(blur(**given)) == 1


def test_long_bodies_are_done_one_by_one() -> None:
    lines = [f"let c{k + 1}: f64 = add(c{k}, a)" for k in range(30)]
    text = "\n".join(["let c0: f64 = negative(c)", *lines, "let e: f64 = negative(c30)"])
    assert count(blur(statement=text)) == 1


@pytest.mark.parametrize("limit", [1 << 10, 1 << 40])
@pytest.mark.parametrize("text", [PLANE, INTERIOR])
def test_planes(monkeypatch: pytest.MonkeyPatch, text: str, limit: int) -> None:
    monkeypatch.setattr(past_caches, "LARGE", limit)
    program = parse(text)
    assert count(text) > 1
    segment = compiled(program)
    for n, m in SHAPES:
        if text == INTERIOR:
            n, m = n + 2, m + 2
        arrays = [RNG.standard_normal((n, m)) for _ in program.params]
        agree(program, arrays, segment=segment, n=n, m=m)


@pytest.mark.parametrize("limit", [1 << 10, 1 << 40])
def test_solids(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    monkeypatch.setattr(past_caches, "LARGE", limit)
    program = parse(SOLID)
    assert count(SOLID) == 2
    segment = compiled(program)
    for p, n, m in [(1, 1, 1), (2, 3, 65), (5, 4, 7), (3, 11, 200), (0, 3, 3), (3, 0, 3)]:
        x = RNG.standard_normal((p, n, m))
        agree(program, [x], segment=segment, p=p, n=n, m=m)


def test_bits_are_those_of_rows_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [RNG.standard_normal((41, 1003)) for _ in range(2)]
    found = []
    for together in ((4,), (2,), ()):
        monkeypatch.setattr(stencil_rows, "TOGETHER", together)
        found.append(run(compiled(parse(PLANE)), arrays, {"n": 41, "m": 1003})[0])
    assert len({array.tobytes() for array in found}) == 1


def test_an_element_that_two_rows_read_is_loaded_once() -> None:
    """Four rows read six elements, not twelve; one by itself reads three."""
    upright = INTERIOR.replace("j + 1", "j").replace("j + 2", "j")
    source = compiled(parse(upright)).source
    assert len(re.findall(r"= p\d+\[", source)) == 6 + 3


def test_checks_are_those_of_rows_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows side by side have nothing of their own to check at a launch."""
    several = compiled(parse(INTERIOR)).checks
    monkeypatch.setattr(stencil_rows, "TOGETHER", ())
    assert compiled(parse(INTERIOR)).checks == several
