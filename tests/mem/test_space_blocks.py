"""Blocks of tiled loops begin apart within pages; others are as large as they were."""

from __future__ import annotations

import pytest
from plan.test_leaning import PROGRAMS, given, leaning, planned

from weft.compiler import with_versions
from weft.fun import nodes as fun
from weft.fun.parse import parse
from weft.mem.check import check
from weft.mem.expand import LINE
from weft.mem.merge_blocks import element_sizes
from weft.mem.nodes import Program
from weft.mem.place_blocks import APART, place_blocks
from weft.mem.space_blocks import PAGE, space_blocks
from weft.passes.tile_time import tile_time
from weft.plan.segment import Dialect
from weft.runtime import apart

__all__ = ["leaning"]


MIXED = parse("""program mixed(x: f64[n], z: f64[n], h: f32[m]) sizes n, m, t {
  let y: f64[n], w: f64[n] = loop (a: f64[n] = x, e: f64[n] = z) for s from 0 to t {
    let b: f64[n] = kernel (i < n) {
      let c: f64 = e[i - 1 : edge(0, n)]
      let d: f64 = a[i + 1 : edge(0, n)]
      let f: f64 = subtract(c, d)
      in f
    }
    let g: f64[n] = kernel (i < n) {
      let c: f64 = b[i - 1 : edge(0, n)]
      let d: f64 = b[i + 1 : edge(0, n)]
      let f: f64 = subtract(c, d)
      in f
    }
    in b, g
  }
  let k: f32[m] = kernel (i < m) {
    let c: f32 = h[i]
    let d: f32 = add(c, c)
    in d
  }
  let last: f64[n] = kernel (i < n) {
    let c: f64 = y[n - 1 - i]
    let d: f64 = w[n - 1 - i]
    let u: f32 = k[0]
    let v: f64 = f64(u)
    let f: f64 = add(c, v)
    let l: f64 = add(d, f)
    in l
  }
  let back: f32[m] = kernel (i < m) {
    let c: f32 = k[m - 1 - i]
    in c
  }
  in last, back
}""")


def boxes(name: str) -> tuple[fun.Program, list[dict[str, int]]]:
    """The program of a box that leans, a loop over arrays, each in a block; sizes of boxes."""
    program, _ = PROGRAMS[name]
    sizes = dict(zip(program.sizes, (997, *(3,) * (len(program.sizes) - 2), 6), strict=True))
    sinks = [None] * len(program.body.results)
    (stage,) = planned(program, sizes, given(program, sizes), sinks, 1 << 12).stages
    values = [dict(zip(stage.code.integers, row.tolist(), strict=True)) for row in stage.integers]
    return stage.stage.program, values


def with_memory(program: fun.Program) -> Program:
    return with_versions(program, {}, "", "opencl")[0]


def begins(program: Program, sizes: dict[str, int]) -> list[int]:
    """Where blocks begin within a page."""
    values = {**sizes, "threads": 2}
    for entry in program.program.derived:
        values[entry.name] = entry.evaluate(values)
    assert all(block.bytes.evaluate(values) > 0 for block in program.blocks)
    places = place_blocks(program).places
    return [place.offset.evaluate(values) % PAGE for place in places.values()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_apart_for_any_sizes(name: str, leaning: None) -> None:
    program, values = boxes(name)
    spaced = with_memory(tile_time(program))
    check(spaced)
    assert PAGE == apart.PAGE  # of which the runtime knows
    assert len(spaced.blocks) >= 2
    assert len(values) > 2
    for sizes in values:
        expected = [n * (APART + LINE) % PAGE for n in range(len(spaced.blocks))]
        assert sorted(begins(spaced, sizes)) == sorted(expected)


def test_others_are_as_they_were(leaning: None) -> None:
    program, values = boxes("line")
    untiled = with_memory(program)
    assert space_blocks(untiled) is untiled
    assert any(sorted(begins(untiled, sizes)) != [0, APART + LINE] for sizes in values)


def test_one_block_is_next_to_nothing(leaning: None) -> None:
    spaced = with_memory(tile_time(boxes("line")[0]))
    only = Program(spaced.program, spaced.blocks[:1], spaced.destinations)
    assert space_blocks(only) is only


@pytest.mark.parametrize("dialect", ["c", "opencl", "cuda"])
def test_elements_are_aligned_beside_smaller_ones(dialect: Dialect) -> None:
    (program, *_) = with_versions(tile_time(MIXED), {}, "", dialect)
    assert any(entry.name.startswith("rest") for entry in program.program.derived)
    elements = element_sizes(program)
    for n, m in ((1, 1), (13, 3), (1001, 333), (512, 1025)):
        values = {"n": n, "m": m, "t": 5, "threads": 2}
        for entry in program.program.derived:
            values[entry.name] = entry.evaluate(values)
        for name, place in place_blocks(program).places.items():
            assert place.offset.evaluate(values) % max(elements[name]) == 0
