"""Rounds that need a result of all data: one by one, each in boxes, with the same bits."""

from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices.harness import device
from plan.stages import InterpretedStage, ListedSink, ListedSource
from slow import some_slow

import weft as wf
from weft.errors import MemoryLimitError
from weft.fun import nodes as fun
from weft.fun.interpret import interpret
from weft.fun.parse import parse
from weft.passes.split_reductions import always, split_reductions
from weft.plan import maker, one_by_one
from weft.plan.explain import explain
from weft.plan.nodes import Plan
from weft.plan.planner import plan_program
from weft.runtime import rounds as running
from weft.runtime.executor import execute

SUM = "with (p: f64, q: f64) { let r: f64 = add(p, q) in r }"
SCALED = f"""program scaled(x: f64[n]) sizes n, t {{
  let y: f64[n] = loop (v: f64[n] = x) for k from 0 to t {{
    let s: f64 = reduce (; i < n) from -0.0 {{ let a: f64 = v[i] in a }} {SUM}
    let w: f64[n] = kernel (j < n) {{
      let b: f64 = v[j]
      let c: f64 = divide(b, s)
      let d: f64 = add(c, 0.25)
      in d }}
    in w }}
  in y }}"""
"""A round divides by the sum of all."""

TURNS = f"""program turns(x: f64[n]) sizes n, t {{
  let y: f64[n], z: f64[n], h: f64 = loop (u: f64[n] = x, v: f64[n] = x, g: f64 = 1.0)
      for k from 0 to t {{
    let s: f64 = reduce (; i < n) from -0.0 {{ let a: f64 = v[i] in a }} {SUM}
    let f: f64 = f64(k)
    let w: f64[n] = kernel (j < n) {{
      let b: f64 = v[j]
      let c: f64 = divide(b, s)
      let o: f64 = u[j]
      let d: f64 = multiply(o, g)
      let e: f64 = add(c, d)
      let l: f64 = add(e, f)
      in l }}
    in v, w, s }}
  in y, z, h }}"""
"""Two arrays take turns: one is what the other was. The number of a round is a value."""

UNTIL = f"""program until(x: f64[n]) sizes n, t {{
  let s0: f64 = reduce (; i < n) from -0.0 {{ let a: f64 = x[i] in a }} {SUM}
  let y: f64[n], h: f64 = loop (v: f64[n] = x, g: f64 = s0) while {{
    let l: bool = greater(g, 3.0)
    in l }} {{
    let w: f64[n] = kernel (j < n) {{
      let b: f64 = v[j]
      let c: f64 = divide(b, g)
      let d: f64 = multiply(c, 2.9)
      in d }}
    let s: f64 = reduce (; i1 < n) from -0.0 {{ let a1: f64 = w[i1] in a1 }} {SUM}
    in w, s }}
  in y, h }}"""
"""As long as a sum of all is large; so often is known from no size."""

VIEWED = f"""program viewed(x: f64[m, n]) sizes n, m, t {{
  let x1: f64[m * n] = reshape x (m * n)
  let y: f64[m * n] = loop (v: f64[m * n] = x1) for k from 0 to t {{
    let s: f64 = reduce (; i < m * n) from -0.0 {{ let a: f64 = v[i] in a }} {SUM}
    let w: f64[m * n] = kernel (j < m * n) {{
      let b: f64 = v[j]
      let c: f64 = divide(b, s)
      let e: f64 = x1[j]
      let d: f64 = add(c, e)
      in d }}
    in w }}
  in y }}"""
"""What it begins with is a view, which rounds read, too."""

MADE = f"""program made(x: f64[n]) sizes n, t {{
  let x1: f64[n] = kernel (j1 < n) {{ let a1: f64 = x[j1] let b1: f64 = sqrt(a1) in b1 }}
  let x2: f64[n] = kernel (j2 < n) {{ let a2: f64 = x[j2] let b2: f64 = add(a2, 1.0) in b2 }}
  let y: f64[n], z: f64[n] = loop (v: f64[n] = x1, u: f64[n] = x2) for k from 0 to t {{
    let s: f64 = reduce (; i < n) from -0.0 {{ let a: f64 = v[i] in a }} {SUM}
    let w: f64[n] = kernel (j < n) {{
      let b: f64 = u[j]
      let c: f64 = divide(b, s)
      let e: f64 = x1[j]
      let d: f64 = add(c, e)
      in d }}
    in w, v }}
  in y, z }}"""
