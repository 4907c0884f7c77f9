"""Memory changes no meaning: by heap and by value, programs give the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mem.programs import CASES

from weft.fun import nodes as fun
from weft.fun import walk
from weft.fun.interpret import interpret as by_value
from weft.mem.check import check
from weft.mem.erase import erase
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.nodes import MemArray, Program
from weft.mem.parse import parse
from weft.mem.short_circuit import short_circuit
from weft.mem.show import show


def sizes_of(name: str) -> dict[str, int]:
    return {"n": 3} if name == "repeated_update" else {}


def agree(got: tuple[Any, ...], wanted: tuple[Any, ...]) -> None:
    assert len(got) == len(wanted)
    for left, right in zip(got, wanted, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_heap_agrees_with_value(name: str) -> None:
    program, arguments = CASES[name]()
    wanted = by_value(program, arguments, sizes_of(name))
    plain = introduce(program)
    for with_memory in (plain, short_circuit(plain)):
        check(with_memory)
        agree(by_heap(with_memory, arguments, sizes_of(name)), wanted)
        agree(by_value(erase(with_memory), arguments, sizes_of(name)), wanted)


@pytest.mark.parametrize("name", CASES)
def test_strided_arguments_and_results(name: str) -> None:
    program, arguments = CASES[name]()
    wanted = by_value(program, arguments, sizes_of(name))
    arrays = [p.name for p in program.params if isinstance(p.type, fun.Array)]
    plain = introduce(
        program, dict.fromkeys(arrays, "strided"), ("strided",) * len(program.body.results)
    )
    odd = [np.asarray(a)[::-1].copy()[::-1] if np.ndim(a) else a for a in arguments]
    for with_memory in (plain, short_circuit(plain)):
        agree(by_heap(with_memory, odd, sizes_of(name)), wanted)


@pytest.mark.parametrize("name", CASES)
def test_text_round_trips(name: str) -> None:
    program, _ = CASES[name]()
    arrays = [p.name for p in program.params if isinstance(p.type, fun.Array)]
    for layouts in ({}, dict.fromkeys(arrays, "rows")):
        with_memory = introduce(program, layouts)
        text = show(with_memory)
        assert parse(text) == with_memory
        assert show(parse(text)) == text


def copies(program: Program) -> int:
    return sum(isinstance(let.expr, fun.Copy) for let in walk.statements(program.program.body))


def placed(program: fun.Program) -> Program:
    """With arrays where they are wanted."""
    return short_circuit(introduce(program))


def of(name: str) -> Program:
    return placed(CASES[name]()[0])


def _plain(name: str) -> Program:
    return introduce(CASES[name]()[0])


@pytest.mark.parametrize(
    ("name", "count", "blocks"),
    [
        ("views", 0, 0),  # nothing but results
        ("view_results", 3, 0),
        ("transposed_result", 0, 0),
        ("reshape_copies", 1, 0),
        ("chain", 0, 4),
        ("maps", 0, 0),  # each over the last, in the result
        ("softmax", 0, 1),  # the exponentials; the row itself is the result's
        ("histogram", 1, 0),  # of the parameter
        ("cumulative", 0, 0),
        ("update_loop", 2, 1),  # turning in place needs a copy, and back
        ("column_sums", 0, 0),
        ("stencil_loop", 2, 1),  # the parameter, and the last round's buffer
        ("while_loop", 1, 0),  # each round over the last
        ("kernel_loop", 2, 1),
    ],
)
def test_nothing_is_copied_that_need_not_be(name: str, count: int, blocks: int) -> None:
    program = of(name)
    assert copies(program) == count
    assert len(program.blocks) == blocks


def test_blocks_in_kernels_are_per_thread() -> None:
    per_thread = {b.name: str(b.bytes) for b in _plain("softmax").blocks if b.per_thread}
    assert per_thread == {"mem_exp_0": "8*m", "mem_k_1": "8*m"}
    (block,) = of("triangle").blocks
    assert str(block.bytes) == "8*n"  # bounded over all rows


def test_free_strides_are_named() -> None:
    program = introduce(CASES["softmax"]()[0], {"a": "rows"}, ("strided",))
    assert program.strides == ("a.stride0", "result_0.stride0", "result_0.stride1")
    type_ = program.program.params[0].type
    assert isinstance(type_, MemArray)
    assert str(type_.index) == "0 + {(n : a.stride0), (m : 1)}"


def test_loops_alternate_between_two_buffers() -> None:
    program = of("stencil_loop")
    (block,) = program.blocks
    assert str(block.bytes) == "16*n"
    (loop,) = [s.expr for s in program.program.body.statements if isinstance(s.expr, fun.Loop)]
    assert [let.expr for let in loop.body.statements if isinstance(let.expr, fun.Copy)] == []
    before, after = loop.params[0].type, loop.body.results[0].type
    assert isinstance(before, MemArray)
    assert isinstance(after, MemArray)
    assert str(before.index.offset + after.index.offset) == "n"
