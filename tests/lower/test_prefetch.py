"""What is asked for before it is read: what the loop comes to, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lower.harness import agree

from weft.fun.parse import parse
from weft.imp import interpret
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.lower import fetching, past_caches, stencil_rows, strips
from weft.lower.fetching import Fetching
from weft.lower.segment import integers, lower_program
from weft.mem import nodes as mem
from weft.mem.introduce import introduce

AHEAD = 1 << 13

SUM = """program sum(x: f32[n], k: i64[n], v: f32[n]) sizes n {
  let r: f32 = reduce (; i < n) from 0.0_f32 {
    let p: i64 = k[i]
    let a: f32 = READ
    in a
  } with (l: f32, m: f32) { let t: f32 = add(l, m) in t }
  in r
}"""

ROWS = """program rows(a: f32[n, m], x: f32[m]) sizes n, m {
  let y: f32[n] = kernel (i < n) {
    let s: f32 = reduce (; j < m) from 0.0_f32 {
      let p: f32 = a[i, j]
      let q: f32 = x[j]
      let r: f32 = multiply(p, q)
      in r
    } with (l: f32, k: f32) { let t: f32 = add(l, k) in t }
    in s
  }
  in y
}"""

STENCIL = """program blur(x: f32[n, m]) sizes n, m {
  let y: f32[n, m] = kernel (i < n, j < m) {
    let a: f32 = x[i - 1: edge(0, n), j: edge(0, m)]
    let b: f32 = x[i: edge(0, n), j + 1: edge(0, m)]
    let c: f32 = x[i + 1: edge(0, n), j: edge(0, m)]
    let d: f32 = add(a, b)
    let e: f32 = add(d, c)
    in e
  }
  in y
}"""

COLUMNS = """program columns(x: f32[n, m]) sizes n, m {
  let y: f32[m] = kernel (j < m) {
    let s: f32 = reduce (; i < n) from 0.0_f32 {
      let a: f32 = x[i, j]
      let b: f32 = x[0, j]
      let c: f32 = subtract(a, b)
      in c
    } with (l: f32, k: f32) { let t: f32 = add(l, k) in t }
    in s
  }
  in y
}"""


@pytest.fixture(autouse=True)
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a processor that gains by it."""
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(AHEAD, 1))


class Recorder(interpret._Run):
    """An interpreter that remembers which elements were asked for, and which were read."""

    def __init__(self, buffers: list[Any]) -> None:
        super().__init__(buffers)
        self.asked: dict[str, list[int]] = {}
        self.read: dict[str, list[int]] = {}
        self.late: dict[str, set[int]] = {}  # read before they were asked for
        self.burst = self.longest = 0  # how many were asked for with none read in between

    def expr(self, expr: imp.Expr) -> Any:
        if isinstance(expr, imp.Load):
            self.burst = 0
            index = self.integer(expr.index)
            name = expr.pointer.name
            self.read.setdefault(name, []).append(index)
            if index % 16 == 0 and index not in self.asked.get(name, ()):
                self.late.setdefault(name, set()).add(index)
        return super().expr(expr)

    def statement(self, statement: imp.Stmt) -> None:
        if isinstance(statement, imp.Prefetch):
            self.burst += 1
            self.longest = max(self.longest, self.burst)
            name = statement.pointer.name
            self.asked.setdefault(name, []).append(self.integer(statement.index))
        super().statement(statement)


def recorded(
    text: str, arguments: list[Any], results: int, layouts: Any,
    with_memory: Callable[..., mem.Program] = introduce, **sizes: int,
) -> Recorder:  # fmt: skip
    """The program run over arguments and `results` bytes of a result."""
    memory = with_memory(parse(text), layouts)
    lowered, unit, workspace = lower_program(memory, "entry")
    check(lowered)
    sizes["threads"] = 1
    for derived in unit.derived:
        sizes[derived.name] = derived.evaluate(sizes)
    buffers = [np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in arguments]
    buffers += [np.zeros(results, np.uint8), np.zeros(workspace.evaluate(sizes) + 64, np.uint8)]
    run = Recorder(buffers)
    names = (*integers(memory), *(d.name for d in unit.derived if d.name in unit.taken))
    for var, name in zip(lowered.integers, names, strict=True):
        run.scalars[var.name] = np.int64(sizes[name])
    run.block(lowered.body)
    assert run.failure == (0, 0, 0)
    return run


def pointer_of(run: Recorder, buffer: int) -> str:
    """The pointer that reads a buffer."""
    (found,) = [
        name for name in run.read
        if np.shares_memory(run.pointers[name], run.buffers[buffer])
    ]  # fmt: skip
    return found


def sums(read: str, n: int) -> Recorder:
    data = [np.zeros(n, np.float32), np.zeros(n, np.int64), np.zeros(n, np.float32)]
    return recorded(SUM.replace("READ", read), data, 4, {}, n=n)


