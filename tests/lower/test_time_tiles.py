"""Rounds of stencils on tiles: the same bits as round by round, in any order of tiles."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lower.harness import QUICK, run, sizes_of
from lower.harness import compiled as without_choices
from slow import some_slow

import weft as wf
from weft.compiler import compile_segment, with_memory
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.imp import interpret as imp_interpret
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import interpret as interpret_imp
from weft.lower import masks, trapezoids
from weft.lower.registers import Registers
from weft.lower.segment import integers, lower_program
from weft.mem.parse import parse as parse_memory
from weft.passes.pipeline import optimise
from weft.passes.tile_time import tile_time
from weft.plan.segment import Segment
from weft.sizes import as_poly

pytestmark = pytest.mark.usefixtures("small_tiles")

RNG = np.random.default_rng(0)
RULES = ["keep", "edge", "reflect", "symmetric", "wrap", 2.5]
TILED = "even and odd trapezoids"


def tiled(function: Any, *arguments: Any) -> fun.Program:
    """The program of a traced function, its loops marked."""
    program = tile_time(optimise(wf.jit(function).lower(*arguments).program))
    assert any(isinstance(form_of(let), fun.For) for let in program.body.statements)
    return program


def form_of(let: fun.Let) -> fun.For | fun.While | None:
    return let.expr.form if isinstance(let.expr, fun.Loop) else None


def compiled(program: fun.Program) -> Segment:
    segment = compile_segment(program, {})
    assert any(TILED in label for label in segment.kernels), segment.kernels
    return segment


def agrees(program: fun.Program, segment: Segment, arrays: list[Any], rounds: int) -> None:
    """On one thread and on several compiled tiles give what the interpreter gives."""
    (steps,) = {*program.sizes} - sizes_of(program, arrays, {}).keys()
    sizes = sizes_of(program, arrays, {steps: rounds})
    expected = interpret(program, arrays, sizes)
    for threads in (1, 3):
        found = run(segment, arrays, sizes, threads, QUICK)
        for one, wanted in zip(found, expected, strict=True):
            assert one.tobytes() == np.asarray(wanted).tobytes()


def neighbours(t: Any, rank: int, radius: int) -> Any:
    total = t[(0,) * rank] * 0.5
    for axis in range(rank):
        for offset in (-radius, 1, radius):
            at = tuple(offset if d == axis else 0 for d in range(rank))
            total = total + t[at] * (0.25 + 0.125 * axis)
    return total


def repeated(rank: int, radius: int, rule: Any) -> Any:
    def step(x: Any) -> Any:
        return wf.stencil(lambda t: neighbours(t, rank, radius), x, boundary=rule)

    return lambda x, n: wf.iterate(step, x, n)


SHAPES: dict[int, list[tuple[int, ...]]] = {
    1: [(2,), (3,), (7,), (20,), (61,)],
    2: [(2, 3), (17, 5), (23, 29), (40, 7), (3, 40), (31, 33)],
    3: [(2, 3, 2), (5, 7, 11), (19, 4, 6), (12, 9, 20)],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("rank", "radius"), [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1)])
def test_all_rules(rule: Any, rank: int, radius: int) -> None:
    program = tiled(repeated(rank, radius, rule), np.zeros((9,) * rank), 4)
    segment = compiled(program)
    for shape in SHAPES[rank]:
        for rounds in (0, 1, 3, 10) if rank < 3 else (5,):
            agrees(program, segment, [RNG.random(shape)], rounds)


@pytest.mark.parametrize("rule", ["keep", "reflect", "wrap"])
@pytest.mark.parametrize(("rank", "radius", "room"), [(2, 1, 500), (3, 1, 1200), (3, 2, 1200)])
def test_blocks_are_swept_in_parts(
    rule: Any, rank: int, radius: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some rounds on one part after another; not where a core's own cache holds blocks."""
    monkeypatch.setattr(trapezoids, "part_bytes", lambda: room)
    program = tiled(repeated(rank, radius, rule), np.zeros((9,) * rank), 4)
    parts, count = [], trapezoids.Trapezoids.parts

    def noting(*arguments: Any) -> Any:
        parts.append(count(*arguments))
        return parts[-1]

    monkeypatch.setattr(trapezoids.Trapezoids, "parts", noting)
    segment = compiled(program)
    assert parts.pop() is not None
    for shape in ((41, 7, 6), (23, 12, 5), (67, 3, 3)):
        for rounds in (1, 4, 7, 13):
            agrees(program, segment, [RNG.random(shape[:rank])], rounds)
    monkeypatch.setattr(trapezoids, "part_bytes", lambda: 0)
    compiled(program)
    assert parts == [None]


