"""Reductions in tiles: the tiles, and the fixed tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passes.programs import agree
from passes.unfused import Unfused, expressions, top

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes import split_reductions as split
from weft.passes.pipeline import optimise
from weft.passes.simplify import simplify
from weft.passes.vector_dimension import vector_dimension

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)


def reduction(axes: list[int], rank: int = 2) -> fun.Program:
    u = Unfused("n", "m", "k")
    x = u.param("x", *("n", "m", "k")[:rank])
    return optimise(u.program(u.reduce("add", u.map("multiply", x, x), axes)))


@pytest.mark.parametrize("axes", [[0, 1], [0], [1]], ids=["all", "columns", "rows"])
def test_golden(axes: list[int], golden: Golden) -> None:
    golden(show(simplify(split.split_reductions(reduction(axes), split.always))))


def test_rows_stay_unless_asked() -> None:
    rows = reduction([1])
    assert top(split.split_reductions(rows)) == ["Reduce"]
    assert top(split.split_reductions(rows, split.always)) == ["Kernel", "Reduce"]


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ([0, 1, 2], "reduced"), ([2], "reduced"), ([1, 2], "reduced"), ([0], "kept"),
        ([1], "kept"), ([0, 1], "kept"), ([0, 2], "reduced"),
    ],
)  # fmt: skip
def test_vector_dimension(axes: list[int], expected: str) -> None:
    (reduce,) = expressions(reduction(axes, 3), fun.Reduce)
    assert isinstance(reduce, fun.Reduce)
    assert vector_dimension(reduce) == expected


def test_short_reductions_stay() -> None:
    u = Unfused("n")
    x = u.param("x", "n", 100)
    before = optimise(u.program(u.reduce("add", x, [1])))
    assert top(split.split_reductions(before, split.always)) == ["Reduce"]


@pytest.mark.parametrize("axes", [[0, 1, 2], [0, 1], [1, 2], [0], [2]])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 4, 9), (17, 2, 3), (2, 17, 1), (5, 1, 33)])
def test_values(axes: list[int], shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "TILE", 8)
    monkeypatch.setattr(split, "COLUMN_TILE", 16)
    monkeypatch.setattr(split, "COLUMN_ROWS", 2)
    before = reduction(axes, 3)
    after = split.split_reductions(before, split.always)
    check(after)
    check(simplify(after))
    agree(before, after, [RNG.random(shape)])
    agree(before, simplify(after), [RNG.random(shape)])


@pytest.mark.parametrize(
    ("axes", "most", "rows"),
    [
        ([0], None, 2048), ([0], 1 << 15, 64), ([0], 1 << 30, 2048),
        ([0], 1, 32),  # the grain of columns
        ([0, 1], None, 128), ([0, 1], 4096, 8), ([0, 1], 1, 2),
    ],
)  # fmt: skip
def test_tiles_have_no_more_elements_than_are_asked_for(
    axes: list[int], most: int | None, rows: int
) -> None:
    program = split.split_reductions(reduction(axes), most=most)
    check(program)
    known = {"n": 4000, "m": 500, "k": 1}
    for entry in program.derived:
        known[entry.name] = entry.evaluate(known)
    kernel = next(let for let in program.body.statements if isinstance(let.expr, fun.Kernel))
    tiles, *_ = kernel.pattern[0].type.shape
    assert tiles.evaluate(known) == -(-4000 // rows)


def test_smaller_tiles_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "GRAIN", 4)
    monkeypatch.setattr(split, "COLUMN_ROWS", 2)
    for axes in ([0, 1, 2], [0, 1], [0], [1]):
        before = reduction(axes, 3)
        after = split.split_reductions(before, split.always, most=8)
        check(after)
        agree(before, after, [RNG.random((17, 5, 9))])


def test_results_stay_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "TILE", 4)
    u = Unfused("n")
    x = u.param("x", "n")
    before = optimise(u.program(u.reduce("add", x, [0]), u.reduce("maximum", x, [0])))
    after = split.split_reductions(before)
    assert top(after) == ["Kernel", "Reduce"]
    check(after)
    agree(before, after, [RNG.random(11)])


def in_a_loop(extent: str) -> fun.Program:
    """x less the sum of its first elements, k times."""
    return parse(f"""program main(x: f64[n])
  sizes n, k
{{
  let last: f64[n] = loop (y: f64[n] = x) for r from 0 to k {{
    let s: f64 = reduce (; i < {extent}) from 0.0_f64 {{
      let e: f64 = y[i]
      in e
    }} with (a: f64, b: f64) {{
      let c: f64 = add(a, b)
      in c
    }}
    let next: f64[n] = kernel (j < n) {{
      let f: f64 = y[j]
      let d: f64 = subtract(f, s)
      in d
    }}
    in next
  }}
  in last
}}
""")


def inside(program: fun.Program) -> list[str]:
    """The expressions of the program's loop."""
    (loop,) = expressions(program, fun.Loop)
    assert isinstance(loop, fun.Loop)
    return [type(let.expr).__name__ for let in loop.body.statements]