def test_neighbours_are_asked_for_before_they_are_read() -> None:
    n = 8192
    run = sums("x[i]", n)
    x = pointer_of(run, 0)
    ahead = min(run.asked[x])
    assert 0 < ahead * 4 <= AHEAD
    assert {at // 16 for at in run.asked[x]} == {at // 16 for at in range(ahead, n + ahead)}
    assert run.late[x] == set(range(0, ahead, 16))


@pytest.mark.parametrize("read", ["x[p]", "x[n - i - 1]", "x[0]"])
def test_what_does_not_follow_the_lane_is_not(read: str) -> None:
    """Neither where data decide the index nor where it takes other steps."""
    run = sums(read, 256)
    assert pointer_of(run, 0) not in run.asked
    assert pointer_of(run, 1) in run.asked


def test_rows_in_sequence_go_on_in_the_next() -> None:
    n, m = 6, 640
    a, x = np.zeros((n, m), np.float32), np.zeros(m, np.float32)
    run = recorded(ROWS, [a, x], 4 * n, {}, n=n, m=m)
    matrix, vector = pointer_of(run, 0), pointer_of(run, 1)
    assert vector not in run.asked  # the same in every row
    ahead = AHEAD // 4
    assert {at // 16 for at in run.asked[matrix]} == {
        at // 16 for at in range(ahead, n * m + ahead)
    }


@pytest.mark.parametrize("m", [128, 640, 2560])
def test_rows_apart_are_followed_from_end_to_beginning(m: int) -> None:
    n, pitch = 5, 4096
    a, x = np.zeros((n, pitch), np.float32), np.zeros(m, np.float32)
    run = recorded(ROWS, [a, x], 4 * n, {"a": "rows"}, n=n, m=m, **{"a.stride0": pitch})
    matrix = pointer_of(run, 0)
    wanted = {row * pitch + column for row in range(n + 1) for column in range(0, m, 16)}
    assert set(run.asked[matrix]) <= wanted
    first = min(m, AHEAD // 4)
    begun = {at for at in wanted if at >= (first if first < m else pitch)}
    assert {at for at in begun if at < (n - 1) * pitch + m} <= set(run.asked[matrix])


@pytest.mark.parametrize("layout", ["contiguous", "rows"])
@pytest.mark.parametrize("m", [96, 640])
def test_rows_side_by_side_go_on_in_the_next_ones(
    layout: str, m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four at once share the bytes; behind a row's end comes what is four rows further."""
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(1 << 11, 4))
    n, pitch = 8, m if layout == "contiguous" else 1024
    layouts, stride = ({}, {}) if pitch == m else ({"a": "rows"}, {"a.stride0": pitch})
    a, x = np.zeros((n, pitch), np.float32), np.zeros(m, np.float32)
    run = recorded(ROWS, [a, x], 4 * n, layouts, n=n, m=m, **stride)
    matrix, vector = pointer_of(run, 0), pointer_of(run, 1)
    assert vector not in run.asked
    share = min(m, (1 << 11) // 4 // 4)
    wanted = [row * pitch + column for row in range(n) for column in range(share, m, 16)]
    wanted += [row * pitch + column for row in range(4, n + 4) for column in range(0, share, 16)]
    whole = m // 64 * 64  # what is left of a row is asked for by nobody
    begun = {row * pitch + column for row in range(n) for column in range(0, whole, 16)}
    assert set(run.asked[matrix]) <= set(wanted)
    assert begun - run.late[matrix] == begun & set(run.asked[matrix])
    assert len(run.asked[matrix]) == n * whole // 16


def test_of_a_stencil_the_row_furthest_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_caches, "LARGE", 1 << 12)
    monkeypatch.setattr(stencil_rows, "TOGETHER", ())
    n, m = 4, 1024
    run = recorded(STENCIL, [np.zeros((n, m), np.float32)], 4 * n * m, {}, n=n, m=m)
    x = pointer_of(run, 0)
    ahead = AHEAD // 4 + m
    assert min(run.asked[x]) == ahead
    assert len(run.asked[x]) == n * m // 16
    agree(STENCIL, [np.random.default_rng(1).random((n, m), np.float32)], n=n, m=m)


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_rows_of_a_stencil_side_by_side_ask_for_those_after_them(
    runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each for its own; for none where the processor follows so many rows by itself."""
    monkeypatch.setattr(past_caches, "LARGE", 1 << 12)
    monkeypatch.setattr(stencil_rows, "TOGETHER", (2,))
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(1 << 11, runs))
    n, m = 8, 1024
    x = np.random.default_rng(1).random((n, m), np.float32)
    run = recorded(STENCIL, [x], 4 * n * m, {}, n=n, m=m)
    asked = run.asked.get(pointer_of(run, 0), [])
    if runs == 2:
        assert not asked
        return
    assert min(asked) == (1 << 11) // 4 // 2 + m
    assert len(asked) == n * m // 16
    assert set(range(3 * m, n * m, 16)) <= set(asked)


@pytest.mark.parametrize(("at_once", "lines"), [(1 << 14, 32), (1 << 9, 8), (1, 4)])
def test_large_results_ask_for_so_much_at_once(
    at_once: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for no less than a block of lanes; a row's last part is shorter."""
    monkeypatch.setattr(past_caches, "LARGE", 1 << 12)
    monkeypatch.setattr(stencil_rows, "TOGETHER", ())
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(1 << 11, 4, at_once))
    n, m = 4, 1043
    x = np.random.default_rng(1).random((n, m), np.float32)
    run = recorded(STENCIL, [x], 4 * n * m, {}, n=n, m=m)
    assert run.longest == lines
    ahead, asked = (1 << 11) // 4 + m, run.asked[pointer_of(run, 0)]
    wanted = set(range(ahead, ahead + (n - 1) * m))
    assert wanted <= {at + k for at in asked for k in range(16)}
    agree(STENCIL, [x], n=n, m=m)


@pytest.mark.parametrize(("at_once", "lines"), [(1 << 14, 4 * 32), (1 << 9, 4 * 8)])
@pytest.mark.parametrize("layout", ["contiguous", "rows"])
def test_columns_ask_for_later_rows(
    layout: str, at_once: int, lines: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four rows at once, whose rounds are jammed: whole ones, or a few lines of each at a time."""
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(AHEAD, 1, at_once))
    n, m, pitch = 12, 512, 512 if layout == "contiguous" else 1024
    layouts, stride = ({}, {}) if pitch == m else ({"x": "rows"}, {"x.stride0": pitch})
    x = np.zeros((n, pitch), np.float32)
    run = recorded(COLUMNS, [x], 4 * m, layouts, n=n, m=m, **stride)
    rows = range(AHEAD // 4 // m, n + AHEAD // 4 // m)
    wanted = [row * pitch + column for row in rows for column in range(0, m, 16)]
    assert sorted(run.asked[pointer_of(run, 0)]) == wanted
    assert run.longest == lines


@pytest.mark.parametrize(
    ("limit", "large", "layout", "in_turn"),
    [
        (4 * 48 + 1, 4 * 48 * 37, "contiguous", True),
        (4 * 48, 4 * 48 * 37, "contiguous", False),  # rows are not short
        (4 * 48 + 1, 4 * 48 * 37 + 1, "contiguous", False),  # it may lie in a cache
        (4 * 48 + 1, 4 * 48 * 37, "rows", False),  # rows lie apart
        (0, 0, "contiguous", False),
    ],
)
def test_short_rows_of_large_arrays_are_read_in_turn(
    limit: int, large: int, layout: str, in_turn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(0, 4, in_turn=limit))
    monkeypatch.setattr(strips, "LARGE", large)
    n, m, pitch = 37, 48, 48 if layout == "contiguous" else 64
    layouts, stride = ({}, {}) if pitch == m else ({"x": "rows"}, {"x.stride0": pitch})
    text = COLUMNS.replace("let b: f32 = x[0, j]", "let b: f32 = negative(a)")
    run = recorded(text, [np.zeros((n, pitch), np.float32)], 4 * m, layouts, n=n, m=m, **stride)
    read = run.read[pointer_of(run, 0)]
    assert len(read) == n * m
    assert (read == sorted(read)) is in_turn


def test_nothing_is_asked_for_where_that_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(0, 4))
    assert not sums("x[i]", 8192).asked


@pytest.mark.parametrize("columns", [False, True])
def test_columns_may_ask_for_nothing(columns: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "fetching", lambda: Fetching(AHEAD, 1, columns=columns))
    n, m = 12, 512
    run = recorded(COLUMNS, [np.zeros((n, m), np.float32)], 4 * m, {}, n=n, m=m)
    assert bool(run.asked) is columns
    assert sums("x[i]", 8192).asked  # whatever columns do


@pytest.mark.parametrize(
    ("text", "vector", "expected"),
    [
        ("vendor_id\t: GenuineIntel\nflags\t: avx2 avx512f", 64, Fetching(1 << 11, 4, 1 << 9)),
        ("vendor_id\t: GenuineIntel\nflags\t: avx2", 32, Fetching(1 << 11, 4, 1 << 9)),
        ("vendor_id\t: AuthenticAMD\nflags\t: avx2 avx512f", 64, Fetching(1 << 13, 1)),
        ("vendor_id\t: AuthenticAMD\nflags\t: avx2", 32, Fetching(0, 4, in_turn=1 << 13)),
        (
            "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t: 17\nflags\t: avx512f", 64,
            Fetching(1 << 13, 1, in_turn=1 << 13, columns=False),
        ),
        ("", 16, Fetching(1 << 13, 1)),
    ],
)
def test_how_far_ahead_is_by_the_processor(text: str, vector: int, expected: Fetching) -> None:
    assert fetching.of_processor(text, vector) == expected