@pytest.mark.parametrize("radius", [0, 1, 15, 16, 17])
def test_blocks_of_vectors_lean_by_whole_lines(radius: int) -> None:
    """By a radius at least: wider neighbourhoods lean further."""
    program = tiled(repeated(1, radius, "edge"), np.zeros(99), 4)
    segment = compiled(program)
    for extent in (35, 331, 1000):
        for rounds in (3, 40):
            agrees(program, segment, [RNG.random(extent)], rounds)


@pytest.mark.parametrize("rule", RULES[1:])
@pytest.mark.parametrize("shape", [(1,), (1, 9), (30, 1), (1, 6, 7), (6, 1, 5)])
def test_dimensions_of_one(rule: Any, shape: tuple[int, ...]) -> None:
    x = RNG.random(shape)
    program = tiled(repeated(len(shape), 1, rule), x, 4)
    agrees(program, compiled(program), [x], 7)


@pytest.mark.parametrize("rules", [("wrap", "edge"), ("reflect", "wrap"), (1.5, "symmetric")])
def test_a_rule_for_each_dimension(rules: Any) -> None:
    program = tiled(repeated(2, 1, rules), np.zeros((9, 9)), 4)
    segment = compiled(program)
    for shape in SHAPES[2]:
        agrees(program, segment, [RNG.random(shape)], 9)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("rule", ["keep", "reflect", "wrap"])
def test_what_unused_rows_need_is_left_out(rank: int, rule: Any) -> None:
    """Some rows alone of the result are used; the others may then be anything."""
    whole = repeated(rank, 1, rule)
    program = tiled(lambda x, n: whole(x, n)[5:9], np.zeros((12,) * rank), 4)
    (form,) = filter(None, map(form_of, program.body.statements))
    assert isinstance(form, fun.For)
    assert form.tiled == (as_poly(5), as_poly(9))
    segment = compiled(program)
    for first in (9, 20, 61):
        for rounds in (0, 1, 4, 11):
            agrees(program, segment, [RNG.random((first, 8, 3)[:rank])], rounds)


def inside(x: Any, n: Any) -> Any:
    """Some rows, and always the same, of which each is made of those beside it."""
    return wf.iterate(lambda v: v.at[1:-1].add(v[2:] * 0.5 - v[:-2]), x, n)


@pytest.mark.parametrize("shape", [(61,), (31, 5)])
def test_rows_that_stay(shape: tuple[int, ...]) -> None:
    program = tiled(inside, np.zeros(shape), 4)
    segment = compiled(program)
    for rounds in (0, 1, 10):
        agrees(program, segment, [RNG.random(shape)], rounds)


def leap(x: Any, y: Any, n: Any) -> Any:
    """Two arrays that take turns: of the one before the last a new one is made."""

    def step(_: Any, both: Any) -> Any:
        x, y = both
        return wf.stencil(lambda a: a[-1] + a[1] * 0.5, x, boundary="edge") - y, x

    return wf.fori_loop(0, n, step, (x, y))


def leap_inside(x: Any, y: Any, n: Any) -> Any:
    """The same, written to a part of the one before the last."""
    return wf.fori_loop(
        0, n, lambda _, both: (both[1].at[1:-1].set(both[0][2:] * 0.5 - both[0][:-2]), both[0]),
        (x, y),
    )  # fmt: skip


def three_in_turn(x: Any, y: Any, n: Any) -> Any:
    def step(_: Any, three: Any) -> Any:
        x, y, z = three
        return wf.stencil(lambda a: a[-2] - a[1], x, boundary="reflect") + z, x, y

    return wf.fori_loop(0, n, step, (x, y, x * 2))


TURNS = {function.__name__: function for function in (leap, leap_inside, three_in_turn)}


@pytest.mark.parametrize(
    ("name", "shape"), [*((name, (61,)) for name in TURNS), ("leap_inside", (31, 7))]
)
def test_arrays_that_take_turns(name: str, shape: tuple[int, ...]) -> None:
    program = tiled(TURNS[name], *(np.zeros(shape),) * 2, 4)
    segment = compiled(program)
    for rounds in (0, 1, 2, 3, 10, 11):
        agrees(program, segment, [RNG.random(shape), RNG.random(shape)], rounds)


