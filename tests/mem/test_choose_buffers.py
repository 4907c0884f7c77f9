"""Buffers of loops: what may stand for them, and what may not; any number of rounds."""

from __future__ import annotations

import numpy as np
import pytest
from lower.harness import agree

from weft.compiler import compile_segment
from weft.fun.interpret import interpret as by_value
from weft.fun.parse import parse
from weft.mem.check import check
from weft.mem.choose_buffers import choose_buffers
from weft.mem.costs import Costs, costs
from weft.mem.hoist import hoist
from weft.mem.interpret import interpret as by_heap
from weft.mem.introduce import introduce
from weft.mem.merge_blocks import merge_blocks
from weft.mem.nodes import Program
from weft.mem.parse import parse as parse_memory
from weft.mem.short_circuit import short_circuit
from weft.mem.show import show

A = np.array([1.0, 5.0, 2.0, 8.0, 3.0])
FOR = "for k from 0 to t"
WHILE = "while { let more: bool = less(c, s) in more }"
HEAD = "program test(a: f64[n], s: i64)\n sizes n, t\n{\n"
BYTES = A.nbytes


def round_(name: str, given: str, inside: str = "") -> str:
    """A round that turns an array around and adds its neighbour: no element stays."""
    return (
        f" let {name}: f64[n] = kernel (i_{name} < n) {{\n"
        f"  let e_{name}: f64 = {given}[n - 1 - i_{name}]\n"
        f"  let f_{name}: f64 = {given}[i_{name}]\n"
        f"  let g_{name}: f64 = multiply(f_{name}, 0.5)\n"
        f"  let h_{name}: f64 = add(e_{name}, g_{name})\n"
        f"  in h_{name} }}\n{inside}"
    )


def loop(start: str = "a", form: str = FOR, more: str = "") -> str:
    body = round_("r", "p", more)
    return f"let q: f64[n] = loop (p: f64[n] = {start}) {form} {{\n{body} in r }}\n"


def passed(text: str, rounds: int) -> tuple[Program, Costs]:
    """The program after the pass, which has changed no meaning, and what it costs."""
    arguments, sizes = (A, np.int64(rounds)), {"n": A.size, "t": rounds}
    source = parse(text)
    wanted = by_value(source, arguments, sizes)
    chosen = choose_buffers(short_circuit(hoist(introduce(source))))
    merged = merge_blocks(chosen)
    for program in (chosen, merged):
        check(program, "choose_buffers")
        assert parse_memory(show(program)).choices == program.choices
        for value, expected in zip(by_heap(program, arguments, sizes), wanted, strict=True):
            np.testing.assert_array_equal(value, expected)
    agree(source, arguments, segment=compile_segment(source, {}), **sizes)
    return chosen, costs(merged, arguments, sizes)


@pytest.mark.parametrize("rounds", range(5))
def test_a_loop_swaps_its_result_and_one_block(rounds: int) -> None:
    """Reads the argument in the first round, and ends in the result; C can do no better."""
    program, cost = passed(f"{HEAD}{loop()} in q }}", rounds)
    assert [str(block.bytes) for block in program.blocks] == ["8*n"]
    assert cost.copies == (rounds == 0)
    if rounds:
        assert (cost.read_bytes, cost.written_bytes) == (2 * rounds * BYTES, rounds * BYTES)


@pytest.mark.parametrize("rounds", range(5))
def test_an_array_that_is_made_is_the_first_buffer(rounds: int) -> None:
    """It is made where the number of rounds says, such that the last one ends in the result."""
    program, cost = passed(f"{HEAD}{round_('x', 'a')}{loop('x')} in q }}", rounds)
    assert len(program.blocks) == 1
    assert cost.copies == 0


@pytest.mark.parametrize("rounds", range(5))
def test_a_while_loop_copies_only_from_the_other_buffer(rounds: int) -> None:
    text = (
        f"{HEAD}let q: f64[n], d: i64 = loop (p: f64[n] = a, c: i64 = 0) {WHILE} {{\n"
        f"{round_('r', 'p')} let o: i64 = add(c, 1) in r, o }} in q }}"
    )
    program, cost = passed(text, rounds)
    assert len(program.blocks) == 1
    assert cost.copies == (rounds % 2 == 0)


@pytest.mark.parametrize("rounds", range(4))
def test_arrays_beside_each_other(rounds: int) -> None:
    """Two that are made anew, and one that is updated in place."""
    text = (
        f"{HEAD}let z: f64[n] = broadcast 0.0 (n)\n"
        "let q: f64[n], w: f64[n], y: f64[n] = "
        "loop (p: f64[n] = a, v: f64[n] = a, u: f64[n] = z) for k from 0 to t {\n"
        f"{round_('r', 'p')}{round_('x', 'v')}"
        " let e: f64 = r[0] let l: f64[n] = update u[0] = e in r, x, l } in q, w, y }"
    )
    program, cost = passed(text, rounds)
    assert len(program.choices) == 6
    assert cost.copies == (2 if rounds == 0 else 0)


