"""The checker and the heap interpreter reject memory that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from mem.programs import Maker, N, array, doubled, element, kernel
from mem.test_introduce import of, placed

from weft.errors import InternalError, OutOfBoundsError, ShapeError
from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.builder import Builder
from weft.lmad import Lmad
from weft.mem.check import check
from weft.mem.interpret import interpret
from weft.mem.nodes import Block, MemArray, Program
from weft.mem.rename import rename_blocks
from weft.ops.dtypes import DType
from weft.sizes import ZERO, Poly, Size, as_poly


def remade(program: Program, change: Callable[[MemArray], MemArray]) -> Program:
    """The first statement's array in other memory, wherever it is used."""
    name = program.program.body.statements[0].pattern[0].name

    def var(old: fun.Var) -> fun.Var:
        if old.name != name:
            return old
        assert isinstance(old.type, MemArray)
        return fun.Var(name, change(old.type))

    def atom(old: fun.Atom) -> fun.Atom:
        return var(old) if isinstance(old, fun.Var) else old

    def body(old: fun.Body) -> fun.Body:
        lets = tuple(
            fun.Let(tuple(map(var, let.pattern)), walk.map_expr(let.expr, mapper), let.place)
            for let in old.statements
        )
        return fun.Body(lets, tuple(map(atom, old.results)))

    mapper = walk.Mapper(atom, lambda size: size, body, var)
    return replace(program, program=replace(program.program, body=body(program.program.body)))


def test_a_result_elsewhere_is_rejected() -> None:
    program = of("softmax")
    moved = replace(program, blocks=(*program.blocks, Block("other", 8 * N)))
    moved = rename_blocks(moved, {"result_0": "other"})
    with pytest.raises(InternalError, match="not in its place"):
        check(moved)
    with pytest.raises(InternalError):
        interpret(moved, [np.ones((2, 3))])


def test_shared_memory_in_a_kernel_is_rejected() -> None:
    program = of("triangle")
    shared = replace(program, blocks=tuple(replace(b, per_thread=False) for b in program.blocks))
    with pytest.raises(InternalError, match=r"after expand: .*all threads share"):
        check(shared, "expand")
    with pytest.raises(InternalError, match="what iteration 1"):
        interpret(shared, [np.ones((3, 3))])


def test_unknown_blocks_and_sizes_are_rejected() -> None:
    program = of("chain")
    with pytest.raises(InternalError, match="unknown block"):
        check(replace(program, blocks=program.blocks[1:]))
    odd = replace(program.blocks[0], bytes=program.blocks[0].bytes * Poly.var("q"))
    with pytest.raises(InternalError, match="unknown"):
        check(replace(program, blocks=(odd, *program.blocks[1:])))


def test_a_block_too_small_is_rejected_when_run() -> None:
    program = of("chain")
    small = replace(program.blocks[0], bytes=program.blocks[0].bytes - 8)
    small_program = replace(program, blocks=(small, *program.blocks[1:]))
    check(small_program)
    with pytest.raises(InternalError, match="outside block"):
        interpret(small_program, [np.ones((3, 4))])


def test_iterations_that_write_one_element_are_rejected_when_run() -> None:
    def flat(type_: MemArray) -> MemArray:
        return replace(type_, index=Lmad(ZERO, tuple((e, ZERO) for e in type_.shape)))

    program = remade(of("chain"), flat)
    with pytest.raises(InternalError, match="iteration 2 writes what iteration 1 writes"):
        interpret(program, [np.ones((3, 4))])


def test_a_read_of_what_another_iteration_wrote_is_rejected() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    first = doubled(b, a)

    def shifted(inner: Builder, i: Size) -> fun.Atom:
        return element(inner, first, N - 1 - i)

    program = placed(maker.program(kernel(b, (N,), shifted)))
    assert interpret(program, [np.arange(4.0)])[0].tolist() == [6, 4, 2, 0]
    (block,) = program.blocks
    with pytest.raises(InternalError, match="iteration"):
        interpret(rename_blocks(program, {block.name: "result_0"}), [np.arange(4.0)])


def test_a_wrong_view_is_rejected() -> None:
    program = of("transposed_result")
    check(program)
    body = program.program.body
    view = body.statements[1]
    type_ = view.pattern[0].type
    assert isinstance(type_, MemArray)
    moved = replace(type_, index=replace(type_.index, offset=as_poly(1)))
    bent = fun.Let((fun.Var(view.pattern[0].name, moved),), view.expr)
    statements = (body.statements[0], bent, *body.statements[2:])
    broken = replace(program.program, body=replace(body, statements=statements))
    with pytest.raises(InternalError, match="a view is not in its place"):
        check(replace(program, program=broken))


def test_an_index_outside_its_array_is_reported() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    program = placed(maker.program(kernel(b, (N,), lambda k, i: element(k, a, i + 1))))
    with pytest.raises(OutOfBoundsError, match="index 4"):
        interpret(program, [np.ones(4)])


def test_an_unbounded_extent_is_refused() -> None:
    maker = Maker(("a", array(N)), ("s", fun.Scalar(DType.F64)))
    (a, s), b = maker.params, maker.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        extent = outer.let(fun.Cast(DType.I64, s), fun.Scalar(DType.I64), "extent")
        part = kernel(outer, (Poly.var(extent.name),), lambda k, j: element(k, a, j))
        return element(outer, part, 0)

    program = maker.program(kernel(b, (N,), row))
    with pytest.raises(ShapeError, match="no bound of the extent"):
        placed(program)


def test_a_smaller_of_two_extents_is_bounded() -> None:
    maker = Maker(("a", array(N)), ("s", fun.Scalar(DType.I64)))
    (a, s), b = maker.params, maker.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        size = outer.let(fun.SizeValue(N - i), fun.Scalar(DType.I64))
        extent = outer.let(fun.Apply("minimum", (s, size)), fun.Scalar(DType.I64), "extent")
        part = kernel(outer, (Poly.var(extent.name),), lambda k, j: element(k, a, i + j))
        return element(outer, part, 0)

    program = placed(maker.program(kernel(b, (N,), row)))
    assert [str(block.bytes) for block in program.blocks] == ["8*n"]
    assert interpret(program, [np.arange(4.0), 2])[0].tolist() == [0, 1, 2, 3]