def test_reductions_in_loops_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split, "TILE", 4)
    before = in_a_loop("n")
    after = split.split_reductions(before)
    check(after)
    assert inside(after) == ["Kernel", "Reduce", "Kernel"]
    agree(before, after, [RNG.random(11)], k=3)


def test_reductions_over_what_a_loop_decides_stay() -> None:
    before = in_a_loop("r")
    check(before)
    assert inside(split.split_reductions(before)) == ["Reduce", "Kernel"]


def test_reductions_in_kernels_stay() -> None:
    u = Unfused("n", "m")
    x = u.param("x", "n", "m")
    before = optimise(u.program(u.map("exp", u.reduce("add", x, [1]))))
    assert split.split_reductions(before, split.unless_rows) == before


# ---------------------------------------------------------------- the tree


def counter(items: list[Any]) -> Any:
    """Items combined by a binary counter, as text with its parentheses."""
    stack: list[Any] = []
    for number, item in enumerate(items):
        while number & 1:
            item = f"({stack.pop()} {item})"
            number >>= 1
        stack.append(item)
    while len(stack) > 1:
        right = stack.pop()
        stack.append(f"({stack.pop()} {right})")
    return stack[0]


def tree(shape: tuple[int, ...], start: tuple[int, ...], grain: int) -> Any:
    """The fixed tree of a reduction over a box: grains, then counters, dimension by dimension."""
    if len(shape) == 1:
        cuts = range(0, shape[0], grain)
        return counter([f"{(*start, c)}+{min(grain, shape[0] - c)}" for c in cuts])
    return counter([tree(shape[1:], (*start, row), grain) for row in range(shape[0])])


def tiled(shape: tuple[int, ...], tile: int, grain: int) -> Any:
    """The tree that tiles and the counter over them make."""
    sizes = [tile]
    inner = shape[-1]
    for extent in reversed(shape[:-1]):
        sizes.insert(0, 1 << (max(tile // max(inner, 1), 1).bit_length() - 1))
        inner *= extent

    def box(done: tuple[tuple[int, int], ...], rest: tuple[int, ...], level: int) -> Any:
        if not rest:
            return leaf(done)
        count = -(-rest[0] // sizes[level])
        return counter([
            box((*done, (t * sizes[level], min(sizes[level], rest[0] - t * sizes[level]))),
                rest[1:], level + 1)
            for t in range(count)
        ])  # fmt: skip

    def leaf(ranges: tuple[tuple[int, int], ...]) -> Any:
        def inside(start: tuple[int, ...], left: tuple[tuple[int, int], ...]) -> Any:
            (low, extent), *more = left
            if not more:
                cuts = range(low, low + extent, grain)
                return counter([f"{(*start, c)}+{min(grain, low + extent - c)}" for c in cuts])
            return counter([inside((*start, low + row), tuple(more)) for row in range(extent)])

        return inside((), ranges)

    return box((), shape, 0)


@pytest.mark.parametrize(
    "shape",
    [(1,), (15,), (16,), (17,), (65,), (100,), (7, 3), (9, 4), (40, 3), (5, 33), (3, 5, 7),
     (9, 2, 3), (2, 17, 16), (17, 1, 1), (6, 5, 1)],
)  # fmt: skip
def test_tiles_are_subtrees(shape: tuple[int, ...]) -> None:
    """The split reduction combines the same things in the same order: the same bits."""
    grain, tile = 4, 16
    assert tiled(shape, tile, grain) == tree(shape, (), grain)


@pytest.mark.parametrize("rows", [1, 2, 3, 31, 32, 33])
def test_short_columns_are_whole_and_have_the_bits_of_their_tree(rows: int) -> None:
    """As the interpreter and boxes have them."""
    x = np.random.default_rng(rows).standard_normal((rows, 9000))
    for function in (wf.sum, wf.max, wf.prod, wf.argmin):
        found = wf.jit(lambda x, function=function: function(x, axis=0))(x)
        for setting in ({"interpret_below": 1 << 40}, {"memory_limit": "24.2 MiB"}):
            with wf.config(**setting):
                np.testing.assert_array_equal(found, function(wf.asarray(x), axis=0).numpy())
