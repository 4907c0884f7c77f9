"""Scalars of index functions stand as early as they can, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from mem.programs import CASES, M, Maker, N, array, doubled, element, kernel, numbers, total
from mem.test_introduce import agree, sizes_of
from programs.library import EXAMPLES, SIZES
from programs.random_programs import Case, assert_agree, programs
from slow import examples

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder
from weft.fun.interpret import interpret as by_value
from weft.mem.check import check
from weft.mem.erase import erase
from weft.mem.hoist import hoist
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.nodes import Program
from weft.mem.show import show
from weft.ops.dtypes import DType
from weft.passes.nest import nest
from weft.passes.pipeline import optimise
from weft.sizes import ZERO, Poly, Size

I64 = fun.Scalar(DType.I64)


def names(program: Program) -> list[str]:
    """What the program's own statements bind, in order."""
    return [let.pattern[0].name for let in program.program.body.statements]


def same_statements(before: Program, after: Program) -> None:
    assert after.blocks == before.blocks
    left, right = (
        sorted(str(let.pattern) for let in walk.statements(p.program.body)) for p in (before, after)
    )
    assert left == right


def half(b: Builder, size: Size, base: str) -> fun.Var:
    whole = b.let(fun.SizeValue(size), I64)
    return b.let(fun.Apply("floor_divide", (whole, fun.Const(2, DType.I64))), I64, base)


def late_offset() -> tuple[fun.Program, list[object]]:
    """An update whose place is computed after what it writes."""
    maker = Maker(("a", array(N)), ("c", array(2 * N)))
    (a, c), b = maker.params, maker.build
    made = doubled(b, a, "made")
    unrelated = half(b, N + 1, "unrelated")
    at = half(b, N, "at")
    new = b.let(fun.Update(c, (fun.Span(Poly.var(at.name), N),), made), array(2 * N), "new")
    return maker.program(new, unrelated), [numbers(5), numbers(10)]


def in_bodies() -> tuple[fun.Program, list[object]]:
    """Slices in the bodies of kernels, branches and loops, by what varies there or not."""
    maker = Maker(("a", array(N, M)), ("s", fun.Scalar(DType.BOOL)))
    (a, s), b = maker.params, maker.build

    def part(inner: Builder, row: Size, start: fun.Var) -> fun.Var:
        dims = (row, fun.Span(Poly.var(start.name), M - Poly.var(start.name)))
        return inner.let(fun.Slice(a, dims), array(M - Poly.var(start.name)))

    def first(k: Builder, array: fun.Var) -> fun.Atom:
        return element(k, array, 0)

    def row(outer: Builder, i: Size) -> fun.Atom:
        then, otherwise = outer.inner(), outer.inner()
        yes = first(then, part(then, i, half(then, M - 1, "fixed")))
        varying = half(otherwise, i, "varying")
        no = first(otherwise, part(otherwise, i, varying))
        return outer.let(fun.If(s, then.body([yes]), otherwise.body([no])), fun.Scalar(DType.F64))

    return maker.program(kernel(b, (N,), row)), [numbers(3, 7), True]


PROGRAMS = {make.__name__: make for make in (late_offset, in_bodies)}


@pytest.mark.parametrize("name", PROGRAMS)
def test_hoisted(name: str, golden: Callable[[str], None]) -> None:
    program, arguments = PROGRAMS[name]()
    before = introduce(program)
    after = hoist(before)
    check(after, "hoist")
    same_statements(before, after)
    assert hoist(after) == after
    agree(by_heap(after, arguments), by_value(program, arguments))
    golden(show(after))


def test_an_offset_is_known_before_what_goes_there() -> None:
    before = introduce(late_offset()[0])
    assert names(before).index("at_0") > names(before).index("made_0")
    after = names(hoist(before))
    assert after.index("at_0") < after.index("made_0") < after.index("unrelated_0")


def test_what_does_not_vary_leaves_kernels_and_branches() -> None:
    program = hoist(introduce(in_bodies()[0]))
    tops = names(program)
    assert "fixed_0" in tops
    assert "varying_0" not in tops
    (outer,) = [s.expr for s in program.program.body.statements if isinstance(s.expr, fun.Kernel)]
    assert "varying_0" in [let.pattern[0].name for let in outer.body.statements]  # left its branch


def test_a_guarded_read_stays_in_its_branch() -> None:
    """An offset that is an element: reading it elsewhere could leave its array."""
    maker = Maker(("at", array(N, dtype=DType.I64)), ("a", array(M)), ("far", I64))
    (at, a, far), b = maker.params, maker.build
    inside = b.let(fun.Apply("less", (far, b.let(fun.SizeValue(N), I64))), fun.Scalar(DType.BOOL))
    then, otherwise = b.inner(), b.inner()
    start = element(then, at, Poly.var(far.name))
    one = then.let(fun.Slice(a, (fun.Span(Poly.var(start.name), Poly.const(1)),)), array(1))
    expr = fun.If(
        inside, then.body([element(then, one, 0)]), otherwise.body([fun.Const(0.0, DType.F64)])
    )
    program = introduce(maker.program(b.let(expr, fun.Scalar(DType.F64))))
    after = hoist(program)
    check(after)
    indices, values = np.array([2, 1, 0]), np.arange(4.0)
    assert by_heap(after, [indices, values, 1])[0] == 1
    assert by_heap(after, [indices, values, 7])[0] == 0


def test_what_goes_round_stays_in_its_loop() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    x, inner, t = b.var("p", array(N)), b.inner(), b.index("t")
    made = total(inner, N, lambda k, i: element(k, x, i))
    turn = half(inner, Poly.var(t.name), "turn")
    fixed = half(inner, N, "fixed")
    new = inner.let(fun.Update(x, (Poly.var(turn.name),), made), array(N))
    last = inner.let(fun.Update(new, (Poly.var(fixed.name),), made), array(N))
    form = fun.For(t, ZERO, N)
    (end,) = b.bind(fun.Loop((x,), (a,), form, inner.body([last])), (array(N),))
    source = maker.program(end)
    program = hoist(introduce(source))
    assert "fixed_0" in names(program)
    (loop,) = [s.expr for s in program.program.body.statements if isinstance(s.expr, fun.Loop)]
    bound = [let.pattern[0].name for let in loop.body.statements]
    assert bound[1] == "turn_0"  # after the value that it halves, before the sum
    agree(by_heap(program, [numbers(5)]), by_value(source, [numbers(5)]))


@pytest.mark.parametrize("name", CASES)
def test_hand_built(name: str) -> None:
    program, arguments = CASES[name]()
    before = introduce(program)
    after = hoist(before)
    check(after, "hoist")
    same_statements(before, after)
    agree(by_heap(merge_blocks(after), arguments, sizes_of(name)),
          by_value(program, arguments, sizes_of(name)))  # fmt: skip


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not name.startswith("call_")])
def test_library(name: str) -> None:
    example = EXAMPLES[name]
    program = hoist(introduce(nest(optimise(example.program))))
    check(program, "hoist")
    arguments = example.arguments()
    assert_agree(by_heap(program, arguments, SIZES), example.results(arguments))


@given(case=programs())
@settings(
    max_examples=examples(80), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_random_programs(case: Case) -> None:
    wanted = by_value(case.program, case.arguments, case.sizes)
    for source in (case.program, nest(optimise(case.program))):
        program = hoist(introduce(source))
        check(program, "hoist")
        assert_agree(by_value(erase(program), case.arguments, case.sizes), wanted)
        assert_agree(by_heap(merge_blocks(program), case.arguments, case.sizes), wanted)