@pytest.mark.parametrize("rounds", range(4))
def test_a_loop_in_a_loop(rounds: int) -> None:
    inner = round_("w", "v")
    more = f"let x: f64[n] = loop (v: f64[n] = r) for l from 0 to 2 {{\n{inner} in w }}\n"
    text = f"{HEAD}{loop(more=more)} in q }}".replace(" in r }", " in x }")
    passed(text, rounds)


@pytest.mark.parametrize("rounds", range(4))
def test_buffers_of_which_neither_is_another_array_are_two_blocks(rounds: int) -> None:
    """Which do not share the sets of a cache, as halves of a block of a power of two would."""
    start = "let b: f64[n] = kernel (j < n) { let e: f64 = a[j] let f: f64 = exp(e) in f }\n"
    program, cost = passed(f"{HEAD}{start}{loop('b')}{round_('y', 'q')} in y }}", rounds)
    assert [str(block.bytes) for block in program.blocks] == ["8*n", "8*n"]
    assert second(program) == {block.name for block in program.blocks}
    assert cost.copies == 0


# ---------------------------------------------------------------- what is refused


def test_loops_in_kernels_keep_their_blocks() -> None:
    """A block of a thread has a place among those of the thread."""
    start = "let b: f64[n] = kernel (j < n) { let e: f64 = a[j] let f: f64 = exp(e) in f }\n"
    text = f"{HEAD}let z: f64[t, n] = kernel (i < t) {{ {start}{loop('b', 'for k from 0 to 3')}"
    program = hoist(introduce(parse(f"{text}{round_('y', 'q')} in y }}\n in z }}")))
    assert choose_buffers(program).choices == ()


def second(program: Program) -> set[str]:
    """The blocks and arguments that loops choose from."""
    return {block for choice in program.choices for block in choice.blocks}


@pytest.mark.parametrize("rounds", range(3))
def test_a_result_that_is_used_meanwhile_is_no_buffer(rounds: int) -> None:
    """What lies in the result's memory is read in a round."""
    text = (
        f"{HEAD}let b: f64[n] = kernel (j < n) {{ let e: f64 = a[j] in e }}\n"
        f"{loop(more=' let g: f64 = b[0] let o: f64[n] = update r[0] = g')} in q, b }}"
    ).replace("in r }", "in o }")
    program, _ = passed(text, rounds)
    assert "result_0" in second(program)
    assert "result_1" not in second(program)


@pytest.mark.parametrize("rounds", range(3))
def test_what_is_left_and_used_again_is_not_in_the_result(rounds: int) -> None:
    """The result is changed after it was copied, and what was copied is used."""
    text = f"{HEAD}{loop()} let x: f64[n] = update q[0] = 7.0\n{round_('y', 'q')} in x, y }}"
    program, _ = passed(text, rounds)
    assert len(program.blocks) == 2
    assert second(program) == {"a", *(block.name for block in program.blocks)}


@pytest.mark.parametrize("rounds", range(3))
def test_an_argument_is_not_read_where_it_would_be_written(rounds: int) -> None:
    """Rounds that write into what they are given are given a copy."""
    before = " let o: f64[n] = update p[0] = 9.0\n"
    text = f"{HEAD}{loop()} in q }}".replace("{\n let r:", "{\n" + before + " let r:")
    text = text.replace("p[n - 1", "o[n - 1").replace("p[i_r]", "o[i_r]")
    program, _ = passed(text, rounds)
    assert "a" not in second(program)


@pytest.mark.parametrize("rounds", range(3))
def test_an_argument_that_a_later_loop_writes_is_not_left(rounds: int) -> None:
    """A loop of no rounds would leave it, to be read after the other loop has written there."""
    body = round_("x", "w")
    other = f"let v: f64[n] = loop (w: f64[n] = q) for l from 0 to 2 {{\n{body} in x }}\n"
    text = f"{HEAD}{loop()}{other}{round_('y', 'q')} in v, y }}"
    arguments, sizes = (A, np.int64(rounds)), {"n": A.size, "t": rounds}
    source = parse(text)
    program = choose_buffers(short_circuit(hoist(introduce(source, {}, donated={"a": 0}))))
    check(program, "choose_buffers")
    wanted = by_value(source, arguments, sizes)
    for value, expected in zip(by_heap(program, arguments, sizes), wanted, strict=True):
        np.testing.assert_array_equal(value, expected)
