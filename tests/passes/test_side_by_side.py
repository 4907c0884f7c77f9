"""Records that lanes read again and again are copied to columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from passes.programs import agree, before_after

import weft as wf
from weft.compiler import choices
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.check import check
from weft.fun.parse import parse
from weft.passes.side_by_side import records, side_by_side
from weft.plan.decisions import decide, every_decision

RNG = np.random.default_rng(32)
SUM = "with (l: f64, r: f64) { let s: f64 = add(l, r) in s }"


def sums(
    read: str = "let a: f64 = x[k, 0] let b: f64 = x[k, 2]", array: str = "x: f64[m, w]",
    fact: str = "fact w - 3 >= 0", extent: str = "m",
) -> str:  # fmt: skip
    """For each of n numbers, a sum over m records."""
    return f"""
    program p({array}, y: f64[n]) sizes n, m, w
      {fact}
    {{
      let z: f64[n] = kernel (i < n) {{
        let f: f64 = y[i]
        let g: f64 = reduce (; k < {extent}) from -0.0 {{
          {read}
          let c: f64 = multiply(a, b)
          let d: f64 = multiply(c, f)
          in d
        }} {SUM}
        in g
      }}
      in z
    }}"""


def copies(program: fun.Program) -> int:
    """How many arrays are read with their records in columns."""
    return sum(isinstance(let.expr, fun.Permute) for let in walk.statements(program.body))


def test_golden(golden: Callable[[str], None]) -> None:
    golden(before_after(sums(), side_by_side))


def test_meaning() -> None:
    before = parse(sums())
    after = side_by_side(before)
    check(after)
    agree(before, after, [RNG.random((5, 4)), RNG.random(3)], rtol=0, n=3, m=5, w=4)
    assert copies(after) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fact": "", "read": "let a: f64 = x[k, 2] let b: f64 = add(f, 0.0)"},
         "a record may have two numbers"),
        ({"read": "let a: f64 = x[k, 0] let b: f64 = y[k]", "array": "x: f64[m, 1]"},
         "records of one number are side by side"),
        ({"read": "let a: f64 = x[0, k] let b: f64 = x[1, k]", "extent": "w"},
         "rows are side by side"),
        ({"read": "let a: f64 = x[k, i] let b: f64 = add(f, 0.0)"}, "any number of it"),
        ({"read": "let a: f64 = x[i, 0] let b: f64 = x[i, 2]"}, "one record for a row"),
        ({"read": "let a: f64 = x[2*k, 0] let b: f64 = add(f, 0.0)"}, "every other record"),
        ({"read": "let a: f64 = x[k + 1 : edge(0, m), 0] let b: f64 = add(f, 0.0)"},
         "not all once"),
        ({"extent": "3"}, "a few records are no lanes"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)  # fmt: skip
def test_what_is_read_as_it_lies(change: dict[str, str], why: str) -> None:
    before = parse(sums(**change))
    assert side_by_side(before) == before, why
    assert not records(before)


def test_what_a_branch_reads_may_not_be_there() -> None:
    branch = """let c0: bool = less(f, 0.5)
      let a: f64 = if c0 { let a1: f64 = x[k, 2] in a1 } else { in f }
      let b: f64 = add(f, 0.0)"""
    before = parse(sums(read=branch))
    assert side_by_side(before) == before


def pairs(extent: str) -> fun.Program:
    """Sums of the numbers of records i and j, of which rows are few."""
    return parse(f"""
    program p(x: f64[m, {extent}]) sizes m, w
    {{
      let z: f64[m, m] = reduce (i < m, j < m; c < {extent}) from -0.0 {{
        let a: f64 = x[i, c]
        let b: f64 = x[j, c]
        let d: f64 = multiply(a, b)
        in d
      }} {SUM}
      in z
    }}""")


def test_numbers_of_a_few_are_read_one_after_the_other() -> None:
    """Lanes are then elements of the row; which index is the last one stays, as do bits."""
    before = pairs("3")
    after = side_by_side(before)
    check(after)
    agree(before, after, [RNG.random((6, 3))], rtol=0, m=6, w=3)
    assert copies(after) == 1
    assert not records(pairs("w"))


LOOP = """
    program p(x: f64[m, 3], y: f64[n, 3]) sizes n, m, t
    {{
      let e: f64[n, 3] = loop (v: f64[n, 3] = y) for q from 0 to t {{
        let z: f64[n, 3] = kernel (i < n, j < 3) {{
          let g: f64 = reduce (; k < {extent}) from -0.0 {{
            let a: f64 = {array}[k, 0]
            let b: f64 = {array}[k, 1]
            let c: f64 = multiply(a, b)
            in c
          }} {add}
          let h: f64 = v[i, j]
          let o: f64 = add(g, h)
          in o
        }}
        in z
      }}
      in e
    }}"""


@pytest.mark.parametrize(("array", "extent", "inside"), [("x", "m", False), ("v", "n", True)])
def test_a_copy_is_made_once_where_rounds_do_not_change_it(
    array: str, extent: str, inside: bool
) -> None:
    before = parse(LOOP.format(array=array, extent=extent, add=SUM))
    after = side_by_side(before)
    check(after)
    agree(before, after, [RNG.random((4, 3)), RNG.random((5, 3))], rtol=0, n=5, m=4, t=3)
    assert copies(after) == 1
    top = {type(let.expr) for let in after.body.statements}
    assert (fun.Permute in top) is not inside


READS = (
    "x[k, 0]", "x[k, 1]", "x[k, 2]", "x[i, 0]", "x[i, 2]", "y[k, 3]", "y[i + k, 1]", "y[k, c]",
    "y[i, c]", "z[c, k, 1]", "z[c, i, 0]", "z[c, k, c]",
)  # fmt: skip


@given(
    st.lists(st.sampled_from(READS), min_size=1, max_size=5), st.sampled_from(["m", "i", "2"]),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_reads(reads: list[str], extent: str, rounds: bool) -> None:
    lets = [f"let a{at}: f64 = {read}" for at, read in enumerate(reads)]
    sums = [
        f"let t{at + 1}: f64 = add(t{at}, a{at})" for at in range(len(reads))
    ]
    kernel = f"""kernel (i < n, c < 2) {{
          let g: f64 = reduce (; k < {extent}) from -0.0 {{
            {" ".join(lets)} let t0: f64 = multiply(a0, 0.5) {" ".join(sums)}
            in t{len(reads)}
          }} {SUM}
          in g
        }}"""
    rounds_ = f"loop (v: f64[n, 2] = u) for q from 0 to 2 {{ let o: f64[n, 2] = {kernel} in o }}"
    before = parse(f"""
    program p(x: f64[h, 3], y: f64[h, 4], z: f64[2, h, 2], u: f64[n, 2]) sizes n, m, h
      fact h - n - m >= 0
    {{
      let e: f64[n, 2] = {rounds_ if rounds else kernel}
      in e
    }}""")
    after = side_by_side(before)
    check(after)
    arguments = [RNG.random(shape) for shape in ((9, 3), (9, 4), (2, 9, 2), (4, 2))]
    agree(before, after, arguments, rtol=0, n=4, m=5, h=9)
    lanes = extent == "m" and any("[k," in read or "k, 1]" in read for read in reads)
    assert not lanes or copies(after)


@pytest.mark.parametrize(
    ("rows", "number", "copied"),
    [(16, 16, True), (15, 1000, False), (1000, 15, False), (1 << 20, 1 << 20, True)],
)
def test_when(rows: int, number: int, copied: bool) -> None:
    given = choices(parse(sums()))
    decided = decide(given, {"n": rows, "m": number, "w": 4, "threads": 2})
    assert decided.records == (copied,)
    assert decided in every_decision(given)  # of which `weft build` makes code


def near(x: Any, reach: Any, out: Any) -> None:
    """How many points are near each, and how far they are in all."""
    for i in wf.prange(x.shape[0]):
        total = 0.0
        for j in range(x.shape[0]):
            squared = (x[j, 0] - x[i, 0]) ** 2 + (x[j, 1] - x[i, 1]) ** 2
            total += np.sqrt(squared + reach)
        out[i] = total


def pairwise(x: wf.Array) -> wf.Array:
    return np.sqrt(((x[:, None, :] - x[None, :, :]) ** 2).sum(-1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 17, 1023])
def test_points(dtype: type, count: int) -> None:
    """In memory, in boxes and on parts of the processor: the same bits."""
    x = RNG.random((count, 3)).astype(dtype)
    apart = x[:, None, :2].astype(float) - x[None, :, :2]
    expected = np.sqrt((apart**2).sum(-1) + 0.25).sum(-1)
    kernel = wf.kernel(near)
    found = []
    for where in (
        {}, {"memory_limit": 32 << 10}, {"devices": ("cpu:0", "cpu:1")}, {"devices": "opencl:0"}
    ):  # fmt: skip
        with wf.config(**where):
            out = np.zeros(count, dtype)
            kernel(x, dtype(0.25), out)
            found.append(out)
    np.testing.assert_allclose(found[0], expected, rtol=1e-5)
    *host, opencl = found
    np.testing.assert_allclose(opencl, expected, rtol=1e-5)
    for other in host:
        np.testing.assert_array_equal(other, found[0])
    distances = wf.jit(pairwise)(x)
    np.testing.assert_allclose(distances, pairwise(x), rtol=1e-5)


def test_points_in_time() -> None:
    """Points that each round moves are copied in each round."""

    def step(x: Any, rounds: int) -> Any:
        for _ in range(rounds):
            x = x + 0.01 * (np.abs(x[:, None, :] - x[None, :, :]).sum(axis=1))
        return x

    x = RNG.random((70, 3))
    np.testing.assert_allclose(wf.kernel(step)(x, 3), step(x, 3), rtol=1e-12)


def test_lanes_that_go_along_records_keep_them() -> None:
    """Results lie as the records do: each is read as it is written, once or again and again."""
    text = """
    program p(x: f64[b, m, w], s: f64[m, w]) sizes b, m, w fact w - 3 >= 0 {
      let z: f64[b, m, 3] = kernel (h < b, i < m, j < 3) {
        let a: f64 = x[h, i, j]
        let c: f64 = s[i, j]
        let d: f64 = multiply(a, c)
        in d
      }
      in z
    }"""
    assert records(parse(text)) == []


def test_records_of_other_batches_are_read_once() -> None:
    """A sum over its own records reads each of them once; over those of all rows, many times."""
    text = """
    program p(x: f64[n, m, w]) sizes n, m, w
      fact w - 3 >= 0 fact n - 1 >= 0 {
      let z: f64[n] = kernel (i < n) {
        let g: f64 = reduce (; k < m) from -0.0 {
          let a: f64 = x[BATCH, k, 2]
          in a
        } SUM
        in g
      }
      in z
    }""".replace("SUM", SUM)
    assert records(parse(text.replace("BATCH", "i"))) == []
    assert len(records(parse(text.replace("BATCH", "0")))) == 1