def pair_with_power(x: Any, y: Any, power: Any, n: Any) -> Any:
    def step(k: Any, pair: Any) -> Any:
        x, y = pair
        new = wf.stencil(lambda a, p: a[-2] + p[1] - a[1] * 0.5, x, power, boundary="edge")
        return new, y * 0.5 + x + k

    return wf.fori_loop(0, n, step, (x, y))


def waves(x: Any, y: Any, n: Any) -> Any:
    """In turn: what one kernel of a round makes is read around its index by the next."""

    def step(_: Any, pair: Any) -> Any:
        speed, height = pair
        speed = wf.stencil(
            lambda v, h: v[0, 0] + h[1, 0] - h[0, -1], speed, height, boundary="wrap"
        )
        height = wf.stencil(
            lambda h, v: h[0, 0] * 0.5 + (v[0, 0] - v[-1, 1] * 0.25) / (1 + v[0, 0] * v[0, 0]),
            height, speed, boundary="edge",
        )  # fmt: skip
        return speed, height

    return wf.fori_loop(0, n, step, (x, y))


@pytest.mark.parametrize("extent", [2, 7, 30, 47])
def test_several_arrays_and_one_from_outside(extent: int) -> None:
    arrays = [RNG.random(extent) for _ in range(3)]
    program = tiled(pair_with_power, *arrays, 8)
    agrees(program, compiled(program), arrays, 8)


def test_several_kernels_a_round() -> None:
    program = tiled(waves, np.zeros((9, 9)), np.zeros((9, 9)), 8)
    segment = compiled(program)
    assert sum("more" in label for label in segment.kernels) == 1
    for shape in SHAPES[2]:
        agrees(program, segment, [RNG.random(shape), RNG.random(shape)], 8)


def test_pieces() -> None:
    """Rows that are pieces of their own have loops of their own."""

    def row(x: Any, at: slice, other: slice) -> Any:
        here, there = x[at], x[other]
        middle = here[:, 1:-1] - there[:, 2:] + here[:, :-2] * 0.5
        return wf.concat([here[:, :1] + there[:, :1], middle, here[:, -1:] * 0.5], axis=1)

    def step(x: Any) -> Any:
        inside, around = slice(1, -1), slice(2, None)
        first = row(x, slice(0, 1), slice(1, 2))
        last = row(x, slice(-1, None), slice(-2, -1))
        return wf.concat([first, row(x, inside, around), last])

    program = tiled(lambda x, n: wf.iterate(step, x, n), np.zeros((9, 9)), 4)
    segment = compiled(program)
    for shape in ((3, 3), (3, 40), (17, 5), (31, 33)):
        agrees(program, segment, [RNG.random(shape)], 9)


def test_vector_math_and_inner_loops() -> None:
    """Bodies that are not straight lines; transcendental functions have one form for all."""

    def step(x: Any) -> Any:
        return wf.stencil(lambda t: wf.cos(t[-1]) * 0.5 + wf.exp(-t[1] * t[1]), x, boundary="edge")

    def program(x: Any, n: Any) -> Any:
        return wf.iterate(step, x, n)

    x = RNG.random(9000)
    with wf.config(threads=1):
        expected = wf.jit(program)(x, 5)
    with wf.config(optimise="no-time-tiles"):
        np.testing.assert_array_equal(wf.jit(program)(x, 5), expected)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_random_stencils_interpreted(data: st.DataObject) -> None:
    """Random offsets, rules, shapes and rounds; the interpreter of IMP runs tiles backwards."""
    rank = data.draw(st.integers(1, 3))
    offsets = data.draw(
        st.lists(st.tuples(*[st.integers(-2, 2)] * rank), min_size=1, max_size=4, unique=True)
    )
    kinds = st.sampled_from(["edge", "reflect", "symmetric", "wrap", 3])
    rules = tuple(data.draw(st.lists(kinds, min_size=rank, max_size=rank)))
    most = {1: 40, 2: 12, 3: 6}[rank]
    shape = tuple(data.draw(st.lists(st.integers(1, most), min_size=rank, max_size=rank)))
    rounds = data.draw(st.integers(0, 6))
    threads = data.draw(st.integers(1, 3))

    def step(x: Any) -> Any:
        def cell(t: Any) -> Any:
            return sum((k + 1) * t[at] for k, at in enumerate(offsets)) % 101

        return wf.stencil(cell, x, boundary=rules if rank > 1 else rules[0])

    x = RNG.integers(0, 100, shape)
    program = tiled(lambda x, n: wf.iterate(step, x, n), x, 4)
    interpreted(program, x, rounds, threads)


