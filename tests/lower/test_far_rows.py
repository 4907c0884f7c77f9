"""Rows in pages of their own are asked for some rounds before; other rows are not."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree
from lower.test_prefetch import recorded

from weft.compiler import with_memory
from weft.lower.far_rows import ROUNDS

BLOCKS = """program blocks(x: f32[k, WIDTH]) sizes n, k, m {
  let y: f32[n, RESULT] = kernel (b < n) {
    let r: f32[RESULT] = kernel (SPACE) {
      let a: f32 = x[READ]
      in a
    }
    in r
  }
  in y
}"""

THROUGH = """program through(x: f32[k, m]) sizes n, k, m {
  let y: f32[n, 40, 64] = kernel (b < n) {
    let t: f32[40, 1024] = kernel (i < 40, j < 1024) {
      let a: f32 = x[i, 64*b + j]
      let c: f32 = multiply(a, a)
      in c
    }
    let r: f32[40, 64] = kernel (i < 40, j < 64) {
      let a: f32 = t[i, j + 1]
      let c: f32 = t[i, j]
      let d: f32 = add(a, c)
      in d
    }
    in r
  }
  in y
}"""

WRITTEN = """program written(x: f32[n, 64]) sizes n, m {
  let y: f32[n, m] = kernel (b < n) {
    let e: f32[m] = empty f32 (m)
    let r: f32[m] = loop (v: f32[m] = e) for i from 0 to 40 {
      let s: f32[64] = kernel (j < 64) {
        let a: f32 = x[b, j]
        in a
      }
      let w: f32[m] = update v[1025*i for 64] = s
      in w
    }
    in r
  }
  in y
}"""


def blocks(
    space: str = "i < 40, j < 64", read: str = "i, 64*b + j", width: str = "m", result: str = ""
) -> str:
    extents = result or ", ".join(one.split("<")[1].strip() for one in space.split(","))
    text = BLOCKS.replace("SPACE", space).replace("READ", read)
    return text.replace("WIDTH", width).replace("RESULT", extents)


def asked(text: str, k: int, m: int) -> list[int]:
    """What the program asks of its argument, which is k x m, in two rounds of its kernel."""
    run = recorded(text, [np.zeros((k, m), np.float32)], 1 << 20, {}, n=2, k=k, m=m)
    return [at for places in run.asked.values() for at in places]


def test_each_line_of_a_later_row() -> None:
    m = 1501
    found = asked(blocks(), 40, m)
    for b in range(2):
        for i in range(ROUNDS, 40 + ROUNDS):
            lines = {(i * m + 64 * b + j) // 16 for j in range(64)}
            assert lines <= {at // 16 for at in found}
    assert len(found) == 2 * 40 * 5  # of 64 elements, the first of a line or not: 5 lines
    agree(blocks(), [np.random.default_rng(1).random((40, m), np.float32)], n=2, k=40, m=m)


@pytest.mark.parametrize(
    ("space", "read", "width", "k", "m", "reason"),
    [
        ("i < 40, j < 64", "i, 64*b + j", "512", 40, 512, "rows that share a page"),
        ("i < 40, j < 8", "i, 64*b + j", "m", 40, 1500, "less than a line"),
        ("i < 40, j < 512", "i, 64*b + j", "m", 40, 1500, "rows that are long enough"),
        ("i < 12, j < 64", "i, 64*b + j", "m", 40, 1500, "too few of them"),
        ("i < 40, j < 64", "b, i + j", "m", 40, 1500, "the same row"),
        ("i < 40, j < 64", "j, 64*b + i", "m", 64, 1500, "a column"),
        ("p < 4, i < 40, j < 64", "i + p, j", "m", 43, 1500, "rows that come again"),
    ],
)
def test_other_rows_are_not(
    space: str, read: str, width: str, k: int, m: int, reason: str
) -> None:
    assert not asked(blocks(space, read, width), k, m), reason


def test_rows_of_a_page_are() -> None:
    assert asked(blocks(width="1024"), 40, 1024)


def test_rows_of_a_thread_are_not() -> None:
    """They are in its cache; the rows that they are made of are too long."""
    assert not asked(THROUGH, 40, 1501)


def test_what_is_written_is() -> None:
    """Made in its place, that is; a row that is the same in all rounds is not."""
    m = 1025 * 40
    run = recorded(WRITTEN, [np.zeros((2, 64), np.float32)], 8 * m, {}, with_memory, n=2, m=m)
    ((result, found),) = run.asked.items()
    assert np.shares_memory(run.pointers[result], run.buffers[1])
    expected = [b * m + 1025 * i + j for b in range(2) for i in range(ROUNDS, 40 + ROUNDS)
                for j in (0, 16, 32, 48, 63)]  # fmt: skip
    assert sorted(found) == sorted(expected)
