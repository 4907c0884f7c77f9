"""Rounds on leaning rows: compiled, in tiles and not, they give what the interpreter gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from lower.harness import QUICK, run

import weft as wf
from weft.compiler import compile_segment
from weft.fun import nodes as fun
from weft.fun.builder import Builder, Names
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.leaning import Lean, Leaning, straighten, turns_of
from weft.fun.parse import parse
from weft.fun.show import show
from weft.passes.pipeline import optimise
from weft.passes.tile_time import tile_time
from weft.sizes import Poly

pytestmark = pytest.mark.usefixtures("small_tiles")

RNG = np.random.default_rng(3)
TILED = "even and odd trapezoids"
LEAN = ("low", "high", "left", "right")


def repeated(x: Any, n: Any) -> Any:
    def step(x: Any) -> Any:
        near = (0,) * (x.ndim - 1)
        return wf.stencil(lambda t: t[-1, *near] * 0.5 - t[1, *near] + t[0, *near], x, boundary=2.5)

    return wf.iterate(step, x, n)


def wide(x: Any, n: Any) -> Any:
    return wf.iterate(
        lambda x: wf.stencil(lambda t: t[-3] + t[2] - t[0], x, boundary="reflect"), x, n
    )


def wave(x: Any, y: Any, n: Any) -> Any:
    def step(k: Any, pair: Any) -> Any:
        x, y = pair
        new = wf.stencil(lambda a: a[-1, 0] + a[1, 1], x, boundary="edge")
        return new * 0.5 + y * k, x

    return wf.fori_loop(0, n, step, (x, y))


def leaning(program: fun.Program, left_over: int) -> fun.Program:
    """The program's loop on leaning rows; what its memory begins with are parameters."""
    (let,) = (let for let in program.body.statements if isinstance(let.expr, fun.Loop))
    loop = let.expr
    assert isinstance(loop, fun.Loop)
    turns, names = turns_of(loop), Names.of(program)
    assert turns is not None
    spares = [fun.Var(names.fresh("spare"), loop.params[n].type) for n in turns.spares]
    builder = Builder(names)
    state = [
        builder.let(fun.Copy(var), var.type, var.name)
        for var in (*loop.initial, *spares)
        if isinstance(var, fun.Var)
    ]
    rounds = Leaning(loop, Lean(*map(Poly.var, LEAN)), turns, state)
    rounds.rounds(builder, Poly.var("count"), left_over)
    made = replace(
        program,
        params=(*program.params, *spares),
        body=builder.body(rounds.state),
        sizes=(*program.sizes, *LEAN, "count"),
    )
    check(made)
    return made


CASES = {
    "line": (repeated, 1, 1, (60,)),
    "wide": (wide, 1, 3, (60,)),
    "plane": (repeated, 1, 1, (60, 5)),
    "volume": (repeated, 1, 1, (60, 4, 3)),
    "wave": (wave, 2, 1, (60, 5)),
}


@pytest.mark.parametrize("name", CASES)
def test_rows_that_lean_and_rows_that_do_not(name: str) -> None:
    function, count, radius, shape = CASES[name]
    zeros = [np.zeros(shape)] * count
    original = optimise(wf.jit(function).lower(*zeros, 3).program)
    program = leaning(original, 1)
    assert show(parse(show(program))) == show(program)
    tiled, plain = compile_segment(tile_time(program), {}), compile_segment(program, {})
    assert any(TILED in label for label in tiled.kernels)
    assert not any(TILED in label for label in plain.kernels)
    sizes = {
        extent.variable: n
        for param in original.params
        if isinstance(param.type, fun.Array)
        for n, extent in zip(shape, param.type.shape, strict=True)
        if extent.variable is not None
    }
    arrays = [RNG.random(shape) for _ in program.params]
    for low, high, left, right in (
        (32, 50, radius, radius), (0, 50, 0, radius), (31, 60, radius, 0), (40, 41, radius, radius),
    ):  # fmt: skip
        for often in (0, 3):
            values = {**dict.fromkeys(original.sizes, 0), **sizes, "count": often}
            values.update(zip(LEAN, (low, high, left, right), strict=True))
            expected = interpret(program, arrays, values)
            for segment, threads in ((tiled, 1), (tiled, 3), (plain, 2)):
                found = run(segment, arrays, values, threads, QUICK)
                for one, wanted in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, wanted)


LOOP = """program p(x: f64[n], z: f64[n]) sizes n, t, low, high, left, right {{
  let p: f64[n], q: f64[n] = loop (a: f64[n] = x, o: f64[n] = z) for k from 0 to t {{
    let c: f64[high - low] = kernel (i < high - low) {{
      let e: f64 = a[i + low - left*k: edge(0, n)] in e }}
    let b: f64[n] = update o[{rows} for high - low] = c
    let d: f64[high - low] = kernel (i2 < high - low) {{
      let g: f64 = b[i2 + low - left*k: edge(0, n)] in g }}
    let f: f64[n] = update a[low - left*k - {half} for high - low] = d
    in {results} }}
  in p, q }}"""


@pytest.mark.parametrize(("rows", "half", "results", "leans"), [
    ("low - 2*left*k", "left*k - left", "f, b", True),
    ("low - left*k", "left", "f, b", False),  # twice as far from round to round as within one
    ("0", "left*k - left", "f, b", False),  # one stays, one leans
])  # fmt: skip
def test_what_leans(rows: str, half: str, results: str, leans: bool) -> None:
    program = parse(LOOP.format(rows=rows, half=half, results=results))
    (let,) = program.body.statements
    assert isinstance(let.expr, fun.Loop)
    found = straighten(let.expr, Names.of(program))
    assert (found is not None) == leans
    if found is not None:
        straight, lean = found
        assert not any(isinstance(s.expr, fun.Update) for s in straight.body.statements)
        assert lean == Lean(*map(Poly.var, ("low", "high")), Poly.var("left"), Poly.var("left"))


def test_rows_made_apart_are_not_tiled() -> None:
    """A kernel's rows that are used besides their update have memory of their own."""
    text = LOOP.format(rows="low - 2*left*k", half="left*k - left", results="f, b")
    apart = text.replace("let d: f64", "let s: f64 = c[0] let d: f64").replace(
        "in g }", "let h: f64 = add(g, s) in h }"
    )
    program = parse(apart)
    (let,) = program.body.statements
    assert isinstance(let.expr, fun.Loop)
    assert straighten(let.expr, Names.of(program)) is None