def interpreted(program: fun.Program, x: Any, rounds: int, threads: int) -> None:
    """The interpreter of IMP gives what that of FUN does, and leaves the argument as it was."""
    (steps,) = {*program.sizes} - sizes_of(program, [x], {}).keys()
    sizes = sizes_of(program, [x], {steps: rounds})
    memory = with_memory(program, {})
    lowered, unit, workspace = lower_program(memory, "entry")
    check(lowered)
    assert any(TILED in label for label in unit.kernels)
    values = {**sizes, "threads": threads}
    for derived in (*program.derived, *unit.derived):
        values[derived.name] = derived.evaluate(values)
    (expected,) = interpret(program, [x], sizes)
    result = np.zeros_like(x)
    buffers = [x.copy(), result, np.full(workspace.evaluate(values) + 64, 255, np.uint8)]
    names = (*integers(memory), *(d.name for d in unit.derived))
    failed, *_ = interpret_imp(
        lowered, [b.reshape(-1).view(np.uint8) for b in buffers], [values[n] for n in names]
    )
    assert failed == 0
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(buffers[0], x)


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many tiles each parallel loop has that is interpreted."""
    found: list[int] = []
    parallel = imp_interpret._Run.parallel

    def noting(run: imp_interpret._Run, statement: imp.Parallel) -> None:
        found.append(run.integer(statement.tiles))
        parallel(run, statement)

    monkeypatch.setattr(imp_interpret._Run, "parallel", noting)
    return found


@pytest.mark.parametrize(
    ("shape", "rule", "row", "across"),
    [
        ((4, 63), "edge", 7, False), ((4, 64), "edge", 7, True), ((3, 63), "edge", 7, False),
        ((2, 64), "edge", 64, True), ((3, 64), "edge", 64, False), ((3, 64), "edge", 63, True),
        ((3, 48, 2), "reflect", 7, True),
        ((4, 64), "wrap", 7, False), ((4, 64), ("edge", "wrap"), 7, False),
    ],
)  # fmt: skip
def test_few_long_rows_are_cut_across(
    shape: tuple[int, ...], rule: Any, row: int, across: bool, tiles: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Trapezoids are of the second dimension where that is 16 times as long here, at least.

    Rows of elements must have a part of more than 21 for each of three threads; of rows that
    blocks have whole there must be fewer than one for each.
    """
    monkeypatch.setattr(trapezoids, "ACROSS", 16)
    monkeypatch.setattr(trapezoids, "ROW", (row, 6))
    monkeypatch.setattr(trapezoids, "FEW_ROWS", 1)
    monkeypatch.setattr(trapezoids, "CHUNKS", 2)
    monkeypatch.setattr(trapezoids, "WIDE", 21)
    x = RNG.random(shape)
    program = tiled(repeated(len(shape), 1, rule), x, 4)
    for rounds in (1, 7):
        tiles.clear()
        interpreted(program, x, rounds, 3)
        assert (max(tiles) > 3) == across  # of so few rows no more could be made


