"""Tiles: what they read, in which order, and which shape of them moves the fewest bytes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.fun.parse import parse
from weft.plan.code import Rates
from weft.plan.draft import Draft
from weft.plan.statements import Analysis
from weft.plan.tile_shapes import NARROW, Costs, shapes
from weft.plan.tiles import Tiling, grid

RATES = Rates(1e9, 1e9, 1e15, 0.0, 0.0, 2, True)  # nothing but copies takes time

PRODUCT = """program product(a: f64[n, r], b: f64[m, r]) sizes n, m, r {
  let c: f64[n, m] = reduce (i < n, j < m; k < r) from 0.0 {
    let x: f64 = a[i, k]
    let y: f64 = b[j, k]
    let z: f64 = multiply(x, y)
    in z
  } with (p: f64, q: f64) { let s: f64 = add(p, q) in s }
  in c
}"""

TABLE = """program table(a: f64[n, m], b: f64[m, r], d: f64[n, r]) sizes n, m, r {
  let c: f64[n, m, r] = kernel (i < n, j < m, k < r) {
    let x: f64 = a[i, j]
    let y: f64 = b[j, k]
    let z: f64 = d[i, k]
    let u: f64 = add(x, y)
    let v: f64 = add(u, z)
    in v
  }
  in c
}"""

PAIRS = """program pairs(x: f64[n]) sizes n {
  let c: f64[n, n] = kernel (i < n, j < n) {
    let p: f64 = x[i]
    let q: f64 = x[j]
    let r: f64 = subtract(p, q)
    in r
  }
  in c
}"""

WIDE = """program wide(x: f64[n, m]) sizes n, m {
  let c: f64[n, m] = kernel (i < n, j < m) {
    let p: f64 = x[i - 3: edge(0, n), j]
    let q: f64 = x[i + 3: edge(0, n), j]
    let r: f64 = add(p, q)
    in r
  }
  in c
}"""

MIXED = """program mixed(x: f64[n]) sizes n {
  let c: f64[n, n] = kernel (i < n, j < n) {
    let p: f64 = x[i]
    in p
  }
  let s: f64[n] = scan (k < n) from 0.0 { let q: f64 = x[k] in q }
    with (u: f64, v: f64) { let w: f64 = add(u, v) in w }
  in c, s
}"""


def tiling(text: str, **sizes: int) -> Tiling:
    analysis = Analysis(parse(text), sizes)
    draft = Draft.of(analysis, analysis.statements[0], 0, set())
    found = Tiling.of(draft, {})
    assert found is not None
    return found


def reads(text: str, at: tuple[int, ...], sizes: dict[str, int]) -> dict[str, set[Any]]:
    """What an element of the result reads, as one would write it down."""
    if text is PRODUCT:
        i, j = at
        r = sizes["r"]
        return {"a": {(i, k) for k in range(r)}, "b": {(j, k) for k in range(r)}}
    if text is TABLE:
        i, j, k = at
        return {"a": {(i, j)}, "b": {(j, k)}, "d": {(i, k)}}
    if text is PAIRS:
        return {"x": {(at[0],)}, "x'": {(at[1],)}}
    i, j = at
    rows = {min(max(i + by, 0), sizes["n"] - 1) for by in (-3, 3)}
    return {"x": {(row, j) for row in range(min(rows), max(rows) + 1)}}


def enumerated(
    text: str, found: Tiling, shape: tuple[int, ...], order: tuple[int, ...], sizes: dict[str, int]
) -> int:
    """Elements copied, from tile to tile, as sets of them say."""
    before: dict[str, set[Any]] = {}
    total = 0
    box = grid(found.extents, shape, order)
    for tile in range(len(box[0][0])):
        ranges = [range(int(low[tile]), int(high[tile])) for low, high in box]
        needs: dict[str, set[Any]] = {}
        for at in product(*ranges):
            for name, elements in reads(text, at, sizes).items():
                needs.setdefault(name, set()).update(elements)
        total += sum(len(needs[name]) for name in needs if needs[name] != before.get(name))
        before = needs
    return total


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        (PRODUCT, {"n": 7, "m": 5, "r": 2}),
        (TABLE, {"n": 4, "m": 5, "r": 3}),
        (TABLE, {"n": 1, "m": 7, "r": 3}),
        (PAIRS, {"n": 9}),
        (WIDE, {"n": 29, "m": 3}),
    ],
)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_bytes_are_those_of_the_elements_that_tiles_read(
    text: str, sizes: dict[str, int], data: Any
) -> None:
    """As sets of elements say, for tiles of any shape in any order."""
    found = tiling(text, **sizes)
    shape = tuple(data.draw(st.integers(1, extent)) for extent in found.extents)
    order = tuple(data.draw(st.permutations(range(len(shape)))))
    reached = found.reached(grid(found.extents, shape, order))
    copied = sum(found.copied(reached))
    assert copied == 8 * enumerated(text, found, shape, order, sizes)


@given(
    extents=st.lists(st.integers(1, 9), min_size=1, max_size=4), data=st.data()
)
@settings(max_examples=60, deadline=None)
def test_tiles_cover_the_space_once_and_are_neighbours(extents: list[int], data: Any) -> None:
    shape = [data.draw(st.integers(1, extent)) for extent in extents]
    box = grid(extents, shape, data.draw(st.permutations(range(len(extents)))))
    seen = np.zeros(extents, np.int64)
    for tile in range(len(box[0][0])):
        seen[tuple(slice(int(low[tile]), int(high[tile])) for low, high in box)] += 1
    assert (seen == 1).all()
    steps = sum((np.diff(low) != 0).astype(int) for low, _ in box)
    assert (steps == 1).all()


def test_reads_that_move_apart_are_operands_of_their_own() -> None:
    assert [len(o.keys) for o in tiling(PAIRS, n=50).operands] == [1, 1]
    assert [len(o.keys) for o in tiling(WIDE, n=50, m=60).operands] == [2]


def test_what_goes_in_order_or_is_two_is_not_tiled() -> None:
    analysis = Analysis(parse(MIXED), {"n": 20})
    drafts = [Draft.of(analysis, statement, 0, set()) for statement in analysis.statements]
    assert Tiling.of(drafts[0], {}) is not None
    assert Tiling.of(drafts[1], {}) is None
    both = drafts[0].merged(drafts[1])
    assert both is not None
    assert Tiling.of(both, {}) is None


def costs_of(found: Tiling, shape: tuple[int, ...]) -> Costs:
    """The costs of one shape, whose tiles divide the space."""
    extents = np.array([shape])
    counts = np.array([[n // e for n, e in zip(found.extents, shape, strict=True)]])
    box = tuple((np.array([0]), np.array([e])) for e in shape)
    read = np.array(found.read_bytes(found.reached(box)))
    return Costs(extents, counts, read, found.moves(), np.array([8.0 * math.prod(shape)]))


@pytest.mark.parametrize(
    ("text", "sizes"),
    [(PRODUCT, {"n": 8, "m": 12, "r": 3}), (TABLE, {"n": 4, "m": 6, "r": 8}), (PAIRS, {"n": 8})],
)
def test_the_formula_is_what_tiles_copy(text: str, sizes: dict[str, int]) -> None:
    found = tiling(text, **sizes)
    divisors = [[d for d in range(1, n + 1) if n % d == 0] for n in found.extents]
    for shape in product(*divisors):
        for order in permutations(range(len(shape))):
            reached = found.reached(grid(found.extents, shape, order))
            copied = sum(found.copied(reached))
            assert costs_of(found, shape).moved(order)[0] == copied


def test_contractions_are_cut_as_groups_do_them() -> None:
    """In whole tiles of theirs, so many that all processors have some."""
    found = tiling(PRODUCT, n=2900, m=2900, r=300)
    results = [found.draft.statement(found.target).results[0]]
    room = 4 * 8 * 300 * 700
    slow = replace(RATES, operations=1e9, processors=8)

    def idle(contracts: bool) -> float:
        extents = shapes(found, results, room, slow, 1, 1e10, contracts)[0].extents
        groups = math.prod(-(-extent // 64) for extent in extents)
        return float(slow.idle(groups)) * groups * 64 * 64 / math.prod(extents)

    assert idle(True) < 1.1 < idle(False)


@pytest.mark.parametrize(
    ("text", "sizes", "part"),
    [
        (PRODUCT, {"n": 48, "m": 40, "r": 24}, 6),
        (PRODUCT, {"n": 31, "m": 97, "r": 11}, 5),
        (TABLE, {"n": 16, "m": 12, "r": 20}, 10),
        (PAIRS, {"n": 61}, 20),
    ],
)
def test_no_shape_moves_much_less_than_the_one_that_is_found(
    text: str, sizes: dict[str, int], part: int
) -> None:
    """Against every shape, in every order, that fits as well."""
    found = tiling(text, **sizes)
    results = [found.draft.statement(found.target).results[0]]
    arrays = {operand.array for operand in found.operands} | set(results)
    room = sum(map(found.draft.analysis.bytes, arrays)) // part

    def moved(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, int]:
        reached = found.reached(grid(found.extents, shape, order))
        largest = sum(int(size.max()) for size in found.read_bytes(reached))
        return int(sum(found.copied(reached))), largest + 8 * math.prod(shape)

    fitting = [
        (shape[-1] < min(NARROW, found.extents[-1]), copied)
        for shape in product(*({-(-n // k) for k in range(1, n + 1)} for n in found.extents))
        if math.prod(-(-n // e) for n, e in zip(found.extents, shape, strict=True)) < 400
        for order in permutations(range(len(shape)))
        for copied, memory in [moved(shape, order)]
        if memory <= room
    ]
    _, best = min(fitting)
    chosen = shapes(found, results, room, RATES, 1, 0.0)[0]
    copied, memory = moved(chosen.extents, chosen.order)
    assert memory <= room
    assert copied <= 1.25 * best
    again = shapes(found, results, room, RATES, 1, 0.0)
    assert again[0] == chosen
