"""Lowered programs, checked and interpreted: IMP without a C compiler."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs.agree import assert_agree
from programs.library import EXAMPLES, SIZES

from weft.errors import InternalError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.imp import nodes as imp
from weft.imp.check import check
from weft.imp.interpret import interpret
from weft.imp.show import show
from weft.lower.segment import lower_program
from weft.mem.introduce import introduce
from weft.mem.short_circuit import short_circuit
from weft.ops.dtypes import DType

COMPILED = [
    name
    for name, example in EXAMPLES.items()
    if not any(isinstance(let.expr, fun.Call) for let in walk.statements(example.program.body))
]


@pytest.mark.parametrize("optimised", [True, False])
@pytest.mark.parametrize("name", COMPILED)
def test_example(name: str, optimised: bool) -> None:
    example = EXAMPLES[name]
    memory = short_circuit(introduce(example.program))
    lowered, unit, workspace = lower_program(memory, "entry")
    check(lowered)
    assert show(lowered).startswith("program entry(")
    arguments = example.arguments(SIZES)
    expected = example.results(arguments)
    values = {**SIZES, "threads": 1}
    for derived in (*example.program.derived, *unit.derived):
        values[derived.name] = derived.evaluate(values)
    results = [np.zeros(np.shape(want), np.asarray(want).dtype) for want in expected]
    buffers = [*(np.array(a) for a in arguments), *results]
    buffers.append(np.full(workspace.evaluate(values) + 64, 255, np.uint8))
    names = (*example.program.sizes, *(d.name for d in example.program.derived), "threads")
    names += tuple(d.name for d in unit.derived if d.name in unit.taken)
    given = [_bytes(b) for b in buffers]
    failed, *_ = interpret(lowered, given, [values[n] for n in names], optimised)
    assert failed == 0
    assert_agree(results, expected, scale=10)


def _bytes(array: Any) -> Any:
    return np.atleast_1d(array).reshape(-1).view(np.uint8)


def _program(*body: imp.Stmt) -> imp.Program:
    return imp.Program("entry", 1, (imp.Var("n", DType.I64),), body)


BAD: dict[str, imp.Stmt] = {
    "undeclared": imp.Assign(imp.Var("x", DType.I64), imp.ONE),
    "constant assigned": imp.Assign(imp.Var("n", DType.I64), imp.ONE),
    "wrong dtype": imp.Declare(imp.Var("x", DType.F32), imp.ONE),
    "no buffer": imp.View(imp.Pointer("p", DType.F32), 1, imp.ZERO),
    "break": imp.Break(),
    "twice": imp.Declare(imp.Var("n", DType.I64), imp.ONE),
    "pointer": imp.Store(imp.Pointer("p", DType.F32), imp.ZERO, imp.Const(1.0, DType.F32)),
    "condition": imp.If(imp.ONE, ()),
}


@pytest.mark.parametrize("name", BAD)
def test_what_the_checker_refuses(name: str) -> None:
    with pytest.raises(InternalError):
        check(_program(BAD[name]))


def test_fail_tells_where() -> None:
    x = imp.Declare(imp.Var("x", DType.I64), imp.machine("+", imp.Var("n", DType.I64), imp.ONE))
    program = _program(x, imp.Fail(17, imp.Var("x", DType.I64), imp.Var("n", DType.I64)))
    check(program)
    assert interpret(program, [np.zeros(8, np.uint8)], [4]) == (17, 5, 4)


@pytest.mark.parametrize(
    ("operator", "left", "right", "value"),
    [("/", -7, 2, -3), ("%", -7, 2, -1), ("+", 2**63 - 1, 1, -(2**63)), ("min", 3, 4, 3)],
)
def test_machine_arithmetic_is_that_of_c(operator: Any, left: int, right: int, value: int) -> None:
    out = imp.Pointer("p", DType.I64)
    expr = imp.Machine(operator, imp.integer(left), imp.integer(right))
    memory = np.zeros(8, np.uint8)
    interpret(_program(imp.View(out, 0, imp.ZERO), imp.Store(out, imp.ZERO, expr)), [memory], [1])
    assert memory.view(np.int64)[0] == value


@pytest.mark.parametrize("optimised", [True, False])
def test_whether_it_is_optimised(optimised: bool) -> None:
    p = imp.Pointer("p", DType.BOOL)
    program = _program(imp.View(p, 0, imp.ZERO), imp.Store(p, imp.ZERO, imp.OPTIMISED))
    check(program)
    assert "p[0] = optimised" in show(program)
    memory = np.full(1, 255, np.uint8)
    interpret(program, [memory], [1], optimised)
    assert memory[0] == optimised


def test_roots_of_some() -> None:
    p, near = imp.Pointer("p", DType.F64), imp.Pointer("near", DType.F64)
    i, j, four = imp.Var("i", DType.I64), imp.Var("j", DType.I64), imp.integer(4)
    program = _program(
        imp.View(p, 0, imp.ZERO), imp.Local(near, 8),
        imp.For(i, imp.ZERO, four, (imp.Store(near, i, imp.Load(p, i)),)),
        imp.Roots(near, imp.integer(3)),
        imp.For(j, imp.ZERO, four, (imp.Store(p, j, imp.Load(near, j)),)),
    )  # fmt: skip
    check(program)
    assert "roots of near, 3" in show(program)
    x = np.array([4.0, -1.0, 9.0, 16.0])
    interpret(program, [x.view(np.uint8)], [1])
    np.testing.assert_array_equal(x, [2, np.nan, 3, 16])


@pytest.mark.parametrize("pointer", [imp.Pointer("p", DType.F64), imp.Pointer("near", DType.F32)])
def test_the_checker_wants_roots_of_a_local_array_of_float64(pointer: imp.Pointer) -> None:
    views = (imp.View(imp.Pointer("p", DType.F64), 0, imp.ZERO),)
    local = (imp.Local(imp.Pointer("near", DType.F32), 8),)
    with pytest.raises(InternalError, match=r"local array|roots of"):
        check(_program(*views, *local, imp.Roots(pointer, imp.ONE)))


@pytest.mark.parametrize("near", [True, False])
def test_a_block_on_its_way_past_the_caches(near: bool) -> None:
    """What is stored through the chosen pointer is in memory after the flush, or at once."""
    far, local, to = (imp.Pointer(name, DType.I64) for name in ("p", "near", "to"))
    two = imp.integer(2)
    program = imp.Program(
        "entry", 1, (), (
            imp.View(far, 0, imp.ZERO),
            imp.Local(local, 18),
            imp.Choose(to, imp.Const(near, DType.BOOL), local, far, imp.ONE, in_line=True),
            imp.Store(to, imp.ZERO, imp.integer(7)),
            imp.Store(to, imp.ONE, imp.integer(8)),
            imp.If(imp.Const(near, DType.BOOL), (imp.Flush(far, imp.ONE, local, two),)),
        ),
    )  # fmt: skip
    check(program)
    memory = np.zeros(4, np.int64)
    interpret(program, [memory.view(np.uint8)], [])
    assert memory.tolist() == [0, 7, 8, 0]


@pytest.mark.parametrize("start", [0, 3, 8, 13])
@pytest.mark.parametrize("length", [1, 8, 9, 23, 40])
def test_blocks_one_after_another_keep_what_is_left_of_a_line(start: int, length: int) -> None:
    """Blocks of 10 elements, through one local array: what is in memory is what was stored."""
    far, local, to = (imp.Pointer(name, DType.I64) for name in ("p", "near", "to"))
    begin, i = imp.Var("begin", DType.I64), imp.Var("i", DType.I64)
    end = imp.machine("min", imp.machine("+", begin, imp.integer(10)), imp.integer(length))
    count = imp.machine("-", end, begin)
    at = imp.machine("+", begin, imp.integer(start))
    value = imp.machine("+", begin, i)
    ends = imp.machine("==", begin, imp.ZERO), imp.machine("==", end, imp.integer(length))
    block = (
        imp.Choose(to, imp.Const(True, DType.BOOL), local, far, at, in_line=True),
        imp.For(i, imp.ZERO, count, (imp.Store(to, i, value),)),
        imp.Flush(far, at, local, count, *ends),
    )
    loop = imp.For(begin, imp.ZERO, imp.integer(length), block, step=10)
    program = imp.Program("entry", 1, (), (imp.View(far, 0, imp.ZERO), imp.Local(local, 26), loop))
    check(program)
    expected = np.full(64, -1, np.int64)
    expected[start : start + length] = np.arange(length)
    memory = np.full(64, -1, np.int64)
    interpret(program, [memory.view(np.uint8)], [])
    assert memory.tolist() == expected.tolist()


@pytest.mark.parametrize("in_line", [True, False])
def test_the_checker_wants_a_local_array_to_lie_in_line(in_line: bool) -> None:
    far, other, to = (imp.Pointer(name, DType.I64) for name in ("p", "q", "to"))
    views = tuple(imp.View(pointer, 0, imp.ZERO) for pointer in (far, other))
    choose = imp.Choose(to, imp.Const(True, DType.BOOL), other, far, imp.ZERO, in_line=in_line)
    program = imp.Program("entry", 1, (), (*views, choose))
    if not in_line:
        check(program)
        return
    with pytest.raises(InternalError, match="q is not a local array"):
        check(program)


def test_the_checker_wants_a_local_array_to_flush() -> None:
    far, other = imp.Pointer("p", DType.I64), imp.Pointer("q", DType.I64)
    views = tuple(imp.View(pointer, 0, imp.ZERO) for pointer in (far, other))
    program = imp.Program("entry", 1, (), (*views, imp.Flush(far, imp.ZERO, other, imp.ONE)))
    with pytest.raises(InternalError, match="q is not a local array"):
        check(program)


@pytest.mark.parametrize("ordered", [True, False])
def test_only_ordered_tiles_await_others(ordered: bool) -> None:
    turn, tile = imp.Pointer("p", DType.I64), imp.Var("tile0", DType.I64)
    body = (
        imp.Await(turn, imp.ZERO, tile),
        imp.Publish(turn, imp.ZERO, imp.machine("+", tile, imp.ONE)),
    )
    thread = imp.Var("thread", DType.I32)
    parallel = imp.Parallel(tile, thread, imp.integer(5), body, ordered)
    program = _program(imp.View(turn, 0, imp.ZERO), parallel)
    if not ordered:
        with pytest.raises(InternalError, match="a tile that may not have begun"):
            check(program)
        return
    check(program)
    memory = np.zeros(1, np.int64)
    interpret(program, [memory.view(np.uint8)], [1])
    assert memory[0] == 5
