"""Layouts of intermediate arrays: which are permuted, which stay, and what that is worth.

An oracle enumerates the addresses that 32 neighbouring work items meet, and counts the lines of
128 bytes in which they lie: the transactions of a GPU's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest
from devices.harness import compiled, device, run
from hypothesis import HealthCheck, given, settings
from mem.programs import CASES
from mem.test_introduce import agree, of, placed, sizes_of
from programs.library import EXAMPLES, SIZES
from programs.random_programs import Case, assert_agree, programs
from slow import examples

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret as by_value
from weft.fun.parse import parse as parse_fun
from weft.mem import neighbours
from weft.mem.check import check
from weft.mem.erase import erase
from weft.mem.interpret import interpret as by_heap
from weft.mem.nodes import MemArray, Program
from weft.mem.parse import parse
from weft.mem.permute_layouts import permute_layouts
from weft.mem.show import show
from weft.passes.nest import nest
from weft.passes.pipeline import optimise
from weft.sizes import Poly

LINE = 128
WARP = 32

HEAD = "program p(x: f64[n, m], z: f64) sizes n, m {\n"
ADD = " with (l: f64, r: f64) { let e: f64 = add(l, r) in e }\n"
SCAN = "  let t: f64[m, n] = scan (i < m, j < n) from z { let a: f64 = x[j, i] in a }" + ADD
MAP = """  let t: f64[m, n] = kernel (j < m, i < n) {
    let a: f64 = x[i, j]
    let b: f64 = multiply(a, a)
    in b
  }
"""
SUMS = """  let y: f64[m] = kernel (p < m) {
    let c: f64 = loop (s: f64 = 0.0_f64) for q from 0 to n {
      let f: f64 = t[p, q]
      let g: f64 = multiply(s, f)
      let d: f64 = add(f, g)
      in d
    }
    in c
  }
  in y
}"""
SHIFT = """  let y: f64[n, m] = kernel (p < n, q < m) {
    let f: f64 = t[q, p]
    let g: f64 = multiply(f, z)
    in g
  }
  in y
}"""
PRODUCT = SHIFT.replace("multiply(f, z)", "multiply(f, h)").replace(
    "    let g", "    let h: f64 = t[q, 0]\n    let g"
)
BACK = """  let y: f64[m, n] = kernel (p < m, q < n) {
    let f: f64 = t[p, q]
    let g: f64 = multiply(f, z)
    in g
  }
  in y
}"""

PERMUTED = {"scan and map": HEAD + SCAN + SHIFT, "map and map": HEAD + MAP + PRODUCT,
            "scan and rows": HEAD + SCAN + SUMS}  # fmt: skip
STAYS = {
    "as many apart either way": HEAD + MAP + SHIFT,
    "more apart": HEAD + MAP + BACK,
    "a loop carries it": HEAD + SCAN + """
  let u: f64[m, n] = loop (v: f64[m, n] = t) for k from 0 to 2 {
    let w: f64[m, n] = kernel (b < m, c < n) { let d: f64 = v[b, c] in d }
    in w
  }
