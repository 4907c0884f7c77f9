"""Lifetimes, reuse and placement of blocks."""

from __future__ import annotations

import pytest
from mem.programs import CASES, F, M, Maker, N, array, doubled, element, kernel, numbers, total
from mem.test_introduce import agree, of, sizes_of

from weft.fun import nodes as fun
from weft.fun.interpret import interpret as by_value
from weft.mem.check import check
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.last_use import last_uses, lifetimes
from weft.mem.place_blocks import peak_bytes, place_blocks
from weft.mem.reuse_blocks import reuse_blocks
from weft.ops.dtypes import DType
from weft.sizes import as_poly


@pytest.mark.parametrize("name", CASES)
def test_reuse_changes_no_meaning(name: str) -> None:
    program, arguments = CASES[name]()
    wanted = by_value(program, arguments, sizes_of(name))
    reused = reuse_blocks(introduce(program))
    check(reused)
    agree(by_heap(reused, arguments, sizes_of(name)), wanted)


def test_a_chain_needs_two_blocks() -> None:
    before = of("chain")
    after = reuse_blocks(before)
    assert len(before.blocks) == 4
    assert len(after.blocks) == 2
    ends = last_uses(before)
    assert [len(names) for names in ends] == [0, 1, 1, 1, 1, 0, 0][: len(ends)]


def test_a_view_prolongs_a_block() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    first = doubled(b, a)
    view = b.let(fun.Slice(first, (fun.Span(N - 1, N, -1),)), array(N))
    second = doubled(b, first)
    third = doubled(b, second)
    whole = total(b, N, lambda k, i: element(k, third, i))
    last = total(b, N, lambda k, i: element(k, view, i))
    program = introduce(maker.program(whole, last))
    lives = lifetimes(program)
    assert [(life.first, life.last) for life in lives.values()] == [(0, 5), (2, 3), (3, 4)]
    assert len(reuse_blocks(program).blocks) == 3
    values = numbers(6)
    agree(by_heap(reuse_blocks(program), [values]), (8 * values.sum(), 2 * values.sum()))


def test_a_larger_array_takes_over_and_unrelated_sizes_do_not_meet() -> None:
    maker = Maker(("a", array(N)), ("c", array(N + 1)), ("d", array(M)))
    (a, c, d), b = maker.params, maker.build
    sums = []
    for source in (a, c, d):
        made = doubled(b, source)
        extent = source.type.shape[0]
        sums.append(total(b, extent, lambda k, i, made=made: element(k, made, i)))
    program = reuse_blocks(introduce(maker.program(*sums)))
    assert [str(block.bytes) for block in program.blocks] == ["8*n + 8", "8*m"]
    arguments = [numbers(3), numbers(4), numbers(5)]
    agree(by_heap(program, arguments), tuple(2 * x.sum() for x in arguments))


def test_placement_is_aligned_and_apart() -> None:
    maker = Maker(("a", array(N)), ("f", array(N, dtype=DType.BOOL)))
    (a, f), b = maker.params, maker.build

    def flags(k, i):
        return k.let(fun.Index(f, (i,)), fun.Scalar(DType.BOOL))

    bools = kernel(b, (N,), flags)
    made = doubled(b, a)

    def both(k, i):
        value = element(k, made, i)
        flag = k.let(fun.Index(bools, (i,)), fun.Scalar(DType.BOOL))
        return k.let(fun.Apply("where", (flag, value, value)), F)

    program = introduce(maker.program(total(b, N, both)))
    placement = place_blocks(program)
    ends = []
    for block in program.blocks:
        place = placement.places[block.name]
        offset = place.offset.evaluate({"n": 13})
        assert offset % (8 if "8" in str(block.bytes) else 1) == 0
        ends.append((offset, offset + block.bytes.evaluate({"n": 13})))
    (_, middle), (start, end) = sorted(ends)
    assert start - middle >= 64
    assert placement.workspace.evaluate({"n": 13}) >= end
    assert peak_bytes(program) == placement.workspace + 8


def test_threads_have_their_own() -> None:
    program = of("softmax")
    placement = place_blocks(program)
    assert str(placement.workspace) == "8*m*threads + 64*threads"
    (place,) = placement.places.values()
    assert place.stride == program.blocks[0].bytes + 64
    assert peak_bytes(program).evaluate({"n": 3, "m": 4, "threads": 2}) == 2 * 96 + 96


def test_no_blocks_is_no_work() -> None:
    program = of("views")
    assert reuse_blocks(program) is program
    assert place_blocks(program).workspace == as_poly(0)