"""Two arrays are made before; rounds read one of them, too, and may write the other."""

TAKEN = f"""program taken(x: f64[n]) sizes n, t {{
  let y: f64[n] = loop (v: f64[n] = x) for k from 1 to t {{
    let s: f64 = reduce (; i < n) from -0.0 {{ let a: f64 = v[i] in a }} {SUM}
    let o: f64 = v[k]
    let w: f64[n] = kernel (j < n) {{
      let b: f64 = v[j]
      let c: f64 = divide(b, s)
      let d: f64 = add(c, o)
      in d }}
    in w }}
  in y }}"""
"""A round takes an element by its number."""

SHIFTED = f"""program shifted(start: i64[m], more: i64[t], value: f64[k], zero: f64[n])
  sizes m, k, n, t {{
  let ends: i64[m], u: f64[n] = loop (at: i64[m] = start, v: f64[n] = zero) for turn from 0 to t {{
    let s: f64 = reduce (; i3 < n) from -0.0 {{ let q0: f64 = v[i3] in q0 }} {SUM}
    let o: i64 = more[turn]
    let y: f64[n] = kernel (i < n) {{
      let a: i64 = at[i]
      let b: i64 = at[i + 1]
      let g: f64 = loop (f: f64 = s) for j from a to b {{
        let w: f64 = value[j]
        let h: f64 = add(f, w)
        in h }}
      in g }}
    let moved: i64[m] = kernel (i2 < m) {{
      let c: i64 = at[i2]
      let e: i64 = add(c, o)
      in e }}
    in moved, y }}
  in u }}"""
"""A round adds up what is between pointers, and moves these by an element that it takes."""

PROGRAMS = {
    "scaled": SCALED, "turns": TURNS, "until": UNTIL, "viewed": VIEWED, "taken": TAKEN,
    "made": MADE,
}  # fmt: skip


