"""Lives of blocks at any depth, against an oracle that runs the program.

The oracle notes each cell's writes and reads: a cell is needed from a write to the last
read before the next one. Two blocks must be apart when one is written while a cell of the
other is needed; whatever the analysis lets share memory must never have been so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from mem.programs import CASES, M, Maker, N, apply, array, element, kernel, mirrored, numbers, total
from mem.test_introduce import of, placed, sizes_of
from programs.library import EXAMPLES, SIZES
from programs.random_programs import Case, programs
from slow import examples

from weft.fun import nodes as fun
from weft.fun.builder import Builder
from weft.mem.heap import Heap, Memory
from weft.mem.interpret import Evaluation
from weft.mem.last_use import blocks_of, lives
from weft.mem.nodes import Program
from weft.ops.dtypes import DType
from weft.passes.nest import nest
from weft.passes.pipeline import optimise
from weft.sizes import ZERO, Size, as_poly


class Watched(Heap):
    """A heap that remembers when each cell of a temporary block is written and read."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.clock = 0
        self.events: dict[str, dict[int, list[tuple[int, bool]]]] = {
            block.name: {} for block in program.blocks
        }

    def touch(self, memory: Memory, cells: Sequence[int], writes: bool) -> None:
        super().touch(memory, cells, writes)
        if memory.name in self.events:
            self.clock += 1
            for cell in cells:
                self.events[memory.name].setdefault(cell, []).append((self.clock, writes))

    def needed(self, block: str) -> list[tuple[int, int]]:
        """When some cell of the block holds what is read later: apart, in order."""
        spans: list[tuple[int, int]] = []
        for events in self.events[block].values():
            start = last = 0
            for clock, writes in events:
                if writes:
                    spans.append((start, last))
                    start = clock
                last = clock
            spans.append((start, last))
        joined: list[tuple[int, int]] = []
        for start, last in sorted(span for span in spans if span[1] > span[0]):
            if joined and start <= joined[-1][1]:
                joined[-1] = joined[-1][0], max(joined[-1][1], last)
            else:
                joined.append((start, last))
        return joined

    def writes(self, block: str) -> list[int]:
        return sorted(
            clock for events in self.events[block].values() for clock, writes in events if writes
        )

    def clashes(self, left: str, right: str) -> bool:
        """Whether one block is written while the other holds what is needed."""
        for written, held in ((left, right), (right, left)):
            clocks = self.writes(written)
            for start, last in self.needed(held):
                position = bisect_left(clocks, start)
                if position < len(clocks) and clocks[position] < last:
                    return True
        return False


def sound(program: Program, arguments: Sequence[Any], sizes: dict[str, int]) -> None:
    watched = Watched(program)
    Evaluation(program, arguments, sizes, watched).run()
    found = lives(program)
    for left in found.meets:
        for right in found.meets:
            if left < right and right not in found.meets[left]:
                assert left not in found.meets[right], "meeting is mutual"
                assert not watched.clashes(left, right), f"{left} and {right} are needed at once"


@pytest.mark.parametrize("name", CASES)
def test_blocks_that_do_not_meet_never_clash(name: str) -> None:
    program, arguments = CASES[name]()
    sound(placed(program), arguments, sizes_of(name))


NAMES = [name for name in EXAMPLES if not name.startswith("call_")]


@pytest.mark.parametrize("name", NAMES)
def test_library(name: str) -> None:
    example = EXAMPLES[name]
    for source in (example.program, nest(optimise(example.program))):
        sound(placed(source), example.arguments(), SIZES)


@given(case=programs())
@settings(
    max_examples=examples(150), deadline=None, derandomize=True,
    suppress_health_check=list(HealthCheck),
)
def test_random_programs(case: Case) -> None:
    sound(placed(case.program), case.arguments, case.sizes)
    sound(placed(nest(optimise(case.program))), case.arguments, case.sizes)


