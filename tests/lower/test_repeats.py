"""Elements that are done twice at the end of a row: only where that gives the same again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from lower.harness import agree, compiled

from weft.compiler import with_memory
from weft.fun.parse import parse
from weft.lower import masks
from weft.lower.registers import Registers
from weft.lower.segment import compile_segment
from weft.printers.c import print_program

RNG = np.random.default_rng(23)

# Two arrays at a time, in halves of one block that take turns.
ROUNDS = """program rounds(x: f32[n, m]) sizes n, m, k {
  let r: f32[n, m] = loop (v: f32[n, m] = x) for t from 0 to k {
    let w: f32[n, m] = kernel (i < n, j < m) {
      let a: f32 = v[i - 1: edge(0, n), j]
      let b: f32 = v[i, j - 1: edge(0, m)]
      let c: f32 = v[i, j + 1: edge(0, m)]
      let d: f32 = subtract(b, c)
      let e: f32 = multiply(d, 0.25_f32)
      let f: f32 = add(a, e)
      in f
    }
    in w
  }
  in r
}"""

# The sum is where its first operand was.
IN_PLACE = """program in_place(x: f32[n, m], z: f32[n, m]) sizes n, m {
  let v: f32[n, m] = scan (i < n, j < m) from 0.0_f32 {
    let a: f32 = x[i, j]
    in a
  } with (l: f32, r: f32) { let s: f32 = add(l, r) in s }
  let w: f32[n, m] = kernel (i < n, j < m) {
    let a: f32 = v[i, j]
    let b: f32 = z[i, j - 1: edge(0, m)]
    let c: f32 = subtract(a, b)
    in c
  }
  in w
}"""


@pytest.fixture(autouse=True)
def slow_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor whose vectors are 32 bytes long."""
    monkeypatch.setattr(masks, "registers", lambda: Registers(16, 32))


def repeats(text: str) -> bool:
    return "piece" in compiled(parse(text)).source


def test_halves_of_a_block_are_told_apart_at_launch() -> None:
    program = parse(ROUNDS)
    segment = compiled(program)
    assert "piece" in segment.source
    assert "!= 0" in segment.source
    for n, m in itertools.product((1, 2, 5), (1, 2, 8, 9, 10, 17, 18, 31, 33, 100)):
        x = RNG.standard_normal((n, m)).astype(np.float32)
        agree(program, [x], segment=segment, rtol=0, n=n, m=m, k=3)


def test_buffers_that_take_turns_are_told_apart_at_launch() -> None:
    """The rounds' arrays are in the result's memory and in a block, by turns."""
    memory = with_memory(parse(ROUNDS), {})
    assert memory.choices
    segment = compile_segment(memory, "weft_entry", print_program)
    assert "piece" in segment.source
    for m in (1, 9, 10, 18, 100):
        x = RNG.standard_normal((4, m)).astype(np.float32)
        for k in (0, 1, 4):
            agree(parse(ROUNDS), [x], segment=segment, rtol=0, n=4, m=m, k=k)


def test_what_reads_what_it_writes_is_done_once() -> None:
    program = parse(IN_PLACE)
    segment = compiled(program)
    assert "piece" not in segment.source
    for m in (1, 9, 10, 17, 100):
        x, z = (RNG.standard_normal((3, m)).astype(np.float32) for _ in range(2))
        agree(program, [x, z], segment=segment, atol=1e-4, n=3, m=m)


def test_what_reads_other_memory_is_done_twice() -> None:
    assert repeats(IN_PLACE.replace("v[i, j]\n    let b", "x[i, j]\n    let b"))


def test_masks_that_cost_little_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "registers", lambda: Registers(32, 64))
    assert not repeats(ROUNDS)