""" + SHIFT.replace("t[q, p]", "u[q, p]"),
    "a result": HEAD + SCAN + "  in t\n}",
    "its elements are taken as a list": HEAD + SCAN + """  let v: f64[m*n] = reshape t (m*n)
  let y: f64[m*n] = kernel (p < m*n) { let f: f64 = v[p] let g: f64 = multiply(f, z) in g }
  in y
}""",
    "a part is updated": HEAD + SCAN + "  let u: f64[m, n] = update t[0, 0] = z\n"
    + SHIFT.replace("t[q, p]", "u[q, p]"),
    "a part is handed on": HEAD + SCAN + """  let v: f64[1, n] = slice t[0 for 1, 0 for n]
  let y: f64[n] = kernel (p < n) { let f: f64 = v[0, p] let g: f64 = multiply(f, z) in g }
  in y
}""",
}  # fmt: skip


def both(text: str) -> tuple[Program, Program]:
    before = placed(parse_fun(text))
    return before, permuted(before)


def permuted(before: Program) -> Program:
    """After the pass, which keeps what every pass on FUNMEM keeps."""
    after = permute_layouts(before)
    check(after, "permute_layouts")
    assert erase(after) == erase(before)
    assert after.blocks == before.blocks
    assert parse(show(after)) == after
    assert permute_layouts(after) == after
    return after


# ---------------------------------------------------------------- the oracle


def transactions(program: Program, sizes: dict[str, int]) -> int:
    """Lines of memory that the warps of each statement meet, whichever way is better."""
    total = 0
    for let in walk.sequential(program.program.body):
        match let.expr:
            case fun.Kernel(space, body):
                total += _lines(let, body, space, (), space[-1], sizes)
            case fun.Reduce(space, reduced, body) if reduced < len(space):
                kept, inner = space[: len(space) - reduced], space[len(space) - reduced :]
                total += min(
                    _lines(let, body, kept, inner, r, sizes) for r in (kept[-1], inner[-1])
                )
            case fun.Scan(space, body) if len(space) > 1:
                total += min(_lines(let, body, space, (), r, sizes) for r in space[-2:])
            case _:
                pass
    return total


def _loops(body: fun.Body) -> Iterator[fun.Range]:
    for let in walk.statements(body):
        if isinstance(let.expr, fun.Loop) and isinstance(let.expr.form, fun.For):
            yield fun.Range(let.expr.form.index, let.expr.form.upper)


def _lines(
    let: fun.Let, body: fun.Body, space: tuple[fun.Range, ...], inner: tuple[fun.Range, ...],
    item: fun.Range, sizes: dict[str, int],
) -> int:  # fmt: skip
    """Of every access, at every index: neighbours along `item` in warps of 32."""
    every = (*space, *inner, *_loops(body))
    extents = [r.extent.evaluate(sizes) for r in every]
    grid = np.meshgrid(*map(np.arange, extents), indexing="ij")
    values: dict[str, Any] = dict(sizes)
    values |= {r.index.name: points for r, points in zip(every, grid, strict=True)}
    written = [
        (var.type, tuple(Poly.var(r.index.name) for r in space))
        for var in let.pattern
        if isinstance(var.type, MemArray)
    ]
    axis, found = every.index(item), 0
    for array, indices in (*neighbours.reads(body.statements), *written):
        at = np.broadcast_to(array.index.apply(indices).evaluate(values), extents)  # type: ignore
        rows = np.moveaxis(at * array.dtype.itemsize // LINE, axis, -1).reshape(-1, extents[axis])
        for begin in range(0, extents[axis], WARP):
            found += sum(len(set(row)) for row in rows[:, begin : begin + WARP].tolist())
    return found


# ---------------------------------------------------------------- accepted and rejected


@pytest.mark.parametrize("name", list(PERMUTED))
def test_fewer_transactions(name: str) -> None:
    before, after = both(PERMUTED[name])
    assert after != before
    part = 0.8 if name == "map and map" else 0.4
    for n, m in ((64, 64), (70, 45)):
        sizes = {"n": n, "m": m}
        assert transactions(after, sizes) < part * transactions(before, sizes)


def test_as_text(golden: Callable[[str], None]) -> None:
    golden(show(both(PERMUTED["scan and map"])[1]))


@pytest.mark.parametrize("name", list(STAYS))
def test_what_stays(name: str) -> None:
    before, after = both(STAYS[name])
    assert after == before


def test_parameters_stay() -> None:
    before, after = both(HEAD + BACK.replace("t[p, q]", "x[q, p]"))
    assert after == before


def test_three_dimensions() -> None:
    """Of six layouts the one that the reads ask for, where the first index is an item's."""
    text = """program p(x: f64[n, k, m], z: f64) sizes n, m, k {
      let t: f64[k, m, n] = scan (l < k, j < m, i < n) from z { let a: f64 = x[i, l, j] in a }
        with (p: f64, r: f64) { let u: f64 = add(p, r) in u }
      let y: f64[n, k, m] = kernel (f < n, g < k, h < m) {
        let b: f64 = t[g, h, f]
        let c: f64 = multiply(b, z)
        in c
      }
      in y
    }"""
    before, after = both(text)
    sizes = {"n": 33, "m": 40, "k": 5}
    assert transactions(after, sizes) < 0.4 * transactions(before, sizes)
    x = np.random.default_rng(1).normal(size=(33, 5, 40))
    arguments = [x, np.float64(0.5)]
    agree(by_heap(after, arguments), by_value(parse_fun(text), arguments))


# ---------------------------------------------------------------- the same meaning


@pytest.mark.parametrize("name", list(PERMUTED))
def test_on_a_device(name: str) -> None:
    on = device()
    program = parse_fun(PERMUTED[name])
    plain, moved = compiled(program, "no-permute-layouts"), compiled(program)
    assert plain.source != moved.source
    for n, m in ((1, 1), (7, 33), (65, 31)):
        x = np.random.default_rng(n).normal(size=(n, m)) / 4
        expected = by_value(program, [x, np.float64(0.5)])
        for is_processor in (True, False):
            with mock.patch.object(on, "is_processor", is_processor):
                for segment in (plain, moved):
                    found = run(on, program, segment, [x, 0.5], {"n": n, "m": m})
                    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_hand_built(name: str) -> None:
    program, arguments = CASES[name]()
    sizes = sizes_of(name)
    agree(by_heap(permuted(of(name)), arguments, sizes), by_value(program, arguments, sizes))


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.startswith("call_")])
def test_library(name: str) -> None:
    example = EXAMPLES[name]
    after = permuted(placed(nest(optimise(example.program))))
    arguments = example.arguments()
    assert_agree(by_heap(after, arguments, SIZES), example.results(arguments))


@given(case=programs())
@settings(
    max_examples=examples(100), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_random_programs(case: Case) -> None:
    wanted = by_value(case.program, case.arguments, case.sizes)
    for source in (case.program, nest(optimise(case.program))):
        after = permuted(placed(source))
        assert_agree(by_heap(after, case.arguments, case.sizes), wanted)