def test_the_oracle_sees_a_clash() -> None:
    """Two temporaries that one statement reads."""
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    left, right = mirrored(b, a), mirrored(b, a)

    def add(k: Builder, i: Size) -> fun.Atom:
        return apply(k, "add", element(k, left, N - 1 - i), element(k, right, N - 1 - i))

    both = kernel(b, (N,), add)
    program = placed(maker.program(both))
    watched = Watched(program)
    Evaluation(program, [numbers(5)], {}, watched).run()
    assert watched.clashes(*(block.name for block in program.blocks))


# ---------------------------------------------------------------- exactly


def lives_of(maker: Maker, *results: fun.Atom) -> dict[str, set[str]]:
    """For each block the others that it meets, by the names of their arrays."""
    found = lives(placed(maker.program(*results))).meets
    return {_plain(name): set(map(_plain, others)) for name, others in found.items()}


def _plain(block: str) -> str:
    return block.removeprefix("mem_").rsplit("_", 1)[0]


def test_the_end_of_a_chain() -> None:
    program = of("chain")
    found = lives(program)
    statements = program.program.body.statements
    used = [blocks_of(let) for let in statements]
    for position, let in enumerate(statements):
        name = let.pattern[0].name
        temporary = {block.name for block in program.blocks}
        last = {
            b for b in used[position] & temporary if not any(b in u for u in used[position + 1 :])
        }
        assert found.ends[name] == last
        assert not found.live[name] & found.ends[name]


def test_branches_do_not_meet_each_other() -> None:
    maker = Maker(("a", array(N)), ("s", fun.Scalar(DType.BOOL)))
    (a, s), b = maker.params, maker.build
    before = mirrored(b, a, "before")
    then, otherwise = b.inner(), b.inner()
    yes = mirrored(then, mirrored(then, before, "left"))
    no = mirrored(otherwise, mirrored(otherwise, a, "right"))
    chosen = b.let(fun.If(s, then.body([yes]), otherwise.body([no])), array(N), "chosen")
    after = total(b, N, lambda k, i: element(k, chosen, i))
    assert lives_of(maker, after) == {
        "before": {"left"},  # the other branch does not need it
        "left": {"before", "chosen"},
        "chosen": {"left", "right"},
        "right": {"chosen"},
    }


def test_a_loop_keeps_what_it_goes_round_with() -> None:
    maker = Maker(("a", array(N)))
    (a,), b = maker.params, maker.build
    outside = mirrored(b, a, "outside")
    x = b.var("p", array(N))
    inner, t = b.inner(), b.index("t")
    first = mirrored(inner, x, "first")
    second = mirrored(inner, first, "second")
    third = mirrored(inner, second, "third")
    last = kernel(
        inner,
        (N,),
        lambda k, i: apply(k, "add", element(k, third, N - 1 - i), element(k, outside, i)),
    )
    form = fun.For(t, ZERO, as_poly(3))
    (end,) = b.bind(fun.Loop((x,), (a,), form, inner.body([last])), (array(N),))
    whole = total(b, N, lambda k, i: element(k, end, i))
    found = lives_of(maker, whole)
    inside = {"first", "second", "third"}
    assert found["first"] & inside == {"second"}
    assert found["third"] & inside == {"second"}
    (carried,) = found.keys() - inside - {"outside"}
    assert found[carried] == inside | {"outside"}
    assert found["outside"] == inside | {carried}


def test_threads_keep_their_own_from_statement_to_statement() -> None:
    maker = Maker(("a", array(N, M)))
    (a,), b = maker.params, maker.build

    def row(outer: Builder, i: Size) -> fun.Atom:
        first = kernel(outer, (M,), lambda k, j: element(k, a, i, j), "first")
        second = mirrored(outer, first, "second")
        third = mirrored(outer, second, "third")
        return total(outer, M, lambda k, j: element(k, third, j))

    found = lives_of(maker, kernel(b, (N,), row))
    assert found == {"first": {"second"}, "second": {"first", "third"}, "third": {"second"}}
