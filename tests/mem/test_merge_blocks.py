"""Merging of blocks: what shares memory, what must not, and how large it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from lower.harness import Launch
from mem.programs import CASES, M, Maker, N, apply, array, element, kernel, mirrored, numbers, total
from mem.test_introduce import agree, of, placed, sizes_of
from programs.library import EXAMPLES, SIZES
from programs.random_programs import Case, programs
from slow import examples

import weft as wf
from weft.fun import nodes as fun
from weft.fun.builder import Builder
from weft.fun.interpret import interpret as by_value
from weft.lower.segment import compile_segment
from weft.mem.check import check
from weft.mem.interpret import interpret as by_heap
from weft.mem.merge_blocks import merge_blocks
from weft.mem.nodes import Block, Program
from weft.mem.parse import parse
from weft.mem.place_blocks import peak_bytes
from weft.mem.show import show
from weft.ops.dtypes import DType
from weft.passes.nest import nest
from weft.passes.pipeline import optimise
from weft.plan.derived import evaluator
from weft.printers.c import print_program
from weft.sizes import ONE, ZERO, Derived, Fact, Poly, Size, as_poly


def peak(program: Program, sizes: Mapping[str, int], threads: int = 3) -> int:
    values = {**sizes, "threads": threads}
    for derived in program.program.derived:
        values[derived.name] = derived.evaluate(values)
    return int(peak_bytes(program).evaluate(values))


def sums(*sources: tuple[str, fun.Array]) -> fun.Program:
    """One temporary of each array's shape and dtype after another, each added up."""
    maker = Maker(*sources)
    b = maker.build
    results = []
    for source in maker.params:

        def copied(k: Builder, i: Size, source: fun.Var = source) -> fun.Atom:
            return element(k, source, i)

        made = kernel(b, source.type.shape, copied)

        def value(k: Builder, i: Size, made: fun.Var = made) -> fun.Atom:
            return k.let(fun.Cast(DType.F64, element(k, made, i)), fun.Scalar(DType.F64))

        results.append(total(b, made.type.shape[0], value))
    return maker.program(*results)


# ---------------------------------------------------------------- meaning and peak


@pytest.mark.parametrize("name", CASES)
def test_merging_changes_no_meaning(name: str) -> None:
    program, arguments = CASES[name]()
    wanted = by_value(program, arguments, sizes_of(name))
    merged = merge_blocks(placed(program))
    check(merged, "merge_blocks")
    assert parse(show(merged)) == merged
    agree(by_heap(merged, arguments, sizes_of(name)), wanted)


def nowhere_worse(program: fun.Program, sizes: Mapping[str, int]) -> None:
    before = placed(program)
    after = merge_blocks(before)
    assert merge_blocks(after).blocks == after.blocks, "merging again finds nothing"
    for scale in (1, 2, 7):
        scaled = {name: value * scale for name, value in sizes.items()}
        assert peak(after, scaled) <= peak(before, scaled)


@pytest.mark.parametrize("name", [n for n in EXAMPLES if not n.startswith("call_")])
def test_library_nowhere_worse(name: str) -> None:
    program = EXAMPLES[name].program
    for source in (program, nest(optimise(program))):
        nowhere_worse(source, {name: SIZES.get(name, 3) for name in source.sizes})


