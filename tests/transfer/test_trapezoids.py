"""Trapezoids: elements against enumeration, programs over them against the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from weft.fun.parse import parse
from weft.launch.computation import Computation
from weft.launch.packed import packed_call
from weft.launch.packed_calls import PackedCall
from weft.transfer.trapezoids import Trapezoid, trapezoid

LINES = some.tuples(some.integers(-6, 9), some.integers(-3, 3))
EXTENTS = some.tuples(some.integers(1, 9), some.integers(1, 9))


def elements_of(extents: tuple[int, int], low: tuple[int, int], high: tuple[int, int]) -> Any:
    """Which elements lie from `low` to `high`, by enumeration, in rows of any length."""
    return [
        (i, j) for i in range(extents[0])
        for j in range(low[0] + low[1] * i, high[0] + high[1] * i)
    ]  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(EXTENTS, LINES, LINES)
def test_every_element_has_one_place(
    extents: tuple[int, int], low: tuple[int, int], high: tuple[int, int]
) -> None:
    found = trapezoid(extents, low, high)
    elements = elements_of(extents, low, high)
    is_one = elements and all(0 <= j < extents[1] for _, j in elements)
    assert (found is not None) == bool(is_one)
    if found is None:
        return
    places = np.full(found.count, -1)
    met = []
    for block in found.blocks():
        rows = block.packed(places)
        assert (rows == -1).all()
        for number in range(block.rows):
            i, low = block.row + number * block.step[0], block.column + number * block.step[1]
            rows[number] = i
            met += [(i, j) for j in range(low, low + block.length)]
    assert sorted(met) == elements
    assert (places >= 0).all()
    assert found.count == len(elements)


def test_pairs_of_rows_are_rows_of_a_rectangle() -> None:
    """The drawing of the module."""
    found = Trapezoid(first=0, rows=4, low=0, lean=0, length=1, growth=1)
    drawn = np.empty(found.count, int)
    for block in found.blocks():
        block.packed(drawn)[...] = block.row
    assert drawn.reshape(2, 5).tolist() == [[0, 3, 3, 3, 3], [1, 1, 2, 2, 2]]


PROGRAM = """program p(c: f64[n, m], a: f64[n, m], x: f64[n]) sizes n, m {{
  let y: f64[n, m] = kernel (i < n, j < m) {{
    let low: i64 = size {low}
    let high: i64 = size {high}
    let begun: bool = less_equal(low, j)
    let open: bool = {high_test}
    let both: bool = logical_and(begun, open)
    let w: f64 = if both {{
      let v: f64 = a[i, j]
      let u: f64 = {second}
      let r: f64 = add(v, u)
      in r
    }} else {{
      let k: f64 = c[{kept}]
      in k
    }}
    in w
  }}
  in y
}}"""


def line(pair: tuple[int, int]) -> str:
    sign = "-" if pair[0] < 0 else "+"
    return f"{pair[1]}*i {sign} {abs(pair[0])}" if pair[1] else f"{pair[0]}"


def call_of(text: str, arrays: list[Any]) -> tuple[PackedCall | None, Any]:
    """The packed call of a program that writes its first parameter, and what is to be there."""
    computation = Computation(parse(text), {"c": 0})
    sizes = dict(zip("nm", arrays[0].shape, strict=True))
    (expected,) = computation.interpret(sizes, arrays)
    return packed_call(computation, sizes, arrays, [arrays[0]]), expected


def run(computation: Computation, sizes: Any, inputs: Any, out: Any) -> list[Any]:
    values = computation.interpret(sizes, inputs)
    for place, value in zip(out or (), values, strict=False):
        if place is not None:
            place[...] = value
    return values


@settings(max_examples=60, deadline=None)
@given(
    EXTENTS, LINES, LINES,
    some.sampled_from(["c[i, j]", "a[i, j]", "x[i]"]), some.sampled_from(["less", "less_equal"]),
)  # fmt: skip
def test_the_same_as_over_the_whole_space(
    extents: tuple[int, int], low: tuple[int, int], high: tuple[int, int], second: str, test: str
) -> None:
    random = np.random.default_rng(3)
    c, a, x = random.random(extents), random.random(extents), random.random(extents[0])
    high_test = "less(j, high)" if test == "less" else "greater_equal(high, j)"
    text = PROGRAM.format(
        low=line(low), high=line(high), high_test=high_test, second=second, kept="i, j"
    )
    elements = elements_of(extents, low, (high[0] + (test != "less"), high[1]))
    elements = [(i, j) for i, j in elements if 0 <= j < extents[1]]
    call, expected = call_of(text, [c, a, x])
    before = c.copy()
    if call is not None:
        copies_back = [line for line in call.lines() if "copies back" in line]
        if copies_back:
            assert f" {len(elements)} elements of " in copies_back[0]
        call.call(run, [c, a, x], [c])
        np.testing.assert_array_equal(c, expected)
        assert not (c != before).sum() > len(elements)


@pytest.mark.parametrize(
    ("high", "kept", "is_packed"),
    [
        ("i + 1", "i, j", True),
        ("i + 1", "j, i", False),  # it moves what it does not write
        ("2*i + 1", "i, j", False),  # rows that end outside
        ("i*i", "i, j", False),  # no trapezoid
        ("n", "i, j", False),  # all there is
    ],
)
def test_what_is_a_trapezoid(high: str, kept: str, is_packed: bool) -> None:
    a = np.arange(36.0).reshape(6, 6)
    text = PROGRAM.format(
        low="0", high=high, high_test="less(j, high)", second="x[i]", kept=kept
    )
    call, expected = call_of(text, [a + 1, a, a[0].copy()])
    assert is_packed == (call is not None and any("copies back" in s for s in call.lines()))
    if call is not None:
        c = a + 1
        call.call(run, [c, a, a[0].copy()], [c])
        np.testing.assert_array_equal(c, expected)
