"""Loops whose rounds take pivots: blocks of rounds, the interpreter's bits, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from agreement.ways import saved
from plan.stages import InterpretedStage, ListedSink, ListedSource

import weft as wf
from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun.builder import Names
from weft.fun.check import check
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.fun.show import show
from weft.plan import maker
from weft.plan.block_rounds import block_rounds
from weft.plan.canonical import canonical
from weft.plan.explain import explain
from weft.plan.pivots import Unsuited, rounds_of
from weft.plan.planner import plan_program
from weft.runtime.executor import execute

RNG = np.random.default_rng(3)

GAUSS = """program gauss(x: f64[n, m]) sizes n, m {
  let y: f64[n, m] = loop (v: f64[n, m] = x) for k from 0 to n {
    let a: f64 = v[k, k]
    let p: f64[m] = kernel (i < m) {
      let b: f64 = v[k, i]
      let c: f64 = divide(b, a)
      in c }
    let u: f64[n, m] = update v[k, 0 for m] = p
    let f: f64[n] = slice u[0 for n, k]
    let g: f64[n] = update f[k] = 0.0
    let w: f64[n, m] = kernel (i1 < n, i2 < m) {
      let d: f64 = u[i1, i2]
      let e: f64 = g[i1]
      let h: f64 = p[i2]
      let o: f64 = multiply(e, h)
      let r: f64 = subtract(d, o)
      in r }
    in w }
  in y }"""
TRIANGLES = """program lu(x: f64[n, m]) sizes n, m fact m - n >= 0 {
  let y: f64[n, m] = loop (v: f64[n, m] = x) for k from 0 to n {
    let a: f64 = v[k, k]
    let p: f64[n - k - 1] = kernel (i < n - k - 1) {
      let b: f64 = v[i + k + 1, k]
      let c: f64 = divide(b, a)
      in c }
    let w: f64[n - k - 1, m - k - 1] = kernel (i1 < n - k - 1, i2 < m - k - 1) {
      let d: f64 = v[i1 + k + 1, i2 + k + 1]
      let e: f64 = p[i1]
      let h: f64 = v[k, i2 + k + 1]
      let o: f64 = multiply(e, h)
      let r: f64 = subtract(d, o)
      in r }
    let u: f64[n, m] = update v[k + 1 for n - k - 1, k] = p
    let z: f64[n, m] = update u[k + 1 for n - k - 1, k + 1 for m - k - 1] = w
    in z }
  in y }"""
BACKWARD = """program backward(x: f64[n, m]) sizes n, m fact m - n >= 0 {
  let y: f64[n, m] = loop (v: f64[n, m] = x) for k from 0 to n {
    let a: f64 = v[n - k - 1, n - k - 1]
    let p: f64[m] = kernel (i < m) {
      let b: f64 = v[n - k - 1, i]
      let c: f64 = divide(b, a)
      in c }
    let u: f64[n, m] = update v[n - k - 1, 0 for m] = p
    let w: f64[n - k - 1, m] = kernel (i1 < n - k - 1, i2 < m) {
      let d: f64 = u[i1, i2]
      let e: f64 = u[i1, n - k - 1]
      let h: f64 = p[i2]
      let o: f64 = multiply(e, h)
      let r: f64 = subtract(d, o)
      in r }
    let z: f64[n, m] = update u[0 for n - k - 1, 0 for m] = w
    in z }
  in y }"""
EXCHANGED = """program exchanged(x: f64[n, m]) sizes n, m fact m - n >= 0 {
  let y: f64[n, m] = loop (v: f64[n, m] = x) for k from 0 to n {
    let top: f64[m] = slice v[k, 0 for m]
    let old: f64[m] = copy top
    let most: f64, at: i64 = reduce (; i0 < n - k) from -inf, 9223372036854775807 {
      let s: f64 = v[i0 + k, k]
      let t: f64 = abs(s)
      in t, i0
    } with (q0: f64, q1: i64, q2: f64, q3: i64) {
      let q4: bool = greater(q2, q0)
      let q5: f64 = where(q4, q2, q0)
      let q6: i64 = where(q4, q3, q1)
      in q5, q6 }
    let j: i64 = add(k, at)
    let a: f64 = v[j, k]
    let p: f64[m] = kernel (i < m) {
      let b: f64 = v[j, i]
      let c: f64 = divide(b, a)
      in c }
    let u0: f64[n, m] = update v[j, 0 for m] = old
    let u: f64[n, m] = update u0[k, 0 for m] = p
    let w: f64[n, m] = kernel (i1 < n, i2 < m) {
      let l: bool = equal(i1, k)
      let d: f64 = u[i1, i2]
      let e: f64 = u[i1, k]
      let h: f64 = p[i2]
      let o: f64 = multiply(e, h)
      let r: f64 = subtract(d, o)
      let z: f64 = where(l, d, r)
      in z }
    in w }
  in y }"""
SYSTEM = """program system(x: f64[n, m], b: f32[n]) sizes n, m {
  let y: f64[n, m], s: f32[n], q: f64 =
      loop (v: f64[n, m] = x, t: f32[n] = b, f: f64 = 1.0) for k from 1 to n {
    let a: f64 = v[k, k]
    let c: f64 = v[k - 1, k]
    let g: f64 = multiply(f, a)
    let z: f32 = t[k]
    let w: f64[n, m] = kernel (i1 < n, i2 < m) {
      let d: f64 = v[i1, i2]
      let e: f64 = v[i1, k]
      let h: f64 = v[k, i2]
      let o: f64 = multiply(e, h)
      let r: f64 = subtract(d, o)
      let l: f64 = divide(r, g)
      in l }
    let u: f32[n] = kernel (i3 < n) {
      let d1: f32 = t[i3]
      let e1: f32 = f32(c)
      let h1: f32 = multiply(z, e1)
      let o1: f32 = subtract(d1, h1)
      let n1: f32 = f32(i3)
      let r1: f32 = add(o1, n1)
      in r1 }
    in w, u, g }
  in y, s, q }"""
ROWS = """program rows(x: f64[n, m]) sizes n, m {
  let y: f64[n, m] = loop (v: f64[n, m] = x) for k from 0 to 7 {
    let s: f64[n] = reduce (i0 < n; i1 < m) from -0.0 {
      let a: f64 = v[i0, i1]
      in a
    } with (p: f64, q: f64) { let r: f64 = add(p, q) in r }
    let c: f64 = f64(k)
    let w: f64[n, m] = kernel (i2 < n, i3 < m) {
      let d: f64 = v[i2, i3]
      let e: f64 = s[i2]
      let f: f64 = divide(d, e)
      let g: f64 = add(f, c)
      in g }
    in w }
  in y }"""
SUITED = {
    "gauss": GAUSS, "triangles": TRIANGLES, "backward": BACKWARD, "exchanged": EXCHANGED,
    "system": SYSTEM, "rows": ROWS,
}  # fmt: skip


def given(program: fun.Program, sizes: dict[str, int]) -> dict[str, np.ndarray]:
    arrays = {}
    for param in program.params:
        shape = tuple(int(n.evaluate(sizes)) for n in param.type.shape)
        array = RNG.random(shape)
        arrays[param.name] = (array + 1.0).astype(param.type.dtype.numpy)
    return arrays


@pytest.mark.parametrize("name", SUITED)
@pytest.mark.parametrize("n", [2, 3, 5, 13])
@pytest.mark.parametrize("room", [0, 900, 2500, 1 << 20])  # a round a block, some, all
def test_blocks_of_rounds_give_the_same_bits(name: str, n: int, room: int) -> None:
    program, sizes = parse(SUITED[name]), {"n": n, "m": n + 4}
    arrays = list(given(program, sizes).values())
    blocked = block_rounds(program, sizes, 1, room)
    assert not blocked.reasons
    assert blocked.ends
    check(blocked.program)
    expected = interpret(program, arrays, sizes)
    for value, result in zip(
        expected, interpret(blocked.program, arrays, blocked.sizes), strict=True
    ):
        np.testing.assert_array_equal(result, value)
    rounds = {"rows": 7, "system": n - 1}.get(name, n)
    blocks = sum(size.startswith("box_rounds") for size in blocked.sizes)
    if name == "rows" or room == 1 << 20:
        assert blocks == 1
    elif room == 0:
        assert blocks == rounds
    if n == 13 and room == 2500 and name != "rows":
        assert 1 < blocks < rounds


def test_rows_are_those_of_the_first_axis_that_suits() -> None:
    for name, axis in (("gauss", 0), ("exchanged", 1), ("rows", 0)):
        (let,) = parse(SUITED[name]).body.statements
        names = Names.of(parse(SUITED[name]))
        if axis:
            with pytest.raises(Unsuited, match="needs all rows at once"):
                rounds_of(let, 0, names)
        assert rounds_of(let, axis, names).axis == axis


COLUMN_SUM = """let a: f64 = reduce (; z < n) from -0.0 {
      let z1: f64 = v[z, k]
      in z1
    } with (z2: f64, z3: f64) { let z4: f64 = add(z2, z3) in z4 }"""
MOVED = """let w0: f64[n - 1, m] = slice w[1 for n - 1, 0 for m]
    let z: f64[n, m] = update w[0 for n - 1, 0 for m] = w0
    in z }
  in y"""


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("let a: f64 = v[k, k]", COLUMN_SUM, "a round needs all rows at once"),
        ("= u[i1, i2]", "= u[i1 - 1: edge(0, n), i2]", "a row needs its neighbours"),
        ("= u[i1, i2]", "= u[n - 1 - i1, i2]", "a round needs all rows at once"),
        ("let b: f64 = v[k, i]", "let z: i64 = i64(a)\n let b: f64 = v[z, i]", "depends on data"),
        ("= v[k, i]", "= v[k*k, i]", "no multiple of its number"),
        ("in w }\n  in y", MOVED, "moves rows to other places"),
    ],
)
def test_rows_that_need_others_are_refused(old: str, new: str, reason: str) -> None:
    program = parse(GAUSS.replace(old, new))
    (let,) = program.body.statements
    with pytest.raises(Unsuited) as caught:
        rounds_of(let, 0, Names.of(program))
    assert reason in caught.value.reason


RUNNING = """program running(x: f64[n, m]) sizes n, m fact n - 1 >= 0 {
  let y: f64[n, m] = loop (v: f64[n, m] = x) for k from 0 to n - 1 {
    let p: f64[m] = kernel (i < m) {
      let a: f64 = v[k, i]
      let b: f64 = v[k + 1, i]
      let c: f64 = add(a, b)
      in c }
    let w: f64[n, m] = update v[k + 1, 0 for m] = p
    in w }
  in y }"""


def test_rounds_of_single_rows_are_refused() -> None:
    """Boxes would go through all rows in each round: of a running sum, n * n."""
    program = parse(RUNNING)
    (let,) = program.body.statements
    with pytest.raises(Unsuited, match="makes single rows"):
        rounds_of(let, 0, Names.of(program))
    assert rounds_of(let, 1, Names.of(program)).axis == 1
    array, sizes = RNG.random((9, 5)), {"n": 9, "m": 5}
    blocked = block_rounds(program, sizes, 1, 900)
    assert set(blocked.axes.values()) == {1}
    (result,) = interpret(blocked.program, [array], blocked.sizes)
    np.testing.assert_array_equal(result, interpret(program, [array], sizes)[0])


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("= v[k, i]", "= v[n - k - 1, i]", "go in different ways"),
        ("= v[k, i]", "= v[0, i]", "go in different ways"),
        ("from 0 to n", "from 0 to n + 1", "may lie outside"),
    ],
)
def test_pivots_far_apart_or_outside_are_refused(old: str, new: str, reason: str) -> None:
    by_rows_alone = GAUSS.replace("= u[i1, i2]", "= u[i1, m - 1 - i2]").replace(old, new)
    program = parse(by_rows_alone)
    found = block_rounds(program, {"n": 5, "m": 9}, 1, 100)
    assert found.program.body == program.body
    assert not found.ends
    ((said, _),) = found.reasons
    assert reason in said


def test_what_does_not_suit_along_rows_may_along_columns() -> None:
    """Sums of columns, and neighbours in them, are within a column."""
    text = GAUSS.replace("let a: f64 = v[k, k]", COLUMN_SUM)
    text = text.replace("= u[i1, i2]", "= u[i1 - 1: edge(0, n), i2]")
    program, sizes = parse(text), {"n": 5, "m": 9}
    blocked = block_rounds(program, sizes, 1, 900)
    assert blocked.ends
    array = RNG.random((5, 9))
    (result,) = interpret(blocked.program, [array], blocked.sizes)
    np.testing.assert_array_equal(result, interpret(program, [array], sizes)[0])


def test_loops_that_fit_stay() -> None:
    program = parse(GAUSS)
    assert block_rounds(program, {"n": 5, "m": 9}, 1 << 20, 100).program == program


def streamed(name: str, n: int, limit: int, **more: Any) -> tuple[Any, Any, Any, list[Any]]:
    program, sizes = parse(SUITED[name]), {"n": n, "m": n + 4}
    arrays = given(program, sizes)
    sources = {key: ListedSource(array) for key, array in arrays.items()}
    expected = interpret(program, list(arrays.values()), sizes)
    sinks = [
        ListedSink(value.shape, value.dtype) if np.ndim(value) else None for value in expected
    ]
    plan = plan_program(
        program, sizes, sources, sinks, limit, 2, InterpretedStage, allowance=0,
        box_bytes=1 << 11, small=0, **more,
    )  # fmt: skip
    return plan, sources, list(zip(sinks, expected, strict=True)), execute(plan)


@pytest.mark.parametrize("name", SUITED)
def test_plans_under_a_limit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "_SPILLED", 1 << 14)
    array = 61 * 65 * 8
    plan, sources, outcomes, results = streamed(name, 61, array)
    assert plan.peak_bytes <= array
    for (sink, value), result in zip(outcomes, results, strict=True):
        np.testing.assert_array_equal(result if sink is None else sink.array, value)
    if name == "rows":  # one pass, of boxes
        assert len(plan.stages) == 1
        assert sources["x"].bytes == array
        return
    blocks = sum("on each row, after" in stage.stage.reason for stage in plan.stages)
    assert 1 < blocks < 40
    assert "rounds" in str(explain(plan))
    if name != "exchanged":  # boxes of columns
        # The first block reads all rows, and before them those that are its pivots.
        assert array < sources["x"].bytes < 1.5 * array
    given_on = [n for stage in plan.stages for n in stage.spilled if plan.values[n].bytes == array]
    assert len(given_on) == blocks - 1  # in scratch files; the last block gives the result


def test_blocks_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "_SPILLED", 1 << 14)
    program, sizes = parse(GAUSS), {"n": 61, "m": 65}
    texts: set[str] = set()

    def stage(part: fun.Program, layouts: Any, private: Any) -> InterpretedStage:
        texts.add(show(part))
        return InterpretedStage(part, layouts)

    array = given(program, sizes)["x"]
    sink = ListedSink(array.shape, array.dtype)
    plan = plan_program(
        program, sizes, {"x": ListedSource(array)}, [sink], array.nbytes, 2, stage,
        allowance=0, box_bytes=1 << 11, small=0,
    )  # fmt: skip
    assert len(plan.stages) > 12
    assert len(texts) < 10


def test_canonical_programs_mean_the_same() -> None:
    for text in SUITED.values():
        program, sizes = parse(text), {"n": 5, "m": 9}
        blocked = block_rounds(program, sizes, 1, 900)
        arrays = list(given(program, sizes).values())
        made, names = canonical(blocked.program)
        check(made)
        again, _ = canonical(made)
        assert show(again) == show(made)
        known = {new: blocked.sizes[old] for new, old in names.items()}
        for value, result in zip(
            interpret(blocked.program, arrays, blocked.sizes), interpret(made, arrays, known),
            strict=True,
        ):  # fmt: skip
            np.testing.assert_array_equal(result, value)


def test_a_loop_that_is_refused_says_why(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.ones(1_200_000))

    @wf.jit
    def ordered(a: Any) -> Any:
        return wf.fori_loop(0, 5, lambda k, v: wf.sort(v) - v.sum(), a)

    with (
        wf.config(memory_limit=28 << 20),
        pytest.raises(
            MemoryLimitError, match=r"needs whole arrays; nor do rounds alone fit: .* cannot"
        ),
    ):
        wf.store(ordered(wf.open(tmp_path / "a.npy")), tmp_path / "b.npy")


def test_a_loop_that_fits_but_for_its_workspace_is_done_in_blocks(tmp_path: Path) -> None:
    """Its arrays fit the limit, and all that its rounds take besides does not."""
    random = np.random.default_rng(6)
    given = random.normal(size=(3000, 50)), random.normal(size=(50, 50)) / 9
    paths = saved(tmp_path, *given)

    def rounds(a: Any, b: Any) -> Any:
        def products(s: Any) -> Any:
            return wf.map(lambda row: wf.map(lambda column: (row * column).sum(), b.T), s)

        return wf.fori_loop(0, 3, lambda _, s: products(s) * 0.1 + s, a)

    for limit in range(26, 35):
        with wf.config(memory_limit=limit << 20):
            wf.store(rounds(*map(wf.open, paths)), tmp_path / "out.npy", mode="w")
        expected = given[0]
        for _ in range(3):
            expected = expected @ given[1] * 0.1 + expected
        np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, rtol=1e-10)