@given(case=programs())
@settings(
    max_examples=examples(100), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_random_nowhere_worse(case: Case) -> None:
    for source in (case.program, nest(optimise(case.program))):
        nowhere_worse(source, {name: case.sizes.get(name, 3) for name in source.sizes})


# ---------------------------------------------------------------- sizes


def test_the_larger_size_is_proved() -> None:
    program = merge_blocks(placed(sums(("a", array(N)), ("c", array(N + 1)))))
    assert [str(block.bytes) for block in program.blocks] == ["8*n + 8"]
    assert program.program.derived == ()


def test_the_larger_of_unrelated_sizes_is_computed() -> None:
    """Three temporaries, of which two are known to be in order."""
    source = sums(("a", array(N)), ("c", array(N + 1)), ("d", array(M)))
    program = merge_blocks(placed(source))
    assert [str(block.bytes) for block in program.blocks] == ["8*largest_0"]
    assert list(map(str, program.program.derived)) == ["largest_0 = max(n + 1, m)"]
    assert peak(program, {"n": 10, "m": 20}) == 8 * 20 + 64 + 3 * 8
    for m in (3, 9):
        arguments = [numbers(5), numbers(6), numbers(m)]
        agree(by_heap(program, arguments), tuple(x.sum() for x in arguments))


def test_facts_decide_sizes() -> None:
    source = sums(("a", array(N)), ("c", array(M)))
    known = fun.Program(
        source.name, source.params, source.body, source.sizes, (), (Fact(">=0", M - N),)
    )
    assert [str(b.bytes) for b in merge_blocks(placed(known)).blocks] == ["8*m"]


def test_elements_of_other_sizes_stay_aligned() -> None:
    """Bytes and numbers in one block: it holds whole numbers."""
    source = sums(("a", array(N, dtype=DType.BOOL)), ("d", array(M)))
    program = merge_blocks(placed(source))
    assert [str(block.bytes) for block in program.blocks] == ["8*largest_1"]
    assert list(map(str, program.program.derived)) == [
        "largest_0 = floordiv(n + 7, 8)",
        "largest_1 = max(largest_0, m)",
    ]
    for n, m in ((100, 3), (5, 30), (9, 2)):
        arguments = [np.arange(n) % 3 == 0, numbers(m)]
        agree(by_heap(program, arguments), tuple(x.sum() for x in arguments))


def test_one_maximum_is_computed_once() -> None:
    """Two blocks that both stand for arrays of n and of m elements."""
    maker = Maker(("a", array(N)), ("c", array(M)))
    (a, c), b = maker.params, maker.build
    results = []
    for source in (a, c):
        left, right = mirrored(b, source), mirrored(b, source)

        def both(k: Builder, i: Size, left: fun.Var = left, right: fun.Var = right) -> fun.Atom:
            return apply(k, "add", element(k, left, i), element(k, right, i))

        results.append(total(b, source.type.shape[0], both))
    program = merge_blocks(placed(maker.program(*results)))
    assert [str(block.bytes) for block in program.blocks] == ["8*largest_0"] * 2
    assert len(program.program.derived) == 1
    arguments = [numbers(3), numbers(8)]
    agree(by_heap(program, arguments), tuple(4 * x.sum() for x in arguments))


def test_a_computed_maximum_is_launched() -> None:
    program = merge_blocks(placed(sums(("a", array(N)), ("d", array(M)))))
    segment = compile_segment(program, "weft_entry", print_program)
    for n, m in ((40, 1000), (1000, 40)):
        arguments = [numbers(n), numbers(m)]
        launch = Launch(segment, arguments, {"n": n, "m": m}, threads=2)
        assert launch.workspace.nbytes == 8 * 1000 + 64 + 64
        agree(tuple(launch()), tuple(x.sum() for x in arguments))


# ---------------------------------------------------------------- what shares memory


def test_branches_share() -> None:
    maker = Maker(("a", array(N)), ("s", fun.Scalar(DType.BOOL)))
    (a, s), b = maker.params, maker.build
    then, otherwise = b.inner(), b.inner()
    yes = mirrored(then, mirrored(then, a))
    no = mirrored(otherwise, mirrored(otherwise, mirrored(otherwise, a)))
    chosen = b.let(fun.If(s, then.body([yes]), otherwise.body([no])), array(N))
    program = maker.program(chosen)
    before = placed(program)
    after = merge_blocks(before)
    assert (len(before.blocks), len(after.blocks)) == (3, 2)
    for choice in (True, False):
        arguments = [np.arange(4.0), choice]
        agree(by_heap(after, arguments), by_value(program, arguments))


def test_a_round_shares_with_itself_but_not_with_what_goes_round() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    outside = mirrored(b, a)
    x = b.var("p", array(N))
    inner, t = b.inner(), b.index("t")
    value = x
    for _ in range(4):
        value = mirrored(inner, value)
    last = kernel(
        inner,
        (N,),
        lambda k, i: apply(k, "subtract", element(k, value, N - 1 - i), element(k, outside, i)),
    )
    form = fun.For(t, ZERO, as_poly(3))
    (end,) = b.bind(fun.Loop((x,), (a,), form, inner.body([last])), (array(N),))
    program = maker.program(end)
    before = placed(program)
    after = merge_blocks(before)
    assert len(before.blocks) == 5  # 1 outside, 4 in each round, which ends where it began
    assert len(after.blocks) == 3  # of the last ones 2
    arguments = [np.arange(5.0)]
    agree(by_heap(after, arguments), by_value(program, arguments))


def test_a_condition_shares_with_its_body() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    x = b.var("p", array(N))
    test, inner = b.inner(), b.inner()
    squares = mirrored(test, x)
    whole = total(test, N, lambda k, i: element(k, squares, i))
    small = test.let(
        fun.Apply("less", (whole, fun.Const(100.0, DType.F64))), fun.Scalar(DType.BOOL)
    )
    body = inner.body([mirrored(inner, mirrored(inner, x))])
    (end,) = b.bind(fun.Loop((x,), (a,), fun.While(test.body([small])), body), (array(N),))
    program = maker.program(end)
    before = placed(program)
    after = merge_blocks(before)
    assert (len(before.blocks), len(after.blocks)) == (2, 1)
    agree(by_heap(after, [np.arange(5.0)]), by_value(program, [np.arange(5.0)]))


def rows(first: DType, second: DType) -> fun.Program:
    """Two temporaries of a thread, whose lives do not meet."""
    maker = Maker(("a", array(N, M)))
    (a,), b = maker.params, maker.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        results = []
        for dtype in (first, second):

            def cast(k: Builder, j: Size, dtype: DType = dtype) -> fun.Atom:
                return k.let(fun.Cast(dtype, element(k, a, i, j)), fun.Scalar(dtype))

            made = kernel(outer, (M,), cast)

            def value(k: Builder, j: Size, made: fun.Var = made) -> fun.Atom:
                number = element(k, made, M - 1 - j)
                return k.let(fun.Cast(DType.F64, number), fun.Scalar(DType.F64))

            results.append(total(outer, M, value))
        return outer.let(fun.Apply("add", tuple(results)), fun.Scalar(DType.F64))

    return maker.program(kernel(b, (N,), row))


@pytest.mark.parametrize(("dtype", "count"), [(DType.F64, 1), (DType.I64, 1), (DType.F32, 2)])
def test_a_thread_shares_elements_of_one_size(dtype: DType, count: int) -> None:
    program = rows(DType.F64, dtype)
    after = merge_blocks(placed(program))
    assert len(after.blocks) == count
    assert all(block.per_thread for block in after.blocks)
    arguments = [np.arange(12.0).reshape(3, 4)]
    agree(by_heap(after, arguments), by_value(program, arguments))


def test_spaces_never_mix() -> None:
    """A thread's memory in one kernel, and a temporary that all threads share after it."""
    maker = Maker(("a", array(N, N)))
    (a,), b = maker.params, maker.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        made = kernel(outer, (N,), lambda k, j: element(k, a, i, j))
        return total(outer, N, lambda k, j: element(k, made, N - 1 - j))

    first = kernel(b, (N,), row)
    whole = total(b, N, lambda k, i: element(k, first, i))
    second = mirrored(b, b.let(fun.Slice(a, (ONE, fun.Span(ZERO, N))), array(N)))
    after = merge_blocks(
        placed(maker.program(whole, total(b, N, lambda k, i: element(k, second, i))))
    )
    assert sorted(block.per_thread for block in after.blocks) == [False, True]


def test_unused_blocks_go() -> None:
    program = of("chain")
    more = replace(program, blocks=(*program.blocks, Block("nothing", Poly.var("n"))))
    assert merge_blocks(more) == merge_blocks(program)


def test_no_blocks_is_no_work() -> None:
    program = of("views")
    assert merge_blocks(program) is program


# ---------------------------------------------------------------- in a plan


def test_a_computed_maximum_in_a_stage(tmp_path: Path) -> None:
    """Streamed by rows, of which a thread holds one of either array."""
    a = np.random.default_rng(1).normal(size=(3000, 40))
    c = np.random.default_rng(2).normal(size=(3000, 41))

    @wf.jit
    def backwards(a: Any, c: Any) -> Any:
        left, right = wf.cumulative_sum(a, axis=1), wf.cumulative_sum(c, axis=1)
        return (left[:, ::-1] * a).sum(axis=1) + (right[:, ::-1] * c).sum(axis=1)

    assert "= max(" in backwards.lower(a, c).funmem
    wf.store(backwards(wf.asarray(a), wf.asarray(c)), str(tmp_path / "out.npy"))
    wanted = (np.cumsum(a, 1)[:, ::-1] * a).sum(1) + (np.cumsum(c, 1)[:, ::-1] * c).sum(1)
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, atol=1e-10)


def test_a_derived_size_of_each_box() -> None:
    rows = Poly.var("upper") - Poly.var("lower")
    entry = Derived("largest_0", "max", rows, Poly.var("n"))
    values = {"lower": np.array([0, 5, 9]), "upper": np.array([5, 9, 10]), "n": 3}
    assert evaluator((entry,))(values)["largest_0"].tolist() == [5, 4, 3]