@pytest.mark.parametrize("shape", [(123,), (10, 72), (5, 4, 36)])
def test_stores_of_blocks_are_aligned(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is done without masks begins at a whole vector of memory, wherever blocks begin.

    Rows of a plane are whole vectors here, those of a solid half of one more; as results and
    workspaces, arrays begin on cache lines.
    """
    monkeypatch.setattr(masks, "registers", lambda: Registers(32, 64))
    monkeypatch.setattr(trapezoids, "ROW", (30, 18))
    monkeypatch.setattr(trapezoids, "ACROSS", 16)
    monkeypatch.setattr(trapezoids, "line", lambda _: 40)
    begins: list[int] = []
    interior: list[imp.For] = []
    run_statement = imp_interpret._Run.statement

    def noting(run: imp_interpret._Run, statement: imp.Stmt) -> None:
        if isinstance(statement, imp.For) and statement.simd and not statement.lanes:
            interior[:] = [statement]
        elif isinstance(statement, imp.Store) and interior:
            begins.append(run.integer(statement.index))
            interior.clear()
        run_statement(run, statement)
        if isinstance(statement, imp.For):
            interior.clear()

    monkeypatch.setattr(imp_interpret._Run, "statement", noting)
    x = RNG.random(shape)
    interpreted(tiled(repeated(len(shape), 1, "edge"), x, 4), x, 4, 2)
    assert len(set(begins)) > 5
    assert not any(begin % 8 for begin in begins)


@pytest.mark.parametrize(
    ("threads", "rank"), some_slow(product([1, 2, 3], [1, 2, 3]), [(1, 3), (3, 3)], several=True)
)
def test_odd_trapezoids_are_as_many_for_each_thread(
    rank: int, threads: int, tiles: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even ones are one more, of which two are half as long."""
    monkeypatch.setattr(trapezoids, "LEVELS", (2, 2, 2))
    monkeypatch.setattr(trapezoids, "line", lambda _: 8)
    monkeypatch.setattr(trapezoids, "ACROSS", 16)
    x = RNG.random((75, 5, 4)[:rank])
    interpreted(tiled(repeated(rank, 1, "edge"), x, 4), x, 4, threads)
    even, odd = tiles[-2:]
    assert odd > 0
    assert (even, odd % threads) == (odd + 1, 0)


# ---------------------------------------------------------------- what is not tiled

LOOP = """
program main(x: f64[n])
  sizes n, t
{{
  let y: f64[n] = loop ({state}v: f64[n] = x) for k from 0 to t tiled from 0 to n {{
    {before}
    let w: f64[n] = kernel (i < n) {{
      let a: f64 = v[{index} : edge({lower}, n)]
      let b: f64 = add(a, 1.0)
      in b
    }}
    in {after}w
  }}
  in y
}}
"""


def labels(text: str) -> list[str]:
    program = parse(text)
    segment = compile_segment(program, {})
    x = RNG.random(17)
    expected = interpret(program, [x], {"n": 17, "t": 5})
    found = run(segment, [x], {"n": 17, "t": 5}, 2, QUICK)
    np.testing.assert_array_equal(found[0], expected[0])
    return list(segment.kernels)


def loop(index: str = "i + 1", lower: str = "0", **more: str) -> str:
    return LOOP.format(**{"state": "", "before": "", "after": "", **more}, index=index, lower=lower)


def test_a_loop_that_says_it_can_be_tiled_is_looked_at() -> None:
    assert any(TILED in label for label in labels(loop()))


@pytest.mark.parametrize("text", [loop(index="n - 1 - i"), loop(index="i + k"), loop(lower="1")])
def test_reads_that_are_not_near(text: str) -> None:
    """Backwards, at a distance that changes, or by a rule that leads to far away."""
    found = labels(text)
    assert not any(TILED in label for label in found)
    assert any("a round at a time: rounds read beyond constant offsets" in f for f in found)


def test_scalars_that_go_from_round_to_round() -> None:
    text = loop(state="s: i64 = 0, ", before="let r: i64 = add(s, 1)", after="r, ")
    text = text.replace("let y: f64[n]", "let last: i64, y: f64[n]")
    assert any("rounds give scalars to the next" in label for label in labels(text))


def test_halves_of_a_block() -> None:
    """Without a choice of buffers both are halves of one block, in turn."""
    program = parse(loop())
    segment = without_choices(program)
    assert any(TILED in label for label in segment.kernels)
    x = RNG.random(33)
    expected = interpret(program, [x], {"n": 33, "t": 7})
    (found,) = run(segment, [x], {"n": 33, "t": 7}, 2, QUICK)
    np.testing.assert_array_equal(found, expected[0])


TRANSPOSED = """
program main(x: f64[n, n] @ x[0; (n : n); (n : 1)])
  sizes n, t
  block halves 16*n*n
  result f64[n, n] @ result_0[0; (n : n); (n : 1)]
{
  let s: f64[n, n] @ halves[0; (n : n); (n : 1)] = copy x
  let y: f64[n, n] @ halves[e*n*n; (n : n); (n : 1)], e: i64 =
    loop (v: f64[n, n] @ halves[b*n*n; (n : n); (n : 1)] = s, b: i64 = 0)
    for k from 0 to t tiled from 0 to n {
      let w: f64[n, n] @ halves[-b*n*n + n*n; (n : %s); (n : %s)] = kernel (i < n, j < n) {
        let a: f64 = v[i + 1 : edge(0, n), j]
        in a
      }
      let c: i64 = subtract(1, b)
      in w, c
    }
  let z: f64[n, n] @ result_0[0; (n : n); (n : 1)] = copy y
  in z
}
"""


@pytest.mark.parametrize(("strides", "found"), [(("n", "1"), TILED), (("1", "n"), "layouts")])
def test_memory_that_arrays_share_in_different_layouts(strides: Any, found: str) -> None:
    """Rows of one are columns of the other: what a tile writes is not what it has read."""
    program = parse_memory(TRANSPOSED % strides)
    _, unit, _ = lower_program(program, "entry")
    assert any(found in label for label in unit.kernels)
