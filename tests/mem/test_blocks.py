"""Placement of blocks, and what views and chains need of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mem.programs import F, Maker, N, array, element, kernel, mirrored, numbers, total
from mem.test_introduce import agree, of, placed

from weft.fun import nodes as fun
from weft.lower import cpu
from weft.lower.segment import unit_of
from weft.mem.interpret import interpret as by_heap
from weft.mem.last_use import lives
from weft.mem.merge_blocks import merge_blocks
from weft.mem.place_blocks import peak_bytes, place_blocks
from weft.ops.dtypes import DType
from weft.sizes import as_poly


def test_a_chain_needs_two_blocks() -> None:
    before = of("chain")
    after = merge_blocks(before)
    assert len(before.blocks) == 4
    assert len(after.blocks) == 2
    ends = lives(before).ends
    tops = [ends[let.pattern[0].name] for let in before.program.body.statements]
    assert [len(names) for names in tops] == [0, 1, 1, 1, 1, 0]


def test_a_view_prolongs_a_block() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    first = mirrored(b, a)
    view = b.let(fun.Slice(first, (fun.Span(N - 1, N, -1),)), array(N))
    second = mirrored(b, first)
    third = mirrored(b, second)
    whole = total(b, N, lambda k, i: element(k, third, i))
    last = total(b, N, lambda k, i: element(k, view, i))
    program = placed(maker.program(whole, last))
    viewed, *others = lives(program).meets.items()
    assert viewed[1] == {name for name, _ in others}
    assert len(merge_blocks(program).blocks) == 3
    values = numbers(6)
    agree(by_heap(merge_blocks(program), [values]), (8 * values.sum(), 2 * values.sum()))


def test_placement_is_aligned_and_apart() -> None:
    maker = Maker(("a", array(N)), ("f", array(N, dtype=DType.BOOL)))
    (a, f), b = maker.params, maker.build

    def flags(k, i):
        return k.let(fun.Index(f, (i,)), fun.Scalar(DType.BOOL))

    bools = kernel(b, (N,), flags)
    made = mirrored(b, a)

    def both(k, i):
        value = element(k, made, i)
        flag = k.let(fun.Index(bools, (i,)), fun.Scalar(DType.BOOL))
        return k.let(fun.Apply("where", (flag, value, value)), F)

    program = placed(maker.program(total(b, N, both)))
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


@pytest.mark.parametrize("name", ["chain", "triangle"])
@pytest.mark.parametrize("extent", [1, 13, 64])
def test_what_lowering_adds_begins_with_a_cache_line(name: str, extent: int) -> None:
    """Whatever the bytes of blocks are, which elements of fewer bytes need not fill."""
    made = of(name)
    blocks = tuple(replace(b, bytes=b.bytes + 3 * N) for b in made.blocks)
    unit = unit_of(replace(made, blocks=blocks), cpu.lower_statement)
    known = {"n": extent, "m": 5, "threads": 3}
    end = unit.scratch_end.evaluate(known)
    first, second = (unit.blocks[unit.region(as_poly(128))].offset for _ in range(2))
    for entry in unit.derived:
        known[entry.name] = entry.evaluate(known)
    assert first.evaluate(known) == -(-end // 64) * 64
    assert second.evaluate(known) == first.evaluate(known) + 128
    assert unit.workspace.evaluate(known) >= second.evaluate(known) + 128


def test_threads_have_their_own() -> None:
    program = of("triangle")
    placement = place_blocks(program)
    assert str(placement.workspace) == "8*n*threads + 64*threads"
    (place,) = placement.places.values()
    assert place.stride == program.blocks[0].bytes + 64
    assert peak_bytes(program).evaluate({"n": 3, "threads": 2}) == 2 * 88 + 24


def test_no_blocks_is_no_work() -> None:
    program = of("views")
    assert merge_blocks(program) is program
    assert place_blocks(program).workspace == as_poly(0)
