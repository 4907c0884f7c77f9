"""Which loops ask for tiles in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.fun import nodes as fun
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes import tile_time as tiling
from weft.passes.pipeline import optimise

Golden = Callable[[str], None]
RNG = np.random.default_rng(0)


def fused(function: Any, *arguments: Any) -> fun.Program:
    return optimise(wf.jit(function).lower(*arguments).program)


def tiled(program: fun.Program) -> list[bool]:
    """Of each loop over a range, whether it is marked."""
    forms = [let.expr.form for let in program.body.statements if isinstance(let.expr, fun.Loop)]
    return [form.tiled is not None for form in forms if isinstance(form, fun.For)]


def three_points(rule: Any) -> Any:
    def step(x: Any) -> Any:
        return wf.stencil(lambda t: t[-1] * 0.25 + t[0] * 0.5 + t[1] * 0.25, x, boundary=rule)

    return lambda x, n: wf.iterate(step, x, n)


def five_points(rule: Any) -> Any:
    def step(x: Any) -> Any:
        return wf.stencil(
            lambda t: (t[-1, 0] + t[1, 0] + t[0, -1] + t[0, 1] - t[0, 0]) / 3, x, boundary=rule
        )

    return lambda x, n: wf.iterate(step, x, n)


def pair(x: Any, n: Any) -> Any:
    def step(k: Any, pair: Any) -> Any:
        x, y = pair
        new = wf.stencil(lambda a, p: a[-2] + p[1] - a[1] * 0.5, x, y, boundary="edge")
        return new, y * 0.5 + x + k

    return wf.fori_loop(0, n, step, (x, x))


def heavy(x: Any, n: Any) -> Any:
    rows = wf.reshape(x, (5, 10))

    def step(x: Any) -> Any:
        return wf.stencil(lambda t: sum((t[0, 1] + k) * t[1, 0] for k in range(9)), x)

    return wf.iterate(step, rows, n)


@pytest.mark.parametrize(
    "function", [three_points("keep"), three_points("wrap"), pair, heavy],
    ids=["keep", "wrap", "pair", "heavy"],
)  # fmt: skip
def test_what_is_marked(function: Any) -> None:
    """The mark says nothing about the meaning, and stands in the text."""
    x = RNG.random(50)
    program = fused(function, x, 3)
    assert len(tiling.time_tiles(program)) == 1
    marked = tiling.tile_time(program)
    check(marked, after="tile_time")
    assert (tiled(program), tiled(marked)) == ([False], [True])
    assert show(parse(show(marked))) == show(marked)
    sizes = {size: 50 if k else 3 for k, size in enumerate(program.sizes)}
    for found, wanted in zip(
        interpret(marked, [x], sizes), interpret(program, [x], sizes), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def used_of(program: fun.Program) -> tuple[Any, Any]:
    forms = [let.expr.form for let in program.body.statements if isinstance(let.expr, fun.Loop)]
    (form,) = [form for form in forms if isinstance(form, fun.For)]
    assert form.tiled is not None
    return form.tiled


def test_rows_that_are_used() -> None:
    """They are known where one range of them is cut out, however often, and nothing else is."""
    loop = three_points("edge")

    def used(outside: Any) -> tuple[str, str]:
        program = fused(lambda x, n: outside(loop(x, n)), RNG.random(50), 3)
        first, last = used_of(tiling.tile_time(program))
        return str(first), str(last)

    assert used(lambda y: y[3:9]) == ("3", "9")
    extent = used(lambda y: y)[1]
    assert used(lambda y: (y[3:9], y[4:9])) == ("0", extent)
    assert used(lambda y: (y[3:9], y)) == ("0", extent)
    assert used(lambda y: y[3:9:2]) == ("0", extent)
    assert used(lambda y: (y[3:9], wf.sum(y))) == ("0", extent)


RESULTS = """program turns(x: f64[n], y: f64[n]) sizes n, t {
  let p: f64[n], q: f64[n] = loop (a: f64[n] = x, b: f64[n] = y) for s from 0 to t {
    let c: f64[n] = kernel (i < n) {
      let d: f64 = a[i - 1: edge(0, n)]
      let e: f64 = b[i]
      let f: f64 = subtract(d, e)
      in f }
    in c, %s }
  in p, q }"""


@pytest.mark.parametrize(("second", "made"), [("a", 2), ("b", 1)])
def test_what_a_round_gives_on_is_made_by_its_kernel(second: str, made: int) -> None:
    """But not an array that stays where it is."""
    program = parse(RESULTS % second)
    marked = tiling.tile_time(program)
    check(marked, after="tile_time")
    assert tiled(marked) == [True]
    (let,) = marked.body.statements
    assert isinstance(let.expr, fun.Loop)
    (kernel,) = let.expr.body.statements
    assert len(kernel.pattern) == made
    arrays = [RNG.random(9), RNG.random(9)]
    sizes = {"n": 9, "t": 5}
    for found, wanted in zip(
        interpret(marked, arrays, sizes), interpret(program, arrays, sizes), strict=True
    ):
        np.testing.assert_array_equal(found, wanted)


def test_golden(golden: Golden) -> None:
    golden(show(tiling.tile_time(fused(three_points("edge"), RNG.random(30), 4))))


def test_compiled_beyond_the_cache() -> None:
    x = RNG.random((1100, 1031)).astype("f4")
    program = wf.jit(five_points("keep"))
    tiled = program(x, 11)
    with wf.config(optimise="no-time-tiles"):
        np.testing.assert_array_equal(tiled, program(x, 11))


def sum_each_round(x: Any, n: Any) -> Any:
    return wf.fori_loop(0, n, lambda _, x: x / wf.sum(x), x)


def until(x: Any, n: Any) -> Any:
    return wf.while_loop(lambda x: x[0] < 100, lambda x: x * 2, x)


def gathers(x: Any, n: Any) -> Any:
    def step(_: Any, x: Any) -> Any:
        return wf.generate(x.shape, lambda i: x[x.shape[0] - 1 - i])

    return wf.fori_loop(0, n, step, x)


def carries_a_scalar(x: Any, n: Any) -> Any:
    return wf.fori_loop(0, n, lambda _, pair: (pair[0] * pair[1], pair[1] + 1), (x, 1.0))


@pytest.mark.parametrize(
    "function", [sum_each_round, until, gathers, carries_a_scalar], ids=lambda f: f.__name__
)
def test_what_is_left_alone(function: Any) -> None:
    """Steps that need a global result, or what is far away, or give on a scalar; and while."""
    program = fused(function, RNG.random(50), 3)
    assert tiling.time_tiles(program) == []
    assert tiling.tile_time(program) == program