@pytest.fixture
def _small_spills(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of a few pages are worth a scratch file."""
    monkeypatch.setattr(maker, "_SPILLED", 1 << 12)


def prepared(text: str) -> fun.Program:
    return split_reductions(parse(text), always, 64)


def given(program: fun.Program, sizes: dict[str, int]) -> Any:
    (param,) = program.params
    shape = [int(extent.evaluate(sizes)) for extent in param.type.shape]
    return np.random.default_rng(7).random(shape)


def planned(
    program: fun.Program, sizes: dict[str, int], x: Any, sinks: list[Any] | None, limit: int
) -> Plan:
    return plan_program(
        program, sizes, {program.params[0].name: x},
        sinks or [None] * len(program.body.results), limit, 2, InterpretedStage, allowance=0,
        small=64,
    )  # fmt: skip


@pytest.mark.usefixtures("_small_spills")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("t", some_slow([0, 1, 2, 5], [1, 5]))
@pytest.mark.parametrize("read", [False, True], ids=["memory", "file"])
def test_rounds_give_the_same_bits(name: str, t: int, read: bool) -> None:
    """From memory and from what is read in boxes; into arrays and into files."""
    program, sizes = prepared(PROGRAMS[name]), {"n": 40_000, "m": 5, "t": t}
    if name == "viewed":
        sizes["n"] = 8_000
    sizes = {size: sizes[size] for size in program.sizes}
    x = given(program, sizes)
    expected = interpret(program, [x], sizes)
    sinks: list[Any] = [
        ListedSink(np.shape(value), np.asarray(value).dtype) if read else None
        for value in expected
    ]
    arrays = sum(isinstance(atom.type, fun.Array) for atom in program.body.results)
    limit = x.nbytes // 2 if read else x.nbytes * arrays + x.nbytes // 2
    plan = planned(program, sizes, ListedSource(x) if read else x, sinks, limit)
    assert any(stage.rounds is not None for stage in plan.stages)
    assert plan.peak_bytes <= limit
    found = execute(plan)
    for value, result, sink in zip(expected, found, sinks, strict=True):
        np.testing.assert_array_equal(result if sink is None else sink.array, value)
        if sink is not None:
            assert sink.state == "finished"


@pytest.mark.usefixtures("_small_spills")
def test_bytes_are_those_of_the_plan() -> None:
    """What is read goes once to the first round: it lies in scratch files from then on."""
    program, sizes = prepared(SCALED), {"n": 40_000, "t": 6}
    x = given(program, sizes)
    source, sink = ListedSource(x), ListedSink(x.shape, x.dtype)
    plan = planned(program, sizes, source, [sink], x.nbytes // 2)
    (stage,) = plan.stages
    assert stage.rounds is not None
    assert [one.spilled for one in stage.rounds.carried] == [True]
    execute(plan)
    each = stage.rounds.round.plan
    assert each.bytes_read == 2 * x.nbytes  # for the sum, and for what is made of it
    assert each.bytes_written == x.nbytes
    assert plan.stages[0].read["x"] == source.bytes == x.nbytes
    assert plan.bytes_read == source.bytes + 6 * each.bytes_read
    assert plan.bytes_written == 7 * x.nbytes + sink.bytes


@pytest.mark.usefixtures("_small_spills")
def test_arrays_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many rounds there are, they need one array more than they carry."""
    made: list[int] = []
    scratch = running.scratch_array

    def count(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        made.append(1)
        return scratch(shape, dtype)

    monkeypatch.setattr(running, "scratch_array", count)
    for text, arrays in ((SCALED, 2), (TURNS, 3)):
        made.clear()
        program, sizes = prepared(text), {"n": 40_000, "t": 9}
        x = given(program, sizes)
        sinks = [
            ListedSink(x.shape if isinstance(atom.type, fun.Array) else (), x.dtype)
            for atom in program.body.results
        ]
        execute(planned(program, sizes, x, sinks, x.nbytes // 2))
        assert len(made) == arrays


@pytest.mark.usefixtures("_small_spills")
def test_a_round_that_takes_an_element_by_its_number_is_planned_anew() -> None:
    for text, halves, anew in ((TAKEN, 3, True), (TURNS, 5, False)):
        program, sizes = prepared(text), {"n": 40_000, "t": 4}
        x = given(program, sizes)
        plan = planned(program, sizes, x, None, x.nbytes * halves // 2)
        (stage,) = (stage for stage in plan.stages if stage.rounds is not None)
        assert stage.rounds is not None
        assert (stage.rounds.round.replan is not None) is anew
        assert ("peak of the first" in str(explain(plan))) is anew


@pytest.mark.usefixtures("_small_spills")
def test_the_next_call_has_the_plans_of_the_first_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what they were given; of many rounds, as many as take little memory."""
    monkeypatch.setattr(one_by_one, "_KEPT", 2)
    program, sizes = prepared(TAKEN), {"n": 40_000, "t": 4}
    x = given(program, sizes)
    plan = planned(program, sizes, x, None, x.nbytes * 3 // 2)
    (rounds,) = (stage.rounds for stage in plan.stages if stage.rounds is not None)
    made: list[list[Plan]] = []
    assert rounds.round.replan is not None
    again = rounds.round.replan

    def noted(number: int, *rest: Any) -> Plan:
        made[-1].append(again(number, *rest))
        return made[-1][-1]

    object.__setattr__(rounds.round, "replan", noted)
    results = []
    for _ in range(2):
        made.append([])
        results.append(execute(plan))
    first, second = made
    assert [a is b for a, b in zip(first, second, strict=True)] == [True, True, False]
    assert not any(one.inputs or one.sinks for one in first)
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


def test_kept_plans_of_rounds_keep_no_data() -> None:
    on, x = device(), np.random.default_rng(3).random((5, 100, 300), np.float32)

    def step(s: Any, row: Any) -> Any:
        total = s * np.float32(0.5) + row
        return total, (total * total).sum()

    function = wf.jit(lambda a: wf.scan(step, wf.zeros((100, 300), np.float32), a))
    with wf.config(devices=[on.name], memory_limit={on.name: 256 << 10}):
        plan = wf.explain(function, x).plan
        assert any(s.rounds is not None and s.rounds.round.replan for s in plan.stages)
        del plan
        for _ in range(2):
            function(x)
    there = weakref.ref(x)
    del x
    gc.collect()
    assert there() is None


@pytest.mark.usefixtures("_small_spills")
def test_plans_of_rounds_are_for_the_pointers_that_they_carry() -> None:
    """What boxes read between them is another part where they are others."""
    program, n = prepared(SHIFTED), 4000
    rng = np.random.default_rng(3)
    rows = np.concatenate([[0], np.cumsum(rng.integers(0, 3, n))])
    sizes = {"m": n + 1, "t": 3, "k": 2 * n + 2000, "n": n}
    sizes = {size: sizes[size] for size in program.sizes}
    others = [np.array([5, 7, 900]), rng.random(2 * n + 2000), np.ones(n)]

    def arguments(begin: int) -> dict[str, Any]:
        names = (param.name for param in program.params)
        return dict(zip(names, [rows + begin, *others], strict=True))

    plan = plan_program(
        program, sizes, arguments(0), [None], 80_000, 2, InterpretedStage, allowance=0, small=64
    )
    (rounds,) = (stage.rounds for stage in plan.stages if stage.rounds is not None)
    assert rounds.round.replan is not None
    for begin in (0, 1000, 0):
        (expected,) = interpret(program, [*arguments(begin).values()], sizes)
        (found,) = execute(replace(plan, inputs=arguments(begin)))
        np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("_small_spills")
def test_why_rounds_go_one_by_one_is_said() -> None:
    program, sizes = prepared(SCALED), {"n": 40_000, "t": 6}
    x = given(program, sizes)
    sink = ListedSink(x.shape, x.dtype)
    text = str(explain(planned(program, sizes, ListedSource(x), [sink], x.nbytes // 2)))
    assert "the rounds of y, one by one: each needs s, of all that it begins with" in text
    assert "6 rounds, each reads 625 KiB, writes 312 KiB" in text
    assert re.search(r"carries 312 KiB in scratch files, by arrays that take turns", text)
    assert re.search(r"round, stage 3: cut w along axis 0; after all of s\n +\d+ boxes", text)
    program = prepared(UNTIL)
    x = given(program, sizes)
    sinks = [ListedSink(x.shape, x.dtype), ListedSink((), x.dtype)]
    text = str(explain(planned(program, sizes, ListedSource(x), sinks, x.nbytes // 2)))
    assert "as many as its condition says, each reads" in text
    assert re.search(r"carries .*\n +before, stage 1(.*\n)+ +condition, stage 1", text)


def test_what_fits_at_once_is_done_at_once() -> None:
    program, sizes = prepared(SCALED), {"n": 40_000, "t": 6}
    x = given(program, sizes)
    plan = planned(program, sizes, x, None, 20 * x.nbytes)
    assert all(stage.rounds is None for stage in plan.stages)


def test_rounds_that_do_not_fit_are_refused() -> None:
    """A round that sorts needs more than there is."""
    program = parse(f"""program mixed(x: f64[n]) sizes n, t {{
      let y: f64[n] = loop (v: f64[n] = x) for k from 0 to t {{
        let w: f64[n] = call sort(v, axis=0)
        let s: f64 = reduce (; i < n) from -0.0 {{ let a: f64 = v[i] in a }} {SUM}
        let z: f64[n] = kernel (j < n) {{
          let b: f64 = w[j]
          let c: f64 = divide(b, s)
          in c }}
        in z }}
      in y }}""")
    sizes = {"n": 40_000, "t": 6}
    x = given(program, sizes)
    with pytest.raises(MemoryLimitError, match="it cannot be cut into boxes"):
        planned(program, sizes, x, [ListedSink(x.shape, x.dtype)], 4096)


# ---------------------------------------------------------------- compiled

MIB = 1 << 20
ALLOWANCE = 24 * MIB


def normalised(v: Any) -> Any:
    def step(v: Any) -> Any:
        p = wf.pad(v, 1, mode="edge")
        w = p[:-2, 1:-1] + p[2:, 1:-1] + v
        return w / w.max()

    return wf.iterate(step, v, 5)


def conjugate(b: Any) -> Any:
    def body(state: Any) -> Any:
        x, r, p, before = state
        q = 8 * p
        q = q - wf.pad(p, 1)[:-2, 1:-1] - wf.pad(p, 1)[2:, 1:-1]
        a = before / (p * q).sum()
        x, r = x + a * p, r - a * q
        now = (r * r).sum()
        return x, r, r + now / before * p, now

    start = wf.zeros_like(b), b, b, (b * b).sum()
    return wf.while_loop(lambda state: state[3] > 1e-3, body, start)[0]


def powers(a: Any) -> Any:
    def step(v: Any) -> Any:
        w = a @ v
        return w / wf.sqrt((w * w).sum())

    return wf.iterate(step, wf.ones(a.shape[1]), 4)


def means(x: Any) -> Any:
    def step(c: Any) -> Any:
        near = wf.argmin(((x[:, None, :] - c[None]) ** 2).sum(axis=2), axis=1)
        own = (near[:, None] == wf.arange(4)[None]).astype(x.dtype)
        return (own.T @ x) / wf.maximum(own.sum(axis=0), 1)[:, None]

    return wf.iterate(step, x[:4], 3)


TRACED: dict[str, tuple[Callable[[Any], Any], tuple[int, int]]] = {
    "normalised": (normalised, (1100, 1024)), "conjugate": (conjugate, (1100, 1024)),
    "powers": (powers, (1024, 1024)), "means": (means, (1_200_000, 4)),
}  # fmt: skip
WAYS: dict[str, dict[str, Any]] = {
    "cpu": {}, "two parts of the cpu": {"devices": ["cpu:0", "cpu:1"]}, "device": {},
}  # fmt: skip


def settings_of(way: str, name: str = "") -> dict[str, Any]:
    if way != "device":
        room = 28 if name == "means" else 4  # a tile of sums of columns is large
        return {**WAYS[way], "memory_limit": ALLOWANCE + room * MIB}
    name = device().name
    return {"devices": [name], "memory_limit": {name: MIB}}


def data_of(name: str, way: str) -> Any:
    """On a device boxes are small, of which a part of the rows is enough."""
    x = np.random.default_rng(3).random(TRACED[name][1])
    return x[:60_000] if way == "device" else x


@pytest.mark.parametrize(("way", "name"), some_slow(
    product(WAYS, TRACED),
    [*product(["two parts of the cpu"], ["powers", "means"]), ("device", "conjugate")],
    several=True,
))  # fmt: skip
def test_from_files_to_files(name: str, way: str, tmp_path: Path) -> None:
    function, x = TRACED[name][0], data_of(name, way)
    np.save(tmp_path / "x.npy", x)
    expected = wf.jit(function)(x)
    with wf.config(**settings_of(way, name)):
        lazy = wf.jit(function)(wf.open(tmp_path / "x.npy"))
        wf.store(lazy, tmp_path / "y.npy")
        told = str(wf.explain(wf.store, lazy, tmp_path / "y.zarr"))
        wf.store(lazy, tmp_path / "y.zarr")
    if way == "device":
        check = np.testing.assert_allclose
        assert f"on {device().name}" in told
    else:
        check = np.testing.assert_array_equal
    if name != "powers" or way == "device":
        assert "one by one: each needs" in told
    check(np.load(tmp_path / "y.npy"), expected)
    check(np.asarray(wf.open(tmp_path / "y.zarr")), expected)


@pytest.mark.parametrize("name", TRACED)
def test_arrays_under_a_cap_of_a_device(name: str) -> None:
    on = device()
    function, x = TRACED[name][0], data_of(name, "device")
    expected = wf.jit(function)(x)
    on.trim()
    on.statistics.peak_bytes = 0
    with wf.config(devices=on.name, memory_limit={on.name: MIB}):
        np.testing.assert_allclose(wf.jit(function)(x), expected)
    assert 0 < on.statistics.peak_bytes <= MIB


def relax(v: Any, w: Any, rounds: int) -> float:
    last = 0.0
    for _ in range(rounds):
        total = 0.0
        for i in range(v.shape[0]):
            for j in range(v.shape[1]):
                total += v[i, j]
        for i in range(v.shape[0]):
            for j in range(v.shape[1]):
                w[i, j] = v[i, j] / total + v[v.shape[0] - 1 - i, j]
        for i in range(v.shape[0]):
            for j in range(v.shape[1]):
                v[i, j] = w[i, j]
        last = total
    return last


@pytest.mark.parametrize(("way", "mapped"), some_slow(
    product(WAYS, (False, True)), [("two parts of the cpu", True), ("device", True)], several=True
))  # fmt: skip
def test_kernels_in_place(way: str, mapped: bool, tmp_path: Path) -> None:
    """Arguments that are read and written: their new values wait in scratch files."""
    v = np.random.default_rng(3).random((2200, 1024))
    w = np.zeros_like(v)
    expected, other = v.copy(), w.copy()
    total = wf.kernel(relax)(expected, other, 3)
    if mapped:
        given = np.lib.format.open_memmap(tmp_path / "v.npy", "w+", v.dtype, v.shape)
        given[...] = v
        v = given
    with wf.config(**settings_of(way)):
        found = wf.kernel(relax)(v, w, 3)
    check = np.testing.assert_allclose if way == "device" else np.testing.assert_array_equal
    check(v, expected)
    check(w, other)
    check(found, total)


def test_new_values_of_arguments_wait_in_scratch_files_where_memory_is_small() -> None:
    v = np.random.default_rng(3).random((2200, 1024))
    with wf.config(memory_limit=ALLOWANCE + 4 * MIB):
        told = str(wf.explain(wf.kernel(relax), v, np.zeros_like(v), 3))
    assert "to a scratch file, and then to its place" in told
    with wf.config(memory_limit=ALLOWANCE + 80 * MIB):
        told = str(wf.explain(wf.kernel(relax), v, np.zeros_like(v), 3))
    assert "a scratch file" not in told


def fields(e: Any, h: Any, g: Any) -> Any:
    """Three fields that take from each other, of shapes that differ (Yee's scheme)."""

    def step(_: Any, state: Any) -> Any:
        e, h, g = state
        h = h - 0.5 * (e[:, 1:] - e[:, :-1])
        g = g + 0.5 * (e[1:] - e[:-1])
        turned = (g[1:, 1:-1] - g[:-1, 1:-1]) - (h[1:-1, 1:] - h[1:-1, :-1])
        return e.at[1:-1, 1:-1].set(e[1:-1, 1:-1] + 0.5 * turned), h, g

    return wf.fori_loop(0, 5, step, (e, h, g))


def walks(x: Any, steps: Any) -> Any:
    def step(x: Any, by: Any) -> Any:
        x = wf.clip(x + by, -3, 3)
        return x, x

    return wf.scan(step, x, steps)


@pytest.mark.parametrize(
    ("function", "shapes", "room"),
    [(fields, [(61, 203), (61, 202), (60, 203)], 80_000), (walks, [(5000,), (9, 5000)], 50_000)],
)
def test_what_rounds_carry_is_in_files_where_a_little_memory_has_no_room(
    function: Any, shapes: list[tuple[int, ...]], room: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.normal(size=shape) for shape in shapes]
    expected = wf.jit(function)(*arrays)
    for number, array in enumerate(arrays):
        np.save(tmp_path / f"{number}.npy", array)
    targets = [tmp_path / f"made {number}.npy" for number in range(len(expected))]
    with wf.config(memory_limit=ALLOWANCE + room):
        opened = [wf.open(tmp_path / f"{number}.npy") for number in range(len(arrays))]
        lazy = list(wf.jit(function)(*opened))
        assert "in scratch files" in str(wf.explain(wf.store, lazy, targets))
        wf.store(lazy, targets)
    for target, array in zip(targets, expected, strict=True):
        np.testing.assert_array_equal(np.load(target), array)


def test_a_refusal_asks_for_what_rounds_alone_need(tmp_path: Path) -> None:
    """Not for all of the loop: stages that follow may need a little more than the first of them."""
    values = np.random.default_rng(0).random((500, 600)) + 1
    np.save(tmp_path / "x.npy", values)

    def step(x: Any) -> Any:
        return wf.stencil(lambda s: s[1, 0] + s[0, -1], x) / x.mean()

    lazy = wf.iterate(step, wf.open(tmp_path / "x.npy"), 6)
    limit, asked = (24 << 20) + 4096, []
    for _ in range(4):
        with wf.config(interpret_below=0, memory_limit=limit):
            try:
                wf.store(lazy, tmp_path / "y.npy", mode="w")
                break
            except MemoryLimitError as error:
                found = re.search("a memory_limit of at least ([0-9]+) bytes", str(error))
                assert found is not None
                assert int(found[1]) > limit
                limit = int(found[1])
                asked.append(limit)
    assert asked
    assert limit < (24 << 20) + (64 << 10)  # an array takes 2.3 MiB
    with wf.config(memory_limit=None):
        expected = wf.compute(wf.iterate(step, wf.asarray(values), 6))
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected, rtol=1e-12)
